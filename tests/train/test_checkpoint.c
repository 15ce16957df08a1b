/*
 * Checkpoints come back bit by bit; a killed writer or a full disk leaves the earlier ones whole; those of
 * another model are refused by the first tensor that differs.
 */
#include "base/scratch.h"
#include "test.h"
#include "train/checkpoint/checkpoint.h"

#include <paradl/base/random.h>
#include <paradl/train/checkpoint.h>

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const pdl_stored_t model_tensors[] = {
    {.name = "conv1.weight", .type = PDL_STORED_F32, .rank = 4, .dims = {16, 3, 7, 7}},
    {.name = "bn1.weight", .type = PDL_STORED_F32, .rank = 1, .dims = {16}},
    {.name = "bn1.running_mean", .type = PDL_STORED_F32, .rank = 1, .dims = {16}},
    {.name = "fc.weight", .type = PDL_STORED_F32, .rank = 2, .dims = {1000, 64}},
};
static const pdl_stored_t state_tensors[] = {
    {.name = "conv1.weight.momentum_buffer", .type = PDL_STORED_F32, .rank = 4, .dims = {16, 3, 7, 7}},
    {.name = "bn1.weight.momentum_buffer", .type = PDL_STORED_F32, .rank = 1, .dims = {16}},
    {.name = "fc.weight.momentum_buffer", .type = PDL_STORED_F32, .rank = 2, .dims = {1000, 64}},
};

static int64_t elements(const pdl_stored_t *tensor)
{
    int64_t count = 1;

    for (int d = 0; d < tensor->rank; d++) count *= tensor->dims[d];
    return count;
}

/* What is in a tensor depends on its name and on the step. */
static void make_values(const pdl_stored_t *tensor, int64_t step, float *into)
{
    pdl_random_fill((uint64_t)step, pdl_random_stream(tensor->name, 0, 0), 0, elements(tensor), into);
}

typedef struct content {
    const pdl_stored_t *tensors;
    int64_t             step;
} content_t;

static pdl_status_t fill(void *context, int i, void *into)
{
    const content_t *content = context;

    make_values(&content->tensors[i], content->step, into);
    return PDL_OK;
}

static pdl_checkpoint_info_t make_info(int64_t step)
{
    pdl_checkpoint_info_t info = {.step = step,
                                  .epoch = 3,
                                  .step_in_epoch = 17,
                                  .seed = UINT64_MAX - 5,
                                  .batch = 256,
                                  .model = "resnet \"18\"",
                                  .model_hash = UINT64_C(0x0123456789abcdef),
                                  .version = "0.1.0"};

    pdl_optimizer_defaults(&info.optimizer);
    info.optimizer.lr = 0.1 + 0.2;
    info.optimizer.nesterov = true;
    info.optimizer.schedule = PDL_LR_STEP;
    info.optimizer.milestone_count = 2;
    info.optimizer.milestone[0] = 1.0 / 3;
    info.optimizer.milestone[1] = 1e9;
    return info;
}

static pdl_status_t write_step(const char *folder, int64_t step, int keep)
{
    pdl_checkpoint_info_t info = make_info(step);
    content_t             model = {model_tensors, step}, state = {state_tensors, step};
    pdl_checkpoint_part_t model_part = {model_tensors, 4, fill, &model};
    pdl_checkpoint_part_t state_part = {state_tensors, 3, fill, &state};

    return pdl_checkpoint_write(folder, &info, &model_part, &state_part, keep);
}

static void check_values(const pdl_safetensors_t *file, const pdl_stored_t *tensors, int count, int64_t step)
{
    static float expected[64000];

    CHECK_INT(pdl_safetensors_count(file), count);
    for (int i = 0; i < count; i++) {
        const pdl_stored_t *found = pdl_safetensors_find(file, tensors[i].name);

        make_values(&tensors[i], step, expected);
        CHECK(found != NULL && found->bytes == (size_t)elements(&tensors[i]) * sizeof(float) &&
              memcmp(found->data, expected, found->bytes) == 0);
    }
}

/* The latest checkpoint is whole and says which step it is of. */
static int64_t check_latest(const char *folder)
{
    pdl_checkpoint_t *checkpoint = NULL;
    int64_t           step = -1, latest = -1;

    REQUIRE_OK(pdl_checkpoint_open(folder, &checkpoint));
    if (checkpoint == NULL) return -1;
    step = pdl_checkpoint_info(checkpoint)->step;
    check_values(pdl_checkpoint_model(checkpoint), model_tensors, 4, step);
    check_values(pdl_checkpoint_state(checkpoint), state_tensors, 3, step);
    pdl_checkpoint_close(checkpoint);
    CHECK_OK(pdl_checkpoint_latest(folder, &latest));
    CHECK_INT(latest, step);
    return step;
}

