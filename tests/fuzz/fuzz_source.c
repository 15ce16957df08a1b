/*
 * Any bytes in a file of tokens, text or CIFAR records yield a data set whose samples can all be read and whose labels
 * are classes, or an error. The first byte chooses the format.
 */
#define _GNU_SOURCE
#include <paradl/data/data.h>

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct kind {
    const char *file, *opened; /* what is written, and what is opened, in a folder of the process's own */
} kind_t;

static const kind_t kinds[] = {
    {"tokens.bin", "tokens.bin"},
    {"words.txt", "words.txt"},
    {"ten/data_batch_1.bin", "ten"},
    {"hundred/train_batch_1.bin", "hundred"},
};

static char folder[] = "/tmp/paradl-fuzz-XXXXXX";

static void remove_folder(void)
{
    char   path[128];
    size_t i;

    for (i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        snprintf(path, sizeof(path), "%s/%s", folder, kinds[i].file);
        remove(path);
        snprintf(path, sizeof(path), "%s/%s", folder, kinds[i].opened);
        remove(path);
    }
    rmdir(folder);
}

static void make_folder(void)
{
    static bool made = false;
    char        path[128];

    if (made) return;
    if (mkdtemp(folder) == NULL) abort();
    snprintf(path, sizeof(path), "%s/ten", folder);
    if (mkdir(path, 0700) != 0) abort();
    snprintf(path, sizeof(path), "%s/hundred", folder);
    if (mkdir(path, 0700) != 0) abort();
    made = true;
    atexit(remove_folder);
}

static void read_all(pdl_source_t *source)
{
    const pdl_source_info_t *info = pdl_source_info(source);
    const size_t             elements = (size_t)pdl_shape_elements(&info->shape);
    float                   *values = malloc(elements * sizeof(*values));
    int32_t                 *tokens = malloc(elements * sizeof(*tokens));
    int32_t                 *labels = malloc((size_t)info->target_count * sizeof(*labels));
    int64_t                  index, i;

    if (values == NULL || tokens == NULL || labels == NULL) abort();
    for (index = 0; index < info->samples && index < 64; index++) {
        const pdl_sample_t sample = {.values = values, .tokens = tokens, .labels = labels};

        if (pdl_source_read(source, index, &sample) != PDL_OK) continue;
        for (i = 0; i < info->target_count; i++) {
            assert(labels[i] >= 0 && (info->classes == 0 || labels[i] < info->classes));
        }
    }
    free(values);
    free(tokens);
    free(labels);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    pdl_source_options_t options = {.split = PDL_SPLIT_TRAIN};
    pdl_source_t        *source = NULL;
    const kind_t        *kind;
    char                 path[128];
    FILE                *file;

    if (size == 0) return 0;
    make_folder();
    kind = &kinds[data[0] % (sizeof(kinds) / sizeof(kinds[0]))];
    snprintf(path, sizeof(path), "%s/%s", folder, kind->file);
    file = fopen(path, "wb");
    if (file == NULL || fwrite(data + 1, 1, size - 1, file) != size - 1 || fclose(file) != 0) abort();
    snprintf(path, sizeof(path), "%s/%s", folder, kind->opened);
    if (data[0] % 4 < 2) options.shape = (pdl_shape_t){.channels = 1, .extent = {16, 1, 1}, .rank = 1};
    if (pdl_source_open(path, &options, &source) == PDL_OK) {
        read_all(source);
        pdl_source_close(source);
    } else {
        assert(source == NULL && pdl_error_message()[0] != '\0');
    }
    return 0;
}
