/*
 * Exports: which frameworks there are, what they all have in common, and the files of a folder.
 */
#include "report/export/export.h"

#include <paradl/base/output.h>
#include <paradl/model/traits.h>

#include <stdlib.h>
#include <string.h>

const char *const pdl_export_names[] = {"megatron", "deepspeed", "torchtitan", "fsdp", "nemo", "slurm", NULL};

#define TORCHRUN                                                                                     \
    "torchrun --nnodes=\"$SLURM_NNODES\" --nproc-per-node=\"$DEVICES\" --rdzv-id=\"$SLURM_JOB_ID\" " \
    "--rdzv-backend=c10d --rdzv-endpoint=\"$MASTER_ADDR:$MASTER_PORT\" "

const pdl__exporter_t pdl__exporters[PDL_EXPORT_COUNT] = {
    {.name = "megatron",
     .write = pdl__export_megatron,
     .setup = ": \"${MEGATRON:?set it to the folder of Megatron-LM}\"\nsource megatron_args.sh\n",
     .launch = TORCHRUN "\"$MEGATRON/pretrain_gpt.py\" \"${ARGS[@]}\"",
     .log = "\"elapsed time per iteration (ms)\" and \"throughput per GPU (TFLOP/s/GPU)\" of every line; memory "
            "after the "
            "first iterations, \"max allocated\""},
    {.name = "deepspeed",
     .write = pdl__export_deepspeed,
     .setup = ": \"${PROGRAM:?set it to your training program}\"\n",
     .launch = TORCHRUN "\"$PROGRAM\" --deepspeed --deepspeed_config ds_config.json",
     .log = "\"wall_clock_breakdown\" prints forward, backward and step; see_memory_usage() prints memory"},
    {.name = "torchtitan",
     .write = pdl__export_torchtitan,
     .setup = "",
     .launch = TORCHRUN "-m torchtitan.train --job.config_file torchtitan.toml",
     .log = "\"tps\" (tokens a second and device), \"tflops\", \"mfu\" and \"memory\" of every line"},
    {.name = "fsdp",
     .write = pdl__export_fsdp,
     .setup = ": \"${PROGRAM:?set it to your training program}\"\n",
     .launch = "accelerate launch --config_file accelerate.yaml --machine_rank \"$SLURM_NODEID\" "
               "--main_process_ip \"$MASTER_ADDR\" --main_process_port \"$MASTER_PORT\" \"$PROGRAM\"",
     .log = "your program: time around a step after torch.cuda.synchronize(), torch.cuda.max_memory_allocated()"},
    {.name = "nemo",
     .write = pdl__export_nemo,
     .setup = "",
     .launch = "python nemo_pretrain.py",
     .log = "\"train_step_timing in s\" of every step",
     .task_per_rank = true},
    {.name = "slurm",
     .write = pdl__export_slurm,
     .setup = "",
     .launch = "paradl train plan.yaml --device auto --steps 50 --log run.jsonl",
     .log = "step_s of run.jsonl",
     .task_per_rank = true,
     .zero_bubble = true},
};

const pdl__exporter_t *pdl__exporter_find(const char *name)
{
    for (int i = 0; i < PDL_EXPORT_COUNT; i++)
        if (strcmp(pdl__exporters[i].name, name) == 0) return &pdl__exporters[i];
    return NULL;
}

bool pdl_export_has_zero_bubble(const char *framework)
{
    const pdl__exporter_t *exporter = pdl__exporter_find(framework);

    return exporter == NULL || exporter->zero_bubble;
}

pdl_status_t pdl__export_file(pdl__exported_t *x, const char *name, void (*write)(const pdl__exported_t *, FILE *))
{
    char          path[4096];
    pdl_output_t *output;
    pdl_status_t  status;

    if (snprintf(path, sizeof(path), "%s/%s", x->folder, name) >= (int)sizeof(path))
        return pdl_error(PDL_ERR_INPUT, "the path is too long: %s", x->folder);
    status = pdl_output_open(path, &output);
    if (status) return status;
    write(x, pdl_output_stream(output));
    status = pdl_output_close(output);
    if (!status) fprintf(x->list, "  %s\n", path);
    return status;
}

