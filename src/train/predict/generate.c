/*
 * Text generation with two sessions that share weights and a key-value cache: one reads pieces of prompts, the other computes one
 * token of every prompt.
 */
#include "base/clock.h"
#include "base/memory.h"
#include <inttypes.h>
#include <paradl/tensor/threads.h>
#include <paradl/train/generate.h>
#include <stdlib.h>
#include <string.h>

#define PIECE 64

/* A session for so many new tokens. */
typedef struct reader {
    int64_t        tokens;
    pdl_model_t   *model;
    pdl_plan_t    *plan;
    pdl_session_t *session;
} reader_t;

struct pdl_generator {
    pdl_generate_spec_t spec;
    int64_t             context, classes;
    reader_t            many, one; /* `one` is not made where every run computes everything */
    pdl_batch_t         batch;
    int32_t            *tokens, *labels, *past, *position; /* of a run */
    float              *weight, *scratch;
    float              *logits; /* pinned: the device writes them */
    int32_t            *text;   /* [prompts][context]: prompts, and what follows them */
    int64_t            *length;
    bool               *ended;
    float        *last;   /* [prompts][classes]: logits of the last token, where other prompts are read further; */
    const float **at;     /* [prompts]: they are here; NULL: only the largest was asked for, */
    int32_t      *picked; /* [prompts], pinned: this one */
    int32_t      *next;   /* [prompts]: tokens that were chosen */
};

static pdl_status_t create_reader(pdl_generator_t *g, int64_t tokens, pdl_session_t *like, reader_t *reader)
{
    const pdl_generate_spec_t *spec = &g->spec;
    pdl_mesh_t                 mesh = {{{PDL_AXIS_DATA, 1, 0}}, 1};
    pdl_session_spec_t         session;
    pdl_status_t               status = pdl_model_with_tokens(spec->model, tokens, &reader->model);

    reader->tokens = tokens;
    if (!status) status = pdl_plan_create(reader->model, &mesh, spec->prompts, &reader->plan);
    if (!status) status = pdl_plan_apply_preset(reader->plan, "data", NULL);
    if (status) return status;
    reader->plan->run_mode = PDL_INFERENCE;
    reader->plan->precision = spec->backend->activation_type == PDL_DTYPE_BF16 ? PDL_BF16 : PDL_FP32;
    pdl_session_defaults(&session);
    session.plan = reader->plan;
    session.backend = spec->backend;
    session.ranks = spec->ranks;
    session.training = false;
    session.context = g->context;
    session.like = like;
    session.initial = like ? NULL : spec->initial;
    return pdl_session_create(&session, &reader->session);
}

static void destroy_reader(reader_t *reader)
{
    pdl_session_destroy(reader->session);
    pdl_plan_destroy(reader->plan);
    pdl_model_destroy(reader->model);
}

static size_t logits_bytes(const pdl_generator_t *g)
{
    return (size_t)(g->spec.prompts * g->classes) * sizeof(*g->logits);
}

static pdl_status_t take_memory(pdl_generator_t *g)
{
    pdl_tensor_device_t *device = g->spec.backend->device;
    size_t               prompts = (size_t)g->spec.prompts, run = prompts * (size_t)g->many.tokens;
    void                *logits = NULL, *picked = NULL;
    pdl_status_t         status;

    g->tokens = calloc(run, sizeof(*g->tokens));
    g->labels = calloc(run, sizeof(*g->labels));
    g->past = calloc(prompts, sizeof(*g->past));
    g->position = calloc(prompts, sizeof(*g->position));
    g->weight = calloc(prompts, sizeof(*g->weight));
    g->text = calloc(prompts * (size_t)g->context, sizeof(*g->text));
    g->length = calloc(prompts, sizeof(*g->length));
    g->ended = calloc(prompts, sizeof(*g->ended));
    g->last = calloc(prompts * (size_t)g->classes, sizeof(*g->last));
    g->scratch = calloc(prompts * (size_t)g->classes, sizeof(*g->scratch));
    g->at = calloc(prompts, sizeof(*g->at));
    g->next = calloc(prompts, sizeof(*g->next));
    if (!g->tokens || !g->labels || !g->past || !g->position || !g->weight || !g->text || !g->length || !g->ended ||
        !g->last || !g->scratch || !g->at || !g->next)
        return pdl__no_memory("for the texts of all prompts");
    for (size_t n = 0; n < prompts; n++) g->weight[n] = 1;
    g->batch = (pdl_batch_t){.tokens = g->tokens, .labels = g->labels, .weight = g->weight};
    status = device->ops->alloc(device, PDL_SPACE_PINNED, logits_bytes(g), &logits);
    g->logits = status ? NULL : logits;
    if (!status) status = device->ops->alloc(device, PDL_SPACE_PINNED, prompts * sizeof(*g->picked), &picked);
    g->picked = status ? NULL : picked;
    return status;
}

