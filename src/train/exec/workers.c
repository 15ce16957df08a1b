/*
 * What sets the parts of a batch apart: statistics of batch norm that every worker keeps for itself, and results of
 * samples, for which one rank speaks.
 */
#include "train/exec/session.h"
#include "train/exec/shard.h"
#include <stdlib.h>
#include <string.h>

/* Floats of one worker's statistics. */
static int64_t statistics_stride(const pdl_session_t *s)
{
    return s->weights.elements - s->weights.trainable;
}

void *pdl__statistics_at(const pdl_session_t *s, const pdl__trace_entry_t *entry, int64_t worker)
{
    size_t item = pdl_dtype_bytes(s->spec.backend->weight_type);

    return (char *)pdl__entry_at(s, PDL_ARRAY_WEIGHT, entry) + (size_t)(worker * statistics_stride(s)) * item;
}

int64_t pdl__worker_elements(const pdl_session_t *s)
{
    return (s->weights.workers - 1) * statistics_stride(s);
}

int64_t pdl__worker_of(const pdl_session_t *s, int micro_batch)
{
    return micro_batch / (s->micro_batches / s->weights.workers);
}

/* Behind the weights that are trained, or the part of them that is held here. */
pdl_slice_t pdl__statistics(const pdl_session_t *s, void **array)
{
    *array = s->weights.passes ? s->weights.statistics : s->weights.array[PDL_ARRAY_WEIGHT];
    return (pdl_slice_t){.at = s->weights.passes                         ? 0
                               : pdl__shard_divides(s, PDL_ARRAY_WEIGHT) ? s->weights.held
                                                                         : s->weights.trainable,
                         .elements = s->weights.workers * statistics_stride(s)};
}

static size_t statistics_bytes(const pdl_session_t *s)
{
    void *array;

    return (size_t)pdl__statistics(s, &array).elements * pdl_dtype_bytes(s->spec.backend->weight_type);
}

static char *statistics_begin(const pdl_session_t *s)
{
    void   *array;
    int64_t at = pdl__statistics(s, &array).at;

    return (char *)array + (size_t)at * pdl_dtype_bytes(s->spec.backend->weight_type);
}

pdl_status_t pdl__spread_statistics(pdl_session_t *s)
{
    size_t       bytes = statistics_bytes(s) / (size_t)s->weights.workers;
    pdl_status_t status = PDL_OK;

    for (int64_t w = 1; w < s->weights.workers && !status; w++)
        status = s->executor.device->ops->copy(s->executor.device, s->executor.stream[PDL_STREAM_COMPUTE],
                                               statistics_begin(s) + (size_t)w * bytes, statistics_begin(s), bytes);
    return status;
}

/* Whether there are several sets of statistics, here or on other ranks. */
static bool statistics_differ(const pdl_session_t *s)
{
    return s->weights.workers > 1 || pdl_ranks_size(s->spec.ranks) > 1;
}

/* One statistic, over the workers here and on the ranks that have others of the same channels. The first's alone is
   what is left when the others add nothing. */
static pdl_status_t average_entry(pdl_session_t *s, const pdl__trace_entry_t *entry)
{
    pdl_ranks_t *group = s->graph->unit[entry->unit].statistics;
    bool         alone = !group || pdl_ranks_size(group) == 1;
    bool         first = s->spec.first_statistics, counts = !first || alone || pdl_ranks_rank(group) == 0;
    int64_t      workers = first ? 1 : s->weights.workers;
    double       values[513];
    float        piece[512];
    pdl_status_t status = PDL_OK;

    for (int64_t from = 0; from < entry->storage; from += 512) {
        int64_t count = entry->storage - from < 512 ? entry->storage - from : 512;
        memset(values, 0, sizeof(values));
        for (int64_t w = 0; w < workers && counts; w++) {
            status = s->executor.device->ops->copy(s->executor.device, NULL, piece,
                                                   (float *)pdl__statistics_at(s, entry, w) + from,
                                                   (size_t)count * sizeof(*piece));
            if (status) return status;
            for (int64_t i = 0; i < count; i++) values[i] += (double)piece[i];
            values[count] += 1;
        }
        if (!alone) status = pdl_ranks_sum(group, values, count + 1);
        for (int64_t i = 0; i < count; i++) piece[i] = (float)(values[i] / values[count]);
        if (!status)
            status = s->executor.device->ops->copy(s->executor.device, NULL,
                                                   (float *)pdl__statistics_at(s, entry, 0) + from, piece,
                                                   (size_t)count * sizeof(*piece));
        if (status) return status;
    }
    return PDL_OK;
}

