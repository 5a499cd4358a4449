/* What small data files say, each taken at once: inflated and counted. See scan_small.py.
 *
 * scan() takes a file or leaves it. What it takes is gzip members (RFC 1952) of whole lines, a SCHEMA line before all others,
 * and nothing but what count_lines() takes behind it; whatever it is not sure of is left to Python. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdlib.h>
#include <zlib.h>

#include "_count.h"

#define MOST_MEMBERS 16
#define MOST_TEXT (1 << 18)              /* bytes of one file's text */
#define FIXED_HEADER 10
#define TRAILER 8
#define LONGEST_TIME 64
#define CUT 12                           /* bytes: a length and a checksum */

typedef struct {
    uint32_t begin;                      /* where it is stored */
    uint32_t messages;
    uint32_t before, crc;                /* length and checksum of the text before it */
} Member;

typedef struct {
    char text[LONGEST_TIME];
    int length;                          /* 0: none */
} Time;

typedef struct {
    const char *data;                    /* NULL: not to be looked at */
    Py_ssize_t size;
    int taken, members;
    Member member[MOST_MEMBERS];
    ptrdiff_t extra, extra_length;       /* where the first header's SL field lies, -1: it has none */
    char *line;                          /* the SCHEMA line with its newline */
    size_t line_length;
    uint32_t text_length, crc;
    ptrdiff_t records;
    Time first, last;
} File;

typedef struct {
    z_stream zlib;
    char *text;
    const char *stream;
    Py_ssize_t stream_length;
    int times;
} Scan;

static uint32_t little(const char *data, int bytes)
{
    uint32_t value = 0;
    while (bytes--)
        value = value << 8 | (unsigned char)data[bytes];
    return value;
}

/* The length of the gzip header at data, and where its SL field lies; 0 for what is none, or has parts that no writer of
 * this format writes. */
static size_t behind_header(const char *data, size_t size, ptrdiff_t *extra, ptrdiff_t *extra_length)
{
    size_t end, at = FIXED_HEADER + 2;
    *extra = -1;
    if (size < at || memcmp(data, "\x1f\x8b\x08", 3) || (data[3] & ~4))
        return 0;
    if (!(data[3] & 4))
        return FIXED_HEADER;
    end = at + little(data + FIXED_HEADER, 2);
    if (end > size)
        return 0;
    while (at + 4 <= end) {
        size_t length = little(data + at + 2, 2);
        if (!memcmp(data + at, "SL", 2)) {
            if (at + 4 + length > end)
                return 0;
            *extra = (ptrdiff_t)at + 4;
            *extra_length = (ptrdiff_t)length;
            break;
        }
        at += 4 + length;
    }
    return end;
}

/* Inflates the member at *at behind what is there of the text, and moves *at behind it. */
static int inflate_member(Scan *scan, File *file, size_t *at)
{
    z_stream *zlib = &scan->zlib;
    const char *text = scan->text + file->text_length;
    uint32_t length;
    if (inflateReset(zlib) != Z_OK)
        return 0;
    zlib->next_in = (Bytef *)(file->data + *at);
    zlib->avail_in = (uInt)((size_t)file->size - *at);
    zlib->next_out = (Bytef *)text;
    zlib->avail_out = MOST_TEXT - file->text_length;
    if (inflate(zlib, Z_FINISH) != Z_STREAM_END || zlib->avail_in < TRAILER)
        return 0;
    length = (uint32_t)zlib->total_out;
    *at = (size_t)file->size - zlib->avail_in;
    if (little(file->data + *at, 4) != crc32(0, (const Bytef *)text, length) || little(file->data + *at + 4, 4) != length)
        return 0;
    *at += TRAILER;
    file->crc = (uint32_t)crc32(file->crc, (const Bytef *)text, length);
    file->text_length += length;
    return length > 0 && text[length - 1] == '\n';
}

static int keep_time(Time *time, Moment moment)
{
    if (moment.length > LONGEST_TIME)
        return 0;
    time->length = (int)moment.length;
    if (moment.text)
        memcpy(time->text, moment.text, (size_t)moment.length);
    return 1;
}

/* The SCHEMA line is kept apart: whether it is one is for Python to say. */
static int keep_line(const Scan *scan, File *file, const char **begin)
{
    const char *end = (const char *)memchr(scan->text, '\n', file->text_length) + 1;
    file->line_length = (size_t)(end - scan->text);
    if (!is_utf8(scan->text, file->line_length) || !(file->line = malloc(file->line_length)))
        return 0;
    memcpy(file->line, scan->text, file->line_length);
    *begin = end;
    return 1;
}

static int take(Scan *scan, File *file)
{
    Count count = {.stream = scan->stream, .stream_length = scan->stream_length, .times = scan->times};
    size_t at = 0;
    while (at < (size_t)file->size) {
        const char *begin = scan->text + file->text_length;
        ptrdiff_t extra, extra_length = 0, before = count.messages;
        Member *member = &file->member[file->members];
        size_t header = behind_header(file->data + at, (size_t)file->size - at, &extra, &extra_length);
        /* Headers of other members than the first have a meaning that is not known here. */
        if (!header || file->members == MOST_MEMBERS || (file->members && extra >= 0))
            return 0;
        if (!file->members) {
            file->extra = extra;
            file->extra_length = extra_length;
        }
        member->begin = (uint32_t)at;
        member->before = file->text_length;
        member->crc = file->crc;
        at += header;
        if (!inflate_member(scan, file, &at) || (!file->members && !keep_line(scan, file, &begin)))
            return 0;
        count.end = scan->text + file->text_length;
        if (!count_lines(&count, begin))
            return 0;
        member->messages = (uint32_t)(count.messages - before);
        file->members++;
    }
    file->records = count.records;
    return file->members && keep_time(&file->first, count.first) && keep_time(&file->last, count.last);
}

