/*
 * What the readers of data sets share: the source itself, the table entry of a reader, bytes of files, and the steps
 * from what is stored to what a model reads. Internal to the module.
 */
#ifndef PDL_DATA_SOURCE_H
#define PDL_DATA_SOURCE_H

#include <paradl/data/data.h>
#include <stddef.h>

#define PDL__PATH 4096

/* One format. `open` fills source->info and may leave source->state half built when it fails: `close` takes it in any
   condition, and is not called while the state is NULL. `read` is called from several threads at once. */
typedef struct pdl__reader {
    const char *name;
    bool (*claims)(const char *path, bool folder); /* is this the format of the file or folder at `path`? */
    pdl_status_t (*open)(pdl_source_t *source, const char *path, const pdl_source_options_t *options);
    pdl_status_t (*read)(const pdl_source_t *source, int64_t index, const pdl_sample_t *sample);
    void (*close)(void *state);
} pdl__reader_t;

extern const pdl__reader_t pdl__reader_idx, pdl__reader_cifar, pdl__reader_tokens, pdl__reader_text,
    pdl__reader_npy, pdl__reader_table, pdl__reader_hdf5, pdl__reader_folder, pdl__reader_tar,
    pdl__reader_synthetic;

/* A set that has a name. */
typedef struct pdl__known {
    const char          *name;
    const pdl__reader_t *reader;  /* NULL: known by its size only, the user has to name a path */
    const char          *package; /* a folder where a package of the system puts it, or NULL */
    bool                 get;     /* `paradl data get` obtains it */
    int64_t              classes; /* 0: not known before reading */
    int                  channels;
    double               mean[3], deviation[3];
} pdl__known_t;

const pdl__known_t *pdl__known_find(const char *name); /* NULL when there is none */
/* "did you mean" for a name that is neither built in nor a path. */
pdl_status_t pdl__known_refuse(const char *name);
/* Where the files of a known set are; the error says how to obtain them. */
pdl_status_t pdl__known_path(const pdl__known_t *known, const char *folder, char *path, size_t size);

/* Sets that have no validation part of their own give every n-th sample to it (one in ten unless told otherwise), and
   not the last tenth: many are sorted by class. */
typedef struct pdl__source_part {
    int64_t every; /* 0: all samples belong to the split */
    bool    valid;
} pdl__source_part_t;

struct pdl_source {
    pdl_source_info_t    info;
    const pdl__reader_t *reader;
    const pdl__known_t  *known; /* NULL for a path */
    void                *state;
    pdl__source_part_t   part; /* which samples of what is stored these are */
};

/* ---- bytes of files ---- */

/* Small files are read into memory, so that nothing that happens to the file later matters; large ones are mapped. */
typedef struct pdl__bytes {
    const uint8_t *data;
    size_t         size;
    void          *owned;  /* to free, or NULL */
    bool           mapped; /* to unmap */
} pdl__bytes_t;

pdl_status_t pdl__bytes_open(const char *path, pdl__bytes_t *bytes);
/* Maps a file of any size: for one of many, which together do not fit into memory. */
pdl_status_t pdl__bytes_map(const char *path, pdl__bytes_t *bytes);
void         pdl__bytes_close(pdl__bytes_t *bytes);

bool pdl__gzip_is(const uint8_t *data, size_t size);
/* The first `count` expanded bytes; fewer are an error. */
pdl_status_t pdl__gzip_head(const uint8_t *data, size_t size, const char *name, uint8_t *out, size_t count);
/* Everything; more than `limit` bytes are an error. The caller frees *out. */
pdl_status_t pdl__gzip_expand(const uint8_t *data, size_t size, const char *name, size_t limit, uint8_t **out,
                              size_t *length);

/* Joins two parts of a path with a slash. */
pdl_status_t pdl__path_join(const char *folder, const char *name, char *path, size_t size);
bool         pdl__path_is_folder(const char *path);
bool         pdl__path_is_file(const char *path);
bool         pdl__path_exists_in(const char *folder, const char *name);
/* Whether `name` ends in one of the extensions (NULL-terminated, with the dot), whatever the case. */
bool pdl__has_extension(const char *name, const char *const *extensions);

/* The entries of a folder, sorted, without those that begin with a dot. Free with pdl_share_free_list(). */
typedef enum pdl__entry { PDL__ENTRY_FILE, PDL__ENTRY_FOLDER } pdl__entry_t;
pdl_status_t pdl__folder_list(const char *folder, pdl__entry_t kind, const char *const *extensions, char ***names,
                              size_t *count);
/* The folder of a split inside `path` (train; val, valid, validation or test): false when there is none. */
bool pdl__folder_of_split(const char *path, pdl_split_t split, char *folder, size_t size);

/* The files of a split: PATH itself; or, of a folder, those in its train/ or val/; or those named train* or val*; or
   all of them, and `own` says that the split has files of its own. */
typedef struct pdl__file_list {
    char **paths;
    size_t count;
    bool   own;
} pdl__file_list_t;
pdl_status_t pdl__files_of_split(const char *path, pdl_split_t split, const char *const *extensions,
                                 pdl__file_list_t *list);
void         pdl__files_free(pdl__file_list_t *list);
/* Whether PATH, or its training part where it is a folder, has files with one of the extensions. */
bool pdl__files_exist(const char *path, bool folder, const char *const *extensions);
/* Where *path is a folder, it becomes the train or val file in it with this extension, in `file`; `own`: val exists. */
pdl_status_t pdl__file_of_split(const char **path, pdl_split_t split, const char *extension, char file[PDL__PATH],
                                bool *own);

/* ---- splits ---- */

pdl__source_part_t pdl__part_of(const pdl_source_options_t *options, bool own);
int64_t            pdl__part_count(const pdl__source_part_t *part, int64_t total);
int64_t            pdl__part_index(const pdl__source_part_t *part, int64_t index);
pdl_status_t pdl__part_samples(const pdl__source_part_t *part, int64_t total, const char *name, int64_t *samples);

/* ---- images of bytes ---- */

/* Pixels anywhere in memory: the distances are in bytes. */
typedef struct pdl__pixels {
    const uint8_t *data;
    int64_t        width, height;
    int            channels;
    ptrdiff_t      row, column, plane;
} pdl__pixels_t;

/* What is delivered of images stored as `stored` when the model reads `asked`. */
pdl_status_t pdl__pixels_shape(const char *name, const pdl_shape_t *stored, const pdl_shape_t *asked,
                               pdl_shape_t *shape);
/* Whether these are delivered as they are stored. */
bool pdl__pixels_are(const pdl_shape_t *stored, const pdl_shape_t *shape);
/* Bytes to 0..1, scaled to cover `shape` and cropped around the centre; grey and colour are converted. */
void        pdl__pixels_fit(const pdl__pixels_t *pixels, const pdl_shape_t *shape, float *values);
bool        pdl__shape_given(const pdl_shape_t *shape);
pdl_shape_t pdl__shape_image(int64_t channels, int64_t height, int64_t width);
/* "3x32x32"; `text` holds at least 96 characters. */
char *pdl__shape_text(const pdl_shape_t *shape, char text[96]);

/* ---- classes ---- */

/* Sets info.classes from the largest label seen, what the set is known to have and what the model expects. */
pdl_status_t pdl__classes_set(pdl_source_t *source, const pdl_source_options_t *options, int64_t largest,
                              const char *name);

pdl_status_t pdl__out_of_memory(const char *name);

#endif
