/*
 * Kautz digraph K(d,k): words v_1..v_k over {0..d} without equal neighbours; arcs v_1..v_k -> v_2..v_k x. Links
 * go one way. There are no switches: nodes relay.
 *
 * A word has the number of its digits v_1, r_2, .., r_k in base d, where r_j is the rank of v_j among the letters
 * other than v_{j-1}; for k = 2 this is a d + (b < a ? b : b - 1). The arc that appends x is number v d + rank of
 * x. The shortest path is unique: drop the fewest leading letters such that the rest is a prefix of the
 * destination.
 */
#include "topo/network.h"

#include <stdio.h>
#include <stdlib.h>

/* Words of the smallest alphabet may be long without making the network large. */
#define MOST_LETTERS 32

typedef struct kautz {
    int d, k;
    int high; /* d^(k-1), the weight of the first letter */
} kautz_t;

static void letters_of(const kautz_t *kautz, int v, int word[MOST_LETTERS])
{
    int weight = kautz->high;

    word[0] = v / weight;
    for (int j = 1; j < kautz->k; j++) {
        int rank;
        v %= weight;
        weight /= kautz->d;
        rank = v / weight;
        word[j] = rank < word[j - 1] ? rank : rank + 1;
    }
}

static int append(const kautz_t *kautz, int v, int rank)
{
    int first = v / kautz->high, rest = v % kautz->high, second;

    /* The rank of the second letter becomes the letter itself, now first. */
    if (kautz->k == 1) return rank < first ? rank : rank + 1;
    second = rest / (kautz->high / kautz->d);
    if (second >= first) second++;
    return second * kautz->high + rest % (kautz->high / kautz->d) * kautz->d + rank;
}

static pdl_status_t size_of(const pdl_topology_spec_t *spec, kautz_t *kautz, int64_t *nodes)
{
    int64_t d = spec->degree, k = spec->diameter, high = 1;

    if (d < 1 || k < 1)
        return pdl_error(PDL_ERR_INPUT, "a kautz network needs a degree and a diameter of at least 1, for example "
                                        "--degree 16 --diameter 2");
    if (k > MOST_LETTERS)
        return pdl_error(PDL_ERR_LIMIT, "a kautz network has a diameter of at most %d, not %lld", MOST_LETTERS,
                         (long long)k);
    for (int64_t j = 1; j < k; j++) high = pdl__product(high, d, PDL__MOST_VERTICES);
    *nodes = high < 0 || d > PDL__MOST_VERTICES ? -1 : pdl__product(high, d + 1, PDL__MOST_VERTICES);
    if (*nodes < 0)
        return pdl_error(PDL_ERR_LIMIT, "this kautz network has more than %lld nodes",
                         (long long)PDL__MOST_VERTICES);
    if (spec->hosts != 0 && spec->hosts != *nodes)
        return pdl_error(PDL_ERR_INPUT,
                         "the kautz network of degree %lld and diameter %lld has %lld nodes, not %lld",
                         (long long)d, (long long)k, (long long)*nodes, (long long)spec->hosts);
    *kautz = (kautz_t){.d = (int)d, .k = (int)k, .high = (int)high};
    return PDL_OK;
}

static pdl_status_t create_kautz(pdl_topology_t *topology, const pdl_topology_spec_t *spec)
{
    kautz_t     *kautz = calloc(1, sizeof(*kautz));
    int64_t      nodes = 0, arcs;
    pdl_status_t st;

    topology->data = kautz;
    if (kautz == NULL) return pdl_error(PDL_ERR_NOMEM, "no memory for a kautz network");
    if (spec->hosts_per_switch > 1)
        return pdl_error(PDL_ERR_INPUT, "a kautz network has no switches; hosts per switch cannot be %lld",
                         (long long)spec->hosts_per_switch);
    st = size_of(spec, kautz, &nodes);
    if (st) return st;
    arcs = pdl__product(nodes, kautz->d, PDL__MOST_LINKS);
    st = pdl__topology_reserve(topology, nodes, 0, arcs);
    if (st) return st;
    topology->routers = topology->hosts;
    topology->relay = true;
    for (int v = 0; v < topology->hosts; v++)
        for (int rank = 0; rank < kautz->d; rank++)
            pdl__add_link(topology, v, append(kautz, v, rank), PDL_LINK_SWITCH, spec->link_bytes_per_s,
                          spec->link_latency_s);
    topology->spec.hosts_per_switch = 0;
    snprintf(topology->description, sizeof(topology->description),
             "degree %d, diameter %d, %d nodes, one-way links", kautz->d, kautz->k, topology->hosts);
    return PDL_OK;
}

static int route_kautz(const pdl_topology_t *topology, int src, int dst, int *links)
{
    const kautz_t *kautz = topology->data;
    int            u[MOST_LETTERS], w[MOST_LETTERS], k = kautz->k, hops, last, at = src;

    letters_of(kautz, src, u);
    letters_of(kautz, dst, w);
    for (hops = 1; hops < k; hops++) {
        int same = 0;
        while (same < k - hops && u[hops + same] == w[same]) same++;
        if (same == k - hops) break;
    }
    last = u[k - 1];
    for (int i = 0; i < hops; i++) {
        int x = w[k - hops + i], rank = x < last ? x : x - 1;
        links[i] = at * kautz->d + rank;
        at = append(kautz, at, rank);
        last = x;
    }
    return hops;
}

const pdl__topology_ops_t pdl__topology_kautz = {
    .name = "kautz",
    .summary = "one-way links between nodes named by words: most nodes for a degree and a diameter",
    .direct = true,
    .create = create_kautz,
    .route = route_kautz,
};
