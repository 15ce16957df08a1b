/*
 * Schedules in SimGrid: one actor per rank, asynchronous sends and receives of a step, then a wait for all of them. The
 * model is neutral: no cross traffic, no window, unit factors, plain max-min sharing.
 */
#include "sim/plugin/simgrid.h"

#include "base/plugin.h"

#include <math.h>
#include <simgrid/actor.h>
#include <simgrid/comm.h>
#include <simgrid/engine.h>
#include <simgrid/host.h>
#include <simgrid/mailbox.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* What the actors read; one per process, like SimGrid itself. */
static const pdl__simgrid_run_t *run;

typedef struct actor {
    int job, rank;
} actor_t;

/* Communications of a step; as many as there is room for messages. */
typedef struct comms {
    sg_comm_t *comm;
    void     **data;
    int        room;
} comms_t;

static void must(const void *pointer)
{
    if (pointer == NULL) _exit(3);
}

static void make_room(comms_t *comms, int room)
{
    if (room <= comms->room) return;
    comms->comm = realloc(comms->comm, (size_t)room * sizeof(*comms->comm));
    must(comms->comm);
    comms->data = realloc(comms->data, (size_t)room * sizeof(*comms->data));
    must(comms->data);
    comms->room = room;
}

static void exchange(const pdl__simgrid_step_t *messages, comms_t *comms, const actor_t *self)
{
    static char payload;

    make_room(comms, messages->room);
    for (int i = 0; i < messages->count; i++) {
        const pdl__simgrid_message_t *message = &messages->list[i];
        char                          name[64];
        int                           from = message->send ? self->rank : message->peer;
        int                           to = message->send ? message->peer : self->rank;

        snprintf(name, sizeof(name), "%d:%d>%d", self->job, from, to);
        if (message->send) {
            comms->comm[i] = sg_mailbox_put_async(sg_mailbox_by_name(name), &payload, lrint(message->bytes));
        } else {
            comms->comm[i] = sg_mailbox_get_async(sg_mailbox_by_name(name), &comms->data[i]);
        }
    }
    if (messages->count > 0) sg_comm_wait_all(comms->comm, (size_t)messages->count);
}

static void act(int argc, char **argv)
{
    const actor_t       *self = sg_actor_self_get_data();
    const pdl_sim_job_t *job = &run->jobs[self->job];
    const pdl__job_t    *size = &run->sizes[self->job];
    pdl__simgrid_step_t  messages = {0};
    comms_t              comms = {0};

    (void)argc;
    (void)argv;
    if (job->start_s != NULL && job->start_s[self->rank] > 0) sg_actor_sleep_for(job->start_s[self->rank]);
    for (int step = 0; step < size->steps; step++) {
        messages.count = 0;
        messages.reduced = 0;
        if (!run->step(job, size, step, self->rank, &messages)) _exit(3);
        exchange(&messages, &comms, self);
        if (messages.reduced > 0 && run->gamma_s_per_byte > 0)
            sg_actor_sleep_for(messages.reduced * run->gamma_s_per_byte);
    }
    if (simgrid_get_clock() > run->job_s[self->job]) run->job_s[self->job] = simgrid_get_clock();
    free(messages.list);
    free(comms.comm);
    free(comms.data);
}

static void start_actors(void)
{
    for (int j = 0; j < run->job_count; j++) {
        const pdl_sim_job_t *job = &run->jobs[j];
        actor_t             *actors = calloc((size_t)run->sizes[j].ranks, sizeof(*actors));

        must(actors);
        for (int r = 0; r < run->sizes[j].ranks; r++) {
            char       name[64];
            sg_actor_t actor;

            snprintf(name, sizeof(name), "h%d", job->hosts != NULL ? job->hosts[r] : r);
            actor = sg_actor_init(name, sg_host_by_name(name));
            actors[r] = (actor_t){j, r};
            sg_actor_set_data(actor, &actors[r]);
            sg_actor_start_(actor, act, 0, NULL);
        }
    }
}

static void simulate(const pdl__simgrid_run_t *given)
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
    simgrid_load_platform(given->platform);
    run = given;
    start_actors();
    simgrid_run();
}

static const pdl__simgrid_t functions = {simulate};
PDL__PLUGIN(simgrid, functions)
