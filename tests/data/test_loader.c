/* The loader gives the same batches with any number of threads, after a jump, and over any division into ranks. */
#include "test.h"

#include <paradl/base/random.h>
#include <paradl/data/data.h>
#include <paradl/tensor/backend.h>

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { COUNT = 53, ROWS = 8, COLUMNS = 6, PIXELS = ROWS * COLUMNS };

static char          parent[] = "loader-XXXXXX", folder[64];
static pdl_source_t *images; /* under the name of a known set, so that mean and deviation are known */

/* Never 0, so that padding can be told apart; the first pixel names the sample. */
static int pixel_of(int64_t index, int64_t place)
{
    return place == 0 ? (int)index + 1 : (int)((index * 31 + place * 7) % 250) + 1;
}

static void put_number(FILE *file, unsigned number)
{
    for (int shift = 24; shift >= 0; shift -= 8) putc((int)(number >> shift & 255), file);
}

static FILE *open_file(const char *name)
{
    char  path[512];
    FILE *file;

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    file = fopen(path, "wb");
    if (file == NULL) {
        printf("cannot write %s: %s\n", path, strerror(errno));
        exit(1);
    }
    return file;
}

static void write_split(const char *image_name, const char *label_name)
{
    FILE *image = open_file(image_name), *label = open_file(label_name);

    put_number(image, 0x803);
    put_number(image, COUNT);
    put_number(image, ROWS);
    put_number(image, COLUMNS);
    put_number(label, 0x801);
    put_number(label, COUNT);
    for (int64_t i = 0; i < COUNT; i++) {
        for (int64_t p = 0; p < PIXELS; p++) putc(pixel_of(i, p), image);
        putc((int)(i % 10), label);
    }
    fclose(image);
    fclose(label);
}

static void write_images(void)
{
    if (mkdtemp(parent) != NULL) snprintf(folder, sizeof(folder), "%s/mnist", parent);
    if (folder[0] == '\0' || mkdir(folder, 0777) != 0) {
        printf("cannot make %s: %s\n", parent, strerror(errno));
        exit(1);
    }
    write_split("train-images-idx3-ubyte", "train-labels-idx1-ubyte");
    write_split("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte");
}

static void remove_images(void)
{
    static const char *const names[] = {"train-images-idx3-ubyte", "train-labels-idx1-ubyte",
                                        "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"};
    char                     path[512];

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        snprintf(path, sizeof(path), "%s/%s", folder, names[i]);
        unlink(path);
    }
    rmdir(folder);
    rmdir(parent);
}

static pdl_loader_spec_t plain_spec(pdl_global_order_t *order, int threads, int depth)
{
    return (pdl_loader_spec_t){.source = images,
                               .samples = order->batch,
                               .order = pdl_global_order,
                               .order_context = order,
                               .steps_per_epoch = pdl_global_order_steps(order),
                               .threads = threads,
                               .depth = depth,
                               .seed = 11};
}

static pdl_global_order_t plain_order(int64_t batch)
{
    return (pdl_global_order_t){.samples = COUNT, .batch = batch, .seed = 5, .shuffle = true, .epoch = -1};
}

/* A number that two batches share only when they are equal. */
static uint64_t sum_batch(const pdl_batch_t *batch, int64_t samples)
{
    uint64_t sum = (uint64_t)(batch->epoch * 1000 + batch->step);

    for (int64_t i = 0; i < samples; i++) {
        sum = sum * 31 + (uint64_t)batch->index[i];
        sum = sum * 31 + (uint64_t)batch->labels[i];
        sum = sum * 31 + (uint64_t)(batch->weight[i] != 0);
        for (int64_t p = 0; p < PIXELS; p++) {
            uint32_t bits;

            memcpy(&bits, &batch->values[i * PIXELS + p], sizeof(bits));
            sum = sum * 31 + bits;
        }
    }
    return sum;
}

static bool bytes; /* images stay bytes, in memory of a device, which makes the rest of them */

