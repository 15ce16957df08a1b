/*
 * Convolutions as products of matrices, whose elements are read where the tensors have them: rows are positions (or filters),
 * columns are filters, channels or weights, and the sum is over the depth, eight floats a step. 256 threads make a tile of up to
 * 128 x 128, of which each has 64 elements in registers; a step is read from memory while the one before is multiplied.
 *
 * cuDNN has few engines without tensor cores for channels that are innermost: they are slow, and one reads behind its tensors.
 * The order of a sum does not depend on the tile.
 */
#include "tensor/plugin/cuda/conv/conv_tiles.h"

#include "tensor/plugin/cuda/conv/conv_places.h"

#define THREADS 256
#define DEPTH   8
#define GAP     4 /* floats behind a row of a tile, so that threads which write a column meet different banks */

struct product_t {
    pdl__cuda_form_t f;
    const float     *first, *second; /* factors: rows x depth, depth x columns */
    const float     *bias;           /* of columns; NULL: none */
    float           *made;
    int64_t          rows;                          /* the most of a block's share in the grid's third dimension */
    int              columns, window, inner, outer; /* inner, outer: channels and filters of a group */
    int              parts;                         /* of the weight */
    bool             relu;
};

/* ---- tiles of the factors ---- */

/* What a thread brings of a tile in a step: four floats side by side, along the depth or across it. */
template <int SIDE, bool ACROSS> struct carrier {
    int  side, depth;
    bool works;

    __device__ carrier()
    {
        int t = (int)threadIdx.x;

        side = ACROSS ? t % (SIDE / 4) * 4 : t / 2;
        depth = ACROSS ? t / (SIDE / 4) : t % 2 * 4;
        works = t < 2 * SIDE;
    }
    __device__ __forceinline__ void store(float *tile, const float4 &value) const
    {
        float *to = tile + depth * (SIDE + GAP) + side;

        if (!works) return;
        if (ACROSS) {
            *(float4 *)PDL_ALIGNED(to) = value;
            return;
        }
        to[0 * (SIDE + GAP)] = value.x;
        to[1 * (SIDE + GAP)] = value.y;
        to[2 * (SIDE + GAP)] = value.z;
        to[3 * (SIDE + GAP)] = value.w;
    }
};

__device__ static __forceinline__ float4 four_at(const float *from)
{
    return from != NULL ? *(const float4 *)PDL_ALIGNED(from) : make_float4(0, 0, 0, 0);
}

/* ---- positions times a window ---- */

/* narrow[position][filter] = the sum over the elements of the window and over channels, or wide[position][channel] = that over
   elements and filters. With steps beyond 1, a block's positions of `wide` have one rest, so that the same elements of windows
   lie over all of them. */
