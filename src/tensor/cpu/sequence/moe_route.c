/*
 * Mixture of experts whose experts are on several ranks. A token is copied once for each expert it chose. Copies
 * are brought into the order of all experts, which is that of the ranks too, and sent; a rank gets rows from every
 * rank in the order of its own experts. What becomes of a row is put in its place and goes back the same way.
 *
 *     forward   numbers of copies -> | x -> | <- answers; weighed by their shares at home
 *     backward  dy, share -> | <- dx, gradient of the share
 *
 * How many rows come is known only then: memory is that of all tokens choosing experts of this rank.
 */
#include "tensor/cpu/sequence/moe.h"

#include <string.h>

typedef struct route {
    pdl__moe_pass_t *pass;
    int64_t         *counts;    /* [all]: copies of this rank for every expert */
    int64_t         *slot;      /* [rows][top_k]: where a copy lies among those sent */
    int64_t         *next;      /* [all]: of the expert, while they are brought into order */
    int64_t         *start;     /* [ranks][experts]: the first row from a rank for an expert here */
    int64_t         *to, *from; /* [ranks]: bytes */
    float           *home;      /* [rows * top_k]: copies of tokens of this rank, sent or come back */
    float           *come, *go; /* [most]: rows as they come and as they go back */
    /* kept from forward to backward */
    int64_t *arrived; /* [ranks][experts]: rows from a rank for an expert here */
    float   *x;       /* [most][in] */
} route_t;

static int64_t greater(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static size_t padded(int64_t elements, size_t item)
{
    return ((size_t)elements * item + 63) / 64 * 64;
}

size_t pdl__route_saved(const pdl__moe_t *moe)
{
    return 64 + padded(moe->ranks * moe->experts, sizeof(int64_t)) + padded(moe->most * moe->in, sizeof(float));
}

/* Backward takes an element more with each row, that of its share. */
static int64_t wide_row(const pdl__moe_t *moe)
{
    return greater(moe->in, moe->out) + 1;
}

/* Places everything; with `memory` NULL only its bytes count. Returns these. */
static size_t place(const pdl__moe_t *moe, bool backward, char *memory, route_t *route)
{
    struct {
        int64_t **at;
        int64_t   elements;
    } numbers[] = {{&route->counts, moe->all}, {&route->slot, moe->rows * moe->top_k},
                   {&route->next, moe->all},   {&route->start, moe->ranks * moe->experts},
                   {&route->to, moe->ranks},   {&route->from, moe->ranks}};
    struct {
        float **at;
        int64_t elements;
    } rows[] = {{&route->home, moe->rows * moe->top_k * wide_row(moe)},
                {&route->come, backward ? moe->most * (moe->out + 1) : 0},
                {&route->go, moe->most * wide_row(moe)}};
    size_t used = 0;

    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        if (memory != NULL) *numbers[i].at = (int64_t *)(void *)(memory + used);
        used += padded(numbers[i].elements, sizeof(int64_t));
    }
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (memory != NULL) *rows[i].at = (float *)(void *)(memory + used);
        used += padded(rows[i].elements, sizeof(float));
    }
    return used;
}

size_t pdl__route_workspace(const pdl__moe_t *moe, bool backward)
{
    route_t unused;

    return place(moe, backward, NULL, &unused);
}

static route_t make_route(pdl__moe_pass_t *pass, bool backward)
{
    const pdl__moe_t *moe = pass->moe;
    route_t           route = {.pass = pass};
    char             *kept = (char *)pass->run->saved;

    place(moe, backward, pass->routes, &route);
    kept += padded(moe->rows * moe->top_k, sizeof(pdl__moe_choice_t));
    route.arrived = (int64_t *)(void *)kept;
    route.x = (float *)(void *)(kept + padded(moe->ranks * moe->experts, sizeof(int64_t)));
    return route;
}

