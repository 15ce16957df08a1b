/*
 * Policies for the blocks of a plan, such that the buffers of a rank fit: the network as a chain of blocks, whose times are
 * the oracle's and whose bytes are those of the compiled program; then the plan, compiled again, says what it really takes.
 */
#include "base/memory.h"
#include "oracle/chain/simulate.h"
#include "oracle/internal.h"
#include <math.h>
#include <paradl/oracle/chain.h>
#include <paradl/oracle/replay.h>
#include <paradl/program/compile.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_BLOCKS = 60, ROUNDS = 16 };

/* Small blocks swap well; large ones recompute well, since only what they begin with is kept. */
static const int granularity[] = {MOST_BLOCKS, 24, 12, 6, 3};

typedef struct fit {
    pdl_oracle_t      *oracle;
    pdl_plan_t        *plan;
    pdl_plan_block_t  *block;
    int                count;
    pdl_chain_block_t *chain;
    double             least_bytes; /* of the arena, of all that was compiled */
} fit_t;

static pdl_status_t compile(fit_t *f, pdl_program_t **program)
{
    pdl_program_spec_t spec = {.plan = f->plan,
                               .backend = f->oracle->backend,
                               .rank = pdl__busy_rank(&f->plan->mesh),
                               .training = true,
                               .overlap = true};

    pdl_status_t status = pdl_program_compile(&spec, program);
    if (!status && (f->least_bytes == 0 || (double)(*program)->arena_bytes < f->least_bytes))
        f->least_bytes = (double)(*program)->arena_bytes;
    return status;
}

static pdl_status_t set_policies(fit_t *f, pdl_memory_policy_t policy)
{
    for (int k = 0; k < f->count; k++) f->block[k] = (pdl_plan_block_t){.last = f->block[k].last, .policy = policy};
    return pdl_plan_set_blocks(f->plan, f->block, f->count);
}

/* Bytes that are swapped in one micro-batch, of every block. */
static void count_swapped(const fit_t *f, const pdl_program_t *program, double *bytes)
{
    for (int k = 0; k < f->count; k++) bytes[k] = 0;
    for (int i = 0; i < program->op_count; i++) {
        const pdl_program_op_t *op = &program->op[i];
        if (op->kind == PDL_OP_COPY_OUT && op->node >= 0 && op->micro_batch == 0)
            bytes[program->node[op->node].policy_block] += op->bytes;
    }
}

/* Seconds of the blocks, forward and backward, of one micro-batch. What is copied is not computed. */
static void add_seconds(const fit_t *f, const pdl_program_t *program, const double *seconds)
{
    for (int i = 0; i < program->op_count; i++) {
        const pdl_program_op_t *op = &program->op[i];
        if (op->node < 0 || op->micro_batch != 0 || op->kind == PDL_OP_COPY_OUT || op->kind == PDL_OP_COPY_IN)
            continue;
        pdl_chain_block_t *block = &f->chain[program->node[op->node].block];
        *(op->backward ? &block->backward_s : &block->forward_s) += seconds[i];
    }
}

static void add_repeated(const fit_t *f, const pdl_program_t *program, const double *seconds)
{
    for (int i = 0; i < program->op_count; i++) {
        const pdl_program_op_t *op = &program->op[i];
        if (op->again && op->micro_batch == 0) f->chain[program->node[op->node].block].cheap_s += seconds[i];
    }
}

/* Whether only one tensor leads from the nodes up to here to those behind. */
static bool is_narrow(const pdl_program_t *program, const int *last_reader, int at)
{
    int crossing = 0;

    for (int i = 0; i <= at; i++)
        crossing += last_reader[i] > at && program->node[i].kind != PDL_NODE_SOURCE &&
                    program->node[i].kind != PDL_NODE_VIEW;
    return crossing <= 1;
}

static void find_readers(const pdl_program_t *program, int *last_reader)
{
    for (int i = 0; i < program->node_count; i++) {
        last_reader[i] = i;
        for (int j = 0; j < program->node[i].input_count; j++) {
            int owner = program->node[i].input[j];
            while (program->node[owner].kind == PDL_NODE_VIEW) owner = program->node[owner].input[0];
            last_reader[owner] = i;
        }
    }
}

