/*
 * The log of a run. Every line goes out as one write when it is complete, so that a kill hardly ever tears one; a run
 * that goes on from a checkpoint first removes what comes after it, torn lines included.
 */
#include "report/run_log.h"

#include <paradl/base/output.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#define LINE_BUFFER ((size_t)1 << 16) /* longer than any line */

static pdl_status_t refuse(const char *path, int reason)
{
    return pdl_error(PDL_ERR_IO, "%s: cannot write the log: %s", path, strerror(reason));
}

static pdl_status_t open_stream(pdl__run_log_t *log)
{
    /* "a" makes the file if it is missing and changes nothing in it. */
    if (pdl_output_is_stdout(log->path))
        log->stream = pdl_output_stdout();
    else
        log->stream = fopen(log->path, log->regular ? "a" : "w");
    if (log->stream == NULL) return refuse(log->path, errno);
    setvbuf(log->stream, NULL, _IOLBF, LINE_BUFFER);
    return PDL_OK;
}

/* A log begins with an object; anything else is somebody's file, named by mistake. */
static pdl_status_t check_first(const char *path)
{
    FILE *file = fopen(path, "r");
    int   first = file != NULL ? getc(file) : EOF;

    if (file == NULL) return pdl_error(PDL_ERR_IO, "%s: cannot read the log: %s", path, strerror(errno));
    fclose(file);
    if (first == EOF || first == '{') return PDL_OK;
    return pdl_error(PDL_ERR_INPUT, "--log %s: the file is there and is no log of a run: give another one", path);
}

pdl_status_t pdl__run_log_open(const char *path, bool resumes, pdl__run_log_t *log)
{
    struct stat  info;
    bool         exists = stat(path, &info) == 0;
    pdl_status_t status = PDL_OK;

    *log = (pdl__run_log_t){.path = path, .resumes = resumes, .regular = !exists || S_ISREG(info.st_mode)};
    if (pdl_output_is_stdout(path)) log->regular = false;
    if (exists && log->regular) status = check_first(path);
    return status ? status : open_stream(log);
}

/* A complete object and nothing else: what two lines run together are not, for brackets or quotes do not match. */
static bool is_object(const char *line, size_t length)
{
    int  depth = 0;
    bool inside = false; /* a string */

    if (length < 3 || line[0] != '{' || line[length - 1] != '\n' || line[length - 2] != '}') return false;
    for (size_t i = 0; i + 1 < length; i++) {
        if (inside && line[i] == '\\')
            i++;
        else if (line[i] == '"')
            inside = !inside;
        else if (!inside && (line[i] == '{' || line[i] == '['))
            depth++;
        else if (!inside && (line[i] == '}' || line[i] == ']') && --depth == 0)
            return i + 2 == length;
    }
    return false;
}

/* The update of a line, or -1: lines of epochs have none. */
static int64_t update_of(const char *line)
{
    static const char key[] = "{\"step\":";

    return strncmp(line, key, sizeof(key) - 1) == 0 ? strtoll(line + sizeof(key) - 1, NULL, 10) : -1;
}

static bool is_summary(const char *line)
{
    static const char key[] = "{\"summary\":";

    return strncmp(line, key, sizeof(key) - 1) == 0;
}

typedef struct cut {
    off_t   keep;    /* bytes up to the end of what stays */
    int64_t last;    /* update */
    int64_t broken;  /* lines among them that are no objects */
    bool    removes; /* there is something behind them */
} cut_t;

/* Looks how much of a log stays; with `copy`, whole lines of it are written there. */
static void read_lines(FILE *file, int64_t updates, FILE *copy, cut_t *cut)
{
    char   *line = NULL;
    size_t  capacity = 0;
    ssize_t length;
    int64_t broken = 0;
    off_t   at = 0;

    *cut = (cut_t){0};
    while ((length = getline(&line, &capacity, file)) > 0) {
        bool whole = is_object(line, (size_t)length);

        cut->removes = true;
        if (whole && update_of(line) > updates) break;
        if (whole && updates == 0) break;
        if (whole && is_summary(line)) break; /* no longer the last line */
        at += length;
        if (!whole) {
            broken++;
            continue;
        }
        if (update_of(line) > 0) cut->last = update_of(line);
        if (copy != NULL) fwrite(line, 1, (size_t)length, copy);
        cut->keep = at;
        cut->broken = broken;
        cut->removes = false;
    }
    free(line);
}

/* Lines that earlier versions tore in the middle of a log: the others are copied. */
static pdl_status_t mend(const char *path, int64_t updates, FILE *file)
{
    pdl_output_t *output;
    cut_t         cut;
    pdl_status_t  status = pdl_output_open(path, &output);

    if (status) return status;
    rewind(file);
    read_lines(file, updates, pdl_output_stream(output), &cut);
    return pdl_output_close(output);
}

static pdl_status_t cut_after(const char *path, int64_t updates, cut_t *cut)
{
    FILE        *file = fopen(path, "r");
    pdl_status_t status = PDL_OK;

    if (file == NULL) return pdl_error(PDL_ERR_IO, "%s: cannot read the log: %s", path, strerror(errno));
    read_lines(file, updates, NULL, cut);
    if (cut->broken > 0)
        status = mend(path, updates, file);
    else if (cut->removes && truncate(path, cut->keep) != 0)
        status = refuse(path, errno);
    fclose(file);
    return status;
}

pdl_status_t pdl__run_log_start(pdl__run_log_t *log, int64_t updates, char *note, size_t size)
{
    cut_t        cut;
    pdl_status_t status;

    *note = '\0';
    if (!log->regular) return PDL_OK;
    status = cut_after(log->path, updates, &cut);
    if (status) return status;
    if (!log->resumes && cut.removes)
        snprintf(note, size, "the log %s of an earlier run is replaced", log->path);
    else if (cut.broken > 0)
        snprintf(note, size, "the log %s had %lld broken line%s, now removed", log->path, (long long)cut.broken,
                 cut.broken == 1 ? "" : "s");
    else if (cut.last < updates)
        snprintf(note, size, "the log %s has no updates %lld to %lld", log->path, (long long)cut.last + 1,
                 (long long)updates);
    /* Again, for a mended log is another file. */
    fclose(log->stream);
    return open_stream(log);
}

pdl_status_t pdl__run_log_settle(pdl__run_log_t *log)
{
    errno = 0;
    if (fflush(log->stream) != 0 || ferror(log->stream)) return refuse(log->path, errno != 0 ? errno : EIO);
    if (log->regular && fsync(fileno(log->stream)) != 0 && errno != EINVAL) return refuse(log->path, errno);
    return PDL_OK;
}

pdl_status_t pdl__run_log_close(pdl__run_log_t *log)
{
    bool failed = log->stream != NULL && ferror(log->stream) != 0;

    if (log->stream == NULL) return PDL_OK;
    failed |= fclose(log->stream) != 0;
    log->stream = NULL;
    if (!failed) return PDL_OK;
    return pdl_error(PDL_ERR_IO, "%s: the log is incomplete: %s", log->path, strerror(errno));
}
