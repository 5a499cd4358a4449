/* Moments of RECORD messages as text: which texts are sure to name one, and which of two is the earlier. Needs _json.h. */

#ifndef SINGERLAKE_MOMENTS_H
#define SINGERLAKE_MOMENTS_H

#define SECONDS 19                       /* the length of 2026-01-31T23:59:59 */
#define FRACTION 9                       /* digits of one at most */

typedef struct {
    const char *text;                    /* NULL: none yet */
    ptrdiff_t length;
} Moment;

static inline int two_digits(const char *p) { return (p[0] - '0') * 10 + p[1] - '0'; }

static inline int is_day(const char *p)
{
    static const char DAYS[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    int century = two_digits(p), year = two_digits(p + 2), month = two_digits(p + 5), day = two_digits(p + 8);
    int leap = month == 2 && year % 4 == 0 && (year || century % 4 == 0);
    return month >= 1 && month <= 12 && day >= 1 && day <= DAYS[month - 1] + leap;
}

/* Whether a text names a moment in UTC, written so that such texts are in the order of their digits. */
static inline int is_moment(const char *p, ptrdiff_t length)
{
    static const char SHAPE[] = "dddd-dd-ddTdd:dd:dd";
    ptrdiff_t at;
    /* Some texts of the first years mean the earliest moment, with any digits. */
    if (length <= SECONDS || !memcmp(p, "000", 3))
        return 0;
    for (at = 0; at < SECONDS; at++)
        if (SHAPE[at] == 'd' ? !is_digit(p[at]) : p[at] != SHAPE[at])
            return 0;
    if (!is_day(p) || two_digits(p + 11) > 23 || two_digits(p + 14) > 59 || two_digits(p + 17) > 59)
        return 0;
    if (p[at] == '.') {
        ptrdiff_t begin = ++at;
        while (at < length && is_digit(p[at]))
            at++;
        if (at == begin || at - begin > FRACTION)
            return 0;
    }
    return (length - at == 1 && p[at] == 'Z') || (length - at == 6 && !memcmp(p + at, "+00:00", 6));
}

/* A fraction that is shorter goes on with zeros. */
static inline int is_before(Moment one, Moment other)
{
    const char *a = one.text + SECONDS, *b = other.text + SECONDS;
    int order = memcmp(one.text, other.text, SECONDS);
    if (order)
        return order < 0;
    a += *a == '.';
    b += *b == '.';
    while (is_digit(*a) || is_digit(*b)) {
        char left = is_digit(*a) ? *a++ : '0', right = is_digit(*b) ? *b++ : '0';
        if (left != right)
            return left < right;
    }
    return 0;
}

static inline void widen(Moment *first, Moment *last, Moment time)
{
    if (!first->text || is_before(time, *first))
        *first = time;
    if (!last->text || is_before(*last, time))
        *last = time;
}

#endif
