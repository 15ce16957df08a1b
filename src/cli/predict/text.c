/*
 * paradl predict --prompt: a language model goes on from texts.
 */
#include "cli/commands.h"
#include "cli/predict/predict.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"

#include <paradl/base/document.h>
#include <paradl/data/vocabulary.h>
#include <paradl/train/generate.h>

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct run {
    pdl__predict_job_t    *job;
    pdl_vocabulary_t      *vocabulary;
    char                  *file; /* of --prompt-file, cut into lines */
    const char           **texts;
    int32_t              **tokens; /* of every prompt */
    pdl_prompt_t          *prompts;
    int64_t                count, first, own; /* prompts; those of this rank */
    pdl_ranks_t           *alone;
    pdl_generator_t       *generator;
    int32_t               *out;    /* [count][tokens]: this rank's from `first` on, then all on the first rank */
    int64_t               *counts; /* [count] */
    pdl_generate_summary_t summary;
    double                 projected_s;
} run_t;

/* Where the weights come from may have its vocabulary beside it. */
static const char *beside_weights(const pdl__predict_values_t *v, const char *path, char folder[4096])
{
    static const char *const files[] = {"tokenizer.json", "vocab.json"};
    char                     file[4200];
    const char              *slash;

    if (v->init) path = v->init;
    snprintf(folder, 4096, "%s", path);
    for (int up = 0; up < 2; up++) {
        for (int i = 0; i < 2; i++) {
            snprintf(file, sizeof(file), "%s/%s", folder, files[i]);
            if (access(file, R_OK) == 0) return folder;
        }
        slash = strrchr(path, '/');
        snprintf(folder, 4096, "%.*s", slash ? (int)(slash - path) : 1, slash ? path : ".");
    }
    return NULL;
}

static pdl_status_t open_vocabulary(run_t *run)
{
    const pdl__predict_values_t *v = run->job->values;
    const pdl__trained_t        *network = &run->job->network;
    const char                  *name = v->vocabulary, *data = v->data, *beside;
    char                         folder[4096];
    int64_t                      classes = pdl_model_layer(network->model, 0)->vocabulary;
    pdl_status_t                 status;

    beside = v->vocabulary_given ? NULL : beside_weights(v, network->path, folder);
    if (beside) name = beside;
    /* A run by characters has told its checkpoint which data set that was. */
    if (data == NULL && network->checkpoint)
        data = pdl_safetensors_metadata(pdl_checkpoint_state(network->checkpoint), "run.data");
    status = pdl_vocabulary_open(name, data, &run->vocabulary);
    if (status) return status;
    if (classes == 0 || pdl_vocabulary_size(run->vocabulary) <= classes) return PDL_OK;
    return pdl_error(PDL_ERR_INPUT,
                     "the vocabulary %s has %lld tokens, %s knows %lld: give the one it was trained with", name,
                     (long long)pdl_vocabulary_size(run->vocabulary), pdl_model_name(network->model),
                     (long long)classes);
}

/* One prompt, or the lines of a file that are not empty. */
static pdl_status_t read_prompts(run_t *run)
{
    const pdl__predict_values_t *v = run->job->values;
    size_t                       length = 0, lines = 1;
    pdl_status_t status = v->prompt_file ? pdl__file_read(v->prompt_file, &run->file, &length) : PDL_OK;

    if (status) return status;
    for (size_t i = 0; i < length; i++) lines += run->file[i] == '\n';
    run->texts = calloc(lines, sizeof(*run->texts));
    run->tokens = calloc(lines, sizeof(*run->tokens));
    run->prompts = calloc(lines, sizeof(*run->prompts));
    if (!run->texts || !run->tokens || !run->prompts) return pdl__no_memory("for prompts");
    if (v->prompt) run->texts[run->count++] = v->prompt;
    for (char *at = run->file, *next; at != NULL; at = next) {
        next = strchr(at, '\n');
        if (next) *next++ = '\0';
        at[strcspn(at, "\r")] = '\0';
        if (*at != '\0') run->texts[run->count++] = at;
    }
    if (run->count == 0) return pdl_error(PDL_ERR_INPUT, "%s: there is no prompt in it", v->prompt_file);
    return PDL_OK;
}