/* What a device makes of the batch. */
static void expand(const pdl_batch_t *batch, int64_t samples, float *values)
{
    pdl_backend_t *backend = NULL;

    REQUIRE_OK(pdl_backend_create("cpu", &(pdl_cpu_options_t){.threads = 1}, &backend));
    CHECK(batch->values == NULL);
    CHECK_OK(backend->ops->load_images(backend, NULL, &pdl_source_info(images)->shape, samples, batch->bytes,
                                       batch->changes, batch->scale, PDL_FORMAT_PLAIN, values));
    pdl_backend_destroy(backend);
}

static void run(int threads, int depth, int batches, uint64_t *sums)
{
    pdl_global_order_t order = plain_order(8);
    pdl_loader_t      *loader = NULL;
    pdl_loader_spec_t  spec;

    order.keep_rest = true;
    spec = plain_spec(&order, threads, depth);
    spec.augmentation = (pdl_augmentation_t){.crop_pad = 2, .flip = true, .cutout = 3};
    spec.normalise = true;
    spec.bytes = bytes;
    if (bytes) spec.device = pdl_device_cpu();
    REQUIRE_OK(pdl_loader_create(&spec, &loader));
    for (int i = 0; loader != NULL && i < batches; i++) {
        pdl_batch_t batch, next;
        float       values[8 * PIXELS];

        bool there = pdl_loader_peek(loader, &next);
        REQUIRE_OK(pdl_loader_next(loader, &batch));
        CHECK(!there || (next.step == batch.step && next.weight == batch.weight && next.bytes == batch.bytes));
        if (bytes) expand(&batch, 8, values);
        if (bytes) batch.values = values;
        CHECK_INT(batch.epoch, i / spec.steps_per_epoch);
        CHECK_INT(batch.step, i % spec.steps_per_epoch);
        sums[i] = sum_batch(&batch, 8);
    }
    pdl_loader_destroy(loader);
    pdl_global_order_free(&order);
}

static void same_with_any_threads_and_depth(void)
{
    enum { BATCHES = 30 };
    static const int threads[] = {1, 2, 4, 7}, depths[] = {1, 2, 5};
    uint64_t         expected[BATCHES], sums[BATCHES];

    run(1, 1, BATCHES, expected);
    for (size_t t = 0; t < sizeof(threads) / sizeof(threads[0]); t++) {
        for (size_t d = 0; d < sizeof(depths) / sizeof(depths[0]); d++) {
            run(threads[t], depths[d], BATCHES, sums);
            CHECK(memcmp(sums, expected, sizeof(sums)) == 0);
        }
    }
}

static void resumes_anywhere(void)
{
    enum { BATCHES = 20 };
    pdl_global_order_t order = plain_order(8);
    pdl_loader_spec_t  spec = plain_spec(&order, 2, 3);
    pdl_loader_t      *loader = NULL;
    pdl_batch_t        batch;
    uint64_t           expected[BATCHES];

    spec.augmentation.crop_pad = 1;
    REQUIRE_OK(pdl_loader_create(&spec, &loader));
    if (loader == NULL) return;
    for (int i = 0; i < BATCHES; i++) {
        REQUIRE_OK(pdl_loader_next(loader, &batch));
        expected[i] = sum_batch(&batch, 8);
    }
    for (int start = BATCHES - 1; start >= 0; start -= 3) {
        REQUIRE_OK(pdl_loader_seek(loader, start / spec.steps_per_epoch, start % spec.steps_per_epoch));
        for (int i = start; i < BATCHES && i < start + 4; i++) {
            REQUIRE_OK(pdl_loader_next(loader, &batch));
            CHECK(sum_batch(&batch, 8) == expected[i]);
        }
    }
    CHECK_ERROR(pdl_loader_seek(loader, 0, spec.steps_per_epoch), "an epoch has 6 steps");
    CHECK_ERROR(pdl_loader_seek(loader, -1, 0), "epoch -1");
    pdl_loader_destroy(loader);
    pdl_global_order_free(&order);
}

