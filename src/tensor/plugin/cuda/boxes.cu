/*
 * Elements of boxes from one memory to another: packing, unpacking and copying of regions.
 */
#include "tensor/plugin/cuda/kernel.h"
#include "tensor/plugin/cuda/vectors_parts.h"

/* They are arguments of a kernel, which may have 4 KiB. */
#define BATCH   16
#define THREADS 256

typedef struct batch {
    int64_t   first[BATCH + 1]; /* elements of the boxes before it */
    int       count, from;
    pdl_box_t box[BATCH];
} batch_t;

/* Copies where `S` is what `T` is, otherwise adds to floats. */
template <typename T, typename S, bool ADD>
__global__ void move_boxes(const __grid_constant__ batch_t b, const T *source, S *target)
{
    for (int64_t i = pdl_grid_thread(); i < b.first[b.count]; i += pdl_grid_threads()) {
        int k = 0;

        while (i >= b.first[k + 1]) k++;
        const pdl_box_t &box = b.box[k];
        int64_t          left = i - b.first[k], at = box.first[b.from], to = box.first[1 - b.from];

        for (int d = box.rank - 1; d >= 0; d--) {
            int64_t position = left % box.extent[d];

            left /= box.extent[d];
            at += position * box.stride[b.from][d];
            to += position * box.stride[1 - b.from][d];
        }
        if constexpr (ADD)
            target[to] += (float)source[at];
        else
            target[to] = source[at];
    }
}

static pdl_status_t move_batch(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, const batch_t &b, pdl_dtype_t type,
                               const void *source, void *target, bool add)
{
    int  blocks = pdl__gpu_blocks(gpu, b.first[b.count], THREADS, 8);
    auto copy_2 = move_boxes<uint16_t, uint16_t, false>;
    auto copy_4 = move_boxes<uint32_t, uint32_t, false>;
    auto add_2 = move_boxes<pdl_bf16, float, true>;
    auto add_4 = move_boxes<float, float, true>;

    if (b.first[b.count] == 0) return PDL_OK;
    if (type == PDL_DTYPE_BF16 && add)
        return PDL_LAUNCH(add_2, blocks, THREADS, 0, stream, b, (const pdl_bf16 *)source, (float *)target);
    if (type == PDL_DTYPE_BF16)
        return PDL_LAUNCH(copy_2, blocks, THREADS, 0, stream, b, (const uint16_t *)source, (uint16_t *)target);
    if (add) return PDL_LAUNCH(add_4, blocks, THREADS, 0, stream, b, (const float *)source, (float *)target);
    return PDL_LAUNCH(copy_4, blocks, THREADS, 0, stream, b, (const uint32_t *)source, (uint32_t *)target);
}

pdl_status_t pdl__cuda_boxes(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, const pdl_boxes_t *boxes, int from,
                             pdl_dtype_t type, const void *source, void *target, bool add)
{
    pdl_status_t status = PDL_OK;

    for (int done = 0; done < boxes->count && !status; done += BATCH) {
        batch_t b = {};

        b.from = from;
        for (int k = done; k < boxes->count && b.count < BATCH; k++) {
            int64_t elements = 1;

            for (int d = 0; d < boxes->box[k].rank; d++) elements *= boxes->box[k].extent[d];
            b.box[b.count] = boxes->box[k];
            b.first[b.count + 1] = b.first[b.count] + elements;
            b.count++;
        }
        status = move_batch(gpu, stream, b, type, source, target, add);
    }
    return status;
}
