/*
 * Runs whose stages are on different devices: the remarks of a row say which.
 */
#include "validate/published/published.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* "8xRTX-3090+8xRTX-2080;8xTitan-RTX+8xRTX-2080": nodes of as many devices each, in the order of the ranks, which a list of stages is. False
   where it is none. */
static bool read_list(const char *at, pdl_recipe_t *r)
{
    for (;; at++) {
        char  *end;
        long   count = strtol(at, &end, 10);
        size_t length = count > 0 && *end == 'x' ? strcspn(end + 1, ";+ ") : 0;

        if (length == 0 || length >= PDL_PART_NAME || r->part_count == PDL_MAX_PARTS) return false;
        if (r->part_count > 0 && count != r->per_node) return false;
        r->per_node = count;
        snprintf(r->part[r->part_count++], PDL_PART_NAME, "%.*s", (int)length, end + 1);
        at = end + 1 + length;
        if ((*at != ';' && *at != '+') || at[1] < '0' || at[1] > '9') return r->part_count * count == r->devices;
    }
}

bool pdl__published_parts(const char *notes, pdl_recipe_t *r)
{
    static const char words[] = "devices by stage ";
    const char       *at = strstr(notes, words);

    return at == NULL || read_list(at + sizeof(words) - 1, r);
}

pdl_status_t pdl__published_take_parts(const pdl_recipe_t *r, pdl_system_t *s)
{
    pdl_system_part_t parts[PDL_MAX_PARTS];

    for (int i = 0; i < r->part_count; i++) {
        int from = 0;

        while (from < s->part_count && strcmp(s->part[from].name, r->part[i]) != 0) from++;
        if (from == s->part_count)
            return pdl_error(PDL_ERR_INPUT, "no part of %s is called %s", s->name, r->part[i]);
        parts[i] = s->part[from];
        parts[i].nodes = 1;
        parts[i].kind = 0;
        while (strcmp(r->part[parts[i].kind], r->part[i]) != 0) parts[i].kind++;
    }
    memcpy(s->part, parts, (size_t)r->part_count * sizeof(*parts));
    s->part_count = r->part_count;
    s->level[0].fanout = s->host_level[0].fanout = r->per_node;
    s->level[1].fanout = s->host_level[1].fanout = r->part_count;
    s->pe_count = r->per_node * r->part_count;
    return PDL_OK;
}