static pdl_status_t check(const pdl_generate_spec_t *spec)
{
    int64_t      positions = pdl_model_input(spec->model).extent[0];
    pdl_model_t *other;
    pdl_status_t status = pdl_model_with_tokens(spec->model, 1, &other);

    if (status) return status;
    pdl_model_destroy(other);
    if (spec->prompts < 1 || spec->prompt_tokens < 1 || spec->tokens < 1)
        return pdl_error(PDL_ERR_INPUT, "a prompt has at least one token, and one is to follow");
    if (spec->prompt_tokens + spec->tokens <= positions) return PDL_OK;
    return pdl_error(PDL_ERR_LIMIT,
                     "a prompt of %" PRId64 " tokens and %" PRId64 " more are beyond the %" PRId64
                     " positions of %s: "
                     "at most --tokens %" PRId64 " can follow",
                     spec->prompt_tokens, spec->tokens, positions, pdl_model_name(spec->model),
                     positions > spec->prompt_tokens ? positions - spec->prompt_tokens : 0);
}

pdl_status_t pdl_generator_create(const pdl_generate_spec_t *spec, pdl_generator_t **generator)
{
    pdl_generator_t *g = calloc(1, sizeof(*g));
    pdl_status_t     status = g ? check(spec) : pdl__no_memory("while preparing to generate");
    pdl_shape_t      shape;
    int64_t          piece;

    if (status) {
        free(g);
        return status;
    }
    g->spec = *spec;
    g->context = spec->prompt_tokens + spec->tokens;
    piece = spec->piece > 0 ? spec->piece : PIECE;
    if (piece > spec->prompt_tokens) piece = spec->prompt_tokens;
    if (spec->no_cache) piece = g->context;
    status = create_reader(g, piece, NULL, &g->many);
    if (!status) status = pdl_session_output_shape(g->many.session, &shape);
    if (!status) g->classes = shape.channels;
    if (!status && !spec->no_cache) status = create_reader(g, 1, g->many.session, &g->one);
    if (!status) status = take_memory(g);
    if (status)
        pdl_generator_destroy(g);
    else
        *generator = g;
    return status;
}

void pdl_generator_destroy(pdl_generator_t *g)
{
    if (g == NULL) return;
    destroy_reader(&g->one);
    destroy_reader(&g->many);
    free(g->tokens);
    free(g->labels);
    free(g->past);
    free(g->position);
    free(g->weight);
    free(g->text);
    free(g->length);
    free(g->ended);
    if (g->logits != NULL)
        g->spec.backend->device->ops->release(g->spec.backend->device, PDL_SPACE_PINNED, g->logits,
                                              logits_bytes(g));
    if (g->picked != NULL)
        g->spec.backend->device->ops->release(g->spec.backend->device, PDL_SPACE_PINNED, g->picked,
                                              (size_t)g->spec.prompts * sizeof(*g->picked));
    free(g->last);
    free(g->scratch);
    free(g->at);
    free(g->next);
    free(g);
}

void pdl_generator_memory(const pdl_generator_t *g, size_t *total, size_t *cache)
{
    pdl_session_memory_t many, one = {0};

    pdl_session_memory(g->many.session, &many);
    if (g->one.session) pdl_session_memory(g->one.session, &one);
    *cache = many.cache;
    *total = many.total + one.total;
}

const pdl_plan_t *pdl_generator_plan(const pdl_generator_t *g)
{
    return g->one.plan ? g->one.plan : g->many.plan;
}

static bool is_read(const pdl_generator_t *g)
{
    for (int64_t n = 0; n < g->spec.prompts; n++)
        if (g->past[n] < g->length[n]) return false;
    return true;
}

/* After a run of so many tokens. Logits are copied only where another run comes before they are looked at. */
static void keep_logits(pdl_generator_t *g, int64_t tokens, bool picked)
{
    for (int64_t n = 0; n < g->spec.prompts; n++) {
        int64_t left = g->length[n] - g->past[n], count = left < tokens ? left : tokens;

        g->past[n] += (int32_t)count;
        if (count > 0) g->at[n] = picked ? NULL : g->logits + n * g->classes;
    }
    for (int64_t n = 0; n < g->spec.prompts && !is_read(g); n++) {
        if (g->past[n] < g->length[n] || g->at[n] != g->logits + n * g->classes) continue;
        memcpy(g->last + n * g->classes, g->at[n], (size_t)g->classes * sizeof(*g->last));
        g->at[n] = g->last + n * g->classes;
    }
}

