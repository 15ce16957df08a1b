/*
 * Names inside a checkpoint folder, and the info as metadata. Internal to train.
 */
#ifndef PDL_TRAIN_CHECKPOINT_H
#define PDL_TRAIN_CHECKPOINT_H

#include <paradl/train/checkpoint.h>

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>

#define PDL__MODEL_FILE       "model.safetensors"
#define PDL__STATE_FILE       "state.safetensors"
#define PDL__DESCRIPTION_FILE "model.yaml"
/* Metadata: the checksum of that file, where there is one. */
#define PDL__DESCRIPTION_KEY "paradl.model_sum"
/* A folder being written or removed; the rest of the name is random. Readers skip it. */
#define PDL__PARTIAL     ".partial-"
#define PDL__PARTIAL_MAX 32
/* What was in the folder when a run replaced another: until the new run has a checkpoint, for those who want it back. */
#define PDL__OLD ".old-"
/* The checkpoint that is being replaced by one of the same step, for the moment between two renames. */
#define PDL__REPLACED ".replaced"
#define PDL__NAME_MAX 48

/* Opens the folder, which is made if it is missing, and locks it: one writes at a time. */
pdl_status_t pdl__checkpoint_lock(const char *folder, int *directory);
/* The same for a whole run of this process, which may still lock it; waits so many tenths of a second for another run
   to end: ranks outlive a command that was killed until they have written their last checkpoint. */
pdl_status_t pdl__checkpoint_claim(const char *folder, int tenths);
void         pdl__checkpoint_release(void);

/* `step-00001234`, or `step-00001234.replaced`. */
void pdl__checkpoint_name(int64_t step, bool replaced, char name[PDL__NAME_MAX]);
/* False when `name` is no checkpoint's. */
bool pdl__checkpoint_parse_name(const char *name, int64_t *step, bool *replaced);

/* One checkpoint found in a folder. */
typedef struct pdl__found {
    int64_t step;
    bool    replaced;
    bool    complete; /* all of its files are there */
} pdl__found_t;

/* Checkpoints in the folder open as `directory`, latest first, and before a replaced one its successor. The caller
   frees *found. */
pdl_status_t pdl__checkpoint_scan(int directory, const char *folder, pdl__found_t **found, int *count);

/* Whether a folder is a checkpoint, or a part of one, itself. */
bool pdl__checkpoint_is_one(const char *path);
/* Whether a folder is one or holds some, complete or not; false for a folder that is not there. */
pdl_status_t pdl__checkpoint_used(const char *folder, bool *used);
/* Nets of an ensemble have folders of their own inside the run's: net-0, net-1, ... */
#define PDL__NET "net-"
bool pdl__checkpoint_has_nets(const char *folder);

/* The latest step that is whole in all of the folders, checkpoints[i] of folders[i]; pdl_checkpoint_damage() of the
   first says what was passed over. */
pdl_status_t pdl__checkpoint_open_latest(const char *const *folders, int count, pdl_checkpoint_t **checkpoints);
/* Collective, after rank 0 has opened them and the others nothing: all have them. On failure some may be open. */
pdl_status_t pdl__checkpoint_share(pdl_ranks_t *ranks, pdl_status_t opened, int count,
                                   pdl_checkpoint_t **checkpoints);

/* The info as metadata. Texts are in `text`; the array has room for PDL__INFO_ENTRIES. */
#define PDL__INFO_ENTRIES 40
typedef struct pdl__info_text {
    pdl_metadata_t entry[PDL__INFO_ENTRIES];
    int            count;
    char           text[PDL__INFO_ENTRIES][32];
    char           milestones[PDL_MAX_MILESTONES * 32];
    char           description[32];
} pdl__info_text_t;
void         pdl__checkpoint_info_write(const pdl_checkpoint_info_t *info, pdl__info_text_t *text);
pdl_status_t pdl__checkpoint_info_read(const pdl_safetensors_t *file, pdl_checkpoint_info_t *info);

#endif
