/* Rows of Arrow columns as csv, JSON lines or avro. See rows.py, which describes a column and
 * does the same in Python.
 *
 * Sizes and offsets of all buffers are checked before a row is written. Words are read byte by byte (memcpy), since a
 * buffer may begin anywhere. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "_columns.h"
#include "_write.h"

static void put_value(Out *out, const Column *column, int64_t row);

static void put_array(Out *out, const Column *column, int64_t row)
{
    int64_t begin = offset_at(column, row + column->offset), end = offset_at(column, row + column->offset + 1), at;
    if (out->form == 'a' && begin < end)
        put_count(out, end - begin);
    else if (out->form != 'a')
        put_byte(out, '[');
    for (at = begin; at < end; at++) {
        if (out->form != 'a' && at > begin)
            put_byte(out, ',');
        put_value(out, column->children, at);
    }
    put_byte(out, out->form == 'a' ? 0 : ']');
}

static void put_struct(Out *out, const Column *column, int64_t row)
{
    Py_ssize_t index;
    if (out->form != 'a' && !column->count)
        put_byte(out, '{');
    for (index = 0; index < column->count; index++)
        put_value(out, column->children + index, row);
    if (out->form != 'a')
        put_byte(out, '}');
}

/* In csv the JSON of a nested value is one text: it is made behind the others, and quoted from there. */
static void put_nested(Out *out, const Column *column, int64_t row)
{
    int quoted = !out->nested && out->form != 'a';
    Out json = *out;
    if (quoted) {
        json.bytes = NULL;
        json.size = json.room = 0;
        json.nested = 1;
    }
    if (column->kind == 'a')
        put_array(quoted ? &json : out, column, row);
    else
        put_struct(quoted ? &json : out, column, row);
    if (quoted) {
        out->no_memory |= json.no_memory;
        out->no_text |= json.no_text;
        put_csv_text(out, json.bytes, json.size);
        free(json.bytes);
    }
}

static void put_avro(Out *out, const Column *column, int64_t row)
{
    int64_t at = row + column->offset;
    uint64_t words[2];
    size_t length;
    const char *text;
    char *place = room(out, SHORT);
    if (!place)
        return;
    *place++ = is_null(column, row) ? 0 : 2;
    if (!place[-1]) {
        out->size++;
        return;
    }
    switch (column->kind) {
    case 'b': *place++ = (char)bit_at(&column->values, at); break;
    case 'd': memcpy(place, (const char *)column->values.buf + at * 8, 8); place += 8; break;
    case 't':
        text = text_at(column, row, &length);
        out->size = (size_t)(write_long(place, (int64_t)length) - out->bytes);
        put(out, text, length);
        return;
    case 'n':
        out->size++;
        memcpy(words, (const char *)column->values.buf + at * 16, 16);
        put_decimal_bytes(out, words[0], words[1]);
        return;
    case 'a': case 'o':
        out->size++;
        put_nested(out, column, row);
        return;
    default: place = write_long(place, integer_at(column, at));
    }
    out->size = (size_t)(place - out->bytes);
}

/* What is longer than SHORT, or not often there. */
static void put_long_value(Out *out, const Column *column, int64_t row)
{
    int64_t at = row + column->offset;
    uint64_t words[2];
    double number;
    size_t length = 0;
    const char *text = NULL;
    switch (column->kind) {
    case 'd':
        memcpy(&number, (const char *)column->values.buf + at * 8, 8);
        if (column->count)
            text = text_at(column->children, row, &length);
        put_double(out, number, text, length);
        break;
    case 't':
        text = text_at(column, row, &length);
        if (out->nested)
            put_json_text(out, text, length);
        else
            put_csv_text(out, text, length);
        break;
    case 'n':
        memcpy(words, (const char *)column->values.buf + at * 16, 16);
        put_decimal_text(out, words[0], words[1], column->extra);
        break;
    default: put_nested(out, column, row);
    }
}

