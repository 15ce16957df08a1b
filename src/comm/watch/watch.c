/*
 * The thread by which a rank watches and is watched.
 */
#include "comm/watch/watch.h"

#include "base/clock.h"
#include "comm/inside.h"
#include "comm/launch.h"
#include "comm/watch/links.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define BEATS_A_LIMIT 8
#define BEAT_S        0.25 /* between heartbeats, at most; of many ranks four times as much */
#define MANY_RANKS    256
#define STRANGERS     16   /* that may stand at the door at once */
#define STRANGER_S    5.0  /* for which one may stand there */
#define UNWIND_S      20.0 /* after a loss, for the work at hand to come to an end */
#define LAUNCHER_S    1    /* for the launcher to see which rank ended first */

/* A connection to another rank. */
typedef struct link {
    int            socket; /* -1: none */
    pdl__inbox_t   inbox;
    pdl__outbox_t  outbox;
    pdl__process_t process; /* at its other end */
    double         used_s;  /* processor time that it was seen to have used; 0: not looked at */
} link_t;

typedef struct stranger {
    link_t link;
    double since_s;
} stranger_t;

static const char finishing[] = "the end of the run";

struct pdl__watch {
    int            rank, size;
    bool           one_node;
    pdl__process_t self;
    double         limit_s, beat_s;
    /* what this rank does: written by the one that works, read by the watch */
    _Atomic(uint64_t)     ticks;
    _Atomic(int64_t)      update;
    _Atomic(int)          micro_batch;
    _Atomic(bool)         waiting;
    _Atomic(const char *) doing, layer;
    /* what the watch has found; the texts do not change once `failed` is set, but for the remark */
    _Atomic(bool)   failed, over; /* ranks are lost; rank 0 has nothing more to say */
    pthread_mutex_t lock;         /* of the layer's name while it is copied, and of the links while one sends */
    pdl__verdict_t  verdict;
    bool            speaks;
    char            message[512], remark[256];
    double          failed_s;
    /* of the thread */
    pthread_t       thread;
    bool            running;
    _Atomic(bool)   stop;
    int             wake[2];
    pdl__meeting_t  meeting;
    int             listener;
    link_t         *link;    /* rank 0: to every rank; the others: to rank 0 */
    pdl__watched_t *watched; /* of these */
    int             links;
    stranger_t      stranger[STRANGERS];
    struct pollfd  *poll;
    double          turned_s; /* the last turn of the loop */
    double          beaten_s;
    double          used_s; /* processor time */
    uint64_t        moved;  /* bytes of storage */
    uint64_t        active;
    int             io; /* /proc/self/io, or -1 */
};

/* ---- the one that works ---- */

void pdl_watch_at(pdl_ranks_t *ranks, const pdl_watch_place_t *place)
{
    pdl__watch_t *w = ranks->watch;

    if (w == NULL) return;
    atomic_store_explicit(&w->update, place->update, memory_order_relaxed);
    atomic_store_explicit(&w->doing, place->doing, memory_order_relaxed);
    atomic_store_explicit(&w->layer, place->layer, memory_order_relaxed);
    atomic_store_explicit(&w->micro_batch, place->micro_batch, memory_order_relaxed);
    atomic_fetch_add_explicit(&w->ticks, 1, memory_order_relaxed);
}

void pdl_watch_forget(pdl_ranks_t *ranks)
{
    pdl__watch_t *w = ranks->watch;

    if (w == NULL) return;
    pthread_mutex_lock(&w->lock);
    atomic_store(&w->layer, NULL);
    pthread_mutex_unlock(&w->lock);
}

void pdl__watch_waits(pdl__watch_t *w, bool waits)
{
    if (w == NULL) return;
    atomic_store_explicit(&w->waiting, waits, memory_order_relaxed);
    atomic_fetch_add_explicit(&w->ticks, 1, memory_order_relaxed);
}

pdl_status_t pdl__watch_check(const pdl__watch_t *w)
{
    if (w == NULL || !atomic_load_explicit(&w->failed, memory_order_acquire)) return PDL_OK;
    return pdl_error(PDL_ERR_IO, "%s", w->message);
}

bool pdl_watch_failed(const pdl_ranks_t *ranks)
{
    return ranks->watch != NULL && atomic_load(&ranks->watch->failed);
}

bool pdl_watch_speaks(const pdl_ranks_t *ranks)
{
    return pdl_watch_failed(ranks) && ranks->watch->speaks;
}

