/*
 * Prices of the same layers on other devices: where a machine has several kinds, every set of kinds that a stage is on has a profile of
 * its own, in which the slowest device decides for every layer.
 */
#include "oracle/cost/profile.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

unsigned pdl__all_kinds(const pdl_system_t *system)
{
    unsigned kinds = 0;

    for (int i = 0; i < system->part_count; i++) kinds |= 1u << system->part[i].kind;
    return kinds;
}

static void compute_on(pdl_profile_t *profile, const pdl_pricing_t *pr, const pdl_device_t *device,
                       pdl_compute_cost_t *cost)
{
    pdl__compute_cost(pr->system, device, pr->p, profile->plan->precision, cost);
    cost->dilation = pdl__dilation(device, profile->plan);
    cost->model = profile->plan->model;
}

void pdl__profile_computes(pdl_profile_t *profile, const pdl_pricing_t *pr, unsigned kinds)
{
    int count = 0;

    profile->kinds = kinds;
    profile->slower_count = 0;
    profile->device = &pr->system->device;
    if (kinds == 0) compute_on(profile, pr, profile->device, &profile->compute);
    for (int i = 0; i < pr->system->part_count; i++) {
        const pdl_device_t *device = &pr->system->part[i].device;

        if (!(kinds >> i & 1)) continue;
        profile->weakest = count == 0 ? *device : pdl_device_weaker(&profile->weakest, device);
        profile->device = &profile->weakest;
        compute_on(profile, pr, device, count == 0 ? &profile->compute : &profile->slower[count - 1]);
        profile->slower_count = count++;
    }
}

void pdl__slowest_seconds(const pdl_profile_t *profile, const pdl_layer_t *layer, const pdl_local_t *local,
                          double *forward_s, double *backward_s)
{
    pdl__layer_seconds(&profile->compute, layer, local, forward_s, backward_s);
    for (int i = 0; i < profile->slower_count; i++) {
        double forward, backward;

        pdl__layer_seconds(&profile->slower[i], layer, local, &forward, &backward);
        *forward_s = fmax(*forward_s, forward);
        *backward_s = fmax(*backward_s, backward);
    }
}

double pdl__slowest_update(const pdl_parameters_t *p, const pdl_profile_t *profile, pdl_optimizer_t optimizer,
                           double weights, double tensors)
{
    double seconds = pdl__update_seconds(p, &profile->compute, optimizer, weights, tensors);

    for (int i = 0; i < profile->slower_count; i++)
        seconds = fmax(seconds, pdl__update_seconds(p, &profile->slower[i], optimizer, weights, tensors));
    return seconds;
}

double pdl__slowest_memory(const pdl_profile_t *profile)
{
    double rate = profile->compute.bytes_per_s;

    for (int i = 0; i < profile->slower_count; i++) rate = fmin(rate, profile->slower[i].bytes_per_s);
    return rate;
}

/* What is asked of the first profile only stays with it. */
static pdl_profile_t *borrow(const pdl_profile_t *profile)
{
    size_t         count = (size_t)profile->partition->layer_count + 1;
    pdl_profile_t *other = malloc(sizeof(*other));

    if (other == NULL) return NULL;
    *other = *profile;
    memset(other->other, 0, sizeof(other->other));
    memset(other->pass, 0, sizeof(other->pass));
    other->forward = other->later = NULL;
    other->stages = NULL;
    other->stage_sets = 0;
    other->prefix = malloc(count * sizeof(*other->prefix));
    other->run = malloc(count * sizeof(*other->run));
    other->balance = profile->balance != NULL ? malloc(count * sizeof(*other->balance)) : NULL;
    if (other->prefix != NULL && other->run != NULL && (other->balance != NULL) == (profile->balance != NULL))
        return other;
    pdl__profile_unborrow(other);
    return NULL;
}

pdl_status_t pdl__profile_for(pdl_profile_t *profile, unsigned kinds, pdl_profile_t **out)
{
    pdl_pricing_t pr = {.oracle = profile->oracle,
                        .system = pdl_oracle_system(profile->oracle),
                        .p = pdl_oracle_parameters(profile->oracle),
                        .rings_only = pdl__uses_rings_only(profile->partition)};

    *out = kinds == profile->kinds ? profile : profile->other[kinds];
    if (*out != NULL) return PDL_OK;
    pr.profile = borrow(profile);
    if (pr.profile == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory for the prices of layers");
    pdl_status_t status = pdl__price_groups(&pr);
    if (status) {
        pdl__profile_unborrow(pr.profile);
        return status;
    }
    pdl__profile_computes(pr.profile, &pr, kinds);
    pdl__price_all(&pr);
    profile->other[kinds] = *out = pr.profile;
    return PDL_OK;
}
