/* From whole Singer lines to the memory of Arrow arrays, for records of plain values. See fast_path.py.
 *
 * read() takes a chunk or leaves it. What it takes is strict JSON (RFC 8259) of which it knows every value exactly;
 * anything else, a line that is no RECORD as well as a value that its column cannot hold, is left to the other ways of
 * reading. So a doubt costs time, never a value. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "../../format/lines/_json.h"
#include "_columns.h"
#include "_undeclared.h"

#define MOST_COLUMNS 4096

/* The byte behind the name that begins at *p and its closing quote, and the column of that name or NULL in *found. */
static const char *read_name(Reader *reader, const char *p, Column **found)
{
    int escaped;
    const char *end;
    Column *column = reader->columns + reader->expected;
    if (reader->count && reader->end - p > column->name_length && p[column->name_length] == '"' &&
        !memcmp(p, column->name, (size_t)column->name_length)) {
        *found = column;
        end = p + column->name_length;
    } else {
        *found = NULL;
        end = closing_quote(p, reader->end, &escaped);
        if (!end || escaped)
            return NULL;
        for (Py_ssize_t tried = 1; tried < reader->count; tried++) {
            column = reader->columns + (reader->expected + tried) % reader->count;
            if (column->name_length == end - p && !memcmp(p, column->name, (size_t)(end - p))) {
                *found = column;
                break;
            }
        }
    }
    if (*found)
        reader->expected = (*found - reader->columns + 1) % reader->count;
    return end + 1;
}

static const char *read_record(Reader *reader, const char *p)
{
    Py_ssize_t present = 0;
    Level *record = &reader->record;
    if (*p != '{')
        return NULL;
    memset(record, 0, sizeof *record);
    reader->expected = 0;
    p = spaces(p + 1);
    if (*p != '}') {
        for (;;) {
            Column *column;
            record->name = p + 1;
            if (*p != '"' || !(p = read_name(reader, p + 1, &column)))
                return NULL;
            record->length = p - 1 - record->name;
            p = spaces(p);
            if (*p != ':')
                return NULL;
            p = spaces(p + 1);
            if (column)
                p = read_value(reader, p, column);
            else if (!reader->closed)
                p = behind_value(p, reader->end, 0);
            else
                p = read_undeclared(&reader->rest, p, record, 0);
            if (!p)
                return NULL;
            present += column && column->kind != 'x';
            p = spaces(p);
            if (*p != ',')
                break;
            p = spaces(p + 1);
        }
        if (*p != '}')
            return NULL;
    }
    if (present < reader->wanted)
        for (Column *column = reader->columns; column < reader->columns + reader->count; column++)
            if (column->kind != 'x' && column->filled == reader->row) {
                column->filled++;
                set_null(column, reader->row);
            }
    return end_rest(&reader->rest, record, reader->row, reader->rows) < 0 ? NULL : p + 1;
}

/* The column of the envelope that a member of the message is for, or NULL. */
static Column *of_envelope(const Reader *reader, const char *name, Py_ssize_t length)
{
    for (Column *column = reader->columns + reader->count, *end = column + reader->envelope; column < end; column++)
        if (column->name_length == length && !memcmp(name, column->name, (size_t)length))
            return column;
    return NULL;
}

/* One message with its newline. */
static const char *read_message(Reader *reader, const char *p)
{
    int types = 0, records = 0, ended = 0;
    p = first_member(p);
    while (p && !ended) {
        const char *name, *value;
        ptrdiff_t length;
        Column *column;
        if (!(value = p = member_value(p, reader->end, &name, &length)))
            return NULL;
        column = reader->envelope ? of_envelope(reader, name, length) : NULL;
        if (is_name(name, length, "record")) {
            records++;
            p = records == 1 ? read_record(reader, p) : NULL;
            if (p && column) {
                column->spans[reader->row].start = (uint32_t)(value - reader->data);
                column->spans[reader->row].length = (uint32_t)(p - value);
                column->text_bytes += p - value;
                column->filled++;
            }
        } else if (is_name(name, length, "type")) {
            types++;
            p = behind_word(p, "\"RECORD\"");
        } else if (column) {
            p = read_value(reader, p, column);
        } else {
            p = behind_value(p, reader->end, 0);
        }
        if (p)
            p = next_member(p, &ended);
    }
    if (!p || types != 1 || records != 1)
        return NULL;
    for (Column *column = reader->columns + reader->count, *end = column + reader->envelope; column < end; column++)
        if (column->filled == reader->row) {
            column->filled++;
            set_null(column, reader->row);
        }
    return p;
}

static Py_ssize_t count_lines(const char *p, const char *end)
{
    Py_ssize_t lines = 0;
    while ((p = memchr(p, '\n', (size_t)(end - p)))) {
        lines++;
        p++;
    }
    return lines;
}

