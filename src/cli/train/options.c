/*
 * paradl train: its options.
 */
#include "cli/train/options.h"

#include <paradl/plan/collectives.h>

#include <stdlib.h>
#include <string.h>

#define TEXT(field)                 PDL__TEXT(pdl__train_values_t, field)
#define INT(field, low)             PDL__INT(pdl__train_values_t, field, low)
#define NUMBER(field)               PDL__QUANTITY(pdl__train_values_t, field, PDL_UNIT_NONE)
#define FLAG(field)                 PDL__FLAG(pdl__train_values_t, field)
#define NOTED(field)                .noted = offsetof(pdl__train_values_t, field)
#define CHOICE(field, names, count) PDL__CHOICE(pdl__train_values_t, field, names, count)

const pdl__option_t pdl__train_option_table[] = {
    {"model", "M", NULL, "name of a model, or a .yaml or .onnx file, or a config.json of Hugging Face", TEXT(model),
     .required = true, .instead = true, .first = true, .group = "Model and data"},
    {"data", "D", NULL,
     "name of a data set, or the path of one (docs/data_formats.md; installed in share/doc/paradl)", TEXT(data),
     .required = true, .first = true},
    {"epochs", "E", NULL, "passes over the data", INT(epochs, 1), .first = true},
    {"steps", "K", NULL,
     "weight updates, instead of epochs or as their limit; a round is always completed; 0: only writes the initial "
     "weights to --checkpoint",
     INT(steps, 0), NOTED(steps_given), .first = true},
    {"batch", "B", NULL, "samples per weight update, over all ranks; else 64, or what the plan says", INT(batch, 1),
     .first = true},
    {"seed", "N", "1", "of weights, order and dropout: the same seed gives the same run", INT(seed, 0),
     .first = true},
    {"init", "FILE", NULL,
     "initial weights: safetensors, a checkpoint, a folder of Hugging Face or an ONNX file; layers that do not fit "
     "are "
     "drawn anew and named",
     TEXT(init), .first = true},
    {"init-strict", NULL, NULL, "every weight and every tensor of --init has to fit", FLAG(init_strict)},
    PDL__LORA_OPTIONS(pdl__train_values_t, .instead = true),
    {"augment", "LIST", NULL, "of training images, such as crop:4,flip,cutout:8", TEXT(augment)},
    {"no-normalise", NULL, NULL, "keeps pixels in 0..1 instead of mean 0 and deviation 1", FLAG(no_normalise)},
    {"vocabulary", "V", "char",
     "of text: char, byte, or byte pairs: tokenizer.json, or vocab.json with merges.txt beside it",
     TEXT(vocabulary)},
    {"samples", "N", NULL, "size of a synthetic data set", INT(samples, 1)},
    {"loader-threads", "N", NULL, "threads that prepare samples; else 1, with a GPU the cores of a rank, up to 8",
     INT(loader_threads, 1)},

    {"devices", "N", NULL,
     "ranks; started here unless mpirun or srun has done so; else 1, or as many as the plan is for", INT(pe, 1),
     .first = true, .letter = 'n', .also = "pe", .group = "Parallelism and memory"},
    {"strategy", "NAME", "data",
     "parallel strategy: serial, data, spatial, filter, channel, tensor, pipeline, context, data+filter, "
     "data+channel, data+spatial, data+tensor, data+context, data+pipeline, 3d, 3d-context, data+tensor+context, "
     "4d or mixed",
     TEXT(strategy), .instead = true, .first = true},
    {"mesh", "AXES", NULL,
     "axes and sizes, such as data:2,tensor:2 or spatial_0:2,spatial_1:2; else the projected best", TEXT(mesh),
     .instead = true, .first = true},
    {"micro-batches", "N", "1",
     "micro-batches of a rank: gradient accumulation, or the micro-batches of a pipeline", INT(micro_batches, 1),
     .instead = true, .first = true},
    {"pipeline-schedule", "NAME", "1f1b", "order of micro-batches in the stages of a pipeline",
     CHOICE(pipeline_schedule, pdl_schedule_names, PDL_SCHEDULE_COUNT), .instead = true},
    {"virtual-stages", "N", "1", "virtual stages of each rank of an interleaved pipeline", INT(virtual_stages, 1),
     .instead = true},
    {"sharding", "WHICH", "none",
     "what is sharded over the data axes: zero1 the optimizer state, zero2 also gradients, zero3 also weights",
     CHOICE(sharding, pdl_sharding_names, PDL_SHARDING_COUNT), .instead = true, .first = true},
    {"recompute", "WHICH", "none", "activations that are recomputed in backward instead of kept",
     CHOICE(recompute, pdl_recompute_names, PDL_RECOMPUTE_COUNT), .instead = true, .first = true},
    {"precision", "TYPE", "fp32", "of activations and matrix products; tf32: factors of products alone, on GPUs",
     CHOICE(precision, pdl__precision_names, PDL__PRECISIONS_HERE), .instead = true, .first = true},
    {"sync-batch-norm", NULL, NULL, "batch norm over the batch of all ranks", FLAG(sync_batch_norm),
     .instead = true},
    {"device", "NAME", "cpu",
     "what computes: cpu, cuda (a GPU), cuda:N, auto (a GPU where there is one); dry or dry:cuda: nothing does, "
     "the "
     "program of one rank is printed",
     TEXT(device_text), .first = true},
    {"rank", "R", "0", "--device dry: the rank whose program is printed", INT(rank, 0)},
    {"threads", "N", NULL, "threads of each rank; else the cores divided by the ranks", INT(threads, 1),
     .first = true},
    {"max-memory", "X", NULL, "refuses, before it takes memory, to hold more than this on a rank, such as 2GiB",
     PDL__POSITIVE(pdl__train_values_t, max_memory, PDL_UNIT_BYTES)},
    {"state-dir", "DIR", NULL, "folder for optimizer state that the plan has on disk; else the working directory",
     TEXT(state_dir)},
    {"algorithm", "NAME", NULL,
     "schedule of the gradient exchange, instead of the plan's: auto, measure, library, or one of coll list",
     TEXT(algorithm)},
    {"gradient-sparsity", "X", "0",
     "share of the gradients that ranks do not send, such as 0.99: the smallest, which are added to the next ones",
     NUMBER(gradient_sparsity)},
    {"sparse-warmup", "K", "0", "updates in which sums become as sparse: from a quarter of the gradients on",
     INT(sparse_warmup, 0)},
    {"sparse-momentum", "WHICH", "summed",
     "momentum of sgd where sums are sparse: of the sum, local (of every rank, before it chooses) or masked "
     "(local, and "
     "forgotten where a gradient is sent)",
     CHOICE(sparse_momentum, pdl_momentum_names, PDL_MOMENTUM_COUNT)},
    {"transport", "NAME", "auto",
     "how memory of GPUs goes between ranks: host (through MPI), ipc (ranks of one machine) or nccl (a GPU each)",
     CHOICE(transport, pdl_transport_names, PDL_TRANSPORT_COUNT)},
    {"bucket", "X", "8MiB", "size of a gradient bucket",
     PDL__POSITIVE(pdl__train_values_t, bucket, PDL_UNIT_BYTES)},
    {"no-overlap", NULL, NULL, "communication is not overlapped with computation", FLAG(no_overlap)},
    {"direct", NULL, NULL, "no Winograd convolutions, which round differently for other shapes: for comparing runs",
     FLAG(direct)},

    {"optimizer", "NAME", "sgd", "what updates the weights; else, of a plan, what its optimizer is like",
     CHOICE(optimizer, pdl_method_names, PDL_METHOD_COUNT), NOTED(optimizer_given), .first = true,
     .group = "Optimizer"},
    {"lr", "X", NULL, "learning rate; else 0.1 for sgd, 0.001 for adamw and lamb, 1 for lars", NUMBER(lr),
     NOTED(lr_given), .first = true},
    {"schedule", "NAME", "constant", "of the learning rate after warm-up",
     CHOICE(schedule, pdl_lr_names, PDL_LR_COUNT), .first = true},
    {"warmup", "K", "0", "updates of linear warm-up", INT(warmup, 0), .first = true},
    {"milestones", "K,...", NULL, "updates at which --schedule step lowers the rate", TEXT(milestones)},
    {"gamma", "X", "0.1", "factor at each milestone", NUMBER(gamma)},
    {"power", "X", "1", "of --schedule polynomial", NUMBER(power)},
    {"min-lr", "X", "0", "where cosine and polynomial end", NUMBER(min_lr)},
    {"momentum", "X", "0.9", "of sgd and lars", NUMBER(momentum), NOTED(momentum_given)},
    {"nesterov", NULL, NULL, "Nesterov momentum in sgd", FLAG(nesterov)},
    {"beta1", "X", "0.9", "of adamw and lamb", NUMBER(beta1)},
    {"beta2", "X", "0.999", "of adamw and lamb", NUMBER(beta2)},
    {"epsilon", "X", "1e-8", "of adamw and lamb", NUMBER(epsilon)},
    {"trust", "X", "0.001", "trust coefficient of lars", NUMBER(trust)},
    {"weight-decay", "X", "0", "of weights, not of biases and norms", NUMBER(weight_decay), .first = true},
    {"decay-all", NULL, NULL, "weight decay also for biases and norms", FLAG(decay_all)},
    {"clip", "X", "0", "largest norm of all gradients; 0: no limit", NUMBER(clip)},
    {"ema", "X", "0", "decay of averaged weights, with which validation runs; 0: none", NUMBER(ema)},
    {"label-smoothing", "X", "0", "of the cross-entropy", NUMBER(label_smoothing)},

    PDL__SAMPLING_OPTIONS(pdl__train_values_t),

    {"no-valid", NULL, NULL, "does not validate", FLAG(no_valid), .group = "Validation, checkpoints and faults"},
    {"valid-every", "K", NULL,
     "updates between validations, in rounds at the end of the one that reaches them; else every epoch",
     INT(valid_every, 1)},
    {"checkpoint", "DIR", NULL, "folder of checkpoints; Ctrl-C and SIGTERM write one", TEXT(checkpoint),
     .first = true},
    {"checkpoint-every", "K", NULL, "updates between checkpoints, in rounds likewise; else every epoch",
     INT(checkpoint_every, 1)},
    {"keep", "N", "2", "checkpoints that are kept", INT(keep, 1)},
    {"resume", NULL, NULL, "continues from the latest checkpoint in --checkpoint", FLAG(resume), .first = true},
    {"overwrite", NULL, NULL, "replaces the checkpoints of another run in --checkpoint", FLAG(overwrite)},
    {"restarts", "N", "0", "restarts at most, from the latest checkpoint, of a job of --devices that lost ranks",
     INT(restarts, 0)},
    {"elastic", NULL, NULL, "restarts with the ranks that are left", FLAG(elastic)},
    {"stall-timeout", "TIME", "60s", "after which a rank that is stopped or hangs ends the job; 0: never",
     PDL__QUANTITY(pdl__train_values_t, stall_timeout, PDL_UNIT_SECONDS)},

    {"log", "FILE", NULL, "one JSON object a line for every update and epoch", TEXT(log), .writes = true,
     .first = true, .group = "Output"},
    {"trace", "FILE", NULL, "timeline of operations for Perfetto; in rounds, of a rank's workers in turn",
     TEXT(trace), .writes = true, .first = true},
    {"system", "S", "local", "system whose projection is compared with the measurement; a GPU has that of its name",
     TEXT(system)},
    {"quiet", NULL, NULL, "no progress", FLAG(quiet), .first = true},
    {"json", NULL, NULL, "prints the summary as one JSON document", FLAG(json), .first = true},
    {.name = NULL},
};