template <int M, int N, bool WIDE> struct by_position {
    carrier<M, false> a;
    carrier<N, WIDE>  b;
    const product_t  &p;
    int64_t           sample, steps = 0;
    int               column, group, rest[3] = {0, 0, 0}, extent[3], at[3], k[3] = {0, 0, 0}, left;
    bool              inside;
    const float      *input, *weight;

    __device__ by_position(const product_t &product, int64_t row, int first_column)
        : p(product), column(first_column)
    {
        group = WIDE ? (int)pdl_conv_split(blockIdx.z, p.f.step, rest) : (int)blockIdx.z;
        for (int d = 0; d < 3; d++)
            extent[d] = WIDE ? (p.f.wide[d] - rest[d] + p.f.step[d] - 1) / p.f.step[d] : p.f.narrow[d];
        inside = a.works && has(row + a.side);
        sample = inside ? find(row + a.side, at) : 0; /* there may be no position of this rest */
        for (; k[0] < p.f.kernel[0]; next_element())
            if (matches()) steps += depth() / DEPTH;
        k[0] = k[1] = k[2] = 0;
        left = 0;
    }
    __device__ int depth() const
    {
        return WIDE ? p.outer : p.inner;
    }
    __device__ bool has(int64_t row) const
    {
        return row < p.f.samples * pdl_conv_volume(extent);
    }
    __device__ int64_t find(int64_t row, int (&where)[3]) const
    {
        int64_t n = pdl_conv_split(row, extent, where);

        for (int d = 0; WIDE && d < 3; d++) where[d] = where[d] * p.f.step[d] + rest[d];
        return n;
    }
    __device__ void next_element()
    {
        if (++k[2] < p.f.kernel[2]) return;
        k[2] = 0;
        if (++k[1] < p.f.kernel[1]) return;
        k[1] = 0;
        k[0]++;
    }
    __device__ bool matches() const
    {
        for (int d = 0; WIDE && d < 3; d++)
            if ((rest[d] + p.f.pad_low[d] - k[d] * p.f.dilation[d]) % p.f.step[d] != 0) return false;
        return true;
    }
    /* At the first floats of the next element of the window. */
    __device__ void aim()
    {
        int64_t from = -1, element;

        while (!matches()) next_element();
        element = pdl_conv_row(p.f.kernel, 0, k[0], k[1], k[2]);
        if (inside) from = WIDE ? pdl_conv_over(p.f, sample, at, k) : pdl_conv_under(p.f, sample, at, k);
        input = from < 0
                    ? NULL
                    : p.first + from * (WIDE ? p.f.narrow_stride : p.f.wide_stride) + group * depth() + a.depth;
        weight = NULL;
        if (b.works && column + b.side < p.columns)
            weight =
                p.second +
                (((int64_t)group * p.outer + (WIDE ? b.depth : column + b.side)) * p.window + element) * p.inner +
                (WIDE ? column + b.side : b.depth);
        next_element();
        left = depth() / DEPTH;
    }
    __device__ __forceinline__ void fetch(float4 &first, float4 &second)
    {
        if (left == 0) aim();
        left--;
        first = four_at(input);
        second = four_at(weight);
        if (input != NULL) input += DEPTH;
        if (weight != NULL) weight += WIDE ? (int64_t)DEPTH * p.window * p.inner : DEPTH;
    }
    __device__ float *place(int64_t row) const
    {
        int     where[3];
        int64_t n = find(row, where);

        if (WIDE)
            return p.made + pdl_conv_row(p.f.wide, n, where[0], where[1], where[2]) * p.f.wide_stride +
                   group * p.inner;
        return p.made + row * p.f.narrow_stride + group * p.outer;
    }
};

template <int M, int N> using to_narrow = by_position<M, N, false>;
template <int M, int N> using to_wide = by_position<M, N, true>;

/* ---- weights ---- */

/* part[filter][weight of it] = the sum over some of the positions */
template <int M, int N> struct to_weight {
    carrier<M, true> a;
    carrier<N, true> b;
    const product_t &p;
    int64_t          from, end, steps, sample, step_samples; /* rows of narrow */
    int              group, part, at[3], step[3], k[3], channel;
    const float     *gradient;

    __device__ to_weight(const product_t &product, int64_t filter, int column) : p(product)
    {
        int64_t rows = p.f.samples * pdl_conv_volume(p.f.narrow);

        group = (int)blockIdx.z / p.parts;
        part = (int)blockIdx.z % p.parts;
        from = part * rows / p.parts;
        end = (part + 1) * rows / p.parts;
        steps = (end - from + DEPTH - 1) / DEPTH;
        gradient = NULL;
        if (a.works && filter + a.side < p.rows)
            gradient = p.first + (from + a.depth) * p.f.narrow_stride + group * p.outer + filter + a.side;
        (void)pdl_conv_split((column + b.side) / p.inner, p.f.kernel, k);
        channel = b.works && column + b.side < p.columns ? group * p.inner + (column + b.side) % p.inner : -1;
        sample = pdl_conv_split(from + b.depth, p.f.narrow, at);
        step_samples = pdl_conv_split(DEPTH, p.f.narrow, step);
    }
    __device__ bool has(int64_t row) const
    {
        return row < p.rows;
    }
    /* DEPTH positions on. */
    __device__ void advance()
    {
        int carry = 0;

        for (int d = 2; d >= 0; d--) {
            at[d] += step[d] + carry;
            carry = at[d] >= p.f.narrow[d];
            if (carry) at[d] -= p.f.narrow[d];
        }
        sample += step_samples + carry;
    }
    __device__ __forceinline__ void fetch(float4 &first, float4 &second)
    {
        int64_t under = from + b.depth < end && channel >= 0 ? pdl_conv_under(p.f, sample, at, k) : -1;

        first = four_at(from + a.depth < end ? gradient : NULL);
        second = four_at(under >= 0 ? p.second + under * p.f.wide_stride + channel : NULL);
        if (gradient != NULL) gradient += (int64_t)DEPTH * p.f.narrow_stride;
        from += DEPTH;
        advance();
    }
    __device__ float *place(int64_t row) const
    {
        return p.made + (((int64_t)part * p.f.groups + group) * p.outer + row) * p.columns;
    }
};

