/*
 * Sends, receives and collectives of NCCL, which is loaded when it is first asked for. Communicators do not block: making one
 * for a group whose ranks do not come can be given up.
 */
#include "tensor/plugin/cuda/gpu.h"
#include "tensor/plugin/cuda/transport.h"

#if __has_include(<nccl.h>)
#include <dlfcn.h>
#include <nccl.h>
#include <sched.h>
#include <string.h>

#define LIBRARY "libnccl.so.2"

/* clang-format off */
#define FUNCTIONS(X)                                                                                          \
    X(GetUniqueId) X(CommInitRankConfig) X(CommGetAsyncError) X(CommAbort) X(GroupStart) X(GroupEnd) X(Send)  \
    X(Recv) X(AllReduce) X(ReduceScatter) X(AllGather) X(CommCount) X(CommUserRank) X(GetErrorString) X(GetLastError)
/* clang-format on */

static struct nccl {
#define FIELD(name) __typeof__(&nccl##name) name;
    FUNCTIONS(FIELD)
#undef FIELD
    void *file;
} nccl;

static pdl_status_t load(pdl__gpu_t *gpu)
{
    (void)gpu;
    if (nccl.file != NULL) return PDL_OK;
    void *file = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (file == NULL)
        return pdl_error(PDL_ERR_UNSUPPORTED,
                         "--transport nccl: %s is not found: install NCCL 2, or use --transport auto", LIBRARY);
#define FIND(name)                                                                                                 \
    if (1) {                                                                                                       \
        void *symbol = dlsym(file, "nccl" #name);                                                                  \
        if (symbol == NULL) return pdl_error(PDL_ERR_UNSUPPORTED, "%s is too old: it has no nccl" #name, LIBRARY); \
        memcpy(&nccl.name, &symbol, sizeof(symbol));                                                               \
    }
    FUNCTIONS(FIND)
#undef FIND
    nccl.file = file;
    return PDL_OK;
}

static pdl_status_t check(ncclResult_t result, const char *what)
{
    const char *more;

    if (result == ncclSuccess || result == ncclInProgress) return PDL_OK;
    more = nccl.GetLastError(NULL);
    return pdl_error(PDL_ERR_IO, "NCCL: %s: %s%s%s", what, nccl.GetErrorString(result), more[0] ? ": " : "", more);
}

static pdl_status_t identify(pdl__gpu_t *gpu, char id[PDL_LIBRARY_ID])
{
    ncclUniqueId made;
    pdl_status_t status = load(gpu);

    if (!status) status = check(nccl.GetUniqueId(&made), "ncclGetUniqueId");
    if (!status) memcpy(id, &made, sizeof(made));
    return status;
}

static pdl_status_t join(pdl__gpu_t *gpu, const char id[PDL_LIBRARY_ID], int rank, int ranks, void **communicator)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclUniqueId given;
    ncclComm_t   made = NULL;
    pdl_status_t status = load(gpu);

    if (status) return status;
    config.blocking = 0;
    memcpy(&given, id, sizeof(given));
    status = check(nccl.CommInitRankConfig(&made, ranks, given, rank, &config), "ncclCommInitRankConfig");
    *communicator = made;
    return status;
}

static pdl_status_t ready(pdl__gpu_t *gpu, void *communicator, bool *done)
{
    ncclResult_t state = ncclInProgress;
    pdl_status_t status = check(nccl.CommGetAsyncError(communicator, &state), "ncclCommGetAsyncError");

    (void)gpu;
    *done = state != ncclInProgress;
    return status ? status : check(state, "communicator");
}

/* Also of ranks that have not all come, or are lost. */
static void leave(pdl__gpu_t *gpu, void *communicator)
{
    (void)gpu;
    (void)nccl.CommAbort(communicator);
}

/* What a stream is given next comes behind a message only when the message has been enqueued. */
static pdl_status_t await(pdl__gpu_t *gpu, void *communicator, ncclResult_t result, const char *what)
{
    bool         done = result != ncclInProgress;
    pdl_status_t status = check(result, what);

    while (!status && !done) {
        status = ready(gpu, communicator, &done);
        if (!done) sched_yield();
    }
    return status;
}

/* Of one group at a time: its communicators, of which there are two in a group of ranks. */
#define MOST_GROUPED 8
static struct group {
    void *communicator[MOST_GROUPED];
    int   count;
    bool  open;
} group;

static pdl_status_t enqueued(pdl__gpu_t *gpu, void *communicator, ncclResult_t result, const char *what)
{
    int i = 0;

    if (!group.open) return await(gpu, communicator, result, what);
    while (i < group.count && group.communicator[i] != communicator) i++;
    if (i == MOST_GROUPED) return pdl_error(PDL_ERR_LIMIT, "NCCL: messages of more than %d groups together", i);
    group.communicator[i] = communicator;
    if (i == group.count) group.count++;
    return check(result, what);
}

static pdl_status_t begin(pdl__gpu_t *gpu)
{
    (void)gpu;
    group = (struct group){.open = true};
    return check(nccl.GroupStart(), "ncclGroupStart");
}

static pdl_status_t end(pdl__gpu_t *gpu)
{
    ncclResult_t result = nccl.GroupEnd();
    pdl_status_t status = check(result, "ncclGroupEnd");

    group.open = false;
    for (int i = 0; i < group.count && !status; i++)
        status = await(gpu, group.communicator[i], result, "ncclGroupEnd");
    return status;
}

static pdl_status_t send(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, void *communicator, const void *data,
                         size_t bytes, int peer)
{
    ncclResult_t result = nccl.Send(data, bytes, ncclUint8, peer, communicator, PDL__CUDA_STREAM(stream));

    return enqueued(gpu, communicator, result, "ncclSend");
}

static pdl_status_t receive(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, void *communicator, void *data,
                            size_t bytes, int peer)
{
    ncclResult_t result = nccl.Recv(data, bytes, ncclUint8, peer, communicator, PDL__CUDA_STREAM(stream));

    return enqueued(gpu, communicator, result, "ncclRecv");
}

static pdl_status_t collective(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, void *communicator,
                               pdl_library_collective_t which, float *data, int64_t count)
{
    cudaStream_t on = PDL__CUDA_STREAM(stream);
    int          ranks = 1, rank = 0;
    pdl_status_t status = check(nccl.CommCount(communicator, &ranks), "ncclCommCount");

    if (!status) status = check(nccl.CommUserRank(communicator, &rank), "ncclCommUserRank");
    if (status) return status;
    size_t part = (size_t)(count / ranks);
    float *mine = data + part * (size_t)rank;
    if (which == PDL_LIBRARY_SCATTER)
        return enqueued(gpu, communicator,
                        nccl.ReduceScatter(data, mine, part, ncclFloat, ncclSum, communicator, on),
                        "ncclReduceScatter");
    if (which == PDL_LIBRARY_GATHER)
        return enqueued(gpu, communicator, nccl.AllGather(mine, data, part, ncclFloat, communicator, on),
                        "ncclAllGather");
    return enqueued(gpu, communicator,
                    nccl.AllReduce(data, data, (size_t)count, ncclFloat, ncclSum, communicator, on),
                    "ncclAllReduce");
}

const pdl__cuda_nccl_t pdl__cuda_nccl = {.available = load,
                                         .identify = identify,
                                         .join = join,
                                         .ready = ready,
                                         .leave = leave,
                                         .begin = begin,
                                         .end = end,
                                         .send = send,
                                         .receive = receive,
                                         .collective = collective};
#else /* a machine with CUDA whose toolkit has no NCCL */
static pdl_status_t missing(pdl__gpu_t *gpu)
{
    (void)gpu;
    return pdl_error(PDL_ERR_UNSUPPORTED,
                     "--transport nccl: this build has no NCCL, because nccl.h was not found; use "
                     "--transport auto");
}

const pdl__cuda_nccl_t pdl__cuda_nccl = {.available = missing};
#endif