/* One axis of --mesh. */
static pdl_status_t add_axis(const char *text, void *context)
{
    pdl_mesh_t *mesh = context;
    pdl_axis_t  axis = {.kind = PDL_AXIS_KIND_COUNT};
    const char *colon = strchr(text, ':');
    size_t      length = colon ? (size_t)(colon - text) : 0;

    for (int k = 0; k < PDL_AXIS_KIND_COUNT; k++)
        if (strlen(pdl_axis_names[k]) == length && strncmp(text, pdl_axis_names[k], length) == 0)
            axis.kind = (pdl_axis_kind_t)k;
    if (length == 9 && strncmp(text, "spatial_", 8) == 0 && text[8] >= '0' && text[8] <= '2')
        axis = (pdl_axis_t){.kind = PDL_AXIS_SPATIAL, .dim = text[8] - '0'};
    if (axis.kind == PDL_AXIS_KIND_COUNT || pdl_parse_int(colon + 1, 1, 1 << 20, &axis.size))
        return pdl_error(PDL_ERR_INPUT, "--mesh: \"%.40s\" is not an axis: write data:2, spatial_0:2 or tensor:4",
                         text);
    if (mesh->axis_count == PDL_MAX_AXES) return pdl_error(PDL_ERR_INPUT, "--mesh: at most %d axes", PDL_MAX_AXES);
    mesh->axis[mesh->axis_count++] = axis;
    return PDL_OK;
}

