/*
 * Real samples: data sets on disk, read by index, and loaders that prepare batches ahead of the training step.
 *
 *     pdl_source_options_t options = {.split = PDL_SPLIT_TRAIN};
 *     pdl_source_open("fashion-mnist", &options, &source);
 *     pdl_loader_spec_t spec = {.source = source, .samples = 64, .order = ..., .threads = 1, .depth = 2};
 *     pdl_loader_create(&spec, &loader);
 *     while (...) {
 *         pdl_batch_t batch;
 *         pdl_loader_next(loader, &batch);        // waits until it is there
 *         ... use batch.values and batch.labels until the next call ...
 *     }
 *
 * Files are untrusted: every reader checks counts and sizes against the file before it believes them.
 */
#ifndef PARADL_DATA_H
#define PARADL_DATA_H

#include <paradl/base/status.h>
#include <paradl/model/dataset.h>
#include <paradl/model/model.h>
#include <paradl/tensor/device.h>
#include <paradl/tensor/image.h>
#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum pdl_split { PDL_SPLIT_TRAIN, PDL_SPLIT_VALID } pdl_split_t;

#define PDL_MAX_CHANNELS PDL_IMAGE_CHANNELS /* with a mean and deviation of their own */

typedef struct pdl_source_info {
    char         name[64];
    int64_t      samples; /* of this split */
    pdl_shape_t  shape;   /* of one sample as it is delivered; tokens: a sequence with channels 1 */
    bool         tokens;  /* samples are token indices, not numbers */
    int64_t      classes; /* labels are 0 .. classes-1; tokens: the vocabulary; 0 for PDL_TARGET_VALUES */
    pdl_target_t target;
    int64_t      target_count; /* labels or numbers per sample */
    int          mean_count;   /* channels for which mean and deviation are known; 0: do not normalise */
    double       mean[PDL_MAX_CHANNELS], deviation[PDL_MAX_CHANNELS];
    double       bytes_per_sample; /* as read from storage */
    bool bytes; /* samples are images stored as bytes of the shape they are delivered in: pdl_sample_t.bytes */
} pdl_source_info_t;

typedef struct pdl_source_options {
    pdl_split_t split;
    const char *folder; /* where downloaded sets are kept; NULL: PARADL_DATA, else ~/.cache/paradl */
    pdl_shape_t
            shape; /* what the model reads; images are scaled and cropped to it, synthetic sets take it. rank 0 and channels 0: as stored */
    int64_t classes; /* what the model's loss expects: synthetic sets make as many, others refuse labels and tokens
                             that are not below it, or another number of values to fit. 0: as stored */
    pdl_target_t target;  /* synthetic sets */
    int64_t      samples; /* synthetic sets; 0: their default */
    const char *
        vocabulary; /* text: "char" (default), "byte", or the path of a GPT-2 vocabulary (vocab.json beside merges.txt) */
    double valid_share; /* token files without a validation file: the last part; 0: one tenth */
} pdl_source_options_t;

/* What a source should deliver for this model. */
void pdl_source_options_for(const pdl_model_t *model, pdl_source_options_t *options);

typedef struct pdl_source pdl_source_t;

/* A built-in name (mnist, fashion-mnist, cifar10, cifar100, tinyshakespeare, synthetic) or a path: a folder of IDX or CIFAR files, of
   images one folder a class (train/ and val/ inside), of .tar shards; a .npy, .h5, .bin (uint16 tokens) or .txt file.
   The message of a missing built-in set names `paradl data get`. */
pdl_status_t pdl_source_open(const char *name_or_path, const pdl_source_options_t *options, pdl_source_t **source);
void         pdl_source_close(pdl_source_t *source); /* NULL is allowed */
const pdl_source_info_t *pdl_source_info(const pdl_source_t *source);
/* Where sample `index` stands in what is stored, which may hold the samples of both splits. */
int64_t pdl_source_place(const pdl_source_t *source, int64_t index);

/* Whether these samples can be fed to this model, by the rule of pdl_dataset_check(). */
pdl_status_t pdl_check_data(const pdl_model_t *model, const pdl_source_info_t *info);
/* What there is to know of a data set: a built-in name or .yaml file as its description says, or anything that
   pdl_source_open() reads. With a model, as it is delivered to it; without one (NULL), as stored. */
pdl_status_t pdl_data_describe(const char *name_or_path, const pdl_model_t *model, pdl_dataset_t *dataset);

/* Reads sample `index`. `values` takes the elements (8-bit pixels as 0..1), row-major; token sets fill `labels_in`
   instead. `labels` takes target_count classes, or `numbers` target_count values. May be called from several threads at once.
   `shift` moves the window of a token set to the right (by less than a window), so that epochs differ. */
typedef struct pdl_sample {
    float   *values;
    uint8_t *bytes; /* instead of values, where the source has them: [channels][positions], 255 stands for 1 */
    int32_t *tokens;
    int32_t *labels;
    float   *numbers;
    int64_t  shift;
} pdl_sample_t;
pdl_status_t pdl_source_read(pdl_source_t *source, int64_t index, const pdl_sample_t *sample);

/* What a few samples, spread over the set, are like: enough to tell data sets apart wherever their files are. Targets and
   tokens have a sum of 64 bits; decoders round differently, so of values there is a weighted mean to compare to some
   digits. */
