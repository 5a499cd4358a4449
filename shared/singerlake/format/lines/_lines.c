/* What whole Singer lines are, without taking them apart: counted. See counted.py.
 *
 * count() takes a block or leaves it. What it takes is strict JSON of RECORD and ACTIVATE_VERSION messages of one stream,
 * an object on each line; anything that it is not sure of is left to Python. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "_json.h"
#include "_moments.h"

typedef struct {
    const char *end;
    const char *stream;
    ptrdiff_t stream_length;
    int times;                           /* whether they are wanted */
    ptrdiff_t messages, records;
    Moment first, last;
} Count;

/* The byte behind the value of "time_extracted", which becomes *time where it is a moment. */
static const char *read_time(const Count *count, const char *p, Moment *time)
{
    int escaped;
    if (*p == 'n')
        return behind_word(p, "null");
    time->text = p + 1;
    if (*p != '"' || !(p = closing_quote(p + 1, count->end, &escaped)))
        return NULL;
    time->length = p - time->text;
    return is_moment(time->text, time->length) ? p + 1 : NULL;
}

/* One message with its newline. */
static const char *read_message(Count *count, const char *p)
{
    int types = 0, streams = 0, times = 0, is_record = 0, ended = 0;
    Moment time = {0};
    p = first_member(p);
    while (p && !ended) {
        const char *name, *value;
        ptrdiff_t length;
        if (!(value = p = member_value(p, count->end, &name, &length)))
            return NULL;
        if (count->times && is_name(name, length, "time_extracted")) {
            p = times++ ? NULL : read_time(count, p, &time);
        } else if (is_name(name, length, "type")) {
            p = behind_word(value, "\"RECORD\"");
            is_record = p != NULL;
            if (!p)
                p = behind_word(value, "\"ACTIVATE_VERSION\"");
            types++;
        } else {
            p = behind_value(p, count->end, 0);
            if (p && is_name(name, length, "stream")) {
                if (p - value != count->stream_length + 2 || *value != '"' ||
                    memcmp(value + 1, count->stream, (size_t)count->stream_length))
                    return NULL;
                streams++;
            }
        }
        if (p)
            p = next_member(p, &ended);
    }
    if (!p || types != 1 || streams != 1)
        return NULL;
    count->messages++;
    count->records += is_record;
    if (is_record && time.text)
        widen(&count->first, &count->last, time);
    return p;
}

/* Counts the messages from begin to count->end, which is behind a newline. False where one of them is not sure to be such a
 * message. */
static int count_messages(Count *count, const char *begin)
{
    const char *p = begin;
    if (!is_utf8(begin, (size_t)(count->end - begin)))
        return 0;
    while (p && p < count->end)
        p = read_message(count, p);
    return p != NULL;
}

PyDoc_STRVAR(count_doc,
             "count(block: bytes, stream: bytes, times: bool)\n--\n\n"
             "Messages, records, and the first and last text of their times; None where it leaves the block.");

static PyObject *lines_count(PyObject *module, PyObject *args)
{
    Count count = {0};
    PyObject *block;
    char *begin;
    Py_ssize_t size, stream_length;
    int counted;

    (void)module;
    if (!PyArg_ParseTuple(args, "Sy#p:count", &block, &count.stream, &stream_length, &count.times) ||
        PyBytes_AsStringAndSize(block, &begin, &size) < 0)
        return NULL;
    /* A name with a backslash is never written as it is. */
    if (size == 0 || begin[size - 1] != '\n' || memchr(count.stream, '\\', (size_t)stream_length))
        Py_RETURN_NONE;
    count.stream_length = stream_length;
    count.end = begin + size;
    Py_BEGIN_ALLOW_THREADS
    counted = count_messages(&count, begin);
    Py_END_ALLOW_THREADS
    if (!counted)
        Py_RETURN_NONE;
    return Py_BuildValue("(nny#y#)", (Py_ssize_t)count.messages, (Py_ssize_t)count.records, count.first.text,
                         (Py_ssize_t)count.first.length, count.last.text, (Py_ssize_t)count.last.length);
}

static PyMethodDef METHODS[] = {{"count", lines_count, METH_VARARGS, count_doc}, {NULL, NULL, 0, NULL}};

static struct PyModuleDef MODULE = {
    PyModuleDef_HEAD_INIT, .m_name = "_lines", .m_doc = "What whole Singer lines are, without taking them apart.",
    .m_size = 0, .m_methods = METHODS,
};

PyMODINIT_FUNC PyInit__lines(void) { return PyModuleDef_Init(&MODULE); }
