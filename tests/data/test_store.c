/* Stores in memory and in files give back every bit of the samples, and take in no damaged record. */
#include "files.h"

#include "data/store/record.h"
#include "data/store/store.h"

#include <paradl/base/random.h>
#include <paradl/data/store.h>

#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>

enum { PIXELS = 28 * 28, IMAGES = 300 };

/* Images of bytes such as those of Fashion-MNIST, as IDX files. */
static pdl_source_t *open_images(void)
{
    static uint8_t       images[16 + IMAGES * PIXELS], labels[8 + IMAGES];
    pdl_source_options_t options = {.split = PDL_SPLIT_TRAIN};
    pdl_source_t        *source = NULL;

    memcpy(images, "\0\0\x08\x03\0\0\x01\x2c\0\0\0\x1c\0\0\0\x1c", 16);
    memcpy(labels, "\0\0\x08\x01\0\0\x01\x2c", 8);
    for (int64_t i = 0; i < IMAGES * PIXELS; i++)
        images[16 + i] = (uint8_t)pdl_random_below(5, 6, (uint64_t)i, 256);
    for (int i = 0; i < IMAGES; i++) labels[8 + i] = (uint8_t)(i % 10);
    if (access(in_scratch("images"), F_OK) != 0) make_folder(in_scratch("images"));
    write_file(in_scratch("images/train-images-idx3-ubyte"), images, sizeof(images));
    write_file(in_scratch("images/train-labels-idx1-ubyte"), labels, sizeof(labels));
    REQUIRE_OK(pdl_source_open(in_scratch("images"), &options, &source));
    return source;
}

static pdl_source_t *open_synthetic(pdl_target_t target, int64_t classes)
{
    pdl_source_options_t options = {.samples = 40, .target = target, .classes = classes};
    pdl_source_t        *source = NULL;

    options.shape = target == PDL_TARGET_TOKENS
                        ? (pdl_shape_t){.channels = 1, .extent = {12}, .rank = 1, .sequence = true}
                        : (pdl_shape_t){.channels = 2, .extent = {6, 5}, .rank = 2};
    REQUIRE_OK(pdl_source_open("synthetic", &options, &source));
    return source;
}

/* Sixteen-bit tokens, the last of them all the same; the last window cannot be moved as far as the others. */
static pdl_source_t *open_tokens(int64_t count, int64_t repeated)
{
    uint16_t             tokens[64];
    pdl_source_options_t options = {.shape = {.channels = 1, .extent = {8}, .rank = 1, .sequence = true},
                                    .valid_share = 1e-12};
    pdl_source_t        *source = NULL;

    for (int64_t i = 0; i < count; i++) tokens[i] = (uint16_t)(i >= count - repeated ? 7 : i * 1021);
    if (repeated == 0) make_folder(in_scratch("tokens%lld", (long long)count));
    write_file(in_scratch("tokens%lld/train.bin", (long long)count), tokens, (size_t)count * 2);
    write_file(in_scratch("tokens%lld/val.bin", (long long)count), tokens, (size_t)count * 2);
    REQUIRE_OK(pdl_source_open(in_scratch("tokens%lld", (long long)count), &options, &source));
    return source;
}

typedef struct place {
    float   values[PIXELS], numbers[64];
    int32_t tokens[64], labels[64];
} place_t;

static pdl_sample_t sample_at(place_t *place, int64_t shift)
{
    memset(place, 0x55, sizeof(*place));
    return (pdl_sample_t){.values = place->values,
                          .tokens = place->tokens,
                          .labels = place->labels,
                          .numbers = place->numbers,
                          .shift = shift};
}

/* Samples that read otherwise than from the source. */
static int differing(pdl_source_t *source, pdl_store_t *store, const int64_t *ids, int64_t count)
{
    static place_t a, b;
    const int64_t  shifts = pdl_source_info(source)->tokens ? pdl_source_info(source)->target_count : 1;
    int            wrong = 0;

    for (int64_t i = 0; i < count; i++) {
        for (int64_t shift = 0; shift < shifts; shift++) {
            pdl_sample_t from = sample_at(&a, shift), to = sample_at(&b, shift);

            wrong += pdl_source_read(source, ids[i], &from) != PDL_OK;
            wrong += pdl_source_read(pdl_store_source(store), ids[i], &to) != PDL_OK;
            wrong += memcmp(&a, &b, sizeof(a)) != 0;
        }
    }
    return wrong;
}