void pdl_watch_remark(pdl_ranks_t *ranks, const char *remark)
{
    if (!pdl_watch_speaks(ranks)) return;
    snprintf(ranks->watch->remark, sizeof(ranks->watch->remark), "%s", remark);
    pdl__launch_remark(remark);
}

/* ---- what is said ---- */

static void copy_name(char *to, size_t size, const char *name)
{
    snprintf(to, size, "%s", name != NULL ? name : "");
}

/* Whether something was read from storage or written to it. */
static bool storage_moves(pdl__watch_t *w)
{
    char        text[512];
    ssize_t     length = w->io >= 0 ? pread(w->io, text, sizeof(text) - 1, 0) : -1;
    const char *found;
    uint64_t    bytes = 0;

    if (length <= 0) return false;
    text[length] = '\0';
    for (const char *from = text; (found = strstr(from, "_bytes: ")) != NULL; from = found + 8)
        bytes += strtoull(found + 8, NULL, 10);
    bool moves = bytes != w->moved;
    w->moved = bytes;
    return moves;
}

/* Whether this rank has used processor time that a heartbeat itself cannot have used, or waits for a core. */
static bool computes(pdl__watch_t *w, double since_s)
{
    struct timespec used;
    bool            ready;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    double used_s = (double)used.tv_sec + 1e-9 * (double)used.tv_nsec, more_s = used_s - w->used_s;
    w->used_s = used_s;
    if (more_s > 0.002 * since_s + 0.0005) return true;
    pdl__process_used_s(&w->self, &ready);
    return ready;
}

static pdl__record_t record_of(pdl__watch_t *w, double since_s)
{
    pdl__record_t record = {.ticks = atomic_load(&w->ticks),
                            .update = atomic_load(&w->update),
                            .micro_batch = atomic_load(&w->micro_batch),
                            .waiting = atomic_load(&w->waiting)};
    bool          moves = storage_moves(w), works = computes(w, since_s);

    if (moves || works) w->active++;
    record.active = w->active;
    copy_name(record.doing, sizeof(record.doing), atomic_load(&w->doing));
    pthread_mutex_lock(&w->lock);
    copy_name(record.layer, sizeof(record.layer), atomic_load(&w->layer));
    pthread_mutex_unlock(&w->lock);
    return record;
}

static void send_all(pdl__watch_t *w, const pdl__frame_t *frame)
{
    pthread_mutex_lock(&w->lock);
    for (int i = 0; i < w->links; i++)
        if (w->link[i].socket >= 0) pdl__outbox_send(w->link[i].socket, &w->link[i].outbox, frame);
    pthread_mutex_unlock(&w->lock);
}

static void beat(pdl__watch_t *w, double now_s)
{
    pdl__frame_t frame = {.kind = PDL__FRAME_BEAT, .rank = w->rank, .record = record_of(w, now_s - w->beaten_s)};

    w->beaten_s = now_s;
    if (w->rank == 0) pdl__watched_hear(&w->watched[0], &frame.record, now_s);
    send_all(w, &frame);
}

/* ---- what is found ---- */

static void fail(pdl__watch_t *w, const char *message, int speaker)
{
    snprintf(w->message, sizeof(w->message), "%s", message);
    w->speaks = speaker == w->rank;
    w->failed_s = pdl__seconds();
    atomic_store_explicit(&w->failed, true, memory_order_release);
}

/* A launcher of ours knows what ended a rank, and says so itself. */
static void report(const pdl__verdict_t *v)
{
    pdl__launch_loss_t loss = {.died = v->fault == PDL__FAULT_DIED,
                               .count = v->fault == PDL__FAULT_KNOT ? 0 : v->count};

    snprintf(loss.who, sizeof(loss.who), "%s", v->who);
    snprintf(loss.text, sizeof(loss.text), "%s", v->text);
    pdl__launch_report(&loss);
}

static void pass_sentence(pdl__watch_t *w, const pdl__verdict_t *v)
{
    pdl__frame_t frame = {.kind = PDL__FRAME_LOST};
    char         message[sizeof(w->message)];
    int          speaker = v->speaker >= 0 ? v->speaker : w->rank == 0 ? 0 : 1;

    if (v->fault == PDL__FAULT_DIED)
        snprintf(message, sizeof(message), "%s ended without a word, %s", v->who, v->text);
    else
        snprintf(message, sizeof(message), "%s", v->text);
    memcpy(frame.text, message, strnlen(message, sizeof(frame.text) - 1));
    frame.rank = speaker;
    if (w->rank == 0 || w->rank == speaker) report(v);
    if (w->rank == 0) send_all(w, &frame);
    fail(w, message, speaker);
}

