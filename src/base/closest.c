#include "base/closest.h"

#include <stdio.h>
#include <string.h>

#define MAX_NAME    63
#define SUGGESTIONS 3

void pdl__join_names(const char *const *names, size_t count, char *buffer, size_t size)
{
    size_t used = 0, i;

    buffer[0] = '\0';
    for (i = 0; i < count; i++) {
        const char *before = i == 0 ? "" : i + 1 == count ? " or " : ", ";
        size_t      length = strlen(before) + strlen(names[i]);

        if (used + length + sizeof(", ...") > size) {
            snprintf(buffer + used, size - used, ", ...");
            return;
        }
        snprintf(buffer + used, size - used, "%s%s", before, names[i]);
        used += length;
    }
}

static size_t smallest(size_t a, size_t b, size_t c)
{
    size_t least = a < b ? a : b;

    return least < c ? least : c;
}

/* Insertions, deletions, replacements and swaps of neighbours that turn one name into the other (optimal
   string alignment distance). Both are at most MAX_NAME long. */
static size_t edit_distance(const char *a, const char *b)
{
    size_t rows[3][MAX_NAME + 1];
    size_t n = strlen(a), m = strlen(b), i, j;

    for (j = 0; j <= m; j++) rows[0][j] = j;
    for (i = 1; i <= n; i++) {
        size_t *now = rows[i % 3], *above = rows[(i - 1) % 3], *two_above = rows[(i + 1) % 3];

        now[0] = i;
        for (j = 1; j <= m; j++) {
            now[j] = smallest(above[j] + 1, now[j - 1] + 1, above[j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && two_above[j - 2] + 1 < now[j]) {
                now[j] = two_above[j - 2] + 1;
            }
        }
    }
    return rows[n % 3][m];
}

/* Collects the names at exactly `distance`. */
static size_t names_at(const char *name, const char *const *names, size_t count, size_t distance,
                       const char **found)
{
    size_t n = 0, i;

    for (i = 0; i < count && n < SUGGESTIONS; i++) {
        if (strlen(names[i]) <= MAX_NAME && edit_distance(name, names[i]) == distance) found[n++] = names[i];
    }
    return n;
}

static size_t names_beginning(const char *name, const char *const *names, size_t count, const char **found)
{
    size_t n = 0, i;

    for (i = 0; i < count && n < SUGGESTIONS; i++) {
        if (strncmp(name, names[i], strlen(name)) == 0) found[n++] = names[i];
    }
    return n;
}

bool pdl__closest_names(const char *name, const char *const *names, size_t count, char *buffer, size_t size)
{
    const char *found[SUGGESTIONS];
    size_t      length = strlen(name), n = 0, distance;

    if (length == 0 || length > MAX_NAME) return false;
    /* A third of the name may be wrong; beyond that a suggestion is a guess. */
    for (distance = 0; distance <= (length + 2) / 3 && n == 0; distance++) {
        n = names_at(name, names, count, distance, found);
    }
    if (n == 0) n = names_beginning(name, names, count, found);
    if (n > 0) pdl__join_names(found, n, buffer, size);
    return n > 0;
}
