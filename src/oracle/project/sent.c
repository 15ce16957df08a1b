/*
 * What all ranks together send in an update (docs/oracle.md, "Bytes"): means of all ranks, times the ranks.
 */
#include "oracle/internal.h"

#define STATISTIC_BYTES 8 /* sums of statistics and of split losses are in 64 bits */
#define GRADIENT_BYTES  4 /* the trainer sums in 32 bits whatever it computes with */
#define LOSS_VALUES     4 /* of a row whose classes are split: the largest logit, and three sums */

/* Ranks of the inner axes on which a layer is in one of two modes. */
static double ranks_in(const pdl_profile_t *profile, const pdl_local_t *local, pdl_mode_t mode, pdl_mode_t other)
{
    const pdl_mesh_t *mesh = &profile->plan->mesh;
    double            ranks = 1;

    for (int a = 0; a < mesh->axis_count; a++)
        if (mesh->axis[a].kind != PDL_AXIS_DATA && (local->mode[a] == mode || local->mode[a] == other))
            ranks *= (double)mesh->axis[a].size;
    return ranks;
}

/* Statistics go to every other rank of the group. Those of batch norm are of replicas too, of which the profile
   knows nothing: the sums keep what must be multiplied by their number. */
static void add_statistics(const pdl_profile_t *profile, const pdl_layer_t *layer, const pdl_local_t *local,
                           pdl_sums_t *s)
{
    bool   training = profile->plan->run_mode == PDL_TRAINING;
    double ranks, values;

    if (pdl_layer_traits(layer)->statistics && profile->plan->sync_batch_norm && training) {
        ranks = ranks_in(profile, local, PDL_MODE_SAMPLE, PDL_MODE_SPACE);
        values = 2 * 2 * (double)layer->in.channels * STATISTIC_BYTES; /* two of a channel, both ways */
        s->norm_bytes += values;
        s->norm_ranks_bytes += ranks * values;
    }
    if (pdl_layer_traits(layer)->loss == PDL_LOSS_CLASSES) {
        ranks = ranks_in(profile, local, PDL_MODE_VOCABULARY, PDL_MODE_VOCABULARY);
        values = LOSS_VALUES * profile->partition->micro_batch * (double)pdl_shape_positions(&layer->in);
        values /= ranks_in(profile, local, PDL_MODE_SAMPLE, PDL_MODE_SPACE);
        s->layer_bytes += (ranks - 1) * values * STATISTIC_BYTES;
        s->forward_layer_bytes += (ranks - 1) * values * STATISTIC_BYTES;
    }
}

void pdl__add_sent(const pdl_profile_t *profile, int index, pdl_sums_t *s)
{
    const pdl_partition_t *partition = profile->partition;
    const pdl_local_t     *local = &partition->local[index];

    for (int i = 0; i < local->transfer_count; i++) {
        const pdl_transfer_t *t = &partition->transfers[local->first_transfer + i];
        double                bytes = t->sent * profile->compute.item_bytes;
        if (t->primitive == PDL_HALO) {
            s->halo_bytes += bytes;
            s->forward_halo_bytes += t->phase == PDL_PHASE_FORWARD ? bytes : 0;
        } else {
            s->layer_bytes += bytes;
            s->forward_layer_bytes += t->phase == PDL_PHASE_FORWARD ? bytes : 0;
        }
    }
    add_statistics(profile, pdl_model_layer(profile->plan->model, index), local, s);
    s->mean_weights += local->mean_weights;
    s->summed_weights += local->summed_weights;
}

/* Of weights that a rank has `weights` of, and `summed` when each is divided by the ranks of inner axes that sum
   its gradient. Sums of buckets whose parts are kept, in every micro-batch from zero2 on, are scattered on the data
   axes, added up on the others and gathered, twice in every micro-batch with zero3. */
static double gradient_elements(const pdl_case_t *c, double weights, double summed)
{
    double d = (double)c->data, m = (double)c->micro_batches, scatters = m, gathers = 1;

    if (c->sharding < PDL_SHARDING_ZERO2 || c->data == 1) return 2 * (weights - summed / d);
    if (c->sharding >= PDL_SHARDING_ZERO3) gathers = 2 * m;
    return (scatters + gathers) * weights * (d - 1) / d + 2 * (weights - summed) / d;
}

/* Weights of one stage that are used in another are exchanged there as well, and summed over both. */
static double tied_elements(const pdl_case_t *c, const pdl_stages_t *st)
{
    double parts = c->sharding >= PDL_SHARDING_ZERO2 ? (double)c->data : 1;

    return gradient_elements(c, st->tied_mean, st->tied_summed) + 2 * st->tied_mean / parts;
}

void pdl__project_sent(const pdl_oracle_t *oracle, const pdl_case_t *c, const pdl_profile_t *profile,
                       const pdl_stages_t *st, pdl_projection_t *out)
{
    const pdl_sums_t *all = &profile->prefix[profile->partition->layer_count];
    double            stage_ranks = (double)(c->data * c->inner), m = (double)c->micro_batches;
    double            item = profile->compute.item_bytes, gradients;
    /* The profile is that of the largest micro-batch. */
    double even = (double)c->batch / ((double)c->data * m * c->micro_batch), times = stage_ranks * m * even;
    bool   training = c->run_mode == PDL_TRAINING;
    pdl__repeated_t again = pdl__repeated(c, all);

    out->bytes[PDL_COMM_LAYER] = times * (all->layer_bytes + again.layer_bytes) +
                                 stage_ranks * m * ((double)c->data * all->norm_ranks_bytes - all->norm_bytes);
    out->bytes[PDL_COMM_HALO] = times * (all->halo_bytes + again.halo_bytes);
    out->bytes[PDL_COMM_STAGE] = times * item * (st->sent_forward + (training ? st->sent_backward : 0));
    out->bytes[PDL_COMM_GRADIENT] = 0;
    if (!training) return;
    gradients = gradient_elements(c, all->mean_weights, all->summed_weights) + tied_elements(c, st);
    out->bytes[PDL_COMM_GRADIENT] =
        stage_ranks * gradients * (oracle->system->backend != NULL ? GRADIENT_BYTES : item);
}