/* After a loss a rank that does not come to its end by itself is ended; a checkpoint may take its time. */
static void enforce(const pdl__watch_t *w, double now_s)
{
    const char *doing = atomic_load(&w->doing);

    if (doing != finishing && now_s - w->failed_s < UNWIND_S) return;
    if (doing != NULL && strcmp(doing, "writing a checkpoint") == 0) return;
    if (w->speaks && !pdl__launch_reports()) fprintf(stderr, "paradl: %s\n", w->message);
    _exit(1);
}

/* Where many share a core a rank may not get round to its heartbeats. On this machine others can see that it runs. */
static void look_at_silent(pdl__watch_t *w, double now_s)
{
    for (int i = 0; i < w->links && w->one_node && w->limit_s > 0; i++) {
        double silent_s = now_s - w->watched[i].heard_s;

        if (w->link[i].socket < 0 || silent_s < w->limit_s / 2) continue;
        if (w->link[i].used_s > 0 && silent_s < w->limit_s) continue;
        bool   ready;
        double used_s = pdl__process_used_s(&w->link[i].process, &ready);
        if (ready || (w->link[i].used_s > 0 && used_s > w->link[i].used_s)) w->watched[i].heard_s = now_s;
        w->link[i].used_s = used_s > 0 && silent_s < w->limit_s ? used_s : 0;
    }
}

static void judge(pdl__watch_t *w, double now_s)
{
    look_at_silent(w, now_s);
    pdl__verdict_t verdict = pdl__judge(w->watched, 0, w->links, now_s, w->limit_s);

    if (verdict.fault != PDL__FAULT_NONE) pass_sentence(w, &verdict);
}

/* Nobody is to blame for a time in which this process itself was stopped, or did not get a core: the others fare alike,
   or what they have sent was not read. */
static void forgive(pdl__watch_t *w, double now_s)
{
    double late_s = now_s - w->turned_s - w->beat_s;

    w->turned_s = now_s;
    if (late_s < w->beat_s / 4) return;
    for (int i = 0; i < w->links; i++) {
        w->watched[i].heard_s += late_s;
        w->watched[i].active_s += late_s;
        w->watched[i].moved_s += late_s;
    }
}

/* ---- what arrives ---- */

static void hang_up(link_t *link)
{
    if (link->socket >= 0) close(link->socket);
    link->socket = -1;
}

static void take_frame(pdl__watch_t *w, int i, const pdl__frame_t *frame, double now_s)
{
    if (frame->kind == PDL__FRAME_BEAT) pdl__watched_hear(&w->watched[i], &frame->record, now_s);
    if (frame->kind == PDL__FRAME_BYE) w->watched[i].left = true;
    if (frame->kind == PDL__FRAME_BYE && w->rank != 0) atomic_store(&w->over, true);
    if (frame->kind == PDL__FRAME_LOST && w->rank != 0 && !atomic_load(&w->failed))
        fail(w, frame->text, frame->rank);
}

static void read_link(pdl__watch_t *w, int i, double now_s)
{
    pdl__arrival_t arrival;
    pdl__frame_t   frame;

    while ((arrival = pdl__inbox_read(w->link[i].socket, &w->link[i].inbox, &frame)) == PDL__ARRIVAL_FRAME)
        take_frame(w, i, &frame, now_s);
    if (arrival == PDL__ARRIVAL_NONE) return;
    pthread_mutex_lock(&w->lock);
    hang_up(&w->link[i]);
    pthread_mutex_unlock(&w->lock);
    w->watched[i].closed = true;
    if (w->rank != 0) atomic_store(&w->over, true);
}

static void let_in(pdl__watch_t *w, double now_s)
{
    int socket;

    while ((socket = pdl__meeting_accept(w->listener)) >= 0) {
        stranger_t *oldest = &w->stranger[0];

        for (int s = 0; s < STRANGERS; s++) {
            stranger_t *one = &w->stranger[s];
            if (one->link.socket < 0 || (oldest->link.socket >= 0 && one->since_s < oldest->since_s)) oldest = one;
        }
        hang_up(&oldest->link);
        *oldest = (stranger_t){.link = {.socket = socket}, .since_s = now_s};
    }
}