/* Where stores are: memory, files, and files without io_uring. */
enum { WHERE_COUNT = 3 };
static pdl_store_t *open_store(pdl_source_t *source, int where)
{
    pdl_store_spec_t spec = {.source = source, .folder = where > 0 ? in_scratch("store/deep") : NULL};
    pdl_store_t     *store = NULL;

    REQUIRE_OK(pdl__store_create(&spec, where == 1, &store));
    CHECK(where == 1 || !pdl__store_ring(store));
    return store;
}

static void check_round_trip(pdl_source_t *source, double bytes_each)
{
    const int64_t samples = pdl_source_info(source)->samples;
    int64_t       ids[IMAGES], most = 0;
    uint8_t      *record;

    for (int64_t i = 0; i < samples; i++) ids[i] = samples - 1 - i;
    for (int where = 0; where < WHERE_COUNT; where++) {
        pdl_store_t *store = open_store(source, where), *other = open_store(source, where);
        int64_t      bytes = 0;

        record = malloc((size_t)pdl_store_most_bytes(store));
        REQUIRE_OK(pdl_store_load(store, ids, samples));
        CHECK_INT(pdl_store_count(store), samples);
        if (bytes_each > 0) CHECK_NEAR(pdl_store_bytes(store), bytes_each * (double)samples, 0);
        CHECK_INT(differing(source, store, ids, samples), 0);
        for (int64_t i = 0; i < samples; i++) {
            CHECK_OK(pdl_store_get(store, ids[i], record, &bytes));
            if (bytes > most) most = bytes;
            CHECK_OK(pdl_store_add(other, ids[i], record, bytes));
        }
        CHECK(most <= pdl_store_most_bytes(store));
        CHECK_INT(pdl_store_count(other), samples);
        CHECK_OK(pdl_store_commit(other, NULL, 0));
        CHECK_INT(differing(source, other, ids, samples), 0);
        free(record);
        pdl_store_destroy(store);
        pdl_store_destroy(other);
    }
    pdl_source_close(source);
}

static void every_kind_of_sample_comes_back(void)
{
    check_round_trip(open_images(), 40 + PIXELS + 1);
    check_round_trip(open_synthetic(PDL_TARGET_CLASS, 10), 40 + 4 * 60 + 1);
    check_round_trip(open_synthetic(PDL_TARGET_CLASS, 1000), 0);
    check_round_trip(open_synthetic(PDL_TARGET_CLASS, 100000), 0);
    check_round_trip(open_synthetic(PDL_TARGET_MASK, 10), 40 + 4 * 60 + 30);
    check_round_trip(open_synthetic(PDL_TARGET_VALUES, 3), 40 + 4 * 63);
    check_round_trip(open_synthetic(PDL_TARGET_TOKENS, 200), 40 + 24);
    check_round_trip(open_synthetic(PDL_TARGET_TOKENS, 100000), 40 + 4 * 24);
    for (int64_t count = 33; count <= 42; count++) {
        for (int64_t repeated = 0; repeated <= 16; repeated += 4) check_round_trip(open_tokens(count, repeated), 0);
    }
}

