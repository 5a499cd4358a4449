/* Many small files of one machine's disks, read one after another without the interpreter's lock. See local.py.
 *
 * read() takes a file or leaves it: what is longer, is a link or no file, or cannot be read, is for Python to open, which
 * says why. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct {
    const char *name;
    size_t begin;                        /* in what was read of all */
    ptrdiff_t size;                      /* -1: left */
} File;

typedef struct {
    char *data;
    size_t used, room;
} Text;

static int make_room(Text *text, size_t more)
{
    size_t room = 2 * text->room > text->used + more ? 2 * text->room : text->used + more;
    char *data;
    if (text->used + more <= text->room)
        return 1;
    if (!(data = realloc(text->data, room)))
        return 0;
    text->data = data;
    text->room = room;
    return 1;
}

/* All of an open file that has so many bytes and no more. */
static int read_whole(int handle, char *to, size_t size)
{
    size_t got = 0;
    while (got <= size) {
        ssize_t now = read(handle, to + got, size + 1 - got);
        if (now < 0 && errno == EINTR)
            continue;
        if (now <= 0)
            return now == 0 && got == size;
        got += (size_t)now;
        /* A byte more was asked for and did not come. */
        if (got == size)
            return 1;
    }
    return 0;
}

static void take(File *file, int folder, Text *text, size_t most)
{
    struct stat status;
    /* What is no file must not be waited for. */
    int handle = openat(folder, file->name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    if (handle < 0)
        return;
    if (!fstat(handle, &status) && S_ISREG(status.st_mode) && (uintmax_t)status.st_size <= most &&
        make_room(text, (size_t)status.st_size + 1) &&
        read_whole(handle, text->data + text->used, (size_t)status.st_size)) {
        file->begin = text->used;
        file->size = (ptrdiff_t)status.st_size;
        text->used += (size_t)status.st_size;
    }
    close(handle);
}

static PyObject *bodies(const File *files, Py_ssize_t count, const Text *text)
{
    PyObject *made = PyTuple_New(count);
    for (Py_ssize_t i = 0; made && i < count; i++) {
        PyObject *body = Py_None;
        if (files[i].size >= 0)
            body = PyBytes_FromStringAndSize(text->data + files[i].begin, files[i].size);
        else
            Py_INCREF(body);
        if (!body || PyTuple_SetItem(made, i, body) < 0) {
            Py_DECREF(made);
            return NULL;
        }
    }
    return made;
}

/* The folder, where it is the one that is meant; -1 else. */
static int open_folder(const char *path, unsigned long long device, unsigned long long number)
{
    struct stat status;
    int handle = open(path, O_RDONLY | O_CLOEXEC | O_DIRECTORY);
    if (handle >= 0 && (fstat(handle, &status) || (unsigned long long)status.st_dev != device ||
                        (unsigned long long)status.st_ino != number)) {
        close(handle);
        return -1;
    }
    return handle;
}

PyDoc_STRVAR(read_doc,
             "read(folder: bytes, device: int, number: int, names: tuple[bytes, ...], most: int)\n--\n\n"
             "The whole of each file in a folder, which has this device and this number, that has no more than so many\n"
             "bytes; None for each that is left.");

static PyObject *bodies_read(PyObject *module, PyObject *args)
{
    Text text = {0};
    PyObject *path, *names, *made = NULL;
    unsigned long long device, number;
    File *files;
    Py_ssize_t count, most;
    char *place;
    int folder;

    (void)module;
    if (!PyArg_ParseTuple(args, "SKKO!n:read", &path, &device, &number, &PyTuple_Type, &names, &most) ||
        PyBytes_AsStringAndSize(path, &place, NULL) < 0)
        return NULL;
    count = PyTuple_Size(names);
    if (!(files = calloc((size_t)count + 1, sizeof *files)))
        return PyErr_NoMemory();
    for (Py_ssize_t i = 0; i < count; i++) {
        char *name;
        /* With no length asked for, a NUL inside is an error. */
        if (PyBytes_AsStringAndSize(PyTuple_GetItem(names, i), &name, NULL) < 0)
            goto done;
        files[i].name = name;
        files[i].size = -1;
    }
    Py_BEGIN_ALLOW_THREADS
    folder = open_folder(place, device, number);
    if (folder >= 0) {
        for (Py_ssize_t i = 0; i < count; i++)
            take(&files[i], folder, &text, most < 0 ? 0 : (size_t)most);
        close(folder);
    }
    Py_END_ALLOW_THREADS
    made = bodies(files, count, &text);
done:
    free(files);
    free(text.data);
    return made;
}

static PyMethodDef METHODS[] = {{"read", bodies_read, METH_VARARGS, read_doc}, {NULL, NULL, 0, NULL}};

static struct PyModuleDef MODULE = {
    PyModuleDef_HEAD_INIT, .m_name = "_bodies", .m_doc = "Many small files of one machine's disks.",
    .m_size = 0, .m_methods = METHODS,
};

PyMODINIT_FUNC PyInit__bodies(void) { return PyModuleDef_Init(&MODULE); }
