/*
 * Time per epoch of the strategies, as the published program computes it: weight updates are not
 * modelled, and samples are rounded up in the places where the program does so.
 */
#include "validate/orig/case.h"

#include <math.h>

/* The program knows the transport through the host inside a node and between neighbouring nodes; for anything
   wider it takes the direct one (fault: host path). */
#define HOST_LEVELS 2

static pdl__orig_link_t link_of(const pdl_level_t *level)
{
    return (pdl__orig_link_t){level->latency_s, 1 / level->bandwidth_bytes_per_s};
}

pdl__orig_link_t pdl__orig_link(const pdl_system_t *system, int64_t span)
{
    return link_of(&system->level[pdl_system_level_of_span(system, span)]);
}

pdl__orig_link_t pdl__orig_host_link(const pdl_system_t *system, int64_t span)
{
    int level = pdl_system_level_of_span(system, span);

    return link_of(level < HOST_LEVELS ? &system->host_level[level] : &system->level[level]);
}

/* Ring over p devices: 2 (p-1) (alpha + items delta phi beta / p), an allreduce, or an allgather and its reverse. */
static double ring(int64_t p, pdl__orig_link_t link, double items, double phi)
{
    double chunk_bytes = items * PDL__ORIG_ITEM_BYTES / (double)p;

    return 2 * (double)(p - 1) * (link.alpha + chunk_bytes * phi * link.beta);
}

/* A message: alpha + items delta phi beta. */
static double message(pdl__orig_link_t link, double items, double phi)
{
    return link.alpha + items * PDL__ORIG_ITEM_BYTES * phi * link.beta;
}

/* Seconds of one sample in the first `count` layers when split ones take a p2-th of their time. */
static double divided_seconds(const pdl__orig_t *orig, int count)
{
    double seconds = 0;

    for (int i = 0; i < count; i++)
        seconds += orig->layers[i].split ? orig->layers[i].seconds / (double)orig->p2 : orig->layers[i].seconds;
    return seconds;
}

/* Data: compute D/p sum(FW+BW); gradient 2 I (p-1)(alpha + sum|w| delta beta / p). Serial is p = 1. */
void pdl__orig_time_data(const pdl__orig_t *orig, pdl_orig_result_t *result)
{
    result->compute_s = ceil(orig->D / (double)orig->p1) * orig->seconds;
    result->gradient_s = orig->I * ring(orig->p1, pdl__orig_link(orig->system, orig->p1), orig->w, 1);
}

/* Filter, and channel, which has the same collectives in the other order: allgather of y forward and allreduce
   of dx backward of every split layer but the last of the model, with |x_l| taken as |y_{l-1}|:
   3 I (p2-1) sum (alpha + b |y_l| delta beta / p2). */
void pdl__orig_time_filter(const pdl__orig_t *orig, pdl_orig_result_t *result)
{
    pdl__orig_link_t link = pdl__orig_link(orig->system, orig->p2);

    result->compute_s = orig->I * orig->b * divided_seconds(orig, orig->count);
    for (int i = 0; i < orig->count - 1; i++) {
        if (orig->layers[i].split)
            result->collective_s += 1.5 * orig->I * ring(orig->p2, link, orig->b * orig->layers[i].y, 1);
    }
}

/* Filter in each group; between the groups all weights are exchanged, not the p2-th that a device holds:
   2 I (p1-1)(alpha_x + phi sum|w| delta beta_x / p1). */
void pdl__orig_time_data_filter(const pdl__orig_t *orig, pdl_orig_result_t *result)
{
    pdl__orig_time_filter(orig, result);
    result->gradient_s = orig->I * ring(orig->p1, pdl__orig_link(orig->system, orig->pe), orig->w, orig->divisor);
}

/* Whether a layer exchanges borders, and how many columns in each direction, rounded down for even kernels (fault:
   borders): a kernel of 2 sends nothing but is charged the start-up. */
static bool has_halo(const pdl__orig_layer_t *layer, double *columns)
{
    int64_t whole = (layer->layer->kernel[0] - 1) / 2;

    *columns = (double)whole;
    return layer->split && layer->layer->kernel[0] > 1;
}