/* A rank that says hello takes its place; anybody else is shown the door. */
static void ask_name(pdl__watch_t *w, stranger_t *stranger, double now_s)
{
    pdl__frame_t   hello;
    pdl__arrival_t arrival = pdl__inbox_read(stranger->link.socket, &stranger->link.inbox, &hello);
    bool           knows = arrival == PDL__ARRIVAL_FRAME && pdl__meeting_knows(&w->meeting, &hello);

    if (arrival == PDL__ARRIVAL_NONE && now_s - stranger->since_s < STRANGER_S) return;
    if (knows && hello.rank > 0 && hello.rank < w->size && w->link[hello.rank].socket < 0 &&
        !w->watched[hello.rank].closed) {
        pthread_mutex_lock(&w->lock);
        w->link[hello.rank] = stranger->link;
        w->link[hello.rank].process = hello.process;
        pthread_mutex_unlock(&w->lock);
        stranger->link.socket = -1;
    } else {
        hang_up(&stranger->link);
    }
}

/* ---- the loop ---- */

static int list_sockets(pdl__watch_t *w)
{
    int count = 0;

    w->poll[count++] = (struct pollfd){.fd = w->wake[0], .events = POLLIN};
    if (w->listener >= 0) w->poll[count++] = (struct pollfd){.fd = w->listener, .events = POLLIN};
    for (int s = 0; s < STRANGERS; s++)
        if (w->stranger[s].link.socket >= 0)
            w->poll[count++] = (struct pollfd){.fd = w->stranger[s].link.socket, .events = POLLIN};
    for (int i = 0; i < w->links; i++)
        if (w->link[i].socket >= 0) w->poll[count++] = (struct pollfd){.fd = w->link[i].socket, .events = POLLIN};
    return count;
}

static void read_all(pdl__watch_t *w)
{
    double now_s = pdl__seconds();

    if (w->listener >= 0) let_in(w, now_s);
    for (int s = 0; s < STRANGERS; s++)
        if (w->stranger[s].link.socket >= 0) ask_name(w, &w->stranger[s], now_s);
    for (int i = 0; i < w->links; i++)
        if (w->link[i].socket >= 0) read_link(w, i, now_s);
}

static void *watch(void *context)
{
    pdl__watch_t *w = context;

    w->turned_s = pdl__seconds();
    w->beaten_s = w->turned_s;
    for (int i = 0; i < w->links; i++)
        w->watched[i].heard_s = w->watched[i].active_s = w->watched[i].moved_s = w->turned_s;
    while (!atomic_load(&w->stop)) {
        double now_s = pdl__seconds();

        forgive(w, now_s);
        read_all(w);
        if (now_s - w->beaten_s >= w->beat_s) beat(w, now_s);
        if (atomic_load(&w->failed))
            enforce(w, now_s);
        else
            judge(w, now_s);
        double left_s = w->beaten_s + w->beat_s - pdl__seconds();
        poll(w->poll, (nfds_t)list_sockets(w), left_s > 0 ? (int)(1000 * left_s) + 1 : 0);
    }
    return NULL;
}

/* ---- beginning and end ---- */

