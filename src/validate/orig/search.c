/*
 * --formulas orig for several strategies at once, in the form that the search of our own formulas has.
 */
#include "base/clock.h"
#include <paradl/base/share.h>
#include <paradl/validate/orig.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_SAMPLES 64

/* Which layers a strategy splits is told by the file of the split it contains. */
static const char *split_name(const char *strategy)
{
    static const char *const splits[] = {"filter", "channel", "spatial"};

    for (size_t i = 0; i < sizeof(splits) / sizeof(splits[0]); i++) {
        if (strstr(strategy, splits[i]) != NULL) return splits[i];
    }
    return NULL;
}

/* The path of NAME.SPLIT.lc; false when there is none, and then all layers are split. */
static bool find_split(const char *model_name, const char *split, char *path, size_t size)
{
    static const char *const extensions[] = {".lc", NULL};
    static const char        ending[] = ".net";
    size_t                   length = strlen(model_name), tail = sizeof(ending) - 1;
    bool                     is_path = length > tail && strcmp(model_name + length - tail, ending) == 0;
    char                     name[4096];
    int                      written;

    if (is_path) length -= tail;
    written = snprintf(name, sizeof(name), "%.*s.%s%s", (int)length, model_name, split, is_path ? ".lc" : "");
    if (written < 0 || (size_t)written >= sizeof(name)) return false;
    return pdl_share_find("models", name, extensions, path, size) == PDL_OK;
}

static pdl_status_t read_split(const pdl_model_t *model, const char *model_name, const char *strategy, bool **flags)
{
    const char  *split = split_name(strategy);
    char         path[4096];
    pdl_status_t status;

    *flags = NULL;
    if (split == NULL || !find_split(model_name, split, path, sizeof(path))) return PDL_OK;
    *flags = calloc((size_t)pdl_model_layer_count(model), sizeof(**flags));
    if (*flags == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory");
    status = pdl_model_read_lc(path, model, *flags);
    if (!status) return PDL_OK;
    free(*flags);
    *flags = NULL;
    return status;
}

static pdl_config_t config_of(const pdl_strategy_t *strategy, int64_t groups, int64_t pe)
{
    bool                pipeline = pdl_strategy_has(strategy, PDL_AXIS_PIPELINE);
    pdl_strategy_mesh_t mesh = {.data = groups,
                                .pipeline = pipeline ? pe / groups : 1,
                                .inner = pipeline ? 1 : pe / groups};

    return pdl_config_on(strategy, &mesh);
}

/* The batch when nobody set one: as the program does, from what the memory of a device holds. */
static pdl_status_t choose_batch(pdl_orig_case_t *question, const char *strategy, int64_t samples)
{
    pdl_orig_result_t trial;
    pdl_status_t      status;

    if (question->batch > 0) return PDL_OK;
    if (samples > 0) return pdl_orig_batch(question, strategy, samples, &question->batch);
    /* With a sample for each device no limit on the batch is in the way. */
    question->batch = question->pe;
    status = pdl_orig_project(question, strategy, &trial);
    if (status) return status;
    samples = trial.samples_fit < MOST_SAMPLES ? (int64_t)fmax(1, floor(trial.samples_fit)) : MOST_SAMPLES;
    return pdl_orig_batch(question, strategy, samples, &question->batch);
}

/* The largest part of the communication, when it is a fifth of the time or more. */
static void find_limit(const pdl_orig_result_t *result, pdl_projection_t *projection)
{
    const struct {
        const char *name;
        double      seconds;
    } parts[] = {{"gradient exchange", result->gradient_s},
                 {"collectives in every layer", result->collective_s},
                 {"point-to-point transport", result->halo_s + result->gather_s + result->transfer_s}};
    double total = result->compute_s + result->comm_s, largest = 0.2;

    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        if (parts[i].seconds <= largest * total) continue;
        largest = parts[i].seconds / total;
        projection->findings[0] = (pdl_finding_t){.name = parts[i].name, .limit = i < 2, .share = largest};
        projection->finding_count = 1;
    }
}

