/*
 * The cells of a row of published runs as a recipe: model, machine, configuration. A cell that is empty means that
 * the source does not say; what is done then stands beside it (docs/accuracy.md, "Published runs").
 */
#include "validate/published/published.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct cells {
    const pdl_csv_t *csv;
    size_t           row;
    pdl_status_t     status; /* of the first number that is none */
} cells_t;

static const char *text(const cells_t *c, const char *column)
{
    return pdl_csv_cell(c->csv, c->row, pdl_csv_column(c->csv, column));
}

static double number(cells_t *c, const char *column)
{
    double       value = 0;
    pdl_status_t status = pdl_csv_number(c->csv, c->row, pdl_csv_column(c->csv, column), &value);

    if (status && !c->status) c->status = status;
    return value;
}

/* A count; 0 when the cell is empty. */
static int64_t count(cells_t *c, const char *column)
{
    double value = number(c, column);

    return value > 0 && value < 1e15 ? (int64_t)value : 0;
}

/* A size of a mesh: 1 when the source does not say. */
static int64_t extent(cells_t *c, const char *column)
{
    int64_t value = count(c, column);

    return value > 0 ? value : 1;
}

static bool refuse(pdl_published_row_t *row, const char *format, ...) PDL_PRINTF(2, 3);
static bool refuse(pdl_published_row_t *row, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(row->reason, sizeof(row->reason), format, arguments);
    va_end(arguments);
    return false;
}

/* Of a transformer with nothing but a count of parameters: 12 L h^2 of them, 40 times as wide as deep, the shape of
   GPT-2 models scaled up for tensor parallelism. */
static void guess_shape(double params_b, pdl_dimensions_t *d)
{
    if (d->hidden || d->layers || params_b <= 0) return;
    d->hidden = 128 * (int64_t)fmax(1, round(cbrt(params_b * 1e9 * 40 / 12) / 128));
    d->layers = (int64_t)fmax(1, round(params_b * 1e9 / (12.0 * (double)d->hidden * (double)d->hidden)));
}

static void read_sizes(cells_t *c, pdl_dimensions_t *d)
{
    *d = (pdl_dimensions_t){.layers = count(c, "layers"),
                            .hidden = count(c, "hidden"),
                            .heads = count(c, "heads"),
                            .kv_heads = count(c, "kv_heads"),
                            .ffn = count(c, "ffn_hidden"),
                            .tokens = count(c, "seq_len"),
                            .vocabulary = count(c, "vocab")};
}

static void complete_sizes(const pdl_published_rules_t *rules, pdl_dimensions_t *d)
{
    if (!d->heads) d->heads = d->hidden % 96 == 0 ? d->hidden / 96 : d->hidden / 64;
    if (!d->head_dim && d->heads) d->head_dim = d->hidden / d->heads;
    if (!d->ffn) d->ffn = 4 * d->hidden;
    if (!d->vocabulary) d->vocabulary = rules->vocabulary;
    if (!d->expert_products) d->expert_products = 3;
    if (!d->tokens) d->tokens = d->kv_heads ? 4096 : 1024;
}

/* Experts are shared out over the ranks of a group: each computes as many tokens as it would alone, with its
   share of the weights. No more experts can be chosen than a rank has, so fewer, wider ones stand for them then. A file has
   its own number of layers (`cut`: 0) or another. */
static void write_experts(const pdl_dimensions_t *d, const char *file, int64_t cut, int64_t over, char *yaml,
                          size_t size)
{
    int64_t experts = d->experts / over > 0 ? d->experts / over : 1;
    int64_t chosen = d->top_k < experts ? d->top_k : experts;
    int64_t width = d->ffn * d->top_k / chosen;

    if (file) {
        int used = snprintf(
            yaml, size,
            "paradl: model/1\nname: published\nextends: %s\nparameters: {ffn: %lld, experts: %lld, top_k: %lld, "
            "tokens: %lld",
            file, (long long)width, (long long)experts, (long long)chosen, (long long)d->tokens);
        if (cut) used += snprintf(yaml + used, size - (size_t)used, ", layers: %lld", (long long)cut);
        snprintf(yaml + used, size - (size_t)used, "}\n");
        return;
    }
    snprintf(
        yaml, size,
        "paradl: model/1\nname: published\nextends: mixtral-8x7b\nparameters: {layers: %lld, hidden: %lld, heads: "
        "%lld,"
        " kv_heads: %lld, head_dim: %lld, ffn: %lld, experts: %lld, top_k: %lld, tokens: %lld, vocabulary: %lld}\n",
        (long long)d->layers, (long long)d->hidden, (long long)d->heads, (long long)d->kv_heads,
        (long long)d->head_dim, (long long)width, (long long)experts, (long long)chosen, (long long)d->tokens,
        (long long)d->vocabulary);
}