static pdl_status_t encode_prompts(run_t *run, int64_t *longest)
{
    pdl_status_t status = PDL_OK;
    char         name[32];

    *longest = 0;
    for (int64_t i = 0; i < run->count && !status; i++) {
        pdl_prompt_t *prompt = &run->prompts[i];

        snprintf(name, sizeof(name), "prompt %lld", (long long)i + 1);
        status = pdl_vocabulary_encode(run->vocabulary, run->texts[i], strlen(run->texts[i]), name, &run->tokens[i],
                                       &prompt->count);
        if (!status && prompt->count == 0)
            status = pdl_error(PDL_ERR_INPUT, "%s is empty: a text has to begin somehow", name);
        prompt->tokens = run->tokens[i];
        prompt->number = i;
        if (prompt->count > *longest) *longest = prompt->count;
    }
    return status;
}

/* The prompts of this rank, and what they are continued with. */
static pdl_status_t prepare(run_t *run)
{
    pdl__predict_job_t *job = run->job;
    int64_t             ranks = pdl_ranks_size(job->ranks), rank = pdl_ranks_rank(job->ranks), longest = 0, high;
    pdl_generate_spec_t spec = {.model = job->network.model,
                                .backend = job->backend,
                                .ranks = run->alone,
                                .initial = job->network.initial,
                                .tokens = job->values->tokens,
                                .no_cache = job->values->no_cache};
    pdl_plan_t         *plan = NULL;
    pdl_status_t        status = open_vocabulary(run);

    if (!status) status = read_prompts(run);
    if (!status) status = encode_prompts(run, &longest);
    if (status) return status;
    pdl_block_range(run->count, ranks, rank, &run->first, &high);
    run->own = high - run->first;
    spec.prompt_tokens = longest;
    spec.prompts = (run->count + ranks - 1) / ranks;
    if (spec.prompts > job->values->batch) spec.prompts = job->values->batch;
    status = pdl_generator_create(&spec, &run->generator);
    run->out = calloc((size_t)(run->count * spec.tokens) + 1, sizeof(*run->out));
    run->counts = calloc((size_t)run->count + 1, sizeof(*run->counts));
    run->summary.room = run->own * spec.tokens;
    run->summary.seconds = calloc((size_t)run->summary.room + 1, sizeof(double));
    if (!status && (!run->out || !run->counts || !run->summary.seconds)) status = pdl__no_memory("for texts");
    if (!status) status = pdl_plan_copy(pdl_generator_plan(run->generator), &plan);
    if (!status) status = pdl__predict_project(job, plan, &run->projected_s);
    pdl_plan_destroy(plan);
    return status;
}

static void say_memory(const run_t *run)
{
    size_t total, cache;
    char   all[PDL_FORMAT_SIZE], keys[PDL_FORMAT_SIZE];

    if (run->job->values->quiet || pdl_ranks_rank(run->job->ranks) != 0) return;
    pdl_generator_memory(run->generator, &total, &cache);
    fprintf(stderr, "%s: %lld prompts, %lld at a time; memory %s, of it %s for keys and values\n",
            pdl_model_name(run->job->network.model), (long long)run->count,
            (long long)pdl_generator_plan(run->generator)->batch, pdl_format_bytes((double)total, all),
            pdl_format_bytes((double)cache, keys));
}

static pdl_status_t generate(run_t *run)
{
    const pdl__predict_values_t *v = run->job->values;
    pdl_generate_options_t       options = {.temperature = v->temperature,
                                            .top_k = v->top_k,
                                            .seed = (uint64_t)v->seed,
                                            .end = pdl_vocabulary_end(run->vocabulary)};
    int64_t                      at_once = pdl_generator_plan(run->generator)->batch;
    pdl_status_t                 status = PDL_OK;

    for (int64_t i = 0; i < run->own && !status; i += at_once) {
        int64_t count = run->own - i < at_once ? run->own - i : at_once;

        status = pdl_generator_run(run->generator, run->prompts + run->first + i, count, &options,
                                   run->out + i * v->tokens, run->counts + i, &run->summary);
    }
    return status;
}