static void samples_come_and_go(void)
{
    pdl_source_t *source = open_images();
    int64_t       ids[100], more[60];
    uint8_t      *record;
    place_t       place;
    pdl_sample_t  sample = sample_at(&place, 0);

    for (int64_t i = 0; i < 100; i++) ids[i] = i * 3;
    for (int64_t i = 0; i < 60; i++) more[i] = i * 3 + 1;
    for (int where = 0; where < WHERE_COUNT; where++) {
        pdl_store_t *store = open_store(source, where), *other = open_store(source, where);
        int64_t      bytes;

        record = malloc((size_t)pdl_store_most_bytes(store));
        REQUIRE_OK(pdl_store_load(store, ids, 100));
        REQUIRE_OK(pdl_store_load(other, more, 60));
        for (int round = 0; round < 2; round++) {
            for (int64_t i = 0; i < 60; i++) {
                CHECK_OK(pdl_store_get(other, more[i], record, &bytes));
                CHECK_OK(pdl_store_add(store, more[i], record, bytes));
            }
            CHECK_INT(pdl_store_count(store), 160);
            CHECK_ERROR(pdl_source_read(pdl_store_source(store), 1, &sample), "sample 1 is not held");
            if (round == 0) pdl_store_discard(store);
            CHECK_INT(pdl_store_count(store), round == 0 ? 100 : 160);
        }
        CHECK_ERROR(pdl_store_commit(store, more, 1), "not held");
        CHECK_OK(pdl_store_commit(store, ids, 40));
        CHECK_INT(pdl_store_count(store), 120);
        CHECK_INT(differing(source, store, ids + 40, 60) + differing(source, store, more, 60), 0);
        CHECK_ERROR(pdl_source_read(pdl_store_source(store), 0, &sample), "sample 0 is not held");
        CHECK_ERROR(pdl_store_get(store, 0, record, &bytes), "not held");
        CHECK_ERROR(pdl_source_read(pdl_store_source(store), IMAGES, &sample), "no sample 300");
        CHECK_OK(pdl_store_get(store, 120, record, &bytes));
        CHECK_ERROR(pdl_store_add(store, 120, record, bytes), "held already");
        REQUIRE_OK(pdl_store_load(store, ids, 100)); /* back to where it was */
        CHECK_INT(pdl_store_count(store), 100);
        CHECK_INT(differing(source, store, ids, 100), 0);
        CHECK_ERROR(pdl_store_load(store, (int64_t[]){1, IMAGES}, 2), "no sample 300");
        free(record);
        pdl_store_destroy(store);
        pdl_store_destroy(other);
    }
    pdl_source_close(source);
}

static void many_records_at_once(void)
{
    pdl_source_t *source = open_images();
    int64_t       ids[IMAGES];

    for (int64_t i = 0; i < IMAGES; i++) ids[i] = i * 7 % IMAGES;
    for (int where = 0; where < WHERE_COUNT; where++) {
        pdl_store_t *store = open_store(source, where);
        uint8_t     *all, *one, *next;
        int64_t      total = 0, bytes;

        REQUIRE_OK(pdl_store_load(store, ids, IMAGES));
        for (int64_t i = 0; i < IMAGES; i++) total += pdl__store_record_bytes(store, ids[i]);
        CHECK_INT(pdl__store_record_bytes(store, -1), -1);
        all = next = malloc((size_t)total);
        one = malloc((size_t)pdl_store_most_bytes(store));
        CHECK_OK(pdl__store_get_many(store, ids, IMAGES, all));
        for (int64_t i = 0; i < IMAGES; i++) {
            CHECK_OK(pdl_store_get(store, ids[i], one, &bytes));
            CHECK(memcmp(one, next, (size_t)bytes) == 0);
            next += bytes;
        }
        free(all);
        free(one);
        pdl_store_destroy(store);
    }
    pdl_source_close(source);
}

static void damaged_records_are_refused(void)
{
    pdl_source_t            *source = open_images();
    pdl_store_t             *store = open_store(source, 0), *other = open_store(source, 0);
    const pdl_source_info_t *info = pdl_source_info(source);
    uint8_t                 *record = malloc((size_t)pdl_store_most_bytes(store) + 8);
    int64_t                  bytes, id = 4;
    int                      accepted = 0;

    REQUIRE_OK(pdl_store_load(store, &id, 1));
    CHECK_OK(pdl_store_get(store, id, record, &bytes));
    for (int64_t i = 0; i < bytes; i++) {
        record[i] ^= 0x10;
        accepted += pdl_store_add(other, id, record, bytes) == PDL_OK;
        record[i] ^= 0x10;
        accepted += pdl__record_check(info, id, record, i) == PDL_OK;
    }
    CHECK_INT(accepted, 0);
    CHECK_ERROR(pdl_store_add(other, id, record, bytes - 1), "cut off or damaged");
    CHECK_ERROR(pdl_store_add(other, id, record, 3), "cut off after 3 bytes");
    CHECK_ERROR(pdl_store_add(other, id + 1, record, bytes), "in place of sample 5");
    CHECK_ERROR(pdl_store_add(other, IMAGES, record, bytes), "no sample 300");
    CHECK_INT(pdl_store_count(other), 0);
    CHECK_OK(pdl_store_add(other, id, record, bytes));
    pdl_store_destroy(store);
    pdl_store_destroy(other);
    free(record);
    pdl_source_close(source);
}