static void write_dense(const pdl_dimensions_t *d, const char *file, bool dropout, char *yaml, size_t size)
{
    bool llama = d->kv_heads > 0;
    int  used =
        snprintf(yaml, size,
                 "paradl: model/1\nname: published\nextends: %s\nparameters: {layers: %lld, hidden: %lld, heads: "
                 "%lld, ffn: %lld, tokens: %lld, vocabulary: %lld",
                 file    ? file
                 : llama ? "llama2-7b"
                         : "gpt2-124m",
                 (long long)d->layers, (long long)d->hidden, (long long)d->heads, (long long)d->ffn,
                 (long long)d->tokens, (long long)d->vocabulary);

    if (llama)
        snprintf(yaml + used, size - (size_t)used, ", kv_heads: %lld}\n", (long long)d->kv_heads);
    else
        snprintf(yaml + used, size - (size_t)used, "%s}\n", dropout ? "" : ", dropout: 0");
}

/* "U-Net(5,64)": the numbers in parentheses, under the names that the rules give them. */
static void write_arguments(const pdl_yaml_t *names, const char *model, char *yaml, size_t size)
{
    const char *at = strchr(model, '(');
    size_t      used = 0;

    if (names == NULL || at == NULL) return;
    for (size_t i = 0; i < pdl_yaml_size(names) && used + 64 < size; i++) {
        char *end;
        long  value = strtol(at + 1, &end, 10);

        if (end == at + 1 || (*end != ',' && *end != ')')) break;
        used += (size_t)snprintf(yaml + used, size - used, "%s%s: %ld", i ? ", " : "parameters: {",
                                 pdl_yaml_text(pdl_yaml_item(names, i)), value);
        at = end;
    }
    if (used > 0) snprintf(yaml + used, size - used, "}\n");
}

/* A model of the zoo: only what a row says is changed. */
static void write_zoo(const pdl_dimensions_t *d, const char *file, int64_t cut, int64_t vocabulary, bool undrop,
                      char *yaml, size_t size)
{
    int used = snprintf(yaml, size, "paradl: model/1\nname: published\nextends: %s\nparameters: {tokens: %lld",
                        file, (long long)d->tokens);

    if (cut) used += snprintf(yaml + used, size - (size_t)used, ", layers: %lld", (long long)cut);
    if (vocabulary) used += snprintf(yaml + used, size - (size_t)used, ", vocabulary: %lld", (long long)vocabulary);
    snprintf(yaml + used, size - (size_t)used, "%s}\n", undrop ? ", dropout: 0" : "");
}

static bool drops(const pdl_model_t *model)
{
    for (int i = 1; i < pdl_model_layer_count(model); i++)
        if (pdl_model_layer(model, i)->rate > 0) return true;
    return false;
}

/* A row without a shape, of a model that the zoo has. False where it cannot be read, and says why. */
static bool take_zoo(const char *file, int64_t experts_over, pdl_published_line_t *line)
{
    pdl_recipe_t    *r = &line->recipe;
    pdl_dimensions_t said = r->size, whole = {.hidden = 0};
    pdl_model_t     *model = NULL;

    if (pdl_model_load(file, &model)) return refuse(&line->row, "%.120s", pdl_error_message());
    pdl__published_sizes(model, &whole);
    pdl__published_sizes(model, &r->size);
    int64_t cut = said.layers && said.layers != whole.layers ? said.layers : 0;
    if (whole.experts) {
        r->experts_over = experts_over;
        write_experts(&r->size, file, cut, r->experts_over, r->yaml, sizeof(r->yaml));
    } else {
        write_zoo(&r->size, file, cut, said.vocabulary, !r->framework->dropout && drops(model), r->yaml,
                  sizeof(r->yaml));
    }
    pdl_model_destroy(model);
    return true;
}

/* Models without transformer layers come from the zoo by name. */
static bool is_transformer(cells_t *c)
{
    return strcmp(text(c, "family"), "transformer") == 0 || strcmp(text(c, "family"), "moe") == 0;
}

