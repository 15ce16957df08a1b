/*
 * The collectives of a plan, axis by axis, and whether the schedules that it names can do them.
 */
#include "base/closest.h"
#include "plan/file.h"

#include <paradl/plan/collectives.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MOST_RANKS (1 << 20) /* of a group with a named schedule: some keep a table of their ranks */

static unsigned axes_of_kind(const pdl_mesh_t *mesh, pdl_axis_kind_t kind)
{
    unsigned axes = 0;

    for (int a = 0; a < mesh->axis_count; a++)
        if (mesh->axis[a].kind == kind && mesh->axis[a].size > 1) axes |= 1u << a;
    return axes;
}

int pdl_plan_collective_axis(const pdl_mesh_t *mesh, unsigned axes)
{
    unsigned data = axes & axes_of_kind(mesh, PDL_AXIS_DATA);

    for (int a = 0; a < mesh->axis_count; a++)
        if ((data != 0 ? data : axes) & 1u << a) return a;
    return 0;
}

pdl_schedule_spec_t pdl_plan_schedule(const pdl_plan_t *plan, unsigned axes, pdl_collective_t collective,
                                      int64_t ranks)
{
    const pdl_plan_collective_t *named = &plan->collective[pdl_plan_collective_axis(&plan->mesh, axes)];
    bool                         open = named->algorithm[0] == '\0';

    return (pdl_schedule_spec_t){.collective = collective,
                                 .algorithm = !open                ? named->algorithm
                                              : named->density > 0 ? "sparse_ring"
                                                                   : "ring",
                                 .ranks = ranks,
                                 .hosts_per_switch = open ? 0 : named->ranks_per_node};
}

double pdl_plan_density(const pdl_plan_t *plan, unsigned axes)
{
    return plan->collective[pdl_plan_collective_axis(&plan->mesh, axes)].density;
}

pdl_sparse_spec_t pdl_plan_sparse(const pdl_plan_t *plan, unsigned axes, int64_t ranks)
{
    pdl_schedule_spec_t spec = pdl_plan_schedule(plan, axes, PDL_COLL_ALLREDUCE, ranks);

    return (
        pdl_sparse_spec_t){.algorithm = spec.algorithm, .ranks = ranks, .ranks_per_node = spec.hosts_per_switch};
}

static int64_t ranks_of(const pdl_mesh_t *mesh, unsigned axes)
{
    int64_t ranks = 1;

    for (int a = 0; a < mesh->axis_count; a++)
        if (axes & 1u << a) ranks *= mesh->axis[a].size;
    return ranks;
}

static void add_use(pdl_plan_uses_t *uses, const pdl_plan_use_t *more)
{
    for (int i = 0; i < uses->count; i++) {
        pdl_plan_use_t *use = &uses->use[i];

        if (use->axes != more->axes || use->collective != more->collective || use->gradient != more->gradient ||
            use->ranks != more->ranks)
            continue;
        use->elements += more->elements;
        if (!use->gradient) use->times += more->times;
        return;
    }
    if (uses->count < PDL_PLAN_COLLECTIVES) uses->use[uses->count++] = *more;
}

static pdl_plan_use_t make_use(const pdl_plan_t *plan, unsigned axes, pdl_collective_t collective, double elements)
{
    return (pdl_plan_use_t){.axes = axes,
                            .axis = pdl_plan_collective_axis(&plan->mesh, axes),
                            .collective = collective,
                            .ranks = ranks_of(&plan->mesh, axes),
                            .elements = elements,
                            .times = 1};
}

static void add_gradient(const pdl_plan_t *plan, unsigned axes, pdl_collective_t collective, double elements,
                         pdl_plan_uses_t *uses)
{
    pdl_plan_use_t use = make_use(plan, axes, collective, elements);

    use.gradient = true;
    if (use.ranks > 1) add_use(uses, &use);
}

/* An allreduce; with sharded state a scatter of gradients and gathers of weights over the data axes, and sums of the parts over
   the others. */
static void list_gradients(const pdl_plan_t *plan, const pdl_transfer_t *t, pdl_plan_uses_t *uses)
{
    unsigned data = t->axis_mask & axes_of_kind(&plan->mesh, PDL_AXIS_DATA);
    double   gathers = plan->sharding == PDL_SHARDING_ZERO3 ? 2 * (double)plan->micro_batches : 1;

    if (plan->sharding == PDL_SHARDING_NONE || data == 0) {
        add_gradient(plan, t->axis_mask, PDL_COLL_ALLREDUCE, t->elements, uses);
        return;
    }
    add_gradient(plan, data, PDL_COLL_REDUCE_SCATTER, t->elements, uses);
    add_gradient(plan, data, PDL_COLL_ALLGATHER, gathers * t->elements, uses);
    add_gradient(plan, t->axis_mask & ~data, PDL_COLL_ALLREDUCE, t->elements / (double)ranks_of(&plan->mesh, data),
                 uses);
}