/* ---- products of tiles ---- */

/* Where thread `lane` of 16 has its elements in a row of a tile: fours, 64 apart, or one. */
template <int COUNT> __device__ static __forceinline__ void take(const float *row, int lane, float (&to)[COUNT])
{
    if constexpr (COUNT == 1)
        to[0] = row[lane];
    else
#pragma unroll
        for (int i = 0; i < COUNT / 4; i++) pdl_load4(row + 64 * i + 4 * lane, to + 4 * i);
}

template <int COUNT> __device__ static __forceinline__ int place_of(int lane, int i)
{
    return COUNT == 1 ? lane : i / 4 * 64 + 4 * lane + i % 4;
}

/* Rows and columns of a thread: warps are 8 x 4 threads, 2 x 4 of them a block. */
__device__ static __forceinline__ int lane_of_rows()
{
    return (int)threadIdx.x / 128 * 8 + (int)threadIdx.x % 32 / 4;
}

__device__ static __forceinline__ int lane_of_columns()
{
    return (int)threadIdx.x / 32 % 4 * 4 + (int)threadIdx.x % 4;
}

template <int M, int N>
__device__ static __forceinline__ void add_step(const float *first, const float *second,
                                                float (&sum)[M / 16][N / 16])
{
#pragma unroll
    for (int d = 0; d < DEPTH; d++) {
        float x[M / 16], y[N / 16];

        take(first + d * (M + GAP), lane_of_rows(), x);
        take(second + d * (N + GAP), lane_of_columns(), y);
#pragma unroll
        for (int i = 0; i < M / 16; i++)
#pragma unroll
            for (int j = 0; j < N / 16; j++) sum[i][j] += x[i] * y[j];
    }
}

template <int COUNT>
__device__ static __forceinline__ void give(const product_t &p, int group, int column, const float (&sum)[COUNT],
                                            float *row)
{
    constexpr int VECTOR = COUNT == 1 ? 1 : 4;

#pragma unroll
    for (int j = 0; j < COUNT; j += VECTOR) {
        int   at = column + place_of<COUNT>(lane_of_columns(), j);
        float value[4] = {};

        if (at >= p.columns) continue;
        for (int v = 0; v < VECTOR; v++) {
            value[v] = p.bias != NULL ? sum[j + v] + p.bias[group * p.columns + at + v] : sum[j + v];
            if (p.relu && value[v] < 0) value[v] = 0;
        }
        if (VECTOR == 4)
            pdl_store4(row + at, value);
        else
            row[at] = value[0];
    }
}

template <int M, int N, template <int, int> class S>
static __global__ void __launch_bounds__(THREADS, 2) multiply_tiles(product_t p)
{
    PDL_SHARED(float, tiles); /* of two steps */
    constexpr int of_rows = DEPTH * (M + GAP), of_both = of_rows + DEPTH * (N + GAP);
    int           column_tiles = (p.columns + N - 1) / N;
    int           column = (int)(blockIdx.x % column_tiles) * N;
    int64_t       row = (int64_t)(blockIdx.x / column_tiles) * M;
    float         sum[M / 16][N / 16] = {};
    float4        first, second;
    S<M, N>       source(p, row, column);

    if (!source.has(row)) return;
    for (int64_t s = 0; s <= source.steps; s++) { /* step s is stored while the one before is multiplied */
        float *now = tiles + s % 2 * of_both, *before = tiles + (s + 1) % 2 * of_both;

        if (s < source.steps) source.fetch(first, second);
        if (s > 0) add_step<M, N>(before, before + of_rows, sum);
        if (s < source.steps) source.a.store(now, first);
        if (s < source.steps) source.b.store(now + of_rows, second);
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < M / 16; i++) {
        int64_t at = row + place_of<M / 16>(lane_of_rows(), i);

        if (source.has(at)) give(p, source.group, column, sum[i], source.place(at));
    }
}

