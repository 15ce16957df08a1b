/*
 * Writes files by way of a temporary one that is renamed at the end.
 */
#include <paradl/base/output.h>

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct pdl_output {
    FILE *stream;
    char *path;      /* the target, links followed, so that a link stays one */
    char *temporary; /* NULL when the target is written directly */
};

/* Temporary files that a signal removes. A program writes few files at once; what does not fit is not removed. */
#define MOST_TEMPORARY 64
static _Atomic(char *) temporaries[MOST_TEMPORARY];
static volatile pid_t  owner; /* a child has the names too, but the files are not its own */

static const int ending_signals[] = {SIGINT, SIGTERM, SIGHUP};
#define ENDING_SIGNALS ((int)(sizeof(ending_signals) / sizeof(*ending_signals)))

/* Only what may be called at any time: getpid(), unlink(), signal(), raise(). */
static void remove_temporaries(int number)
{
    for (int i = 0; i < MOST_TEMPORARY && owner == getpid(); i++) {
        const char *name = atomic_load(&temporaries[i]);

        if (name != NULL) unlink(name);
    }
    signal(number, SIG_DFL);
    raise(number);
}

void pdl_output_clean_up_on_signals(void)
{
    struct sigaction action = {.sa_handler = remove_temporaries}, before;

    owner = getpid();
    sigemptyset(&action.sa_mask);
    for (int i = 0; i < ENDING_SIGNALS; i++) {
        if (sigaction(ending_signals[i], NULL, &before) == 0 && before.sa_handler == SIG_DFL)
            sigaction(ending_signals[i], &action, NULL);
    }
}

static void remember(char *temporary)
{
    for (int i = 0; i < MOST_TEMPORARY; i++) {
        char *none = NULL;

        if (atomic_compare_exchange_strong(&temporaries[i], &none, temporary)) return;
    }
}

static void forget(const char *temporary)
{
    for (int i = 0; i < MOST_TEMPORARY && temporary != NULL; i++) {
        if (atomic_load(&temporaries[i]) == temporary) atomic_store(&temporaries[i], NULL);
    }
}

/* The file and its entry come together: a signal waits until both are there. */
static int make_temporary(char *name)
{
    sigset_t ending, before;
    int      file;

    sigemptyset(&ending);
    for (int i = 0; i < ENDING_SIGNALS; i++) sigaddset(&ending, ending_signals[i]);
    pthread_sigmask(SIG_BLOCK, &ending, &before);
    file = mkstemp(name);
    if (file >= 0) remember(name);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return file;
}

static pdl_status_t refuse(const char *path, int reason)
{
    return pdl_error(PDL_ERR_IO, "cannot write %s: %s", path, strerror(reason));
}

static void free_output(pdl_output_t *output)
{
    forget(output->temporary);
    free(output->path);
    free(output->temporary);
    free(output);
}

/* mkstemp() makes files that only the owner reads; the usual mode is what others expect, and that of the
   file that is replaced is what its owner chose. */
static mode_t wanted_mode(const struct stat *replaced)
{
    mode_t mask;

    if (replaced != NULL) return replaced->st_mode & 07777;
    mask = umask(0);
    umask(mask);
    return 0666 & ~mask;
}

