/*
 * Checkpoints of a session: weights and statistics under their own names, the optimizer's state under the names PyTorch
 * gives it.
 */
#include "train/checkpoint/save.h"
#include "train/exec/session.h"
#include <math.h>
#include <paradl/base/version.h>
#include <paradl/comm/watch.h>
#include <paradl/train/train.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A tensor of the session's list, and which of its arrays. */
typedef struct choice {
    int                 tensor;
    pdl_session_array_t array;
} choice_t;

typedef struct part {
    pdl_session_t       *session;
    pdl_stored_t        *stored;
    choice_t            *from;
    int                  count;
    const pdl__extras_t *extras; /* behind the session's */
} part_t;

static const char *state_suffix(const pdl_session_t *s, pdl_session_array_t array)
{
    if (array == PDL_ARRAY_EMA) return "ema";
    if (array == PDL_ARRAY_MOMENT2) return "exp_avg_sq";
    return pdl_optimizer_moments(&s->spec.optimizer) == 2 ? "exp_avg" : "momentum_buffer";
}

/* Weights in pieces, or of another stage, are gathered by all ranks: rank 0, which writes, says which it wants next. */
typedef struct wanted {
    int tensor, array; /* tensor -1: no more */
} wanted_t;

static bool in_pieces(const pdl_session_t *s)
{
    return !s->layouts->trivial || s->layouts->stages->count > 1 || s->weights.sharding != PDL_SHARDING_NONE;
}

/* From the first rank of a stage to the first of all. */
static pdl_status_t hand_over(const pdl_session_t *s, int stage, float *whole, int64_t elements)
{
    const pdl__pipe_t   *stages = s->layouts->stages;
    int64_t              bytes = elements * (int64_t)sizeof(*whole);
    pdl_ranks_request_t *request;

    if (stage == 0 || pdl_ranks_rank(s->groups->stage) != 0) return PDL_OK;
    if (stages->at != 0 && stages->at != stage) return PDL_OK;
    pdl_status_t status = pdl_ranks_request_create(s->groups->stages, bytes, &request);
    if (status) return status;
    if (stages->at == 0)
        status = pdl_ranks_receive_start(request, whole, bytes, stage, 0);
    else
        status = pdl_ranks_send_start(request, whole, bytes, 0, 0);
    if (!status) status = pdl_ranks_request_wait(request);
    pdl_ranks_request_destroy(request);
    return status;
}

/* Collective where tensors are in pieces: rank 0 gets a whole one, the others use `whole` as they need. */
static pdl_status_t gather_tensor(const pdl_session_t *s, int i, pdl_session_array_t array, float *whole)
{
    const pdl__listed_t *listed = &s->weights.listed[i];
    pdl_status_t         status = PDL_OK;

    if (listed->stage == s->layouts->stages->at) status = pdl_session_get(s, listed->entry, array, whole);
    return status ? status : hand_over(s, listed->stage, whole, listed->info.elements);
}

static pdl_status_t fill_tensor(void *context, int i, void *into)
{
    const part_t *part = context;
    wanted_t      wanted = {part->from[i].tensor, (int)part->from[i].array};
    pdl_status_t  status = PDL_OK;

    if (wanted.tensor < 0) {
        const pdl__extra_t *extra = &part->extras->extra[-1 - wanted.tensor];
        memcpy(into, extra->data, (size_t)extra->count * (extra->bytes ? 1 : sizeof(int64_t)));
        return PDL_OK;
    }

    if (in_pieces(part->session))
        status = pdl_ranks_broadcast(part->session->spec.ranks, &wanted, sizeof(wanted), 0);
    if (status) return status;
    return gather_tensor(part->session, part->from[i].tensor, part->from[i].array, into);
}

