/*
 * Images of bytes become plain tensors: moved, mirrored, cut and scaled, as src/tensor/image.c does it.
 */
#include "tensor/plugin/cuda/elements.h"
#include "tensor/plugin/cuda/vectors_parts.h"

template <typename T> struct load_each {
    const uint8_t            *bytes;
    const pdl_image_change_t *changes;
    pdl_image_scale_t         scale;
    int32_t                   depth, height, width, channels;
    T                        *to;

    /* Of image n with its planes from `plane` on. */
    __device__ float value(const uint8_t *plane, int64_t n, int c, int z, int y, int x) const
    {
        const pdl_image_change_t &change = changes[n];
        bool known = c < PDL_IMAGE_CHANNELS, cut = z >= change.cut_low[0] && z < change.cut_high[0] &&
                                                   y >= change.cut_low[1] && y < change.cut_high[1] &&
                                                   x >= change.cut_low[2] && x < change.cut_high[2];
        int   column = (change.flip ? width - 1 - x : x) + change.move[2];
        int   row = y + change.move[1], slice = z + change.move[0];
        float found = 0;

        if (change.empty) return 0;
        if (cut)
            found = known ? scale.cut[c] : 0;
        else if (slice >= 0 && slice < depth && row >= 0 && row < height && column >= 0 && column < width)
            found = (float)plane[((int64_t)slice * height + row) * width + column] / 255.0f;
        return known ? (found - scale.shift[c]) * scale.factor[c] : found;
    }
    __device__ void some(int64_t i, int count, float *values) const
    {
        int64_t positions = (int64_t)depth * height * width, plane = i / positions, n = plane / channels;
        int     at = (int)(i % positions), c = (int)(plane % channels);
        int     x = at % width, y = at / width % height, z = at / (width * height);

        for (int k = 0; k < count; k++) {
            values[k] = value(bytes + plane * positions, n, c, z, y, x);
            if (++x < width) continue;
            x = 0;
            if (++y < height) continue;
            y = 0;
            if (++z < depth) continue;
            z = 0;
            plane++;
            if (++c < channels) continue;
            c = 0;
            n++;
        }
    }
    __device__ void eight(int64_t i) const
    {
        float values[8];

        some(i, 8, values);
        pdl_store8(to + i, values);
    }
    __device__ void one(int64_t i) const
    {
        float found;

        some(i, 1, &found);
        to[i] = T(found);
    }
};

template <typename T>
static pdl_status_t load_typed(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, const int32_t extent[3],
                               int64_t channels, int64_t samples, const uint8_t *bytes,
                               const pdl_image_change_t *changes, const pdl_image_scale_t *scale, void *target)
{
    load_each<T> each = {bytes, changes, *scale, extent[0], extent[1], extent[2], (int32_t)channels, (T *)target};

    return pdl_each(gpu, stream, samples * channels * extent[0] * extent[1] * extent[2], pdl_aligned(target), each);
}

pdl_status_t pdl__cuda_load(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type, const int32_t extent[3],
                            int64_t channels, int64_t samples, const uint8_t *bytes,
                            const pdl_image_change_t *changes, const pdl_image_scale_t *scale, void *target)
{
    return type == PDL_DTYPE_BF16
               ? load_typed<pdl_bf16>(gpu, stream, extent, channels, samples, bytes, changes, scale, target)
               : load_typed<float>(gpu, stream, extent, channels, samples, bytes, changes, scale, target);
}
