/*
 * Blocks of threads as fibers. A thread runs until it waits at a barrier that others have not reached; then the next one goes
 * on, in turn. A thread that never waits costs a call: the next begins on the same stack.
 */
#include "tensor/plugin/cuda/emulate.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>

#if defined(__SANITIZE_ADDRESS__)
#define ASAN 1
#include <sanitizer/common_interface_defs.h>
#else
#define ASAN 0
#endif

#define MOST_THREADS 1024
#define STACK        ((size_t)256 << 10)
#define PAGE         ((size_t)4096)

namespace
{

struct fiber {
    void *at
        [5]; /* where it goes on: the compiler's own jumps, because the sanitizer clears a whole stack at a longjmp() */
    bool        begun;
    char       *stack; /* NULL: that of the caller */
    size_t      stack_bytes;
    const void *bottom;
    int         thread; /* that it runs, or is to begin */
    fiber      *next_free;
};

enum state { NEW, RUNNING, ENDED };

struct thread {
    state    now;
    fiber   *on;
    bool     in_warp; /* waits for its warp, otherwise for the block */
    uint64_t after;   /* waits until the barrier has been passed so often; 0: does not wait */
};

struct barrier {
    int      arrived;
    uint64_t passed;
};

/* Of the launch that runs: there is one at a time. */
pthread_mutex_t one_launch = PTHREAD_MUTEX_INITIALIZER;
const char     *kernel_name;
void (*kernel_body)(void *);
void    *kernel_context;
int      count, ended, cursor, current;
thread   threads[MOST_THREADS];
int      order[MOST_THREADS];
barrier  block_barrier, warp_barrier[MOST_THREADS / 32];
uint64_t slot[MOST_THREADS / 32][2][32];
void    *shared_memory;
fiber   *free_fibers, caller, *running;

uint64_t order_seed;

uint64_t draw()
{
    order_seed = order_seed * 6364136223846793005u + 1442695040888963407u;
    return order_seed >> 33;
}

/* The thread at a place of the block. */
void enter(int t)
{
    const dim3 &size = pdl__here.block_size;

    current = t;
    pdl__here.thread = {(unsigned)t % size.x, (unsigned)t / size.x % size.y, (unsigned)t / (size.x * size.y)};
}

bool can_go_on(int t)
{
    const thread  &one = threads[t];
    const barrier &at = one.in_warp ? warp_barrier[t / 32] : block_barrier;

    return one.now == NEW || (one.now == RUNNING && one.after > 0 && at.passed >= one.after);
}

/* The next thread that can go on, in turn; -1: none. */
int pick()
{
    for (int k = 1; k <= count; k++) {
        int position = cursor + k < count ? cursor + k : cursor + k - count;

        if (!can_go_on(order[position])) continue;
        cursor = position;
        return order[position];
    }
    return -1;
}

void fiber_main();

fiber *take_fiber()
{
    fiber *made = free_fibers;

    if (made != NULL) {
        free_fibers = made->next_free;
        return made;
    }
    made = (fiber *)calloc(1, sizeof(*made));
    void *memory =
        mmap(NULL, STACK + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (made == NULL || memory == MAP_FAILED) pdl__emulated_fail("no memory for the stack of a thread");
    mprotect(memory, PAGE, PROT_NONE); /* a stack that is too small ends here */
    made->stack = (char *)memory + PAGE;
    made->stack_bytes = STACK;
    return made;
}

/* Tells the address sanitizer which stack is used now. The first fiber of a launch learns where that of the caller is. */
void arrive(void *fake_stack)
{
#if ASAN
    const void *bottom;
    size_t      bytes;

    __sanitizer_finish_switch_fiber(fake_stack, &bottom, &bytes);
    if (caller.stack_bytes == 0) {
        caller.bottom = bottom;
        caller.stack_bytes = bytes;
    }
#else
    (void)fake_stack;
#endif
}

void begin_fiber()
{
    arrive(NULL);
    fiber_main();
}

__attribute__((noinline, noreturn, no_sanitize("address"))) void resume(fiber *to)
{
    __builtin_longjmp(to->at, 1);
}

/* Leaves the fiber that runs; another one comes back here. */
__attribute__((noinline, no_sanitize("address"))) void switch_to(fiber *to)
{
    fiber *from = running;
    void  *fake_stack = NULL;

    running = to;
#if ASAN
    __sanitizer_start_switch_fiber(&fake_stack, to->stack != NULL ? to->stack : to->bottom, to->stack_bytes);
#endif
    if (__builtin_setjmp(from->at) == 0) {
        if (to->begun) resume(to);
        ucontext_t context;
        getcontext(&context);
        context.uc_stack.ss_sp = to->stack;
        context.uc_stack.ss_size = to->stack_bytes;
        context.uc_link = NULL;
        makecontext(&context, begin_fiber, 0);
        to->begun = true;
        setcontext(&context);
    }
    arrive(fake_stack);
}

/* Lets thread t go on, which another fiber has or none yet. */
void go_on_with(int t)
{
    fiber *to = threads[t].on;

    if (threads[t].now == NEW) {
        to = take_fiber();
        to->thread = t;
    }
    switch_to(to);
}

/* A fiber runs threads from beginning to end. When the only ones left wait, it goes back to the pool. */
void fiber_main()
{
    for (;;) {
        int t = running->thread;

        for (;;) {
            threads[t].now = RUNNING;
            threads[t].on = running;
            enter(t);
            kernel_body(kernel_context);
            threads[t].now = ENDED;
            ended++;
            t = ended < count ? pick() : -1;
            if (t < 0 || threads[t].now != NEW) break;
        }
        if (t < 0 && ended < count) pdl__emulated_fail("threads wait for others that have ended or wait elsewhere");
        running->next_free = free_fibers;
        free_fibers = running;
        switch_to(t < 0 ? &caller : threads[t].on);
    }
}

/* The thread that runs waits until all have come. */
void wait_at(barrier *at, int members, bool in_warp)
{
    int me = current;

    if (++at->arrived == members) {
        at->arrived = 0;
        at->passed++;
        return;
    }
    threads[me].in_warp = in_warp;
    threads[me].after = at->passed + 1;
    int t = pick();
    if (t < 0) pdl__emulated_fail("threads wait at different barriers");
    if (t != me) go_on_with(t);
    threads[me].after = 0;
    enter(me);
}

void run_block()
{
    memset(warp_barrier, 0, sizeof(warp_barrier));
    block_barrier = {};
    for (int t = 0; t < count; t++) {
        threads[t] = {};
        order[t] = t;
    }
    for (int t = count - 1; order_seed != 0 && t > 0; t--) {
        int other = (int)(draw() % (uint64_t)(t + 1)), kept = order[t];

        order[t] = order[other];
        order[other] = kept;
    }
    ended = 0;
    cursor = count - 1;
    running = &caller;
    go_on_with(pick());
}

} // namespace

pdl__place pdl__here;

void pdl__emulated_fail(const char *what)
{
    fprintf(stderr, "emulated kernel %s, block %u %u %u, thread %d: %s\n", kernel_name, pdl__here.block.x,
            pdl__here.block.y, pdl__here.block.z, current, what);
    abort();
}

void *pdl__emulated_shared()
{
    return shared_memory;
}

int pdl__emulated_lane()
{
    return current % 32;
}

void __syncthreads()
{
    wait_at(&block_barrier, count, false);
}

void __syncwarp(unsigned mask)
{
    if (mask != 0xffffffffu || count % 32 != 0) pdl__emulated_fail("functions of warps want all of 32 lanes");
    wait_at(&warp_barrier[current / 32], 32, true);
}

const uint64_t *pdl__emulated_exchange(uint64_t mine, unsigned mask)
{
    uint64_t *all = slot[current / 32][warp_barrier[current / 32].passed % 2];

    all[current % 32] = mine;
    __syncwarp(mask);
    return all;
}

pdl_status_t pdl__emulate(const char *name, dim3 grid, dim3 block, size_t shared, void (*body)(void *context),
                          void *context)
{
    uint64_t    blocks = (uint64_t)grid.x * grid.y * grid.z, members = (uint64_t)block.x * block.y * block.z;
    const char *seed = getenv("PARADL_CUDA_ORDER");

    if (blocks == 0 || members == 0 || members > MOST_THREADS || grid.y > 65535 || grid.z > 65535 ||
        shared > 227 * 1024)
        return pdl_error(PDL_ERR_IO, "%s: a launch of %llu blocks of %llu threads with %zu bytes is not possible",
                         name, (unsigned long long)blocks, (unsigned long long)members, shared);
    pthread_mutex_lock(&one_launch);
    kernel_name = name;
    kernel_body = body;
    kernel_context = context;
    count = (int)members;
    order_seed = seed != NULL ? strtoull(seed, NULL, 10) + 1 : 0;
    pdl__here.block_size = block;
    pdl__here.grid_size = grid;
    caller = {};
    caller.begun = true;
    shared_memory = malloc(shared > 0 ? shared : 1);
    if (shared_memory == NULL) pdl__emulated_fail("no memory");
    for (uint64_t b = 0; b < blocks; b++) {
        uint64_t at = order_seed != 0 ? blocks - 1 - b : b;

        pdl__here.block = {(unsigned)(at % grid.x), (unsigned)(at / grid.x % grid.y),
                           (unsigned)(at / ((uint64_t)grid.x * grid.y))};
        memset(shared_memory, 0xff, shared);
        run_block();
    }
    free(shared_memory);
    pthread_mutex_unlock(&one_launch);
    return PDL_OK;
}
