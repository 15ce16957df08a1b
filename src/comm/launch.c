/*
 * Starts this program again under mpirun, and waits for it.
 *
 * mpirun takes every setting from the environment as well, where unknown ones do no harm: so one command line does
 * for all versions and makes, and what the user has set stays. The child is a process group of its own, because a
 * Ctrl-C from the terminal would reach mpirun too, which gives its ranks one second.
 */
#define _GNU_SOURCE /* process_vm_readv, sched_getaffinity */
#include <paradl/base/output.h>
#include <paradl/comm/launch.h>

#include "base/plugin.h"
#include "comm/launch.h"
#include <paradl/tensor/threads.h>

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define NUMBER_SIZE 16
#define ENDING_S    5 /* for mpirun to end ranks */

typedef struct launch {
    const pdl_launch_spec_t *spec;
    char                   **command; /* what is executed */
    char                     program[4096];
    char                     note[4096];
    sigset_t                 waited, before; /* signals that we wait for; the mask that the child gets back */
    pid_t                    child;
    int                      stop; /* the first signal that asked for an end, or 0 */
    bool                     late; /* the ranks did not start, or not end, in time and were ended */
    bool                     done; /* that was when all their work was done */
} launch_t;

/* ---- what mpirun is told ---- */

static void set(const char *variable, const char *value)
{
    setenv(variable, value, 0);
}

/* Ranks pass large messages by reading each other's memory, which containers may forbid. */
static bool can_read_memory(void)
{
    char         from = 1, to = 0;
    struct iovec local = {&to, 1}, remote = {&from, 1};

    return process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == 1;
}

/* mpirun places ranks on all cores of the machine, whatever the mask of its parent. */
static bool has_whole_machine(void)
{
    cpu_set_t mask;

    return sched_getaffinity(0, sizeof(mask), &mask) == 0 && CPU_COUNT(&mask) >= sysconf(_SC_NPROCESSORS_ONLN);
}

static int threads_of(const pdl_launch_spec_t *spec, int cores)
{
    const char *given = getenv("OMP_NUM_THREADS");
    int         threads = spec->threads;

    if (threads <= 0 && given != NULL) threads = atoi(given);
    if (threads <= 0) threads = cores / spec->ranks;
    return threads > 1 ? threads : 1;
}

static void set_binding(const pdl_launch_spec_t *spec)
{
    int  cores = pdl_threads_allowed(), threads = threads_of(spec, cores);
    char text[32];

    snprintf(text, sizeof(text), "%d", threads);
    set("OMP_NUM_THREADS", text);
    set("OMPI_MCA_rmaps_base_oversubscribe", "1");
    set("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe");
    if ((int64_t)threads * spec->ranks <= cores && has_whole_machine()) {
        snprintf(text, sizeof(text), "slot:PE=%d", threads);
        set("OMPI_MCA_rmaps_base_mapping_policy", text);
        set("OMPI_MCA_hwloc_base_binding_policy", "core:if-supported");
    } else {
        set("OMPI_MCA_hwloc_base_binding_policy", "none");
        set("PRTE_MCA_hwloc_default_binding_policy", "none");
    }
    /* A rank that waits gives way to whatever else wants its core; where nothing does, that costs little. */
    set("OMPI_MCA_mpi_yield_when_idle", "1");
}

