/*
 * Mesh arithmetic, blocks, and the table of redistributions.
 */
#include <paradl/plan/mesh.h>
#include <stdio.h>
#include <string.h>

const char *const pdl_axis_names[PDL_AXIS_KIND_COUNT] = {"pipeline", "data", "spatial", "tensor"};
const char *const pdl_placement_names[PDL_PLACEMENT_COUNT] = {"R", "P", "S(N)", "S(C)", "S(0)", "S(1)", "S(2)"};
const char *const pdl_primitive_names[PDL_PRIMITIVE_COUNT] = {"local",       "allgather",  "reduce-scatter",
                                                              "allreduce",   "all-to-all", "halo",
                                                              "send-receive"};

int64_t pdl_mesh_size(const pdl_mesh_t *mesh)
{
    int64_t size = 1;

    for (int i = 0; i < mesh->axis_count; i++) size *= mesh->axis[i].size;
    return size;
}

int64_t pdl_mesh_stride(const pdl_mesh_t *mesh, int axis)
{
    int64_t stride = 1;

    for (int i = axis + 1; i < mesh->axis_count; i++) stride *= mesh->axis[i].size;
    return stride;
}

int64_t pdl_mesh_extent(const pdl_mesh_t *mesh, pdl_axis_kind_t kind)
{
    int64_t extent = 1;

    for (int i = 0; i < mesh->axis_count; i++)
        if (mesh->axis[i].kind == kind) extent *= mesh->axis[i].size;
    return extent;
}

int pdl_mesh_find(const pdl_mesh_t *mesh, pdl_axis_kind_t kind)
{
    for (int i = 0; i < mesh->axis_count; i++)
        if (mesh->axis[i].kind == kind) return i;
    return -1;
}

void pdl_mesh_coordinates(const pdl_mesh_t *mesh, int64_t rank, int64_t coordinates[PDL_MAX_AXES])
{
    for (int i = mesh->axis_count - 1; i >= 0; i--) {
        coordinates[i] = rank % mesh->axis[i].size;
        rank /= mesh->axis[i].size;
    }
}

char *pdl_mesh_format(const pdl_mesh_t *mesh, char *buffer, size_t size)
{
    size_t used = 0;

    snprintf(buffer, size, "1");
    for (int i = 0; i < mesh->axis_count; i++) {
        const pdl_axis_t *axis = &mesh->axis[i];
        if (axis->size == 1 || used >= size) continue;
        int written = snprintf(buffer + used, size - used, "%s%s %lld", used ? " x " : "",
                               pdl_axis_names[axis->kind], (long long)axis->size);
        used += written > 0 ? (size_t)written : 0;
    }
    return buffer;
}

pdl_primitive_t pdl_redistribution(pdl_placement_t from, pdl_placement_t to)
{
    if (from == to || to == PDL_PARTIAL || from == PDL_REPLICATED) return PDL_LOCAL;
    if (to == PDL_REPLICATED) return from == PDL_PARTIAL ? PDL_ALLREDUCE : PDL_ALLGATHER;
    return from == PDL_PARTIAL ? PDL_REDUCE_SCATTER : PDL_ALLTOALL;
}

bool pdl_axis_splits(const pdl_axis_t *axis)
{
    return axis->size > 1 && axis->kind != PDL_AXIS_PIPELINE && axis->kind != PDL_AXIS_DATA;
}

/* The cheapest order of axes. */
static int turn_of(pdl_primitive_t primitive)
{
    switch (primitive) {
    case PDL_LOCAL: return 0;
    case PDL_REDUCE_SCATTER: return 1;
    case PDL_ALLGATHER: return 3;
    default: return 2;
    }
}

int pdl_redistribution_steps(const pdl_mesh_t *mesh, const pdl_placement_t *from, const pdl_placement_t *to,
                             pdl_redistribution_step_t steps[PDL_MAX_AXES])
{
    int count = 0;

    for (int turn = 0; turn < 4; turn++)
        for (int a = 0; a < mesh->axis_count; a++) {
            pdl_primitive_t primitive = pdl_redistribution(from[a], to[a]);
            if (pdl_axis_splits(&mesh->axis[a]) && turn_of(primitive) == turn)
                steps[count++] = (pdl_redistribution_step_t){a, primitive};
        }
    return count;
}

pdl_placement_t pdl_gradient_placement(pdl_placement_t written)
{
    return written == PDL_PARTIAL ? PDL_REPLICATED : written;
}

void pdl_block_range(int64_t n, int64_t blocks, int64_t b, int64_t *low, int64_t *high)
{
    /* floor(b n / blocks) without the overflow of b * n. */
    int64_t whole = n / blocks, rest = n % blocks;

    *low = b * whole + b * rest / blocks;
    *high = (b + 1) * whole + (b + 1) * rest / blocks;
}

int64_t pdl_block_max(int64_t n, int64_t blocks)
{
    return n / blocks + (n % blocks != 0);
}