/* Writes a value that is no longer than SHORT; NULL where it may be. */
static char *write_short(char *at, const Column *column, int64_t row, int quoted)
{
    double number;
    switch (column->kind) {
    case 'i': return write_integer(at, integer_at(column, row));
    case 'b':
        if (bit_at(&column->values, row)) {
            memcpy(at, "true", 4);
            return at + 4;
        }
        memcpy(at, "false", 5);
        return at + 5;
    case 'd':
        memcpy(&number, (const char *)column->values.buf + row * 8, 8);
        return write_easy_double(at, number);
    case 'D': case 'T': case 'L':
        if (quoted)
            *at++ = '"';
        if (column->kind == 'D')
            at = write_date(at, integer_at(column, row));
        else
            at = write_time(at, integer_at(column, row), column->kind == 'T');
        if (quoted)
            *at++ = '"';
        return at;
    default: return NULL;
    }
}

static void put_value(Out *out, const Column *column, int64_t row)
{
    char *at, *end;
    Py_ssize_t copied = 0;
    if (out->form == 'a') {
        put_avro(out, column, row);
        return;
    }
    if (!(at = room(out, (size_t)column->lead_length + LEAD + SHORT)))
        return;
    /* What is copied too much is written over. */
    for (; copied < column->lead_length; copied += LEAD)
        memcpy(at + copied, column->lead + copied, LEAD);
    at += column->lead_length;
    out->size = (size_t)(at - out->bytes);
    if (is_null(column, row)) {
        memcpy(at, "null", 4);
        out->size += out->nested ? 4 : 0;
    } else if ((end = write_short(at, column, row + column->offset, out->nested))) {
        out->size = (size_t)(end - out->bytes);
    } else
        put_long_value(out, column, row);
}

/* ---- columns as Python gives them ---- */

static void release(Column *column)
{
    Py_ssize_t index;
    for (index = 0; index < column->count; index++)
        release(column->children + index);
    PyMem_Free(column->children);
    PyMem_Free(column->lead);
    if (column->nulls.obj)
        PyBuffer_Release(&column->nulls);
    if (column->values.obj)
        PyBuffer_Release(&column->values);
    if (column->offsets.obj)
        PyBuffer_Release(&column->offsets);
}

static int refused(const char *why)
{
    PyErr_SetString(PyExc_ValueError, why);
    return 0;
}

static int take_buffer(PyObject *given, Py_buffer *buffer)
{
    return given == Py_None || PyObject_GetBuffer(given, buffer, PyBUF_SIMPLE) == 0;
}

static int holds(const Py_buffer *buffer, int64_t items, int64_t bits)
{
    return items <= 0 || (buffer->buf && items <= INT64_MAX / 128 && buffer->len >= (items * bits + 7) / 8);
}

/* The last offset; -1 where they do not rise. */
static int64_t last_offset(const Column *column, int64_t length)
{
    int64_t last, row;
    if (!length)
        return 0;
    last = offset_at(column, column->offset);
    for (row = 0; row < length && last >= 0; row++) {
        int64_t next = offset_at(column, column->offset + row + 1);
        last = next < last ? -1 : next;
    }
    return last;
}

static int take_columns(PyObject *given, int64_t length, Column **columns, Py_ssize_t *count);