static PyObject *result_of(const Reader *reader, Py_ssize_t columns)
{
    Py_ssize_t wanted = 0, done = 0;
    PyObject *arrays, *rest;
    for (Py_ssize_t i = 0; i < columns; i++)
        wanted += reader->columns[i].kind != 'x';
    arrays = PyTuple_New(wanted);
    for (Py_ssize_t i = 0; arrays && i < columns; i++) {
        PyObject *array;
        if (reader->columns[i].kind == 'x')
            continue;
        array = finished(reader, reader->columns + i, reader->rows);
        if (!array || PyTuple_SetItem(arrays, done++, array) < 0)
            Py_CLEAR(arrays);
    }
    if (!arrays)
        return NULL;
    rest = rest_of(&reader->rest, reader->rows);
    if (!rest) {
        Py_DECREF(arrays);
        return NULL;
    }
    return Py_BuildValue("(nNN)", reader->rows, arrays, rest);
}

static void let_go(Reader *reader, Py_ssize_t columns)
{
    for (Py_ssize_t i = 0; i < columns; i++) {
        Py_XDECREF(reader->columns[i].values);
        Py_XDECREF(reader->columns[i].valid);
        PyMem_Free(reader->columns[i].spans);
    }
    PyMem_Free(reader->columns);
    let_go_of_rest(&reader->rest);
}

PyDoc_STRVAR(read_doc,
             "read(data: bytes, names: tuple[bytes, ...], kinds: str, inside: tuple, envelope: int, closed: bool)\n--\n\n"
             "The number of lines, (nulls, validity, values, texts) for each name that is read, and the same of the texts of\n"
             "what is not declared, or None; None where it leaves the chunk.");

static PyObject *plain_read(PyObject *module, PyObject *args)
{
    Reader reader = {0};
    PyObject *data, *names, *inside, *result = NULL;
    const char *kinds, *p;
    char *begin;
    int able = 1;
    Py_ssize_t size, kind_count, columns;

    (void)module;
    if (!PyArg_ParseTuple(args, "SO!s#O!np:read", &data, &PyTuple_Type, &names, &kinds, &kind_count, &PyTuple_Type,
                          &inside, &reader.envelope, &reader.closed))
        return NULL;
    columns = PyTuple_Size(names);
    if (kind_count != columns || PyTuple_Size(inside) != columns || columns > MOST_COLUMNS || reader.envelope < 0 ||
        reader.envelope > columns) {
        PyErr_SetString(PyExc_ValueError, "each name has a kind and an inside, and those of the envelope are the last");
        return NULL;
    }
    if (PyBytes_AsStringAndSize(data, &begin, &size) < 0)
        return NULL;
    if (size == 0 || size > INT32_MAX || begin[size - 1] != '\n' || !is_utf8(begin, (size_t)size))
        Py_RETURN_NONE;
    reader.rows = count_lines(begin, begin + size);
    reader.data = begin;
    reader.end = reader.rest.end = begin + size;
    reader.columns = PyMem_Calloc((size_t)columns + 1, sizeof(Column));
    if (!reader.columns)
        return PyErr_NoMemory();
    reader.count = columns - reader.envelope;
    for (Py_ssize_t i = 0; i < columns; i++) {
        Column *column = reader.columns + i;
        char *name;
        column->kind = kinds[i];
        if (!strchr("bdtjnx1248", kinds[i])) {
            PyErr_SetString(PyExc_ValueError, "no such kind");
            goto done;
        }
        if (PyBytes_AsStringAndSize(PyTuple_GetItem(names, i), &name, &column->name_length) < 0 ||
            node_of(&reader.rest, PyTuple_GetItem(inside, i), 0, &column->inside) < 0)
            goto done;
        column->name = name;
        reader.wanted += i < reader.count && column->kind != 'x';
        if (prepare(column, reader.rows) < 0)
            goto done;
    }
    for (p = begin; able && p < reader.end; reader.row++)
        able = (p = read_message(&reader, p)) != NULL;
    if (able)
        result = result_of(&reader, columns);
    else if (!reader.error && !reader.rest.error)
        result = Py_NewRef(Py_None);
done:
    let_go(&reader, columns);
    return result;
}

static PyMethodDef METHODS[] = {{"read", plain_read, METH_VARARGS, read_doc}, {NULL, NULL, 0, NULL}};

static struct PyModuleDef MODULE = {
    PyModuleDef_HEAD_INIT, .m_name = "_plain", .m_doc = "Whole Singer lines to the memory of Arrow arrays.",
    .m_size = 0, .m_methods = METHODS,
};

PyMODINIT_FUNC PyInit__plain(void) { return PyModuleDef_Init(&MODULE); }
