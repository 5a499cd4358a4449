/* What whole Singer lines are, without taking them apart: counted. See counted.py.
 *
 * count() takes a block or leaves it. What it takes is strict JSON of RECORD and ACTIVATE_VERSION messages of one stream,
 * an object on each line; whatever it is not sure of is left to Python. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "_count.h"

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
    counted = count_lines(&count, begin);
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
