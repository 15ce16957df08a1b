/*
 * What is kept about a communicator: it hangs on the communicator as an attribute, and goes when that goes.
 *
 * Our messages use a communicator of the same ranks. It is made by splitting and not by duplicating, because
 * duplication calls the program's own attribute functions.
 */
#include "comm/interpose/interpose.h"

#include "comm/hosts.h"
#include "comm/mpi/check.h"
#include "comm/mpi/host_order.h"

#include <stdio.h>
#include <stdlib.h>

/* Fixed, so that a program gives the same bits in every run. */
#define NODE_LATENCY_S    0.3e-6
#define NETWORK_LATENCY_S 2e-6
#define PROBE_ROUNDS      8
#define PROBE_BYTES       (256 * 1024)

static pthread_mutex_t keyval_lock = PTHREAD_MUTEX_INITIALIZER;
static int             keyval = MPI_KEYVAL_INVALID;

/* After MPI_Finalize has begun, communicators can no longer be freed; then this is never called. */
static int delete_state(MPI_Comm comm, int key, void *value, void *extra)
{
    pdl__state_t *state = value;

    (void)comm;
    (void)key;
    (void)extra;
    pdl__background_drain(state);
    pdl__plans_fini(state);
    if (state->background != MPI_COMM_NULL) PMPI_Comm_free(&state->background);
    pdl_mailbox_destroy(state->mailbox);
    if (state->comm != MPI_COMM_NULL) PMPI_Comm_free(&state->comm);
    free(state->scratch);
    free(state);
    return MPI_SUCCESS;
}

static pdl_status_t make_keyval(void)
{
    pdl_status_t status = PDL_OK;

    pthread_mutex_lock(&keyval_lock);
    if (keyval == MPI_KEYVAL_INVALID)
        status = PDL_MPI(PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, delete_state, &keyval, NULL));
    pthread_mutex_unlock(&keyval_lock);
    return status;
}

pdl__state_t *pdl__state_if_any(MPI_Comm comm)
{
    void *value;
    int   found;

    if (keyval == MPI_KEYVAL_INVALID) return NULL;
    if (PMPI_Comm_get_attr(comm, keyval, &value, &found) != MPI_SUCCESS || !found) return NULL;
    return value;
}

/* Seconds for `bytes` to the next rank while the previous one sends to us, of the slowest rank. */
static pdl_status_t time_shift(const pdl__state_t *state, char *buffer, int bytes, double *seconds)
{
    int          to = (state->rank + 1) % state->ranks, from = (state->rank + state->ranks - 1) % state->ranks;
    pdl_status_t status = PDL_OK;
    double       best = 1e30, begin;

    for (int i = 0; !status && i < PROBE_ROUNDS; i++) {
        begin = PMPI_Wtime();
        status = PDL_MPI(PMPI_Sendrecv(buffer, bytes, MPI_BYTE, to, 0, buffer + PROBE_BYTES, bytes, MPI_BYTE, from,
                                       0, state->comm, MPI_STATUS_IGNORE));
        if (PMPI_Wtime() - begin < best) best = PMPI_Wtime() - begin;
    }
    /* All ranks must choose alike, so they share one figure. */
    if (!status) status = PDL_MPI(PMPI_Allreduce(&best, seconds, 1, MPI_DOUBLE, MPI_MAX, state->comm));
    return status;
}