static void set_environment(const launch_t *launch)
{
    char text[NUMBER_SIZE] = "";

    if (isatty(STDOUT_FILENO)) strcat(text, "1");
    if (isatty(STDERR_FILENO)) strcat(text, "2");
    setenv(PDL__ENV_TERMINAL, text, 1);
    snprintf(text, sizeof(text), "%d", launch->spec->ranks);
    setenv(PDL__ENV_RANKS, text, 1);
    setenv(PDL__ENV_NOTE, launch->note, 1);
    set_binding(launch->spec);
    set("OMPI_MCA_orte_execute_quiet", "1");
    set("OMPI_MCA_orte_base_help_aggregate", "1");
    /* Memory is all that these ranks share: looking for networks takes time and may fail where there is none. */
    set("OMPI_MCA_pml", "ob1");
    set("OMPI_MCA_btl", "^tcp,openib,ofi,usnic,uct");
    if (!can_read_memory()) {
        set("OMPI_MCA_btl_vader_single_copy_mechanism", "none");
        set("OMPI_MCA_smsc", "^cma");
    }
    if (geteuid() == 0) {
        set("OMPI_ALLOW_RUN_AS_ROOT", "1");
        set("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    }
}

/* ---- the child ---- */

/* Tells the parent why nothing was started, and ends. */
static _Noreturn void give_up(int report)
{
    int reason = errno;

    if (write(report, &reason, sizeof(reason)) < 0) _exit(126);
    _exit(127);
}

static _Noreturn void be_child(const launch_t *launch, pid_t parent, int report)
{
    int nothing = open("/dev/null", O_RDONLY);

    if (nothing < 0 || dup2(nothing, STDIN_FILENO) < 0) give_up(report);
    if (nothing != STDIN_FILENO) close(nothing);
    setpgid(0, 0);
    /* If we are killed ourselves, the ranks must not go on without anyone to stop them. */
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent) _exit(127);
    set_environment(launch);
    sigprocmask(SIG_SETMASK, &launch->before, NULL);
    execvp(launch->command[0], launch->command);
    give_up(report);
}

static pdl_status_t explain(const launch_t *launch, int reason)
{
    if (reason == ENOENT && launch->spec->ranks > 1)
        return pdl_error(PDL_ERR_UNSUPPORTED,
                         "%s is not found: install openmpi-bin, or start the ranks yourself, or set "
                         "PARADL_MPIRUN to the mpirun of the MPI that paradl was built with",
                         launch->command[0]);
    return pdl_error(PDL_ERR_IO, "cannot start %s: %s", launch->command[0], strerror(reason));
}

static pdl_status_t start(launch_t *launch)
{
    int     report[2], reason = 0;
    pid_t   parent = getpid();
    ssize_t got;

    if (pipe(report) != 0) return pdl_error(PDL_ERR_IO, "cannot start ranks: %s", strerror(errno));
    fcntl(report[0], F_SETFD, FD_CLOEXEC);
    fcntl(report[1], F_SETFD, FD_CLOEXEC);
    fflush(NULL);
    launch->child = fork();
    if (launch->child == 0) be_child(launch, parent, report[1]);
    reason = errno;
    close(report[1]);
    if (launch->child < 0) {
        close(report[0]);
        return pdl_error(PDL_ERR_IO, "cannot start ranks: %s", strerror(reason));
    }
    do got = read(report[0], &reason, sizeof(reason));
    while (got < 0 && errno == EINTR);
    close(report[0]);
    if (got != sizeof(reason)) return PDL_OK;
    waitpid(launch->child, NULL, 0);
    return explain(launch, reason);
}

/* ---- the parent ---- */

/* Signals are waited for rather than caught, so that none slips in between two system calls. Those that are
   ignored, as under nohup, stay so. */
static void block_signals(launch_t *launch)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};
    struct sigaction action;

    sigemptyset(&launch->waited);
    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
        if (sigaction(signals[i], NULL, &action) == 0 && action.sa_handler != SIG_IGN)
            sigaddset(&launch->waited, signals[i]);
    }
    sigaddset(&launch->waited, SIGCHLD);
    signal(SIGCHLD, SIG_DFL);
    sigprocmask(SIG_BLOCK, &launch->waited, &launch->before);
}

static void pass_on(launch_t *launch, int signal)
{
    if (signal == SIGUSR1 || signal == SIGUSR2) {
        kill(launch->child, signal);
    } else if (launch->stop == 0) {
        launch->stop = signal;
        kill(launch->child, SIGUSR1);
    } else {
        kill(launch->child, SIGTERM);
    }
}

static bool is_beside(const launch_t *launch, const char *suffix)
{
    char path[4200];

    snprintf(path, sizeof(path), "%s%s", launch->note, suffix);
    return access(path, F_OK) == 0;
}

/* Ends ranks that do not start, or do not end: mpirun is asked to, and is killed where it does not. */
static void end_late(launch_t *launch)
{
    kill(launch->child, launch->late ? SIGKILL : SIGTERM);
    launch->done = is_beside(launch, PDL__DOWN_SUFFIX);
    launch->late = true;
}

