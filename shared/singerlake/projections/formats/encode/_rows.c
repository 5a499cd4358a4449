/* Rows of Arrow columns as csv, JSON lines or avro. See compiled.py, which describes a column, and plain.py, which does
 * the same in Python.
 *
 * Sizes and offsets of all buffers are checked before a row is written. Words are read byte by byte (memcpy), since a
 * buffer may begin anywhere. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum {
    CHUNK = 4096,                        /* bytes of text for which room is made at once */
    SHORT = 64                           /* more than a number or a time takes, quotes and all */
};

static const int64_t DAY = 86400000000LL;
static const double POWERS[] = {1, 10, 100, 1000, 10000};

typedef struct Column {
    char kind;                           /* b, i, d, t, T (UTC), L (no zone), D, n (decimal), a (list), o (struct) */
    const char *lead;                    /* what stands before each value */
    Py_ssize_t lead_length;
    int64_t offset;
    int extra;                           /* bytes of an integer, scale of a decimal */
    Py_buffer nulls, values, offsets;
    struct Column *children;
    Py_ssize_t count;
} Column;

typedef struct {
    char form;                           /* c (csv), e (csv, formulas escaped), j (JSON lines), a (avro) */
    int nested;                          /* whether JSON is being written */
    char *bytes;
    size_t size, room;
    int no_memory, no_text;
} Out;

/* ---- what is written ---- */

static char *grown(Out *out, size_t wanted)
{
    size_t more = out->room + out->room / 2 + wanted;
    char *bytes = out->no_memory || more < wanted ? NULL : realloc(out->bytes, more);
    if (!bytes) {
        out->no_memory = 1;
        return NULL;
    }
    out->bytes = bytes;
    out->room = more;
    return bytes + out->size;
}

static inline char *room(Out *out, size_t wanted)
{
    return out->room - out->size >= wanted && out->bytes ? out->bytes + out->size : grown(out, wanted);
}

static void put(Out *out, const char *text, size_t length)
{
    char *at = room(out, length);
    if (at && length) {
        memcpy(at, text, length);
        out->size += length;
    }
}

static void put_byte(Out *out, char byte) { put(out, &byte, 1); }

/* Those that write at a place where there is room for SHORT bytes return the place behind. */

static char *write_two(char *at, unsigned number)
{
    static const char PAIRS[] =
        "00010203040506070809101112131415161718192021222324252627282930313233343536373839404142434445464748495051525354"
        "5556575859606162636465666768697071727374757677787980818283848586878889909192939495969798" "99";
    memcpy(at, PAIRS + 2 * number, 2);
    return at + 2;
}

/* Digits of a number, zeros in front up to a width. */
static char *write_digits(char *at, uint64_t number, int width)
{
    char digits[20];
    int first = sizeof digits;
    for (; number > 99; number /= 100)
        write_two(digits + (first -= 2), (unsigned)(number % 100));
    if (number > 9)
        write_two(digits + (first -= 2), (unsigned)number);
    else
        digits[--first] = (char)('0' + number);
    while ((int)sizeof digits - first < width)
        digits[--first] = '0';
    memcpy(at, digits + first, sizeof digits - (size_t)first);
    return at + sizeof digits - first;
}

static char *write_integer(char *at, int64_t number)
{
    if (number < 0)
        *at++ = '-';
    return write_digits(at, number < 0 ? 0 - (uint64_t)number : (uint64_t)number, 1);
}

static char *write_long(char *at, int64_t number)
{
    uint64_t rest = (uint64_t)number << 1 ^ (number < 0 ? ~(uint64_t)0 : 0);
    for (; rest > 127; rest >>= 7)
        *at++ = (char)(rest | 128);
    *at++ = (char)rest;
    return at;
}

static void put_count(Out *out, int64_t number)
{
    char *at = room(out, SHORT);
    if (at)
        out->size = (size_t)(write_long(at, number) - out->bytes);
}

static void put_csv_text(Out *out, const char *text, size_t length)
{
    put_byte(out, '"');
    if (out->form == 'e' && length && memchr("=+-@\t\r\n", *text, 7))
        put_byte(out, '\'');
    while (length) {
        size_t part = length < CHUNK ? length : CHUNK, index;
        char *at = room(out, 2 * part);
        if (!at)
            return;
        for (index = 0; index < part; index++) {
            if (text[index] == '"')
                *at++ = '"';
            *at++ = text[index];
        }
        out->size = (size_t)(at - out->bytes);
        text += part;
        length -= part;
    }
    put_byte(out, '"');
}