/* Where each member that has messages begins, and how many. */
static PyObject *members(const File *file)
{
    Py_ssize_t count = 0, at = 0;
    PyObject *made;
    for (int i = 0; i < file->members; i++)
        count += file->member[i].messages != 0;
    made = PyTuple_New(count);
    for (int i = 0; made && i < file->members; i++) {
        PyObject *pair;
        if (!file->member[i].messages)
            continue;
        pair = Py_BuildValue("(II)", (unsigned)file->member[i].begin, (unsigned)file->member[i].messages);
        if (!pair || PyTuple_SetItem(made, at++, pair) < 0) {
            Py_DECREF(made);
            return NULL;
        }
    }
    return made;
}

static char *put(char *to, uint32_t value, int bytes)
{
    for (; bytes; bytes--, value >>= 8)
        *to++ = (char)(value & 0xFF);
    return to;
}

static PyObject *described(const File *file)
{
    char cuts[MOST_MEMBERS * CUT], *end = cuts;
    Py_ssize_t messages = 0;
    PyObject *table;
    for (int i = 0; i < file->members; i++) {
        messages += file->member[i].messages;
        if (i) {
            end = put(put(end, file->member[i].before, 4), 0, 4);
            end = put(end, file->member[i].crc, 4);
        }
    }
    if (!(table = members(file)))
        return NULL;
    return Py_BuildValue("(y#y#nnIIy#y#Ny#)", file->extra < 0 ? NULL : file->data + file->extra,
                         (Py_ssize_t)file->extra_length, file->line, (Py_ssize_t)file->line_length, messages,
                         (Py_ssize_t)file->records, (unsigned)file->text_length, (unsigned)file->crc,
                         file->first.length ? file->first.text : NULL, (Py_ssize_t)file->first.length,
                         file->last.length ? file->last.text : NULL, (Py_ssize_t)file->last.length, table, cuts,
                         (Py_ssize_t)(end - cuts));
}

/* Without the interpreter's lock. False where memory is short. */
static int take_all(Scan *scan, File *files, Py_ssize_t count)
{
    scan->text = malloc(MOST_TEXT);
    if (!scan->text || inflateInit2(&scan->zlib, -MAX_WBITS) != Z_OK)
        return 0;
    for (Py_ssize_t i = 0; i < count; i++)
        files[i].taken = files[i].data && take(scan, &files[i]);
    inflateEnd(&scan->zlib);
    return 1;
}

static PyObject *answers(const File *files, Py_ssize_t count)
{
    PyObject *list = PyList_New(count), *none = Py_None;
    for (Py_ssize_t i = 0; list && i < count; i++) {
        PyObject *said = files[i].taken ? described(&files[i]) : (Py_INCREF(none), none);
        if (!said || PyList_SetItem(list, i, said) < 0) {
            Py_DECREF(list);
            return NULL;
        }
    }
    return list;
}

PyDoc_STRVAR(scan_doc,
             "scan(bodies: tuple[bytes | None, ...], stream: bytes, times: bool)\n--\n\n"
             "What each file says; None where it leaves it.");

static PyObject *whole_scan(PyObject *module, PyObject *args)
{
    Scan scan = {0};
    PyObject *bodies, *made = NULL;
    File *files;
    Py_ssize_t count;
    int enough = 0;

    (void)module;
    if (!PyArg_ParseTuple(args, "O!y#p:scan", &PyTuple_Type, &bodies, &scan.stream, &scan.stream_length, &scan.times))
        return NULL;
    count = PyTuple_Size(bodies);
    if (!(files = calloc((size_t)count + 1, sizeof *files)))
        return PyErr_NoMemory();
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *body = PyTuple_GetItem(bodies, i);
        char *data;
        if (body == Py_None)
            continue;
        if (PyBytes_AsStringAndSize(body, &data, &files[i].size) < 0)
            goto done;
        /* A name with a backslash is never written as it is. */
        if (files[i].size <= MOST_TEXT && !memchr(scan.stream, '\\', (size_t)scan.stream_length))
            files[i].data = data;
    }
    Py_BEGIN_ALLOW_THREADS
    enough = take_all(&scan, files, count);
    Py_END_ALLOW_THREADS
    made = enough ? answers(files, count) : PyErr_NoMemory();
done:
    for (Py_ssize_t i = 0; i < count; i++)
        free(files[i].line);
    free(files);
    free(scan.text);
    return made;
}

static PyMethodDef METHODS[] = {{"scan", whole_scan, METH_VARARGS, scan_doc}, {NULL, NULL, 0, NULL}};

static struct PyModuleDef MODULE = {
    PyModuleDef_HEAD_INIT, .m_name = "_whole", .m_doc = "What small data files say, each taken at once.",
    .m_size = 0, .m_methods = METHODS,
};

PyMODINIT_FUNC PyInit__whole(void) { return PyModuleDef_Init(&MODULE); }
