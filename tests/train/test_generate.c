/*
 * Generation: tokens with the key-value cache are those without it, and those that a whole forward pass would choose; prompts do not
 * depend on their neighbours; outputs of a session are what its loss sees.
 */
#include "test.h"
#include <math.h>
#include <paradl/train/generate.h>
#include <stdlib.h>
#include <string.h>

#define PROMPTS 3
#define TOKENS  9
#define CONTEXT 24

static const char learned[] = "paradl: model/1\nname: learned\ninput: {tokens: 24, vocabulary: 19}\nlayers:\n"
                              "  - embedding: {name: wte, out: 16, init: normal, std: 0.7}\n"
                              "  - position: {name: wpe, init: normal, std: 0.4}\n"
                              "  - layer_norm: {name: ln1}\n"
                              "  - linear: {name: qkv, out: 48, init: normal, std: 0.3}\n"
                              "  - attention: {name: attn, heads: 2, causal: true, rate: 0.1}\n"
                              "  - linear: {name: proj, out: 16, init: normal, std: 0.3}\n"
                              "  - dropout: {name: drop, rate: 0.1}\n"
                              "  - add: {name: sum, from: [drop, wpe]}\n"
                              "  - layer_norm: {name: ln2}\n"
                              "  - linear: {name: up, out: 40, init: normal, std: 0.3}\n"
                              "  - gelu_tanh: {name: act}\n"
                              "  - linear: {name: down, out: 16, init: normal, std: 0.3}\n"
                              "  - add: {name: sum2, from: [down, sum]}\n"
                              "  - linear: {name: head, out: 19, bias: false, tied: wte}\n"
                              "  - cross_entropy: {name: loss}\n";

static const char rotary[] =
    "paradl: model/1\nname: rotary\ninput: {tokens: 24, vocabulary: 19}\nlayers:\n"
    "  - embedding: {name: wte, out: 16, init: normal, std: 0.7}\n"
    "  - rms_norm: {name: ln1}\n"
    "  - linear: {name: qkv, out: 32, bias: false, init: normal, std: 0.4}\n"
    "  - attention: {name: attn, heads: 4, kv_heads: 2, head_dim: 4, causal: true, rotary: true}\n"
    "  - linear: {name: proj, out: 16, init: normal, std: 0.4}\n"
    "  - add: {name: sum, from: [proj, wte]}\n"
    "  - moe: {name: moe, experts: 3, top_k: 2, hidden: 20}\n"
    "  - add: {name: sum2, from: [moe, sum]}\n"
    "  - linear: {name: head, out: 19, init: normal, std: 0.4}\n"
    "  - cross_entropy: {name: loss}\n";

static const int32_t prompt_tokens[PROMPTS][8] = {{3, 1, 4, 1, 5, 9, 2, 6}, {7}, {2, 7, 1, 8, 2}};
static const int64_t prompt_counts[PROMPTS] = {8, 1, 5};

typedef struct text {
    int32_t tokens[PROMPTS][TOKENS];
    int64_t counts[PROMPTS];
} text_t;

typedef enum kind { CPU, REFERENCE, GUARD } kind_t;

static pdl_backend_t *make_backend(kind_t kind)
{
    pdl_cpu_options_t options = {.threads = 2};
    pdl_backend_t    *backend;

    REQUIRE_OK(kind == CPU         ? pdl_backend_create_cpu(&options, &backend)
               : kind == REFERENCE ? pdl_backend_create_reference(&backend)
                                   : pdl_backend_create_guard(&options, true, &backend));
    return backend;
}

/* Goes on from prompts [first, first + count) at once. */
static void generate(pdl_backend_t *backend, const pdl_model_t *model, int first, int count, int64_t piece,
                     bool no_cache, const pdl_generate_options_t *options, text_t *text)
{
    pdl_generate_spec_t    spec = {.model = model,
                                   .backend = backend,
                                   .prompts = count + 1, /* one more than there are */
                                   .prompt_tokens = 8,
                                   .tokens = TOKENS,
                                   .piece = piece,
                                   .no_cache = no_cache};
    pdl_prompt_t           prompts[PROMPTS];
    pdl_generator_t       *generator;
    pdl_generate_summary_t summary = {0};
    size_t                 total, cache;

    REQUIRE_OK(pdl_ranks_create(&spec.ranks));
    REQUIRE_OK(pdl_generator_create(&spec, &generator));
    pdl_generator_memory(generator, &total, &cache);
    CHECK(cache > 0 && total > cache);
    for (int i = 0; i < count; i++)
        prompts[i] = (pdl_prompt_t){prompt_tokens[first + i], prompt_counts[first + i], first + i};
    for (int twice = 0; twice < 2; twice++) /* a generator can be used again */
        CHECK_OK(pdl_generator_run(generator, prompts, count, options, text->tokens[first], text->counts + first,
                                   &summary));
    CHECK(summary.tokens > 0 && summary.tokens <= 2 * count * TOKENS);
    pdl_generator_destroy(generator);
    pdl_ranks_destroy(spec.ranks);
}

