/* Where the lines of a text end, and whether it holds the word of SCHEMA messages. See newlines.py. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stddef.h>
#include <string.h>

#define WORD "\"SCHEMA\""
#define LENGTH 8
#define STEP 4096                        /* bytes looked through before the answer is asked for */

static int has_word_at_all(const char *p, size_t size)
{
    const char *end = p + size;
    while ((size_t)(end - p) >= LENGTH && (p = memchr(p, '"', (size_t)(end - p) - LENGTH + 1)) != NULL) {
        if (!memcmp(p, WORD, LENGTH))
            return 1;
        p++;
    }
    return 0;
}

/* Most texts hold nothing that begins like the word: a loop without a branch in it, which compilers make fast, says so. */
static int has_word(const char *p, size_t size)
{
    size_t at, step;
    for (; size >= LENGTH; p += step, size -= step) {
        unsigned char begins = 0;
        step = size - LENGTH + 1 < STEP ? size - LENGTH + 1 : STEP;
        for (at = 0; at < step; at++)
            begins |= (unsigned char)((p[at] == '"') & (p[at + 1] == 'S') & (p[at + 2] == 'C') & (p[at + 3] == 'H'));
        if (begins && has_word_at_all(p, step + LENGTH - 1))
            return 1;
    }
    return 0;
}

static ptrdiff_t count(const char *p, size_t size)
{
    const char *end = p + size;
    ptrdiff_t found = 0;
    while (p < end && (p = memchr(p, '\n', (size_t)(end - p))) != NULL) {
        found++;
        p++;
    }
    return found;
}

PyDoc_STRVAR(look_doc, "look(text: bytes)\n--\n\nHow many newlines, and whether the word \"SCHEMA\" stands in it, in quotes.");

static PyObject *newlines_look(PyObject *module, PyObject *text)
{
    char *begin;
    Py_ssize_t size;
    ptrdiff_t found;
    int word;

    (void)module;
    if (PyBytes_AsStringAndSize(text, &begin, &size) < 0)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    found = count(begin, (size_t)size);
    word = has_word(begin, (size_t)size);
    Py_END_ALLOW_THREADS
    return Py_BuildValue("(nN)", (Py_ssize_t)found, PyBool_FromLong(word));
}

PyDoc_STRVAR(end_of_doc, "end_of(text: bytes, lines: int, start: int)\n--\n\n"
             "The position behind the lines-th newline from start on. Raises ValueError where there are fewer.");

static PyObject *newlines_end_of(PyObject *module, PyObject *args)
{
    PyObject *text;
    char *begin;
    const char *p, *end;
    Py_ssize_t size, lines, start;

    (void)module;
    if (!PyArg_ParseTuple(args, "Snn:end_of", &text, &lines, &start) || PyBytes_AsStringAndSize(text, &begin, &size) < 0)
        return NULL;
    if (start < 0 || start > size) {
        PyErr_SetString(PyExc_ValueError, "start is not in the text");
        return NULL;
    }
    p = begin + start;
    end = begin + size;
    for (; lines > 0; lines--) {
        p = p < end ? memchr(p, '\n', (size_t)(end - p)) : NULL;
        if (p == NULL) {
            PyErr_SetString(PyExc_ValueError, "newline not found");
            return NULL;
        }
        p++;
    }
    return PyLong_FromSsize_t(p - begin);
}

static PyMethodDef METHODS[] = {
    {"look", newlines_look, METH_O, look_doc},
    {"end_of", newlines_end_of, METH_VARARGS, end_of_doc},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef MODULE = {
    PyModuleDef_HEAD_INIT, .m_name = "_newlines", .m_doc = "Where the lines of a text end.", .m_size = 0,
    .m_methods = METHODS,
};

PyMODINIT_FUNC PyInit__newlines(void) { return PyModuleDef_Init(&MODULE); }
