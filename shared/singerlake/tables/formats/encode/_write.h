/* Single values as csv, JSON and avro write them, for _rows.c. */

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum {
    CHUNK = 4096,                        /* bytes of text for which room is made at once */
    LEAD = 16,                           /* bytes that a lead is copied by */
    SHORT = 64                           /* more than a number or a time takes, quotes and all */
};

static const int64_t DAY = 86400000000LL;
static const double POWERS[] = {1, 10, 100, 1000, 10000};

typedef struct {
    char form;                           /* c (csv), e (csv, formulas escaped), j (JSON lines), a (avro) */
    int nested;                          /* whether JSON is being written */
    char *bytes;
    size_t size, room;
    int no_memory, no_text;
} Out;

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
    if (number < 10 && width < 2) {
        *at = (char)('0' + number);
        return at + 1;
    }
    if (number < 100 && width < 3)
        return write_two(at, (unsigned)number);
    for (; number > 99; number /= 100)
        write_two(digits + (first -= 2), (unsigned)(number % 100));
    if (number > 9)
        write_two(digits + (first -= 2), (unsigned)number);
    else
        digits[--first] = (char)('0' + number);
    while ((int)sizeof digits - first < width)
        digits[--first] = '0';
    width = (int)sizeof digits - first;
    while (first < (int)sizeof digits)
        *at++ = digits[first++];
    return at;
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

/* A number that has no few digits is written as the text says that is given for it. */
static void put_double(Out *out, double number, const char *text, size_t length)
{
    if (isnan(number) || isinf(number)) {
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
    while (first < 15 && bytes[first] == (bytes[first + 1] < 128 ? 0 : 255))
        first++;
    put_byte(out, (char)(2 * (16 - first)));
    put(out, (char *)bytes + first, (size_t)(16 - first));
}
