/* Blocks of Singer lines taken apart by stream, as far as they are sure to be good RECORD messages. See scanner.py.
 *
 * scan() takes lines until one that it is not sure of, which is left to Python. What it takes is strict JSON in UTF-8: an
 * object on each line, RECORD, of a stream that it knows, whose record is an object that has each key property. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "_json.h"
#include "_moments.h"
#include "_streams.h"

typedef struct {
    const char *begin;
    ptrdiff_t length, stream;
} Part;

typedef struct {
    const char *text;
    ptrdiff_t length, stream;
} OddTime;

/* An array that grows. */
typedef struct {
    void *items;
    ptrdiff_t count, room;
} Array;

typedef struct {
    PyObject_HEAD
    Streams known;
    Stream *current;                     /* the one before: the next line's, mostly */
    uint64_t scan;
    int busy;
    Array parts;                         /* of Part: lines of one stream in a row */
    Array order;                         /* of ptrdiff_t: the streams found, by their first line */
    Array odd;                           /* of OddTime: times that only Python can tell */
} Scanner;

typedef struct {
    Stream *stream;
    Moment time;                         /* no text: none */
    int odd;
} Line;

static void *another(Array *array, size_t size)
{
    if (array->count == array->room) {
        ptrdiff_t room = array->room ? 2 * array->room : 64;
        void *items = realloc(array->items, (size_t)room * size);
        if (!items)
            return NULL;
        array->items = items;
        array->room = room;
    }
    return (char *)array->items + (size_t)array->count++ * size;
}

/* The value of a record's member; NULL where there is no member. p is behind the brace or the comma before it, *place is
 * its place in the shape, and becomes the next one's. A key property that it names becomes one that is seen. */
static inline const char *record_value(const char *p, const char *end, Stream *stream, ptrdiff_t *place)
{
    const Beginning *before = begins_as_before(&stream->shape, *place, p, end);
    const char *begin = p, *name;
    int escaped;
    ptrdiff_t key;
    if (before) {
        see_key(stream, before->key);
        *place += bytes_of(before->length);
        return spaces(p + before->length);
    }
    p = spaces(p);
    name = p + 1;
    if (*p != '"' || !(p = closing_quote(name, end, &escaped)))
        return NULL;
    key = key_of(stream, name, p - name);
    p = spaces(p + 1);
    if (*p != ':')
        return NULL;
    p = spaces(p + 1);
    see_key(stream, key);
    *place = keep_beginning(&stream->shape, *place, begin, p - begin, key);
    return p;
}

/* The byte behind a record, an object whose key properties become those that are seen. */
static const char *read_record(const char *p, const char *end, Stream *stream)
{
    if (*p != '{')
        return NULL;
    if (!stream)
        return behind_value(p, end, 0);
    stream->seen = 0;
    p++;
    if (*spaces(p) == '}')
        return spaces(p) + 1;
    for (ptrdiff_t place = 0;;) {
        if (!(p = record_value(p, end, stream, &place)) || !(p = behind_value(p, end, 1)))
            return NULL;
        p = spaces(p);
        if (*p != ',')
            return *p == '}' ? p + 1 : NULL;
        p++;
    }
}

static const char *read_stream(Scanner *self, const char *p, const char *end, Line *line)
{
    const char *name = p + 1;
    int escaped;
    if (*p != '"' || !(p = closing_quote(name, end, &escaped)))
        return NULL;
    line->stream = find_stream(&self->known, name, p - name);
    return line->stream ? p + 1 : NULL;
}

/* A text without escapes is a moment or an odd time; anything but a text is no time. */
static const char *read_time(const char *p, const char *end, Line *line)
{
    int escaped;
    if (*p != '"')
        return behind_value(p, end, 0);
    line->time.text = p + 1;
    if (!(p = closing_quote(p + 1, end, &escaped)) || escaped)
        return NULL;
    line->time.length = p - line->time.text;
    line->odd = !is_moment(line->time.text, line->time.length);
    return p + 1;
}

/* One message with its newline. */
static const char *read_line(Scanner *self, const char *p, const char *end, Line *line)
{
    int types = 0, streams = 0, times = 0, ended = 0;
    const char *record = NULL;
    Stream *looked_for = NULL;           /* whose keys were */
    p = first_member(p);
    while (p && !ended) {
        const char *name;
        ptrdiff_t length;
        if (!(p = member_value(p, end, &name, &length)))
            return NULL;
        if (is_name(name, length, "record")) {
            if (record)
                return NULL;
            looked_for = line->stream ? line->stream : self->current;
            record = p;
            p = read_record(p, end, looked_for);
        } else if (is_name(name, length, "type")) {
            p = types++ ? NULL : behind_word(p, "\"RECORD\"");
        } else if (is_name(name, length, "stream")) {
            p = streams++ ? NULL : read_stream(self, p, end, line);
        } else if (is_name(name, length, "time_extracted")) {
            p = times++ ? NULL : read_time(p, end, line);
        } else {
            p = behind_value(p, end, 0);
        }
        if (p)
            p = next_member(p, &ended);
    }
    if (!p || !types || !streams || !record)
        return NULL;
    if (line->stream != looked_for)
        read_record(record, end, line->stream);
    return line->stream->seen == line->stream->wanted ? p : NULL;
}

