/*
 * What the machine can do at most: multiply-adds, memory, storage; and what it is made of.
 */
#include "base/clock.h"
#include "base/plugin.h"
#include "train/calibrate/calibrate.h"
#include "train/exec/session.h"
#include <fcntl.h>
#include <paradl/train/train.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_THREADS   256
#define STREAM_FLOATS ((size_t)6 << 20) /* of each of three arrays: together beyond the caches of most cores */
#define STREAM_BYTES  (3 * STREAM_FLOATS * sizeof(float))
#define FMA_S         0.1
#define STORAGE_PIECE ((size_t)1 << 20)

/* A speed found out by one thread, and the memory that it works on. */
typedef struct worker {
    void (*run)(struct worker *worker);
    pthread_barrier_t *begin;
    float             *memory;
    int                rounds;
    double             per_s;
} worker_t;

static void run_fma(worker_t *w)
{
    w->per_s = pdl_cpu_fma_speed(FMA_S, NULL);
}

/* a = b + s c: two arrays read, one written. The best round counts, for others only slow it down. */
static void run_stream(worker_t *w)
{
    float *restrict a = w->memory, *b = a + STREAM_FLOATS, *c = b + STREAM_FLOATS;

    for (int round = 0; round < w->rounds; round++) {
        double start_s = pdl__seconds();
        for (size_t i = 0; i < STREAM_FLOATS; i++) a[i] = b[i] + 0.5F * c[i];
        double per_s = (double)STREAM_BYTES / (pdl__seconds() - start_s);
        if (per_s > w->per_s) w->per_s = per_s;
    }
}

static void *enter(void *argument)
{
    worker_t *w = argument;

    pthread_barrier_wait(w->begin);
    w->run(w);
    return NULL;
}

/* The sum over the threads of this rank. */
static pdl_status_t on_threads(int threads, int rounds, void (*run)(worker_t *), float *memory, double *per_s)
{
    pthread_t         handle[MAX_THREADS];
    worker_t          worker[MAX_THREADS];
    pthread_barrier_t begin;
    int               started = 1;

    if (threads > MAX_THREADS) threads = MAX_THREADS;
    pthread_barrier_init(&begin, NULL, (unsigned)threads);
    for (int i = 0; i < threads; i++)
        worker[i] = (worker_t){.run = run,
                               .begin = &begin,
                               .rounds = rounds,
                               .memory = memory ? memory + (size_t)i * 3 * STREAM_FLOATS : NULL};
    while (started < threads && pthread_create(&handle[started], NULL, enter, &worker[started]) == 0) started++;
    if (started < threads) return pdl_error(PDL_ERR_NOMEM, "cannot start %d threads: lower --threads", threads);
    enter(&worker[0]);
    *per_s = worker[0].per_s;
    for (int i = 1; i < threads; i++) {
        pthread_join(handle[i], NULL);
        *per_s += worker[i].per_s;
    }
    pthread_barrier_destroy(&begin);
    return PDL_OK;
}

/* Once on the first rank alone, once on all at the same time; of these the mean. */
static pdl_status_t both(pdl__calibrate_t *c, void (*run)(worker_t *), float *memory, double *alone, double *all)
{
    int          rounds = c->options->quick ? 4 : 10;
    double       values[2] = {0, 0};
    pdl_status_t status = PDL_OK;

    if (pdl_ranks_rank(c->ranks) == 0) status = on_threads(c->options->threads, rounds, run, memory, &values[0]);
    status = pdl_ranks_agree(c->ranks, status);
    if (!status)
        status = pdl_ranks_agree(c->ranks, on_threads(c->options->threads, rounds, run, memory, &values[1]));
    if (!status) status = pdl_ranks_sum(c->ranks, values, 2);
    *alone = values[0];
    *all = values[1] / pdl_ranks_size(c->ranks);
    return status;
}

static pdl_status_t measure_ceilings(pdl__calibrate_t *c)
{
    pdl_calibration_t *r = c->result;
    size_t             threads = (size_t)(c->options->threads < MAX_THREADS ? c->options->threads : MAX_THREADS);
    float             *memory = pdl_memory_take(threads * STREAM_BYTES);
    pdl_status_t       status = PDL_OK;

    if (!memory) status = pdl_error(PDL_ERR_NOMEM, "no memory to measure its speed");
    status = pdl_ranks_agree(c->ranks, status);
    if (!status) status = both(c, run_fma, NULL, &r->flop_per_s_alone, &r->flop_per_s);
    if (!status) status = both(c, run_stream, memory, &r->bytes_per_s_alone, &r->bytes_per_s);
    if (memory) pdl_memory_give(memory, threads * STREAM_BYTES);
    if (status) return status;
    pdl__calibrate_say(c, "multiply-adds: %.1f GFLOP/s a device, %.1f when all compute", 1e-9 * r->flop_per_s_alone,
                       1e-9 * r->flop_per_s);
    pdl__calibrate_say(c, "memory: %.1f GB/s a device, %.1f when all read", 1e-9 * r->bytes_per_s_alone,
                       1e-9 * r->bytes_per_s);
    return PDL_OK;
}

