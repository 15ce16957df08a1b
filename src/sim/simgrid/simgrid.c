/*
 * The same schedules in SimGrid, as a referee: one actor per rank, asynchronous sends and receives of a step, then
 * a wait for all of them. The model is neutral: no cross traffic, no window, unit factors, plain max-min sharing.
 *
 * SimGrid has one engine per process and no way back, so every run takes place in a child process that hands its
 * times back through a pipe.
 */
#include "sim/simgrid/simgrid.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool pdl_sim_has_engine(pdl_engine_t engine)
{
#ifdef PDL_HAVE_SIMGRID
    return engine < PDL_ENGINE_COUNT;
#else
    return engine < PDL_ENGINE_SIMGRID;
#endif
}

#ifdef PDL_HAVE_SIMGRID

#include <simgrid/actor.h>
#include <simgrid/comm.h>
#include <simgrid/engine.h>
#include <simgrid/host.h>
#include <simgrid/mailbox.h>
#include <simgrid/version.h>
#include <sys/wait.h>

#define TEXT_OF(number) #number
#define TEXT(number)    TEXT_OF(number)

const char *pdl_sim_simgrid_version(void)
{
    return TEXT(SIMGRID_VERSION_MAJOR) "." TEXT(SIMGRID_VERSION_MINOR);
}

/* What the actors read; one per process, like SimGrid itself. */
static struct {
    const pdl_sim_job_t     *jobs;
    const pdl_sim_options_t *options;
    pdl__job_t              *sizes;
    double                  *job_s;
    pdl_moves_t              moves;
} run;

typedef struct actor {
    int job, rank;
} actor_t;

/* A message of a step as an actor keeps it while others use `run.moves`. */
typedef struct message {
    int    peer;
    double bytes;
    bool   send;
} message_t;

typedef struct messages {
    message_t *list;
    sg_comm_t *comm;
    void     **data;
    int        count, room;
    double     reduced;
} messages_t;

static int host_of(const pdl_sim_job_t *job, int rank)
{
    return job->hosts != NULL ? job->hosts[rank] : rank;
}

static void must(const void *pointer)
{
    if (pointer == NULL) _exit(3);
}

static void more_messages(messages_t *messages)
{
    messages->room = messages->room > 0 ? 2 * messages->room : 4;
    messages->list = realloc(messages->list, (size_t)messages->room * sizeof(*messages->list));
    must(messages->list);
    messages->comm = realloc(messages->comm, (size_t)messages->room * sizeof(*messages->comm));
    must(messages->comm);
    messages->data = realloc(messages->data, (size_t)messages->room * sizeof(*messages->data));
    must(messages->data);
}

/* Adds the moves of one view; messages to the same host take no time and are left out on both sides. */
static void add_moves(messages_t *messages, const actor_t *self, bool send)
{
    const pdl_sim_job_t *job = &run.jobs[self->job];

    for (int i = 0; i < run.moves.move_count; i++) {
        const pdl_coll_move_t *move = &run.moves.move[i];
        double                 bytes = pdl__flow_bytes(&run.sizes[self->job], &run.moves, move);

        if (!send && move->op == PDL_MOVE_REDUCE) messages->reduced += bytes;
        if (host_of(job, self->rank) == host_of(job, move->peer)) continue;
        if (messages->count == messages->room) more_messages(messages);
        messages->list[messages->count++] = (message_t){move->peer, bytes, send};
    }
}

static void exchange(messages_t *messages, const actor_t *self)
{
    static char payload;

    for (int i = 0; i < messages->count; i++) {
        const message_t *message = &messages->list[i];
        char             name[64];
        int              from = message->send ? self->rank : message->peer;
        int              to = message->send ? message->peer : self->rank;

        snprintf(name, sizeof(name), "%d:%d>%d", self->job, from, to);
        if (message->send) {
            messages->comm[i] = sg_mailbox_put_async(sg_mailbox_by_name(name), &payload, lrint(message->bytes));
        } else {
            messages->comm[i] = sg_mailbox_get_async(sg_mailbox_by_name(name), &messages->data[i]);
        }
    }
    if (messages->count > 0) sg_comm_wait_all(messages->comm, (size_t)messages->count);
}

static void act(int argc, char **argv)
{
    const actor_t       *self = sg_actor_self_get_data();
    const pdl_sim_job_t *job = &run.jobs[self->job];
    messages_t           messages = {0};

    (void)argc;
    (void)argv;
    if (job->start_s != NULL && job->start_s[self->rank] > 0) sg_actor_sleep_for(job->start_s[self->rank]);
    for (int step = 0; step < run.sizes[self->job].steps; step++) {
        messages.count = 0;
        messages.reduced = 0;
        pdl_schedule_sends(job->schedule, step, self->rank, &run.moves);
        add_moves(&messages, self, true);
        pdl_schedule_receives(job->schedule, step, self->rank, &run.moves);
        add_moves(&messages, self, false);
        exchange(&messages, self);
        if (messages.reduced > 0 && run.options->gamma_s_per_byte > 0)
            sg_actor_sleep_for(messages.reduced * run.options->gamma_s_per_byte);
    }
    if (simgrid_get_clock() > run.job_s[self->job]) run.job_s[self->job] = simgrid_get_clock();
    free(messages.list);
    free(messages.comm);
    free(messages.data);
}