/* One entry of --augment. */
static pdl_status_t parse_change(const char *text, pdl_augmentation_t *augmentation)
{
    const char *colon = strchr(text, ':');
    int64_t     number = 0;

    if (colon && pdl_parse_int(colon + 1, 1, 4096, &number)) return PDL_ERR_INPUT;
    size_t length = colon ? (size_t)(colon - text) : strlen(text);
    if (length == 4 && strncmp(text, "flip", 4) == 0 && !colon)
        augmentation->flip = true;
    else if (length == 4 && strncmp(text, "crop", 4) == 0)
        augmentation->crop_pad = colon ? number : 4;
    else if (length == 6 && strncmp(text, "cutout", 6) == 0)
        augmentation->cutout = colon ? number : 8;
    else
        return PDL_ERR_INPUT;
    return PDL_OK;
}

static pdl_status_t add_change(const char *text, void *augmentation)
{
    if (strcmp(text, "none") == 0 || parse_change(text, augmentation) == PDL_OK) return PDL_OK;
    return pdl_error(PDL_ERR_INPUT, "--augment: \"%.40s\" is none of crop[:PIXELS], flip, cutout[:PIXELS]", text);
}

static pdl_status_t add_milestone(const char *text, void *context)
{
    pdl_optimizer_options_t *o = context;
    int64_t                  step;

    if (o->milestone_count == PDL_MAX_MILESTONES)
        return pdl_error(PDL_ERR_INPUT, "--milestones: at most %d", PDL_MAX_MILESTONES);
    if (pdl_parse_int(text, 1, INT64_MAX / 2, &step))
        return pdl_error(PDL_ERR_INPUT, "--milestones: \"%.40s\" is not a number of updates", text);
    o->milestone[o->milestone_count++] = (double)step;
    return PDL_OK;
}