/* Ranks with parts of different sizes read every sample exactly once in an epoch, with its own pixels and label. */
static void read_epoch(int ranks, int64_t batch_size, int *seen)
{
    int64_t first = 0;

    for (int rank = 0; rank < ranks; rank++) {
        int64_t            part = batch_size / ranks + (rank < batch_size % ranks);
        pdl_global_order_t order = plain_order(batch_size);
        pdl_loader_t      *loader = NULL;
        pdl_loader_spec_t  spec;
        pdl_batch_t        batch;

        order.first = first;
        order.keep_rest = true;
        spec = plain_spec(&order, 2, 2);
        spec.samples = part;
        REQUIRE_OK(pdl_loader_create(&spec, &loader));
        if (loader == NULL) return;
        for (int64_t step = 0; step < spec.steps_per_epoch; step++) {
            REQUIRE_OK(pdl_loader_next(loader, &batch));
            for (int64_t i = 0; i < part; i++) {
                const float *values = batch.values + i * PIXELS;
                int64_t      index = batch.index[i];

                CHECK_NEAR(batch.weight[i], index >= 0, 0);
                CHECK_INT(batch.labels[i], index >= 0 ? index % 10 : 0);
                CHECK_NEAR(values[0], index >= 0 ? pixel_of(index, 0) / 255.0 : 0, 1e-6);
                CHECK_NEAR(values[17], index >= 0 ? pixel_of(index, 17) / 255.0 : 0, 1e-6);
                if (index >= 0) seen[index]++;
            }
        }
        pdl_loader_destroy(loader);
        pdl_global_order_free(&order);
        first += part;
    }
}

static void every_sample_once(void)
{
    for (int ranks = 1; ranks <= 4; ranks++) {
        int seen[COUNT] = {0};

        read_epoch(ranks, 10, seen);
        for (int i = 0; i < COUNT; i++) CHECK_INT(seen[i], 1);
    }
}

static void order_of_epochs(void)
{
    pdl_global_order_t order = plain_order(10);
    int64_t            first[10], second[10];

    CHECK_INT(pdl_global_order_steps(&order), 5);
    CHECK_OK(pdl_global_order(&order, 0, 0, 10, first));
    CHECK_OK(pdl_global_order(&order, 1, 0, 10, second));
    CHECK(memcmp(first, second, sizeof(first)) != 0);
    CHECK_OK(pdl_global_order(&order, 0, 0, 10, second));
    CHECK(memcmp(first, second, sizeof(first)) == 0);
    CHECK_ERROR(pdl_global_order(&order, 0, 5, 10, first), "no step 5");
    CHECK_ERROR(pdl_global_order(&order, 0, 0, 11, first), "batch of 10");
    pdl_global_order_free(&order);

    order = (pdl_global_order_t){.samples = COUNT, .batch = 10, .first = 4, .keep_rest = true, .epoch = -1};
    CHECK_INT(pdl_global_order_steps(&order), 6);
    CHECK_OK(pdl_global_order(&order, 3, 1, 3, first));
    for (int i = 0; i < 3; i++) CHECK_INT(first[i], 14 + i);
    CHECK_OK(pdl_global_order(&order, 0, 5, 6, first));
    for (int i = 0; i < 6; i++) CHECK_INT(first[i], -1);
    pdl_global_order_free(&order);
    order = (pdl_global_order_t){.samples = 3, .batch = 10, .epoch = -1};
    CHECK_INT(pdl_global_order_steps(&order), 0);
}

/* Finds how the stored sample was moved: the offset and flip that explain every pixel. */
static bool explain(const float *values, int64_t index, int pad, int *move_y, int *move_x, bool *flip)
{
    for (int trial = 0; trial < 2 * (2 * pad + 1) * (2 * pad + 1); trial++) {
        int  dy = trial / 2 % (2 * pad + 1) - pad, dx = trial / 2 / (2 * pad + 1) - pad;
        bool match = true;

        for (int p = 0; p < PIXELS && match; p++) {
            int y = p / COLUMNS + dy, x = (trial % 2 ? COLUMNS - 1 - p % COLUMNS : p % COLUMNS) + dx;
            int inside = y >= 0 && y < ROWS && x >= 0 && x < COLUMNS;

            match = fabs(values[p] * 255 - (inside ? pixel_of(index, y * COLUMNS + x) : 0)) < 1e-3;
        }
        if (!match) continue;
        *move_y = dy;
        *move_x = dx;
        *flip = trial % 2;
        return true;
    }
    return false;
}

