/*
 * Mixture of experts whose experts are on several ranks, phase after phase; between two of them the ranks meet.
 *
 *     forward   numbers of copies -> | | x -> | <- answers | weighed by their shares at home
 *     backward  dy, share -> | <- dx, gradient of the share | what they come to at home
 *
 * The second phase of forward does nothing but count the bytes of the rows. How many rows come only the GPU knows until then.
 */
#include "tensor/plugin/cuda/sequence/experts.h"

typedef pdl__cuda_routes_t routes_t;

/* A float behind a row, at the address of any element. */
static __device__ __forceinline__ void store_number(pdl_bf16 *at, float value)
{
    at[0].bits = (uint16_t)__float_as_uint(value);
    at[1].bits = (uint16_t)(__float_as_uint(value) >> 16);
}

static __device__ __forceinline__ void store_number(float *at, float value)
{
    *at = value;
}

static __device__ __forceinline__ float load_number(const pdl_bf16 *at)
{
    return __uint_as_float(at[0].bits | (uint32_t)at[1].bits << 16);
}

static __device__ __forceinline__ float load_number(const float *at)
{
    return *at;
}

/* ---- numbers, a block ---- */

/* Copies for every expert, and the bytes in which ranks tell each other. */
static __global__ void __launch_bounds__(THREADS) route_counts(const __grid_constant__ routes_t r)
{
    for (int64_t e = threadIdx.x; e < r.home.experts; e += THREADS)
        r.sent[e] = r.home.start[e + 1] - r.home.start[e];
    for (int k = threadIdx.x; k < r.ranks; k += THREADS) {
        r.to[k] = (r.first[k + 1] - r.first[k]) * (int64_t)sizeof(int64_t);
        r.from[k] = r.there.experts * (int64_t)sizeof(int64_t);
    }
}

/* Bytes of rows from their homes to their experts; the other way round they go back. */
static __global__ void __launch_bounds__(THREADS) route_bytes(const __grid_constant__ routes_t r, int64_t row)
{
    for (int k = threadIdx.x; k < r.ranks; k += THREADS) {
        int64_t come = 0;

        for (int64_t e = 0; e < r.there.experts; e++) come += r.arrived[k * r.there.experts + e];
        r.to[k] = (r.home.start[r.first[k + 1]] - r.home.start[r.first[k]]) * row;
        r.from[k] = come * row;
    }
}

/* Brings rows that have come by ranks and experts into the order of the experts; a block has those of a rank for an
   expert. */
static __global__ void __launch_bounds__(THREADS) route_arrive(const __grid_constant__ routes_t r)
{
    __shared__ int64_t row, slot;
    int64_t            experts = r.there.experts, mine = blockIdx.x;

    if (threadIdx.x == 0) {
        row = slot = 0;
        for (int64_t i = 0; i < r.ranks * experts; i++) {
            if (i < mine) row += r.arrived[i];
            if (i % experts < mine % experts || (i % experts == mine % experts && i < mine)) slot += r.arrived[i];
        }
        if (mine < experts) r.there.start[mine] = slot;
        if (mine == r.ranks * experts - 1) r.there.start[experts] = slot + r.arrived[mine];
    }
    __syncthreads();
    for (int64_t i = threadIdx.x; i < r.arrived[mine]; i += THREADS) {
        r.there.entry[slot + i] = (int32_t)(row + i);
        r.there.slot[row + i] = (int32_t)(slot + i);
    }
}

/* ---- rows ---- */

/* Answers in the order in which their rows came. */
template <typename T>
static __global__ void __launch_bounds__(THREADS) route_answers(const __grid_constant__ routes_t r)
{
    int64_t out = r.there.out;

    for (int64_t i = pdl_grid_thread(); i < r.there.start[r.there.experts] * out; i += pdl_grid_threads())
        ((T *)r.go)[i] = ((const T *)r.there.out_rows)[r.there.slot[i / out] * out + i % out];
}

/* A warp has a row: gradients of the copies' answers, with their shares. */
template <typename T>
static __global__ void __launch_bounds__(THREADS) route_gradients(const __grid_constant__ routes_t r, int64_t width)
{
    typedef pdl_team<false> team;
    const moe_t            &m = r.home;

    for (int64_t entry = team::first(); entry < m.rows * m.top_k; entry += team::step()) {
        T       *to = (T *)r.rows + m.slot[entry] * width;
        const T *dy = (const T *)m.dy + entry / m.top_k * m.out;

        for (int64_t c = team::member(); c < m.out; c += 32) to[c] = dy[c];
        if (team::member() == 0) store_number(to + m.out, m.choice[entry].share);
    }
}

template <typename T>
static __global__ void __launch_bounds__(THREADS) route_unpack(const __grid_constant__ routes_t r, int64_t width)
{
    typedef pdl_team<false> team;
    const moe_t            &m = r.there;

    for (int64_t row = team::first(); row < m.start[m.experts]; row += team::step()) {
        const T *from = (const T *)r.come + row * width;

        for (int64_t c = team::member(); c < m.out; c += 32) ((T *)r.dy_rows)[row * m.out + c] = from[c];
        if (team::member() == 0) m.choice[row].share = load_number(from + m.out);
    }
}

