/*
 * MPI_Iallreduce, and the start and end of MPI.
 *
 * A collective that goes on in the background must move on whenever the program is in any call of MPI, and may
 * not wait in the call that starts it. The profiling interface gives no place for that short of interposing all
 * of MPI, so a helper thread runs these collectives, each behind a generalized request that MPI_Wait and MPI_Test
 * understand. The library must allow several threads for it (MPI_THREAD_MULTIPLE, asked for at MPI_Init), which
 * has a price in every call; so all this happens only where PARADL_IALLREDUCE is set, and otherwise
 * MPI_Iallreduce is the library's own.
 *
 * The operations of one communicator run one after the other, in the order of the calls, which MPI requires to be
 * the same on all ranks; those of different communicators side by side, since their order may differ between
 * ranks.
 */
#include "comm/interpose/interpose.h"

#include "comm/mpi/check.h"
#include "comm/mpi/reduce.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#define EXPORT __attribute__((visibility("default")))

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t  changed = PTHREAD_COND_INITIALIZER; /* more work, or less */
static pdl__state_t   *active;                             /* communicators with operations */
static bool            stopping;
static atomic_bool     runs;
static pthread_t       helper;

bool pdl__background_runs(void)
{
    return runs;
}

/* Moves the oldest operation of a communicator on; true when it has ended, one way or the other. */
static bool progress(pdl__operation_t *operation)
{
    bool done = false;

    if (!operation->started) {
        operation->started = true;
        operation->status = pdl_executor_start(operation->executor, operation->input, operation->data);
    }
    if (!operation->status) operation->status = pdl_executor_test(operation->executor, &done);
    return operation->status != PDL_OK || done;
}

/* Takes the oldest operation of a communicator off its list and tells the program; called with the lock. */
static void finish(pdl__state_t *state)
{
    pdl__operation_t *operation = state->first;

    state->first = operation->next;
    if (state->first == NULL) {
        pdl__state_t **link = &active;

        while (*link != state) link = &(*link)->next_active;
        *link = state->next_active;
        pthread_cond_broadcast(&changed);
    }
    pdl_executor_destroy(operation->executor);
    operation->executor = NULL;
    /* The request may be freed by the program as soon as it is complete, and the operation with it. */
    PMPI_Grequest_complete(operation->request);
}

/* One round over the communicators. New ones enter at the front of the list, so the rest of it stays as it is while
   the lock is released; only this thread takes them out. */
static void run_round(void)
{
    pdl__state_t *next;

    for (pdl__state_t *state = active; state != NULL; state = next) {
        bool ended;

        next = state->next_active;
        pthread_mutex_unlock(&lock);
        ended = progress(state->first);
        pthread_mutex_lock(&lock);
        if (ended) finish(state);
    }
}

static void *help(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&lock);
    while (!stopping || active != NULL) {
        if (active == NULL) {
            pthread_cond_wait(&changed, &lock);
            continue;
        }
        run_round();
        pthread_mutex_unlock(&lock);
        sched_yield();
        pthread_mutex_lock(&lock);
    }
    pthread_mutex_unlock(&lock);
    return NULL;
}

void pdl__background_start(void)
{
    stopping = false;
    runs = pthread_create(&helper, NULL, help, NULL) == 0;
}

void pdl__background_stop(void)
{
    if (!runs) return;
    pthread_mutex_lock(&lock);
    stopping = true;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    pthread_join(helper, NULL);
    runs = false;
}

void pdl__background_drain(pdl__state_t *state)
{
    pthread_mutex_lock(&lock);
    while (state->first != NULL) pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
}

static int query(void *extra, MPI_Status *status)
{
    const pdl__operation_t *operation = extra;

    PMPI_Status_set_elements(status, MPI_BYTE, 0);
    PMPI_Status_set_cancelled(status, 0);
    status->MPI_SOURCE = MPI_UNDEFINED;
    status->MPI_TAG = MPI_UNDEFINED;
    return operation->status == PDL_OK ? MPI_SUCCESS : MPI_ERR_OTHER;
}

static int release(void *extra)
{
    free(extra);
    return MPI_SUCCESS;
}

/* Collectives cannot be cancelled. */
static int cancel(void *extra, int complete)
{
    (void)extra;
    (void)complete;
    return MPI_SUCCESS;
}