/* Names in a folder, whatever they begin with. */
static int count_entries(const char *folder)
{
    DIR           *listing = opendir(folder);
    struct dirent *entry;
    int            count = 0;

    CHECK(listing != NULL);
    while (listing != NULL && (entry = readdir(listing)) != NULL)
        count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    if (listing != NULL) closedir(listing);
    return count;
}

static char *inside(const char *folder, const char *name)
{
    static char path[2][1024];
    static int  turn;

    turn = 1 - turn;
    snprintf(path[turn], sizeof(path[turn]), "%s/%s", folder, name);
    return path[turn];
}

static void round_trip(void)
{
    char                         folder[512];
    pdl_checkpoint_info_t        wanted = make_info(1234);
    const pdl_checkpoint_info_t *info;
    pdl_checkpoint_t            *checkpoint = NULL;
    struct stat                  mode;
    mode_t                       mask = umask(027);

    snprintf(folder, sizeof(folder), "%s", scratch_path("round"));
    CHECK_OK(write_step(folder, 1234, 2));
    CHECK_INT(check_latest(folder), 1234);
    REQUIRE_OK(pdl_checkpoint_open(inside(folder, "step-00001234"), &checkpoint));
    if (checkpoint == NULL) return;
    info = pdl_checkpoint_info(checkpoint);
    CHECK_STR(pdl_checkpoint_path(checkpoint), inside(folder, "step-00001234"));
    CHECK_INT(info->epoch, 3);
    CHECK_INT(info->step_in_epoch, 17);
    CHECK(info->seed == wanted.seed && info->model_hash == wanted.model_hash);
    CHECK_INT(info->batch, 256);
    CHECK_STR(info->model, "resnet \"18\"");
    CHECK_STR(info->version, "0.1.0");
    CHECK(info->optimizer.lr == 0.1 + 0.2 && info->optimizer.nesterov && !info->optimizer.decay_all);
    CHECK_INT(info->optimizer.schedule, PDL_LR_STEP);
    CHECK_INT(info->optimizer.milestone_count, 2);
    CHECK(info->optimizer.milestone[0] == 1.0 / 3 && info->optimizer.milestone[1] == 1e9);
    CHECK(info->optimizer.epsilon == wanted.optimizer.epsilon && info->optimizer.gamma == wanted.optimizer.gamma);
    CHECK_STR(pdl_safetensors_metadata(pdl_checkpoint_model(checkpoint), "format"), "pt");
    pdl_checkpoint_close(checkpoint);
    CHECK_INT(stat(inside(folder, "step-00001234"), &mode), 0);
    CHECK_INT(mode.st_mode & 0777, 0750);
    umask(mask);
    checkpoint = NULL;
    REQUIRE_OK(pdl_checkpoint_open(inside(folder, "step-00001234/model.safetensors"), &checkpoint));
    if (checkpoint == NULL) return;
    CHECK(pdl_checkpoint_info(checkpoint) == NULL && pdl_checkpoint_state(checkpoint) == NULL);
    check_values(pdl_checkpoint_model(checkpoint), model_tensors, 4, 1234);
    pdl_checkpoint_close(checkpoint);
}

