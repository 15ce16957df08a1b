/*
 * Mixture of experts whose experts are on several ranks. A token is copied once for each expert it chose. Copies
 * are brought into the order of all experts, which is that of the ranks too, and sent; a rank gets rows from every
 * rank in the order of its own experts. What becomes of a row is put in its place and goes back the same way.
 *
 *     forward   numbers of copies -> | | x -> | <- answers | weighed by their shares at home
 *     backward  dy, share -> | <- dx, gradient of the share | what they come to at home
 *
 * These are phases; the ranks meet between them. The second of forward does nothing but count the bytes of the rows.
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

/* Where everything is in the workspace, and its bytes. */
typedef struct places {
    size_t counts, slot, next, start, to, from, home, come, go, bytes;
} places_t;

static places_t place(const pdl__moe_t *moe, bool backward)
{
    places_t p = {0};
    struct {
        size_t *at;
        int64_t elements;
        size_t  item;
    } all[] = {{&p.counts, moe->all, sizeof(int64_t)},
               {&p.slot, moe->rows * moe->top_k, sizeof(int64_t)},
               {&p.next, moe->all, sizeof(int64_t)},
               {&p.start, moe->ranks * moe->experts, sizeof(int64_t)},
               {&p.to, moe->ranks, sizeof(int64_t)},
               {&p.from, moe->ranks, sizeof(int64_t)},
               {&p.home, moe->rows * moe->top_k * wide_row(moe), sizeof(float)},
               {&p.come, backward ? moe->most * (moe->out + 1) : 0, sizeof(float)},
               {&p.go, moe->most * wide_row(moe), sizeof(float)}};

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        *all[i].at = p.bytes;
        p.bytes += padded(all[i].elements, all[i].item);
    }
    return p;
}

size_t pdl__route_workspace(const pdl__moe_t *moe, bool backward)
{
    return place(moe, backward).bytes;
}

/* Saved: the choices, then what has arrived. */
static size_t arrived_at(const pdl__moe_t *moe)
{
    return padded(moe->rows * moe->top_k, sizeof(pdl__moe_choice_t));
}

static size_t x_at(const pdl__moe_t *moe)
{
    return arrived_at(moe) + padded(moe->ranks * moe->experts, sizeof(int64_t));
}

void pdl__route_meetings(const pdl__moe_t *moe, bool training, size_t at, pdl_op_description_t *description)
{
    places_t      p = place(moe, training);
    pdl_meeting_t there = {.kind = PDL_MEETING_ROUTE, .to = at + p.to, .from = at + p.from}, back = there;

    back.to = there.from;
    back.from = there.to;
    there.into_saved = true;
    there.at = at + p.counts;
    there.receive = arrived_at(moe);
    description->meeting[0][0] = there;
    there.at = at + p.home;
    there.receive = x_at(moe);
    description->meeting[0][1] = there;
    back.at = at + p.go;
    back.receive = at + p.home;
    description->meeting[0][2] = description->meeting[1][1] = back;
    there.into_saved = false;
    there.receive = at + p.come;
    description->meeting[1][0] = there;
    description->meetings[0] = 3;
    description->meetings[1] = training ? 2 : 0;
}

