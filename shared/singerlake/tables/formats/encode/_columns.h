/* Arrow columns and their values, for _rows.c. */

#include <stdint.h>
#include <string.h>

typedef struct Column {
    char kind;                           /* b, i, d, t, T (UTC), L (no zone), D, n (decimal), a (list), o (struct) */
    char *lead;                          /* what stands before each value, and LEAD bytes */
    Py_ssize_t lead_length;
    int64_t offset;
    int extra;                           /* bytes of an integer, scale of a decimal */
    Py_buffer nulls, values, offsets;
    struct Column *children;
    Py_ssize_t count;
} Column;

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