/* The other ranks take part in the gathers while rank 0 writes. */
static pdl_status_t lend_pieces(pdl_session_t *s)
{
    wanted_t     wanted = {0, 0};
    pdl_status_t status = PDL_OK;

    while (in_pieces(s) && !status) {
        status = pdl_ranks_broadcast(s->spec.ranks, &wanted, sizeof(wanted), 0);
        if (status || wanted.tensor < 0) break;
        float *whole = malloc((size_t)s->weights.listed[wanted.tensor].info.elements * sizeof(*whole));
        if (!whole) return pdl_error(PDL_ERR_NOMEM, "out of memory while a checkpoint is written");
        status = gather_tensor(s, wanted.tensor, (pdl_session_array_t)wanted.array, whole);
        free(whole);
    }
    return status;
}

static pdl_status_t end_gathers(pdl_session_t *s)
{
    wanted_t wanted = {-1, 0};

    return in_pieces(s) ? pdl_ranks_broadcast(s->spec.ranks, &wanted, sizeof(wanted), 0) : PDL_OK;
}

static void free_part(part_t *part)
{
    for (int i = 0; part->stored && i < part->count; i++) free((char *)(uintptr_t)part->stored[i].name);
    free(part->stored);
    free(part->from);
}

static bool list_tensor(part_t *part, int i, pdl_session_array_t array)
{
    pdl_session_t              *s = part->session;
    const pdl_session_tensor_t *info = &s->weights.listed[i].info;
    const char                 *suffix = array == PDL_ARRAY_WEIGHT ? "" : state_suffix(s, array);
    size_t                      length = strlen(info->name) + strlen(suffix) + 2;
    char                       *name = malloc(length);

    if (!name) return false;
    snprintf(name, length, "%s%s%s", info->name, *suffix ? "." : "", suffix);
    pdl_stored_t *stored = &part->stored[part->count];
    *stored = (pdl_stored_t){.name = name,
                             .type = PDL_STORED_F32,
                             .rank = info->rank,
                             .bytes = (size_t)info->elements * sizeof(float)};
    memcpy(stored->dims, info->dims, sizeof(info->dims));
    part->from[part->count++] = (choice_t){i, array};
    return true;
}

/* The tensors of the arrays first .. last. */
static pdl_status_t list_part(pdl_session_t *s, pdl_session_array_t first, pdl_session_array_t last, part_t *part)
{
    size_t most = (size_t)s->weights.listed_count * (size_t)(last - first + 1) + PDL__EXTRAS + 1;
    bool   listed = true;

    *part = (part_t){.session = s,
                     .stored = calloc(most, sizeof(*part->stored)),
                     .from = calloc(most, sizeof(*part->from))};
    listed = part->stored && part->from;
    for (int a = (int)first; a <= (int)last; a++)
        for (int i = 0; i < s->weights.listed_count && listed; i++)
            if (pdl__session_keeps(s, (pdl_session_array_t)a) &&
                (a == PDL_ARRAY_WEIGHT || s->weights.listed[i].info.trainable))
                listed = list_tensor(part, i, (pdl_session_array_t)a);
    if (listed) return PDL_OK;
    free_part(part);
    *part = (part_t){0};
    return pdl_error(PDL_ERR_NOMEM, "out of memory while listing the weights");
}

static pdl_status_t list_extras(part_t *part, const pdl__extras_t *extras)
{
    part->extras = extras;
    for (int i = 0; i < extras->count; i++) {
        const pdl__extra_t *extra = &extras->extra[i];
        char               *name = strdup(extra->name);
        if (!name) return pdl_error(PDL_ERR_NOMEM, "out of memory while listing the weights");
        part->from[part->count] = (choice_t){.tensor = -1 - i};
        part->stored[part->count++] = (pdl_stored_t){.name = name,
                                                     .type = extra->bytes ? PDL_STORED_U8 : PDL_STORED_I64,
                                                     .rank = 1,
                                                     .dims = {extra->count}};
    }
    return PDL_OK;
}

void pdl__extras_free(pdl__extras_t *extras)
{
    for (int i = 0; i < extras->count; i++) free(extras->extra[i].data);
    *extras = (pdl__extras_t){0};
}

