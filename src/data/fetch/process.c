/*
 * Child processes by posix_spawn: fixed arguments, no shell, their talk kept for the error message.
 */
#define _GNU_SOURCE /* a working directory for the child */

#include "data/fetch/process.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

#define TALK_SIZE 400

static int prepare(posix_spawn_file_actions_t *actions, const char *folder, int error_fd)
{
    int code = posix_spawn_file_actions_addopen(actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);

    if (code == 0) code = posix_spawn_file_actions_addopen(actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    if (code == 0) code = posix_spawn_file_actions_adddup2(actions, error_fd, STDERR_FILENO);
    if (code == 0) code = posix_spawn_file_actions_addchdir_np(actions, folder);
    return code;
}

static int spawn(const char *const *arguments, const char *folder, int error_fd, pid_t *child)
{
    posix_spawn_file_actions_t actions;
    int                        code = posix_spawn_file_actions_init(&actions);

    if (code != 0) return code;
    code = prepare(&actions, folder, error_fd);
    /* posix_spawnp does not change the arguments; its prototype is older than const. */
    if (code == 0)
        code = posix_spawnp(child, arguments[0], &actions, NULL, (char *const *)(size_t)arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    return code;
}

/* Reads to the end and keeps the beginning, on one line. */
static void listen_to(int fd, char talk[TALK_SIZE])
{
    size_t used = 0;
    char   part[512];

    for (;;) {
        ssize_t count = read(fd, part, sizeof(part));

        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) break;
        for (ssize_t i = 0; i < count && used < TALK_SIZE - 2; i++) {
            bool ends = part[i] == '\n' || part[i] == '\r';

            if (ends && (used == 0 || talk[used - 1] == ' ')) continue;
            if (ends) talk[used++] = ';';
            talk[used] = part[i];
            if ((unsigned char)part[i] < ' ') talk[used] = ' ';
            used++;
        }
    }
    while (used > 0 && (talk[used - 1] == ' ' || talk[used - 1] == ';')) used--;
    talk[used] = '\0';
}

static pdl_status_t wait_for(pid_t child, const char *name, const char *talk)
{
    int state = 0;

    while (waitpid(child, &state, 0) < 0) {
        if (errno != EINTR) return pdl_error(PDL_ERR_IO, "cannot wait for %s: %s", name, strerror(errno));
    }
    if (WIFEXITED(state) && WEXITSTATUS(state) == 0) return PDL_OK;
    if (WIFSIGNALED(state)) return pdl_error(PDL_ERR_IO, "%s was ended by signal %d", name, WTERMSIG(state));
    return pdl_error(PDL_ERR_IO, "%s failed with status %d: %s", name, WEXITSTATUS(state),
                     talk[0] != '\0' ? talk : "it did not say why");
}

pdl_status_t pdl__process_run(const char *const *arguments, const char *folder, const char *package)
{
    char  talk[TALK_SIZE];
    int   ends[2], code;
    pid_t child = -1;

    if (pipe(ends) != 0) return pdl_error(PDL_ERR_IO, "cannot start %s: %s", arguments[0], strerror(errno));
    fcntl(ends[0], F_SETFD, FD_CLOEXEC);
    fcntl(ends[1], F_SETFD, FD_CLOEXEC);
    code = spawn(arguments, folder, ends[1], &child);
    close(ends[1]);
    if (code == 0) listen_to(ends[0], talk);
    close(ends[0]);
    if (code == 0) return wait_for(child, arguments[0], talk);
    if (code == ENOENT) {
        return pdl_error(PDL_ERR_IO, "%s is not found: install the package %s", arguments[0], package);
    }
    return pdl_error(PDL_ERR_IO, "cannot start %s: %s", arguments[0], strerror(code));
}