/* dx where it is wanted, and the gradient of the share, in the order in which the rows came. */
template <typename T>
static __global__ void __launch_bounds__(THREADS)
    route_back(const __grid_constant__ routes_t r, int64_t in, int64_t width)
{
    typedef pdl_team<false> team;
    const moe_t            &m = r.there;

    for (int64_t row = team::first(); row < m.start[m.experts]; row += team::step()) {
        T       *to = (T *)r.go + row * width;
        const T *dx = (const T *)m.d_rows + m.slot[row] * m.in;

        for (int64_t c = team::member(); c < in; c += 32) to[c] = dx[c];
        if (team::member() == 0) store_number(to + in, m.d_share[row]);
    }
}

template <typename T>
static __global__ void __launch_bounds__(THREADS)
    route_shares(const __grid_constant__ routes_t r, int64_t in, int64_t width)
{
    for (int64_t i = pdl_grid_thread(); i < r.home.rows * r.home.top_k; i += pdl_grid_threads())
        r.home.d_share[i] = load_number((const T *)r.rows + r.home.slot[i] * width + in);
}

/* ---- phases ---- */

static pdl_status_t count_bytes(pdl_tensor_stream_t *stream, const routes_t *r, int64_t elements, size_t item)
{
    return PDL_LAUNCH(route_bytes, 1, THREADS, 0, stream, *r, elements * (int64_t)item);
}

static pdl_status_t arrive(pdl_tensor_stream_t *stream, const routes_t *r)
{
    return PDL_LAUNCH(route_arrive, (unsigned)(r->ranks * r->there.experts), THREADS, 0, stream, *r);
}

template <typename T>
static pdl_status_t forward(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, const routes_t *r, int phase)
{
    const moe_t *m = &r->home;
    auto         choose_experts = moe_choose<T>;
    auto         gather = moe_gather<T>;
    auto         answers = route_answers<T>;
    auto         combine = moe_combine<T>;
    pdl_status_t status = PDL_OK;

    switch (phase) {
    case 0:
        status = PASS(choose_experts, 32 * m->rows, *m);
        if (status == PDL_OK) status = order_entries(gpu, stream, m);
        if (status == PDL_OK)
            status = PASS(gather, m->rows * m->top_k * m->in, *m, (const T *)m->x, m->in, (T *)r->rows);
        return status == PDL_OK ? PDL_LAUNCH(route_counts, 1, THREADS, 0, stream, *r) : status;
    case 1: return count_bytes(stream, r, m->in, sizeof(T));
    case 2:
        status = arrive(stream, r);
        if (status == PDL_OK) status = answer<T>(gpu, stream, &r->there);
        if (status == PDL_OK) status = PASS(answers, r->there.rows * m->out, *r);
        return status == PDL_OK ? count_bytes(stream, r, m->out, sizeof(T)) : status;
    default: return PASS(combine, m->rows * m->out, *m);
    }
}

template <typename T>
static pdl_status_t backward(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, const routes_t *r, int phase)
{
    const moe_t *m = &r->home;
    int64_t      more = 4 / sizeof(T), in = m->dx != NULL ? m->in : 0, entries = m->rows * m->top_k;
    auto         gradients = route_gradients<T>;
    auto         unpack = route_unpack<T>;
    auto         back = route_back<T>;
    auto         shares = route_shares<T>;
    pdl_status_t status = PDL_OK;

    switch (phase) {
    case 0:
        status = order_entries(gpu, stream, m);
        if (status == PDL_OK) status = PASS(gradients, 32 * entries, *r, m->out + more);
        return status == PDL_OK ? count_bytes(stream, r, m->out + more, sizeof(T)) : status;
    case 1:
        status = arrive(stream, r);
        if (status == PDL_OK) status = PASS(unpack, 32 * r->there.rows, *r, m->out + more);
        if (status == PDL_OK) status = answer_back<T>(gpu, stream, &r->there);
        if (status == PDL_OK) status = PASS(back, 32 * r->there.rows, *r, in, in + more);
        return status == PDL_OK ? count_bytes(stream, r, in + more, sizeof(T)) : status;
    default:
        status = PASS(shares, entries, *r, in, in + more);
        return status == PDL_OK ? router_back<T>(gpu, stream, m) : status;
    }
}

template <typename T>
static pdl_status_t run(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, const routes_t *r, bool back, int phase)
{
    return back ? backward<T>(gpu, stream, r, phase) : forward<T>(gpu, stream, r, phase);
}

extern "C" pdl_status_t pdl__cuda_route(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type,
                                        const routes_t *r, bool back, int phase)
{
    return type == PDL_DTYPE_BF16 ? run<pdl_bf16>(gpu, stream, r, back, phase)
                                  : run<float>(gpu, stream, r, back, phase);
}
