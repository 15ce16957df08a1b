/*
 * The same schedules in SimGrid, as a referee. SimGrid has one engine per process and no way back, so every run takes
 * place in a child process that hands its times back through a pipe.
 */
#include "sim/simgrid/simgrid.h"

#include "base/plugin.h"
#include "sim/plugin/simgrid.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

bool pdl_sim_has_engine(pdl_engine_t engine)
{
    return engine < PDL_ENGINE_SIMGRID || (engine == PDL_ENGINE_SIMGRID && pdl__plugin_found(PDL__PLUGIN_SIMGRID));
}

static int host_of(const pdl_sim_job_t *job, int rank)
{
    return job->hosts != NULL ? job->hosts[rank] : rank;
}

static bool make_room(pdl__simgrid_step_t *messages)
{
    int   room = messages->room > 0 ? 2 * messages->room : 4;
    void *list = realloc(messages->list, (size_t)room * sizeof(*messages->list));

    if (list == NULL) return false;
    messages->list = list;
    messages->room = room;
    return true;
}

static bool add_moves(const pdl_sim_job_t *job, const pdl__job_t *size, int rank, const pdl_moves_t *moves,
                      bool send, pdl__simgrid_step_t *messages)
{
    for (int i = 0; i < moves->move_count; i++) {
        const pdl_coll_move_t *move = &moves->move[i];
        double                 bytes = pdl__flow_bytes(size, moves, move);

        if (!send && move->op == PDL_MOVE_REDUCE) messages->reduced += bytes;
        if (host_of(job, rank) == host_of(job, move->peer)) continue;
        if (messages->count == messages->room && !make_room(messages)) return false;
        messages->list[messages->count++] = (pdl__simgrid_message_t){move->peer, bytes, send};
    }
    return true;
}

/* In the child. The moves are kept between calls, because they are large. */
static bool add_step(const pdl_sim_job_t *job, const pdl__job_t *size, int step, int rank,
                     pdl__simgrid_step_t *messages)
{
    static pdl_moves_t moves;

    pdl_schedule_sends(job->schedule, step, rank, &moves);
    if (!add_moves(job, size, rank, &moves, true, messages)) return false;
    pdl_schedule_receives(job->schedule, step, rank, &moves);
    return add_moves(job, size, rank, &moves, false, messages);
}

/* Starts the child and reads its times. */
static pdl_status_t run_child(const pdl__simgrid_t *simgrid, const pdl__simgrid_run_t *run)
{
    const size_t all = (size_t)run->job_count * sizeof(double);
    int          ends[2], state = 0;
    pid_t        child;
    char        *into = (char *)run->job_s;
    size_t       want = all;
    ssize_t      got;

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
        simgrid->run(run);
        _exit(write(ends[1], run->job_s, all) == (ssize_t)all ? 0 : 4);
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
    char               folder[512], platform[544];
    const char        *place = getenv("TMPDIR");
    pdl__job_t        *sizes;
    const void        *table;
    pdl__simgrid_run_t run = {platform, jobs, NULL, job_count, options->gamma_s_per_byte, result->job_s, add_step};
    pdl_status_t       status = check_neutral(options);

    if (!status) status = pdl__plugin_load(PDL__PLUGIN_SIMGRID, "--engine simgrid", sizeof(pdl__simgrid_t), &table);
    if (status) return status;
    snprintf(folder, sizeof(folder), "%s/paradl-XXXXXX", place != NULL && *place != '\0' ? place : P_tmpdir);
    if (mkdtemp(folder) == NULL)
        return pdl_error(PDL_ERR_IO, "cannot make the folder %s for SimGrid's platform", folder);
    snprintf(platform, sizeof(platform), "%s/platform.xml", folder);
    sizes = calloc((size_t)job_count + 1, sizeof(*sizes));
    if (sizes == NULL) {
        status = pdl_error(PDL_ERR_NOMEM, "out of memory for the SimGrid engine");
        goto remove_folder;
    }
    for (int j = 0; j < job_count; j++) {
        pdl__flow_size_job(&sizes[j], jobs[j].schedule, jobs[j].bytes, false);
        if (sizes[j].steps > result->steps) result->steps = sizes[j].steps;
    }
    run.sizes = sizes;
    status = pdl__simgrid_platform(topology, jobs, sizes, job_count, platform, result);
    if (!status) status = run_child(table, &run);
    for (int j = 0; j < job_count; j++)
        if (result->job_s[j] > result->time_s) result->time_s = result->job_s[j];
    free(sizes);
    unlink(platform);
remove_folder:
    rmdir(folder);
    return status;
}
