/*
 * Compares the run that wrote a checkpoint with the one that goes on from it, option by option and as text.
 */
#include "train/checkpoint/identity.h"
#include "train/checkpoint/checkpoint.h"
#include "train/exec/session.h"

#include "base/number.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PREFIX "run."

typedef enum kind { INTEGER, REAL, FLAG, NAME } kind_t;
typedef enum use { ALWAYS, PARTITIONS, HIDING, ROUNDS } use_t; /* where an option has a meaning */

/* Options that are one field; those that are several are put together below. */
static const struct option {
    const char        *name;
    kind_t             kind;
    size_t             offset;
    const char *const *names;
    use_t              use;
} options[] = {
#define AT(field) offsetof(pdl_train_options_t, field)
    {"label-smoothing", REAL, AT(session.label_smoothing), NULL, ALWAYS},
    {"sparse-momentum", NAME, AT(session.optimizer.momentum_of), pdl_momentum_names, ALWAYS},
    {"sparse-warmup", INTEGER, AT(session.sparse_warmup), NULL, ALWAYS},
    {"partition", NAME, AT(sampling.shuffle.partition), pdl_partition_names, PARTITIONS},
    {"destination", NAME, AT(sampling.shuffle.destination), pdl_destination_names, PARTITIONS},
    {"pair-score", NAME, AT(sampling.shuffle.score), pdl_pair_score_names, PARTITIONS},
    {"pair-samples", NAME, AT(sampling.shuffle.pair_samples), pdl_pair_samples_names, PARTITIONS},
    {"hide", REAL, AT(sampling.hide.fraction), NULL, HIDING},
    {"hide-threshold", REAL, AT(sampling.hide.threshold), NULL, HIDING},
    {"hide-scope", NAME, AT(sampling.hide.scope), pdl_hide_scope_names, HIDING},
    {"hide-trim", REAL, AT(sampling.hide.trim), NULL, HIDING},
    {"hide-beta", REAL, AT(sampling.hide.beta), NULL, HIDING},
    {"hide-until", REAL, AT(sampling.hide.until), NULL, HIDING},
    {"refresh-every", INTEGER, AT(sampling.hide.refresh_every), NULL, HIDING},
    {"local-epochs", INTEGER, AT(aggregate.epochs[0]), NULL, ROUNDS},
    {"second-epochs", INTEGER, AT(aggregate.epochs[1]), NULL, ROUNDS},
    {"hops", INTEGER, AT(aggregate.hops), NULL, ROUNDS},
    {"keep-moments", FLAG, AT(aggregate.keep_moments), NULL, ROUNDS},
    {"distill", REAL, AT(aggregate.distill), NULL, ROUNDS},
    {"temperature", REAL, AT(aggregate.temperature), NULL, ROUNDS},
    {"nets", INTEGER, AT(aggregate.nets), NULL, ROUNDS},
    {"agreement", REAL, AT(aggregate.agreement), NULL, ROUNDS},
    {"agreement-warmup", INTEGER, AT(aggregate.agreement_warmup), NULL, ROUNDS},
    {"mixup", REAL, AT(aggregate.mixup), NULL, ROUNDS},
    {"published-warmup", FLAG, AT(aggregate.published_warmup), NULL, ROUNDS},
#undef AT
};
#define OPTIONS (sizeof(options) / sizeof(options[0]))
_Static_assert(OPTIONS + 20 <= PDL__IDENTITY_ENTRIES, "room for every option");

static bool is_used(use_t use, const pdl_train_options_t *o)
{
    switch (use) {
    case PARTITIONS: return o->sampling.shuffle.kind != PDL_SHUFFLE_GLOBAL;
    case HIDING: return o->sampling.hide.method != PDL_HIDE_NONE;
    case ROUNDS: return o->aggregate.kind != PDL_AGGREGATE_STEP;
    case ALWAYS: break;
    }
    return true;
}