static void crops_and_flips_are_even(void)
{
    enum { PAD = 2, EPOCHS = 60 };
    pdl_global_order_t order = plain_order(COUNT);
    pdl_loader_spec_t  spec = plain_spec(&order, 2, 2);
    pdl_loader_t      *loader = NULL;
    int                moves[2 * PAD + 1][2] = {{0}}, flips = 0;
    const double       draws = (double)EPOCHS * COUNT;

    spec.augmentation = (pdl_augmentation_t){.crop_pad = PAD, .flip = true};
    REQUIRE_OK(pdl_loader_create(&spec, &loader));
    for (int epoch = 0; loader != NULL && epoch < EPOCHS; epoch++) {
        pdl_batch_t batch;

        REQUIRE_OK(pdl_loader_next(loader, &batch));
        for (int i = 0; i < COUNT; i++) {
            int  dy = 0, dx = 0;
            bool flip = false;

            CHECK(explain(batch.values + i * PIXELS, batch.index[i], PAD, &dy, &dx, &flip));
            moves[dy + PAD][0]++;
            moves[dx + PAD][1]++;
            flips += flip;
        }
    }
    for (int i = 0; i <= 2 * PAD; i++) {
        CHECK_NEAR(moves[i][0], draws / (2 * PAD + 1), 0.15);
        CHECK_NEAR(moves[i][1], draws / (2 * PAD + 1), 0.15);
    }
    CHECK_NEAR(flips, draws / 2, 0.08);
    pdl_loader_destroy(loader);
    pdl_global_order_free(&order);
}

static void cutout_is_a_square(void)
{
    pdl_global_order_t order = plain_order(COUNT);
    pdl_loader_spec_t  spec = plain_spec(&order, 1, 1);
    pdl_loader_t      *loader = NULL;
    pdl_batch_t        batch;
    int                full = 0;

    spec.augmentation.cutout = 3;
    REQUIRE_OK(pdl_loader_create(&spec, &loader));
    if (loader == NULL) return;
    REQUIRE_OK(pdl_loader_next(loader, &batch));
    for (int i = 0; i < COUNT; i++) {
        int cut = 0;

        for (int p = 0; p < PIXELS; p++)
            cut += fabs(batch.values[i * PIXELS + p] * 255 - pixel_of(batch.index[i], p)) > 0.2;
        CHECK(cut == 9 || cut == 6 || cut == 4);
        full += cut == 9;
    }
    CHECK(full > COUNT / 4);
    pdl_loader_destroy(loader);
    pdl_global_order_free(&order);
}

static void normalises(void)
{
    const pdl_source_info_t *info = pdl_source_info(images);
    pdl_global_order_t       order = plain_order(COUNT);
    pdl_loader_spec_t        spec = plain_spec(&order, 1, 1);
    pdl_loader_t            *loader = NULL;
    pdl_batch_t              batch;
    int                      zeros = 0;

    CHECK_INT(info->mean_count, 1);
    spec.normalise = true;
    spec.augmentation.cutout = 2;
    REQUIRE_OK(pdl_loader_create(&spec, &loader));
    if (loader == NULL) return;
    REQUIRE_OK(pdl_loader_next(loader, &batch));
    for (int i = 0; i < COUNT * PIXELS; i++) {
        double pixel = pixel_of(batch.index[i / PIXELS], i % PIXELS) / 255.0;

        zeros += batch.values[i] == 0; /* what is cut out becomes the mean */
        if (batch.values[i] != 0) CHECK_NEAR(batch.values[i], (pixel - info->mean[0]) / info->deviation[0], 1e-4);
    }
    CHECK(zeros > COUNT && zeros <= 4 * COUNT);
    pdl_loader_destroy(loader);
    pdl_global_order_free(&order);
}