static void keeps_the_last_ones(void)
{
    const pdl_metadata_t  extra[] = {{"data", "mnist"}}, taken[] = {{"paradl.step", "1"}};
    char                  folder[512];
    int64_t               step = 0;
    pdl_checkpoint_info_t info = make_info(60);
    pdl_checkpoint_part_t none = {0};
    pdl_checkpoint_t     *checkpoint = NULL;

    snprintf(folder, sizeof(folder), "%s", scratch_path("keep"));
    CHECK_OK(pdl_checkpoint_latest(folder, &step));
    CHECK_INT(step, -1);
    for (int i = 1; i <= 5; i++) CHECK_OK(write_step(folder, 10 * i, 2));
    CHECK_INT(count_entries(folder), 2);
    CHECK(access(inside(folder, "step-00000040"), F_OK) == 0 && access(inside(folder, "step-00000050"), F_OK) == 0);
    /* The same step again takes the place of the first. */
    CHECK_OK(write_step(folder, 50, 2));
    CHECK_INT(count_entries(folder), 2);
    /* A run that starts again from an earlier step does not lose what it writes. */
    CHECK_OK(write_step(folder, 15, 1));
    CHECK_INT(count_entries(folder), 3);
    /* Files of somebody else are kept, and their folder with them. */
    fclose(fopen(inside(folder, "step-00000040/notes.txt"), "w"));
    CHECK_INT(mkdir(inside(folder, "mine"), 0777), 0);
    info.extra = extra;
    info.extra_count = 1;
    CHECK_OK(pdl_checkpoint_write(folder, &info, &none, &none, 1));
    CHECK_INT(count_entries(folder), 3);
    CHECK(access(inside(folder, "step-00000040/model.safetensors"), F_OK) == 0);
    REQUIRE_OK(pdl_checkpoint_open(folder, &checkpoint));
    CHECK(checkpoint != NULL);
    if (checkpoint != NULL) CHECK_STR(pdl_safetensors_metadata(pdl_checkpoint_state(checkpoint), "data"), "mnist");
    pdl_checkpoint_close(checkpoint);
    info.extra = taken;
    CHECK_ERROR(pdl_checkpoint_write(folder, &info, &none, &none, 1), "the key paradl.step is not free");
    info.extra_count = 0;
    CHECK_ERROR(pdl_checkpoint_write(folder, &info, &none, &none, 0), "0 to keep");
    CHECK_ERROR(write_step(inside(folder, "no/where"), 1, 1), "cannot write a checkpoint to");
}

/* What a killed writer can leave: partial folders, and a checkpoint that had stepped aside. */
static void cleans_up_after_others(void)
{
    char folder[512], outside[512];

    snprintf(folder, sizeof(folder), "%s", scratch_path("clean"));
    snprintf(outside, sizeof(outside), "%s", scratch_path("outside"));
    CHECK_OK(write_step(folder, 7, 2));
    CHECK_INT(rename(inside(folder, "step-00000007"), inside(folder, "step-00000007.replaced")), 0);
    CHECK_INT(mkdir(inside(folder, ".partial-abcdef"), 0700), 0);
    fclose(fopen(inside(folder, ".partial-abcdef/model.safetensors.Xy1234"), "w"));
    CHECK_INT(mkdir(inside(folder, "step-00000099"), 0700), 0); /* has no files: not complete */
    /* A link that leads out of the folder is not followed. */
    CHECK_INT(mkdir(outside, 0700), 0);
    fclose(fopen(inside(outside, "model.safetensors"), "w"));
    CHECK_INT(symlink(outside, inside(folder, ".partial-link")), 0);
    CHECK_INT(check_latest(folder), 7);
    CHECK_OK(write_step(folder, 7, 2));
    CHECK_INT(check_latest(folder), 7);
    CHECK(access(inside(folder, ".partial-abcdef"), F_OK) != 0);
    CHECK(access(inside(folder, "step-00000007.replaced"), F_OK) != 0);
    CHECK(access(inside(outside, "model.safetensors"), F_OK) == 0);
}

static void pause_us(int64_t us)
{
    struct timespec time = {us / 1000000, us % 1000000 * 1000};

    nanosleep(&time, NULL);
}

/* Writes checkpoints until it is killed; `advance` is 0 for one step over and over. */
static pid_t start_writer(const char *folder, int64_t step, int advance)
{
    pid_t child;

    fflush(stdout);
    child = fork();
    if (child != 0) return child;
    for (;; step += advance) {
        if (write_step(folder, step, 2) != PDL_OK) _exit(1);
    }
}

static void survive_kills(const char *name, int advance, int rounds)
{
    char    folder[512];
    int64_t before = 1;

    snprintf(folder, sizeof(folder), "%s", scratch_path(name));
    CHECK_OK(write_step(folder, before, 2));
    for (int i = 0; i < rounds; i++) {
        pid_t   child = start_writer(folder, before + advance, advance);
        int     how = 0;
        int64_t step;

        CHECK(child > 0);
        if (child <= 0) return;
        pause_us((int64_t)pdl_random_below(1, 2, (uint64_t)i, 20000));
        CHECK_INT(kill(child, SIGKILL), 0);
        CHECK_INT(waitpid(child, &how, 0), child);
        CHECK(WIFSIGNALED(how));
        step = check_latest(folder);
        CHECK(step >= before);
        before = step;
    }
    CHECK_OK(write_step(folder, before, 2));
    CHECK(count_entries(folder) <= 2);
}

