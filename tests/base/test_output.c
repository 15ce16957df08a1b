/*
 * Files that are complete or not there: what was there stays until the new one is whole, links stay links, modes
 * stay, and devices are written directly.
 */
#include "base/scratch.h"

#include <paradl/base/output.h>

static const char *read_back(const char *name)
{
    static char text[64];
    FILE       *file = fopen(scratch_path(name), "r");
    size_t      length;

    if (file == NULL) return NULL;
    length = fread(text, 1, sizeof(text) - 1, file);
    text[length] = '\0';
    fclose(file);
    return text;
}

static int files_in_scratch(void)
{
    char  command[300];
    int   count = -1;
    FILE *pipe;

    snprintf(command, sizeof(command), "ls '%s' | wc -l", scratch_folder);
    pipe = popen(command, "r");
    if (pipe == NULL || fscanf(pipe, "%d", &count) != 1) count = -1;
    if (pipe != NULL) pclose(pipe);
    return count;
}

static void write_text(const char *name, const char *text)
{
    pdl_output_t *output;

    REQUIRE_OK(pdl_output_open(scratch_path(name), &output));
    fputs(text, pdl_output_stream(output));
    CHECK_OK(pdl_output_close(output));
}

static void appears_when_closed(void)
{
    pdl_output_t *output;

    REQUIRE_OK(pdl_output_open(scratch_path("new"), &output));
    fputs("text", pdl_output_stream(output));
    CHECK(access(scratch_path("new"), F_OK) != 0);
    CHECK_OK(pdl_output_close(output));
    CHECK_STR(read_back("new"), "text");
    CHECK_INT(files_in_scratch(), 1);
}

static void leaves_the_old_one_when_given_up(void)
{
    pdl_output_t *output;

    REQUIRE_OK(pdl_output_open(scratch_path("new"), &output));
    fputs("other", pdl_output_stream(output));
    pdl_output_discard(output);
    CHECK_STR(read_back("new"), "text");
    CHECK_INT(files_in_scratch(), 1);
    pdl_output_discard(NULL);
}

static void keeps_modes_and_links(void)
{
    char        target[512];
    struct stat info;

    snprintf(target, sizeof(target), "%s", scratch_path("new"));
    CHECK_INT(chmod(target, 0640), 0);
    CHECK_INT(symlink(target, scratch_path("link")), 0);
    write_text("link", "through");
    CHECK_INT(lstat(scratch_path("link"), &info), 0);
    CHECK(S_ISLNK(info.st_mode));
    CHECK_STR(read_back("new"), "through");
    CHECK_INT(stat(target, &info), 0);
    CHECK_INT(info.st_mode & 0777, 0640);
}

static void notices_a_full_disk(void)
{
    pdl_output_t *output;
    struct stat   info;

    if (access("/dev/full", W_OK) != 0) return;
    REQUIRE_OK(pdl_output_open("/dev/full", &output));
    fputs("text", pdl_output_stream(output));
    CHECK_ERROR(pdl_output_close(output), "/dev/full: No space left");
    CHECK_INT(stat("/dev/full", &info), 0);
    CHECK(S_ISCHR(info.st_mode));
}

static void refuses_what_cannot_be_written(void)
{
    pdl_output_t *output;

    CHECK_ERROR(pdl_output_open(scratch_folder, &output), "Is a directory");
    CHECK_ERROR(pdl_output_open(scratch_path("no/such/folder"), &output), "No such file");
    CHECK_ERROR(pdl_output_open("", &output), "No such file");
}

/* What arrives at the end of a pipe that stands for standard output. */
static const char *capture(const char *path, bool reserve)
{
    static char   text[64];
    int           ends[2], kept = dup(STDOUT_FILENO);
    pdl_output_t *output;
    ssize_t       length;

    fflush(stdout);
    if (kept < 0 || pipe(ends) != 0) return "no pipe";
    dup2(ends[1], STDOUT_FILENO);
    close(ends[1]);
    if (reserve) CHECK_OK(pdl_output_reserve_stdout());
    if (reserve) printf("     said to standard error\n");
    REQUIRE_OK(pdl_output_open(path, &output));
    fputs("text", pdl_output_stream(output));
    CHECK_OK(pdl_output_close(output));
    pdl_output_release_stdout();
    dup2(kept, STDOUT_FILENO);
    close(kept);
    length = read(ends[0], text, sizeof(text) - 1);
    close(ends[0]);
    text[length > 0 ? length : 0] = '\0';
    return text;
}

static void writes_to_standard_output(void)
{
    int before = files_in_scratch();

    CHECK_STR(capture("-", false), "text");
    CHECK_STR(capture("-", true), "text");
    CHECK_STR(capture("/dev/stdout", false), "text");
    CHECK_STR(capture("/dev/stdout", true), "text");
    CHECK_STR(capture("/dev/fd/1", false), "text");
    CHECK_STR(capture("/proc/self/fd/1", false), "text");
    CHECK_INT(files_in_scratch(), before);
}

/* A file that is open already is not replaced by another one. */
static void writes_into_open_files(void)
{
    pdl_output_t *output;
    struct stat   before, after;
    char          path[64];
    FILE         *file = fopen(scratch_path("open"), "w");

    CHECK(file != NULL);
    if (file == NULL) return;
    CHECK_INT(fstat(fileno(file), &before), 0);
    snprintf(path, sizeof(path), "/dev/fd/%d", fileno(file));
    REQUIRE_OK(pdl_output_open(path, &output));
    fputs("text", pdl_output_stream(output));
    CHECK_OK(pdl_output_close(output));
    fclose(file);
    CHECK_STR(read_back("open"), "text");
    CHECK_INT(stat(scratch_path("open"), &after), 0);
    CHECK(before.st_ino == after.st_ino);
}

int main(void)
{
    if (!scratch_begin()) return 1;
    RUN(appears_when_closed);
    RUN(leaves_the_old_one_when_given_up);
    RUN(keeps_modes_and_links);
    RUN(notices_a_full_disk);
    RUN(refuses_what_cannot_be_written);
    RUN(writes_to_standard_output);
    RUN(writes_into_open_files);
    scratch_end();
    return test_done();
}
