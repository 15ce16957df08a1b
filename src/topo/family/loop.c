/*
 * Circulant graphs: n routers on a loop, i <-> i +- s for every stride s of a list.
 *
 * With all powers of two below n = 2^Q, a route is the shorter of the non-adjacent signed binary forms of the
 * offset and of the offset minus n, most significant digit first; its length is the distance in the graph. Any
 * other list is searched once from offset 0, breadth first, strides in the order of the list and + before -; the
 * graph looks the same from every router, so that this serves all pairs.
 */
#include "topo/network.h"

#include <stdlib.h>

static bool is_power_of_two(int64_t n)
{
    return n > 0 && (n & (n - 1)) == 0;
}

static pdl_status_t set_powers(pdl__loop_t *loop, const char *name, int64_t n)
{
    if (!is_power_of_two(n))
        return pdl_error(PDL_ERR_INPUT,
                         "a full %s has a power of two of switches, not %lld; give --strides for others", name,
                         (long long)n);
    loop->powers = true;
    for (int64_t stride = 1; stride < n; stride *= 2) loop->stride[loop->stride_count++] = (int)stride;
    loop->diameter = (loop->stride_count + 1) / 2;
    return PDL_OK;
}

static pdl_status_t set_strides(pdl__loop_t *loop, const char *name, int64_t n, const int64_t *strides, int count)
{
    for (int k = 0; k < count; k++) {
        if (strides[k] < 1 || strides[k] > n / 2)
            return pdl_error(PDL_ERR_INPUT,
                             "a stride of %s among %lld switches must be between 1 and %lld, not %lld", name,
                             (long long)n, (long long)(n / 2), (long long)strides[k]);
        for (int j = 0; j < k; j++)
            if (strides[j] == strides[k])
                return pdl_error(PDL_ERR_INPUT, "stride %lld of %s is given twice", (long long)strides[k], name);
        loop->stride[loop->stride_count++] = (int)strides[k];
    }
    return PDL_OK;
}

/* One search from offset 0 fills in distance and hop. */
static pdl_status_t search(pdl__loop_t *loop, const char *name)
{
    int *queue = malloc((size_t)loop->n * sizeof(*queue)), head = 0, tail = 0;

    loop->distance = calloc((size_t)loop->n, sizeof(*loop->distance));
    loop->hop = calloc((size_t)loop->n, sizeof(*loop->hop));
    if (queue == NULL || loop->distance == NULL || loop->hop == NULL) {
        free(queue);
        return pdl_error(PDL_ERR_NOMEM, "no memory for the routes of %s", name);
    }
    queue[tail++] = 0;
    while (head < tail && loop->distance[queue[head]] < PDL_MAX_ROUTE) {
        int at = queue[head++];
        for (int i = 0; i < 2 * loop->stride_count; i++) {
            int k = i / 2;
            int next = i % 2 == 0 ? at + loop->stride[k] : at - loop->stride[k];
            next = next >= loop->n ? next - loop->n : next < 0 ? next + loop->n : next;
            if (next == 0 || loop->hop[next] != 0) continue;
            loop->hop[next] = (int8_t)(i % 2 == 0 ? k + 1 : -(k + 1));
            loop->distance[next] = (uint16_t)(loop->distance[at] + 1);
            loop->diameter = loop->distance[next];
            queue[tail++] = next;
        }
    }
    free(queue);
    if (tail < loop->n && head == tail)
        return pdl_error(PDL_ERR_INPUT,
                         "the strides of %s reach %d of %d switches; add one without a common divisor", name, tail,
                         loop->n);
    return pdl__check_route_length(name, loop->diameter);
}

pdl_status_t pdl__loop_init(pdl__loop_t *loop, const char *name, int64_t n, const int64_t *strides, int count)
{
    pdl_status_t st;
    bool         full = true;

    *loop = (pdl__loop_t){.n = (int)n};
    st = count == 0 ? set_powers(loop, name, n) : set_strides(loop, name, n, strides, count);
    if (st) return st;
    /* A list that spells out the full network is routed as one. */
    for (int k = 0; k < loop->stride_count; k++) full = full && loop->stride[k] == 1 << k;
    loop->powers = full && n == INT64_C(1) << loop->stride_count;
    if (!loop->powers)
        st = search(loop, name);
    else
        loop->diameter = (loop->stride_count + 1) / 2;
    for (int k = 0; k < loop->stride_count; k++) {
        loop->first_cable[k] = loop->cables;
        loop->cables += 2 * loop->stride[k] == loop->n ? loop->n / 2 : loop->n;
    }
    return st;
}

void pdl__loop_free(pdl__loop_t *loop)
{
    free(loop->distance);
    free(loop->hop);
}

/* Bit k of `up` (`down`): digit +1 (-1) of x at 2^k in the form without adjacent non-zero digits. */
static void signed_digits(unsigned x, unsigned *up, unsigned *down)
{
    uint64_t triple = 3 * (uint64_t)x;

    *up = (unsigned)((triple & ~(uint64_t)x) >> 1);
    *down = (unsigned)((x & ~triple) >> 1);
}

static int digit_hops(const pdl__loop_t *loop, unsigned offset, int8_t *hops)
{
    unsigned up, down, other_up, other_down;
    int      count = 0;

    signed_digits(offset, &up, &down);
    signed_digits((unsigned)loop->n - offset, &other_down, &other_up); /* the negative: digits change sides */
    if (__builtin_popcount(other_up | other_down) < __builtin_popcount(up | down)) {
        up = other_up;
        down = other_down;
    }
    for (unsigned rest = up | down; rest != 0;) {
        int k = 31 - __builtin_clz(rest);
        rest &= ~(1u << k);
        hops[count++] = (int8_t)(up >> k & 1 ? k + 1 : -(k + 1));
    }
    return count;
}

int pdl__loop_hops(const pdl__loop_t *loop, int src, int dst, int8_t hops[PDL_MAX_ROUTE])
{
    int offset = dst >= src ? dst - src : dst - src + loop->n, count;

    if (loop->powers) return digit_hops(loop, (unsigned)offset, hops);
    count = loop->distance[offset];
    for (int i = count - 1; i >= 0; i--) {
        int hop = loop->hop[offset];
        hops[i] = (int8_t)hop;
        offset += hop > 0 ? -loop->stride[hop - 1] : loop->stride[-hop - 1];
        offset = offset < 0 ? offset + loop->n : offset >= loop->n ? offset - loop->n : offset;
    }
    return count;
}

int pdl__loop_step(const pdl__loop_t *loop, int hop, int *at, int *reverse)
{
    int k = (hop > 0 ? hop : -hop) - 1, stride = loop->stride[k], from = *at;
    int to = hop > 0 ? from + stride : from - stride;

    to = to >= loop->n ? to - loop->n : to < 0 ? to + loop->n : to;
    *at = to;
    /* The diametral stride has one cable for both signs; its first end is the lower router. */
    *reverse = 2 * stride == loop->n ? from > to : hop < 0;
    return loop->first_cable[k] + (*reverse ? to : from);
}