/* Step 3 asks for a sample that does not exist, step 5 for nothing at all. */
static pdl_status_t broken_order(void *context, int64_t epoch, int64_t step, int64_t count, int64_t *indices)
{
    (void)context;
    (void)epoch;
    for (int64_t i = 0; i < count; i++) indices[i] = i;
    if (step == 3) indices[count - 1] = 1000;
    return step == 5 ? pdl_error(PDL_ERR_IO, "the order has run dry") : PDL_OK;
}

static void errors_come_at_their_batch(void)
{
    for (int threads = 1; threads <= 4; threads++) {
        pdl_loader_spec_t spec = {.source = images,
                                  .samples = 6,
                                  .order = broken_order,
                                  .steps_per_epoch = 10,
                                  .threads = threads,
                                  .depth = 4};
        pdl_loader_t     *loader = NULL;
        pdl_batch_t       batch;

        REQUIRE_OK(pdl_loader_create(&spec, &loader));
        if (loader == NULL) return;
        for (int i = 0; i < 3; i++) REQUIRE_OK(pdl_loader_next(loader, &batch));
        CHECK_ERROR(pdl_loader_next(loader, &batch), "there is no sample 1000");
        CHECK_ERROR(pdl_loader_next(loader, &batch), "there is no sample 1000");
        REQUIRE_OK(pdl_loader_seek(loader, 0, 4));
        REQUIRE_OK(pdl_loader_next(loader, &batch));
        CHECK_INT(batch.step, 4);
        CHECK_ERROR(pdl_loader_next(loader, &batch), "run dry");
        REQUIRE_OK(pdl_loader_seek(loader, 7, 9));
        REQUIRE_OK(pdl_loader_next(loader, &batch));
        REQUIRE_OK(pdl_loader_next(loader, &batch));
        CHECK_INT(batch.epoch, 8);
        CHECK_INT(batch.step, 0);
        pdl_loader_destroy(loader);
    }
}

static void ends_while_workers_are_busy(void)
{
    for (int i = 0; i < 60; i++) {
        pdl_global_order_t order = plain_order(16);
        pdl_loader_spec_t  spec = plain_spec(&order, 1 + i % 4, 1 + i % 3);
        pdl_loader_t      *loader = NULL;
        pdl_batch_t        batch;

        spec.augmentation.crop_pad = 1;
        REQUIRE_OK(pdl_loader_create(&spec, &loader));
        if (loader == NULL) return;
        if (i % 2) REQUIRE_OK(pdl_loader_next(loader, &batch));
        if (i % 5 == 0) REQUIRE_OK(pdl_loader_seek(loader, 1, 1));
        pdl_loader_destroy(loader);
        pdl_global_order_free(&order);
    }
    pdl_loader_destroy(NULL);
}

static void tokens_shift_every_epoch(void)
{
    enum { WINDOW = 16 };
    pdl_source_options_t options = {.shape = {.channels = 1, .extent = {WINDOW, 1, 1}, .rank = 1, .sequence = true},
                                    .classes = 50,
                                    .target = PDL_TARGET_TOKENS,
                                    .samples = 12};
    pdl_source_t        *source = NULL;
    pdl_global_order_t   order = {.samples = 12, .batch = 12, .epoch = -1};
    pdl_loader_t        *loader = NULL;
    pdl_loader_spec_t    spec;
    int                  shifted = 0;

    REQUIRE_OK(pdl_source_open("synthetic", &options, &source));
    if (source == NULL) return;
    spec = plain_spec(&order, 2, 2);
    spec.source = source;
    spec.shift_tokens = true;
    REQUIRE_OK(pdl_loader_create(&spec, &loader));
    for (int epoch = 0; loader != NULL && epoch < 6; epoch++) {
        int32_t     tokens[WINDOW], labels[WINDOW];
        pdl_batch_t batch;
        int64_t     shift =
            (int64_t)pdl_random_below(11, pdl_random_stream("token shift", 0, 0), (uint64_t)epoch, WINDOW);
        pdl_sample_t sample = {.tokens = tokens, .labels = labels, .shift = shift};

        REQUIRE_OK(pdl_loader_next(loader, &batch));
        CHECK(batch.values == NULL);
        for (int i = 0; i < 12; i++) {
            CHECK_OK(pdl_source_read(source, i, &sample));
            CHECK(memcmp(tokens, batch.tokens + i * WINDOW, sizeof(tokens)) == 0);
            CHECK(memcmp(labels, batch.labels + i * WINDOW, sizeof(labels)) == 0);
        }
        shifted += shift != 0;
    }
    CHECK(shifted > 0);
    pdl_loader_destroy(loader);
    pdl_source_close(source);
}