static void add(pdl__identity_t *id, const char *name, const char *format, ...) PDL_PRINTF(3, 4);
static void add(pdl__identity_t *id, const char *name, const char *format, ...)
{
    int     i = id->count++;
    va_list arguments;

    snprintf(id->key[i], sizeof(id->key[i]), PREFIX "%s", name);
    va_start(arguments, format);
    vsnprintf(id->text[i], sizeof(id->text[i]), format, arguments);
    va_end(arguments);
    id->entry[i] = (pdl_metadata_t){id->key[i], id->text[i]};
}

/* The shortest of 15 and 17 digits that is read back as it was. */
static const char *print_real(double value, char text[32])
{
    double      again = 0;
    const char *end;

    pdl__number_print(text, 32, "%.*g", 15, value);
    if (!pdl__number_scan(text, true, &end, &again) || again != value)
        pdl__number_print(text, 32, "%.*g", 17, value);
    return text;
}

static void add_option(pdl__identity_t *id, const struct option *option, const void *value)
{
    char text[32];

    switch (option->kind) {
    case INTEGER: add(id, option->name, "%" PRId64, *(const int64_t *)value); break;
    case REAL: add(id, option->name, "%s", print_real(*(const double *)value, text)); break;
    case FLAG: add(id, option->name, "%s", *(const bool *)value ? "yes" : "no"); break;
    case NAME: add(id, option->name, "%s", option->names[*(const int *)value]); break;
    }
}

static void add_augmentation(pdl__identity_t *id, const pdl_augmentation_t *a)
{
    char crop[32] = "", cutout[32] = "";

    if (a->crop_pad > 0) snprintf(crop, sizeof(crop), "crop:%" PRId64 "%s", a->crop_pad, a->flip ? "," : "");
    if (a->cutout > 0)
        snprintf(cutout, sizeof(cutout), "%scutout:%" PRId64, a->flip || a->crop_pad > 0 ? "," : "", a->cutout);
    if (a->crop_pad > 0 || a->flip || a->cutout > 0)
        add(id, "augment", "%s%s%s", crop, a->flip ? "flip" : "", cutout);
    else
        add(id, "augment", "none");
}

static void add_hide_factors(pdl__identity_t *id, const pdl_hide_options_t *hide)
{
    char   text[PDL__IDENTITY_TEXT] = "";
    size_t used = 0;

    for (int i = 0; i <= hide->milestone_count && used + 40 < sizeof(text); i++) {
        used += (size_t)pdl__number_print(text + used, 32, "%.*g", 9, hide->factor[i]);
        if (i < hide->milestone_count)
            used += (size_t)snprintf(text + used, sizeof(text) - used, " until %" PRId64 ", ", hide->milestone[i]);
    }
    add(id, "hide-factors", "%s", text);
}

/* Choices that are flags here and words on the command line. */
static void add_choices(pdl__identity_t *id, const pdl_train_options_t *o)
{
    const pdl_hide_options_t *hide = &o->sampling.hide;
    double                    thins = pdl__plan_thins(o->session.plan);
    char                      text[32];

    add(id, "no-normalise", "%s", o->normalise ? "no" : "yes");
    add(id, "statistics", "%s", o->session.first_statistics ? "first" : "mean");
    add(id, "precision", "%s", pdl_precision_names[o->session.plan->precision]);
    add(id, "gradient-sparsity", "%s", thins > 0 ? print_real(1 - thins, text) : "0");
    add(id, "sync-batch-norm", "%s", o->session.plan->sync_batch_norm ? "yes" : "no");
    if (o->aggregate.kind == PDL_AGGREGATE_CADIS)
        add(id, "cluster-threshold", "%s",
            o->aggregate.fixed_threshold ? print_real(o->aggregate.threshold, text) : "auto");
    add(id, "hide-method", "%s", pdl_hide_method_names[hide->method]);
    if (!is_used(HIDING, o)) return;
    add(id, "hide-without", "%s%s%s%s", hide->lowest ? "" : "lowest ", hide->move_back ? "" : "move-back ",
        hide->reduce ? "" : "reduce ", hide->rate ? "" : "rate ");
    add(id, "hide-rate", "%s", hide->rate_from_most ? "most" : "hidden");
    add(id, "hide-confidence", "%s", o->sampling.batch_confidence ? "batch" : "class");
    add(id, "refresh-mode", "%s", o->sampling.refresh_training ? "training" : "evaluation");
    add_hide_factors(id, hide);
}

