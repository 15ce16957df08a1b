/*
 * Limits and bottlenecks: which of the known causes governs a projection, with its number and
 * what would lift it.
 */
#include "oracle/internal.h"
#include <math.h>
#include <stdio.h>

static void find(pdl_projection_t *out, const char *name, bool limit, double share, const char *hint)
{
    if (out->finding_count == PDL_MAX_FINDINGS) return;
    pdl_finding_t *f = &out->findings[out->finding_count++];
    f->name = name;
    f->limit = limit;
    f->share = share;
    snprintf(f->hint, sizeof(f->hint), "%s", hint);
}

static void find_gradient(const pdl_case_t *c, pdl_projection_t *out)
{
    double share = out->comm[PDL_COMM_GRADIENT] / out->total_s;
    char   hint[160];

    if (share <= 0.2) return;
    if (out->contention > 1.01)
        snprintf(hint, sizeof(hint),
                 "%.2g exchanges share each port: pack them into one, or give groups fewer devices",
                 out->contention);
    else if (c->micro_batches == 1)
        snprintf(hint, sizeof(hint),
                 "accumulate gradients over several micro-batches, or use a larger batch per device");
    else
        snprintf(hint, sizeof(hint), "use fewer data-parallel replicas, or split the model as well");
    find(out, "gradient exchange", true, share, hint);
}

static void find_layers(pdl_projection_t *out)
{
    double share = out->comm[PDL_COMM_LAYER] / out->total_s;
    double startup = out->comm[PDL_COMM_LAYER] > 0 ? out->layer_startup_s / out->comm[PDL_COMM_LAYER] : 0;
    char   hint[160];

    if (share <= 0.2) return;
    snprintf(hint, sizeof(hint), "%.0f %% of it is start-up: %s", 100 * fmin(1, startup),
             startup > 0.5 ? "a larger batch per group shares it out"
                           : "keep the group inside a node, or pair filter and channel splits");
    find(out, "collectives in every layer", true, share, hint);
}

static void find_transport(const pdl_oracle_t *oracle, const pdl_case_t *c, pdl_projection_t *out)
{
    double halo = out->comm[PDL_COMM_HALO] / out->total_s, stage = out->comm[PDL_COMM_STAGE] / out->total_s;

    if (oracle->p.host_halo && halo > 0.1)
        find(out, "point-to-point transport", false, halo,
             "halos are staged through host memory: use a direct transport");
    else if (halo > 0.2)
        find(out, "point-to-point transport", false, halo, "split fewer pieces per sample");
    if (stage > 0.1)
        find(out, "point-to-point transport", false, stage,
             "cut stages where smaller tensors cross, or use fewer stages");
    if (c->pe > 1 && out->congested_s > 1.5 * out->total_s)
        find(out, "congestion", false, out->congested_s / out->total_s,
             "other jobs slow the level it spans: stay inside a lower level");
    if (out->io_s > 0.05 * out->total_s)
        find(out, "input and staging", false, out->io_s / out->total_s,
             "stage samples on node-local storage, or use more loaders");
}

static void find_memory(const pdl_oracle_t *oracle, const pdl_case_t *c, pdl_projection_t *out)
{
    double cap = oracle->memory_cap > 0 ? oracle->memory_cap : oracle->system->device.memory_bytes;
    if (oracle->system->part_count > 0) cap = out->memory_room;
    double states = out->memory.weights + out->memory.gradients + out->memory.optimizer;

    if (c->data > 1 && c->sharding == PDL_SHARDING_NONE && states > 0.5 * out->memory_bytes)
        find(out, "redundant copies", false, states / out->memory_bytes,
             c->run_mode == PDL_INFERENCE
                 ? "every replica holds all weights: split them over a tensor or pipeline axis"
                 : "shard optimizer state and gradients (zero1 to zero3)");
    if (!out->fits && out->memory_bytes - out->memory.margin <= cap)
        find(out, "fragmentation", false, out->memory_bytes / cap,
             "fits without the allocator's margin: reuse buffers, or a slightly smaller batch");
}

static void find_compute(const pdl_case_t *c, pdl_projection_t *out)
{
    if (out->update_s > 0.1 * out->compute_s)
        find(out, "weight update", true, out->update_s / out->compute_s,
             "shard the update over the replicas (zero1), or accumulate micro-batches");
    if (c->pipeline > 1 && out->stage_imbalance > 1.1)
        find(out, "load balance", true, out->stage_imbalance,
             "stages are uneven: fewer stages, or split the heavy layers");
    if (c->pipeline > 1 && out->bubble_s > 0.1 * out->total_s)
        find(out, "pipeline bubble", true, out->bubble_s / out->total_s,
             "more micro-batches, or interleaved chunks");
    if (c->inner > 1 && out->replicated_share > 0.3)
        find(out, "redundant computation", false, out->replicated_share,
             "layers between the split ones are computed by every device of the group: keep them split");
}

void pdl__find_limits(const pdl_oracle_t *oracle, const pdl_case_t *c, pdl_projection_t *out)
{
    out->finding_count = 0;
    find_gradient(c, out);
    find_layers(out);
    find_transport(oracle, c, out);
    find_compute(c, out);
    find_memory(oracle, c, out);
    if (c->data == c->batch && c->data > 1)
        find(out, "number of devices", true, (double)c->data,
             "one sample per replica already: only other axes can use more devices");
}