/* Adds a line to what is found of its stream; -1 where there is no memory for it. */
static int take_line(Scanner *self, const Line *line, const char *begin, ptrdiff_t length, ptrdiff_t number)
{
    Stream *stream = line->stream;
    if (stream->scan != self->scan) {
        ptrdiff_t *place = another(&self->order, sizeof *place);
        if (!place)
            return -1;
        *place = stream - self->known.streams;
        stream->scan = self->scan;
        stream->records = stream->bytes = 0;
        stream->first_line = number;
        stream->first.text = stream->last.text = NULL;
    }
    if (stream == self->current && self->parts.count) {
        ((Part *)self->parts.items)[self->parts.count - 1].length += length;
    } else {
        Part *part = another(&self->parts, sizeof *part);
        if (!part)
            return -1;
        *part = (Part){begin, length, stream - self->known.streams};
    }
    if (line->odd) {
        OddTime *odd = another(&self->odd, sizeof *odd);
        if (!odd)
            return -1;
        *odd = (OddTime){line->time.text, line->time.length, stream - self->known.streams};
    } else if (line->time.text) {
        widen(&stream->first, &stream->last, line->time);
    }
    stream->records++;
    stream->bytes += length;
    self->current = stream;
    return 0;
}

/* How many lines from *p on are good, and *p behind them; -1 without memory. */
static ptrdiff_t take_lines(Scanner *self, const char **p, const char *end)
{
    ptrdiff_t lines = 0;
    self->scan++;
    self->parts.count = self->order.count = self->odd.count = 0;
    while (*p < end) {
        Line line = {0};
        const char *behind = read_line(self, *p, end, &line);
        if (!behind || !is_utf8(*p, (size_t)(behind - *p)))
            break;
        if (take_line(self, &line, *p, behind - *p, lines) < 0)
            return -1;
        *p = behind;
        lines++;
    }
    return lines;
}

/* Has each stream that was found hold its lines: the block itself where that is all of them and cannot change. They are
 * copied in the order of the block, as a processor reads ahead, and beside other threads. */
static int copy_lines(const Scanner *self, PyObject *block)
{
    const ptrdiff_t *order = self->order.items;
    const Part *parts = self->parts.items;
    Stream *streams = self->known.streams;
    for (ptrdiff_t i = 0; i < self->order.count; i++) {
        Stream *stream = streams + order[i];
        if (PyBytes_Check(block) && stream->bytes == PyBytes_Size(block)) {
            stream->lines = Py_NewRef(block);
            return 0;
        }
        if (!(stream->lines = PyBytes_FromStringAndSize(NULL, stream->bytes)))
            return -1;
        stream->to = PyBytes_AsString(stream->lines);
    }
    Py_BEGIN_ALLOW_THREADS
    for (ptrdiff_t i = 0; i < self->parts.count; i++) {
        Stream *stream = streams + parts[i].stream;
        memcpy(stream->to, parts[i].begin, (size_t)parts[i].length);
        stream->to += parts[i].length;
    }
    Py_END_ALLOW_THREADS
    return 0;
}

static int append_text(PyObject *list, const char *text, ptrdiff_t length)
{
    PyObject *value = PyUnicode_DecodeUTF8(text, length, "strict");
    int failed = !value || PyList_Append(list, value) < 0;
    Py_XDECREF(value);
    return failed ? -1 : 0;
}

/* (stream, lines, records, number of the first line from where the scan began, times that span all of its own). */
static PyObject *run_of(const Stream *stream)
{
    if (stream->first.text && (append_text(stream->times, stream->first.text, stream->first.length) < 0 ||
                               append_text(stream->times, stream->last.text, stream->last.length) < 0))
        return NULL;
    return Py_BuildValue("(OOnnO)", stream->name, stream->lines, (Py_ssize_t)stream->records,
                         (Py_ssize_t)stream->first_line, stream->times);
}