typedef struct pdl_source_sketch {
    uint64_t targets;
    double   mean;
} pdl_source_sketch_t;
pdl_status_t pdl_source_sketch(pdl_source_t *source, pdl_source_sketch_t *sketch);

/* Changes of a training sample, drawn from seed, epoch and index. All zero: none. */
typedef struct pdl_augmentation {
    int64_t crop_pad; /* pad by so many zeros on every side, then crop at random */
    bool    flip;     /* left-right, one in two */
    int64_t cutout;   /* side of a square set to the mean */
} pdl_augmentation_t;

/* Which samples make up a batch: writes `count` sample indices of step `step` in epoch `epoch`, this rank's part of
   the global batch; -1 stands for no sample (its weight is 0). */
typedef pdl_status_t (*pdl_order_fn_t)(void *context, int64_t epoch, int64_t step, int64_t count, int64_t *indices);

typedef struct pdl_loader_spec {
    pdl_source_t  *source;  /* borrowed */
    int64_t        samples; /* in a batch, on this rank */
    pdl_order_fn_t order;
    void          *order_context;
    int64_t        steps_per_epoch;
    bool           gated; /* nothing of another epoch is prepared before pdl_loader_epoch() opens it */
    /* Weight of a sample's loss, or NULL: 1. Called by the threads of the loader. */
    float (*weigh)(void *context, int64_t index);
    void              *weigh_context;
    int                threads; /* at least 1 */
    int                depth;   /* batches prepared ahead, at least 1 */
    bool               normalise;
    bool               shift_tokens; /* training of token sets: another shift every epoch */
    pdl_augmentation_t augmentation;
    uint64_t           seed;
    /* Batches are in pinned memory of this device, which copies them while the host goes on. NULL: in ordinary memory. */
    pdl_tensor_device_t *device;
    /* Images stay bytes, and what is to become of them is told beside; only of sources that have them. */
    bool bytes;
} pdl_loader_spec_t;

typedef struct pdl_batch {
    int64_t                   epoch, step;
    const float              *values;  /* [samples][elements], row-major; NULL for tokens */
    const uint8_t            *bytes;   /* [samples][elements] instead of values, with: */
    const pdl_image_change_t *changes; /* [samples] */
    const pdl_image_scale_t  *scale;
    const int32_t            *tokens; /* [samples][positions] */
    const int32_t            *labels; /* [samples][target_count] */
    const float              *numbers;
    const float              *weight;   /* [samples]: 0 where there is no sample */
    const int64_t            *index;    /* [samples] */
    double                    waited_s; /* how long the caller had to wait for it */
} pdl_batch_t;

typedef struct pdl_loader pdl_loader_t;
pdl_status_t              pdl_loader_create(const pdl_loader_spec_t *spec, pdl_loader_t **loader);
void                      pdl_loader_destroy(pdl_loader_t *loader);
/* The next batch, in order; valid until the next call. The first after creation is epoch 0, step 0. */
pdl_status_t pdl_loader_next(pdl_loader_t *loader, pdl_batch_t *batch);
/* The batch that the next call of pdl_loader_next() gives, where it is complete already: it may be read, and stays as it is
   until that batch is given back. */
bool pdl_loader_peek(pdl_loader_t *loader, pdl_batch_t *batch);
/* Opens an epoch of `steps` steps, from `first` on; gated loaders only. The batches of the epoch before have been taken. */
pdl_status_t pdl_loader_epoch(pdl_loader_t *loader, int64_t epoch, int64_t first, int64_t steps);
/* Goes on at another place (resume). */
pdl_status_t pdl_loader_seek(pdl_loader_t *loader, int64_t epoch, int64_t step);

/* The ordinary order: a new permutation of all samples in every epoch, cut into global batches, of which this rank takes
   `count` from `first` on. Without `shuffle` 0, 1, 2, ... Samples beyond the last full batch wait for the next epoch; with
   `keep_rest` they make up a last batch, filled up with -1. */
typedef struct pdl_global_order {
    int64_t  samples, batch, first;
    uint64_t seed;
    bool     shuffle, keep_rest;
    int64_t  epoch;       /* of the permutation held; start with -1 */
    int64_t *permutation; /* freed by pdl_global_order_free */
} pdl_global_order_t;
pdl_status_t pdl_global_order(void *context, int64_t epoch, int64_t step, int64_t count, int64_t *indices);
int64_t      pdl_global_order_steps(const pdl_global_order_t *order);
void         pdl_global_order_free(pdl_global_order_t *order);

/* Obtains a built-in set into `folder` (NULL: the default) and checks its sums; progress goes to stderr when `talk`. */
pdl_status_t pdl_data_get(const char *name, const char *folder, bool talk);
/* The default folder, as above; `buffer` is returned. */
char *pdl_data_folder(char *buffer, size_t size);

/* Whether a built-in set is there (`path` says where), can be fetched, or has to be named by a path. */
typedef enum pdl_data_state { PDL_DATA_HERE, PDL_DATA_TO_GET, PDL_DATA_BY_PATH } pdl_data_state_t;
pdl_data_state_t pdl_data_find(const char *name, const char *folder, char *path, size_t size);

#ifdef __cplusplus
}
#endif
#endif
