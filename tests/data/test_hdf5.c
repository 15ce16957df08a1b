/* HDF5 files in the layouts that are known, read by several threads at once; damaged ones. */
#include "files.h"

#ifdef PDL_HAVE_HDF5

#include <hdf5.h>
#include <pthread.h>

enum { SIDE = 3, CHANNELS = 4, VOXELS = SIDE * SIDE * SIDE };

static void put(hid_t file, const char *name, hid_t stored, hid_t type, int rank, const hsize_t *size,
                const void *data)
{
    hid_t space = H5Screate_simple(rank, size, NULL);
    hid_t set = H5Dcreate2(file, name, stored, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);

    CHECK(H5Dwrite(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, data) >= 0);
    H5Dclose(set);
    H5Sclose(space);
}

static hid_t create(const char *path)
{
    return H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
}

static int count_of(int file, int channel, int voxel)
{
    return file * 1000 + channel * 100 + voxel;
}

/* [d][h][w][channels] of 16-bit integers. */
static void write_cosmoflow(const char *path, int number, int side)
{
    const hsize_t size[] = {(hsize_t)side, SIDE, SIDE, CHANNELS}, four[] = {4};
    short         data[VOXELS * CHANNELS];
    float         targets[] = {0.5f, -0.25f, (float)number, 1};
    hid_t         file = create(path);
    int           v, c;

    for (v = 0; v < VOXELS; v++) {
        for (c = 0; c < CHANNELS; c++) data[v * CHANNELS + c] = (short)count_of(number, c, v);
    }
    put(file, "full", H5T_STD_I16LE, H5T_NATIVE_SHORT, 4, size, data);
    put(file, "unitPar", H5T_IEEE_F32LE, H5T_NATIVE_FLOAT, 1, four, targets);
    H5Fclose(file);
}

static const pdl_shape_t volume = {.channels = CHANNELS, .extent = {SIDE, SIDE, SIDE}, .rank = 3};

typedef struct reader {
    pdl_source_t *source;
    int           failures;
} reader_t;

static void *read_all(void *given)
{
    reader_t    *reader = given;
    float        values[VOXELS * CHANNELS], targets[4];
    pdl_sample_t sample = {.values = values, .numbers = targets};
    int          round, i;

    for (round = 0; round < 40; round++) {
        i = round % 4;
        if (pdl_source_read(reader->source, i, &sample) != PDL_OK || targets[2] != (float)i ||
            fabsf(values[2 * VOXELS + 5] - log1pf((float)count_of(i, 2, 5))) > 1e-5f) {
            reader->failures++;
        }
    }
    return NULL;
}

static void reads_cosmoflow(void)
{
    pdl_source_t *source;
    reader_t      readers[4];
    pthread_t     threads[4];
    int           i;

    make_folder(in_scratch("cosmo"));
    make_folder(in_scratch("cosmo/train"));
    make_folder(in_scratch("cosmo/val"));
    for (i = 0; i < 4; i++) write_cosmoflow(in_scratch("cosmo/train/u%d.h5", i), i, SIDE);
    write_cosmoflow(in_scratch("cosmo/val/u9.hdf5"), 9, SIDE);
    CHECK_OK(open_with(in_scratch("cosmo"), PDL_SPLIT_TRAIN, volume, &source));
    CHECK_INT(pdl_source_info(source)->samples, 4);
    CHECK_INT(pdl_source_info(source)->target, PDL_TARGET_VALUES);
    CHECK_INT(pdl_source_info(source)->target_count, 4);
    CHECK_NEAR(pdl_source_info(source)->bytes_per_sample, VOXELS * CHANNELS * 2, 0);
    for (i = 0; i < 4; i++) {
        readers[i] = (reader_t){.source = source};
        pthread_create(&threads[i], NULL, read_all, &readers[i]);
    }
    for (i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        CHECK_INT(readers[i].failures, 0);
    }
    pdl_source_close(source);
    CHECK_OK(open_with(in_scratch("cosmo"), PDL_SPLIT_VALID, volume, &source));
    CHECK_INT(pdl_source_info(source)->samples, 1);
    pdl_source_close(source);
    CHECK_OK(
        open_plain(in_scratch("cosmo/train"), &source)); /* one in ten of four is none, so all are for training */
    CHECK_INT(pdl_source_info(source)->samples, 4);
    CHECK_INT(pdl_source_info(source)->shape.channels, SIDE); /* nothing says that four are the channels */
    pdl_source_close(source);
    CHECK_ERROR(open_with(in_scratch("cosmo/train"), PDL_SPLIT_VALID, volume, &source), "no sample is left");
    {
        pdl_source_options_t options = {.shape = volume, .classes = 3};

        CHECK_ERROR(pdl_source_open(in_scratch("cosmo"), &options, &source),
                    "/unitPar has 4 numbers, the model gives 3");
    }
}