static int files_in(const char *folder)
{
    DIR           *opened = opendir(folder);
    struct dirent *entry;
    int            count = 0;

    while (opened != NULL && (entry = readdir(opened)) != NULL) count += entry->d_name[0] != '.';
    if (opened != NULL) closedir(opened);
    return count;
}

/* Not even while a store is open, so that nothing is left when the program is killed. */
static void no_file_is_left(void)
{
    pdl_source_t *source = open_images();
    pdl_store_t  *store = open_store(source, 1);
    int64_t       ids[] = {1, 2, 3};

    REQUIRE_OK(pdl_store_load(store, ids, 3));
    CHECK_INT(files_in(in_scratch("store/deep")), 0);
    pdl_store_destroy(store);
    CHECK_INT(files_in(in_scratch("store/deep")), 0);
    pdl_source_close(source);
}

static void a_full_disk_is_one_clear_line(void)
{
    pdl_source_t *source = open_images();
    struct rlimit old, small;
    int64_t       ids[IMAGES];

    for (int64_t i = 0; i < IMAGES; i++) ids[i] = i;
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &old);
    small = old;
    small.rlim_cur = 100000;
    for (int where = 1; where < WHERE_COUNT; where++) {
        pdl_store_t *store = open_store(source, where);

        setrlimit(RLIMIT_FSIZE, &small);
        CHECK_ERROR(pdl_store_load(store, ids, IMAGES), "no room for more samples (File too large): name a folder");
        setrlimit(RLIMIT_FSIZE, &old);
        pdl_store_destroy(store);
    }
    CHECK_ERROR(pdl_store_create(&(pdl_store_spec_t){.source = source, .folder = "/proc/none"},
                                 &(pdl_store_t *){NULL}),
                "/proc/none");
    pdl_source_close(source);
}

static pdl_source_t *shared_source;
static pdl_store_t  *shared_store;

static void *read_many(void *failures)
{
    static _Thread_local place_t a, b;

    for (int64_t i = 0; i < 2000; i++) {
        const int64_t id = i * 13 % 150;
        pdl_sample_t  from = sample_at(&a, 0), to = sample_at(&b, 0);

        *(int *)failures += pdl_source_read(shared_source, id, &from) != PDL_OK ||
                            pdl_source_read(pdl_store_source(shared_store), id, &to) != PDL_OK ||
                            memcmp(&a, &b, sizeof(a)) != 0;
    }
    return NULL;
}

/* Threads of a loader read while samples arrive. */
static void reading_goes_on_while_samples_arrive(void)
{
    int64_t  ids[IMAGES], bytes;
    uint8_t *record;

    shared_source = open_images();
    for (int64_t i = 0; i < IMAGES; i++) ids[i] = i;
    for (int where = 0; where < WHERE_COUNT; where++) {
        pdl_store_t *other = open_store(shared_source, 0);
        pthread_t    thread[2];
        int          failures[2] = {0};

        shared_store = open_store(shared_source, where);
        record = malloc((size_t)pdl_store_most_bytes(other));
        REQUIRE_OK(pdl_store_load(shared_store, ids, 150));
        REQUIRE_OK(pdl_store_load(other, ids + 150, 150));
        for (int t = 0; t < 2; t++) pthread_create(&thread[t], NULL, read_many, &failures[t]);
        for (int64_t id = 150; id < IMAGES; id++) {
            CHECK_OK(pdl_store_get(other, id, record, &bytes));
            CHECK_OK(pdl_store_add(shared_store, id, record, bytes));
        }
        for (int t = 0; t < 2; t++) pthread_join(thread[t], NULL);
        CHECK_INT(failures[0] + failures[1], 0);
        CHECK_OK(pdl_store_commit(shared_store, ids, 150));
        CHECK_INT(differing(shared_source, shared_store, ids + 150, 150), 0);
        free(record);
        pdl_store_destroy(other);
        pdl_store_destroy(shared_store);
    }
    pdl_source_close(shared_source);
}

int main(void)
{
    files_begin();
    RUN(every_kind_of_sample_comes_back);
    RUN(samples_come_and_go);
    RUN(many_records_at_once);
    RUN(damaged_records_are_refused);
    RUN(no_file_is_left);
    RUN(a_full_disk_is_one_clear_line);
    RUN(reading_goes_on_while_samples_arrive);
    return test_done();
}