static pdl_status_t write_checkpoint(pdl_session_t *s, const char *folder, const pdl__place_t *place, int keep)
{
    pdl_checkpoint_info_t info = {.step = s->updates,
                                  .epoch = place->epoch,
                                  .step_in_epoch = place->step_in_epoch,
                                  .loss_sum = place->sums[0],
                                  .accuracy_sum = place->sums[1],
                                  .sample_sum = place->sums[2],
                                  .seed = s->spec.seed,
                                  .batch = s->batch,
                                  .model = place->model_name,
                                  .model_hash = place->model_hash,
                                  .optimizer = s->spec.optimizer,
                                  .version = pdl_version()};
    part_t                model, state = {0};
    pdl_status_t          status = list_part(s, PDL_ARRAY_WEIGHT, PDL_ARRAY_WEIGHT, &model);

    if (status) return status;
    if (place->identity) {
        info.extra = place->identity->entry;
        info.extra_count = place->identity->count;
        info.description = place->identity->model;
    }
    status = list_part(s, PDL_ARRAY_MOMENT1, PDL_ARRAY_EMA, &state);
    if (!status && place->extras) status = list_extras(&state, place->extras);
    if (!status) {
        pdl_checkpoint_part_t model_part = {model.stored, model.count, fill_tensor, &model};
        pdl_checkpoint_part_t state_part = {state.stored, state.count, fill_tensor, &state};
        status = pdl_checkpoint_write(folder, &info, &model_part, &state_part, keep);
        free_part(&state);
    }
    free_part(&model);
    return status;
}

bool pdl__session_whole(const pdl_session_t *s)
{
    return !s->updating && !in_pieces(s) && s->weights.elements == s->weights.trainable &&
           pdl__plan_thins(s->spec.plan) == 0;
}

pdl_status_t pdl__session_save_alone(pdl_session_t *s, const char *folder, const pdl__place_t *place, int keep)
{
    return write_checkpoint(s, folder, place, keep);
}

static const char statistics_name[] = PDL__EXTRA "statistics", residuals_name[] = PDL__EXTRA "residuals";

/* Writes the mean of the statistics, while all ranks take part. */
static pdl_status_t save_mean(pdl_session_t *s, const char *folder, const pdl__place_t *place, int keep)
{
    pdl_status_t status = pdl_session_mean_statistics(s, true);

    if (status) return status;
    if (pdl_ranks_rank(s->spec.ranks) == 0) {
        status = write_checkpoint(s, folder, place, keep);
        pdl_status_t ended = end_gathers(s);
        if (!status) status = ended;
    } else {
        status = lend_pieces(s);
    }
    return pdl_ranks_agree(s->spec.ranks, status);
}

pdl_status_t pdl__session_save(pdl_session_t *s, const char *folder, const pdl__place_t *place, int keep)
{
    pdl__extras_t extras = {0};
    pdl__place_t  whole = *place;
    pdl__extra_t  statistics = {.name = statistics_name, .bytes = true};
    pdl__extra_t  residuals = {.name = residuals_name, .bytes = true};
    bool          mean = s->weights.statistics_are_mean;
    pdl_status_t  status = pdl__statistics_gather(s, &statistics.data, &statistics.count);

    if (!status) status = pdl__residuals_gather(s, &residuals.data, &residuals.count);
    pdl_watch_at(s->spec.ranks, &(pdl_watch_place_t){.update = s->updates, .doing = "writing a checkpoint"});
    if (place->extras) extras = *place->extras;
    if (statistics.count > 0) extras.extra[extras.count++] = statistics;
    if (residuals.count > 0) extras.extra[extras.count++] = residuals;
    whole.extras = &extras;
    if (!status) status = save_mean(s, folder, &whole, keep);
    if (!status) status = pdl_session_mean_statistics(s, mean);
    pdl_watch_at(s->spec.ranks, &(pdl_watch_place_t){.update = s->updates, .doing = "checkpoint written"});
    free(statistics.data);
    free(residuals.data);
    return status;
}