/* About `wanted` blocks of equal bytes, which end where one tensor goes on if such a place is near. */
static pdl_status_t cut(fit_t *f, const pdl_program_t *program, int wanted)
{
    int   *last_reader = malloc((size_t)program->node_count * sizeof(*last_reader)), end = 0;
    double total = 0, filled = 0;
    int    layers = pdl_model_layer_count(f->plan->model);

    if (last_reader == NULL) return pdl__no_memory("while choosing what is kept");
    f->count = 0;
    memset(f->chain, 0, (2 * MOST_BLOCKS + 2) * sizeof(*f->chain));
    find_readers(program, last_reader);
    for (int i = 0; i < program->node_count; i++)
        total += (double)(program->node[i].out_bytes + program->node[i].saved_bytes);
    for (int i = 0; i < program->node_count && f->count < 2 * MOST_BLOCKS; i++) {
        filled += (double)(program->node[i].out_bytes + program->node[i].saved_bytes);
        if (program->node[i].tail > end) end = program->node[i].tail;
        bool full = filled >= total / wanted, narrow = full && is_narrow(program, last_reader, i);
        if (end >= layers - 1 || (!narrow && filled < 2 * total / wanted)) continue;
        if (f->count > 0 && end <= f->block[f->count - 1].last) continue;
        f->block[f->count++] = (pdl_plan_block_t){.last = end};
        filled = 0;
    }
    f->block[f->count++] = (pdl_plan_block_t){.last = layers - 1};
    free(last_reader);
    return PDL_OK;
}

/* What a program says that swaps all blocks by one policy: what it holds of them, and with times where that is asked for. */
static pdl_status_t measure_policy(fit_t *f, pdl_memory_policy_t policy, bool times)
{
    pdl_program_t *program = NULL;
    double         bytes[2 * MOST_BLOCKS + 2], *seconds = NULL;
    pdl_status_t   status = set_policies(f, policy);

    if (!status) status = compile(f, &program);
    if (!status && times) seconds = calloc((size_t)program->op_count, sizeof(*seconds));
    if (!status && times && seconds == NULL) status = pdl__no_memory("while choosing what is kept");
    if (!status && times) status = pdl_oracle_price_program(f->oracle, f->plan, program, seconds);
    if (!status) count_swapped(f, program, bytes);
    for (int k = 0; k < f->count && !status; k++) {
        pdl_chain_block_t *block = &f->chain[k];
        if (policy == PDL_MEMORY_SWAP) block->bytes = bytes[k];
        if (policy == PDL_MEMORY_SWAP_BOUNDARY) block->boundary_bytes = fmin(bytes[k], block->bytes);
        if (policy == PDL_MEMORY_SWAP_CHEAP) block->cheap_bytes = fmin(bytes[k], block->bytes);
    }
    if (!status && policy == PDL_MEMORY_SWAP) add_seconds(f, program, seconds);
    if (!status && policy == PDL_MEMORY_SWAP_CHEAP) add_repeated(f, program, seconds);
    free(seconds);
    pdl_program_destroy(program);
    return status;
}

static pdl_status_t measure(fit_t *f)
{
    pdl_status_t status = measure_policy(f, PDL_MEMORY_SWAP, true);

    if (!status) status = measure_policy(f, PDL_MEMORY_SWAP_BOUNDARY, false);
    if (!status) status = measure_policy(f, PDL_MEMORY_SWAP_CHEAP, true);
    return status;
}

/* The policies of the chain into the plan, and what that takes. */
static pdl_status_t apply(fit_t *f, const pdl_chain_t *chain, const pdl_memory_policy_t *policy,
                          pdl_chain_result_t *result, size_t *arena_bytes)
{
    int                after[2 * MOST_BLOCKS + 2], before[2 * MOST_BLOCKS + 2];
    pdl_chain_detail_t detail = {.release_after = after, .prefetch = before};
    pdl_program_t     *program = NULL;
    pdl_status_t       status = pdl_chain_simulate(chain, policy, result, &detail);

    for (int k = 0; k < f->count && !status; k++) {
        bool swaps = pdl_memory_swaps(policy[k]);
        f->block[k].policy = policy[k];
        f->block[k].release_after = swaps ? after[k] : 0;
        f->block[k].prefetch = swaps ? before[k] : 0;
    }
    if (!status) status = pdl_plan_set_blocks(f->plan, f->block, f->count);
    if (!status) status = compile(f, &program);
    if (!status) *arena_bytes = program->arena_bytes;
    pdl_program_destroy(program);
    return status;
}

static pdl_chain_t chain_of(const fit_t *f, double memory_bytes)
{
    double rate = PDL__LINK_SHARE * f->oracle->system->device.host_link.bytes_per_s[PDL_HOST_BOTH];

    return (pdl_chain_t){
        .block = f->chain, .count = f->count, .memory_bytes = memory_bytes, .out_rate = rate, .in_rate = rate};
}