static void fill_candidate(pdl_candidate_t *candidate, const pdl_orig_result_t *result)
{
    pdl_projection_t *p = &candidate->projection;
    double            iterations = result->iterations > 0 ? (double)result->iterations : 1;

    candidate->possible = result->feasible;
    snprintf(candidate->reason, sizeof(candidate->reason), "%s", result->reason);
    candidate->epoch_s = result->compute_s + result->comm_s;
    p->compute_s = result->compute_s / iterations;
    p->comm_s = result->comm_s / iterations;
    p->comm[PDL_COMM_GRADIENT] = result->gradient_s / iterations;
    p->comm[PDL_COMM_LAYER] = result->collective_s / iterations;
    p->comm[PDL_COMM_HALO] = (result->halo_s + result->gather_s) / iterations;
    p->comm[PDL_COMM_STAGE] = result->transfer_s / iterations;
    p->total_s = p->low_s = p->high_s = p->congested_s = candidate->epoch_s / iterations;
    p->memory_bytes = result->memory_bytes;
    p->fits = result->fits;
    candidate->score = candidate->epoch_s;
    candidate->sample_s = candidate->config.batch > 0 ? p->total_s / (double)candidate->config.batch : 0;
    if (candidate->epoch_s > 0) find_limit(result, p);
}

static pdl_status_t project_strategy(pdl_orig_case_t question, const char *model_name, const pdl_strategy_t *row,
                                     int64_t samples, pdl_candidate_t *candidate)
{
    const char       *strategy = row->name;
    pdl_orig_result_t result;
    int64_t           groups = 1;
    bool             *flags;
    pdl_status_t      status = read_split(question.model, model_name, strategy, &flags);

    if (status) return status;
    question.split = flags;
    candidate->config.strategy = row;
    /* One sample per group: the batch is the number of groups. devices that form none are an answer, not a mistake. */
    status = pdl_orig_batch(&question, strategy, 1, &groups);
    if (status == PDL_ERR_INPUT) {
        snprintf(candidate->reason, sizeof(candidate->reason), "%s", pdl_error_message());
        free(flags);
        return PDL_OK;
    }
    if (!status) status = choose_batch(&question, strategy, samples);
    if (!status) status = pdl_orig_project(&question, strategy, &result);
    free(flags);
    if (status) return status;
    candidate->config = config_of(row, groups, question.pe);
    candidate->config.batch = question.batch;
    if (candidate->config.pipeline > 1)
        candidate->config.micro_batches = question.segments > 0 ? question.segments : question.pe;
    fill_candidate(candidate, &result);
    return PDL_OK;
}

/* "all" leaves out what the number of devices excludes by its meaning: serial is for one, the others for several. */
static bool is_wanted(const pdl_strategy_t *wanted, const pdl_strategy_t *strategy, int64_t pe)
{
    return wanted != NULL ? wanted == strategy : (strategy->axes == 0) == (pe == 1);
}

static pdl_status_t project_all(const pdl_orig_case_t *question, const char *model_name,
                                const pdl_strategy_t *strategy, int64_t samples, pdl_search_t *search)
{
    pdl_status_t status = PDL_OK;
    int          count = 0;
    int64_t      batch;

    while (pdl_orig_strategy_name(count) != NULL) count++;
    search->candidates = calloc((size_t)count, sizeof(*search->candidates));
    if (search->candidates == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory");
    for (int i = 0; !status && i < count; i++) {
        const pdl_strategy_t *row = pdl_strategy_find(pdl_orig_strategy_name(i));

        if (!is_wanted(strategy, row, question->pe)) continue;
        status = project_strategy(*question, model_name, row, samples, &search->candidates[search->count]);
        if (!status) search->count++;
    }
    /* A strategy without such formulas is refused by their table itself. */
    if (!status && search->count == 0) status = pdl_orig_batch(question, strategy->name, 1, &batch);
    return status;
}

pdl_status_t pdl_orig_search(const pdl_orig_case_t *question, const char *model_name,
                             const pdl_strategy_t *strategy, int64_t samples, pdl_search_t **search)
{
    double        begin = pdl__seconds();
    pdl_search_t *made = calloc(1, sizeof(*made));
    pdl_status_t  status;

    if (made == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory");
    status = project_all(question, model_name, strategy, samples, made);
    if (status) {
        pdl_search_destroy(made);
        return status;
    }
    pdl_search_rank(made);
    made->configurations = made->count;
    made->seconds = pdl__seconds() - begin;
    made->certified = true;
    *search = made;
    return PDL_OK;
}