static void add_combined(pdl__identity_t *id, const pdl_train_options_t *o)
{
    const pdl_shuffle_options_t *shuffle = &o->sampling.shuffle;
    char                         text[32] = "";
    bool                         moves = shuffle->kind >= PDL_SHUFFLE_PARTIAL;

    if (o->aggregate.steps > 0) snprintf(text, sizeof(text), ":%" PRId64, o->aggregate.steps);
    add(id, "aggregate", "%s%s", pdl_aggregation_names[o->aggregate.kind], text);
    add(id, "shuffle", "%s%s%s", pdl_shuffle_names[shuffle->kind], moves ? ":" : "",
        moves ? print_real(shuffle->fraction, text) : "");
    if (shuffle->kind == PDL_SHUFFLE_PAIRED) add(id, "random-match-every", "%d", shuffle->random_every);
    add_augmentation(id, &o->augmentation);
}

#define DATA_NAME    PREFIX "data"
#define DATA_CONTENT PREFIX "data-content"
#define DATA_MEAN    PREFIX "data-mean"

static pdl_status_t add_data(pdl__identity_t *id, pdl_source_t *source)
{
    const pdl_source_info_t *info = pdl_source_info(source);
    pdl_source_sketch_t      sketch;
    char                     shape[96];
    int                      used = snprintf(shape, sizeof(shape), "%" PRId64, info->shape.channels);
    pdl_status_t             status = pdl_source_sketch(source, &sketch);

    for (int d = 0; d < info->shape.rank; d++)
        used += snprintf(shape + used, sizeof(shape) - (size_t)used, " x %" PRId64, info->shape.extent[d]);
    add(id, "data", "%s", info->name);
    add(id, "data-content", "%" PRId64 " samples of %s, %" PRId64 " classes, targets %016" PRIx64, info->samples,
        shape, info->classes, sketch.targets);
    pdl__number_print(shape, sizeof(shape), "%.*g", 9, sketch.mean);
    add(id, "data-mean", "%s", shape);
    return status;
}

static pdl_status_t make(const pdl_train_options_t *o, pdl__identity_t *id)
{
    pdl_status_t status;

    id->count = 0;
    status = add_data(id, o->train);
    if (status) return status;
    add_combined(id, o);
    add_choices(id, o);
    for (size_t i = 0; i < OPTIONS; i++) {
        if (is_used(options[i].use, o)) add_option(id, &options[i], (const char *)o + options[i].offset);
    }
    return PDL_OK;
}

/* The model as YAML, so that a checkpoint can do without the file it came from. What would not come back as the same
   model is left out. */
static pdl_status_t describe_model(const pdl_model_t *model, char **text)
{
    size_t       length = 0;
    FILE        *stream = open_memstream(text, &length);
    pdl_model_t *again = NULL;
    bool         same = false;
    pdl_status_t status = stream ? pdl_model_write_yaml(model, stream) : PDL_ERR_NOMEM;

    if (stream && fclose(stream) != 0) status = PDL_ERR_NOMEM;
    if (!status) same = pdl_model_read_yaml_memory(*text, length, "model.yaml", &again) == PDL_OK;
    same = same && pdl_model_hash(again) == pdl_model_hash(model);
    pdl_model_destroy(again);
    if (same) return PDL_OK;
    free(*text);
    *text = NULL;
    return status == PDL_ERR_NOMEM ? pdl_error(PDL_ERR_NOMEM, "out of memory") : PDL_OK;
}