static void start_actors(int job_count)
{
    for (int j = 0; j < job_count; j++) {
        actor_t *actors = calloc((size_t)run.sizes[j].ranks, sizeof(*actors));

        must(actors);
        for (int r = 0; r < run.sizes[j].ranks; r++) {
            char       name[64];
            sg_actor_t actor;

            snprintf(name, sizeof(name), "h%d", host_of(&run.jobs[j], r));
            actor = sg_actor_init(name, sg_host_by_name(name));
            actors[r] = (actor_t){j, r};
            sg_actor_set_data(actor, &actors[r]);
            sg_actor_start_(actor, act, 0, NULL);
        }
    }
}

/* In the child: everything from the platform file to the times on the pipe. */
static void simulate(const char *platform, int job_count, int pipe_end)
{
    char  text[][64] = {"paradl",
                        "--cfg=network/model:CM02",
                        "--cfg=network/optim:Full",
                        "--cfg=network/crosstraffic:0",
                        "--cfg=network/TCP-gamma:0",
                        "--cfg=network/weight-S:0",
                        "--cfg=network/bandwidth-factor:1",
                        "--cfg=network/latency-factor:1",
                        "--cfg=contexts/stack-size:128",
                        "--log=root.thresh:error"};
    char *arguments[sizeof(text) / sizeof(text[0]) + 1];
    int   count = (int)(sizeof(text) / sizeof(text[0]));

    for (int i = 0; i < count; i++) arguments[i] = text[i];
    arguments[count] = NULL;
    simgrid_init(&count, arguments);
    simgrid_load_platform(platform);
    start_actors(job_count);
    simgrid_run();
    if (write(pipe_end, run.job_s, (size_t)job_count * sizeof(double)) !=
        (ssize_t)((size_t)job_count * sizeof(double)))
        _exit(4);
    _exit(0);
}

/* Starts the child and reads its times. */
static pdl_status_t run_child(const char *platform, int job_count, double *job_s)
{
    int     ends[2], state = 0;
    pid_t   child;
    char   *into = (char *)job_s;
    size_t  want = (size_t)job_count * sizeof(double);
    ssize_t got;

    if (pipe(ends) != 0) return pdl_error(PDL_ERR_IO, "no pipe for the SimGrid process");
    fflush(NULL);
    child = fork();
    if (child < 0) {
        close(ends[0]);
        close(ends[1]);
        return pdl_error(PDL_ERR_IO, "no process for SimGrid");
    }
    if (child == 0) {
        close(ends[0]);
        simulate(platform, job_count, ends[1]);
    }
    close(ends[1]);
    while (want > 0 && (got = read(ends[0], into, want)) > 0) {
        into += got;
        want -= (size_t)got;
    }
    close(ends[0]);
    (void)waitpid(child, &state, 0);
    if (want > 0 || state != 0) return pdl_error(PDL_ERR_IO, "SimGrid failed; its own message is above");
    return PDL_OK;
}

static pdl_status_t check_neutral(const pdl_sim_options_t *options)
{
    if (options->eager_bytes > 0 || options->latency_factors > 0 || options->bandwidth_factors > 0 ||
        options->reverse_share > 0)
        return pdl_error(PDL_ERR_UNSUPPORTED, "the SimGrid engine runs the neutral model only: no eager messages, "
                                              "factors or reverse share; use --engine flow for these");
    return PDL_OK;
}

pdl_status_t pdl__sim_simgrid(const pdl_topology_t *topology, const pdl_sim_job_t *jobs, int job_count,
                              const pdl_sim_options_t *options, pdl_sim_result_t *result)
{
    char         folder[512], platform[544];
    const char  *place = getenv("TMPDIR");
    pdl_status_t status = check_neutral(options);

    if (status) return status;
    snprintf(folder, sizeof(folder), "%s/paradl-XXXXXX", place != NULL && *place != '\0' ? place : P_tmpdir);
    if (mkdtemp(folder) == NULL)
        return pdl_error(PDL_ERR_IO, "cannot make the folder %s for SimGrid's platform", folder);
    snprintf(platform, sizeof(platform), "%s/platform.xml", folder);
    run.jobs = jobs;
    run.options = options;
    run.job_s = result->job_s;
    run.sizes = calloc((size_t)job_count + 1, sizeof(*run.sizes));
    if (run.sizes == NULL) {
        status = pdl_error(PDL_ERR_NOMEM, "out of memory for the SimGrid engine");
        goto remove_folder;
    }
    for (int j = 0; j < job_count; j++) {
        pdl__flow_size_job(&run.sizes[j], jobs[j].schedule, jobs[j].bytes, false);
        if (run.sizes[j].steps > result->steps) result->steps = run.sizes[j].steps;
    }
    status = pdl__simgrid_platform(topology, jobs, run.sizes, job_count, platform, result);
    if (!status) status = run_child(platform, job_count, result->job_s);
    for (int j = 0; j < job_count; j++)
        if (result->job_s[j] > result->time_s) result->time_s = result->job_s[j];
    free(run.sizes);
    unlink(platform);
remove_folder:
    rmdir(folder);
    return status;
}

#else

const char *pdl_sim_simgrid_version(void)
{
    return NULL;
}

pdl_status_t pdl__sim_simgrid(const pdl_topology_t *topology, const pdl_sim_job_t *jobs, int job_count,
                              const pdl_sim_options_t *options, pdl_sim_result_t *result)
{
    (void)topology, (void)jobs, (void)job_count, (void)options, (void)result;
    return pdl_error(PDL_ERR_UNSUPPORTED,
                     "this build has no SimGrid: install libsimgrid-dev and build again, or use "
                     "--engine flow");
}

#endif