static pdl_status_t optimizer_from(const pdl__train_values_t *v, pdl_optimizer_options_t *o)
{
    pdl_optimizer_defaults(o);
    o->method = (pdl_method_t)v->optimizer;
    if (v->lr_given) o->lr = v->lr;
    o->momentum = v->momentum;
    o->nesterov = v->nesterov;
    o->momentum_of = (pdl_momentum_t)v->sparse_momentum;
    o->beta1 = v->beta1;
    o->beta2 = v->beta2;
    o->epsilon = v->epsilon;
    o->weight_decay = v->weight_decay;
    o->decay_all = v->decay_all;
    o->trust = v->trust;
    o->clip_norm = v->clip;
    o->ema = v->ema;
    o->schedule = (pdl_lr_schedule_t)v->schedule;
    o->warmup_steps = (double)v->warmup;
    o->min_lr = v->min_lr;
    o->power = v->power;
    o->gamma = v->gamma;
    return v->milestones ? pdl__split_list(v->milestones, add_milestone, o) : PDL_OK;
}

/* Also where there is nobody to exchange with: a wrong name is wrong on any number of ranks. What is no schedule does not go
   into the plan. */
static pdl_status_t check_algorithm(const char *name, pdl_session_spec_t *session)
{
    if (name == NULL || strcmp(name, "auto") == 0) return PDL_OK;
    if (strcmp(name, "measure") == 0 || strcmp(name, "library") == 0) {
        session->algorithm = name;
        return PDL_OK;
    }
    if (pdl_plan_check_algorithm(name) == PDL_OK) return PDL_OK;
    return pdl_error(PDL_ERR_INPUT, "--algorithm: %s", pdl_error_message());
}

