/* From whole Singer lines to the memory of Arrow arrays, for records of plain values. See plain.py.
 *
 * read() takes a chunk or leaves it. What it takes is strict JSON (RFC 8259) of which it knows every value exactly;
 * anything else, a line that is no RECORD as well as a value that its column cannot hold, is left to the other ways of
 * reading. So a doubt costs time, never a value. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <float.h>
#include <math.h>

#include "../../format/lines/_json.h"
#include "_undeclared.h"

#define EXACT ((uint64_t)1 << 53)        /* up to here every integer is a double */
#define MOST_COLUMNS 4096

typedef struct {
    uint32_t start;                      /* of the text between its quotes, from the chunk's first byte */
    uint32_t length;
    uint32_t unescaped;                  /* its length when its escapes are read; 0 for one without */
} Span;

typedef struct {
    const char *name;
    Py_ssize_t name_length;
    char kind;                           /* as in plain.py */
    Node *inside;
    Py_ssize_t filled;                   /* rows so far */
    Py_ssize_t nulls;
    Py_ssize_t text_bytes;
    PyObject *values;                    /* bytes: what lies in Arrow's buffer; of a text its offsets */
    PyObject *valid;                     /* bytes: Arrow's bitmap */
    Span *spans;
} Column;

typedef struct {
    const char *data, *end;
    Column *columns;
    Py_ssize_t count;                    /* of columns from the record, behind which those of the envelope stand */
    Py_ssize_t envelope;
    int closed;                          /* a property of the record that is no column is undeclared */
    Py_ssize_t expected;                 /* the column that the next property is likely to be */
    Py_ssize_t wanted;                   /* of those of the record, the ones that are read */
    Py_ssize_t row, rows;
    Level record;                        /* the one that is read now */
    Rest rest;
    int error;                           /* a Python exception is set */
} Reader;

static int utf8_length(int32_t point) { return point < 0x80 ? 1 : point < 0x800 ? 2 : point < 0x10000 ? 3 : 4; }

static char *put_utf8(char *to, int32_t point)
{
    if (point < 0x80) {
        *to++ = (char)point;
    } else if (point < 0x800) {
        *to++ = (char)(0xC0 | point >> 6);
        *to++ = (char)(0x80 | (point & 0x3F));
    } else if (point < 0x10000) {
        *to++ = (char)(0xE0 | point >> 12);
        *to++ = (char)(0x80 | (point >> 6 & 0x3F));
        *to++ = (char)(0x80 | (point & 0x3F));
    } else {
        *to++ = (char)(0xF0 | point >> 18);
        *to++ = (char)(0x80 | (point >> 12 & 0x3F));
        *to++ = (char)(0x80 | (point >> 6 & 0x3F));
        *to++ = (char)(0x80 | (point & 0x3F));
    }
    return to;
}

static const char *read_integer(const char *p, Column *column, Py_ssize_t row)
{
    const char *digits = p + (*p == '-'), *at = digits;
    uint64_t sum = 0;
    int64_t value, limit;
    char *to = PyBytes_AsString(column->values);
    while (is_digit(*at))
        sum = sum * 10 + (uint64_t)(*at++ - '0');
    /* 18 digits always fit; of a longer number sum means nothing. */
    if (at == digits || at - digits > 18 || (*digits == '0' && at - digits > 1) || *at == '.' || *at == 'e' || *at == 'E')
        return NULL;
    value = digits == p ? (int64_t)sum : -(int64_t)sum;
    switch (column->kind) {
    case '8': memcpy(to + 8 * row, &value, 8); return at;
    case '4': limit = INT32_MAX; break;
    case '2': limit = INT16_MAX; break;
    default: limit = INT8_MAX; break;
    }
    if (value > limit || value < -limit - 1)
        return NULL;
    if (column->kind == '4') {
        int32_t narrow = (int32_t)value;
        memcpy(to + 4 * row, &narrow, 4);
    } else if (column->kind == '2') {
        int16_t narrow = (int16_t)value;
        memcpy(to + 2 * row, &narrow, 2);
    } else {
        to[row] = (char)(int8_t)value;
    }
    return at;
}

/* A decimal fraction of at most 2**53 as an integer and 22 places is a quotient of two doubles that are exact, and so is
 * rounded once (W. Clinger, "How to read floating point numbers accurately", 1990). Others are Python's to read. */