/* Counts copies for every expert, and brings them into the order of the experts. */
static void order_copies(route_t *route)
{
    const pdl__moe_t        *moe = route->pass->moe;
    const pdl__moe_choice_t *choice = route->pass->choice;
    int64_t                  sum = 0;

    memset(route->counts, 0, (size_t)moe->all * sizeof(*route->counts));
    for (int64_t i = 0; i < moe->rows * moe->top_k; i++) route->counts[choice[i].expert]++;
    for (int64_t e = 0; e < moe->all; sum += route->counts[e++]) route->next[e] = sum;
    for (int64_t i = 0; i < moe->rows * moe->top_k; i++) route->slot[i] = route->next[choice[i].expert]++;
}

/* Tells every rank how many rows come for each of its experts. */
static pdl_status_t send_counts(route_t *route)
{
    const pdl__moe_t   *moe = route->pass->moe;
    const pdl_op_run_t *run = route->pass->run;

    for (int r = 0; r < moe->ranks; r++) {
        route->to[r] = (moe->first[r + 1] - moe->first[r]) * (int64_t)sizeof(int64_t);
        route->from[r] = moe->experts * (int64_t)sizeof(int64_t);
    }
    return run->route(run->route_context, route->counts, route->to, route->arrived, route->from);
}

static void find_starts(route_t *route)
{
    const pdl__moe_t *moe = route->pass->moe;
    int64_t           sum = 0;

    for (int64_t i = 0; i < moe->ranks * moe->experts; sum += route->arrived[i++]) route->start[i] = sum;
}

/* Rows of `width` elements from their homes to their experts, or back. */
static pdl_status_t send_rows(route_t *route, int64_t width, bool back, const float *send, float *receive)
{
    const pdl__moe_t   *moe = route->pass->moe;
    const pdl_op_run_t *run = route->pass->run;
    int64_t             bytes = width * (int64_t)sizeof(float);

    for (int r = 0; r < moe->ranks; r++) {
        route->to[r] = route->from[r] = 0;
        for (int64_t e = moe->first[r]; e < moe->first[r + 1]; e++) route->to[r] += route->counts[e] * bytes;
        for (int64_t e = 0; e < moe->experts; e++) route->from[r] += route->arrived[r * moe->experts + e] * bytes;
    }
    return run->route(run->route_context, send, back ? route->from : route->to, receive,
                      back ? route->to : route->from);
}

/* How far an expert is with the rows that have come for it. */
typedef struct cursor {
    int64_t rank, done;
} cursor_t;

/* The next rows for an expert into the list; false when there are none left. */
static bool next_rows(route_t *route, int64_t expert, cursor_t *cursor)
{
    pdl__moe_pass_t  *pass = route->pass;
    const pdl__moe_t *moe = pass->moe;

    pass->count = 0;
    while (cursor->rank < moe->ranks && pass->count < PDL__MOE_TOKENS) {
        int64_t i = cursor->rank * moe->experts + expert;

        if (cursor->done < route->arrived[i]) {
            pass->list[pass->count++] = route->start[i] + cursor->done++;
        } else {
            cursor->rank++;
            cursor->done = 0;
        }
    }
    return pass->count > 0;
}

pdl_status_t pdl__route_forward(pdl__moe_pass_t *pass)
{
    const pdl__moe_t *moe = pass->moe;
    route_t           route = make_route(pass, false);
    const float      *x = pass->run->input[0];
    float            *y = pass->run->output;
    pdl_status_t      status;

    order_copies(&route);
    for (int64_t i = 0; i < moe->rows * moe->top_k; i++)
        memcpy(route.home + route.slot[i] * moe->in, x + i / moe->top_k * moe->in, (size_t)moe->in * sizeof(float));
    status = send_counts(&route);
    if (!status) status = send_rows(&route, moe->in, false, route.home, route.x);
    if (status) return status;
    find_starts(&route);
    pass->from = route.x;
    pass->share = 1;
    for (int64_t expert = 0; expert < moe->experts; expert++)
        for (cursor_t cursor = {0, 0}; next_rows(&route, expert, &cursor);) {
            pdl__moe_inner(pass, expert);
            pdl__moe_answer(pass, expert);
            for (int64_t i = 0; i < pass->count; i++)
                memcpy(route.go + pass->list[i] * moe->out, pass->y + i * moe->out,
                       (size_t)moe->out * sizeof(float));
        }
    status = send_rows(&route, moe->out, true, route.go, route.home);
    for (int64_t i = 0; i < moe->rows * moe->top_k && !status; i++)
        pdl__moe_add(moe->out, pass->choice[i].share, route.home + route.slot[i] * moe->out,
                     y + i / moe->top_k * moe->out);
    return status;
}

