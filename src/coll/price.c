/*
 * The price of a schedule by counting the messages and blocks of its busiest ranks.
 */
#include "coll/internal.h"

typedef struct load {
    int64_t messages, blocks, largest, reduced;
} load_t;

static void count(const pdl_moves_t *moves, load_t *load)
{
    *load = (load_t){.messages = moves->move_count};
    for (int m = 0; m < moves->move_count; m++) {
        const pdl_coll_move_t *move = &moves->move[m];
        int64_t                blocks = 0;

        for (int r = 0; r < move->range_count; r++) blocks += moves->range[move->range_first + r].count;
        load->blocks += blocks;
        if (blocks > load->largest) load->largest = blocks;
        if (move->op == PDL_MOVE_REDUCE) load->reduced += blocks;
    }
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* The busiest rank (or port) of one step, in blocks. */
static load_t busiest(const pdl_schedule_t *schedule, int step, pdl_moves_t *moves)
{
    load_t most = {0};

    for (int rank = 0; rank < schedule->ranks; rank++) {
        for (int view = 0; view < 2; view++) {
            load_t load;

            schedule->emit(schedule, step, rank, view == 0 ? PDL__SENDS : PDL__RECEIVES, moves);
            count(moves, &load);
            if (schedule->multiport) {
                load.messages = load.messages > 0 ? 1 : 0;
                load.blocks = load.largest;
            }
            most.messages = larger(most.messages, load.messages);
            most.blocks = larger(most.blocks, load.blocks);
            if (view == 1) most.reduced = larger(most.reduced, load.reduced);
        }
    }
    return most;
}

pdl_coll_price_t pdl_schedule_price(const pdl_schedule_t *schedule, double bytes)
{
    int              first[PDL_MAX_PERIODS], last[PDL_MAX_PERIODS];
    int              groups = pdl_schedule_period(schedule, first, last), group = 0;
    pdl_coll_price_t price = {0};
    pdl_moves_t      moves;
    double           block = bytes / (double)schedule->blocks;

    for (int step = 0; step < schedule->steps;) {
        load_t load = busiest(schedule, step, &moves);
        int    times = 1;

        if (group < groups && step == first[group]) times = last[group] - first[group];
        if (times > 1) group++;
        price.startups += times * (double)load.messages;
        price.bytes += times * (double)load.blocks * block;
        price.reduced_bytes += times * (double)load.reduced * block;
        step += times;
    }
    return price;
}
