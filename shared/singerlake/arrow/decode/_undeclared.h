/* What a record holds and no schema declares, as the JSON of its shape with nothing else in it: for _plain.c.
 *
 * It is written while the record is read, an object or array only once something undeclared is found within. The text is
 * that of rescue.as_json, to the byte; where the two could differ, the chunk is left. */

#ifndef SINGERLAKE_UNDECLARED_H
#define SINGERLAKE_UNDECLARED_H

#include "../../format/lines/_json.h"

#define MOST_SAID 256                    /* undeclared names that are kept in mind, in the objects of one path */

/* What is declared in a value; see ../schema/known.py. */
typedef struct Node Node;

typedef struct {
    const char *name;
    Py_ssize_t length;
    Node *inside;                        /* NULL: nothing in it is looked at */
    uint64_t seen;                       /* the last object that it stood in */
} Name;

struct Node {
    Node *element;                       /* of an array's elements; NULL for an object */
    Name *names;
    Py_ssize_t count;
    Py_ssize_t expected;                 /* the name that the next property is likely to have */
    Node *made_before;
};

/* An object or array that is being read, and whether it stands in the text. */
typedef struct Level {
    struct Level *outer;
    int array, open;
    Py_ssize_t written;                  /* members or elements in the text so far */
    Py_ssize_t index;                    /* of an array: the element that is read now */
    const char *name;                    /* of an object: the member that is read now */
    Py_ssize_t length;
    Py_ssize_t said;                     /* how many names were in mind before it */
} Level;

typedef struct {
    const char *end;                     /* of the chunk */
    char *text;                          /* of all rows */
    size_t length, room;
    Name said[MOST_SAID];                /* the members that were written, of each open level */
    Py_ssize_t said_count;
    PyObject *offsets, *valid;           /* bytes, once there is anything */
    Py_ssize_t held;                     /* rows with any */
    Node *nodes;                         /* all that were made */
    uint64_t objects;
    int error;                           /* a Python exception is set */
} Rest;

static inline PyObject *zeroed(Py_ssize_t size, int byte)
{
    PyObject *bytes = PyBytes_FromStringAndSize(NULL, size);
    if (bytes)
        memset(PyBytes_AsString(bytes), byte, (size_t)size);
    return bytes;
}

static inline int put(Rest *rest, const char *text, size_t length)
{
    if (rest->length + length > INT32_MAX)
        return -1;
    if (rest->length + length > rest->room) {
        size_t room = 2 * (rest->length + length) + 1024;
        char *more = PyMem_Realloc(rest->text, room);
        if (!more) {
            PyErr_NoMemory();
            rest->error = 1;
            return -1;
        }
        rest->text = more;
        rest->room = room;
    }
    memcpy(rest->text + rest->length, text, length);
    rest->length += length;
    return 0;
}

static inline int was_said(const Rest *rest, const Level *level)
{
    for (Py_ssize_t i = level->said; i < rest->said_count; i++)
        if (rest->said[i].length == level->length && !memcmp(rest->said[i].name, level->name, (size_t)level->length))
            return 1;
    return 0;
}

/* What stands before the member or element of a level that is read now. Elements with nothing undeclared are null. */
static inline int put_place(Rest *rest, Level *level)
{
    for (; level->array && level->written < level->index; level->written++)
        if (put(rest, level->written ? ",null" : "null", level->written ? 5 : 4) < 0)
            return -1;
    if (level->written++ && put(rest, ",", 1) < 0)
        return -1;
    if (level->array)
        return 0;
    if (rest->said_count == MOST_SAID)
        return -1;
    rest->said[rest->said_count].name = level->name;
    rest->said[rest->said_count++].length = level->length;
    return put(rest, "\"", 1) < 0 || put(rest, level->name, (size_t)level->length) < 0 ? -1 : put(rest, "\":", 2);
}

static inline int put_open(Rest *rest, Level *level)
{
    if (level->open)
        return 0;
    if (level->outer && (put_open(rest, level->outer) < 0 || put_place(rest, level->outer) < 0))
        return -1;
    level->open = 1;
    level->said = rest->said_count;
    return put(rest, level->array ? "[" : "{", 1);
}

static inline int put_close(Rest *rest, Level *level)
{
    if (!level->open)
        return 0;
    rest->said_count = level->said;
    return put(rest, level->array ? "]" : "}", 1);
}

/* Passes over the value at p of the member that level reads now, which no schema declares. NULL also where the member
 * stood there before: of two the last one counts, and the first is written. */
static inline const char *read_undeclared(Rest *rest, const char *p, Level *level, int depth)
{
    const char *end = level->open && was_said(rest, level) ? NULL : behind_value(p, rest->end, depth);
    if (!end || put_open(rest, level) < 0 || put_place(rest, level) < 0 || put(rest, p, (size_t)(end - p)) < 0)
        return NULL;
    return end;
}