/* Spatial: everything goes through the host. Halo of y forward and x backward, two directions each; the program
   takes one extent for the size of a border and for the samples those that would fit, not those of the batch
   (fault: borders). The gradient exchange counts D/B iterations, not the next whole number. */
void pdl__orig_time_spatial(const pdl__orig_t *orig, pdl_orig_result_t *result)
{
    pdl__orig_link_t link = pdl__orig_host_link(orig->system, orig->p2);
    double           columns;

    result->compute_s = orig->D * divided_seconds(orig, orig->count);
    for (int i = 0; i <= orig->last_split; i++) {
        const pdl_layer_t *layer = orig->layers[i].layer;

        if (!has_halo(&orig->layers[i], &columns)) continue;
        columns *= result->samples_fit;
        result->halo_s += orig->I * 2 * message(link, (double)layer->out.extent[0] * columns, 1);
        result->halo_s += orig->I * 2 * message(link, (double)layer->in.extent[0] * columns, 1);
    }
    result->gather_s = orig->I * ring(orig->p2, link, orig->b * orig->layers[orig->last_split].y, 1);
    result->gradient_s = orig->D / (double)orig->batch * ring(orig->p2, link, orig->w, 1);
}

/* Halo of one layer in one iteration: x both forward and backward (fault: truncated split), two directions each,
   4 (alpha_h + b delta phi_h beta_h halo(x)). */
static double halo_seconds(const pdl__orig_t *orig, const pdl__orig_layer_t *layer, pdl__orig_link_t link)
{
    double columns;

    if (!has_halo(layer, &columns)) return 0;
    return 4 * message(link, orig->b * columns * layer->x / (double)layer->layer->in.extent[0], orig->divisor);
}

/* Data + spatial: layers after the last split one are left out of the computation (fault: truncated split). Gather
   with phi = 2; gradients inside the groups directly, then between their leaders. */
void pdl__orig_time_data_spatial(const pdl__orig_t *orig, pdl_orig_result_t *result)
{
    pdl__orig_link_t host = pdl__orig_host_link(orig->system, orig->p2);
    double           local, leaders;

    result->compute_s = ceil(orig->D / (double)orig->p1) * divided_seconds(orig, orig->last_split + 1);
    for (int i = 0; i <= orig->last_split; i++)
        result->halo_s += orig->I * halo_seconds(orig, &orig->layers[i], host);
    result->gather_s = orig->I * ring(orig->p2, host, orig->b * orig->layers[orig->last_split].y, 2);
    local = ring(orig->p2, pdl__orig_link(orig->system, orig->p2), orig->w, 1);
    leaders = ring(orig->p1, pdl__orig_link(orig->system, orig->pe), orig->w, orig->divisor);
    result->gradient_s = orig->I * (local + leaders);
}

/* Pipeline. The program cannot run its own (fault: pipeline), so these are the formulas with the right dimensions:
   compute D (p+S-1)/S max_i (FW+BW of stage i), transfer 2 D/B (p+S-2) max_i (alpha + (B/S)|y_i| delta beta). The
   link between stages i and i+1 is that of a communicator over the first i+2 devices, as the program has it. */
void pdl__orig_time_pipeline(const pdl__orig_t *orig, pdl_orig_result_t *result)
{
    double S = (double)orig->segments, slots = (double)orig->p2 + S - 1;
    double stage_s = 0, slowest_s = 0, transfer_s = 0;

    for (int i = 0; i < orig->count; i++) {
        const pdl__orig_layer_t *layer = &orig->layers[i];
        pdl__orig_link_t         link;

        stage_s += layer->seconds;
        slowest_s = fmax(slowest_s, stage_s);
        if (i + 1 == orig->count || layer[1].stage == layer->stage) continue;
        stage_s = 0;
        link = pdl__orig_link(orig->system, layer->stage + 2);
        transfer_s = fmax(transfer_s, message(link, orig->b / S * layer->y, 1));
    }
    result->compute_s = orig->D * slots / S * slowest_s;
    result->transfer_s = 2 * orig->D / (double)orig->batch * (slots - 1) * transfer_s;
}