/* All texts to all ranks, and sums of what they took: the slowest rank's time counts. */
static pdl_status_t gather(run_t *run)
{
    pdl_ranks_t *ranks = run->job->ranks;
    int64_t      tokens = run->job->values->tokens, size = pdl_ranks_size(ranks);
    int32_t     *all = calloc((size_t)(run->count * tokens) + 1, sizeof(*all));
    int64_t     *counts = calloc((size_t)run->count + 1, sizeof(*counts)),
            *sizes = calloc((size_t)size, sizeof(*sizes));
    double       sums[2] = {(double)run->summary.prompt_tokens, (double)run->summary.tokens};
    double       most[2] = {run->summary.prefill_s, run->summary.decode_s};
    pdl_status_t status = all && counts && sizes ? PDL_OK : pdl__no_memory("for texts");

    if (!status)
        status = pdl_ranks_gather_all(ranks, run->out, run->own * tokens * (int64_t)sizeof(*all), all, sizes);
    if (!status)
        status = pdl_ranks_gather_all(ranks, run->counts, run->own * (int64_t)sizeof(*counts), counts, sizes);
    if (!status) status = pdl_ranks_sum(ranks, sums, 2);
    if (!status) status = pdl_ranks_max(ranks, most, 2);
    free(sizes);
    free(run->out);
    free(run->counts);
    run->out = all;
    run->counts = counts;
    run->summary.prompt_tokens = (int64_t)sums[0];
    run->summary.tokens = (int64_t)sums[1];
    run->summary.prefill_s = most[0];
    run->summary.decode_s = most[1];
    return status;
}

static bool is_json(const char *path)
{
    size_t length = strlen(path);

    return length > 5 && strcmp(path + length - 5, ".json") == 0;
}

/* Text i: its prompt and what follows. */
static pdl_status_t write_text(const run_t *run, int64_t i, FILE *stream)
{
    char        *text;
    size_t       length;
    pdl_status_t status = pdl_vocabulary_decode(run->vocabulary, run->out + i * run->job->values->tokens,
                                                run->counts[i], &text, &length);

    if (status) return status;
    fprintf(stream, "%s", run->texts[i]);
    fwrite(text, 1, length, stream);
    fprintf(stream, "\n%s", i + 1 < run->count ? "---\n" : "");
    free(text);
    return PDL_OK;
}

static pdl_status_t write_json(const run_t *run, FILE *stream)
{
    int64_t      tokens = run->job->values->tokens;
    pdl_json_t   json;
    pdl_status_t status = PDL_OK;

    pdl_document_begin(&json, stream, "texts/1");
    pdl_json_string(&json, "model", pdl_model_name(run->job->network.model));
    pdl_json_open(&json, "texts", '[');
    for (int64_t i = 0; i < run->count && !status; i++) {
        char  *text;
        size_t length;

        status = pdl_vocabulary_decode(run->vocabulary, run->out + i * tokens, run->counts[i], &text, &length);
        if (status) break;
        pdl_json_open(&json, NULL, '{');
        pdl_json_string(&json, "prompt", run->texts[i]);
        pdl_json_string(&json, "text", text);
        pdl_json_open(&json, "tokens", '[');
        for (int64_t t = 0; t < run->counts[i]; t++) pdl_json_int(&json, NULL, run->out[i * tokens + t]);
        pdl_json_close(&json);
        pdl_json_close(&json);
        free(text);
    }
    pdl_json_close(&json);
    pdl_json_close(&json);
    return status;
}

static pdl_status_t write_texts(const run_t *run)
{
    const char   *path = run->job->values->output;
    pdl_output_t *output = NULL;
    FILE         *stream = run->job->values->json ? stderr : stdout;
    pdl_status_t  status = path ? pdl_output_open(path, &output) : PDL_OK;

    if (status) return status;
    if (path) stream = pdl_output_stream(output);
    if (path && is_json(path))
        status = write_json(run, stream);
    else
        for (int64_t i = 0; i < run->count && !status; i++) status = write_text(run, i, stream);
    return path ? pdl__finish_output(output, status) : status;
}