static void enqueue(pdl__state_t *state, pdl__operation_t *operation)
{
    pthread_mutex_lock(&lock);
    if (state->first == NULL) {
        state->first = operation;
        state->next_active = active;
        active = state;
    } else {
        state->last->next = operation;
    }
    state->last = operation;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

/* *executor NULL with PDL_OK: no schedule serves these ranks. */
static pdl_status_t make_executor(pdl__state_t *state, int count, MPI_Datatype type, MPI_Op op,
                                  pdl_executor_t **executor)
{
    pdl_schedule_t *schedule = NULL;
    int             size;
    pdl_status_t    status = PDL_MPI(PMPI_Type_size(type, &size));

    *executor = NULL;
    if (!status)
        status =
            pdl__choose(state, PDL_COLL_ALLREDUCE, pdl__settings()->in_background, (double)count * size, &schedule);
    if (status || schedule == NULL) return status;
    status = pdl_executor_create(&(pdl_executor_spec_t){.schedule = schedule,
                                                        .comm = state->background,
                                                        .type = type,
                                                        .op = op,
                                                        .elements = count,
                                                        .chunk_bytes = pdl__settings()->chunk_bytes},
                                 executor);
    pdl_schedule_destroy(schedule);
    return status == PDL_ERR_UNSUPPORTED ? PDL_OK : status;
}

static pdl_status_t begin(pdl__state_t *state, pdl_executor_t *executor, const void *input, void *data,
                          MPI_Request *request)
{
    pdl__operation_t *operation = calloc(1, sizeof(*operation));
    pdl_status_t      status;

    if (operation == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory");
    operation->executor = executor;
    operation->input = input == MPI_IN_PLACE ? NULL : input;
    operation->data = data;
    status = PDL_MPI(PMPI_Grequest_start(query, release, cancel, operation, &operation->request));
    if (status) {
        free(operation);
        return status;
    }
    *request = operation->request;
    enqueue(state, operation);
    return PDL_OK;
}

/* The state of a communicator on which MPI_Iallreduce is ours. Making one takes time and other ranks, so it must
   be there already: MPI_COMM_WORLD gets it at the start, others with their first blocking collective. */
static pdl__state_t *our_state(const char *call, MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
    pdl__state_t *state;

    if (comm == MPI_COMM_NULL || pdl__settings()->in_background == NULL) return NULL;
    if (!runs) {
        pdl__say_why(comm, call, PDL__NO_THREADS);
        return NULL;
    }
    if (!pdl__reducer_defined(type, op)) {
        pdl__say_why(comm, call, PDL__USER_OPERATION);
        return NULL;
    }
    state = pdl__state_if_any(comm);
    if (state == NULL || state->background == MPI_COMM_NULL) {
        pdl__say_why(comm, call, PDL__NEW_COMMUNICATOR);
        return NULL;
    }
    return state;
}

EXPORT int MPI_Iallreduce(const void *sendbuf, void *recvbuf, int count, MPI_Datatype datatype, MPI_Op op,
                          MPI_Comm comm, MPI_Request *request)
{
    static const char call[] = "MPI_Iallreduce";
    pdl__state_t     *state = our_state(call, datatype, op, comm);
    pdl_executor_t   *executor = NULL;
    pdl_status_t      status = PDL_OK;
    int               code;

    if (state != NULL && count > 0 && sendbuf != recvbuf)
        status = make_executor(state, count, datatype, op, &executor);
    if (!status && executor == NULL) return PMPI_Iallreduce(sendbuf, recvbuf, count, datatype, op, comm, request);
    if (!status) status = begin(state, executor, sendbuf, recvbuf, request);
    if (!status) return MPI_SUCCESS;
    pdl_executor_destroy(executor);
    fprintf(stderr, "paradl-mpi: %s: %s\n", call, pdl_error_message());
    code = status == PDL_ERR_NOMEM ? MPI_ERR_NO_MEM : MPI_ERR_OTHER;
    PMPI_Comm_call_errhandler(comm, code);
    return code;
}

/* What MPI_Init and MPI_Init_thread have in common once MPI runs. */
static void begin_background(int provided)
{
    if (pdl__settings()->in_background == NULL) return;
    if (provided == MPI_THREAD_MULTIPLE) pdl__background_start();
    if (runs && pdl__state(MPI_COMM_WORLD) == NULL) {
        fprintf(stderr, "paradl-mpi: %s\n", pdl_error_message());
        PMPI_Abort(MPI_COMM_WORLD, 1);
    }
}

EXPORT int MPI_Init(int *argc, char ***argv)
{
    int provided, code;

    if (pdl__settings()->in_background == NULL) return PMPI_Init(argc, argv);
    code = PMPI_Init_thread(argc, argv, MPI_THREAD_MULTIPLE, &provided);
    if (code == MPI_SUCCESS) begin_background(provided);
    return code;
}

EXPORT int MPI_Init_thread(int *argc, char ***argv, int required, int *provided)
{
    int code = PMPI_Init_thread(argc, argv, pdl__settings()->in_background != NULL ? MPI_THREAD_MULTIPLE : required,
                                provided);

    if (code == MPI_SUCCESS) begin_background(*provided);
    return code;
}

EXPORT int MPI_Finalize(void)
{
    pdl__background_stop();
    pdl__states_fini();
    return PMPI_Finalize();
}