/* What the mean in the checkpoint was made of, if that is there. */
static pdl_status_t restore_statistics(pdl_session_t *s, const pdl_checkpoint_t *checkpoint)
{
    const pdl_stored_t *stored = pdl_safetensors_find(pdl_checkpoint_state(checkpoint), statistics_name);

    if (!stored) return PDL_OK;
    return pdl__statistics_scatter(s, stored->data, (int64_t)stored->bytes);
}

static pdl_status_t restore_residuals(pdl_session_t *s, const pdl_checkpoint_t *checkpoint)
{
    const pdl_stored_t *stored = pdl_safetensors_find(pdl_checkpoint_state(checkpoint), residuals_name);
    pdl_status_t        status = PDL_OK;

    if (stored) status = pdl__residuals_scatter(s, stored->data, (int64_t)stored->bytes);
    return pdl_ranks_agree(s->spec.ranks, status);
}

/* Nothing good comes of such weights, and a score of them would look like one. */
static pdl_status_t check_finite(const char *name, int64_t count, const float *values)
{
    int64_t bad = 0;

    for (int64_t i = 0; i < count; i++) bad += !isfinite(values[i]);
    if (bad == 0) return PDL_OK;
    return pdl_error(PDL_ERR_NOT_FINITE,
                     "tensor %s of the checkpoint holds %lld of %lld values that are not finite: use an earlier "
                     "checkpoint, or train again with a lower learning rate",
                     name, (long long)bad, (long long)count);
}

static pdl_status_t restore_part(pdl_session_t *s, const pdl_safetensors_t *file, const part_t *part)
{
    int64_t      most = 0;
    pdl_status_t status = PDL_OK;

    for (int i = 0; i < s->weights.entry_count; i++)
        if (s->weights.entry[i].info.elements > most) most = s->weights.entry[i].info.elements;
    float *plain = malloc((size_t)most * sizeof(*plain) + 1);
    if (!plain) return pdl_error(PDL_ERR_NOMEM, "out of memory while reading a checkpoint");
    for (int i = 0; i < part->count && !status; i++) {
        const pdl_stored_t *stored = pdl_safetensors_find(file, part->stored[i].name);
        int                 entry = pdl__session_entry_of(s, part->from[i].tensor);
        if (entry < 0) continue;
        status = pdl_stored_to_float(stored, s->weights.entry[entry].info.elements, plain);
        if (!status) status = check_finite(part->stored[i].name, s->weights.entry[entry].info.elements, plain);
        if (!status) status = pdl_session_set(s, entry, part->from[i].array, plain);
    }
    free(plain);
    return status;
}

static pdl_status_t restore_state(pdl_session_t *s, const pdl_checkpoint_t *checkpoint, pdl__place_t *place)
{
    const pdl_checkpoint_info_t *info = pdl_checkpoint_info(checkpoint);
    part_t                       state;
    pdl_status_t                 status = list_part(s, PDL_ARRAY_MOMENT1, PDL_ARRAY_EMA, &state);

    if (status) return status;
    if (!info || !pdl_checkpoint_state(checkpoint))
        status = pdl_error(PDL_ERR_INPUT, "%s holds weights only: a run cannot be resumed from it",
                           pdl_checkpoint_path(checkpoint));
    else if (info->batch != s->batch)
        status = pdl_error(PDL_ERR_INPUT, "%s was written with --batch %lld, this run has %lld: use the same batch",
                           pdl_checkpoint_path(checkpoint), (long long)info->batch, (long long)s->batch);
    else if (info->seed != s->spec.seed)
        status = pdl_error(PDL_ERR_INPUT, "%s was written with --seed %llu, this run has %llu: use the same seed",
                           pdl_checkpoint_path(checkpoint), (unsigned long long)info->seed,
                           (unsigned long long)s->spec.seed);
    if (!status && pdl_checkpoint_compare(pdl_checkpoint_state(checkpoint), state.stored, state.count))
        status =
            pdl_error(PDL_ERR_INPUT,
                      "%s holds another optimizer's state: resume with the same --optimizer, --momentum and --ema",
                      pdl_checkpoint_path(checkpoint));
    if (!status) status = restore_part(s, pdl_checkpoint_state(checkpoint), &state);
    if (!status) {
        s->updates = info->step;
        place->epoch = info->epoch;
        place->step_in_epoch = info->step_in_epoch;
        memcpy(place->sums, (double[]){info->loss_sum, info->accuracy_sum, info->sample_sum}, sizeof(place->sums));
    }
    free_part(&state);
    return status;
}

