/* The columns that _plain.c fills: each value from its JSON to the memory of an Arrow array.
 *
 * A value that its column cannot hold, or that could be read in two ways, is NULL, and the chunk is left. */

#ifndef SINGERLAKE_COLUMNS_H
#define SINGERLAKE_COLUMNS_H

#include <float.h>
#include <math.h>

#include "../../format/lines/_json.h"
#include "_undeclared.h"

#define EXACT ((uint64_t)1 << 53)        /* up to here every integer is a double */

typedef struct {
    uint32_t start;                      /* of the text between its quotes, from the chunk's first byte */
    uint32_t length;
    uint32_t unescaped;                  /* its length when its escapes are read; 0 for one without */
} Span;

typedef struct {
    const char *name;
    Py_ssize_t name_length;
    char kind;                           /* as in fast_path.py */
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

static inline int utf8_length(int32_t point) { return point < 0x80 ? 1 : point < 0x800 ? 2 : point < 0x10000 ? 3 : 4; }

static inline char *put_utf8(char *to, int32_t point)
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

static inline const char *read_integer(const char *p, Column *column, Py_ssize_t row)
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
static inline const char *read_double(Reader *reader, const char *p, Column *column, Py_ssize_t row)
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

static inline const char *read_text(Reader *reader, const char *p, Column *column, Py_ssize_t row)
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

static inline const char *read_json(Reader *reader, const char *p, Column *column, Py_ssize_t row)
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

static inline const char *read_boolean(const char *p, Column *column, Py_ssize_t row)
{
    const char *end = behind_word(p, "true");
    if (!end)
        return behind_word(p, "false");
    PyBytes_AsString(column->values)[row / 8] |= (char)(1 << row % 8);
    return end;
}

static inline void set_null(Column *column, Py_ssize_t row)
{
    PyBytes_AsString(column->valid)[row / 8] &= (char)~(1 << row % 8);
    column->nulls++;
}

/* One value of a column, or null. */
static inline const char *read_value(Reader *reader, const char *p, Column *column)
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

static inline int width_of(char kind)
{
    switch (kind) {
    case '1': return 1;
    case '2': return 2;
    case '4': return 4;
    case '8': case 'd': return 8;
    default: return 0;
    }
}

static inline int prepare(Column *column, Py_ssize_t rows)
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
static inline PyObject *gathered(const Reader *reader, Column *column, Py_ssize_t rows)
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
static inline PyObject *finished(const Reader *reader, Column *column, Py_ssize_t rows)
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

#endif
