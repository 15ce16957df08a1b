/*
 * What a process can tell from its environment about how it was started.
 */
#include <paradl/comm/launch.h>

#include "comm/launch.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int number_in(const char *variable)
{
    const char *text = getenv(variable);
    long        number = text != NULL ? strtol(text, NULL, 10) : 0;

    return number > 0 && number < 1 << 30 ? (int)number : 0;
}

/* SLURM_NTASKS would not do: a batch script has it too, and is no rank. */
int pdl__launch_size(void)
{
    static const char *const variables[] = {PDL__ENV_RANKS, "OMPI_COMM_WORLD_SIZE", "PMI_SIZE",
                                            "SLURM_STEP_NUM_TASKS"};

    for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++) {
        int size = number_in(variables[i]);

        if (size > 0) return size;
    }
    return 0;
}

bool pdl_launch_active(void)
{
    static const char *const variables[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMI_RANK", "PMIX_RANK"};

    for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++) {
        if (getenv(variables[i]) != NULL) return true;
    }
    return getenv("SLURM_PROCID") != NULL && number_in("SLURM_STEP_NUM_TASKS") > 1;
}

bool pdl_launch_wanted(int ranks)
{
    return ranks > 1 && !pdl_launch_local_rank() && !pdl_launch_active();
}

bool pdl_launch_local_rank(void)
{
    return getenv(PDL__ENV_RANKS) != NULL;
}

bool pdl__launch_claim(void)
{
    const char *note = getenv(PDL__ENV_NOTE);

    if (note == NULL) return true;
    if (unlink(note) != 0) return false;
    /* Another rank may end before this one has printed its line, and mpirun then stops all that are left. */
    signal(SIGTERM, SIG_IGN);
    return true;
}

bool pdl__launch_reports(void)
{
    return getenv(PDL__ENV_NOTE) != NULL;
}

static void add_line(int file, const char *line)
{
    if (write(file, line, strlen(line)) < 0 || write(file, "\n", 1) < 0) return;
}

/* A file beside the note. */
static int open_beside(const char *suffix, int flags)
{
    char path[4200];

    if (!pdl__launch_reports()) return -1;
    snprintf(path, sizeof(path), "%s%s", getenv(PDL__ENV_NOTE), suffix);
    return open(path, O_WRONLY | O_CLOEXEC | flags, 0600);
}

static void mark(const char *suffix)
{
    int file = open_beside(suffix, O_CREAT);

    if (file >= 0) close(file);
}

void pdl__launch_started(void)
{
    mark(PDL__UP_SUFFIX);
}

void pdl__launch_finished(void)
{
    mark(PDL__DOWN_SUFFIX);
}

void pdl__launch_report(const pdl__launch_loss_t *loss)
{
    int  file = open_beside(PDL__LOSS_SUFFIX, O_CREAT | O_EXCL);
    char head[32];

    if (file < 0) return;
    snprintf(head, sizeof(head), "%d %d", loss->died, loss->count);
    add_line(file, head);
    add_line(file, loss->who);
    add_line(file, loss->text);
    close(file);
}

void pdl__launch_remark(const char *remark)
{
    int file = open_beside(PDL__LOSS_SUFFIX, O_APPEND);

    if (file < 0) return;
    add_line(file, remark);
    close(file);
}

bool pdl_launch_speaks(void)
{
    static const char *const variables[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"};

    if (getenv(PDL__ENV_NOTE) != NULL) return pdl__launch_claim();
    for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++) {
        const char *rank = getenv(variables[i]);

        if (rank != NULL) return strcmp(rank, "0") == 0;
    }
    return true;
}

void pdl_launch_let_speak(void)
{
    struct timespec moment = {0, 300000000};

    if (getenv(PDL__ENV_NOTE) == NULL) nanosleep(&moment, NULL);
}

bool pdl_launch_terminal(int stream)
{
    const char *terminals = getenv(PDL__ENV_TERMINAL);

    if (terminals == NULL) return isatty(stream) == 1;
    return strchr(terminals, '0' + stream) != NULL;
}