/* One column with this many rows. What it took is released by the caller, also where it fails. */
static int take_column(PyObject *given, int64_t length, Column *column)
{
    PyObject *nulls, *values, *offsets, *children;
    int64_t rows, below = length;
    int kind;
    long long offset;
    const char *lead;
    if (!PyTuple_Check(given))
        return refused("a column is a tuple");
    if (!PyArg_ParseTuple(given, "Cy#LOOOiO!", &kind, &lead, &column->lead_length, &offset, &nulls, &values,
                          &offsets, &column->extra, &PyTuple_Type, &children))
        return 0;
    if (offset < 0 || offset > INT64_MAX / 256 || length > INT64_MAX / 256 || kind > 127 ||
        !memchr("bidtTLDnao", kind, 10))
        return refused("no column");
    if (!(column->lead = PyMem_Calloc(1, (size_t)column->lead_length + LEAD))) {
        PyErr_NoMemory();
        return 0;
    }
    memcpy(column->lead, lead, (size_t)column->lead_length);
    column->kind = (char)kind;
    column->offset = offset;
    rows = length ? offset + length : 0;
    if (!take_buffer(nulls, &column->nulls) || !take_buffer(values, &column->values) ||
        !take_buffer(offsets, &column->offsets))
        return 0;
    if (column->nulls.buf && !holds(&column->nulls, rows, 1))
        return refused("too few null bits");
    switch (column->kind) {
    case 't': case 'a':
        if (!holds(&column->offsets, rows ? rows + 1 : 0, 32))
            return refused("too few offsets");
        below = last_offset(column, length);
        if (below < 0 || (column->kind == 't' && !holds(&column->values, below, 8)))
            return refused("offsets outside the values");
        break;
    case 'b': case 'd': case 'n':
        if (!holds(&column->values, rows, column->kind == 'b' ? 1 : column->kind == 'd' ? 64 : 128))
            return refused("too few values");
        if (column->kind == 'n' && (column->extra < 0 || column->extra > 38))
            return refused("no scale");
        break;
    case 'o': break;
    default:
        if (column->extra != 1 && column->extra != 2 && column->extra != 4 && column->extra != 8)
            return refused("no integer");
        if (!holds(&column->values, rows, 8 * column->extra))
            return refused("too few values");
    }
    if (!take_columns(children, below, &column->children, &column->count))
        return 0;
    if (column->kind == 'a' ? column->count != 1 : column->kind != 'o' && column->count > (column->kind == 'd'))
        return refused("no such children");
    if (column->kind == 'd' && column->count && column->children->kind != 't')
        return refused("a number's text is text");
    return 1;
}

static int take_columns(PyObject *given, int64_t length, Column **columns, Py_ssize_t *count)
{
    Py_ssize_t wanted = PyTuple_Size(given), index;
    if (wanted < 0)
        return 0;
    if (!wanted)
        return 1;
    *columns = PyMem_Calloc((size_t)wanted, sizeof **columns);
    if (!*columns) {
        PyErr_NoMemory();
        return 0;
    }
    *count = wanted;
    if (Py_EnterRecursiveCall(" in nested columns"))
        return 0;
    for (index = 0; index < wanted; index++)
        if (!take_column(PyTuple_GetItem(given, index), length, *columns + index))
            break;
    Py_LeaveRecursiveCall();
    return index == wanted;
}

PyDoc_STRVAR(encoded_doc,
             "encoded(form: str, columns: tuple, rows: int, end: bytes)\n--\n\n"
             "The rows, each with ``end`` behind it; None where a number needs its text and has none.");

static PyObject *rows_encoded(PyObject *module, PyObject *args)
{
    Column all = {0};
    Out out = {0};
    PyObject *columns, *made = NULL;
    const char *end;
    Py_ssize_t end_length, rows, row, index;
    int form;

    (void)module;
    if (!PyArg_ParseTuple(args, "CO!ny#:encoded", &form, &PyTuple_Type, &columns, &rows, &end, &end_length))
        return NULL;
    if (form > 127 || !memchr("ceja", form, 4) || rows < 0) {
        refused("no such form");
        return NULL;
    }
    out.form = (char)form;
    out.nested = form == 'j';
    if (take_columns(columns, rows, &all.children, &all.count)) {
        Py_BEGIN_ALLOW_THREADS
        for (row = 0; row < rows && !out.no_memory && !out.no_text; row++) {
            for (index = 0; index < all.count; index++)
                put_value(&out, all.children + index, row);
            put(&out, end, (size_t)end_length);
        }
        Py_END_ALLOW_THREADS
        if (out.no_memory)
            PyErr_NoMemory();
        else if (out.no_text)
            made = Py_NewRef(Py_None);
        else
            made = PyBytes_FromStringAndSize(out.bytes, (Py_ssize_t)out.size);
    }
    free(out.bytes);
    release(&all);
    return made;
}

static PyMethodDef METHODS[] = {{"encoded", rows_encoded, METH_VARARGS, encoded_doc}, {NULL, NULL, 0, NULL}};

static struct PyModuleDef MODULE = {
    PyModuleDef_HEAD_INIT, .m_name = "_rows", .m_doc = "Rows of Arrow columns as csv, JSON lines or avro.",
    .m_size = 0, .m_methods = METHODS,
};

PyMODINIT_FUNC PyInit__rows(void) { return PyModuleDef_Init(&MODULE); }