static bool read_model(const pdl_published_rules_t *rules, cells_t *c, pdl_published_line_t *line)
{
    pdl_recipe_t     *r = &line->recipe;
    pdl_dimensions_t *d = &r->size;
    const char       *file = NULL, *name = line->row.model;
    char              zoo[64];
    const pdl_yaml_t *entry = pdl__published_match(rules->models, name);

    read_sizes(c, d);
    /* Checked when the rules were read. */
    if (entry) {
        pdl__published_shape(entry, d, &file);
        pdl__published_positions(entry, &d->tokens);
    }
    r->experts_over = d->experts ? extent(c, "ep") : 1;
    if (!is_transformer(c)) {
        if (!file && pdl__published_zoo_name(name, zoo, sizeof(zoo))) file = zoo;
        if (!file) return refuse(&line->row, "model %.60s is not in the zoo", name);
        int used = snprintf(r->yaml, sizeof(r->yaml), "paradl: model/1\nname: published\nextends: %s\n", file);
        write_arguments(entry ? pdl_yaml_find(entry, "arguments") : NULL, name, r->yaml + used,
                        sizeof(r->yaml) - (size_t)used);
        return true;
    }
    bool experts = strcmp(text(c, "family"), "moe") == 0;
    if ((experts ? !d->experts : !d->layers || !d->hidden) &&
        (file || pdl__published_zoo_name(name, zoo, sizeof(zoo))))
        return take_zoo(file ? file : zoo, extent(c, "ep"), line);
    if (experts && !d->experts) return refuse(&line->row, "the experts of %.60s are not known", name);
    guess_shape(number(c, "params_b"), d);
    if (!d->layers || !d->hidden) return refuse(&line->row, "the shape of %.60s is not known", name);
    complete_sizes(rules, d);
    if (d->experts)
        write_experts(d, file, 0, r->experts_over, r->yaml, sizeof(r->yaml));
    else
        write_dense(d, file, r->framework->dropout, r->yaml, sizeof(r->yaml));
    return true;
}

/* "8x HDR IB 200Gb/s per node", "4 Omni-Path links per node (nominal 400 Gb/s)", "800 Gb/s IB per node",
   "400 Gb/s RDMA per GPU": links of at most 200 Gb/s unless they are counted. */
static void read_network(const char *words, int64_t per_node, pdl_recipe_t *r)
{
    const char *unit = strstr(words, "Gb/s"), *digits = unit;
    char       *end;
    double      links = strtod(words, &end), rate;

    if (!unit) return;
    while (digits > words && (digits[-1] == ' ' || digits[-1] == '.' || (digits[-1] >= '0' && digits[-1] <= '9')))
        digits--;
    rate = strtod(digits, NULL) * 1e9 / 8;
    if (rate <= 0) return;
    bool counted = links >= 1 && end < digits;
    if (counted && *end == 'x') rate *= links;
    if (strstr(words, "per GPU")) rate *= (double)(per_node ? per_node : 1);
    r->ports = counted ? links : fmax(1, ceil(rate / 25e9 - 1e-9));
    r->port_bytes_per_s = rate / r->ports;
}

static bool read_system(const pdl_published_rules_t *rules, cells_t *c, pdl_published_line_t *line)
{
    pdl_recipe_t     *r = &line->recipe;
    const char       *name = text(c, "accelerator");
    const pdl_yaml_t *entry = pdl__published_match(rules->accelerators, name);

    if (!entry) return refuse(&line->row, "no system for %.60s", name);
    r->system = pdl_yaml_text(entry);
    r->devices = line->row.devices;
    r->per_node = count(c, "gpus_per_node");
    r->memory_bytes = number(c, "accel_mem_gb") * 1e9;
    read_network(text(c, "internode"), r->per_node, r);
    if (!pdl__published_parts(text(c, "notes"), r))
        return refuse(&line->row, "the devices of stages are not nodes of as many devices each");
    return true;
}