void pdl__identity_destroy(pdl__identity_t *id)
{
    if (id == NULL) return;
    free(id->model);
    free(id);
}

/* From the first rank to the others, whichever of them may have to write a checkpoint. */
static pdl_status_t share(pdl__identity_t *id, pdl_ranks_t *ranks)
{
    pdl_status_t status = pdl_ranks_broadcast(ranks, &id->count, sizeof(id->count), 0);

    if (!status) status = pdl_ranks_broadcast(ranks, id->key, sizeof(id->key), 0);
    if (!status) status = pdl_ranks_broadcast(ranks, id->text, sizeof(id->text), 0);
    for (int i = 0; i < id->count && !status; i++) id->entry[i] = (pdl_metadata_t){id->key[i], id->text[i]};
    return status;
}

pdl_status_t pdl__identity_create(const pdl_train_options_t *o, pdl__identity_t **identity)
{
    pdl__identity_t *id = calloc(1, sizeof(*id));
    pdl_status_t     status = id ? PDL_OK : pdl_error(PDL_ERR_NOMEM, "out of memory");

    if (id && pdl_ranks_rank(o->session.ranks) == 0) status = make(o, id);
    if (id && !status) status = describe_model(o->session.plan->model, &id->model);
    status = pdl_ranks_agree(o->session.ranks, status);
    if (!status) status = share(id, o->session.ranks);
    if (status)
        pdl__identity_destroy(id);
    else
        *identity = id;
    return status;
}

static pdl_status_t refuse(const pdl_checkpoint_t *checkpoint, const char *option, const char *was, const char *is)
{
    if (*was == '\0') was = "none";
    if (*is == '\0') is = "none";
    return pdl_error(PDL_ERR_INPUT,
                     "%s was written with --%s %s, this run has %s: resume with the same options, or give another "
                     "folder to --checkpoint",
                     pdl_checkpoint_path(checkpoint), option, was, is);
}

static const char *asked(const pdl__identity_t *id, const char *key)
{
    for (int i = 0; i < id->count; i++) {
        if (strcmp(id->key[i], key) == 0) return id->text[i];
    }
    return "";
}

/* Decoders of other libraries round differently. */
static bool is_near(const char *a, const char *b)
{
    double      x, y;
    const char *end;

    if (!pdl__number_scan(a, true, &end, &x) || !pdl__number_scan(b, true, &end, &y)) return false;
    return fabs(x - y) <= 1e-3 * fmax(1, fmax(fabs(x), fabs(y)));
}

/* By content: the folder may have another name, or be somewhere else. */
static pdl_status_t check_data(const pdl__identity_t *id, const pdl_checkpoint_t *checkpoint)
{
    const pdl_safetensors_t *state = pdl_checkpoint_state(checkpoint);
    const char              *name = pdl_safetensors_metadata(state, DATA_NAME);
    const char              *content = pdl_safetensors_metadata(state, DATA_CONTENT);
    const char              *mean = pdl_safetensors_metadata(state, DATA_MEAN);
    char                     was[512], is[512];

    if (name == NULL || content == NULL || mean == NULL) return PDL_OK;
    if (strcmp(content, asked(id, DATA_CONTENT)) == 0 && is_near(mean, asked(id, DATA_MEAN))) return PDL_OK;
    snprintf(was, sizeof(was), "%.100s (%.200s, mean %.40s)", name, content, mean);
    snprintf(is, sizeof(is), "%s (%s, mean %s)", asked(id, DATA_NAME), asked(id, DATA_CONTENT),
             asked(id, DATA_MEAN));
    return refuse(checkpoint, "data", was, is);
}

/* Checkpoints that do not name their version have 0 for a rate that was not given. */
static bool is_unknown(const char *field, const char *was, const char *version)
{
    return was == NULL || (*version == '\0' && strcmp(field, "lr") == 0 && strcmp(was, "0") == 0);
}

