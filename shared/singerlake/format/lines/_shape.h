/* How the members of a stream's records begin. Records of one writer mostly have the same names in the same order, so
 * that a comparison of bytes tells what was told of the record before. Needs string.h. */

#ifndef SINGERLAKE_SHAPE_H
#define SINGERLAKE_SHAPE_H

#include <stdint.h>
#include <stdlib.h>

#define LONGEST 60                       /* bytes of a beginning that is kept */
#define MOST 128                         /* members of a record that are kept */

typedef struct {
    char text[LONGEST];                  /* from behind the brace or the comma up to the value, as in `"name": ` */
    int16_t length;                      /* 0: none is kept */
    int16_t key;                         /* the number of the key property that it names; -1: none */
} Beginning;

typedef struct {
    Beginning *members;                  /* in the order of the record */
    ptrdiff_t room;
} Shape;

/* How the member of this number began in a record before, if this one begins with the same bytes; else NULL. */
static inline const Beginning *begins_as_before(const Shape *shape, ptrdiff_t member, const char *p, const char *end)
{
    const Beginning *kept;
    if (member >= shape->room)
        return NULL;
    kept = shape->members + member;
    if (!kept->length || end - p < kept->length || memcmp(kept->text, p, (size_t)kept->length))
        return NULL;
    return kept;
}

/* Keeps how a member begins, for the records behind it. What cannot be kept is found anew in each of them. */
static inline void keep_beginning(Shape *shape, ptrdiff_t member, const char *text, ptrdiff_t length, ptrdiff_t key)
{
    Beginning *kept;
    if (member >= MOST)
        return;
    if (member >= shape->room) {
        ptrdiff_t room = shape->room ? 2 * shape->room : 16;
        Beginning *members = realloc(shape->members, (size_t)room * sizeof *members);
        if (!members)
            return;
        memset(members + shape->room, 0, (size_t)(room - shape->room) * sizeof *members);
        shape->members = members;
        shape->room = room;
    }
    kept = shape->members + member;
    kept->length = length <= LONGEST && key <= INT16_MAX ? (int16_t)length : 0;
    kept->key = (int16_t)key;
    memcpy(kept->text, text, (size_t)kept->length);
}

static inline void forget_shape(Shape *shape)
{
    free(shape->members);
    *shape = (Shape){0};
}

#endif