static const char *read_double(Reader *reader, const char *p, Column *column, Py_ssize_t row)
{
    static const double TENS[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                  1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    int whole, negative = *p == '-';
    const char *at = p + negative, *end = behind_number(p, &whole);
    uint64_t sum = 0;
    Py_ssize_t digits = 0, places = 0;
    double value;
    if (!end)
        return NULL;
    for (; is_digit(*at); digits++)
        sum = sum * 10 + (uint64_t)(*at++ - '0');
    if (*at == '.')
        for (at++; is_digit(*at); digits++, places++)
            sum = sum * 10 + (uint64_t)(*at++ - '0');
    if (at == end && digits <= 19 && sum <= EXACT && places <= 22 && FLT_EVAL_METHOD == 0) {
        if (whole && negative && !sum)
            return NULL;                 /* an integer, of which the sign is lost */
        value = (double)sum / TENS[places];
        if (negative)
            value = -value;
    } else {
        char *stop;
        if (whole)
            return NULL;
        value = PyOS_string_to_double(p, &stop, NULL);
        if (PyErr_Occurred()) {
            if (!PyErr_ExceptionMatches(PyExc_ValueError) && !PyErr_ExceptionMatches(PyExc_OverflowError))
                reader->error = 1;
            else
                PyErr_Clear();
            return NULL;
        }
        if (stop != end || !isfinite(value) || value == 0)
            return NULL;
    }
    memcpy(PyBytes_AsString(column->values) + 8 * row, &value, 8);
    return end;
}

static const char *read_text(Reader *reader, const char *p, Column *column, Py_ssize_t row)
{
    Span *span = column->spans + row;
    int escaped;
    const char *start = p + 1, *end;
    if (*p != '"' || !(end = closing_quote(start, reader->end, &escaped)))
        return NULL;
    span->start = (uint32_t)(start - reader->data);
    span->length = (uint32_t)(end - start);
    if (escaped) {
        uint32_t length = 0;
        for (const char *at = start; at < end;)
            if (*at == '\\')
                length += (uint32_t)utf8_length(escape(&at));
            else
                at++, length++;
        span->unescaped = length;        /* an escape is never nothing, so this is not 0 */
        column->text_bytes += length;
    } else {
        column->text_bytes += span->length;
    }
    return end + 1;
}

static const char *read_json(Reader *reader, const char *p, Column *column, Py_ssize_t row)
{
    Span *span = column->spans + row;
    const char *end = read_known(&reader->rest, p, column->inside, &reader->record, 0);
    if (!end)
        return NULL;
    span->start = (uint32_t)(p - reader->data);
    span->length = (uint32_t)(end - p);
    column->text_bytes += span->length;
    return end;
}

static const char *read_boolean(const char *p, Column *column, Py_ssize_t row)
{
    const char *end = behind_word(p, "true");
    if (!end)
        return behind_word(p, "false");
    PyBytes_AsString(column->values)[row / 8] |= (char)(1 << row % 8);
    return end;
}

static void set_null(Column *column, Py_ssize_t row)
{
    PyBytes_AsString(column->valid)[row / 8] &= (char)~(1 << row % 8);
    column->nulls++;
}

/* One value of a column, or null. */
static const char *read_value(Reader *reader, const char *p, Column *column)
{
    Py_ssize_t row = reader->row;
    if (column->kind == 'x')
        return behind_value(p, reader->end, 0);
    if (column->filled++ != row)
        return NULL;                     /* named twice */
    if (*p == 'n') {
        set_null(column, row);
        return behind_word(p, "null");
    }
    switch (column->kind) {
    case 'd': return read_double(reader, p, column, row);
    case 't': return read_text(reader, p, column, row);
    case 'j': case 'n': return read_json(reader, p, column, row);
    case 'b': return read_boolean(p, column, row);
    default: return read_integer(p, column, row);
    }
}

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

static int width_of(char kind)
{
    switch (kind) {
    case '1': return 1;
    case '2': return 2;
    case '4': return 4;
    case '8': case 'd': return 8;
    default: return 0;
    }
}

static int prepare(Column *column, Py_ssize_t rows)
{
    int is_text = strchr("tjn", column->kind) != NULL;
    Py_ssize_t bitmap = (rows + 7) / 8;
    if (column->kind == 'x')
        return 0;
    if (!(column->valid = zeroed(bitmap, 0xFF)))
        return -1;
    if (is_text) {
        column->spans = PyMem_Calloc((size_t)rows, sizeof(Span));
        if (!column->spans) {
            PyErr_NoMemory();
            return -1;
        }
        return 0;
    }
    column->values = zeroed(column->kind == 'b' ? bitmap : rows * width_of(column->kind), 0);
    return column->values ? 0 : -1;
}

/* The bytes of a column's texts one after the other; their offsets become its values. What is nested has a line for each
 * row, for another decoder to read. */
static PyObject *gathered(const Reader *reader, Column *column, Py_ssize_t rows)
{
    int lines = column->kind == 'n';
    PyObject *texts = PyBytes_FromStringAndSize(NULL, column->text_bytes + (lines ? rows + 4 * column->nulls : 0));
    int32_t *offsets;
    char *begin, *to;
    column->values = PyBytes_FromStringAndSize(NULL, 4 * (rows + 1));
    if (!texts || !column->values) {
        Py_XDECREF(texts);
        return NULL;
    }
    offsets = (int32_t *)PyBytes_AsString(column->values);
    begin = to = PyBytes_AsString(texts);
    for (Py_ssize_t row = 0; row < rows; row++) {
        const Span *span = column->spans + row;
        const char *from = reader->data + span->start;
        offsets[row] = (int32_t)(to - begin);
        if (lines && !span->length) {
            memcpy(to, "null\n", 5);
            to += 5;
            continue;
        }
        if (!span->unescaped) {
            memcpy(to, from, span->length);
            to += span->length;
            if (lines)
                *to++ = '\n';
            continue;
        }
        for (const char *stop = from + span->length; from < stop;)
            if (*from == '\\')
                to = put_utf8(to, escape(&from));
            else
                *to++ = *from++;
    }
    offsets[rows] = (int32_t)(to - begin);
    return texts;
}

/* (nulls, validity or None, values, texts or None) */
static PyObject *finished(const Reader *reader, Column *column, Py_ssize_t rows)
{
    PyObject *texts = Py_None, *valid = column->nulls ? column->valid : Py_None, *result;
    if (column->spans) {
        texts = gathered(reader, column, rows);
        if (!texts)
            return NULL;
    } else {
        Py_INCREF(texts);
    }
    result = Py_BuildValue("(nOON)", column->nulls, valid, column->values, texts);
    return result;
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