/* Options of the optimizer that have other names on the command line; total_steps follows from the run's length. */
static const char *optimizer_option(const char *field)
{
    static const char *const names[][2] = {{"method", "optimizer"},          {"clip_norm", "clip"},
                                           {"warmup_steps", "warmup"},       {"min_lr", "min-lr"},
                                           {"weight_decay", "weight-decay"}, {"decay_all", "decay-all"}};

    if (strcmp(field, "total_steps") == 0) return NULL;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strcmp(names[i][0], field) == 0) return names[i][1];
    }
    return field;
}

/* The rate and the clipping of gradients are what people change in the middle of a run, on purpose. */
static bool may_change(const char *field)
{
    static const char *const names[] = {"lr",    "clip_norm", "schedule", "warmup_steps",
                                        "gamma", "power",     "min_lr",   "milestones"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strcmp(names[i], field) == 0) return true;
    }
    return false;
}

static void note_change(pdl__identity_change_t *change, const char *option, const char *was, const char *is)
{
    size_t used = strlen(change->text);

    snprintf(change->text + used, sizeof(change->text) - used, "%s--%s %s instead of %s", used > 0 ? ", " : "",
             option, *is != '\0' ? is : "none", *was != '\0' ? was : "none");
}

/* Checkpoints have all 17 digits of a number; people get those that matter. */
static const char *shorten(const char *value, char text[32])
{
    double      number;
    const char *end;

    return pdl__number_scan(value, true, &end, &number) && *end == '\0' ? print_real(number, text) : value;
}

static pdl_status_t check_optimizer(const pdl_optimizer_options_t *optimizer, const pdl_checkpoint_t *checkpoint,
                                    pdl__identity_change_t *change)
{
    static const char     prefix[] = "paradl.optimizer.";
    pdl_checkpoint_info_t info = {.optimizer = *optimizer};
    pdl__info_text_t     *text = malloc(sizeof(*text));
    char                  digits[2][32];
    pdl_status_t          status = PDL_OK;

    if (text == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory");
    info.optimizer.lr = pdl_optimizer_rate(optimizer);
    pdl__checkpoint_info_write(&info, text);
    for (int i = 0; i < text->count && !status; i++) {
        const char *key = text->entry[i].key, *field = key + sizeof(prefix) - 1, *option, *is;
        const char *was = pdl_safetensors_metadata(pdl_checkpoint_state(checkpoint), key);

        if (strncmp(key, prefix, sizeof(prefix) - 1) != 0 ||
            is_unknown(field, was, pdl_checkpoint_info(checkpoint)->version))
            continue;
        option = optimizer_option(field);
        if (option == NULL || strcmp(was, text->entry[i].value) == 0) continue;
        was = shorten(was, digits[0]);
        is = shorten(text->entry[i].value, digits[1]);
        if (may_change(field))
            note_change(change, option, was, is);
        else
            status = refuse(checkpoint, option, was, is);
    }
    free(text);
    return status;
}

pdl_status_t pdl__identity_check(const pdl__identity_t *id, const pdl_optimizer_options_t *optimizer,
                                 const pdl_checkpoint_t *checkpoint, pdl__identity_change_t *change)
{
    pdl_status_t status = check_data(id, checkpoint);

    *change = (pdl__identity_change_t){0};
    for (int i = 0; i < id->count && !status; i++) {
        const char *was = pdl_safetensors_metadata(pdl_checkpoint_state(checkpoint), id->key[i]);

        if (strncmp(id->key[i], DATA_NAME, strlen(DATA_NAME)) == 0) continue;
        if (was != NULL && strcmp(was, id->text[i]) != 0)
            status = refuse(checkpoint, id->key[i] + strlen(PREFIX), was, id->text[i]);
    }
    return status ? status : check_optimizer(optimizer, checkpoint, change);
}
