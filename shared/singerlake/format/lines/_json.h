/* Strict JSON (RFC 8259) on whole lines: where a value ends, and whether it is one. For the compiled modules.
 *
 * No scanner passes a newline, and what is scanned ends with one: that, not a comparison with the end, is what keeps every
 * read inside of it. Where more than a byte is read at once, the end is compared. */

#ifndef SINGERLAKE_JSON_H
#define SINGERLAKE_JSON_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define DEEPEST 64                       /* levels of a value that is passed over */

/* What a text does not hold as it is: control characters, a quote and a backslash. */
static const char SPECIAL[256] = {
    1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
    ['"'] = 1, ['\\'] = 1,
};

static inline int is_digit(char c) { return (unsigned char)(c - '0') < 10; }

static inline const char *spaces(const char *p)
{
    while ((unsigned char)*p <= ' ' && (*p == ' ' || *p == '\t' || *p == '\r'))
        p++;
    return p;
}

static inline int hexadecimal(const char *p)
{
    int value = 0;
    for (int i = 0; i < 4; i++) {
        char c = p[i];
        int digit = is_digit(c) ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
        if (digit < 0)
            return -1;
        value = value << 4 | digit;
    }
    return value;
}

/* Reads the escape whose backslash is at *p, moves *p behind it and gives its code point; -1 for one that is none, or is
 * half of a pair of surrogates. */
static inline int32_t escape(const char **p)
{
    const char *at = *p + 2;
    int32_t point;
    switch (at[-1]) {
    case '"': case '\\': case '/': point = at[-1]; break;
    case 'b': point = '\b'; break;
    case 'f': point = '\f'; break;
    case 'n': point = '\n'; break;
    case 'r': point = '\r'; break;
    case 't': point = '\t'; break;
    case 'u':
        point = hexadecimal(at);
        if (point < 0)
            return -1;
        at += 4;
        if (point >= 0xD800 && point < 0xE000) {
            int low = at[0] == '\\' && at[1] == 'u' ? hexadecimal(at + 2) : -1;
            if (point >= 0xDC00 || low < 0xDC00 || low >= 0xE000)
                return -1;
            point = 0x10000 + ((point - 0xD800) << 10) + (low - 0xDC00);
            at += 6;
        }
        break;
    default:
        return -1;
    }
    *p = at;
    return point;
}

/* The first byte from p on that is special. */
static inline const char *special(const char *p, const char *end)
{
    const uint64_t ones = 0x0101010101010101u, high = 0x8080808080808080u;
    for (uint64_t word; end - p >= 8; p += 8) {
        uint64_t quotes, slashes, found;
        memcpy(&word, p, 8);
        quotes = word ^ ones * '"';
        slashes = word ^ ones * '\\';
        found = (((quotes - ones) & ~quotes) | ((slashes - ones) & ~slashes) | ((word - ones * 0x20) & ~word)) & high;
        if (found)
#if defined(__GNUC__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
            return p + (__builtin_ctzll(found) >> 3); /* the first byte found is one, later ones may not be */
#else
            break;
#endif
    }
    while (!SPECIAL[(unsigned char)*p])
        p++;
    return p;
}

/* The closing quote of the text that begins at p, and whether escapes are in it; NULL where it has none, a control
 * character, or an escape that is none. */
static inline const char *closing_quote(const char *p, const char *end, int *escaped)
{
    *escaped = 0;
    for (;;) {
        p = special(p, end);
        if (*p == '"')
            return p;
        if (*p != '\\' || escape(&p) < 0)
            return NULL;
        *escaped = 1;
    }
}

/* The byte behind a number's last; *whole is false where it has a point or an exponent. NULL for what is no number. */
static inline const char *behind_number(const char *p, int *whole)
{
    *whole = 1;
    p += *p == '-';
    if (!is_digit(*p))
        return NULL;
    if (*p == '0')
        p++;
    else
        while (is_digit(*p))
            p++;
    if (*p == '.') {
        *whole = 0;
        if (!is_digit(*++p))
            return NULL;
        while (is_digit(*p))
            p++;
    }
    if (*p == 'e' || *p == 'E') {
        *whole = 0;
        p++;
        p += *p == '+' || *p == '-';
        if (!is_digit(*p))
            return NULL;
        while (is_digit(*p))
            p++;
    }
    return p;
}