static bool read_policies(const pdl_published_rules_t *rules, cells_t *c, pdl_published_line_t *line)
{
    pdl_recipe_t *r = &line->recipe;
    const char   *recompute = text(c, "recompute"), *sharding = text(c, "sharding"),
               *sequence = text(c, "seq_parallel");
    const pdl_yaml_t *precision = pdl__published_match(rules->precisions, text(c, "precision"));
    char              program[256]; /* with the remarks, which say how it was run */
    int               index = 0;

    snprintf(program, sizeof(program), "%s %s", text(c, "framework"), text(c, "notes"));
    r->framework = pdl__published_framework(rules, program);
    if (!r->framework) return refuse(&line->row, "no rule for framework %.60s", text(c, "framework"));
    if (count(c, "vpp") > 1 && count(c, "ep") > 1) r->framework = pdl__published_interleaved(rules, r->framework);
    if (!precision) return refuse(&line->row, "no rule for precision %.60s", text(c, "precision"));
    if (strstr(text(c, "offload"), "optimizer")) r->config.optimizer_tier = PDL_TIER_HOST;
    r->weights_on_host = strstr(text(c, "offload"), "param") != NULL;
    pdl_yaml_enum(precision, pdl_precision_names, PDL_PRECISION_COUNT, &index);
    r->config.precision = (pdl_precision_t)index;
    r->config.optimizer = is_transformer(c) ? PDL_OPTIMIZER_ADAM : PDL_OPTIMIZER_MOMENTUM;
    if (r->framework->optimizer_given) r->config.optimizer = r->framework->optimizer;
    r->config.sequence_parallel = *sequence ? strcmp(sequence, "yes") == 0 : r->framework->sequence_parallel;
    r->config.sharding = r->framework->sharding;
    if (strcmp(sharding, "none") == 0 || strcmp(sharding, "ddp") == 0 || strcmp(sharding, "zero0") == 0)
        r->config.sharding = PDL_SHARDING_NONE;
    else if (strcmp(sharding, "zero1") == 0 || strcmp(sharding, "ddp_distopt") == 0)
        r->config.sharding = PDL_SHARDING_ZERO1;
    else if (strcmp(sharding, "zero2") == 0)
        r->config.sharding = PDL_SHARDING_ZERO2;
    else if (strcmp(sharding, "zero3") == 0 || strcmp(sharding, "fsdp") == 0)
        r->config.sharding = PDL_SHARDING_ZERO3;
    r->adapters = strstr(text(c, "notes"), "LoRA") != NULL;
    r->wide_sums = strstr(text(c, "precision"), "fp32_grad") != NULL;
    r->config.recompute = r->framework->recompute;
    r->choose_recompute = *recompute == '\0' && !r->framework->recompute_given;
    r->keeps_products = strcmp(recompute, "selective_op") == 0;
    /* "selective_op" keeps every other product and attention, and repeats all the rest: nearer to all than to
       attention alone. */
    if (strcmp(recompute, "full") == 0 || strcmp(recompute, "gpipe_checkpoint") == 0 ||
        strcmp(recompute, "selective_op") == 0)
        r->config.recompute = PDL_RECOMPUTE_FULL;
    else if (strncmp(recompute, "selective", 9) == 0)
        r->config.recompute = PDL_RECOMPUTE_SELECTIVE;
    else if (strcmp(recompute, "none") == 0)
        r->config.recompute = PDL_RECOMPUTE_NONE;
    return true;
}

/* The most chunks, at most 4, into which the layers of every stage divide. */
static int64_t likely_chunks(const pdl_recipe_t *r)
{
    for (int64_t v = 4; v > 1; v--)
        if (r->size.layers % (r->config.pipeline * v) == 0) return v;
    return 1;
}

static void read_schedule(cells_t *c, pdl_recipe_t *r)
{
    const char *schedule = text(c, "schedule");
    int64_t     chunks = extent(c, "vpp");

    if (r->config.pipeline == 1) return;
    if (strcmp(schedule, "gpipe") == 0) r->config.schedule = PDL_SCHEDULE_GPIPE;
    if ((strncmp(schedule, "1f1b_interleaved", 16) == 0 || (*schedule == '\0' && r->framework->interleaved)) &&
        !count(c, "vpp"))
        chunks = likely_chunks(r);
    if (chunks > 1) {
        r->config.schedule = PDL_SCHEDULE_INTERLEAVED;
        r->config.virtual_stages = (int)chunks;
    }
}