static void put_json_text(Out *out, const char *text, size_t length)
{
    static const char HEX[] = "0123456789abcdef";
    put_byte(out, '"');
    while (length) {
        size_t part = length < CHUNK ? length : CHUNK, index;
        char *at = room(out, 6 * part);
        if (!at)
            return;
        for (index = 0; index < part; index++) {
            unsigned char byte = (unsigned char)text[index];
            if (byte >= 32 && byte != '"' && byte != '\\') {
                *at++ = (char)byte;
                continue;
            }
            *at++ = '\\';
            switch (byte) {
            case '"': case '\\': *at++ = (char)byte; break;
            case '\n': *at++ = 'n'; break;
            case '\r': *at++ = 'r'; break;
            case '\t': *at++ = 't'; break;
            case '\b': *at++ = 'b'; break;
            case '\f': *at++ = 'f'; break;
            default:
                memcpy(at, "u00", 3);
                at[3] = HEX[byte >> 4];
                at[4] = HEX[byte & 15];
                at += 5;
            }
        }
        out->size = (size_t)(at - out->bytes);
        text += part;
        length -= part;
    }
    put_byte(out, '"');
}

/* The civil date of a day counted from 1970-01-01 (Howard Hinnant, chrono-compatible low-level date algorithms). */
static char *write_date(char *at, int64_t days)
{
    int64_t era, year;
    unsigned day_of_era, year_of_era, day_of_year, month;
    days += 719468;
    era = (days >= 0 ? days : days - 146096) / 146097;
    day_of_era = (unsigned)(days - era * 146097);
    year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
    day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    month = (5 * day_of_year + 2) / 153;
    year = (int64_t)year_of_era + era * 400 + (month >= 10);
    if (year < 0 || year > 9999)
        *at++ = year < 0 ? '-' : '+';
    at = write_digits(at, (uint64_t)(year < 0 ? -year : year), 4);
    *at++ = '-';
    at = write_two(at, month < 10 ? month + 3 : month - 9);
    *at++ = '-';
    return write_two(at, day_of_year - (153 * month + 2) / 5 + 1);
}

static char *write_time(char *at, int64_t micros, int zoned)
{
    int64_t days = micros / DAY, rest = micros % DAY;
    unsigned seconds, fraction;
    if (rest < 0) {
        rest += DAY;
        days--;
    }
    seconds = (unsigned)(rest / 1000000);
    fraction = (unsigned)(rest % 1000000);
    at = write_date(at, days);
    *at++ = 'T';
    at = write_two(at, seconds / 3600);
    *at++ = ':';
    at = write_two(at, seconds / 60 % 60);
    *at++ = ':';
    at = write_two(at, seconds % 60);
    *at++ = '.';
    at = write_two(at, fraction / 10000);
    at = write_two(at, fraction / 100 % 100);
    at = write_two(at, fraction % 100);
    if (zoned)
        *at++ = 'Z';
    return at;
}

/* A number that has at most four decimals and few enough digits that they are the shortest text of it; else NULL. */
static char *write_easy_double(char *at, double number)
{
    double size = fabs(number);
    int decimals;
    if (!(size < 1e9) || (size < 1e-3 && size != 0))
        return NULL;
    for (decimals = 0; decimals <= 4; decimals++) {
        uint64_t whole = (uint64_t)(size * POWERS[decimals] + 0.5), unit = (uint64_t)POWERS[decimals];
        if ((double)whole / POWERS[decimals] != size)
            continue;
        if (signbit(number))
            *at++ = '-';
        at = write_digits(at, decimals ? whole / unit : whole, 1);
        *at++ = '.';
        if (decimals)
            return write_digits(at, whole % unit, decimals);
        *at++ = '0';
        return at;
    }
    return NULL;
}

/* What has no few digits is written as the text says that is given for it. */
static void put_double(Out *out, double number, const char *text, size_t length)
{
    char short_text[SHORT], *end = write_easy_double(short_text, number);
    if (end) {
        put(out, short_text, (size_t)(end - short_text));
    } else if (isnan(number) || isinf(number)) {
        const char *word = isnan(number) ? "\"NaN\"" : number < 0 ? "\"-Infinity\"" : "\"Infinity\"";
        put(out, word + !out->nested, strlen(word) - 2 * (size_t)!out->nested);
    } else {
        out->no_text |= !text;
        put(out, text, length);
        if (text && !memchr(text, '.', length) && !memchr(text, 'e', length))
            put(out, ".0", 2);
    }
}

static void put_decimal_text(Out *out, uint64_t low, uint64_t high, int scale)
{
    uint32_t parts[4];
    char digits[48];
    int at = sizeof digits, negative = high >> 63 != 0, index, left = 4;
    if (negative) {
        low = ~low + 1;
        high = ~high + (low == 0);
    }
    for (index = 0; index < 4; index++)
        parts[3 - index] = (uint32_t)((index < 2 ? low : high) >> index % 2 * 32);
    while (left) {
        uint64_t rest = 0;
        int each;
        for (index = 4 - left; index < 4; index++) {
            rest = rest << 32 | parts[index];
            parts[index] = (uint32_t)(rest / 1000000000);
            rest %= 1000000000;
        }
        while (left && !parts[4 - left])
            left--;
        for (each = 0; each < 9 && (left || rest || !each); each++, rest /= 10)
            digits[--at] = (char)('0' + rest % 10);
    }
    while ((int)sizeof digits - at <= scale)
        digits[--at] = '0';
    if (negative)
        put_byte(out, '-');
    put(out, digits + at, sizeof digits - (size_t)at - (size_t)scale);
    if (scale) {
        put_byte(out, '.');
        put(out, digits + sizeof digits - scale, (size_t)scale);
    }
}