static void list_layers(const pdl_plan_t *plan, const pdl_transfer_t *t, pdl_plan_uses_t *uses)
{
    pdl_collective_t collective = t->primitive == PDL_ALLREDUCE        ? PDL_COLL_ALLREDUCE
                                  : t->primitive == PDL_REDUCE_SCATTER ? PDL_COLL_REDUCE_SCATTER
                                                                       : PDL_COLL_ALLGATHER;
    double           passes = (double)plan->micro_batches;

    if (t->primitive != PDL_ALLREDUCE && t->primitive != PDL_REDUCE_SCATTER && t->primitive != PDL_ALLGATHER)
        return;
    if (t->axis < 0 || plan->mesh.axis[t->axis].size < 2) return;
    pdl_plan_use_t use = make_use(plan, 1u << t->axis, collective, passes * t->elements);
    use.times = passes;
    add_use(uses, &use);
}

static int64_t rank_of_layer(const pdl_plan_t *plan, int layer)
{
    int64_t k = 0;

    while (plan->stage_first[k + 1] <= layer) k++;
    return k % pdl_mesh_extent(&plan->mesh, PDL_AXIS_PIPELINE);
}

/* Weights that layers on several ranks of the pipeline share: their gradients are summed among those. */
static void list_ties(const pdl_partition_t *partition, pdl_plan_uses_t *uses)
{
    const pdl_plan_t *plan = partition->plan;
    unsigned          axes = axes_of_kind(&plan->mesh, PDL_AXIS_PIPELINE);

    for (int i = 0; i < partition->layer_count && axes != 0; i++) {
        int owner = pdl_model_layer(plan->model, i)->tied_to;

        if (owner < 0 || pdl_model_layer(plan->model, owner)->frozen ||
            rank_of_layer(plan, i) == rank_of_layer(plan, owner))
            continue;
        pdl_plan_use_t use = make_use(plan, axes, PDL_COLL_ALLREDUCE, partition->local[owner].weights);
        use.gradient = true;
        use.ranks =
            2; /* more only where more than one layer shares them, which every schedule for two allows for */
        add_use(uses, &use);
    }
}

void pdl_plan_list_collectives(const pdl_partition_t *partition, pdl_plan_uses_t *uses)
{
    const pdl_plan_t *plan = partition->plan;
    bool              training = plan->run_mode == PDL_TRAINING;

    uses->count = 0;
    for (int i = 0; i < partition->transfer_count; i++) {
        if (i < partition->first_gradient)
            list_layers(plan, &partition->transfers[i], uses);
        else if (training)
            list_gradients(plan, &partition->transfers[i], uses);
    }
    if (training) list_ties(partition, uses);
}

/* Schedules of sums, scatters and gathers, each once. */
static int list_algorithms(const char *names[], int most)
{
    int count = 0;

    for (pdl_collective_t c = PDL_COLL_ALLREDUCE; c <= PDL_COLL_ALLGATHER; c++)
        for (const char *const *name = pdl_coll_algorithms(c); *name != NULL; name++) {
            int k = 0;

            while (k < count && strcmp(names[k], *name) != 0) k++;
            if (k == count && count < most) names[count++] = *name;
        }
    for (const char *const *name = pdl_sparse_algorithms; *name != NULL && count < most; name++)
        names[count++] = *name;
    return count;
}

pdl_status_t pdl_plan_check_algorithm(const char *algorithm)
{
    const char *names[64];
    char        near[160];
    int         count = list_algorithms(names, 64);

    for (pdl_collective_t c = PDL_COLL_ALLREDUCE; c <= PDL_COLL_ALLGATHER; c++)
        if (strlen(algorithm) < PDL_COLL_NAME_SIZE && pdl_coll_describe(c, algorithm) != NULL) return PDL_OK;
    if (pdl_sparse_named(algorithm)) return PDL_OK;
    if (pdl__closest_names(algorithm, names, (size_t)count, near, sizeof(near)))
        return pdl_error(PDL_ERR_INPUT, "there is no schedule \"%.40s\": did you mean %s?", algorithm, near);
    return pdl_error(PDL_ERR_INPUT, "there is no schedule \"%.40s\": use auto or one that paradl coll list shows",
                     algorithm);
}