static void compare(const text_t *a, const text_t *b)
{
    for (int n = 0; n < PROMPTS; n++) {
        CHECK_INT(a->counts[n], b->counts[n]);
        for (int t = 0; t < a->counts[n]; t++) CHECK_INT(a->tokens[n][t], b->tokens[n][t]);
    }
}

/* The most probable token behind every prefix, by forward passes over whole sequences. */
static void check_greedy(pdl_backend_t *backend, const pdl_model_t *model, const text_t *text)
{
    pdl_mesh_t         mesh = {{{PDL_AXIS_DATA, 1, 0}}, 1};
    pdl_session_spec_t spec;
    pdl_plan_t        *plan;
    pdl_session_t     *session;
    int32_t            tokens[PROMPTS * CONTEXT] = {0}, labels[PROMPTS * CONTEXT] = {0};
    float              logits[PROMPTS * CONTEXT * 19], weight[PROMPTS] = {1, 1, 1};
    pdl_batch_t        batch = {.tokens = tokens, .labels = labels, .weight = weight};
    pdl_outputs_t      outputs = {.values = logits};
    pdl_step_result_t  result;

    for (int n = 0; n < PROMPTS; n++) {
        memcpy(tokens + n * CONTEXT, prompt_tokens[n], (size_t)prompt_counts[n] * sizeof(int32_t));
        memcpy(tokens + n * CONTEXT + prompt_counts[n], text->tokens[n], TOKENS * sizeof(int32_t));
    }
    REQUIRE_OK(pdl_plan_create(model, &mesh, PROMPTS, &plan));
    CHECK_OK(pdl_plan_apply_preset(plan, "data", NULL));
    pdl_session_defaults(&spec);
    spec.plan = plan;
    spec.backend = backend;
    spec.training = false;
    REQUIRE_OK(pdl_ranks_create(&spec.ranks));
    REQUIRE_OK(pdl_session_create(&spec, &session));
    CHECK_OK(pdl_session_predict(session, &batch, &outputs, &result));
    for (int n = 0; n < PROMPTS; n++)
        for (int t = 0; t < TOKENS; t++) {
            const float *row = logits + (n * CONTEXT + prompt_counts[n] - 1 + t) * 19;
            int          best = 0;

            for (int c = 1; c < 19; c++)
                if (row[c] > row[best]) best = c;
            CHECK_INT(text->tokens[n][t], best);
        }
    pdl_session_destroy(session);
    pdl_ranks_destroy(spec.ranks);
    pdl_plan_destroy(plan);
}

static void check_model(kind_t kind, const char *yaml)
{
    static const pdl_generate_options_t greedy = {.seed = 1, .end = -1};
    static const pdl_generate_options_t drawn = {.temperature = 0.9, .top_k = 7, .seed = 5, .end = -1};
    pdl_backend_t                      *backend = make_backend(kind);
    pdl_model_t                        *model;
    text_t                              with, without, alone;

    REQUIRE_OK(pdl_model_read_yaml_memory(yaml, strlen(yaml), "test", &model));
    generate(backend, model, 0, PROMPTS, 0, false, &greedy, &with);
    check_greedy(backend, model, &with);
    generate(backend, model, 0, PROMPTS, 0, true, &greedy, &without);
    compare(&with, &without);
    generate(backend, model, 0, PROMPTS, 3, false, &drawn, &with); /* prompts in pieces that do not divide them */
    generate(backend, model, 0, PROMPTS, 0, true, &drawn, &without);
    compare(&with, &without);
    for (int n = 0; n < PROMPTS; n++) generate(backend, model, n, 1, 1, false, &drawn, &alone);
    compare(&with, &alone);
    pdl_model_destroy(model);
    pdl_backend_destroy(backend);
}

static void positions_on_the_cpu(void)
{
    check_model(CPU, learned);
}

static void rotary_on_the_cpu(void)
{
    check_model(CPU, rotary);
}

static void positions_on_the_reference(void)
{
    check_model(REFERENCE, learned);
}

static void device_memory_is_left_alone(void)
{
    check_model(GUARD, learned);
}

static void a_token_ends_the_text(void)
{
    static const pdl_generate_options_t greedy = {.seed = 1, .end = -1};
    pdl_generate_options_t              ends = greedy;
    pdl_backend_t                      *backend = make_backend(CPU);
    pdl_model_t                        *model;
    text_t                              whole, part;

    REQUIRE_OK(pdl_model_read_yaml_memory(learned, strlen(learned), "test", &model));
    generate(backend, model, 0, PROMPTS, 0, false, &greedy, &whole);
    ends.end = whole.tokens[0][4];
    generate(backend, model, 0, PROMPTS, 0, false, &ends, &part);
    CHECK(part.counts[0] <= 4);
    for (int n = 0; n < PROMPTS; n++)
        for (int t = 0; t < part.counts[n]; t++) {
            CHECK_INT(part.tokens[n][t], whole.tokens[n][t]);
            CHECK(part.tokens[n][t] != ends.end);
        }
    pdl_model_destroy(model);
    pdl_backend_destroy(backend);
}