static void killed_writers_leave_the_previous(void)
{
    survive_kills("killed", 1, 25);
}

static void killed_replacements_leave_one(void)
{
    survive_kills("replaced", 0, 25);
}

/* The limit on file sizes stands for a disk that is full. */
static void full_disk_keeps_the_old(void)
{
    struct rlimit old, small;
    char          folder[512];

    snprintf(folder, sizeof(folder), "%s", scratch_path("full"));
    CHECK_OK(write_step(folder, 5, 2));
    signal(SIGXFSZ, SIG_IGN);
    CHECK_INT(getrlimit(RLIMIT_FSIZE, &old), 0);
    small = old;
    for (int i = 0; i < 3; i++) {
        small.rlim_cur = (rlim_t[]){100, 20000, 266000}[i]; /* in the header, the model, the state */
        CHECK_INT(setrlimit(RLIMIT_FSIZE, &small), 0);
        CHECK_ERROR(write_step(folder, 6, 2), "cannot write");
        CHECK_INT(setrlimit(RLIMIT_FSIZE, &old), 0);
        CHECK_INT(check_latest(folder), 5);
        CHECK_INT(count_entries(folder), 1);
    }
}

static void one_writer_at_a_time(void)
{
    char folder[512];
    int  other;

    snprintf(folder, sizeof(folder), "%s", scratch_path("locked"));
    CHECK_OK(write_step(folder, 1, 2));
    other = open(folder, O_RDONLY);
    CHECK_INT(flock(other, LOCK_EX), 0);
    CHECK_ERROR(write_step(folder, 2, 2), "another run is writing a checkpoint to");
    close(other);
    CHECK_OK(write_step(folder, 2, 2));
}

/* A run has its folder for itself from the beginning to the end, however it ends. */
static void one_run_at_a_time(void)
{
    char  folder[512];
    int   ready[2], how;
    pid_t child;
    char  byte;

    snprintf(folder, sizeof(folder), "%s", scratch_path("claimed"));
    CHECK_INT(pipe(ready), 0);
    fflush(stdout);
    child = fork();
    if (child == 0) {
        if (pdl__checkpoint_claim(folder, 0) || write_step(folder, 1, 2) || write(ready[1], "", 1) != 1) _exit(1);
        for (;;) pause();
    }
    CHECK_INT(read(ready[0], &byte, 1), 1);
    CHECK_ERROR(pdl__checkpoint_claim(folder, 1), "another run is at work in");
    CHECK_ERROR(write_step(folder, 2, 2), "another run is writing a checkpoint to");
    CHECK_INT(kill(child, SIGKILL), 0);
    CHECK_INT(waitpid(child, &how, 0), child);
    CHECK_OK(pdl__checkpoint_claim(folder, 0));
    CHECK_OK(write_step(folder, 2, 2));
    pdl__checkpoint_release();
    CHECK_OK(pdl__checkpoint_claim(folder, 0));
    pdl__checkpoint_release();
}

static void refuses_another_model(void)
{
    char              folder[512];
    pdl_checkpoint_t *checkpoint = NULL;
    pdl_stored_t      wanted[5];
    uint64_t          hash = make_info(1).model_hash;

    snprintf(folder, sizeof(folder), "%s", scratch_path("other"));
    CHECK_OK(write_step(folder, 1, 2));
    REQUIRE_OK(pdl_checkpoint_open(folder, &checkpoint));
    if (checkpoint == NULL) return;
    memcpy(wanted, model_tensors, sizeof(model_tensors));
    CHECK_OK(pdl_checkpoint_check_model(checkpoint, "resnet18", hash, wanted, 4));
    CHECK_ERROR(pdl_checkpoint_check_model(checkpoint, "mine", hash + 1, wanted, 4),
                "it is of model resnet \"18\", whose layers differ from those of mine");
    CHECK_ERROR(pdl_checkpoint_check_model(checkpoint, "mine", hash, wanted, 3),
                "its tensor fc.weight is not in this model");
    wanted[3].dims[0] = 10;
    CHECK_ERROR(pdl_checkpoint_check_model(checkpoint, "mine", hash, wanted, 4),
                "fc.weight is [1000, 64], but [10, 64] in this model");
    wanted[3].rank = 1;
    CHECK_ERROR(pdl_checkpoint_check_model(checkpoint, "mine", hash, wanted, 4), "but [10] in this model");
    wanted[1].name = "layer1.bn.weight";
    CHECK_ERROR(pdl_checkpoint_check_model(checkpoint, "mine", hash, wanted, 4),
                "it has no tensor layer1.bn.weight");
    pdl_checkpoint_close(checkpoint);
}