/* The byte behind the name that begins at *p and its closing quote; in *found the one of a node or NULL. */
static inline const char *known_name(const Rest *rest, const char *p, Node *node, Name **found)
{
    int escaped;
    const char *end = closing_quote(p, rest->end, &escaped);
    *found = NULL;
    if (!end || escaped)
        return NULL;
    for (Py_ssize_t tried = 0; tried < node->count; tried++) {
        Py_ssize_t place = (node->expected + tried) % node->count;
        Name *name = node->names + place;
        if (name->length == end - p && !memcmp(p, name->name, (size_t)name->length)) {
            *found = name;
            node->expected = (place + 1) % node->count;
            break;
        }
    }
    return end + 1;
}

/* As behind_value, with an eye to what is declared. NULL also where a member that may hold something undeclared stands
 * twice. */
static inline const char *read_known(Rest *rest, const char *p, Node *node, Level *outer, int depth)
{
    Level level = {0};
    uint64_t object = ++rest->objects;
    char close = node && node->element ? ']' : '}';
    if (!node || *p != (node->element ? '[' : '{'))
        return behind_value(p, rest->end, depth);
    if (depth >= DEEPEST)
        return NULL;
    level.outer = outer;
    level.array = node->element != NULL;
    node->expected = 0;
    p = spaces(p + 1);
    if (*p == close)
        return p + 1;
    for (;; level.index++) {
        if (level.array) {
            p = read_known(rest, p, node->element, &level, depth + 1);
        } else {
            Name *found;
            level.name = p + 1;
            if (*p != '"' || !(p = known_name(rest, p + 1, node, &found)))
                return NULL;
            level.length = p - 1 - level.name;
            p = spaces(p);
            if (*p != ':')
                return NULL;
            p = spaces(p + 1);
            if (found && !found->inside)
                p = behind_value(p, rest->end, depth + 1);
            else if (!found)
                p = read_undeclared(rest, p, &level, depth + 1);
            else
                p = found->seen == object ? NULL : read_known(rest, p, found->inside, &level, depth + 1);
            if (found)
                found->seen = object;
        }
        if (!p)
            return NULL;
        p = spaces(p);
        if (*p != ',')
            break;
        p = spaces(p + 1);
    }
    return *p == close && put_close(rest, &level) == 0 ? p + 1 : NULL;
}

/* Notes what of a row's record no schema declares. */
static inline int end_rest(Rest *rest, Level *record, Py_ssize_t row, Py_ssize_t rows)
{
    if (record->open) {
        if (put_close(rest, record) < 0)
            return -1;
        if (!rest->offsets) {
            rest->offsets = zeroed(4 * (rows + 1), 0);
            rest->valid = zeroed((rows + 7) / 8, 0);
            if (!rest->offsets || !rest->valid) {
                rest->error = 1;
                return -1;
            }
        }
        PyBytes_AsString(rest->valid)[row / 8] |= (char)(1 << row % 8);
        rest->held++;
    }
    if (rest->offsets)
        ((int32_t *)PyBytes_AsString(rest->offsets))[row + 1] = (int32_t)rest->length;
    return 0;
}

/* (nulls, validity, offsets, texts), or None */
static inline PyObject *rest_of(const Rest *rest, Py_ssize_t rows)
{
    if (!rest->offsets)
        return Py_NewRef(Py_None);
    return Py_BuildValue("(nOOy#)", rows - rest->held, rest->valid, rest->offsets, rest->text, (Py_ssize_t)rest->length);
}

/* The node that given describes: None, a tuple of (name, what is inside) for an object, or a list of what is inside for an
 * array. Returns -1 with an exception set where it is none of these. */
static inline int node_of(Rest *rest, PyObject *given, int depth, Node **node)
{
    *node = NULL;
    if (given == Py_None || depth > DEEPEST)
        return 0;                        /* a record that goes deeper is left */
    if (!PyTuple_Check(given) && !(PyList_Check(given) && PyList_Size(given) == 1)) {
        PyErr_SetString(PyExc_ValueError, "no description of what is known");
        return -1;
    }
    if (!(*node = PyMem_Calloc(1, sizeof(Node)))) {
        PyErr_NoMemory();
        return -1;
    }
    (*node)->made_before = rest->nodes;
    rest->nodes = *node;
    if (PyList_Check(given))
        return node_of(rest, PyList_GetItem(given, 0), depth + 1, &(*node)->element);
    (*node)->names = PyMem_Calloc((size_t)PyTuple_Size(given) + 1, sizeof(Name));
    if (!(*node)->names) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t i = 0; i < PyTuple_Size(given); i++) {
        PyObject *name, *inside;
        Name *to = (*node)->names + (*node)->count++;
        char *bytes;
        if (!PyArg_ParseTuple(PyTuple_GetItem(given, i), "SO", &name, &inside) ||
            PyBytes_AsStringAndSize(name, &bytes, &to->length) < 0 ||
            node_of(rest, inside, depth + 1, &to->inside) < 0)
            return -1;
        to->name = bytes;
    }
    return 0;
}

static inline void let_go_of_rest(Rest *rest)
{
    PyMem_Free(rest->text);
    Py_XDECREF(rest->offsets);
    Py_XDECREF(rest->valid);
    while (rest->nodes) {
        Node *node = rest->nodes;
        rest->nodes = node->made_before;
        PyMem_Free(node->names);
        PyMem_Free(node);
    }
}

#endif
