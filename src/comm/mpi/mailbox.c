/*
 * The segment and its channels.
 *
 * Each channel has one writer and one reader: a counter of messages written, one of messages released, each in a cache line of its
 * own, and slots in turn. The name of the segment exists until all ranks have mapped it, so that nothing is left behind by a job
 * that ends.
 */
#include "comm/mpi/mailbox.h"

#include "base/memory.h"
#include "comm/choose.h"
#include "comm/mpi/check.h"

#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define SLOTS      8
#define MOST_RANKS 8  /* channels grow as their square */
#define MOST_LIVE  16 /* segments of a process that makes them: a program may have any number of communicators */
#define LINE       128
#define PAGE_BYTES 4096
#define LOOKS      100  /* in vain, after which MPI is given time, ... */
#define PATIENCE   1000 /* ... others are given the core, ... */
#define SHORT      20   /* ... and so many where this was needed the last time */

typedef struct channel {
    _Alignas(LINE) _Atomic unsigned written;
    _Alignas(LINE) _Atomic unsigned released;
    _Alignas(LINE) char slot[SLOTS][PDL__MAILBOX_SLOT_BYTES];
} channel_t;

struct pdl_mailbox {
    channel_t *channel; /* from rank a to rank b: number a * ranks + b */
    int        rank, ranks;
    int64_t    most_bytes;
    int        looks; /* in vain, one after the other */
    MPI_Comm   comm;
};

static _Atomic int live, names;

static size_t segment_bytes(int ranks)
{
    return (size_t)ranks * (size_t)ranks * sizeof(channel_t);
}

/* Whether all ranks are on one machine, as MPI sees it. */
static pdl_status_t share_machine(MPI_Comm comm, int rank, int ranks, bool *one)
{
    MPI_Comm     node;
    int64_t      mine, fewest = 0;
    int          size = 0;
    pdl_status_t status =
        PDL_MPI(pdl__mpi->Comm_split_type(comm, MPI_COMM_TYPE_SHARED, rank, pdl__mpi->info_null, &node));

    if (status) return status;
    status = PDL_MPI(pdl__mpi->Comm_size(node, &size));
    pdl__mpi->Comm_free(&node);
    mine = size;
    if (!status)
        status = PDL_MPI(pdl__mpi->Allreduce(&mine, &fewest, 1, pdl__mpi->int64, pdl__mpi->op[PDL__OP_MIN], comm));
    *one = fewest == ranks;
    return status;
}

/* Maps the segment of this name; NULL where it cannot be had. All of it is there from the start: a machine without room for it would
   end the job when it is used. */
static channel_t *map(const char *name, size_t bytes, bool create)
{
    int   file = shm_open(name, create ? O_CREAT | O_EXCL | O_RDWR : O_RDWR, 0600);
    void *memory = MAP_FAILED;

    if (file < 0) return NULL;
    if (!create || posix_fallocate(file, 0, (off_t)bytes) == 0)
        memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (memory == MAP_FAILED && create) shm_unlink(name);
    return memory == MAP_FAILED ? NULL : memory;
}

/* The first message through a slot would otherwise pay for its pages. */
static void touch(const pdl_mailbox_t *mailbox)
{
    for (int other = 0; other < mailbox->ranks; other++) {
        const volatile char *in = (const char *)&mailbox->channel[other * mailbox->ranks + mailbox->rank];
        volatile char       *out = (char *)&mailbox->channel[mailbox->rank * mailbox->ranks + other];

        for (size_t at = 0; at < sizeof(channel_t); at += PAGE_BYTES) {
            (void)in[at];
            out[at] = 0; /* as it is in a new segment, which nobody uses yet */
        }
    }
}

/* All ranks map it, or none; the first one decides. */
static pdl_status_t join(pdl_mailbox_t *mailbox)
{
    char         name[64] = "";
    int64_t      here, all = 0;
    size_t       bytes = segment_bytes(mailbox->ranks);
    pdl_status_t status;

    mailbox->most_bytes = pdl__shared_limit();
    if (mailbox->rank == 0 && mailbox->most_bytes > 0 && atomic_load(&live) < MOST_LIVE) {
        snprintf(name, sizeof(name), "/paradl-%ld-%d", (long)getpid(), atomic_fetch_add(&names, 1));
        mailbox->channel = map(name, bytes, true);
        if (mailbox->channel == NULL) name[0] = '\0';
    }
    status = PDL_MPI(pdl__mpi->Bcast(&mailbox->most_bytes, 1, pdl__mpi->int64, 0, mailbox->comm));
    if (!status) status = PDL_MPI(pdl__mpi->Bcast(name, sizeof(name), pdl__mpi->character, 0, mailbox->comm));
    if (status || name[0] == '\0') return status;
    if (mailbox->rank != 0) mailbox->channel = map(name, bytes, false);
    here = mailbox->channel != NULL;
    if (here) touch(mailbox);
    status =
        PDL_MPI(pdl__mpi->Allreduce(&here, &all, 1, pdl__mpi->int64, pdl__mpi->op[PDL__OP_MIN], mailbox->comm));
    if (mailbox->rank == 0) shm_unlink(name);
    if ((status || !all) && mailbox->channel != NULL) {
        munmap(mailbox->channel, bytes);
        mailbox->channel = NULL;
    }
    return status;
}