static pdl_status_t create(const pdl_ranks_t *ranks, double limit_s, pdl__watch_t **result)
{
    pdl__watch_t *w = calloc(1, sizeof(*w));

    if (w == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory");
    w->rank = ranks->rank;
    w->size = ranks->size;
    w->one_node = ranks->node_size == ranks->size;
    w->self = pdl__process_self();
    w->limit_s = limit_s;
    w->beat_s = ranks->size > MANY_RANKS ? 4 * BEAT_S : BEAT_S;
    if (limit_s > 0 && limit_s < BEATS_A_LIMIT * w->beat_s) w->beat_s = limit_s / BEATS_A_LIMIT;
    w->links = ranks->rank == 0 ? ranks->size : 1;
    w->listener = w->wake[0] = w->wake[1] = -1;
    pthread_mutex_init(&w->lock, NULL);
    w->io = open("/proc/self/io", O_RDONLY | O_CLOEXEC);
    for (int s = 0; s < STRANGERS; s++) w->stranger[s].link.socket = -1;
    w->link = calloc((size_t)w->links, sizeof(*w->link));
    w->watched = calloc((size_t)w->links, sizeof(*w->watched));
    w->poll = calloc((size_t)w->links + STRANGERS + 2, sizeof(*w->poll));
    if (w->link == NULL || w->watched == NULL || w->poll == NULL) {
        w->links = 0;
        pdl__watch_destroy(w);
        return pdl_error(PDL_ERR_NOMEM, "out of memory");
    }
    for (int i = 0; i < w->links; i++) w->link[i].socket = -1;
    *result = w;
    return PDL_OK;
}

/* Connections wait in the queue of the listener until the thread of rank 0 lets them in. */
static pdl_status_t meet(pdl_ranks_t *ranks, pdl__watch_t *w)
{
    if (w->rank == 0) w->listener = pdl__meeting_open(w->one_node, w->size, &w->meeting);
    pdl_status_t status = pdl_ranks_broadcast(ranks, &w->meeting, sizeof(w->meeting), 0);
    if (status) return status;
    if (w->rank != 0 && w->meeting.port != 0) w->link[0].socket = pdl__meeting_join(&w->meeting, w->rank);
    if (w->rank != 0) w->link[0].process = w->meeting.process;
    return PDL_OK;
}

static bool start_thread(pdl__watch_t *w)
{
    sigset_t all, before;

    if (w->rank == 0 ? w->listener < 0 : w->link[0].socket < 0) return false;
    if (pipe(w->wake) != 0) return false;
    for (int i = 0; i < 2; i++) fcntl(w->wake[i], F_SETFD, FD_CLOEXEC);
    /* Signals are for the threads that know what to do with them. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    w->running = pthread_create(&w->thread, NULL, watch, w) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return w->running;
}

pdl_status_t pdl_watch_start(pdl_ranks_t *ranks, double limit_s, bool *watched)
{
    pdl__watch_t *w = NULL;
    double        failed;

    if (watched != NULL) *watched = false;
    if (ranks->size == 1 || ranks->dry || ranks->watch != NULL) return PDL_OK;
    pdl_status_t status = pdl_ranks_agree(ranks, create(ranks, limit_s, &w));
    if (!status) status = meet(ranks, w);
    failed = status || !start_thread(w);
    if (!status) status = pdl_ranks_max(ranks, &failed, 1);
    if (status || failed > 0) {
        pdl__watch_leave(w);
        pdl__watch_destroy(w);
        return status;
    }
    ranks->watch = w;
    pdl__world_watch(ranks->world, w);
    if (watched != NULL) *watched = true;
    return PDL_OK;
}

void pdl__watch_finishes(pdl_ranks_t *ranks)
{
    pdl_watch_at(ranks, &(pdl_watch_place_t){.doing = finishing});
    pdl__watch_waits(ranks->watch, true);
}

void pdl__watch_leave(pdl__watch_t *w)
{
    pdl__frame_t bye = {.kind = PDL__FRAME_BYE};

    if (w == NULL) return;
    bye.rank = w->rank;
    send_all(w, &bye);
}

static void stop_thread(pdl__watch_t *w)
{
    atomic_store(&w->stop, true);
    if (!w->running) return;
    while (write(w->wake[1], "", 1) < 0 && errno == EINTR) continue;
    pthread_join(w->thread, NULL);
    w->running = false;
}

void pdl__watch_destroy(pdl__watch_t *w)
{
    if (w == NULL) return;
    stop_thread(w);
    for (int i = 0; i < w->links; i++) hang_up(&w->link[i]);
    for (int s = 0; s < STRANGERS; s++) hang_up(&w->stranger[s].link);
    for (int i = 0; i < 2; i++)
        if (w->wake[i] >= 0) close(w->wake[i]);
    if (w->listener >= 0) close(w->listener);
    if (w->io >= 0) close(w->io);
    pthread_mutex_destroy(&w->lock);
    free(w->link);
    free(w->watched);
    free(w->poll);
    free(w);
}

/* Ranks that are stopped cannot be asked to end. If they went on for a moment instead they would complain of the others. */
static void kill_silent(pdl__watch_t *w)
{
    double now_s = pdl__seconds();

    if (!w->one_node) return;
    stop_thread(w); /* what it has heard is ours to look at now */
    for (int i = 0; i < w->links; i++)
        if (w->link[i].socket >= 0 && now_s - w->watched[i].heard_s > w->limit_s / 2)
            pdl__process_kill(&w->link[i].process);
}

void pdl__watch_mourn(pdl__watch_t *w)
{
    if (w->speaks) {
        if (!pdl__launch_reports())
            fprintf(stderr, "paradl: %s%s%s\n", w->message, w->remark[0] != '\0' ? "; " : "", w->remark);
        /* Its status is that of the rank whose end it sees first, which must not be one of those that are left. */
        if (pdl__launch_reports()) nanosleep(&(struct timespec){.tv_sec = LAUNCHER_S}, NULL);
        pdl__watch_leave(w);
        /* Elsewhere MPI ends them, and its launcher would take a rank that is killed for the cause. */
        if (w->limit_s > 0 && pdl__launch_reports()) kill_silent(w);
        return;
    }
    /* The watch ends this process if nobody else does. */
    while (!atomic_load(&w->over)) nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
}
