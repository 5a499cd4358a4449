/* The streams that a scanner knows: found by the name as it stands in a message, each with its key properties, with the
 * shape of its records and with what the scan under way has found of it. Needs Python.h and _moments.h.
 *
 * Names are compared as JSON spells them; a stream and a key have each spelling that writers use. Records of one stream
 * mostly have the same names in the same order, so that a comparison of bytes tells what was told of the record before:
 * that is their shape. */

#ifndef SINGERLAKE_STREAMS_H
#define SINGERLAKE_STREAMS_H

#include <stdlib.h>

#define LONGEST 60                       /* bytes of a beginning that is kept */
#define MOST 8192                        /* bytes of a shape */
#define MOST_KEYS 63                     /* key properties of a stream: the records of one with more are all left */
#define NEVER_SEEN ((uint64_t)1 << MOST_KEYS)

/* How a member begins. Behind this is the text, from behind the brace or the comma up to the value, as in `"name": `. */
typedef struct {
    int16_t length;                      /* of the text; 0: it is not kept */
    int16_t key;                         /* the number of the key property that it names; -1: none */
} Beginning;

/* How the members of a record begin, one behind the other in their order: what is near in memory is read fast, also where
 * many streams take turns. */
typedef struct {
    char *beginnings;
    ptrdiff_t size, room;
} Shape;

typedef struct {
    const char *text;                    /* in a bytes object that the stream holds */
    ptrdiff_t length;
    ptrdiff_t of;                        /* the number of the stream, or of the key property */
} Spelling;

/* What each record of a stream needs comes first, as it is read for each. */
typedef struct {
    Shape shape;
    uint64_t seen, wanted;               /* bits: the key properties that the record at hand has, and all of them */
    /* What the scan has found; good where .scan is that of the scanner. */
    uint64_t scan;
    ptrdiff_t records, bytes, first_line;
    Moment first, last;
    PyObject *times, *lines;
    char *to;                            /* where the next of its lines is copied to */
    PyObject *name;                      /* what is given back */
    PyObject *names, *kept;              /* what holds the texts */
    Spelling *keys;                      /* all spellings of all key properties */
    ptrdiff_t spellings;
    uint64_t lengths;                    /* bits: the lengths of the spellings, modulo 64 */
} Stream;

typedef struct {
    Stream *streams;
    Spelling *names;                     /* a table with open addressing; no text: free */
    ptrdiff_t count, room, taken, slots;
} Streams;

/* The bytes of a shape that a beginning takes. */
static inline ptrdiff_t bytes_of(ptrdiff_t length)
{
    return ((ptrdiff_t)sizeof(Beginning) + length + 7) & ~(ptrdiff_t)7;
}

/* How the member at this place of the shape began in a record before, if this one begins with the same bytes; else NULL. */
static inline const Beginning *begins_as_before(const Shape *shape, ptrdiff_t place, const char *p, const char *end)
{
    const Beginning *kept;
    if (place >= shape->size)
        return NULL;
    kept = (const Beginning *)(shape->beginnings + place);
    if (!kept->length || end - p < kept->length)
        return NULL;
    return memcmp(kept + 1, p, (size_t)kept->length) ? NULL : kept;
}

/* Keeps how the member at a place begins, for the records behind it, and gives the place of the next one. Where it takes
 * more room or less than what was kept there, those behind are forgotten. What cannot be kept is found anew in each record. */
static inline ptrdiff_t keep_beginning(Shape *shape, ptrdiff_t place, const char *text, ptrdiff_t length, ptrdiff_t key)
{
    Beginning *kept;
    ptrdiff_t behind;
    if (length > LONGEST)
        length = 0;
    behind = place + bytes_of(length);
    if (behind > MOST)
        return MOST;
    if (behind > shape->room) {
        ptrdiff_t room = behind > shape->room + 512 ? behind : shape->room + 512;
        char *beginnings = realloc(shape->beginnings, (size_t)room);
        if (!beginnings)
            return MOST;
        shape->beginnings = beginnings;
        shape->room = room;
    }
    kept = (Beginning *)(shape->beginnings + place);
    if (place >= shape->size || bytes_of(kept->length) != bytes_of(length))
        shape->size = behind;
    *kept = (Beginning){(int16_t)length, (int16_t)key};
    memcpy(kept + 1, text, (size_t)length);
    return behind;
}

static inline void forget_shape(Shape *shape)
{
    free(shape->beginnings);
    *shape = (Shape){0};
}

static uint32_t hash_of(const char *text, ptrdiff_t length)
{
    uint32_t hash = 2166136261u;         /* FNV-1a */
    for (ptrdiff_t i = 0; i < length; i++)
        hash = (hash ^ (unsigned char)text[i]) * 16777619u;
    return hash;
}

/* Where a name is in the table, or would be. */
static Spelling *slot_of(const Streams *all, const char *text, ptrdiff_t length)
{
    ptrdiff_t at = hash_of(text, length) & (all->slots - 1);
    while (all->names[at].text &&
           (all->names[at].length != length || memcmp(all->names[at].text, text, (size_t)length)))
        at = (at + 1) & (all->slots - 1);
    return all->names + at;
}

static Stream *find_stream(const Streams *all, const char *text, ptrdiff_t length)
{
    Spelling *slot = all->slots ? slot_of(all, text, length) : NULL;
    return slot && slot->text ? all->streams + slot->of : NULL;
}