static void print_summary(run_t *run)
{
    const pdl_generate_summary_t *s = &run->summary;
    pdl_latency_t                 latency = pdl_latency(s->seconds, s->runs < s->room ? s->runs : s->room);
    double                        made = (double)(s->tokens > run->count ? s->tokens - run->count : 0);
    char                          median[PDL_FORMAT_SIZE], p95[PDL_FORMAT_SIZE], projected[PDL_FORMAT_SIZE];

    fprintf(stderr, "prompts: %lld tokens in %.3g s, %.4g tokens/s; text: %lld tokens", (long long)s->prompt_tokens,
            s->prefill_s, (double)s->prompt_tokens / s->prefill_s, (long long)s->tokens);
    if (s->runs > 0)
        fprintf(stderr, ", %.4g tokens/s; a token of every prompt: median %s, 95 %% within %s", made / s->decode_s,
                pdl_format_seconds(latency.median_s, median), pdl_format_seconds(latency.p95_s, p95));
    if (run->projected_s > 0)
        fprintf(stderr, "; projected %s for %s", pdl_format_seconds(run->projected_s, projected), run->job->system);
    fprintf(stderr, "\n");
}

static void print_json(run_t *run)
{
    const pdl_generate_summary_t *s = &run->summary;
    pdl_latency_t                 latency = pdl_latency(s->seconds, s->runs < s->room ? s->runs : s->room);
    size_t                        total, cache;
    pdl_json_t                    json;

    pdl_generator_memory(run->generator, &total, &cache);
    pdl__predict_begin_json(run->job, &json);
    pdl_json_int(&json, "prompts", run->count);
    pdl_json_int(&json, "prompt_tokens", s->prompt_tokens);
    pdl_json_int(&json, "tokens", s->tokens);
    pdl_json_number(&json, "prefill_s", s->prefill_s);
    pdl_json_number(&json, "decode_s", s->decode_s);
    if (s->decode_s > 0) pdl_json_number(&json, "tokens_per_s", (double)(s->tokens - run->count) / s->decode_s);
    pdl_json_number(&json, "token_s", latency.median_s);
    pdl_json_number(&json, "token_p95_s", latency.p95_s);
    if (run->projected_s > 0) pdl_json_number(&json, "projected_token_s", run->projected_s);
    pdl_json_bytes(&json, "memory_bytes", (double)total);
    pdl_json_bytes(&json, "cache_bytes", (double)cache);
    pdl_json_close(&json);
}

static pdl_status_t report(run_t *run)
{
    const pdl__predict_values_t *v = run->job->values;
    pdl_status_t                 status;

    if (pdl_ranks_rank(run->job->ranks) != 0) return PDL_OK;
    status = v->json && v->output == NULL ? PDL_OK : write_texts(run);
    if (status) return status;
    if (v->json)
        print_json(run);
    else if (!v->quiet)
        print_summary(run);
    return PDL_OK;
}

static void release(run_t *run)
{
    pdl_generator_destroy(run->generator);
    pdl_vocabulary_close(run->vocabulary);
    for (int64_t i = 0; i < run->count; i++) free(run->tokens[i]);
    free(run->file);
    free(run->texts);
    free(run->tokens);
    free(run->prompts);
    free(run->out);
    free(run->counts);
    free(run->summary.seconds);
    pdl_ranks_destroy(run->alone);
}

/* The generator takes weights by their names; those of a checkpoint are a file of weights too. */
static pdl_status_t open_weights(pdl__predict_job_t *job)
{
    if (job->network.initial) return PDL_OK;
    return pdl_initial_open(pdl_checkpoint_path(job->network.checkpoint), PDL_INITIAL_COMPLETE,
                            &job->network.initial);
}

pdl_status_t pdl__predict_text(pdl__predict_job_t *job)
{
    run_t        run = {.job = job};
    pdl_status_t status = pdl_ranks_split(job->ranks, pdl_ranks_rank(job->ranks), 0, &run.alone);

    if (!status) status = pdl_ranks_agree(job->ranks, open_weights(job));
    if (!status) status = pdl_ranks_agree(job->ranks, prepare(&run));
    if (!status) {
        say_memory(&run);
        status = pdl_ranks_agree(job->ranks, generate(&run));
    }
    if (!status) status = gather(&run);
    if (!status) status = report(&run);
    release(&run);
    return status;
}