/* ---- launches ---- */

template <int M, int N>
static pdl_status_t run_tiles(pdl_tensor_stream_t *stream, const product_t &p, pdl__conv_product_t product,
                              int layers)
{
    auto     narrow = multiply_tiles<M, N, to_narrow>;
    auto     wide = multiply_tiles<M, N, to_wide>;
    auto     weight = multiply_tiles<M, N, to_weight>;
    unsigned blocks = (unsigned)((p.rows + M - 1) / M * ((p.columns + N - 1) / N));
    dim3     grid(blocks, 1, (unsigned)layers);
    size_t   shared = 2 * DEPTH * (M + N + 2 * GAP) * sizeof(float);

    switch (product) {
    case PDL__CONV_NARROW: return PDL_LAUNCH(narrow, grid, THREADS, shared, stream, p);
    case PDL__CONV_WIDE: return PDL_LAUNCH(wide, grid, THREADS, shared, stream, p);
    default: return PDL_LAUNCH(weight, grid, THREADS, shared, stream, p);
    }
}

typedef pdl_status_t run_tiles_t(pdl_tensor_stream_t *stream, const product_t &p, pdl__conv_product_t product,
                                 int layers);

/* What an element takes in tiles of other sizes: the fewer a thread has, the more it reads for each. */
static const struct {
    int          rows, columns;
    double       cost;
    run_tiles_t *run;
} tilings[] = {{128, 128, 1, run_tiles<128, 128>},  {128, 64, 1.15, run_tiles<128, 64>},
               {64, 128, 1.15, run_tiles<64, 128>}, {64, 64, 1.4, run_tiles<64, 64>},
               {128, 16, 2.5, run_tiles<128, 16>},  {16, 128, 2.5, run_tiles<16, 128>}};

/* In rounds of two tiles a multiprocessor. */
static run_tiles_t *choose(const pdl__gpu_t *gpu, const product_t &p, int layers)
{
    run_tiles_t *best = NULL;
    double       least = 0;

    for (const auto &t : tilings) {
        int64_t tiles = (p.rows + t.rows - 1) / t.rows * ((p.columns + t.columns - 1) / t.columns) * layers;
        int64_t rounds = (tiles + 2 * gpu->multiprocessors - 1) / (2 * gpu->multiprocessors);
        double  cost = (double)rounds * t.rows * t.columns * t.cost;

        if (best != NULL && cost >= least) continue;
        best = t.run;
        least = cost;
    }
    return best;
}

bool pdl__conv_tiles_fit(const pdl__cuda_form_t *form)
{
    return form->type == PDL_DTYPE_F32 && form->channels / form->groups % DEPTH == 0 &&
           form->filters / form->groups % DEPTH == 0;
}

pdl_status_t pdl__conv_tiles(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, const pdl__cuda_form_t *form,
                             pdl__conv_product_t product, float *wide, float *weight, float *narrow,
                             const float *bias, int parts)
{
    const pdl__cuda_form_t &f = *form;
    product_t               p = {.f = f, .bias = bias, .parts = parts};
    int                     layers = f.groups;

    p.window = (int)pdl_conv_volume(f.kernel);
    p.inner = f.channels / f.groups;
    p.outer = f.filters / f.groups;
    switch (product) {
    case PDL__CONV_NARROW:
        p.first = wide, p.second = weight, p.made = narrow;
        p.rows = f.samples * pdl_conv_volume(f.narrow);
        p.columns = p.outer;
        p.relu = f.relu;
        break;
    case PDL__CONV_WIDE:
        p.first = narrow, p.second = weight, p.made = wide;
        p.rows = f.samples;
        for (int d = 0; d < PDL_MAX_SPACE; d++) p.rows *= (f.wide[d] + f.step[d] - 1) / f.step[d];
        p.columns = p.inner;
        layers *= (int)pdl_conv_volume(f.step);
        break;
    default:
        p.first = narrow, p.second = wide, p.made = weight;
        p.rows = p.outer;
        p.columns = p.window * p.inner;
        layers *= parts;
    }
    return choose(gpu, p, layers)(stream, p, product, layers);
}