static pdl_status_t average_statistics(pdl_session_t *s)
{
    pdl_status_t status = pdl__session_await(s);

    if (s->spec.backend->weight_type != PDL_DTYPE_F32) return PDL_OK;
    for (int i = 0; i < s->weights.entry_count && !status; i++)
        if (!s->weights.entry[i].info.trainable) status = average_entry(s, &s->weights.entry[i]);
    return status ? status : pdl__spread_statistics(s);
}

pdl_status_t pdl_session_mean_statistics(pdl_session_t *s, bool mean)
{
    if (!statistics_differ(s) || s->spec.separate || mean == s->weights.statistics_are_mean) return PDL_OK;
    s->weights.statistics_are_mean = mean;
    pdl_status_t status = pdl__session_await(s);
    if (status) return status;
    if (!mean)
        return s->weights.kept ? s->executor.device->ops->copy(s->executor.device, NULL, statistics_begin(s),
                                                               s->weights.kept, statistics_bytes(s))
                               : PDL_OK;
    if (!s->weights.kept && statistics_bytes(s) > 0) {
        s->weights.kept = malloc(statistics_bytes(s));
        if (!s->weights.kept) return pdl_error(PDL_ERR_NOMEM, "out of memory for the statistics of workers");
    }
    if (s->weights.kept)
        status = s->executor.device->ops->copy(s->executor.device, NULL, s->weights.kept, statistics_begin(s),
                                               statistics_bytes(s));
    return status ? status : average_statistics(s);
}

static pdl_status_t gather_own(pdl_session_t *s, int64_t bytes, void *all, int64_t *sizes)
{
    void        *home = malloc((size_t)bytes + 1);
    pdl_status_t status = home ? pdl__session_await(s) : pdl_error(PDL_ERR_NOMEM, "out of memory");

    if (!status)
        status = s->executor.device->ops->copy(s->executor.device, NULL, home, statistics_begin(s), (size_t)bytes);
    status = pdl_ranks_agree(s->spec.ranks, status);
    if (!status) status = pdl_ranks_gather_all(s->spec.ranks, bytes > 0 ? home : NULL, bytes, all, sizes);
    free(home);
    return status;
}

pdl_status_t pdl__statistics_gather(pdl_session_t *s, void **all, int64_t *bytes)
{
    int64_t     *sizes = calloc((size_t)pdl_ranks_size(s->spec.ranks), sizeof(*sizes));
    int64_t      own = (int64_t)statistics_bytes(s);
    pdl_status_t status =
        pdl_ranks_agree(s->spec.ranks, sizes ? PDL_OK : pdl_error(PDL_ERR_NOMEM, "out of memory"));

    *all = NULL;
    *bytes = 0;
    if (!status && statistics_differ(s)) status = pdl_ranks_gather_all(s->spec.ranks, NULL, own, NULL, sizes);
    for (int r = 0; r < pdl_ranks_size(s->spec.ranks) && !status; r++) *bytes += sizes[r];
    if (!status && *bytes > 0) {
        *all = malloc((size_t)*bytes);
        status = pdl_ranks_agree(s->spec.ranks, *all ? PDL_OK : pdl_error(PDL_ERR_NOMEM, "out of memory"));
        if (!status) status = gather_own(s, own, *all, sizes);
    }
    free(sizes);
    return status;
}