pdl_status_t pdl__export_needs_transformer(const pdl__exported_t *x)
{
    if (x->net.layers > 0 && x->net.vocabulary > 0) return PDL_OK;
    return pdl_error(PDL_ERR_UNSUPPORTED,
                     "%s trains language models and %s is none: export deepspeed, fsdp or slurm", x->framework,
                     pdl_model_name(x->plan->model));
}

/* How many attentions of the layers [first, last) are recomputed; false where one is that follows another which is not. */
static bool recomputed_first(const pdl_plan_t *plan, int first, int last, int64_t *recomputed, int64_t *all)
{
    *recomputed = *all = 0;
    for (int i = first; i < last; i++) {
        pdl_memory_policy_t policy = pdl_plan_memory_policy(plan, i);
        bool                again = policy == PDL_MEMORY_RECOMPUTE;
        if (!again && policy != PDL_MEMORY_KEEP) return false;
        if (pdl_layer_traits(pdl_model_layer(plan->model, i))->work != PDL_WORK_ATTENTION) continue;
        if (again && *recomputed < *all) return false;
        *recomputed += again;
        ++*all;
    }
    return true;
}

/* Blocks that frameworks know: of every virtual stage the first so many are recomputed; 0: these are others. */
static int64_t recomputed_blocks(const pdl_plan_t *plan)
{
    int64_t most = 0, recomputed, all, stages = pdl_plan_stage_count(plan);

    for (int pass = 0; pass < 2; pass++)
        for (int64_t k = 0; k < stages; k++) {
            if (!recomputed_first(plan, plan->stage_first[k], plan->stage_first[k + 1], &recomputed, &all))
                return 0;
            if (pass == 1 && recomputed != (most < all ? most : all)) return 0;
            most = recomputed > most ? recomputed : most;
        }
    return most;
}

static void set_memory(pdl__exported_t *x)
{
    x->recompute = x->plan->recompute;
    if (x->plan->block_count == 0) return;
    x->recomputed_blocks = recomputed_blocks(x->plan);
    if (x->recomputed_blocks > 0)
        x->recompute = PDL_RECOMPUTE_FULL;
    else
        pdl__export_note(x, "memory policy per block: see blocks of plan.yaml; frameworks have one for all layers");
}

void pdl__export_all_blocks(pdl__exported_t *x)
{
    if (x->recomputed_blocks > 0)
        pdl__export_note(x, "recompute of %lld blocks a stage: all are recomputed, in less memory and more time",
                         (long long)x->recomputed_blocks);
}

void pdl__export_common(pdl__exported_t *x)
{
    const pdl_plan_t     *plan = x->plan;
    const pdl_strategy_t *strategy = pdl_strategy_find(plan->strategy);
    int64_t               spatial = pdl_mesh_extent(&plan->mesh, PDL_AXIS_SPATIAL);

    if (strategy != NULL && strategy->per_layer)
        pdl__export_note(x, "layouts per layer: frameworks split all layers alike");
    else if (x->tensor > 1 && strategy != NULL && strategy->width != PDL_WIDTH_PAIRS)
        pdl__export_note(
            x, "strategy %s: frameworks split matrices in pairs, columns then rows; plan with data+tensor or 3d",
            plan->strategy);
    if (spatial > x->context)
        pdl__export_note(x, "spatial axis of %lld: no framework here splits images in space", (long long)spatial);
    if (plan->batch % (x->data * plan->micro_batches) != 0)
        pdl__export_note(x, "batch %lld is not a whole number of micro-batches of all replicas (%lld x %lld)",
                         (long long)plan->batch, (long long)x->data, (long long)plan->micro_batches);
    if (plan->data_policy.given && plan->data_policy.shuffle != PDL_POLICY_GLOBAL)
        pdl__export_note(x, "data policy: samples are shuffled globally by these frameworks");
    pdl__export_note(x, "schedules of collectives (plan.yaml): NCCL chooses its own");
}