static float half_of_odd(void *context, int64_t index)
{
    (void)context;
    return index % 2 ? 0.5f : 1;
}

/* Epochs of other lengths, each opened when it is time; and samples that count less. */
static void gates_open_one_epoch(void)
{
    pdl_global_order_t order = plain_order(8);
    pdl_loader_spec_t  spec = plain_spec(&order, 2, 3);
    pdl_loader_t      *loader = NULL;
    pdl_batch_t        batch;
    const int64_t      steps[] = {3, 1, 6};

    spec.gated = true;
    spec.weigh = half_of_odd;
    REQUIRE_OK(pdl_loader_create(&spec, &loader));
    CHECK_ERROR(pdl_loader_next(loader, &batch), "open the next one");
    for (int64_t epoch = 0; epoch < 3; epoch++) {
        REQUIRE_OK(pdl_loader_epoch(loader, epoch, epoch == 2 ? 4 : 0, steps[epoch]));
        for (int64_t step = epoch == 2 ? 4 : 0; step < steps[epoch]; step++) {
            REQUIRE_OK(pdl_loader_next(loader, &batch));
            CHECK(batch.epoch == epoch && batch.step == step);
            for (int64_t i = 0; i < 8; i++) CHECK(batch.weight[i] == half_of_odd(NULL, batch.index[i]));
        }
        CHECK_ERROR(pdl_loader_next(loader, &batch), "open the next one");
    }
    CHECK_ERROR(pdl_loader_epoch(loader, 3, 2, 2), "cannot go on");
    pdl_loader_destroy(loader);
    pdl_global_order_free(&order);
}

static void bytes_become_the_same(void)
{
    uint64_t floats[12], same[12];

    bytes = false;
    run(1, 1, 12, floats);
    bytes = true;
    run(2, 3, 12, same);
    bytes = false;
    CHECK(memcmp(floats, same, sizeof(same)) == 0);
}

static void refuses_nonsense(void)
{
    pdl_global_order_t order = plain_order(8);
    pdl_loader_spec_t  spec = plain_spec(&order, 0, 1);
    pdl_loader_t      *loader = NULL;

    CHECK_ERROR(pdl_loader_create(&spec, &loader), "at least one");
    spec.threads = 1;
    spec.augmentation.crop_pad = -1;
    CHECK_ERROR(pdl_loader_create(&spec, &loader), "crop padding -1");
    spec.augmentation.crop_pad = 0;
    spec.samples = INT64_MAX / 2;
    CHECK_ERROR(pdl_loader_create(&spec, &loader), "out of memory");
    CHECK(loader == NULL);
}

int main(void)
{
    pdl_source_options_t options = {.split = PDL_SPLIT_TRAIN, .folder = parent};

    write_images();
    REQUIRE_OK(pdl_source_open("mnist", &options, &images));
    if (images != NULL) {
        RUN(order_of_epochs);
        RUN(every_sample_once);
        RUN(same_with_any_threads_and_depth);
        RUN(resumes_anywhere);
        RUN(crops_and_flips_are_even);
        RUN(cutout_is_a_square);
        RUN(normalises);
        RUN(errors_come_at_their_batch);
        RUN(ends_while_workers_are_busy);
        RUN(tokens_shift_every_epoch);
        RUN(gates_open_one_epoch);
        RUN(bytes_become_the_same);
        RUN(refuses_nonsense);
    }
    pdl_source_close(images);
    remove_images();
    return test_done();
}