static pdl_status_t try_sparse(const pdl_plan_collective_t *named, const pdl_plan_use_t *use)
{
    const char       *name = named->algorithm[0] != '\0' ? named->algorithm : "sparse_ring";
    pdl_sparse_spec_t spec = {.algorithm = name, .ranks = use->ranks, .ranks_per_node = named->ranks_per_node};
    double            bytes;

    if (!pdl_sparse_named(name) || !(named->density > 0))
        return pdl_error(PDL_ERR_LIMIT, "%s is not a schedule of this density", name);
    if (!use->gradient || use->collective != PDL_COLL_ALLREDUCE)
        return pdl_error(PDL_ERR_LIMIT, "%s sums whole gradients and does not exist for %s", name,
                         use->gradient ? pdl_collective_names[use->collective] : "collectives inside layers");
    return pdl_sparse_sent(&spec, 0, named->density, &bytes);
}

pdl_status_t pdl_plan_try_schedule(const pdl_plan_collective_t *named, const pdl_plan_use_t *use)
{
    pdl_schedule_spec_t spec = {.collective = use->collective,
                                .algorithm = named->algorithm,
                                .ranks = use->ranks,
                                .hosts_per_switch = named->ranks_per_node};
    pdl_schedule_t     *schedule;

    if (named->density > 0 || pdl_sparse_named(named->algorithm)) return try_sparse(named, use);
    if (pdl_coll_describe(use->collective, named->algorithm) == NULL)
        return pdl_error(PDL_ERR_LIMIT, "%s does not exist for %s", named->algorithm,
                         pdl_collective_names[use->collective]);
    pdl_status_t status = pdl_schedule_create(&spec, &schedule);
    if (!status) pdl_schedule_destroy(schedule);
    return status;
}

/* What could do it instead: the common schedules that exist for it. */
static void list_possible(const pdl_plan_use_t *use, int64_t ranks_per_node, char *list, size_t size)
{
    const char *names[32];
    size_t      count = 0;

    for (const char *const *name = pdl_coll_common(); *name != NULL && count < 32; name++) {
        pdl_plan_collective_t named = {.ranks_per_node = ranks_per_node};

        snprintf(named.algorithm, sizeof(named.algorithm), "%s", *name);
        if (!pdl_plan_try_schedule(&named, use)) names[count++] = *name;
    }
    pdl__join_names(names, count, list, size);
}

static pdl_status_t check_use(const pdl_plan_t *plan, const pdl_plan_use_t *use)
{
    const pdl_plan_collective_t *named = &plan->collective[use->axis];
    char                         axis[PDL__AXIS_NAME_SIZE], reason[400], possible[160];
    pdl_status_t                 status;

    pdl__axis_name(&plan->mesh, use->axis, axis);
    if (use->ranks > MOST_RANKS)
        return pdl_error(PDL_ERR_LIMIT, "collectives.%s: schedules are named for at most %d ranks, not %lld", axis,
                         MOST_RANKS, (long long)use->ranks);
    status = pdl_plan_try_schedule(named, use);
    if (!status || status == PDL_ERR_NOMEM) return status;
    snprintf(reason, sizeof(reason), "%s", pdl_error_message());
    list_possible(use, named->ranks_per_node, possible, sizeof(possible));
    return pdl_error(status, "collectives.%s: %s, which the plan has %s on %lld ranks; possible are auto, %s", axis,
                     reason, use->gradient ? "for gradients" : "inside layers", (long long)use->ranks, possible);
}

static pdl_status_t list_uses(const pdl_plan_t *plan, pdl_plan_uses_t **uses)
{
    double           samples = (double)plan->batch / (double)pdl_mesh_extent(&plan->mesh, PDL_AXIS_DATA);
    pdl_partition_t *partition;
    pdl_status_t     status = pdl_partition_create(plan, ceil(samples / (double)plan->micro_batches), &partition);

    if (status) return status;
    *uses = malloc(sizeof(**uses));
    if (*uses == NULL)
        status = pdl_error(PDL_ERR_NOMEM, "out of memory");
    else
        pdl_plan_list_collectives(partition, *uses);
    pdl_partition_destroy(partition);
    return status;
}

static bool is_named(const pdl_plan_collective_t *named)
{
    return named->algorithm[0] != '\0' || named->density > 0;
}