static pdl_status_t measure(pdl__state_t *state)
{
    double       small, large;
    char        *buffer = calloc(2, PROBE_BYTES);
    pdl_status_t status;

    if (buffer == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory");
    status = time_shift(state, buffer, 1, &small);
    if (!status) status = time_shift(state, buffer, PROBE_BYTES, &large);
    free(buffer);
    if (status || small <= 0 || large <= small) return status;
    state->latency_s = small;
    state->bytes_per_s = PROBE_BYTES / (large - small);
    if (pdl__settings()->verbose && state->rank == 0)
        fprintf(stderr, "paradl-mpi: %d ranks, latency %.3g us, bandwidth %.3g GB/s\n", state->ranks, small * 1e6,
                state->bytes_per_s / 1e9);
    return PDL_OK;
}

static pdl_status_t split(MPI_Comm comm, int rank, MPI_Comm *ours)
{
    pdl_status_t status = PDL_MPI(PMPI_Comm_split(comm, 0, rank, ours));

    return status ? status : PDL_MPI(PMPI_Comm_set_errhandler(*ours, MPI_ERRORS_RETURN));
}

static pdl_status_t look_for_nodes(pdl__state_t *state)
{
    MPI_Comm     node = MPI_COMM_NULL;
    int          size = 0, fewest = 0;
    pdl_status_t status =
        PDL_MPI(PMPI_Comm_split_type(state->comm, MPI_COMM_TYPE_SHARED, state->rank, MPI_INFO_NULL, &node));

    if (status) return status;
    status = PDL_MPI(PMPI_Comm_size(node, &size));
    PMPI_Comm_free(&node);
    if (!status) status = PDL_MPI(PMPI_Allreduce(&size, &fewest, 1, MPI_INT, MPI_MIN, state->comm));
    state->one_node = fewest == state->ranks;
    return status;
}

/* The network that was measured, where all its hosts take part in the order of that measurement. */
static pdl_status_t look_for_network(pdl__state_t *state)
{
    static bool     said;
    pdl_topology_t *network = pdl__settings()->network;
    pdl_status_t    status;

    uint64_t order;

    if (network == NULL || state->ranks != pdl_topology_hosts(network)) return PDL_OK;
    status = pdl__host_order_find(state->comm, &order);
    if (!status) status = pdl__host_order_check(network, order);
    if (status == PDL_OK) state->network = network;
    if (status != PDL_ERR_INPUT) return status;
    if (!said) pdl__warn("PARADL_NETWORK", pdl_error_message());
    said = true;
    return PDL_OK;
}

static pdl_status_t fill_state(MPI_Comm comm, pdl__state_t *state)
{
    pdl_status_t status;

    state->comm = MPI_COMM_NULL;
    state->background = MPI_COMM_NULL;
    state->latency_s = pdl__settings()->latency_s;
    state->bytes_per_s = pdl__settings()->bytes_per_s;
    status = PDL_MPI(PMPI_Comm_rank(comm, &state->rank));
    if (!status) status = PDL_MPI(PMPI_Comm_size(comm, &state->ranks));
    if (!status) status = split(comm, state->rank, &state->comm);
    if (!status && state->ranks > 1) status = look_for_nodes(state);
    if (!status && state->one_node && pdl__settings()->network == NULL)
        status = pdl_mailbox_create(state->comm, &state->mailbox);
    if (!status) status = look_for_network(state);
    if (state->latency_s <= 0) state->latency_s = state->one_node ? NODE_LATENCY_S : NETWORK_LATENCY_S;
    if (!status && pdl__background_runs()) status = split(comm, state->rank, &state->background);
    if (!status && pdl__settings()->measure && state->ranks > 1) status = measure(state);
    return status;
}

pdl__state_t *pdl__state(MPI_Comm comm)
{
    pdl__state_t *state;
    pdl_status_t  status = make_keyval();

    if (status) return NULL;
    state = pdl__state_if_any(comm);
    if (state != NULL) return state;
    state = calloc(1, sizeof(*state));
    if (state == NULL) {
        pdl_error(PDL_ERR_NOMEM, "out of memory");
        return NULL;
    }
    status = fill_state(comm, state);
    if (!status) status = PDL_MPI(PMPI_Comm_set_attr(comm, keyval, state));
    if (!status) return state;
    delete_state(comm, keyval, state, NULL);
    return NULL;
}

void pdl__states_fini(void)
{
    if (pdl__state_if_any(MPI_COMM_WORLD) != NULL) PMPI_Comm_delete_attr(MPI_COMM_WORLD, keyval);
    if (pdl__state_if_any(MPI_COMM_SELF) != NULL) PMPI_Comm_delete_attr(MPI_COMM_SELF, keyval);
}

char *pdl__scratch(pdl__state_t *state, size_t bytes)
{
    if (bytes <= state->scratch_bytes && state->scratch != NULL) return state->scratch;
    free(state->scratch);
    state->scratch_bytes = 0;
    state->scratch = malloc(bytes > 0 ? bytes : 1);
    if (state->scratch == NULL)
        pdl_error(PDL_ERR_NOMEM, "out of memory: %zu bytes to work on", bytes);
    else
        state->scratch_bytes = bytes;
    return state->scratch;
}
