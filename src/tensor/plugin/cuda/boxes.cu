/*
 * Elements of boxes from one memory to another: packing, unpacking and copying of regions. Sixteen bytes at a time where the elements that lie side by side
 * allow it on both sides.
 */
#include "tensor/plugin/cuda/elements.h"
#include "tensor/plugin/cuda/vectors_parts.h"

/* They are arguments of a kernel, which may have 4 KiB. */
#define BATCH   16
#define THREADS 256

typedef struct batch {
    int64_t   first[BATCH + 1]; /* units of the boxes before it */
    int       count, from;
    pdl_box_t box[BATCH]; /* the last extent counts units */
} batch_t;

/* Where unit `left` of a box is. Divisions of 32 bits take a quarter of the time. */
template <typename I>
static __device__ __forceinline__ void find_unit(const pdl_box_t &box, int from, I left, int64_t *at, int64_t *to)
{
    for (int d = box.rank - 1; d > 0; d--) {
        I above = left / (I)box.extent[d], position = left - above * (I)box.extent[d];

        *at += (int64_t)position * box.stride[from][d];
        *to += (int64_t)position * box.stride[1 - from][d];
        left = above;
    }
    *at += (int64_t)left * box.stride[from][0];
    *to += (int64_t)left * box.stride[1 - from][0];
}

/* N elements: copies where `S` is what `T` is, otherwise adds to floats. */
template <typename T, typename S, bool ADD, int N>
static __device__ __forceinline__ void move_unit(const T *source, S *target)
{
    if constexpr (N == 1 && ADD) {
        *target += (float)*source;
    } else if constexpr (N == 1) {
        *target = *source;
    } else if constexpr (!ADD) {
        *(uint4 *)PDL_ALIGNED(target) = *(const uint4 *)PDL_ALIGNED(source);
    } else if constexpr (N == 4) {
        float add[4], sum[4];

        pdl_load4(source, add);
        pdl_load4(target, sum);
        for (int i = 0; i < 4; i++) sum[i] += add[i];
        pdl_store4(target, sum);
    } else {
        float add[8], sum[8];

        pdl_load8(source, add);
        pdl_load8(target, sum);
        for (int i = 0; i < 8; i++) sum[i] += add[i];
        pdl_store8(target, sum);
    }
}

template <typename T, typename S, bool ADD, int N>
__global__ void move_boxes(const __grid_constant__ batch_t b, const T *source, S *target)
{
    int64_t all = b.first[b.count];

    for (int64_t i = pdl_grid_thread(); i < all; i += pdl_grid_threads()) {
        int k = 0;

        while (i >= b.first[k + 1]) k++;
        const pdl_box_t &box = b.box[k];
        int64_t          at = box.first[b.from], to = box.first[1 - b.from];

        if (all <= UINT32_MAX)
            find_unit<uint32_t>(box, b.from, (uint32_t)(i - b.first[k]), &at, &to);
        else
            find_unit<int64_t>(box, b.from, i - b.first[k], &at, &to);
        move_unit<T, S, ADD, N>(source + at, target + to);
    }
}

/* ---- boxes as the kernel wants them ---- */

/* Without dimensions of one element, and with those made one whose elements follow one another on both sides. */
static pdl_box_t simplified(const pdl_box_t *box)
{
    pdl_box_t simple = {};

    simple.first[0] = box->first[0];
    simple.first[1] = box->first[1];
    for (int d = 0; d < box->rank; d++) {
        int last = simple.rank - 1;

        if (box->extent[d] == 1) continue;
        if (last >= 0 && simple.stride[0][last] == box->stride[0][d] * box->extent[d] &&
            simple.stride[1][last] == box->stride[1][d] * box->extent[d]) {
            simple.extent[last] *= box->extent[d];
        } else {
            simple.extent[++last] = box->extent[d];
            simple.rank++;
        }
        simple.stride[0][last] = box->stride[0][d];
        simple.stride[1][last] = box->stride[1][d];
    }
    if (simple.rank == 0) {
        simple.rank = 1;
        simple.extent[0] = simple.stride[0][0] = simple.stride[1][0] = 1;
    }
    return simple;
}

/* Whether all rows of a box are units of so many elements, on both sides. */
static bool has_units(const pdl_box_t *box, int64_t elements)
{
    int  last = box->rank - 1;
    bool has = box->extent[last] % elements == 0;

    for (int side = 0; side < 2; side++) {
        has = has && box->stride[side][last] == 1 && box->first[side] % elements == 0;
        for (int d = 0; d < last; d++) has = has && box->stride[side][d] % elements == 0;
    }
    return has;
}

static int64_t units_of(const pdl_box_t *box)
{
    int64_t units = 1;

    for (int d = 0; d < box->rank; d++) units *= box->extent[d];
    return units;
}

/* In units of so many elements. */
static void use_units(batch_t *b, int64_t elements)
{
    for (int k = 0; k < b->count; k++) {
        pdl_box_t *box = &b->box[k];
        int        last = box->rank - 1;

        if (elements > 1) {
            box->extent[last] /= elements;
            box->stride[0][last] = box->stride[1][last] = elements;
        }
        b->first[k + 1] = b->first[k] + units_of(box);
    }
}

/* ---- launches ---- */

template <typename T, typename S, bool ADD>
static pdl_status_t move_batch(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, batch_t *b, const void *source,
                               void *target)
{
    constexpr int WIDE = 16 / sizeof(T);
    bool          wide = pdl_aligned(source) && pdl_aligned(target);
    auto          by_units = move_boxes<T, S, ADD, WIDE>, one_by_one = move_boxes<T, S, ADD, 1>;

    for (int k = 0; k < b->count; k++) wide = wide && has_units(&b->box[k], WIDE);
    use_units(b, wide ? WIDE : 1);
    int64_t all = b->first[b->count];
    if (all == 0) return PDL_OK;
    return PDL_LAUNCH(wide ? by_units : one_by_one, pdl__gpu_blocks(gpu, all, THREADS, 8), THREADS, 0, stream, *b,
                      (const T *)source, (S *)target);
}

pdl_status_t pdl__cuda_boxes(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, const pdl_boxes_t *boxes, int from,
                             pdl_dtype_t type, const void *source, void *target, bool add)
{
    pdl_status_t status = PDL_OK;

    for (int done = 0; done < boxes->count && !status; done += BATCH) {
        batch_t b = {};

        b.from = from;
        for (int k = done; k < boxes->count && b.count < BATCH; k++) b.box[b.count++] = simplified(&boxes->box[k]);
        if (type == PDL_DTYPE_BF16)
            status = add ? move_batch<pdl_bf16, float, true>(gpu, stream, &b, source, target)
                         : move_batch<uint16_t, uint16_t, false>(gpu, stream, &b, source, target);
        else
            status = add ? move_batch<float, float, true>(gpu, stream, &b, source, target)
                         : move_batch<uint32_t, uint32_t, false>(gpu, stream, &b, source, target);
    }
    return status;
}