/* One run: the next tokens of every text behind what is in the cache. Texts that are read to their end have their logits in `last`. */
static pdl_status_t read_on(pdl_generator_t *g, const reader_t *reader, bool greedy)
{
    bool              picks = greedy && reader == &g->one && pdl_session_finds_largest(reader->session);
    pdl_outputs_t     outputs = {.values = g->logits, .largest = picks ? g->picked : NULL, .position = g->position};
    pdl_step_result_t result;
    pdl_status_t      status;

    for (int64_t n = 0; n < g->spec.prompts; n++) {
        int64_t left = g->length[n] - g->past[n], count = left < reader->tokens ? left : reader->tokens;

        memset(g->tokens + n * reader->tokens, 0, (size_t)reader->tokens * sizeof(*g->tokens));
        memcpy(g->tokens + n * reader->tokens, g->text + n * g->context + g->past[n],
               (size_t)count * sizeof(*g->tokens));
        g->position[n] = count > 0 ? (int32_t)(count - 1) : 0;
    }
    status = pdl_session_set_past(reader->session, g->past);
    if (!status) status = pdl_session_predict(reader->session, &g->batch, &outputs, &result);
    if (!status) keep_logits(g, reader->tokens, picks);
    return status;
}

static pdl_status_t read_all(pdl_generator_t *g)
{
    pdl_status_t status = PDL_OK;

    while (!status && !is_read(g)) status = read_on(g, &g->many, false);
    return status;
}

/* What is chosen from, for threads. */
typedef struct choice {
    pdl_generator_t              *generator;
    const pdl_prompt_t           *prompts;
    const pdl_generate_options_t *options;
    const int64_t                *counts;
} choice_t;

static void choose_slice(void *context, int64_t first, int64_t end)
{
    const choice_t  *choice = context;
    pdl_generator_t *g = choice->generator;

    for (int64_t n = first; n < end; n++)
        if (!g->ended[n] && g->at[n] == NULL)
            g->next[n] = g->picked[n];
        else if (!g->ended[n])
            g->next[n] = pdl_generate_choose(g->at[n], g->classes, choice->options, choice->prompts[n].number,
                                             choice->counts[n], g->scratch + n * g->classes);
}

/* Chooses the next token of every text that goes on; false when none does. */
static bool extend(pdl_generator_t *g, const pdl_prompt_t *prompts, int64_t count,
                   const pdl_generate_options_t *options, int32_t *out, int64_t *counts)
{
    choice_t choice = {g, prompts, options, counts};
    bool     more = false, draws = false;

    for (int64_t n = 0; n < count; n++) draws |= !g->ended[n] && g->at[n] != NULL;
    /* To wake threads takes longer than to take what the device has picked. */
    if (draws)
        pdl_threads_run(count, 1, choose_slice, &choice);
    else
        choose_slice(&choice, 0, count);
    for (int64_t n = 0; n < count; n++) {
        if (g->ended[n]) continue;
        g->ended[n] = g->next[n] == options->end;
        if (g->ended[n]) continue;
        out[n * g->spec.tokens + counts[n]++] = g->next[n];
        g->ended[n] = counts[n] == g->spec.tokens;
        if (g->ended[n]) continue;
        g->text[n * g->context + g->length[n]++] = g->next[n];
        more = true;
    }
    return more;
}

static pdl_status_t begin(pdl_generator_t *g, const pdl_prompt_t *prompts, int64_t count, int64_t *counts)
{
    memset(g->past, 0, (size_t)g->spec.prompts * sizeof(*g->past));
    for (int64_t n = 0; n < g->spec.prompts; n++) {
        const pdl_prompt_t *prompt = &prompts[n < count ? n : 0]; /* what is missing repeats the first */

        if (prompt->count < 1 || prompt->count > g->spec.prompt_tokens)
            return pdl_error(PDL_ERR_INPUT, "prompt %" PRId64 " has %" PRId64 " tokens: expected 1 to %" PRId64,
                             prompt->number + 1, prompt->count, g->spec.prompt_tokens);
        memcpy(g->text + n * g->context, prompt->tokens, (size_t)prompt->count * sizeof(*g->text));
        g->length[n] = prompt->count;
        g->ended[n] = n >= count;
        if (n < count) counts[n] = 0;
    }
    return PDL_OK;
}

pdl_status_t pdl_generator_run(pdl_generator_t *g, const pdl_prompt_t *prompts, int64_t count,
                               const pdl_generate_options_t *options, int32_t *out, int64_t *counts,
                               pdl_generate_summary_t *summary)
{
    double       start_s = pdl__seconds();
    bool         greedy = options->temperature <= 0 || options->top_k == 1;
    pdl_status_t status = begin(g, prompts, count, counts);

    for (int64_t n = 0; n < count; n++) summary->prompt_tokens += prompts[n].count;
    if (!status) status = read_all(g);
    summary->prefill_s += pdl__seconds() - start_s;
    while (!status) {
        start_s = pdl__seconds();
        if (!extend(g, prompts, count, options, out, counts)) break;
        if (g->spec.no_cache) memset(g->past, 0, (size_t)g->spec.prompts * sizeof(*g->past));
        status = g->spec.no_cache ? read_all(g) : read_on(g, &g->one, greedy);
        double run_s = pdl__seconds() - start_s;
        if (summary->seconds && summary->runs < summary->room) summary->seconds[summary->runs] = run_s;
        summary->runs++;
        summary->decode_s += run_s;
    }
    for (int64_t n = 0; n < count; n++) summary->tokens += counts[n];
    return status;
}