pdl_status_t pdl_mailbox_create(MPI_Comm comm, pdl_mailbox_t **result)
{
    pdl_mailbox_t *mailbox = calloc(1, sizeof(*mailbox));
    bool           one = false;
    pdl_status_t   status = pdl__mpi_load();

    *result = NULL;
    if (!status && mailbox == NULL) status = pdl__no_memory("for memory that ranks share");
    if (!status) mailbox->comm = comm;
    if (!status) status = PDL_MPI(pdl__mpi->Comm_rank(comm, &mailbox->rank));
    if (!status) status = PDL_MPI(pdl__mpi->Comm_size(comm, &mailbox->ranks));
    if (!status && mailbox->ranks > 1 && mailbox->ranks <= MOST_RANKS)
        status = share_machine(comm, mailbox->rank, mailbox->ranks, &one);
    if (!status && one) status = join(mailbox);
    if (!status && mailbox->channel != NULL) {
        atomic_fetch_add(&live, 1);
        *result = mailbox;
        return PDL_OK;
    }
    free(mailbox);
    return status;
}

void pdl_mailbox_destroy(pdl_mailbox_t *mailbox)
{
    if (mailbox == NULL) return;
    munmap(mailbox->channel, segment_bytes(mailbox->ranks));
    atomic_fetch_sub(&live, 1);
    free(mailbox);
}

int64_t pdl__mailbox_limit(const pdl_mailbox_t *mailbox)
{
    return mailbox != NULL ? mailbox->most_bytes : 0;
}

bool pdl__mailbox_takes(const pdl_mailbox_t *mailbox, int64_t bytes, int64_t extent)
{
    return mailbox != NULL && extent <= PDL__MAILBOX_SLOT_BYTES &&
           pdl__goes_shared(mailbox->ranks, mailbox->most_bytes, (double)bytes);
}

bool pdl__mailbox_send(pdl_mailbox_t *mailbox, int to, const void *from, size_t bytes)
{
    channel_t *channel = &mailbox->channel[mailbox->rank * mailbox->ranks + to];
    unsigned   written = atomic_load_explicit(&channel->written, memory_order_relaxed);

    if (written - atomic_load_explicit(&channel->released, memory_order_acquire) == SLOTS) return false;
    memcpy(channel->slot[written % SLOTS], from, bytes);
    atomic_store_explicit(&channel->written, written + 1, memory_order_release);
    return true;
}

const char *pdl__mailbox_oldest(pdl_mailbox_t *mailbox, int from)
{
    channel_t *channel = &mailbox->channel[from * mailbox->ranks + mailbox->rank];
    unsigned   released = atomic_load_explicit(&channel->released, memory_order_relaxed);

    if (atomic_load_explicit(&channel->written, memory_order_acquire) == released) return NULL;
    return channel->slot[released % SLOTS];
}

void pdl__mailbox_release(pdl_mailbox_t *mailbox, int from)
{
    channel_t *channel = &mailbox->channel[from * mailbox->ranks + mailbox->rank];
    unsigned   released = atomic_load_explicit(&channel->released, memory_order_relaxed);

    atomic_store_explicit(&channel->released, released + 1, memory_order_release);
}

void pdl__mailbox_relax(pdl_mailbox_t *mailbox, bool in_vain)
{
    int flag;

    if (!in_vain) {
        mailbox->looks = mailbox->looks > PATIENCE ? PATIENCE - SHORT : 0;
        return;
    }
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
    if (mailbox->looks % LOOKS == LOOKS - 1)
        pdl__mpi->Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, mailbox->comm, &flag, MPI_STATUS_IGNORE);
    if (mailbox->looks > PATIENCE) sched_yield();
    if (mailbox->looks++ > 2 * PATIENCE) mailbox->looks = PATIENCE;
}