/* A name that exists, with a density where it is of a sparse schedule and nowhere else. */
static pdl_status_t check_name(const pdl_plan_t *plan, int a)
{
    const pdl_plan_collective_t *named = &plan->collective[a];
    char                         axis[PDL__AXIS_NAME_SIZE];
    pdl_status_t                 status;

    if (named->algorithm[0] == '\0') return PDL_OK;
    status = pdl_plan_check_algorithm(named->algorithm);
    pdl__axis_name(&plan->mesh, a, axis);
    if (!status && pdl_sparse_named(named->algorithm) && named->density == 0)
        status = pdl_error(PDL_ERR_INPUT,
                           "collectives.%s: %s needs a density: {algorithm: %s, density: 0.01} sends one element "
                           "of 100",
                           axis, named->algorithm, named->algorithm);
    if (!status && !pdl_sparse_named(named->algorithm) && named->density > 0)
        status = pdl_error(PDL_ERR_INPUT,
                           "collectives.%s: %s sends all elements: leave out density, or use "
                           "sparse_ring",
                           axis, named->algorithm);
    return status;
}

pdl_status_t pdl_plan_check_collectives(const pdl_plan_t *plan)
{
    pdl_plan_uses_t *uses;
    pdl_status_t     status = PDL_OK;
    bool             any = false;

    for (int a = 0; a < plan->mesh.axis_count && !status; a++) {
        if (!is_named(&plan->collective[a])) continue;
        any |= plan->mesh.axis[a].size > 1;
        status = check_name(plan, a);
    }
    if (status || !any) return status;
    status = list_uses(plan, &uses);
    if (status) return status;
    for (int i = 0; !status && i < uses->count; i++)
        if (is_named(&plan->collective[uses->use[i].axis])) status = check_use(plan, &uses->use[i]);
    free(uses);
    return status;
}

pdl_status_t pdl_plan_name_gradients(pdl_plan_t *plan, const char *algorithm)
{
    pdl_plan_uses_t *uses;
    pdl_status_t     status = list_uses(plan, &uses);

    if (status) return status;
    for (int i = 0; i < uses->count; i++) {
        pdl_plan_collective_t *named = &plan->collective[uses->use[i].axis];

        if (!uses->use[i].gradient || strcmp(named->algorithm, algorithm) == 0) continue;
        *named = (pdl_plan_collective_t){.ranks_per_node = 0};
        snprintf(named->algorithm, sizeof(named->algorithm), "%s", algorithm);
    }
    free(uses);
    return pdl_plan_check_collectives(plan);
}

/* Sums over stages, of tied weights alone, stay dense. */
pdl_status_t pdl_plan_thin_gradients(pdl_plan_t *plan, double density)
{
    pdl_plan_uses_t *uses;
    pdl_status_t     status = list_uses(plan, &uses);

    if (status) return status;
    for (int i = 0; i < uses->count; i++)
        if (uses->use[i].gradient && plan->mesh.axis[uses->use[i].axis].kind != PDL_AXIS_PIPELINE)
            plan->collective[uses->use[i].axis] = (pdl_plan_collective_t){.density = density};
    free(uses);
    return pdl_plan_check_collectives(plan);
}

char *pdl_plan_format_axes(const pdl_mesh_t *mesh, unsigned axes, char *text, size_t size)
{
    size_t length = 0;

    text[0] = '\0';
    for (int a = 0; a < mesh->axis_count && length < size; a++) {
        char name[PDL__AXIS_NAME_SIZE];

        if (!(axes & 1u << a)) continue;
        pdl__axis_name(mesh, a, name);
        length += (size_t)snprintf(text + length, size - length, "%s%s", length > 0 ? "+" : "", name);
    }
    return text;
}

char *pdl_plan_format_collectives(const pdl_plan_t *plan, char *text, size_t size)
{
    size_t length = 0;

    text[0] = '\0';
    for (int a = 0; a < plan->mesh.axis_count && length < size; a++) {
        const pdl_plan_collective_t *named = &plan->collective[a];
        char                         axis[PDL__AXIS_NAME_SIZE];

        if (plan->mesh.axis[a].size == 1 || named->algorithm[0] == '\0') continue;
        pdl__axis_name(&plan->mesh, a, axis);
        length += (size_t)snprintf(text + length, size - length, "%s%s %s", length > 0 ? ", " : "", axis,
                                   named->algorithm);
        if (named->density > 0 && length < size)
            length += (size_t)snprintf(text + length, size - length, " of %.3g %%", 100 * named->density);
    }
    return text;
}

char *pdl_plan_format_settled(const pdl_plan_t *before, const pdl_plan_t *after, char *text, size_t size)
{
    char   names[256];
    bool   cut = after->stages_given && !before->stages_given;
    size_t length;

    pdl_plan_format_collectives(before, names, sizeof(names));
    if (strcmp(names, pdl_plan_format_collectives(after, text, size)) == 0) text[0] = '\0';
    length = strlen(text);
    if (cut && length < size)
        snprintf(text + length, size - length, "%sthe borders of stages", length > 0 ? "; " : "");
    return text;
}