static int wait_for_ranks(launch_t *launch)
{
    static const struct timespec look = {.tv_nsec = 200000000};
    double                       limit_s = launch->spec->start_limit_s, left_s = limit_s;
    int                          outcome = 0;

    for (;;) {
        int signal = limit_s > 0 ? sigtimedwait(&launch->waited, NULL, &look) : sigwaitinfo(&launch->waited, NULL);

        if (signal == SIGCHLD && waitpid(launch->child, &outcome, WNOHANG) == launch->child) break;
        if (signal > 0 && signal != SIGCHLD) pass_on(launch, signal);
        if (signal > 0 || limit_s <= 0) continue;
        /* In between the ranks watch themselves. */
        if (is_beside(launch, PDL__UP_SUFFIX) && !is_beside(launch, PDL__DOWN_SUFFIX) && !launch->late)
            left_s = limit_s;
        else
            left_s -= 0.2;
        if (left_s > 0) continue;
        end_late(launch);
        left_s = ENDING_S;
    }
    return WIFSIGNALED(outcome) ? 128 + WTERMSIG(outcome) : WEXITSTATUS(outcome);
}

/* ---- how it ended ---- */

static void read_line(FILE *file, char *line, size_t size)
{
    if (fgets(line, (int)size, file) == NULL) line[0] = '\0';
    line[strcspn(line, "\n")] = '\0';
}

static void remove_beside(const launch_t *launch, const char *suffix)
{
    char path[4200];

    snprintf(path, sizeof(path), "%s%s", launch->note, suffix);
    unlink(path);
}

/* What a rank has reported of others; false: nothing. The report is removed. */
static bool take_report(const launch_t *launch, pdl__launch_loss_t *loss)
{
    char  path[4200], head[32];
    FILE *file;
    int   died = 0;

    snprintf(path, sizeof(path), "%s%s", launch->note, PDL__LOSS_SUFFIX);
    file = fopen(path, "r");
    if (file == NULL) return false;
    *loss = (pdl__launch_loss_t){0};
    read_line(file, head, sizeof(head));
    read_line(file, loss->who, sizeof(loss->who));
    read_line(file, loss->text, sizeof(loss->text));
    read_line(file, loss->remark, sizeof(loss->remark));
    fclose(file);
    unlink(path);
    if (sscanf(head, "%d %d", &died, &loss->count) != 2) return false;
    loss->died = died != 0;
    return true;
}

static pdl_status_t judge_loss(const pdl__launch_loss_t *loss, int exit_status)
{
    const char *colon = loss->remark[0] != '\0' ? "; " : "";
    const char *verb = loss->count > 1 ? "were" : "was";

    if (!loss->died) return pdl_error(PDL_ERR_IO, "%s%s%s", loss->text, colon, loss->remark);
    if (exit_status > 128 && exit_status < 128 + NSIG)
        return pdl_error(PDL_ERR_IO, "%s %s ended by signal %d (%s), %s%s%s", loss->who, verb, exit_status - 128,
                         strsignal(exit_status - 128), loss->text, colon, loss->remark);
    return pdl_error(PDL_ERR_IO, "%s ended with status %d without saying why, %s%s%s", loss->who, exit_status,
                     loss->text, colon, loss->remark);
}

/* No rank has said why. */
static pdl_status_t judge(const launch_t *launch, int exit_status, const pdl__launch_loss_t *loss)
{
    if (launch->stop != 0)
        return pdl_error(PDL_ERR_IO, "stopped by signal %d (%s)", launch->stop, strsignal(launch->stop));
    if (launch->late)
        return pdl_error(PDL_ERR_IO,
                         "the %d ranks did not find each other within %g s: mpirun -n %d hostname shows whether "
                         "ranks start here",
                         launch->spec->ranks, launch->spec->start_limit_s, launch->spec->ranks);
    if (loss != NULL) return judge_loss(loss, exit_status);
    if (exit_status > 128 && exit_status < 128 + NSIG)
        return pdl_error(PDL_ERR_IO, "a rank was ended by signal %d (%s): the others were stopped",
                         exit_status - 128, strsignal(exit_status - 128));
    return pdl_error(PDL_ERR_IO,
                     "a rank ended with status %d without saying why: the others were stopped "
                     "(OMPI_MCA_orte_execute_quiet=0 shows what mpirun has to say)",
                     exit_status);
}