static route_t make_route(pdl__moe_pass_t *pass, bool training)
{
    places_t p = place(pass->moe, training);
    char    *work = pass->routes, *saved = pass->run->saved;

    return (route_t){.pass = pass,
                     .counts = (int64_t *)(void *)(work + p.counts),
                     .slot = (int64_t *)(void *)(work + p.slot),
                     .next = (int64_t *)(void *)(work + p.next),
                     .start = (int64_t *)(void *)(work + p.start),
                     .to = (int64_t *)(void *)(work + p.to),
                     .from = (int64_t *)(void *)(work + p.from),
                     .home = (float *)(void *)(work + p.home),
                     .come = (float *)(void *)(work + p.come),
                     .go = (float *)(void *)(work + p.go),
                     .arrived = (int64_t *)(void *)(saved + arrived_at(pass->moe)),
                     .x = (float *)(void *)(saved + x_at(pass->moe))};
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

/* Bytes that tell every rank how many rows come for each of its experts. */
static void count_experts(route_t *route)
{
    const pdl__moe_t *moe = route->pass->moe;

    for (int r = 0; r < moe->ranks; r++) {
        route->to[r] = (moe->first[r + 1] - moe->first[r]) * (int64_t)sizeof(int64_t);
        route->from[r] = moe->experts * (int64_t)sizeof(int64_t);
    }
}

static void find_starts(route_t *route)
{
    const pdl__moe_t *moe = route->pass->moe;
    int64_t           sum = 0;

    for (int64_t i = 0; i < moe->ranks * moe->experts; sum += route->arrived[i++]) route->start[i] = sum;
}

/* Bytes of rows of `width` elements from their homes to their experts; the other way round they go back. */
static void count_rows(route_t *route, int64_t width)
{
    const pdl__moe_t *moe = route->pass->moe;
    int64_t           bytes = width * (int64_t)sizeof(float);

    for (int r = 0; r < moe->ranks; r++) {
        route->to[r] = route->from[r] = 0;
        for (int64_t e = moe->first[r]; e < moe->first[r + 1]; e++) route->to[r] += route->counts[e] * bytes;
        for (int64_t e = 0; e < moe->experts; e++) route->from[r] += route->arrived[r * moe->experts + e] * bytes;
    }
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

/* Copies of the tokens, in the order of the experts. */
static void pack_tokens(route_t *route)
{
    const pdl__moe_t *moe = route->pass->moe;
    const float      *x = route->pass->run->input[0];

    order_copies(route);
    for (int64_t i = 0; i < moe->rows * moe->top_k; i++)
        memcpy(route->home + route->slot[i] * moe->in, x + i / moe->top_k * moe->in,
               (size_t)moe->in * sizeof(float));
    count_experts(route);
}

static void answer_rows(route_t *route)
{
    pdl__moe_pass_t  *pass = route->pass;
    const pdl__moe_t *moe = pass->moe;

    find_starts(route);
    pass->from = route->x;
    pass->share = 1;
    for (int64_t expert = 0; expert < moe->experts; expert++)
        for (cursor_t cursor = {0, 0}; next_rows(route, expert, &cursor);) {
            pdl__moe_inner(pass, expert);
            pdl__moe_answer(pass, expert);
            for (int64_t i = 0; i < pass->count; i++)
                memcpy(route->go + pass->list[i] * moe->out, pass->y + i * moe->out,
                       (size_t)moe->out * sizeof(float));
        }
    count_rows(route, moe->out);
}

static void weigh_answers(route_t *route)
{
    pdl__moe_pass_t  *pass = route->pass;
    const pdl__moe_t *moe = pass->moe;
    float            *y = pass->run->output;

    for (int64_t i = 0; i < moe->rows * moe->top_k; i++)
        pdl__moe_add(moe->out, pass->choice[i].share, route->home + route->slot[i] * moe->out,
                     y + i / moe->top_k * moe->out);
}

void pdl__route_forward(pdl__moe_pass_t *pass, bool training)
{
    route_t route = make_route(pass, training);

    switch (pass->run->phase) {
    case 0: pack_tokens(&route); break;
    case 1: count_rows(&route, pass->moe->in); break;
    case 2: answer_rows(&route); break;
    default: weigh_answers(&route); break;
    }
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

static void bring_home(route_t *route, bool data, bool weights)
{
    pdl__moe_pass_t  *pass = route->pass;
    const pdl__moe_t *moe = pass->moe;
    float            *dx = pass->run->input_gradient[0];
    int64_t           width = data ? moe->in + 1 : 1;

    for (int64_t i = 0; i < moe->rows * moe->top_k; i++) {
        const float *row = route->home + route->slot[i] * width;

        pass->logit[i / moe->top_k * moe->all + pass->choice[i].expert] = row[width - 1];
        if (data) pdl__moe_add(moe->in, 1, row, dx + i / moe->top_k * moe->in);
    }
    pdl__moe_router_gradients(pass, data, weights);
}

void pdl__route_backward(pdl__moe_pass_t *pass, bool data, bool weights)
{
    const pdl__moe_t *moe = pass->moe;
    route_t           route = make_route(pass, true);

    if (pass->run->phase == 0) {
        order_copies(&route);
        find_starts(&route);
        pack_gradients(&route);
        count_rows(&route, moe->out + 1);
    } else if (pass->run->phase == 1) {
        pass->from = route.x;
        pass->share = 1;
        for (int64_t expert = 0; expert < moe->experts; expert++) backward_expert(&route, expert, data, weights);
        count_rows(&route, data ? moe->in + 1 : 1);
    } else {
        bring_home(&route, data, weights);
    }
}