static pdl_status_t open_temporary(pdl_output_t *output, const struct stat *replaced)
{
    static const char ending[] = ".XXXXXX";
    size_t            length = strlen(output->path);
    int               file;

    output->temporary = malloc(length + sizeof(ending));
    if (output->temporary == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory");
    memcpy(output->temporary, output->path, length);
    memcpy(output->temporary + length, ending, sizeof(ending));
    file = make_temporary(output->temporary);
    if (file < 0) return refuse(output->path, errno);
    output->stream = fchmod(file, wanted_mode(replaced)) == 0 ? fdopen(file, "w") : NULL;
    if (output->stream != NULL) return PDL_OK;
    refuse(output->path, errno);
    close(file);
    unlink(output->temporary);
    return PDL_ERR_IO;
}

/* A file that is open already, which another one must not replace. */
static bool is_descriptor(const char *path)
{
    return strncmp(path, "/dev/fd/", 8) == 0 || strncmp(path, "/proc/self/fd/", 14) == 0 ||
           strcmp(path, "/dev/stderr") == 0;
}

static pdl_status_t open_target(const char *path, pdl_output_t *output)
{
    struct stat info;
    bool        exists = stat(path, &info) == 0, whole;

    if (path[0] == '\0') return refuse("a file without a name", ENOENT);
    if (pdl_output_is_stdout(path)) {
        output->path = strdup("standard output");
        output->stream = pdl_output_stdout();
        return output->path != NULL && output->stream != NULL ? PDL_OK : refuse("standard output", errno);
    }
    if (exists && S_ISDIR(info.st_mode)) return refuse(path, EISDIR);
    whole = (!exists || S_ISREG(info.st_mode)) && !is_descriptor(path);
    output->path = exists && whole ? realpath(path, NULL) : strdup(path); /* pipes have no real path */
    if (output->path == NULL) return refuse(path, errno);
    if (whole) return open_temporary(output, exists ? &info : NULL);
    output->stream = fopen(path, "w");
    return output->stream != NULL ? PDL_OK : refuse(path, errno);
}

bool pdl_output_is_stdout(const char *path)
{
    return strcmp(path, "-") == 0 || strcmp(path, "/dev/stdout") == 0;
}

static int reserved = -1;

FILE *pdl_output_stdout(void)
{
    int   file;
    FILE *stream;

    fflush(stdout);
    file = dup(reserved >= 0 ? reserved : STDOUT_FILENO);
    if (file < 0) return NULL;
    stream = fdopen(file, "w");
    if (stream == NULL) close(file);
    return stream;
}

pdl_status_t pdl_output_reserve_stdout(void)
{
    if (reserved >= 0) return PDL_OK;
    fflush(stdout);
    reserved = dup(STDOUT_FILENO);
    if (reserved >= 0 && dup2(STDERR_FILENO, STDOUT_FILENO) >= 0) return PDL_OK;
    return refuse("standard output", errno);
}

void pdl_output_release_stdout(void)
{
    if (reserved < 0) return;
    fflush(stdout);
    dup2(reserved, STDOUT_FILENO);
    close(reserved);
    reserved = -1;
}

pdl_status_t pdl_output_open(const char *path, pdl_output_t **output)
{
    pdl_output_t *made = calloc(1, sizeof(*made));
    pdl_status_t  status;

    if (made == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory");
    status = open_target(path, made);
    if (status) {
        free_output(made);
        return status;
    }
    *output = made;
    return PDL_OK;
}

FILE *pdl_output_stream(const pdl_output_t *output)
{
    return output->stream;
}

pdl_status_t pdl_output_flush(FILE *stream, const char *name)
{
    errno = 0;
    if (fflush(stream) == 0 && !ferror(stream)) return PDL_OK;
    return refuse(name, errno != 0 ? errno : EIO);
}

/* The order makes the file whole: data to the disk first, then the name. Devices cannot be synchronised. */
static pdl_status_t complete(pdl_output_t *output)
{
    pdl_status_t status = pdl_output_flush(output->stream, output->path);

    if (!status && output->temporary != NULL && fsync(fileno(output->stream)) != 0)
        status = refuse(output->path, errno);
    if (fclose(output->stream) != 0 && !status) status = refuse(output->path, errno);
    if (!status && output->temporary != NULL && rename(output->temporary, output->path) != 0)
        status = refuse(output->path, errno);
    if (status && output->temporary != NULL) unlink(output->temporary);
    return status;
}

pdl_status_t pdl_output_close(pdl_output_t *output)
{
    pdl_status_t status = complete(output);

    free_output(output);
    return status;
}

void pdl_output_discard(pdl_output_t *output)
{
    if (output == NULL) return;
    fclose(output->stream);
    if (output->temporary != NULL) unlink(output->temporary);
    free_output(output);
}