static pdl_status_t conclude(const launch_t *launch, int exit_status, pdl_launch_end_t *end)
{
    pdl__launch_loss_t loss;
    bool               reported = take_report(launch, &loss);
    /* The note is gone when a rank has spoken. */
    bool silent = unlink(launch->note) == 0;

    remove_beside(launch, PDL__UP_SUFFIX);
    remove_beside(launch, PDL__DOWN_SUFFIX);
    if (launch->done) {
        fprintf(stderr, "paradl: all work is done, but not all ranks ended within %g s: the others were killed\n",
                launch->spec->start_limit_s);
        exit_status = 0;
    }
    *end = (pdl_launch_end_t){.exit_status = exit_status};
    if (exit_status == 0) return PDL_OK;
    if (launch->stop == 0 && (reported || launch->late || (silent && exit_status > 128))) {
        end->lost = true;
        end->lost_ranks = reported && loss.count > 0 ? loss.count : 1;
    }
    return silent ? judge(launch, exit_status, reported ? &loss : NULL) : PDL_OK;
}

/* mpirun -n N PROGRAM ARGUMENT...; one rank needs no mpirun. */
static pdl_status_t make_command(launch_t *launch, char *number)
{
    const char  *mpirun = getenv("PARADL_MPIRUN");
    char *const *argv = launch->spec->argv;
    size_t       count = 0, next = 0;
    ssize_t      length = readlink("/proc/self/exe", launch->program, sizeof(launch->program) - 1);

    if (length < 0) return pdl_error(PDL_ERR_IO, "cannot find this program: /proc/self/exe: %s", strerror(errno));
    launch->program[length] = '\0';
    while (argv[count] != NULL) count++;
    launch->command = calloc(count + 5, sizeof(*launch->command));
    if (launch->command == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory");
    if (launch->spec->ranks > 1) {
        /* The arguments of execvp() are not constant, yet are never changed. */
        launch->command[next++] = (char *)(uintptr_t)(mpirun != NULL && *mpirun != '\0' ? mpirun : "mpirun");
        launch->command[next++] = (char *)(uintptr_t) "-n";
        launch->command[next++] = number;
    }
    launch->command[next++] = launch->program;
    for (size_t i = 1; i < count; i++) launch->command[next++] = argv[i];
    return PDL_OK;
}

static pdl_status_t make_note(launch_t *launch)
{
    const char *folder = getenv("TMPDIR");
    int         note;

    if (folder == NULL || *folder == '\0') folder = P_tmpdir;
    snprintf(launch->note, sizeof(launch->note), "%s/paradl-XXXXXX", folder);
    note = mkstemp(launch->note);
    if (note < 0)
        return pdl_error(PDL_ERR_IO, "cannot make a file in %s: %s (TMPDIR names another folder)", folder,
                         strerror(errno));
    close(note);
    return PDL_OK;
}

pdl_status_t pdl_launch_local(const pdl_launch_spec_t *spec, pdl_launch_end_t *end)
{
    launch_t     launch = {.spec = spec};
    char         number[NUMBER_SIZE];
    const void  *missing;
    pdl_status_t status;
    int          result = 0;

    *end = (pdl_launch_end_t){0};
    if (spec->ranks > 1 && !pdl__plugin_found(PDL__PLUGIN_MPI))
        return pdl__plugin_load(PDL__PLUGIN_MPI, "a run on several ranks", 0, &missing);
    if (spec->ranks < 1) return pdl_error(PDL_ERR_INPUT, "%d ranks: expected 1 or more", spec->ranks);
    pdl_output_release_stdout(); /* it is the ranks' to write to */
    snprintf(number, sizeof(number), "%d", spec->ranks);
    status = make_command(&launch, number);
    if (!status) status = make_note(&launch);
    if (status) {
        free(launch.command);
        return status;
    }
    block_signals(&launch);
    status = start(&launch);
    if (!status) result = wait_for_ranks(&launch);
    sigprocmask(SIG_SETMASK, &launch.before, NULL);
    free(launch.command);
    if (!status) return conclude(&launch, result, end);
    unlink(launch.note);
    return status;
}
