/*
 * Pieces of state in a file: what is written comes back, jobs keep their order, and a disk that fails or is too small is named.
 */
#include "test.h"

#include "train/state/state_file.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

enum { BYTES = 4096, PIECES = 7, SLOTS = 3 };
static char slots[SLOTS * BYTES];

static pdl__state_file_t *make(int pieces, size_t bytes)
{
    pdl__state_file_spec_t spec = {".", bytes, pieces, SLOTS, slots};
    pdl__state_file_t     *file = NULL;

    CHECK_OK(pdl__state_file_create(&spec, &file));
    return file;
}

static void pieces_come_back(void)
{
    pdl__state_file_t *file = make(PIECES, BYTES);
    char               some[100];

    REQUIRE(file != NULL);
    pdl__state_file_read(file, 2);
    CHECK_OK(pdl__state_file_wait(file, 2));
    CHECK_INT(pdl__state_file_slot(file, 2)[17], 0); /* a new file is zero */
    for (int step = 1; step <= 3; step++)
        for (int k = 0; k < PIECES; k++) {
            CHECK_OK(pdl__state_file_wait(file, k >= SLOTS ? k - SLOTS : -1));
            memset(pdl__state_file_slot(file, k), 10 * step + k, BYTES);
            pdl__state_file_write(file, k);
        }
    CHECK_OK(pdl__state_file_wait(file, -1));
    memset(slots, 0, sizeof(slots));
    for (int k = 0; k < PIECES; k++) {
        pdl__state_file_read(file, k);
        CHECK_OK(pdl__state_file_wait(file, k));
        CHECK_INT(pdl__state_file_slot(file, k)[0], 30 + k);
        CHECK_INT(pdl__state_file_slot(file, k)[BYTES - 1], 30 + k);
    }
    memset(some, 99, sizeof(some));
    CHECK_OK(pdl__state_file_put(file, 5, 1000, some, sizeof(some)));
    CHECK_OK(pdl__state_file_get(file, 5, 999, some, sizeof(some)));
    CHECK(some[0] == 35 && some[1] == 99 && some[99] == 99);
    pdl__state_file_destroy(file);
}

/* The descriptor of the file, which has no name. */
static int handle_of_file(void)
{
    for (int k = 3; k < 64; k++) {
        char path[64], target[512];
        snprintf(path, sizeof(path), "/proc/self/fd/%d", k);
        ssize_t length = readlink(path, target, sizeof(target) - 1);
        if (length <= 0) continue;
        target[length] = '\0';
        if (strstr(target, ".paradl-state-") != NULL) return k;
    }
    return -1;
}

/* A device that is always full takes its place. */
static void a_full_disk_is_named(void)
{
    pdl__state_file_t *file = make(PIECES, BYTES);
    int                full = open("/dev/full", O_RDWR), handle = handle_of_file();

    REQUIRE(file != NULL && full >= 0 && handle >= 0);
    pdl__state_file_write(file, 0);
    CHECK_OK(pdl__state_file_wait(file, -1));
    CHECK(dup2(full, handle) == handle);
    pdl__state_file_write(file, 1);
    CHECK_ERROR(pdl__state_file_wait(file, -1), "cannot write the optimizer's state in .: No space left on device");
    CHECK_ERROR(pdl__state_file_wait(file, 0), "No space left on device"); /* and from then on */
    pdl__state_file_destroy(file);
    close(full);
}

static void what_has_no_room_is_refused(void)
{
    pdl__state_file_spec_t spec = {".", (size_t)1 << 50, 1 << 12, SLOTS, slots};
    pdl__state_file_t     *file = NULL;

    CHECK_INT(pdl__state_file_create(&spec, &file), PDL_ERR_LIMIT);
    CHECK_ERROR(PDL_ERR_LIMIT, "the optimizer's state takes");
    spec.folder = "nowhere";
    CHECK_INT(pdl__state_file_create(&spec, &file), PDL_ERR_INPUT);
    CHECK(file == NULL);
}

int main(void)
{
    RUN(pieces_come_back);
    RUN(a_full_disk_is_named);
    RUN(what_has_no_room_is_refused);
    return test_done();
}
