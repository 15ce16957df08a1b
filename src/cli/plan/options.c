/*
 * Options of paradl plan.
 */
#include "cli/plan/plan.h"

#include <paradl/report/export.h>

#include <string.h>

static const char *const formula_names[PDL__FORMULAS_COUNT] = {"paradl", "orig"};
static const char *const mode_names[] = {[PDL_TRAINING] = "training", [PDL_INFERENCE] = "inference"};

#define TEXT(field)                 PDL__TEXT(pdl__plan_asked_t, field)
#define CHOICE(field, names, count) PDL__CHOICE(pdl__plan_asked_t, field, names, count)

const pdl__option_t pdl__plan_options[] = {
    {"model", "M", NULL, "name of a model, or a .yaml, .onnx or .net file, or a config.json of Hugging Face",
     TEXT(model), .required = true, .group = "What is planned"},
    {"system", "S", NULL, "name of a system, or a .yaml file", TEXT(system), .required = true},
    {"set", "KEY=VALUE", NULL,
     "the system with another value, such as device.memory=32GB or levels.1.bandwidth=25GB/s; may be repeated",
     PDL__LIST(pdl__plan_asked_t, set)},
    {"devices", "P", NULL, "number of devices, or of a sweep that doubles them, such as 64..4096",
     PDL__RANGE(pdl__plan_asked_t, range, 1), .required = true, .letter = 'n', .also = "pe"},
    {"data", "D", NULL,
     "name of a data set, a .yaml file, or files of samples as train reads them; without it there are no epochs",
     TEXT(data)},
    {"batch", "B", NULL, "samples per weight update, over all devices", PDL__INT(pdl__plan_asked_t, batch, 1)},
    {"samples-per-device", "N", NULL,
     "the batch is this many times the devices; else 64, fewer where samples are large (16 M values, 8,192 tokens)",
     PDL__INT(pdl__plan_asked_t, samples_per_pe, 1), .also = "samples-per-pe"},
    {"micro-batches", "N", NULL,
     "of a replica: gradient accumulation or those of a pipeline, exactly so many; else as many as are best",
     PDL__INT(pdl__plan_asked_t, micro_batches, 1)},
    {"sequence", "N", NULL, "tokens of a sample, of a causal language model; else as the model says",
     PDL__INT(pdl__plan_asked_t, sequence, 1)},
    PDL__LORA_OPTIONS(pdl__plan_asked_t, ),
    {"tokens", "N", NULL, "tokens of the whole training, such as 15T: says its time, failures, energy and cost",
     PDL__POSITIVE(pdl__plan_asked_t, tokens, PDL_UNIT_NONE)},
    {"epochs", "E", NULL, "the same in epochs of --data", PDL__POSITIVE(pdl__plan_asked_t, epochs, PDL_UNIT_NONE)},
    {"mode", "MODE", "training", "what the devices do", CHOICE(mode, mode_names, 2)},
    {"precision", "TYPE[,TYPE...]", "fp32",
     "of activations and weights; of several, such as bf16,fp8, the search takes the best and says what each would "
     "take: a precision changes what is computed, so whether training converges in it is to be tried",
     PDL__CHOICES(pdl__plan_asked_t, precision, pdl_precision_names, PDL_PRECISION_COUNT)},
    {"optimizer", "NAME", "momentum", "what updates the weights",
     CHOICE(optimizer, pdl_optimizer_names, PDL_OPTIMIZER_COUNT)},
    {"strategy", "NAME", "all",
     "all, mixed, serial, data, spatial, filter, channel, tensor, pipeline, context, data+filter, data+channel, "
     "data+spatial, data+tensor, data+context, data+pipeline, 3d, 3d-context, data+tensor+context or 4d",
     TEXT(strategy), .group = "Search"},
    {"goal", "GOAL", "time", "what is best", CHOICE(goal, pdl_goal_names, PDL_GOAL_COUNT)},
    {"max-memory", "X", NULL, "memory of a device that may be used, such as 12GiB",
     PDL__POSITIVE(pdl__plan_asked_t, max_memory, PDL_UNIT_BYTES)},
    {"top", "K", "0", "shows only the K best; 0: all", PDL__INT(pdl__plan_asked_t, top, 0)},
    {"exhaustive", NULL, NULL,
     "evaluates every configuration, without bounds, and finds the Pareto front of time, memory and energy",
     PDL__FLAG(pdl__plan_asked_t, exhaustive)},
    {"explain", NULL, NULL,
     "says why the best wins, what would have to change for the second to win, and what every hardware number is "
     "worth",
     PDL__FLAG(pdl__plan_asked_t, explain)},
    {"measured", "LOG", NULL,
     "a run of the best plan: a log of paradl train, a trace of PyTorch's profiler, or iteration_s=SECONDS; says "
     "where "
     "time differs and what to look at",
     TEXT(measured)},
    {"formulas", "WHICH", "paradl", "cost model", CHOICE(formulas, formula_names, PDL__FORMULAS_COUNT),
     .group = "Cost model"},
    {"framework", "NAME", NULL,
     "what trains: pytorch, pytorch-compile, megatron, ... or a .yaml file; else an ideal framework, or the "
     "one that "
     "the system was measured with",
     TEXT(framework)},
    {"parameters", "NAME", NULL, "parameter set of the cost model; else that of the framework or of the system",
     TEXT(parameters)},
    {"with", "NAME=VALUE", NULL,
     "what trains with another value of a parameter or switch, such as overlap_gradients=false or "
     "layer_overlap=0.6; may be repeated",
     PDL__LIST(pdl__plan_asked_t, with)},
    {"spatial-until", "LAYER", NULL, "last layer that is split in space", TEXT(spatial_until)},
    {"groups", "N", NULL, "--formulas orig: groups of the hybrids; else a group is a node",
     PDL__INT(pdl__plan_asked_t, groups, 1)},
    {"divisor", "X", NULL,
     "--formulas orig: what contention divides the bandwidth by; else twice the devices of a group",
     PDL__POSITIVE(pdl__plan_asked_t, divisor, PDL_UNIT_NONE)},
    {"data-policy", "TEXT", NULL,
     "how samples reach the workers: global, local, partial:Q or paired:Q, then ,hide:F ,mean:F ,refresh:EPOCHS "
     ",store:pfs or ,store:local; all compares",
     TEXT(data_policy), .group = "Data policy"},
    {"exchange-bandwidth", "RATE", NULL,
     "--data-policy: at which a worker exchanges samples, as simulated or measured; else projected",
     PDL__POSITIVE(pdl__plan_asked_t, exchange_bandwidth, PDL_UNIT_BYTE_RATE)},
    {"output", "PLAN.yaml", NULL, "writes the best plan to a file; with --export, the folder of all files",
     TEXT(output), .letter = 'o', .writes = true, .group = "Output"},
    {"export", "FRAMEWORK", NULL,
     "writes options or a configuration for megatron, deepspeed, torchtitan, fsdp or nemo, a Slurm script and what "
     "to check to the folder -o; slurm: for paradl train",
     TEXT(export_name)},
    {"trace", "FILE", NULL, "writes the projected timeline of the best plan, for Perfetto or chrome://tracing",
     TEXT(trace), .writes = true},
    {"plot", "FILE.svg", NULL, "--devices A..B: draws the rate over the devices", TEXT(plot), .writes = true},
    {"json", NULL, NULL, "prints one JSON document instead of a table", PDL__FLAG(pdl__plan_asked_t, json)},
    {"layers", NULL, NULL, "--json: with what every layer of the best plan takes",
     PDL__FLAG(pdl__plan_asked_t, layers)},
    {.name = NULL},
};