/* A file that nobody else sees, where samples are kept if that folder exists. */
static int open_scratch(void)
{
    char        folder[3900], path[4096];
    const char *folders[] = {pdl_data_folder(folder, sizeof(folder)), getenv("TMPDIR"), "/tmp"};

    for (int i = 0; i < 3; i++) {
        if (!folders[i]) continue;
        snprintf(path, sizeof(path), "%s/calibrate-XXXXXX", folders[i]);
        int file = mkstemp(path);
        if (file < 0) continue;
        unlink(path);
        return file;
    }
    return -1;
}

/* Bytes per second read back after the pages have been given up; 0 when that was not possible. */
static double storage_speed(size_t pieces)
{
    char  *piece = malloc(STORAGE_PIECE);
    int    file = piece ? open_scratch() : -1;
    double speed = 0;
    size_t done = 0;

    if (file >= 0) {
        for (size_t i = 0; i < STORAGE_PIECE; i++) piece[i] = (char)(i * 2654435761U >> 13);
        while (done < pieces && write(file, piece, STORAGE_PIECE) == (ssize_t)STORAGE_PIECE) done++;
        if (done == pieces && fsync(file) == 0 && posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED) == 0) {
            double start_s = pdl__seconds();
            for (done = 0; done < pieces; done++)
                if (pread(file, piece, STORAGE_PIECE, (off_t)(done * STORAGE_PIECE)) != (ssize_t)STORAGE_PIECE)
                    break;
            if (done == pieces) speed = (double)(pieces * STORAGE_PIECE) / (pdl__seconds() - start_s);
        }
        close(file);
    }
    free(piece);
    return speed;
}

/* Samples a second that one loader thread delivers: of Fashion-MNIST where it is, else made up ones of that size. */
static pdl_status_t measure_samples(pdl__calibrate_t *c)
{
    char                 path[4096];
    bool                 here = pdl_data_find("fashion-mnist", NULL, path, sizeof(path)) == PDL_DATA_HERE;
    pdl_source_options_t options = {.shape = {.channels = 1, .extent = {28, 28, 1}, .rank = 2}, .classes = 10};
    pdl_global_order_t   order = {.batch = 64, .shuffle = true, .epoch = -1};
    pdl_loader_spec_t    spec = {.samples = 64,
                                 .order = pdl_global_order,
                                 .order_context = &order,
                                 .threads = 1,
                                 .depth = 1,
                                 .normalise = true};
    pdl_loader_t        *loader = NULL;
    pdl_batch_t          batch;
    int                  batches = c->options->quick ? 20 : 100;
    pdl_status_t         status = pdl_source_open(here ? "fashion-mnist" : "synthetic", &options, &spec.source);

    if (status) return status;
    order.samples = pdl_source_info(spec.source)->samples;
    spec.steps_per_epoch = pdl_global_order_steps(&order);
    status = pdl_loader_create(&spec, &loader);
    if (!status) status = pdl_loader_next(loader, &batch);
    double start_s = pdl__seconds();
    for (int i = 0; i < batches && !status; i++) status = pdl_loader_next(loader, &batch);
    c->result->samples_per_s = 64.0 * batches / (pdl__seconds() - start_s);
    pdl_loader_destroy(loader);
    pdl_global_order_free(&order);
    pdl_source_close(spec.source);
    return status;
}

pdl_status_t pdl__calibrate_machine(pdl__calibrate_t *c)
{
    pdl_calibration_t *r = c->result;
    pdl_status_t       status = c->queues ? PDL_OK : measure_ceilings(c);

    if (status) return status;
    if (pdl_ranks_rank(c->ranks) == 0) {
        r->storage_bytes_per_s = storage_speed(c->options->quick ? 32 : 128);
        status = measure_samples(c);
    }
    status = pdl_ranks_agree(c->ranks, status);
    if (status) return status;
    pdl__calibrate_say(c, "storage: %.0f MB/s; samples of 28 x 28: %.0f a second and thread",
                       1e-6 * r->storage_bytes_per_s, r->samples_per_s);
    double values[2] = {r->storage_bytes_per_s, r->samples_per_s};
    status = pdl_ranks_broadcast(c->ranks, values, sizeof(values), 0);
    r->storage_bytes_per_s = values[0];
    r->samples_per_s = values[1];
    return status;
}

/* Characters that mean something to YAML do not belong into a plain value. */
static void make_plain(char *text)
{
    for (; *text; text++)
        if (strchr(":#{}[]\"'", *text) || (unsigned char)*text < ' ') *text = ' ';
}

void pdl__calibrate_topology(pdl_calibration_t *r, const pdl_calibration_device_t *device)
{
    double host_bytes = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);

    r->memory_bytes = host_bytes / r->ranks;
    snprintf(r->libraries, sizeof(r->libraries), "oneDNN %s, hwloc %s", pdl__plugin_version(PDL__PLUGIN_DNNL),
             pdl__plugin_version(PDL__PLUGIN_HWLOC));
    pdl_cpu_describe(r->processor, sizeof(r->processor), r->topology, sizeof(r->topology));
    if (device != NULL) {
        r->host_bytes = host_bytes / r->devices;
        r->memory_bytes = device->memory_bytes;
        r->threads = device->units;
        snprintf(r->processor, sizeof(r->processor), "%s", device->name);
        snprintf(r->libraries, sizeof(r->libraries), "%s", device->versions);
    }
    make_plain(r->processor);
    make_plain(r->libraries);
}