/* Reads or writes one byte of a file. */
static unsigned char byte_at(const char *path, long at, int put)
{
    FILE         *file = fopen(path, "r+b");
    unsigned char byte = (unsigned char)put;

    CHECK(file != NULL && fseek(file, at, SEEK_SET) == 0);
    if (file == NULL) return 0;
    CHECK_INT(put < 0 ? fread(&byte, 1, 1, file) : fwrite(&byte, 1, 1, file), 1);
    fclose(file);
    return byte;
}

/* Flips one bit and expects that the checkpoint is no longer one. */
static void flip(const char *checkpoint, const char *path, long at, int bit)
{
    pdl_checkpoint_t *opened = NULL;
    unsigned char     byte = byte_at(path, at, -1);

    byte_at(path, at, byte ^ 1 << bit);
    if (pdl_checkpoint_open(checkpoint, &opened) == PDL_OK) printf("bit %d of byte %ld in %s\n", bit, at, path);
    CHECK(opened == NULL && strncmp(pdl_error_message(), checkpoint, strlen(checkpoint)) == 0);
    pdl_checkpoint_close(opened);
    byte_at(path, at, byte);
}

/* Every byte of the headers, and bytes all over the tensors. */
static void notices_every_flipped_bit(void)
{
    char folder[512], step[600], path[700];

    snprintf(folder, sizeof(folder), "%s", scratch_path("flipped"));
    snprintf(step, sizeof(step), "%s/step-00000003", folder);
    CHECK_OK(write_step(folder, 3, 2));
    for (int f = 0; f < 2; f++) {
        struct stat info;
        long        header;

        snprintf(path, sizeof(path), "%s/%s.safetensors", step, f ? "state" : "model");
        CHECK_INT(stat(path, &info), 0);
        header = 8 + byte_at(path, 0, -1) + 256L * byte_at(path, 1, -1);
        CHECK(header > 500 && header < info.st_size);
        for (long at = 0; at < header; at++) flip(step, path, at, (int)(at % 8));
        for (long at = header; at < info.st_size; at += 997) flip(step, path, at, (int)(at % 8));
        flip(step, path, info.st_size - 1, 7);
    }
    CHECK_INT(check_latest(folder), 3);
}

/* The latest that is whole stands in for one that is not, and what was wrong is known. */
static void takes_the_previous(void)
{
    char              folder[512], path[700];
    pdl_checkpoint_t *checkpoint = NULL;
    unsigned char     byte;

    snprintf(folder, sizeof(folder), "%s", scratch_path("previous"));
    CHECK_OK(write_step(folder, 1, 2));
    CHECK_OK(write_step(folder, 2, 2));
    REQUIRE_OK(pdl_checkpoint_open(folder, &checkpoint));
    if (checkpoint == NULL) return;
    CHECK(pdl_checkpoint_damage(checkpoint) == NULL && pdl_checkpoint_summed(checkpoint));
    pdl_checkpoint_close(checkpoint);
    snprintf(path, sizeof(path), "%s/step-00000002/state.safetensors", folder);
    byte = byte_at(path, 100000, -1);
    byte_at(path, 100000, byte ^ 1);
    CHECK_ERROR(pdl_checkpoint_open(inside(folder, "step-00000002"), &checkpoint),
                "step-00000002/state.safetensors: tensor fc.weight.momentum_buffer is damaged");
    REQUIRE_OK(pdl_checkpoint_open(folder, &checkpoint));
    CHECK_INT(pdl_checkpoint_info(checkpoint)->step, 1);
    CHECK(strstr(pdl_checkpoint_damage(checkpoint), "tensor fc.weight.momentum_buffer is damaged") != NULL);
    CHECK(strstr(pdl_checkpoint_damage(checkpoint), "step-00000001 is taken instead") != NULL);
    pdl_checkpoint_close(checkpoint);
    snprintf(path, sizeof(path), "%s/step-00000001/model.safetensors", folder);
    byte_at(path, 100000, byte_at(path, 100000, -1) ^ 1);
    CHECK_ERROR(pdl_checkpoint_open(folder, &checkpoint), "no earlier checkpoint is whole either");
}

