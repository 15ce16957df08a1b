/*
 * Samples become tensors in the format that their reader wants: images of bytes, moved, mirrored, cut and scaled as
 * src/tensor/image.c does it, or values. A thread writes eight elements.
 */
#include "tensor/plugin/cuda/elements.h"
#include "tensor/plugin/cuda/vectors_parts.h"

/* Of all samples. */
struct load_extents {
    int64_t samples;
    int32_t depth, height, width, channels, padded; /* channels, and those of a position in the blocked format */
};

/* Values of one sample: at(c, z, y, x). */
struct image_bytes {
    const uint8_t            *bytes;
    const pdl_image_change_t *changes;
    pdl_image_scale_t         scale;

    struct sample {
        const image_bytes        &all;
        const load_extents       &extents;
        const pdl_image_change_t &change;
        const uint8_t            *planes;

        __device__ sample(const image_bytes &a, const load_extents &e, int64_t n)
            : all(a), extents(e), change(a.changes[n]),
              planes(a.bytes + n * e.channels * ((int64_t)e.depth * e.height * e.width))
        {
        }
        __device__ float at(int c, int z, int y, int x) const
        {
            bool known = c < PDL_IMAGE_CHANNELS, cut = z >= change.cut_low[0] && z < change.cut_high[0] &&
                                                       y >= change.cut_low[1] && y < change.cut_high[1] &&
                                                       x >= change.cut_low[2] && x < change.cut_high[2];
            int   column = (change.flip ? extents.width - 1 - x : x) + change.move[2];
            int   row = y + change.move[1], slice = z + change.move[0];
            float found = 0;

            if (change.empty) return 0;
            if (cut)
                found = known ? all.scale.cut[c] : 0;
            else if (slice >= 0 && slice < extents.depth && row >= 0 && row < extents.height && column >= 0 &&
                     column < extents.width)
                found =
                    (float)planes[(((int64_t)c * extents.depth + slice) * extents.height + row) * extents.width +
                                  column] /
                    255.0f;
            return known ? (found - all.scale.shift[c]) * all.scale.factor[c] : found;
        }
    };
};

template <typename F, bool BLOCKED> struct image_values {
    const F *values;

    struct sample {
        const load_extents &extents;
        const F            *from;

        __device__ sample(const image_values &a, const load_extents &e, int64_t n)
            : extents(e),
              from(a.values + n * (BLOCKED ? e.padded : e.channels) * ((int64_t)e.depth * e.height * e.width))
        {
        }
        __device__ float at(int c, int z, int y, int x) const
        {
            int64_t position = ((int64_t)z * extents.height + y) * extents.width + x;

            return (float)from[BLOCKED ? position * extents.padded + c
                                       : c * ((int64_t)extents.depth * extents.height * extents.width) + position];
        }
    };
};

/* Eight elements of a plain tensor, which may be of several rows, channels and samples. */
template <typename T, typename R> struct load_plain {
    R            reader;
    load_extents e;
    T           *to;

    __device__ void some(int64_t i, int count, float *values) const
    {
        int64_t positions = (int64_t)e.depth * e.height * e.width, plane = i / positions, n = plane / e.channels;
        int     at = (int)(i % positions), c = (int)(plane % e.channels);
        int     x = at % e.width, y = at / e.width % e.height, z = at / (e.width * e.height);

        for (int k = 0; k < count; k++) {
            values[k] = typename R::sample(reader, e, n).at(c, z, y, x);
            if (++x < e.width) continue;
            x = 0;
            if (++y < e.height) continue;
            y = 0;
            if (++z < e.depth) continue;
            z = 0;
            if (++c < e.channels) continue;
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

/* Eight channels of a position. */
template <typename T, typename R> struct load_blocked {
    R            reader;
    load_extents e;
    T           *to;

    __device__ void eight(int64_t i) const
    {
        int64_t row = i / e.padded / e.width, n = row / e.height / e.depth;
        int     first = (int)(i % e.padded), x = (int)(i / e.padded % e.width);
        int     y = (int)(row % e.height), z = (int)(row / e.height % e.depth);
        float   values[8];

        typename R::sample sample(reader, e, n);
#pragma unroll
        for (int k = 0; k < 8; k++) values[k] = first + k < e.channels ? sample.at(first + k, z, y, x) : 0;
        pdl_store8(to + i, values);
    }
    __device__ void one(int64_t) const
    {
    }
};

/* Four channels of two positions beside each other. */
template <typename T, typename R> struct load_folded {
    R            reader;
    load_extents e;
    T           *to;

    __device__ void eight(int64_t i) const
    {
        int64_t pair = i / 8, row = pair / 2 / (e.width / 2), n = row / (e.height / 2);
        int     x = 2 * (int)(pair / 2 % (e.width / 2)), y = 2 * (int)(row % (e.height / 2)) + (int)(pair % 2);
        float   values[8];

        typename R::sample sample(reader, e, n);
#pragma unroll
        for (int k = 0; k < 8; k++)
            values[k] = k % PDL__FOLDED < e.channels ? sample.at(k % PDL__FOLDED, 0, y, x + k / PDL__FOLDED) : 0;
        pdl_store8(to + i, values);
    }
    __device__ void one(int64_t) const
    {
    }
};

template <typename T, typename R>
static pdl_status_t load_formatted(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, const load_extents &e,
                                   pdl_format_t format, const R &reader, void *target)
{
    int64_t positions = e.samples * e.depth * e.height * e.width;

    if (format == PDL_FORMAT_BLOCKED)
        return pdl_each(gpu, stream, positions * e.padded, true, load_blocked<T, R>{reader, e, (T *)target});
    if (format == PDL_FORMAT_FOLDED)
        return pdl_each(gpu, stream, positions * PDL__FOLDED, true, load_folded<T, R>{reader, e, (T *)target});
    return pdl_each(gpu, stream, positions * e.channels, pdl_aligned(target),
                    load_plain<T, R>{reader, e, (T *)target});
}

template <typename T>
static pdl_status_t load_typed(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, const pdl__cuda_load_t &load,
                               void *target)
{
    const pdl_shape_t &shape = load.shape;
    load_extents       e = {load.samples, 1, 1, 1, (int32_t)shape.channels, (int32_t)(shape.channels + 7) / 8 * 8};
    int32_t           *extent[3] = {&e.depth, &e.height, &e.width};

    for (int axis = 0; axis < shape.rank; axis++) *extent[3 - shape.rank + axis] = (int32_t)shape.extent[axis];
    if (load.bytes != NULL)
        return load_formatted<T>(gpu, stream, e, load.format, image_bytes{load.bytes, load.changes, load.scale},
                                 target);
    if (load.from == PDL_FORMAT_BLOCKED)
        return load_formatted<T>(gpu, stream, e, load.format, image_values<T, true>{(const T *)load.values},
                                 target);
    if (load.type == PDL_DTYPE_F32)
        return load_formatted<T>(gpu, stream, e, load.format,
                                 image_values<float, false>{(const float *)load.values}, target);
    return load_formatted<T>(gpu, stream, e, load.format, image_values<T, false>{(const T *)load.values}, target);
}

pdl_status_t pdl__cuda_load(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type,
                            const pdl__cuda_load_t *load, void *target)
{
    return type == PDL_DTYPE_BF16 ? load_typed<pdl_bf16>(gpu, stream, *load, target)
                                  : load_typed<float>(gpu, stream, *load, target);
}