static void tokens_are_drawn_by_probability(void)
{
    static const float     logits[5] = {0, 1, 2, 2, -1};
    pdl_generate_options_t options = {.temperature = 1, .seed = 3, .end = -1};
    double                 total = 1 + exp(1) + 2 * exp(2) + exp(-1);
    float                  scratch[5];
    int                    seen[5] = {0};
    enum { DRAWS = 20000 };

    for (int i = 0; i < DRAWS; i++) seen[pdl_generate_choose(logits, 5, &options, 0, i, scratch)]++;
    for (int c = 0; c < 5; c++) CHECK_NEAR(seen[c], DRAWS * exp((double)logits[c]) / total, 0.1);
    options.top_k = 3; /* of two that are equal, both; then the next */
    memset(seen, 0, sizeof(seen));
    for (int i = 0; i < DRAWS; i++) seen[pdl_generate_choose(logits, 5, &options, 0, i, scratch)]++;
    CHECK_INT(seen[0] + seen[4], 0);
    CHECK(seen[1] > 0 && seen[2] > 0 && seen[3] > 0);
    options.top_k = 1;
    CHECK_INT(pdl_generate_choose(logits, 5, &options, 0, 0, scratch), 2);
    options = (pdl_generate_options_t){.temperature = 0};
    CHECK_INT(pdl_generate_choose(logits, 5, &options, 0, 0, scratch), 2);
}

static void what_is_refused(void)
{
    static const char   later[] = "paradl: model/1\nname: later\ninput: {tokens: 8, vocabulary: 5}\nlayers:\n"
                                  "  - embedding: {name: wte, out: 6}\n  - attention: {name: all, heads: 1}\n"
                                  "  - linear: {name: head, out: 5}\n  - cross_entropy: {name: loss}\n";
    pdl_backend_t      *backend = make_backend(CPU);
    pdl_generate_spec_t spec = {.backend = backend, .prompts = 1, .prompt_tokens = 4, .tokens = 4};
    pdl_generator_t    *generator;
    pdl_model_t        *model;

    REQUIRE_OK(pdl_ranks_create(&spec.ranks));
    REQUIRE_OK(pdl_model_read_yaml_memory(later, strlen(later), "test", &model));
    spec.model = model;
    CHECK_ERROR(pdl_generator_create(&spec, &generator), "layer all (attention) looks at later tokens");
    pdl_model_destroy(model);
    REQUIRE_OK(pdl_model_read_yaml_memory(learned, strlen(learned), "test", &model));
    spec.model = model;
    spec.tokens = 21;
    CHECK_ERROR(pdl_generator_create(&spec, &generator), "beyond the 24 positions of learned: at most --tokens 20");
    pdl_model_destroy(model);
    REQUIRE_OK(pdl_model_load("lenet", &model));
    spec.model = model;
    CHECK_ERROR(pdl_model_with_tokens(model, 3, &model), "reads no tokens");
    pdl_model_destroy((pdl_model_t *)(uintptr_t)spec.model);
    pdl_ranks_destroy(spec.ranks);
    pdl_backend_destroy(backend);
}

/* Where the device finds the largest logit, the host gets no others; drawing at nearly no temperature looks at all of them. */
static void the_device_picks_what_the_host_picks(void)
{
    pdl_generate_options_t greedy = {.temperature = 0, .end = -1}, cold = {.temperature = 1e-9, .end = -1};
    text_t                 picked = {0}, drawn = {0};
    pdl_cuda_options_t     options = {.precision = PDL_DTYPE_BF16, .emulated = true};
    pdl_backend_t         *backend = NULL;
    pdl_model_t           *model;

    if (pdl_backend_create_cuda(&options, &backend)) return; /* it is not built everywhere */
    REQUIRE_OK(pdl_model_read_yaml_memory(learned, strlen(learned), "test", &model));
    generate(backend, model, 0, PROMPTS, 4, false, &greedy, &picked);
    generate(backend, model, 0, PROMPTS, 4, false, &cold, &drawn);
    compare(&picked, &drawn);
    CHECK(picked.counts[0] == TOKENS && picked.tokens[0][0] != picked.tokens[0][TOKENS - 1]);
    pdl_model_destroy(model);
    pdl_backend_destroy(backend);
}

int main(void)
{
    RUN(positions_on_the_cpu);
    RUN(rotary_on_the_cpu);
    RUN(positions_on_the_reference);
    RUN(device_memory_is_left_alone);
    RUN(a_token_ends_the_text);
    RUN(tokens_are_drawn_by_probability);
    RUN(the_device_picks_what_the_host_picks);
    RUN(what_is_refused);
    return test_done();
}