/* Two's complement, the greatest byte first, without bytes that say nothing. */
static void put_decimal_bytes(Out *out, uint64_t low, uint64_t high)
{
    unsigned char bytes[16];
    int index, first = 0;
    for (index = 0; index < 16; index++)
        bytes[15 - index] = (unsigned char)((index < 8 ? low : high) >> index % 8 * 8);
    while (first < 15 && ((bytes[first] == 0 && bytes[first + 1] < 128) || (bytes[first] == 255 && bytes[first + 1] > 127)))
        first++;
    put_byte(out, (char)(2 * (16 - first)));
    put(out, (char *)bytes + first, (size_t)(16 - first));
}

/* ---- what is read ---- */

static int64_t integer_at(const Column *column, int64_t row)
{
    const char *at = (const char *)column->values.buf + row * column->extra;
    int8_t one;
    int16_t two;
    int32_t four;
    int64_t eight;
    switch (column->extra) {
    case 1: memcpy(&one, at, 1); return one;
    case 2: memcpy(&two, at, 2); return two;
    case 4: memcpy(&four, at, 4); return four;
    default: memcpy(&eight, at, 8); return eight;
    }
}

static int64_t offset_at(const Column *column, int64_t row)
{
    int32_t offset;
    memcpy(&offset, (const char *)column->offsets.buf + row * 4, 4);
    return offset;
}

static int bit_at(const Py_buffer *bits, int64_t row)
{
    return ((const unsigned char *)bits->buf)[row >> 3] >> (row & 7) & 1;
}

static int is_null(const Column *column, int64_t row)
{
    return column->nulls.buf && !bit_at(&column->nulls, row + column->offset);
}

static const char *text_at(const Column *column, int64_t row, size_t *length)
{
    int64_t begin = offset_at(column, row + column->offset);
    *length = (size_t)(offset_at(column, row + column->offset + 1) - begin);
    return *length ? (const char *)column->values.buf + begin : "";
}

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
    switch (column->kind) {
    case 'b': put_byte(out, (char)bit_at(&column->values, at)); break;
    case 'd': put(out, (const char *)column->values.buf + at * 8, 8); break;
    case 't':
        text = text_at(column, row, &length);
        put_count(out, (int64_t)length);
        put(out, text, length);
        break;
    case 'n':
        memcpy(words, (const char *)column->values.buf + at * 16, 16);
        put_decimal_bytes(out, words[0], words[1]);
        break;
    case 'a': case 'o': put_nested(out, column, row); break;
    default: put_count(out, integer_at(column, at));
    }
}

static void put_plain(Out *out, const Column *column, int64_t row)
{
    int64_t at = row + column->offset;
    uint64_t words[2];
    double number;
    size_t length = 0;
    const char *text = NULL;
    char *place;
    switch (column->kind) {
    case 'b':
        if (bit_at(&column->values, at))
            put(out, "true", 4);
        else
            put(out, "false", 5);
        break;
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
    case 'a': case 'o': put_nested(out, column, row); break;
    default:
        if (!(place = room(out, SHORT)))
            return;
        if (column->kind == 'i') {
            place = write_integer(place, integer_at(column, at));
        } else {
            if (out->nested)
                *place++ = '"';
            if (column->kind == 'D')
                place = write_date(place, integer_at(column, at));
            else
                place = write_time(place, integer_at(column, at), column->kind == 'T');
            if (out->nested)
                *place++ = '"';
        }
        out->size = (size_t)(place - out->bytes);
    }
}

static void put_value(Out *out, const Column *column, int64_t row)
{
    if (out->form == 'a') {
        put_byte(out, is_null(column, row) ? 0 : 2);
        if (!is_null(column, row))
            put_avro(out, column, row);
        return;
    }
    put(out, column->lead, (size_t)column->lead_length);
    if (!is_null(column, row))
        put_plain(out, column, row);
    else if (out->nested)
        put(out, "null", 4);
}

/* ---- columns as Python gives them ---- */

static void release(Column *column)
{
    Py_ssize_t index;
    for (index = 0; index < column->count; index++)
        release(column->children + index);
    PyMem_Free(column->children);
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
    if (!PyTuple_Check(given))
        return refused("a column is a tuple");
    if (!PyArg_ParseTuple(given, "Cy#LOOOiO!", &kind, &column->lead, &column->lead_length, &offset, &nulls, &values,
                          &offsets, &column->extra, &PyTuple_Type, &children))
        return 0;
    if (offset < 0 || offset > INT64_MAX / 256 || length > INT64_MAX / 256 || kind > 127 || !memchr("bidtTLDnao", kind, 10))
        return refused("no column");
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