/* What was found of each stream, by their first lines. */
static PyObject *runs_of(const Scanner *self, PyObject *block)
{
    const ptrdiff_t *order = self->order.items, count = self->order.count;
    const OddTime *odd = self->odd.items;
    Stream *streams = self->known.streams;
    PyObject *runs = PyList_New(count);
    int failed = !runs;
    for (ptrdiff_t i = 0; i < count; i++)
        failed |= !(streams[order[i]].times = PyList_New(0));
    failed = failed || copy_lines(self, block) < 0;
    for (ptrdiff_t i = 0; i < self->odd.count && !failed; i++)
        failed = append_text(streams[odd[i].stream].times, odd[i].text, odd[i].length) < 0;
    for (ptrdiff_t i = 0; i < count && !failed; i++) {
        PyObject *run = run_of(streams + order[i]);
        failed = !run || PyList_SetItem(runs, i, run) < 0;
    }
    for (ptrdiff_t i = 0; i < count; i++) {
        Py_CLEAR(streams[order[i]].times);
        Py_CLEAR(streams[order[i]].lines);
    }
    if (failed)
        Py_CLEAR(runs);
    return runs;
}

PyDoc_STRVAR(scan_doc,
             "scan(block: bytes | bytearray, start: int)\n--\n\n"
             "Where the first line that is left begins, the lines before it from start on, and their runs by stream.");

static PyObject *scan_lines(Scanner *self, PyObject *block, const char *begin, Py_ssize_t size, Py_ssize_t start)
{
    PyObject *runs;
    const char *p;
    ptrdiff_t lines;

    if (start < 0 || start > size || (size && begin[size - 1] != '\n'))
        return PyErr_Format(PyExc_ValueError, "not a place in a block of whole lines");
    if (self->busy)
        return PyErr_Format(PyExc_RuntimeError, "in use by another thread");
    self->busy = 1;
    p = begin + start;
    Py_BEGIN_ALLOW_THREADS
    lines = take_lines(self, &p, begin + size);
    Py_END_ALLOW_THREADS
    runs = lines < 0 ? PyErr_NoMemory() : runs_of(self, block);
    self->busy = 0;
    return runs ? Py_BuildValue("(nnN)", (Py_ssize_t)(p - begin), (Py_ssize_t)lines, runs) : NULL;
}

static PyObject *scanner_scan(PyObject *object, PyObject *args)
{
    Scanner *self = (Scanner *)object;
    PyObject *block, *found;
    Py_ssize_t start;
    Py_buffer view;                      /* while it is held, a bytearray keeps its place and its length */

    if (!PyArg_ParseTuple(args, "On:scan", &block, &start) || PyObject_GetBuffer(block, &view, PyBUF_SIMPLE) < 0)
        return NULL;
    found = scan_lines(self, block, view.buf, view.len, start);
    PyBuffer_Release(&view);
    return found;
}

PyDoc_STRVAR(know_doc,
             "know(stream: str, names: tuple[bytes, ...], keys: tuple[tuple[bytes, ...], ...])\n--\n\n"
             "Add a stream, or change its key properties; names and keys as JSON spells them, without quotes.");

static PyObject *scanner_know(PyObject *object, PyObject *args)
{
    Scanner *self = (Scanner *)object;
    PyObject *stream, *names, *keys;
    if (!PyArg_ParseTuple(args, "UOO:know", &stream, &names, &keys))
        return NULL;
    if (self->busy)
        return PyErr_Format(PyExc_RuntimeError, "in use by another thread");
    self->current = NULL;
    if (know_stream(&self->known, stream, names, keys) < 0)
        return NULL;
    Py_RETURN_NONE;
}

static void scanner_dealloc(PyObject *object)
{
    Scanner *self = (Scanner *)object;
    PyTypeObject *type = Py_TYPE(object);
    forget_all(&self->known);
    free(self->parts.items);
    free(self->order.items);
    free(self->odd.items);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(object);
    Py_DECREF(type);
}

static PyMethodDef METHODS[] = {
    {"know", scanner_know, METH_VARARGS, know_doc},
    {"scan", scanner_scan, METH_VARARGS, scan_doc},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot SLOTS[] = {
    {Py_tp_doc, "Takes blocks of lines apart by stream; of one thread at a time."},
    {Py_tp_dealloc, scanner_dealloc},
    {Py_tp_methods, METHODS},
    {0, NULL},
};

static PyType_Spec SPEC = {
    .name = "singerlake.format.lines._scanner.Scanner", .basicsize = sizeof(Scanner), .flags = Py_TPFLAGS_DEFAULT,
    .slots = SLOTS,
};

static int execute(PyObject *module)
{
    PyObject *type = PyType_FromModuleAndSpec(module, &SPEC, NULL);
    int failed = !type || PyModule_AddType(module, (PyTypeObject *)type) < 0;
    Py_XDECREF(type);
    return failed ? -1 : 0;
}

static PyModuleDef_Slot MODULE_SLOTS[] = {{Py_mod_exec, execute}, {0, NULL}};

static struct PyModuleDef MODULE = {
    PyModuleDef_HEAD_INIT, .m_name = "_scanner", .m_doc = "Blocks of Singer lines, taken apart by stream.",
    .m_size = 0, .m_slots = MODULE_SLOTS,
};

PyMODINIT_FUNC PyInit__scanner(void) { return PyModuleDef_Init(&MODULE); }