static pdl_status_t check_sweep(const pdl__plan_asked_t *v)
{
    if (v->range[0] == v->range[1])
        return v->plot == NULL ? PDL_OK
                               : pdl_error(PDL_ERR_INPUT, "--plot needs a sweep, such as --devices 64..4096");
    if (v->output != NULL || v->trace != NULL || v->explain || v->layers || v->data_policy != NULL ||
        v->measured != NULL)
        return pdl_error(PDL_ERR_INPUT, "a sweep has many plans: leave out -o, --trace, --explain, --layers and "
                                        "--data-policy, or give one number of devices");
    if (v->formulas == PDL__FORMULAS_ORIG || v->mode == PDL_INFERENCE)
        return pdl_error(PDL_ERR_INPUT, "a sweep is about training with --formulas paradl");
    return PDL_OK;
}

static pdl_status_t check_exhaustive(const pdl__plan_asked_t *v)
{
    if (!v->exhaustive) return PDL_OK;
    if (v->formulas == PDL__FORMULAS_ORIG || v->range[0] != v->range[1])
        return pdl_error(PDL_ERR_INPUT, "--exhaustive is about one number of devices and --formulas paradl");
    if (strcmp(v->strategy, "mixed") == 0)
        return pdl_error(PDL_ERR_INPUT,
                         "--exhaustive is about named strategies: mixed layouts are found by dynamic "
                         "programming");
    return PDL_OK;
}

