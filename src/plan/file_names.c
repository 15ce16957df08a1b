/*
 * Names in plan files: of axes and figures, and the patterns that stand for layers.
 */
#include "plan/file.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

const char *const pdl__run_mode_names[2] = {"training", "inference"};

const pdl__projection_key_t pdl__projection_keys[] = {
    {"iteration_s", offsetof(pdl_plan_projection_t, iteration_s), PDL_UNIT_SECONDS},
    {"low_s", offsetof(pdl_plan_projection_t, low_s), PDL_UNIT_SECONDS},
    {"high_s", offsetof(pdl_plan_projection_t, high_s), PDL_UNIT_SECONDS},
    {"compute_s", offsetof(pdl_plan_projection_t, compute_s), PDL_UNIT_SECONDS},
    {"comm_s", offsetof(pdl_plan_projection_t, comm_s), PDL_UNIT_SECONDS},
    {"io_s", offsetof(pdl_plan_projection_t, io_s), PDL_UNIT_SECONDS},
    {"bubble_s", offsetof(pdl_plan_projection_t, bubble_s), PDL_UNIT_SECONDS},
    {"memory_bytes", offsetof(pdl_plan_projection_t, memory_bytes), PDL_UNIT_BYTES},
    {NULL, 0, PDL_UNIT_NONE},
};

static bool same_name(const pdl_axis_t *a, const pdl_axis_t *b)
{
    return a->kind == b->kind && (a->kind != PDL_AXIS_SPATIAL || a->dim == b->dim);
}

void pdl__axis_name(const pdl_mesh_t *mesh, int axis, char name[PDL__AXIS_NAME_SIZE])
{
    const pdl_axis_t *own = &mesh->axis[axis];
    char              extent[12] = "", number[12] = "";
    int               before = 0, all = 0;

    for (int i = 0; i < mesh->axis_count; i++) {
        if (!same_name(&mesh->axis[i], own)) continue;
        all++;
        if (i < axis) before++;
    }
    if (own->kind == PDL_AXIS_SPATIAL) snprintf(extent, sizeof(extent), "_%d", own->dim);
    if (all > 1) snprintf(number, sizeof(number), "_%d", before);
    snprintf(name, PDL__AXIS_NAME_SIZE, "%s%s%s", pdl_axis_names[own->kind], extent, number);
}

int pdl__axis_find(const pdl_mesh_t *mesh, const char *name)
{
    char own[PDL__AXIS_NAME_SIZE];

    if (strcmp(name, pdl_axis_names[PDL_AXIS_SPATIAL]) == 0) name = "spatial_0";
    for (int i = 0; i < mesh->axis_count; i++) {
        pdl__axis_name(mesh, i, own);
        if (strcmp(own, name) == 0) return i;
    }
    return -1;
}

/* Compares one character with the set that opens at `pattern`; *end is the character after the set. False in
   *closed when there is no closing bracket: then the bracket is a character like any other. */
static bool set_match(const char *pattern, char c, const char **end, bool *closed)
{
    bool        invert = pattern[1] == '!' || pattern[1] == '^', found = false;
    const char *first = pattern + 1 + invert, *at = first;

    *closed = false;
    while (*at != '\0' && (*at != ']' || at == first)) {
        const char *low = *at == '\\' && at[1] != '\0' ? at + 1 : at, *high = low;

        if (low[1] == '-' && low[2] != '\0' && low[2] != ']') {
            high = low[2] == '\\' && low[3] != '\0' ? low + 3 : low + 2;
        }
        found |= (unsigned char)*low <= (unsigned char)c && (unsigned char)c <= (unsigned char)*high;
        at = high + 1;
    }
    if (*at != ']') return false;
    *closed = true;
    *end = at + 1;
    return found != invert;
}

/* Matches one character that is not a star; *end is what follows it in the pattern. */
static bool char_match(const char *pattern, char c, const char **end)
{
    bool closed, found;

    if (*pattern == '\0' || c == '\0') return false;
    *end = pattern + 1;
    if (*pattern == '?') return true;
    if (*pattern == '[') {
        found = set_match(pattern, c, end, &closed);
        if (closed) return found;
    } else if (*pattern == '\\' && pattern[1] != '\0') {
        *end = pattern + 2;
        return pattern[1] == c;
    }
    return *pattern == c;
}

bool pdl__glob_match(const char *pattern, const char *name)
{
    /* Where to go on when the text after the latest star did not fit: only that star needs to take more. */
    const char *star = NULL, *star_name = NULL, *next;

    while (*name != '\0' || *pattern != '\0') {
        if (*pattern == '*') {
            star = ++pattern;
            star_name = name;
        } else if (char_match(pattern, *name, &next)) {
            pattern = next;
            name++;
        } else if (star != NULL && *star_name != '\0') {
            pattern = star;
            name = ++star_name;
        } else {
            return false;
        }
    }
    return true;
}