static void set_places(pdl__exported_t *x)
{
    const pdl_mesh_t     *mesh = &x->plan->mesh;
    const pdl_strategy_t *strategy = pdl_strategy_find(x->plan->strategy);
    int64_t               devices = pdl_mesh_size(mesh), node = x->what->system->level[0].fanout;
    int pipeline = pdl_mesh_find(mesh, PDL_AXIS_PIPELINE), data = pdl_mesh_find(mesh, PDL_AXIS_DATA);

    x->data = pdl_mesh_extent(mesh, PDL_AXIS_DATA);
    x->tensor = pdl_mesh_extent(mesh, PDL_AXIS_TENSOR);
    x->pipeline = pdl_mesh_extent(mesh, PDL_AXIS_PIPELINE);
    x->context =
        strategy != NULL && pdl_strategy_splits_tokens(strategy) ? pdl_mesh_extent(mesh, PDL_AXIS_SPATIAL) : 1;
    int64_t context = pdl_plan_expert_ranks(x->plan, PDL_AXIS_SPATIAL),
            replicas = pdl_plan_expert_ranks(x->plan, PDL_AXIS_DATA);
    x->experts = x->tensor * context * replicas;
    if (replicas > 1 && context < x->context)
        pdl__export_note(
            x,
            "experts over %lld replicas, each whole on all ranks of the context axis: these frameworks "
            "take the ranks of that axis first",
            (long long)replicas);
    x->overlaps = x->data > 1 && (x->what->parameters == NULL || x->what->parameters->overlap_gradients != 0);
    x->overlaps_layers = x->tensor > 1 && x->what->parameters != NULL && x->what->parameters->layer_overlap > 0;
    x->overlaps_experts = x->experts > 1 && x->what->parameters != NULL && x->what->parameters->expert_overlap > 0;
    x->outer = pipeline < 0 || data < 0 || pipeline < data;
    x->micro = x->plan->batch / x->data / x->plan->micro_batches;
    if (x->micro < 1) x->micro = 1;
    x->per_node = devices < node ? devices : node;
    x->nodes = (devices + node - 1) / node;
    if (devices > node && devices % node != 0)
        pdl__export_note(x, "%lld devices do not fill nodes of %lld: start so many ranks by hand",
                         (long long)devices, (long long)node);
}

pdl_status_t pdl__export_slurm(pdl__exported_t *x)
{
    x->notes = 0; /* paradl does what its plan says */
    return PDL_OK;
}

pdl_status_t pdl_report_export(const pdl_export_t *what, const char *framework, const char *folder, FILE *stream)
{
    const pdl__exporter_t *exporter = pdl__exporter_find(framework);
    pdl_model_totals_t     totals;
    pdl__exported_t       *x;
    pdl_status_t           status;

    if (exporter == NULL)
        return pdl_error(PDL_ERR_INPUT,
                         "no export for \"%.40s\": megatron, deepspeed, torchtitan, fsdp, nemo or slurm",
                         framework);
    pdl_model_totals(what->plan->model, &totals);
    if (totals.trained < totals.weights && exporter->write != pdl__export_slurm)
        return pdl_error(PDL_ERR_UNSUPPORTED,
                         "%s would train all weights, and this plan only some (LoRA, frozen layers): export slurm",
                         exporter->name);
    x = calloc(1, sizeof(*x));
    if (x == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory");
    *x = (pdl__exported_t){
        .what = what, .plan = what->plan, .framework = exporter->name, .folder = folder, .list = stream};
    x->net = pdl__export_network(what->plan->model);
    fprintf(stream, "\nfor %s:\n", exporter->name);
    set_places(x);
    set_memory(x);
    pdl__export_common(x);
    status = exporter->write(x);
    if (!status) status = pdl__export_file(x, "job.slurm", pdl__write_job);
    if (!status) status = pdl__export_file(x, "first_iterations.txt", pdl__write_checks);
    for (int i = 0; i < x->notes && !status; i++)
        fprintf(stream, "%s %s\n", i == 0 ? "not expressed:" : "              ", x->note[i]);
    free(x);
    return status;
}