/* Keeps half of the table free. */
static int make_room(Streams *all, ptrdiff_t more)
{
    if (all->count == all->room) {
        ptrdiff_t room = all->room ? 2 * all->room : 8;
        Stream *streams = realloc(all->streams, (size_t)room * sizeof *streams);
        if (!streams)
            return -1;
        all->streams = streams;
        all->room = room;
    }
    if (2 * (all->taken + more) > all->slots) {
        ptrdiff_t slots = all->slots ? all->slots : 16;
        Spelling *before = all->names, *names;
        ptrdiff_t were = all->slots;
        while (2 * (all->taken + more) > slots)
            slots *= 2;
        if (!(names = calloc((size_t)slots, sizeof *names)))
            return -1;
        all->names = names;
        all->slots = slots;
        for (ptrdiff_t i = 0; i < were; i++)
            if (before[i].text)
                *slot_of(all, before[i].text, before[i].length) = before[i];
        free(before);
    }
    return 0;
}

/* A tuple of bytes, as spellings of number `of`, written from *to on; moves *to behind them. */
static int spellings_of(PyObject *tuple, ptrdiff_t of, Spelling **to)
{
    for (Py_ssize_t i = 0; i < PyTuple_Size(tuple); i++) {
        char *text;
        Py_ssize_t length;
        if (PyBytes_AsStringAndSize(PyTuple_GetItem(tuple, i), &text, &length) < 0)
            return -1;
        *(*to)++ = (Spelling){text, length, of};
    }
    return 0;
}

static Py_ssize_t tuple_size(PyObject *object)
{
    return PyTuple_Check(object) ? PyTuple_Size(object) : (PyErr_SetString(PyExc_TypeError, "not a tuple"), -1);
}

/* A tuple of a tuple of spellings for each key property; *stream is as it was where that fails. Of too many none is kept,
 * and no record has all of them. */
static int take_keys(Stream *stream, PyObject *keys)
{
    Py_ssize_t count = tuple_size(keys), spellings = 0;
    Spelling *made, *to;
    int too_many = count > MOST_KEYS;
    if (count < 0)
        return -1;
    if (too_many)
        count = 0;
    for (Py_ssize_t i = 0; i < count; i++) {
        Py_ssize_t more = tuple_size(PyTuple_GetItem(keys, i));
        if (more < 0)
            return -1;
        spellings += more;
    }
    to = made = malloc((size_t)(spellings + 1) * sizeof *made);
    if (!made)
        PyErr_NoMemory();
    for (Py_ssize_t i = 0; i < count && !PyErr_Occurred(); i++)
        spellings_of(PyTuple_GetItem(keys, i), i, &to);
    if (PyErr_Occurred()) {
        free(made);
        return -1;
    }
    free(stream->keys);
    Py_XDECREF(stream->kept);
    forget_shape(&stream->shape);        /* which names key properties by their number */
    stream->kept = Py_NewRef(keys);
    stream->keys = made;
    stream->lengths = 0;
    for (Py_ssize_t i = 0; i < spellings; i++)
        stream->lengths |= (uint64_t)1 << (made[i].length & 63);
    stream->spellings = spellings;
    stream->wanted = too_many ? NEVER_SEEN : ((uint64_t)1 << count) - 1;
    return 0;
}

/* Adds a stream, or replaces the key properties of the one that has these names. */
static int know_stream(Streams *all, PyObject *name, PyObject *names, PyObject *keys)
{
    Stream fresh = {0}, *stream;
    Py_ssize_t count = tuple_size(names);
    Spelling *made, *to;
    if (count < 1)
        return count < 0 ? -1 : (PyErr_SetString(PyExc_ValueError, "no name"), -1);
    to = made = malloc((size_t)count * sizeof *made);
    if (!made || make_room(all, count) < 0)
        PyErr_NoMemory();
    if (PyErr_Occurred() || spellings_of(names, all->count, &to) < 0) {
        free(made);
        return -1;
    }
    stream = find_stream(all, made->text, made->length);
    if (take_keys(stream ? stream : &fresh, keys) < 0) {
        free(made);
        return -1;
    }
    if (!stream) {
        stream = all->streams + all->count++;
        *stream = fresh;
        stream->name = Py_NewRef(name);
        stream->names = Py_NewRef(names);
        for (Py_ssize_t i = 0; i < count; i++) {
            Spelling *slot = slot_of(all, made[i].text, made[i].length);
            all->taken += !slot->text;
            *slot = made[i];
        }
    }
    free(made);
    return 0;
}

static void forget_all(Streams *all)
{
    for (ptrdiff_t i = 0; i < all->count; i++) {
        Py_XDECREF(all->streams[i].name);
        Py_XDECREF(all->streams[i].names);
        Py_XDECREF(all->streams[i].kept);
        free(all->streams[i].keys);
        forget_shape(&all->streams[i].shape);
    }
    free(all->streams);
    free(all->names);
}

/* The number of the key property that has this name; -1: none. */
static inline ptrdiff_t key_of(const Stream *stream, const char *text, ptrdiff_t length)
{
    if (stream->lengths >> (length & 63) & 1)
        for (const Spelling *key = stream->keys; key < stream->keys + stream->spellings; key++)
            if (key->length == length && !memcmp(key->text, text, (size_t)length))
                return key->of;
    return -1;
}

static inline void see_key(Stream *stream, ptrdiff_t key)
{
    if (key >= 0)
        stream->seen |= (uint64_t)1 << key;
}

#endif