/* "layers per stage 7/9/9/9": blocks, with embedding and logits as a layer each where that makes them the model's. */
static void read_stages(const char *notes, pdl_recipe_t *r, pdl_published_row_t *row)
{
    enum { MOST = sizeof(r->stage_blocks) / sizeof(r->stage_blocks[0]) };
    static const char words[] = "layers per stage ";
    const char       *at = strstr(notes, words);
    int64_t           sum = 0, count = 0;
    char             *end;

    if (at == NULL || r->config.pipeline > MOST) return;
    for (at += sizeof(words) - 1; count < r->config.pipeline; at = end + 1) {
        r->stage_blocks[count] = strtoll(at, &end, 10);
        sum += r->stage_blocks[count++];
        if (end == at || *end != '/') break;
    }
    bool others = sum == r->size.layers + 2;
    row->contradicts = count != r->config.pipeline || (!others && sum != r->size.layers);
    if (row->contradicts) {
        refuse(row, "%lld layers in %lld stages are not those of a model of %lld layers", (long long)sum,
               (long long)count, (long long)r->size.layers);
        r->stage_blocks[0] = 0;
    } else if (others) {
        r->stage_blocks[0]--;
        r->stage_blocks[count - 1]--;
    }
}

/* Runs that measured memory alone had a batch that their source says once for all of them, which GPipe cuts into single samples. */
static void read_memory_batch(const pdl_published_rules_t *rules, cells_t *c, pdl_published_line_t *line,
                              int64_t replicas)
{
    pdl_recipe_t     *r = &line->recipe;
    const pdl_yaml_t *entry = pdl__published_match(rules->models, line->row.model);
    int64_t           samples = 0;

    if (!r->choose_batch || line->timed || line->rate > 0 || line->tflops > 0 || entry == NULL) return;
    if (pdl__published_memory_batch(entry, &samples) || samples == 0) return;
    r->config.batch = samples * replicas;
    r->micro_batch = strcmp(text(c, "recompute"), "gpipe_checkpoint") == 0 ? 1 : samples;
    r->choose_batch = r->choose_micro_batch = false;
}

static bool read_mesh(const pdl_published_rules_t *rules, cells_t *c, pdl_published_line_t *line)
{
    pdl_recipe_t *r = &line->recipe;
    pdl_config_t *config = &r->config;
    int64_t context = extent(c, "cp"), replicas, micro = count(c, "micro_batch"), steps = count(c, "grad_accum");

    config->tensor = extent(c, "tp");
    config->pipeline = extent(c, "pp");
    config->context = context;
    replicas = line->row.devices / (config->tensor * config->pipeline * context);
    if (replicas < 1 || replicas * config->tensor * config->pipeline * context != line->row.devices)
        return refuse(&line->row, "tp, pp and cp do not divide the devices");
    config->data = replicas * context;
    config->batch = count(c, "global_batch");
    r->choose_batch = config->batch == 0;
    if (r->choose_batch) config->batch = replicas;
    if (config->batch < replicas) return refuse(&line->row, "fewer samples than replicas");
    if (!micro && steps) micro = config->batch / (replicas * steps);
    r->choose_micro_batch = micro == 0;
    r->micro_batch = micro ? micro : 1;
    r->steps = steps;
    read_memory_batch(rules, c, line, replicas);
    read_schedule(c, r);
    read_stages(text(c, "notes"), r, &line->row);
    return true;
}

static void read_measured(cells_t *c, pdl_published_line_t *line)
{
    const char *kind = text(c, "mem_kind");
    double      gib = strstr(kind, "gib") ? 1.073741824 : 1;

    line->row.measured_s = number(c, "iter_time_s");
    line->timed = line->row.measured_s > 0;
    line->row.measured_oom = strcmp(text(c, "outcome"), "oom") == 0;
    line->recipe.tensors_only = strstr(kind, "alloc") || strstr(kind, "reserved");
    if (!strstr(kind, "total")) line->row.measured_gb = number(c, "mem_gb") * gib;
    line->rate = number(c, "samples_per_s");
    if (strcmp(text(c, "tflops_kind"), "model") == 0) line->tflops = number(c, "tflops_per_gpu");
}

pdl_status_t pdl__published_cells(pdl_published_t *runs, size_t i, pdl_published_line_t *line)
{
    cells_t              c = {runs->csv, i, PDL_OK};
    pdl_published_row_t *row = &line->row;

    row->id = text(&c, "run_id");
    row->source = text(&c, "source");
    row->model = text(&c, "model");
    row->devices = extent(&c, "gpus");
    line->machine = -1;
    line->recipe.config = pdl_config_default("3d");
    read_measured(&c, line);
    row->expressed = read_policies(&runs->rules, &c, line) && read_model(&runs->rules, &c, line) &&
                     read_system(&runs->rules, &c, line) && read_mesh(&runs->rules, &c, line);
    return c.status;
}