pdl_status_t pdl__train_mesh(const char *text, pdl_mesh_t *mesh)
{
    *mesh = (pdl_mesh_t){0};
    return pdl__split_list(text, add_axis, mesh);
}

pdl_status_t pdl__train_options_from(const pdl__train_values_t *v, pdl_train_options_t *o)
{
    pdl_status_t status;

    pdl_train_defaults(o);
    o->session.seed = (uint64_t)v->seed;
    o->session.label_smoothing = v->label_smoothing;
    o->session.bucket_bytes = (size_t)v->bucket;
    o->session.overlap = !v->no_overlap;
    o->session.sparse_warmup = v->sparse_warmup;
    o->session.transport = (pdl_transport_kind_t)v->transport;
    o->session.max_memory = (size_t)v->max_memory;
    o->session.state_folder = v->state_dir;
    o->model_name = v->model;
    o->epochs = v->epochs;
    o->updates = v->steps;
    o->valid_every = v->valid_every;
    o->normalise = !v->no_normalise;
    o->checkpoint = v->checkpoint;
    o->checkpoint_every = v->checkpoint_every;
    o->keep = (int)v->keep;
    o->resume = v->resume;
    o->logged = v->log != NULL;
    o->overwrite = v->overwrite;
    o->trace = v->trace;
    o->only_initial = v->steps_given && v->steps == 0;
    if (o->only_initial && !v->checkpoint)
        return pdl_error(PDL_ERR_INPUT,
                         "--steps 0 trains nothing: add --checkpoint DIR for the initial weights, or more steps");
    if (v->resume && !v->checkpoint) return pdl_error(PDL_ERR_INPUT, "--resume needs --checkpoint DIR");
    if (v->resume && v->overwrite)
        return pdl_error(PDL_ERR_INPUT, "--resume goes on with a run and --overwrite replaces it: leave out one");
    if (v->label_smoothing < 0 || v->label_smoothing >= 1)
        return pdl_error(PDL_ERR_INPUT, "--label-smoothing must be in 0 .. 1");
    if (v->gradient_sparsity < 0 || v->gradient_sparsity >= 1)
        return pdl_error(PDL_ERR_INPUT,
                         "--gradient-sparsity %g: expected a number from 0 (all are sent) to below 1",
                         v->gradient_sparsity);
    if (v->gradient_sparsity > 0 && v->algorithm)
        return pdl_error(PDL_ERR_INPUT, "--gradient-sparsity has schedules of its own: leave out --algorithm");
    status = check_algorithm(v->algorithm, &o->session);
    if (!status) status = optimizer_from(v, &o->session.optimizer);
    if (!status) status = pdl__sampling_options_from(&v->sampling, (uint64_t)v->seed, o);
    if (!status && v->augment) status = pdl__split_list(v->augment, add_change, &o->augmentation);
    return status;
}