static pdl_status_t restore(pdl_session_t *s, const pdl_checkpoint_t *checkpoint, bool state, pdl__place_t *place)
{
    const pdl_model_t *model = s->spec.plan->model;
    part_t             weights;
    pdl_status_t       status = list_part(s, PDL_ARRAY_WEIGHT, PDL_ARRAY_WEIGHT, &weights);

    if (status) return status;
    if (pdl_checkpoint_info(checkpoint))
        status = pdl_checkpoint_check_model(checkpoint, pdl_model_name(model), pdl_model_hash(model),
                                            weights.stored, weights.count);
    else
        status = pdl_checkpoint_compare(pdl_checkpoint_model(checkpoint), weights.stored, weights.count);
    if (!status) status = restore_part(s, pdl_checkpoint_model(checkpoint), &weights);
    if (!status) status = pdl__spread_statistics(s);
    free_part(&weights);
    if (!status && state) status = restore_state(s, checkpoint, place);
    if (!status) status = pdl__session_refresh(s, false);
    return status;
}

pdl_status_t pdl__session_restore(pdl_session_t *s, const pdl_checkpoint_t *checkpoint, bool state,
                                  pdl__place_t *place)
{
    pdl_status_t status = pdl_ranks_agree(s->spec.ranks, restore(s, checkpoint, state, place));

    if (!status && state) status = restore_statistics(s, checkpoint);
    return status || !state ? status : restore_residuals(s, checkpoint);
}

/* The averages of the trainable weights, from where the optimizer's state is. */
static pdl_status_t load_averages(pdl_session_t *s, const pdl_checkpoint_t *checkpoint)
{
    const pdl_safetensors_t *state = pdl_checkpoint_state(checkpoint);
    pdl_status_t             status = PDL_OK;
    char                     name[512];

    for (int i = 0; i < s->weights.entry_count && s->weights.entry[i].info.trainable && !status; i++) {
        const pdl_session_tensor_t *info = &s->weights.entry[i].info;
        snprintf(name, sizeof(name), "%s.ema", info->name);
        const pdl_stored_t *stored = state ? pdl_safetensors_find(state, name) : NULL;
        if (!stored)
            return pdl_error(PDL_ERR_INPUT, "%s holds no averaged weights: train with --ema, or leave it out here",
                             pdl_checkpoint_path(checkpoint));
        float *plain = malloc((size_t)info->elements * sizeof(*plain));
        if (!plain) return pdl_error(PDL_ERR_NOMEM, "out of memory while reading a checkpoint");
        status = pdl_stored_to_float(stored, info->elements, plain);
        if (!status) status = check_finite(name, info->elements, plain);
        if (!status) status = pdl_session_set(s, i, PDL_ARRAY_WEIGHT, plain);
        free(plain);
    }
    return status;
}

pdl_status_t pdl_session_take(pdl_session_t *s, const pdl_checkpoint_t *checkpoint, bool averaged)
{
    pdl_status_t status = restore(s, checkpoint, false, NULL);

    if (!status && averaged) status = load_averages(s, checkpoint);
    if (!status) status = pdl__session_refresh(s, false);
    return pdl_ranks_agree(s->spec.ranks, status);
}

pdl_status_t pdl_session_load(pdl_session_t *s, const char *path, bool averaged)
{
    pdl_checkpoint_t *checkpoint = NULL;
    pdl_status_t      status = pdl_checkpoint_open_together(s->spec.ranks, path, &checkpoint);

    if (!status) status = pdl_session_take(s, checkpoint, averaged);
    pdl_checkpoint_close(checkpoint);
    return status;
}