/* Gradients of the rows of the list, into the rows that go back: dx if `data`, and at the end that of the share. */
static void backward_rows(const route_t *route, int64_t expert, bool data)
{
    pdl__moe_pass_t  *pass = route->pass;
    const pdl__moe_t *moe = pass->moe;
    int64_t           width = data ? moe->in + 1 : 1;

    pdl__moe_inner(pass, expert);
    for (int64_t i = 0; i < pass->count; i++)
        memcpy(pass->y + i * moe->out, route->come + pass->list[i] * (moe->out + 1),
               (size_t)moe->out * sizeof(float));
    pdl__moe_activation_gradients(pass, expert);
    for (int64_t i = 0; i < pass->count; i++) {
        float share = route->come[pass->list[i] * (moe->out + 1) + moe->out];

        route->go[(pass->list[i] + 1) * width - 1] = pdl__moe_share_gradient(pass, i, share);
    }
    if (!data) return;
    pdl__moe_input_gradients(pass, expert);
    for (int64_t i = 0; i < pass->count; i++)
        memcpy(route->go + pass->list[i] * width, pass->dx + i * moe->in, (size_t)moe->in * sizeof(float));
}

static void backward_expert(route_t *route, int64_t expert, bool data, bool weights)
{
    bool add = route->pass->run->accumulate, any = false;

    for (cursor_t cursor = {0, 0}; next_rows(route, expert, &cursor); any = true) {
        backward_rows(route, expert, data);
        if (weights) pdl__moe_weight_gradients(route->pass, expert, add || any);
    }
    if (!any && weights && !add) pdl__moe_clear_gradients(route->pass, expert);
}

/* Gradients of outputs, with the shares of the copies. */
static void pack_gradients(const route_t *route)
{
    const pdl__moe_t *moe = route->pass->moe;
    const float      *dy = route->pass->run->output_gradient[0];

    for (int64_t i = 0; i < moe->rows * moe->top_k; i++) {
        float *row = route->home + route->slot[i] * (moe->out + 1);

        memcpy(row, dy + i / moe->top_k * moe->out, (size_t)moe->out * sizeof(float));
        row[moe->out] = route->pass->choice[i].share;
    }
}

pdl_status_t pdl__route_backward(pdl__moe_pass_t *pass, bool data, bool weights)
{
    const pdl__moe_t *moe = pass->moe;
    route_t           route = make_route(pass, true);
    float            *dx = pass->run->input_gradient[0];
    int64_t           width = data ? moe->in + 1 : 1;
    pdl_status_t      status;

    order_copies(&route);
    find_starts(&route);
    pack_gradients(&route);
    status = send_rows(&route, moe->out + 1, false, route.home, route.come);
    if (status) return status;
    pass->from = route.x;
    pass->share = 1;
    for (int64_t expert = 0; expert < moe->experts; expert++) backward_expert(&route, expert, data, weights);
    status = send_rows(&route, width, true, route.go, route.home);
    if (status) return status;
    for (int64_t i = 0; i < moe->rows * moe->top_k; i++) {
        const float *row = route.home + route.slot[i] * width;

        pass->logit[i / moe->top_k * moe->all + pass->choice[i].expert] = row[width - 1];
        if (data) pdl__moe_add(moe->in, 1, row, dx + i / moe->top_k * moe->in);
    }
    pdl__moe_router_gradients(pass, data, weights);
    return PDL_OK;
}
