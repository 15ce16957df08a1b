/*
 * The verifier finds mistakes: every message of a few schedules is broken in every way below, one at a time, and
 * each broken schedule must be refused.
 */
#include "coll/internal.h"
#include "test.h"

typedef enum mutation {
    OTHER_BLOCK,      /* another block than the right one, on both sides */
    OTHER_OP,         /* added instead of copied and the other way round, on both sides */
    MISSING,          /* not sent and not received */
    TWICE,            /* sent and received twice */
    NOT_RECEIVED,     /* sent, but not received */
    NOT_SENT,         /* received, but not sent */
    OTHER_PEER,       /* sent to somebody else */
    DIFFERENT_BLOCKS, /* received into another block than sent */
    MUTATIONS
} mutation_t;

static struct {
    pdl__emit_fn_t emit;
    mutation_t     mutation;
    int            step, from, to;
} broken;

static void remove_move(pdl_moves_t *moves, int m)
{
    for (; m + 1 < moves->move_count; m++) moves->move[m] = moves->move[m + 1];
    moves->move_count--;
}

static void change(const pdl_schedule_t *schedule, pdl__view_t view, pdl_moves_t *moves, int m)
{
    pdl_coll_move_t  *move = &moves->move[m];
    pdl_block_span_t *range = &moves->range[move->range_first];
    bool              sends = view == PDL__SENDS;

    switch (broken.mutation) {
    case OTHER_BLOCK: range->first = (range->first + 1) % schedule->blocks; break;
    case OTHER_OP: move->op = move->op == PDL_MOVE_COPY ? PDL_MOVE_REDUCE : PDL_MOVE_COPY; break;
    case MISSING: remove_move(moves, m); break;
    case TWICE: moves->move[moves->move_count++] = *move; break;
    case NOT_RECEIVED:
        if (!sends) remove_move(moves, m);
        break;
    case NOT_SENT:
        if (sends) remove_move(moves, m);
        break;
    case OTHER_PEER:
        if (sends) move->peer = (move->peer + 1) % schedule->ranks;
        break;
    case DIFFERENT_BLOCKS:
        if (!sends) range->first = (range->first + 1) % schedule->blocks;
        break;
    case MUTATIONS: break;
    }
}

static void emit_broken(const pdl_schedule_t *schedule, int step, int rank, pdl__view_t view, pdl_moves_t *moves)
{
    broken.emit(schedule, step, rank, view, moves);
    if (step != broken.step || rank != (view == PDL__SENDS ? broken.from : broken.to)) return;
    for (int m = 0; m < moves->move_count; m++) {
        if (moves->move[m].peer != (view == PDL__SENDS ? broken.to : broken.from)) continue;
        change(schedule, view, moves, m);
        return;
    }
}

/* Breaks every message of a schedule in every way. */
static void break_everything(pdl_schedule_spec_t spec)
{
    static pdl_moves_t moves;
    pdl_schedule_t    *schedule = NULL;
    int                mutants = 0, missed = 0;

    REQUIRE_OK(pdl_schedule_create(&spec, &schedule));
    if (schedule == NULL) return;
    broken.emit = schedule->emit;
    CHECK_OK(pdl_schedule_verify(schedule, schedule->blocks));
    for (int step = 0; step < schedule->steps; step++) {
        for (int rank = 0; rank < schedule->ranks; rank++) {
            broken.emit(schedule, step, rank, PDL__SENDS, &moves);
            for (int m = 0; m < moves.move_count; m++) {
                for (broken.mutation = 0; broken.mutation < MUTATIONS; broken.mutation++) {
                    /* With one block there is no other. */
                    if (schedule->blocks == 1 &&
                        (broken.mutation == OTHER_BLOCK || broken.mutation == DIFFERENT_BLOCKS))
                        continue;
                    /* The whole vector, from whichever block it is counted, is the whole vector. */
                    if (moves.range[moves.move[m].range_first].count == schedule->blocks &&
                        broken.mutation == OTHER_BLOCK)
                        continue;
                    broken.step = step;
                    broken.from = rank;
                    broken.to = moves.move[m].peer;
                    schedule->emit = emit_broken;
                    mutants++;
                    if (pdl_schedule_verify(schedule, schedule->blocks) != PDL_OK) continue;
                    missed++;
                    printf("%s: mutation %d of step %d, %d to %d not found\n", spec.algorithm, broken.mutation,
                           step, rank, broken.to);
                }
            }
        }
    }
    CHECK(mutants > 0);
    CHECK_INT(missed, 0);
    pdl_schedule_destroy(schedule);
}

static void allreduce_mistakes_are_found(void)
{
    static const char *const names[] = {"ring",      "hd_near",     "hd_far",      "rdb",      "circulant",
                                        "rshd",      "tree",        "leader",      "swing",    "ring_rdb",
                                        "ring_ring", "double_tree", "double_ring", "multiport"};

    for (size_t k = 0; k < sizeof(names) / sizeof(names[0]); k++) {
        break_everything((pdl_schedule_spec_t){.algorithm = names[k], .ranks = 8, .hosts_per_switch = 2});
    }
    break_everything((pdl_schedule_spec_t){.algorithm = "hd_far", .ranks = 7});
    break_everything((pdl_schedule_spec_t){.algorithm = "kautz", .ranks = 6});
}

static void mistakes_of_halves_are_found(void)
{
    for (pdl_collective_t c = PDL_COLL_REDUCE_SCATTER; c <= PDL_COLL_ALLGATHER; c++) {
        break_everything((pdl_schedule_spec_t){.collective = c, .algorithm = "ring", .ranks = 6});
        break_everything((pdl_schedule_spec_t){.collective = c, .algorithm = "circulant", .ranks = 7});
        break_everything((pdl_schedule_spec_t){.collective = c, .algorithm = "kautz", .ranks = 6});
    }
    break_everything((pdl_schedule_spec_t){.collective = PDL_COLL_ALLGATHER, .algorithm = "bruck", .ranks = 7});
}

static void alltoall_and_broadcast_mistakes_are_found(void)
{
    break_everything((pdl_schedule_spec_t){.collective = PDL_COLL_BROADCAST, .algorithm = "binomial", .ranks = 7});
    break_everything(
        (pdl_schedule_spec_t){.collective = PDL_COLL_BROADCAST, .algorithm = "chain", .ranks = 5, .segments = 3});
    break_everything((pdl_schedule_spec_t){.collective = PDL_COLL_BROADCAST, .algorithm = "kautz", .ranks = 6});
    break_everything((pdl_schedule_spec_t){.collective = PDL_COLL_ALLTOALL, .algorithm = "pairwise", .ranks = 5});
    break_everything((pdl_schedule_spec_t){.collective = PDL_COLL_ALLTOALL, .algorithm = "bruck", .ranks = 7});
    break_everything((pdl_schedule_spec_t){.collective = PDL_COLL_ALLTOALL, .algorithm = "kautz", .ranks = 6});
    break_everything((pdl_schedule_spec_t){
        .collective = PDL_COLL_ALLTOALL, .algorithm = "fc2", .ranks = 6, .rows = 2, .columns = 3});
}

int main(void)
{
    RUN(allreduce_mistakes_are_found);
    RUN(mistakes_of_halves_are_found);
    RUN(alltoall_and_broadcast_mistakes_are_found);
    return test_done();
}
