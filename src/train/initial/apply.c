/*
 * The weights of a file into a session.
 */
#include "base/memory.h"
#include "train/exec/session.h"
#include "train/initial/initial.h"

#include <math.h>
#include <stdlib.h>

static pdl_status_t check_finite(const pdl_initial_file_t *initial, int tensor, const float *values)
{
    int64_t bad = 0;

    for (int64_t i = 0; i < initial->tensor[tensor].elements; i++) bad += !isfinite(values[i]);
    if (bad == 0) return PDL_OK;
    return pdl_error(PDL_ERR_NOT_FINITE,
                     "%s: tensor %s holds %lld of %lld values that are not finite: use earlier weights",
                     initial->path, initial->tensor[tensor].name, (long long)bad,
                     (long long)initial->tensor[tensor].elements);
}

/* [columns][rows] to [rows][columns]. */
static void transpose(const float *from, int64_t rows, int64_t columns, float *to)
{
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < columns; c++) to[r * columns + c] = from[c * rows + r];
}

/* One weight of this rank; `values` and `turned` have room for it as it is in the file. */
static pdl_status_t set_weight(pdl_session_t *s, int entry, const pdl__initial_match_t *match, float *values,
                               float *turned)
{
    const pdl_session_tensor_t *info = &s->weights.entry[entry].info;
    pdl_status_t                status = pdl__initial_read(s->spec.initial, match->tensor, values);

    if (!status) status = check_finite(s->spec.initial, match->tensor, values);
    if (status) return status;
    if (match->fit == PDL__FIT_TRANSPOSED) {
        transpose(values, info->dims[0], info->dims[1], turned);
        values = turned;
    }
    status = pdl_session_set(s, entry, PDL_ARRAY_WEIGHT, values);
    if (!status && pdl__session_keeps(s, PDL_ARRAY_EMA) && info->trainable)
        status = pdl_session_set(s, entry, PDL_ARRAY_EMA, values);
    return status;
}

static pdl_status_t set_all(pdl_session_t *s, const pdl__initial_match_t *match)
{
    int64_t      most = 0;
    pdl_status_t status = PDL_OK;

    for (int i = 0; i < s->weights.listed_count; i++)
        if (match[i].tensor >= 0 && s->spec.initial->tensor[match[i].tensor].elements > most)
            most = s->spec.initial->tensor[match[i].tensor].elements;
    float *values = malloc((size_t)most * 2 * sizeof(*values) + 1);
    if (values == NULL) return pdl__no_memory("while reading initial weights");
    for (int i = 0; i < s->weights.listed_count && !status; i++) {
        int entry = pdl__session_entry_of(s, i);
        if (entry >= 0 && match[i].fit < PDL__FIT_MISSING)
            status = set_weight(s, entry, &match[i], values, values + most);
    }
    free(values);
    return status;
}

pdl_status_t pdl__session_initialise(pdl_session_t *s)
{
    int                          count = s->weights.listed_count;
    pdl__initial_match_t        *match = calloc((size_t)count + 1, sizeof(*match));
    const pdl_session_tensor_t **wanted = calloc((size_t)count + 1, sizeof(*wanted));
    pdl_status_t status = match && wanted ? PDL_OK : pdl__no_memory("while reading initial weights");

    for (int i = 0; i < count && !status; i++) wanted[i] = &s->weights.listed[i].info;
    if (!status) status = pdl__initial_match(s->spec.initial, s->spec.plan->model, wanted, count, match);
    if (!status) status = set_all(s, match);
    free(match);
    free(wanted);
    if (!status) status = pdl__spread_statistics(s);
    return status ? status : pdl__session_refresh(s, false);
}