/* A file as the former version wrote it. */
static void strip_sums(const char *path)
{
    FILE       *file = fopen(path, "rb");
    static char bytes[400000];
    size_t      size = file ? fread(bytes, 1, sizeof(bytes), file) : 0, header, removed;
    char       *from = size > 0 ? strstr(bytes + 8, ",\"paradl.sum\"") : NULL, *to;

    if (file) fclose(file);
    CHECK(from != NULL);
    if (from == NULL) return;
    to = strstr(from, "\"}") + 1;
    removed = (size_t)(to - from);
    header = (size_t)(unsigned char)bytes[0] + 256 * (size_t)(unsigned char)bytes[1] - removed;
    memmove(from, to, size - (size_t)(to - bytes));
    bytes[0] = (char)(header & 255);
    bytes[1] = (char)(header >> 8);
    file = fopen(path, "wb");
    CHECK(file != NULL && fwrite(bytes, 1, size - removed, file) == size - removed);
    if (file) fclose(file);
}

static void reads_the_former_version(void)
{
    char              folder[512];
    pdl_checkpoint_t *checkpoint = NULL;

    snprintf(folder, sizeof(folder), "%s", scratch_path("former"));
    CHECK_OK(write_step(folder, 4, 2));
    strip_sums(inside(folder, "step-00000004/model.safetensors"));
    strip_sums(inside(folder, "step-00000004/state.safetensors"));
    CHECK_INT(check_latest(folder), 4);
    REQUIRE_OK(pdl_checkpoint_open(folder, &checkpoint));
    if (checkpoint != NULL) CHECK(!pdl_checkpoint_summed(checkpoint));
    pdl_checkpoint_close(checkpoint);
}

static void refuses_damage(void)
{
    char              folder[512];
    pdl_checkpoint_t *checkpoint = NULL;
    struct stat       info;

    snprintf(folder, sizeof(folder), "%s", scratch_path("damaged"));
    CHECK_ERROR(pdl_checkpoint_open(folder, &checkpoint), "No such file");
    CHECK_OK(write_step(folder, 1, 2));
    CHECK_OK(write_step(folder, 2, 2));
    CHECK_INT(stat(inside(folder, "step-00000002/model.safetensors"), &info), 0);
    CHECK_INT(truncate(inside(folder, "step-00000002/model.safetensors"), info.st_size - 1), 0);
    CHECK_ERROR(pdl_checkpoint_open(inside(folder, "step-00000002"), &checkpoint),
                "step-00000002/model.safetensors: tensor fc.weight is at");
    CHECK_INT(truncate(inside(folder, "step-00000002/model.safetensors"), 4), 0);
    CHECK_ERROR(pdl_checkpoint_open(inside(folder, "step-00000002"), &checkpoint), "it has 4 bytes");
    /* Files of two checkpoints in one folder. */
    CHECK_INT(rename(inside(folder, "step-00000001/model.safetensors"),
                     inside(folder, "step-00000002/model.safetensors")),
              0);
    CHECK_ERROR(pdl_checkpoint_open(folder, &checkpoint), "its two files are of different runs: step 1 and step 2");
    CHECK_INT(unlink(inside(folder, "step-00000002/state.safetensors")), 0);
    CHECK_ERROR(pdl_checkpoint_open(folder, &checkpoint), "step-00000002 has no state.safetensors");
    CHECK_ERROR(pdl_checkpoint_open(inside(folder, "step-00000002"), &checkpoint), "has no state.safetensors");
    /* A file without our metadata is no state. */
    CHECK_OK(
        pdl_safetensors_write(inside(folder, "step-00000002/state.safetensors"), NULL, 0, NULL, 0, fill, NULL));
    CHECK_ERROR(pdl_checkpoint_open(folder, &checkpoint), "lacks paradl.format: it is no part of a checkpoint");
    CHECK(checkpoint == NULL);
}

int main(void)
{
    if (!scratch_begin()) return 1;
    RUN(round_trip);
    RUN(keeps_the_last_ones);
    RUN(cleans_up_after_others);
    RUN(killed_writers_leave_the_previous);
    RUN(killed_replacements_leave_one);
    RUN(full_disk_keeps_the_old);
    RUN(one_writer_at_a_time);
    RUN(one_run_at_a_time);
    RUN(refuses_another_model);
    RUN(notices_every_flipped_bit);
    RUN(takes_the_previous);
    RUN(reads_the_former_version);
    RUN(refuses_damage);
    scratch_end();
    return test_done();
}