static void reads_deepcam(void)
{
    const hsize_t        size[] = {3, 5, 2}, plane[] = {3, 5};
    float                data[30], values[30];
    int                  mask[15], i;
    int32_t              labels[15];
    pdl_sample_t         sample = {.values = values, .labels = labels};
    pdl_source_options_t options = {.shape = IMAGE(2, 3, 5)};
    pdl_source_t        *source;
    hid_t                file, group;

    for (i = 0; i < 30; i++) data[i] = (float)i;
    for (i = 0; i < 15; i++) mask[i] = i % 3;
    for (i = 0; i < 2; i++) {
        make_folder(in_scratch("cam%d", i));
        mask[14] = i == 0 ? 2 : 3;
        file = create(in_scratch("cam%d/data-0.h5", i));
        group = H5Gcreate2(file, "climate", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
        put(file, "climate/data", H5T_IEEE_F32LE, H5T_NATIVE_FLOAT, 3, size, data);
        put(file, "climate/labels_0", H5T_STD_I32LE, H5T_NATIVE_INT, 2, plane, mask);
        H5Gclose(group);
        H5Fclose(file);
    }
    REQUIRE_OK(pdl_source_open(in_scratch("cam0"), &options, &source));
    CHECK_INT(pdl_source_info(source)->target, PDL_TARGET_MASK);
    CHECK_INT(pdl_source_info(source)->classes, 3);
    CHECK_INT(pdl_source_info(source)->target_count, 15);
    CHECK_OK(pdl_source_read(source, 0, &sample));
    CHECK_NEAR(values[15 + 4], 9, 0); /* channel 1 of pixel 4 */
    CHECK_INT(labels[14], 2);
    pdl_source_close(source);
    REQUIRE_OK(pdl_source_open(in_scratch("cam1"), &options, &source));
    CHECK_ERROR(pdl_source_read(source, 0, &sample), "label 3 is not a class, 0 to 2");
    pdl_source_close(source);
}

static void reads_many_samples_a_file(void)
{
    const hsize_t size[] = {20, 1, 2, 2}, twenty[] = {20};
    float         data[80], values[4];
    int           targets[20], i;
    int32_t       label;
    pdl_sample_t  sample = {.values = values, .labels = &label};
    pdl_source_t *source;
    hid_t         file;

    for (i = 0; i < 80; i++) data[i] = (float)i;
    for (i = 0; i < 20; i++) targets[i] = i % 7;
    make_folder(in_scratch("many"));
    for (i = 0; i < 2; i++) {
        file = create(in_scratch("many/part%d.h5", i));
        put(file, "data", H5T_IEEE_F64LE, H5T_NATIVE_FLOAT, 4, size, data);
        put(file, "labels", H5T_STD_U8LE, H5T_NATIVE_INT, 1, twenty, targets);
        H5Fclose(file);
    }
    CHECK_OK(open_with(in_scratch("many"), PDL_SPLIT_VALID, IMAGE(1, 2, 2), &source));
    CHECK_INT(pdl_source_info(source)->samples, 4);
    CHECK_INT(pdl_source_info(source)->classes, 7);
    CHECK_OK(pdl_source_read(source, 3, &sample)); /* the last of the second file */
    CHECK_INT(label, 19 % 7);
    CHECK_NEAR(values[3], 79, 0);
    pdl_source_close(source);
}

static void refuses_damaged_files(void)
{
    static char   bytes[65536];
    const hsize_t two[] = {2};
    float         values[VOXELS * CHANNELS], targets[4];
    pdl_sample_t  sample = {.values = values, .numbers = targets};
    pdl_source_t *source;
    size_t        size, cut;
    FILE         *file;
    hid_t         id;

    write_file(in_scratch("bad.h5"), "not at all", 10);
    CHECK_REFUSED(in_scratch("bad.h5"), "not an HDF5 file, or damaged");
    id = create(in_scratch("bad.h5"));
    H5Fclose(id);
    CHECK_REFUSED(in_scratch("bad.h5"), "none of /full (CosmoFlow)");
    id = create(in_scratch("bad.h5"));
    put(id, "x", H5T_IEEE_F32LE, H5T_NATIVE_FLOAT, 1, two, targets);
    H5Fclose(id);
    CHECK_REFUSED(in_scratch("bad.h5"), "not its targets, /y");
    write_cosmoflow(in_scratch("cosmo/train/u3.h5"), 3, SIDE - 1);
    CHECK_OK(open_with(in_scratch("cosmo"), PDL_SPLIT_TRAIN, volume, &source));
    CHECK_ERROR(pdl_source_read(source, 3, &sample), "u3.h5: /full has another shape than that of");
    pdl_source_close(source);
    /* Cut off anywhere: an error, never a crash. */
    file = fopen(in_scratch("cosmo/train/u0.h5"), "rb");
    size = fread(bytes, 1, sizeof(bytes), file);
    fclose(file);
    for (cut = 8; cut < size; cut += 97) {
        write_file(in_scratch("bad.h5"), bytes, cut);
        if (open_with(in_scratch("bad.h5"), PDL_SPLIT_TRAIN, volume, &source) == PDL_OK) {
            CHECK(pdl_source_read(source, 0, &sample) != PDL_OK);
        }
        CHECK(strstr(pdl_error_message(), "bad.h5") != NULL && strchr(pdl_error_message(), '\n') == NULL);
        pdl_source_close(source);
    }
}

int main(void)
{
    files_begin();
    RUN(reads_cosmoflow);
    RUN(reads_deepcam);
    RUN(reads_many_samples_a_file);
    RUN(refuses_damaged_files);
    return test_done();
}

#else

static void says_that_it_cannot(void)
{
    write_file(in_scratch("any.h5"), "x", 1);
    CHECK_REFUSED(in_scratch("any.h5"), "install libhdf5-dev and build paradl again");
}

int main(void)
{
    files_begin();
    RUN(says_that_it_cannot);
    return test_done();
}

#endif
