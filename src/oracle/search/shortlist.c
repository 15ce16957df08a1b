/*
 * The list of configurations that are to be replayed.
 */
#include "oracle/search/shortlist.h"
#include <stdlib.h>

pdl_status_t pdl__shortlist_add(pdl__shortlist_t *list, const pdl__short_t *entry)
{
    if (list->count == list->capacity) {
        int           capacity = 2 * list->capacity + 64;
        pdl__short_t *grown = realloc(list->entries, (size_t)capacity * sizeof(*grown));

        if (!grown) return pdl_error(PDL_ERR_NOMEM, "out of memory for %d configurations", capacity);
        list->entries = grown;
        list->capacity = capacity;
    }
    list->entries[list->count] = *entry;
    list->entries[list->count].place = list->count;
    list->count++;
    return PDL_OK;
}

static int compare(const void *a, const void *b)
{
    const pdl__short_t *x = a, *y = b;

    if (x->likely != y->likely) return x->likely < y->likely ? -1 : 1;
    if (x->least != y->least) return x->least < y->least ? -1 : 1;
    return x->place - y->place;
}

void pdl__shortlist_sort(pdl__shortlist_t *list)
{
    if (list->count > 1) qsort(list->entries, (size_t)list->count, sizeof(*list->entries), compare);
}

void pdl__shortlist_free(pdl__shortlist_t *list)
{
    free(list->entries);
    *list = (pdl__shortlist_t){.entries = NULL};
}