/* Less memory is promised to the chain until the program keeps within the limit. */
static pdl_status_t squeeze(fit_t *f, double arena_bytes, double limit_bytes, pdl_chain_result_t *result)
{
    pdl_memory_policy_t policy[2 * MOST_BLOCKS + 2];
    double              kept = 0;
    pdl_chain_t         chain = chain_of(f, 0);

    for (int k = 0; k < f->count; k++) kept += f->chain[k].bytes;
    chain.memory_bytes = limit_bytes - fmax(0, arena_bytes - kept);
    for (int round = 0; round < ROUNDS; round++) {
        size_t       taken;
        pdl_status_t status = pdl_chain_solve(&chain, policy, result);
        if (status) return status;
        status = apply(f, &chain, policy, result, &taken);
        if (status || (double)taken <= limit_bytes) return status;
        chain.memory_bytes -= fmax((double)taken - limit_bytes, 0.01 * chain.memory_bytes);
    }
    return pdl_error(PDL_ERR_UNSUPPORTED, "no policies of its blocks were found that fit");
}

/* All blocks alike, where the search has found nothing: what takes least, if it keeps within the limit. */
static pdl_status_t try_alike(fit_t *f, double limit_bytes, pdl_chain_result_t *result)
{
    static const pdl_memory_policy_t policies[] = {PDL_MEMORY_RECOMPUTE, PDL_MEMORY_SWAP_CHEAP, PDL_MEMORY_SWAP,
                                                   PDL_MEMORY_SWAP_BOUNDARY};
    pdl_memory_policy_t              policy[2 * MOST_BLOCKS + 2];
    pdl_chain_t                      chain = chain_of(f, INFINITY);

    for (size_t p = 0; p < sizeof(policies) / sizeof(*policies); p++) {
        size_t taken = 0;
        if (!pdl__chain_allows(&chain, policies[p])) continue;
        for (int k = 0; k < f->count; k++) policy[k] = policies[p];
        pdl_status_t status = apply(f, &chain, policy, result, &taken);
        if (status || (double)taken <= limit_bytes) return status;
    }
    return pdl_error(PDL_ERR_UNSUPPORTED, "no policies of its blocks were found that fit");
}

/* The fastest of several ways to cut; `result` is its, and the plan has its blocks. */
static pdl_status_t try_all(fit_t *f, const pdl_program_t *program, double limit_bytes, pdl_chain_result_t *result)
{
    pdl_plan_block_t *best = malloc((2 * MOST_BLOCKS + 2) * sizeof(*best));
    int               best_count = 0;
    pdl_status_t      status = PDL_OK, why = PDL_ERR_UNSUPPORTED;

    f->block = calloc(2 * MOST_BLOCKS + 2, sizeof(*f->block));
    f->chain = calloc(2 * MOST_BLOCKS + 2, sizeof(*f->chain));
    if (best == NULL || f->block == NULL || f->chain == NULL)
        status = pdl__no_memory("while choosing what is kept");
    for (size_t k = 0; k < sizeof(granularity) / sizeof(*granularity) && !status; k++) {
        pdl_chain_result_t found;
        status = cut(f, program, granularity[k]);
        if (!status) status = measure(f);
        if (!status) why = squeeze(f, (double)program->arena_bytes, limit_bytes, &found);
        if (!status && why == PDL_ERR_UNSUPPORTED) why = try_alike(f, limit_bytes, &found);
        if (status || why == PDL_ERR_UNSUPPORTED) continue;
        status = why;
        if (status || (best_count > 0 && found.step_s >= result->step_s)) continue;
        *result = found;
        best_count = f->count;
        memcpy(best, f->block, (size_t)best_count * sizeof(*best));
    }
    if (!status && best_count > 0) status = pdl_plan_set_blocks(f->plan, best, best_count);
    free(best);
    free(f->block);
    free(f->chain);
    return status || best_count > 0 ? status : why;
}

pdl_status_t pdl_oracle_choose_blocks(pdl_oracle_t *oracle, pdl_plan_t *plan, pdl_block_limit_t *limit,
                                      pdl_chain_result_t *result)
{
    fit_t          f = {.oracle = oracle, .plan = plan};
    pdl_program_t *program = NULL;
    pdl_case_t     c;

    memset(result, 0, sizeof(*result));
    limit->least_bytes = 0;
    if (pdl_plan_stage_count(plan) > 1)
        return pdl_error(PDL_ERR_UNSUPPORTED, "blocks of a pipeline are not chosen: give them in the plan");
    plan->recompute = PDL_RECOMPUTE_NONE;
    pdl_status_t status = pdl_plan_set_blocks(plan, NULL, 0);
    if (!status) status = pdl__case_of_plan(oracle, plan, NULL, &c);
    if (!status) status = pdl__describing_backend(oracle, &c);
    if (!status) status = compile(&f, &program);
    if (status) return status;
    double arena = (double)program->arena_bytes, beside = fmax(0, limit->counted_bytes - arena);
    if (arena + beside > limit->bytes) status = try_all(&f, program, limit->bytes - beside, result);
    limit->least_bytes = f.least_bytes + beside;
    pdl_program_destroy(program);
    return status;
}