static pdl_status_t check_export(const pdl__plan_asked_t *v)
{
    const char *const *name = pdl_export_names;

    if (v->export_name == NULL) return PDL_OK;
    while (*name != NULL && strcmp(*name, v->export_name) != 0) name++;
    if (*name == NULL)
        return pdl_error(PDL_ERR_INPUT,
                         "--export: \"%.40s\" is none of megatron, deepspeed, torchtitan, fsdp, nemo and slurm",
                         v->export_name);
    if (v->output == NULL || pdl_output_is_stdout(v->output))
        return pdl_error(PDL_ERR_INPUT, "--export needs a folder: add -o DIR");
    if (v->mode == PDL_INFERENCE || v->formulas == PDL__FORMULAS_ORIG)
        return pdl_error(PDL_ERR_INPUT, "--export is about training with --formulas paradl");
    return PDL_OK;
}

pdl_status_t pdl__plan_check(const pdl__plan_asked_t *v)
{
    if (v->batch > 0 && v->samples_per_pe > 0)
        return pdl_error(PDL_ERR_INPUT, "--batch and --samples-per-device exclude each other");
    if (v->sequence > 0 && v->output != NULL)
        return pdl_error(PDL_ERR_INPUT,
                         "a plan names its model, which has sequences of another length: write one with paradl "
                         "model import %s --sequence %lld -o MODEL.yaml and plan with that",
                         v->model, (long long)v->sequence);
    if (v->formulas != PDL__FORMULAS_ORIG && (v->groups > 0 || v->divisor > 0))
        return pdl_error(PDL_ERR_INPUT, "--groups and --divisor need --formulas orig");
    if (v->formulas == PDL__FORMULAS_ORIG && (v->output != NULL || v->trace != NULL || v->explain || v->layers ||
                                              v->max_memory > 0 || v->measured != NULL))
        return pdl_error(PDL_ERR_INPUT, "--formulas orig only projects: leave out -o, --trace, --explain, "
                                        "--layers, --measured and --max-memory");
    if (v->layers && !v->json) return pdl_error(PDL_ERR_INPUT, "--layers is a part of the document: add --json");
    if (v->formulas == PDL__FORMULAS_ORIG && v->precision.count > 1)
        return pdl_error(PDL_ERR_INPUT, "--formulas orig projects one precision: name one with --precision");
    if (v->lora.rank > 0 && v->mode == PDL_INFERENCE)
        return pdl_error(PDL_ERR_INPUT,
                         "--lora is about training: adapters that are merged cost nothing in inference");
    if (v->formulas == PDL__FORMULAS_ORIG && v->framework != NULL)
        return pdl_error(PDL_ERR_INPUT, "--formulas orig knows no frameworks: leave out --framework");
    if (v->formulas == PDL__FORMULAS_ORIG && v->with.count > 0)
        return pdl_error(PDL_ERR_INPUT, "--formulas orig has no parameters: leave out --with");
    if ((v->tokens > 0 || v->epochs > 0) && (v->formulas == PDL__FORMULAS_ORIG || v->mode == PDL_INFERENCE))
        return pdl_error(PDL_ERR_INPUT, "--tokens and --epochs are about training with --formulas paradl");
    if (v->exchange_bandwidth > 0 && v->data_policy == NULL)
        return pdl_error(PDL_ERR_INPUT, "--exchange-bandwidth needs --data-policy");
    if (v->data_policy != NULL && v->data == NULL)
        return pdl_error(PDL_ERR_INPUT, "--data-policy needs a data set: name one with --data");
    if (v->data_policy != NULL && (v->formulas == PDL__FORMULAS_ORIG || v->mode == PDL_INFERENCE))
        return pdl_error(PDL_ERR_INPUT, "--data-policy is about training with --formulas paradl");
    if (check_sweep(v) || check_exhaustive(v)) return PDL_ERR_INPUT;
    return check_export(v);
}
