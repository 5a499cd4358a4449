/* The records of whole RECORD lines, cut out as they stand. See records.py.
 *
 * cut() takes lines until one that it is not sure of, that is no RECORD, or that has another stream or version than the
 * first. What it takes is strict JSON in UTF-8, with an object for a record. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "_json.h"

typedef struct {
    const char *text;                    /* NULL: there is none */
    ptrdiff_t length;
} Text;

typedef struct {
    Text stream, record, version, time;
} Line;

typedef struct {
    char *records;
    ptrdiff_t size, count;
    Text stream, version, time;
} Cut;

static int same(Text one, Text other)
{
    if (!one.text || !other.text)
        return !one.text && !other.text;
    return one.length == other.length && !memcmp(one.text, other.text, (size_t)one.length);
}

/* The byte behind a text without escapes, which becomes *text with its quotes. */
static const char *read_text(const char *p, const char *end, Text *text)
{
    int escaped;
    text->text = p;
    if (*p != '"' || !(p = closing_quote(p + 1, end, &escaped)) || escaped)
        return NULL;
    text->length = p + 1 - text->text;
    return p + 1;
}

static const char *read_value(const char *p, const char *end, Text *value)
{
    const char *behind = behind_value(p, end, 0);
    *value = (Text){*p == 'n' ? NULL : p, behind ? behind - p : 0};
    return behind;
}

/* One message with its newline. */
static const char *read_line(const char *p, const char *end, Line *line)
{
    int types = 0, streams = 0, records = 0, versions = 0, times = 0, ended = 0;
    p = first_member(p);
    while (p && !ended) {
        const char *name;
        ptrdiff_t length;
        if (!(p = member_value(p, end, &name, &length)))
            return NULL;
        if (is_name(name, length, "record"))
            p = records++ || *p != '{' ? NULL : read_value(p, end, &line->record);
        else if (is_name(name, length, "type"))
            p = types++ ? NULL : behind_word(p, "\"RECORD\"");
        else if (is_name(name, length, "stream"))
            p = streams++ ? NULL : read_text(p, end, &line->stream);
        else if (is_name(name, length, "version"))
            p = versions++ ? NULL : read_value(p, end, &line->version);
        else if (is_name(name, length, "time_extracted"))
            p = times++ ? NULL : *p == 'n' ? behind_word(p, "null") : read_text(p, end, &line->time);
        else
            p = behind_value(p, end, 0);
        if (p)
            p = next_member(p, &ended);
    }
    return types && streams && records ? p : NULL;
}

/* Cuts lines from p on into room for all of them: a record is shorter than its line. Gives where the first one begins that is left. */
static const char *cut_lines(Cut *cut, const char *p, const char *end)
{
    while (p < end) {
        Line line = {0};
        const char *behind = read_line(p, end, &line);
        if (!behind || !is_utf8(p, (size_t)(behind - p)))
            break;
        if (!cut->count) {
            cut->stream = line.stream;
            cut->version = line.version;
        } else if (!same(cut->stream, line.stream) || !same(cut->version, line.version)) {
            break;
        }
        if (line.time.text)
            cut->time = line.time;
        memcpy(cut->records + cut->size, line.record.text, (size_t)line.record.length);
        cut->size += line.record.length;
        cut->records[cut->size++] = '\n';
        cut->count++;
        p = behind;
    }
    return p;
}

PyDoc_STRVAR(cut_doc,
             "cut(lines: Buffer, start: int)\n--\n\n"
             "Records with a newline each, their number, where the first line that is left begins, and as JSON the stream, the\n"
             "version and the last time of them.");

static PyObject *records_cut(PyObject *module, PyObject *args)
{
    Py_buffer lines;
    Py_ssize_t start;
    Cut cut = {0};
    const char *p;
    PyObject *records, *result = NULL;

    (void)module;
    if (!PyArg_ParseTuple(args, "y*n:cut", &lines, &start))
        return NULL;
    p = (const char *)lines.buf + start;
    if (start < 0 || start > lines.len || (lines.len && ((const char *)lines.buf)[lines.len - 1] != '\n')) {
        PyErr_Format(PyExc_ValueError, "not a place in a block of whole lines");
    } else if ((records = PyByteArray_FromStringAndSize(NULL, lines.len - start))) {
        cut.records = PyByteArray_AsString(records);
        Py_BEGIN_ALLOW_THREADS
        p = cut_lines(&cut, p, (const char *)lines.buf + lines.len);
        Py_END_ALLOW_THREADS
        if (PyByteArray_Resize(records, cut.size) < 0)
            Py_DECREF(records);
        else
            result = Py_BuildValue("(Nnny#y#y#)", records, (Py_ssize_t)cut.count,
                                   (Py_ssize_t)(p - (const char *)lines.buf), cut.stream.text,
                                   (Py_ssize_t)cut.stream.length, cut.version.text, (Py_ssize_t)cut.version.length,
                                   cut.time.text, (Py_ssize_t)cut.time.length);
    }
    PyBuffer_Release(&lines);
    return result;
}

static PyMethodDef METHODS[] = {{"cut", records_cut, METH_VARARGS, cut_doc}, {NULL, NULL, 0, NULL}};

static struct PyModuleDef MODULE = {
    PyModuleDef_HEAD_INIT, .m_name = "_records", .m_doc = "The records of RECORD lines, cut out as they stand.", .m_size = 0,
    .m_methods = METHODS,
};

PyMODINIT_FUNC PyInit__records(void) { return PyModuleDef_Init(&MODULE); }