/* Compared byte by byte, and so not beyond a newline. */
static inline const char *behind_word(const char *p, const char *word)
{
    while (*word)
        if (*p++ != *word++)
            return NULL;
    return p;
}

/* The byte behind the value that begins at p; NULL where it is not strict JSON, or too deep. */
static inline const char *behind_value(const char *p, const char *end, int depth)
{
    int escaped, whole, object;
    switch (*p) {
    case '"':
        p = closing_quote(p + 1, end, &escaped);
        return p ? p + 1 : NULL;
    case 't': return behind_word(p, "true");
    case 'f': return behind_word(p, "false");
    case 'n': return behind_word(p, "null");
    case '{': case '[':
        break;
    default:
        return behind_number(p, &whole);
    }
    if (depth >= DEEPEST)
        return NULL;
    object = *p == '{';
    p = spaces(p + 1);
    if (*p == (object ? '}' : ']'))
        return p + 1;
    for (;;) {
        if (object) {
            if (*p != '"' || !(p = closing_quote(p + 1, end, &escaped)))
                return NULL;
            p = spaces(p + 1);
            if (*p != ':')
                return NULL;
            p = spaces(p + 1);
        }
        if (!(p = behind_value(p, end, depth + 1)))
            return NULL;
        p = spaces(p);
        if (*p != ',')
            return *p == (object ? '}' : ']') ? p + 1 : NULL;
        p = spaces(p + 1);
    }
}

/* Whether bytes are UTF-8 by RFC 3629: no longer form than needed, no surrogate, nothing beyond U+10FFFF. */
static inline int is_utf8(const char *data, size_t size)
{
    const unsigned char *p = (const unsigned char *)data, *end = p + size;
    for (;;) {
        int more;
        for (uint64_t words[4]; end - p >= 32; p += 32) {
            memcpy(words, p, 32);
            if ((words[0] | words[1] | words[2] | words[3]) & 0x8080808080808080u)
                break;
        }
        for (uint64_t word; end - p >= 8; p += 8) {
            memcpy(&word, p, 8);
            if (word & 0x8080808080808080u)
                break;
        }
        while (p < end && *p < 0x80)
            p++;
        if (p == end)
            return 1;
        if (*p < 0xC2 || *p > 0xF4)
            return 0;
        more = *p < 0xE0 ? 1 : *p < 0xF0 ? 2 : 3;
        if (end - p <= more || p[1] < (*p == 0xE0 ? 0xA0 : *p == 0xF0 ? 0x90 : 0x80) ||
            p[1] > (*p == 0xED ? 0x9F : *p == 0xF4 ? 0x8F : 0xBF))
            return 0;
        for (int i = 2; i <= more; i++)
            if ((p[i] & 0xC0) != 0x80)
                return 0;
        p += more + 1;
    }
}

static inline int is_name(const char *p, ptrdiff_t length, const char *name)
{
    return (size_t)length == strlen(name) && !memcmp(p, name, (size_t)length);
}

/* Members of a message, an object with a newline behind it. The first one's name; NULL where no object begins. */
static inline const char *first_member(const char *p)
{
    p = spaces(p);
    return *p == '{' ? spaces(p + 1) : NULL;
}

/* The value of the member whose name is at p, and that name; NULL for a name with escapes, or what is no member. */
static inline const char *member_value(const char *p, const char *end, const char **name, ptrdiff_t *length)
{
    int escaped;
    *name = p + 1;
    if (*p != '"' || !(p = closing_quote(*name, end, &escaped)) || escaped)
        return NULL;
    *length = p - *name;
    p = spaces(p + 1);
    return *p == ':' ? spaces(p + 1) : NULL;
}

/* The name of the next member behind a value; the byte behind the newline where the message ends there, and *ended. */
static inline const char *next_member(const char *p, int *ended)
{
    p = spaces(p);
    if (*p == ',')
        return spaces(p + 1);
    if (*p != '}')
        return NULL;
    *ended = 1;
    p = spaces(p + 1);
    return *p == '\n' ? p + 1 : NULL;
}

#endif