pdl_status_t pdl__statistics_scatter(pdl_session_t *s, const void *all, int64_t bytes)
{
    int64_t     *sizes = calloc((size_t)pdl_ranks_size(s->spec.ranks), sizeof(*sizes)), total = 0, first = 0;
    pdl_status_t status =
        pdl_ranks_agree(s->spec.ranks, sizes ? PDL_OK : pdl_error(PDL_ERR_NOMEM, "out of memory"));

    if (!status) status = pdl_ranks_gather_all(s->spec.ranks, NULL, (int64_t)statistics_bytes(s), NULL, sizes);
    for (int r = 0; r < pdl_ranks_size(s->spec.ranks) && !status; r++) {
        if (r < pdl_ranks_rank(s->spec.ranks)) first += sizes[r];
        total += sizes[r];
    }
    /* Those of other ranks or workers: the mean, which has been restored, has to do. */
    if (!status && total == bytes) {
        status = pdl__session_await(s);
        if (!status)
            status = s->executor.device->ops->copy(s->executor.device, NULL, statistics_begin(s),
                                                   (const char *)all + first, statistics_bytes(s));
    }
    free(sizes);
    return status;
}

/* The axes other than data axes that the plan has, and those of data. */
static unsigned axes_of(const pdl_session_t *s, bool data)
{
    const pdl_mesh_t *mesh = &s->spec.plan->mesh;
    unsigned          axes = 0;

    for (int a = 0; a < mesh->axis_count; a++)
        if (mesh->axis[a].size > 1 && mesh->axis[a].kind != PDL_AXIS_PIPELINE &&
            (mesh->axis[a].kind == PDL_AXIS_DATA) == data)
            axes |= 1u << a;
    return axes;
}

bool pdl_session_reports(const pdl_session_t *s)
{
    unsigned others = axes_of(s, false);

    if (s->graph->loss < 0) return false;
    for (int a = 0; a < s->spec.plan->mesh.axis_count; a++)
        if (others >> a & 1 && s->layouts->coordinates[a] != 0) return false;
    return true;
}

pdl_status_t pdl_session_data_ranks(const pdl_session_t *s, pdl_ranks_t **ranks)
{
    return pdl__groups_get(s->groups, axes_of(s, true), ranks);
}

pdl_status_t pdl_session_gather_samples(pdl_session_t *s)
{
    double       values[512];
    int64_t      total = 3 * s->count;
    pdl_ranks_t *group;

    if (s->graph->loss < 0) return PDL_OK;
    const pdl__unit_t *loss = &s->graph->unit[s->graph->loss];
    double             share = loss->spec.share;
    int64_t samples = pdl__region_samples(&loss->region), first = pdl__region_first(s->layouts, &loss->region);
    if ((share == 0 || share == 1) && samples == s->micro_samples) return PDL_OK;
    pdl_status_t status = pdl__groups_get(s->groups, axes_of(s, false), &group);
    double       alike = 1;
    /* Ranks that have the same positions count once. */
    for (int a = 0; a < s->spec.plan->mesh.axis_count; a++)
        if (axes_of(s, false) >> a & 1 && s->layouts->layer[loss->layer].out.on[a] == PDL_REPLICATED)
            alike *= (double)s->spec.plan->mesh.axis[a].size;
    for (int64_t from = 0; from < total && !status; from += 512) {
        int64_t count = total - from < 512 ? total - from : 512;
        for (int64_t i = 0; i < count; i++) {
            /* Samples of others may still have what was gathered before. */
            int64_t place = (from + i) % s->count % s->micro_samples - first;
            values[i] = place >= 0 && place < samples ? (double)s->executor.results[from + i] / alike : 0;
        }
        status = pdl_ranks_sum(group, values, count);
        for (int64_t i = 0; i < count && !status; i++) s->executor.results[from + i] = (float)values[i];
    }
    return status;
}
