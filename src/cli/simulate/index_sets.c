/*
 * --index-sets of `paradl simulate`: the elements that every rank of a sparse allreduce keeps, drawn or read from a file.
 *
 *     elements 1000
 *     3 17 500 ...        a line for every rank, of increasing indices
 */
#include "cli/simulate/options.h"

#include "base/file.h"

#include <paradl/coll/sparse.h>

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MOST_TEXT ((size_t)1 << 30)

/* Where the file is read. */
typedef struct reader {
    const char *path, *at;
    int         line;
    int64_t     elements; /* of a set */
    uint32_t   *index;    /* the set at hand */
    int64_t     count, room;
} reader_t;

void pdl__free_index_sets(struct pdl_stream *supports, int ranks)
{
    for (int r = 0; supports != NULL && r < ranks; r++) pdl_stream_free(&supports[r]);
    free(supports);
}

/* "random", "random:SEED"; false: the name of a file. */
static bool is_random(const char *text, uint64_t *seed)
{
    char *end;

    *seed = 1;
    if (strcmp(text, "random") == 0) return true;
    if (strncmp(text, "random:", 7) != 0 || !isdigit((unsigned char)text[7])) return false;
    *seed = strtoull(text + 7, &end, 10);
    return *end == '\0';
}

static pdl_status_t add_index(reader_t *in, long long value)
{
    if (value < 0 || value >= in->elements || (in->count > 0 && value <= (long long)in->index[in->count - 1]))
        return pdl_error(PDL_ERR_INPUT, "%.200s:%d: index %lld: expected increasing ones from 0 to %lld", in->path,
                         in->line, value, (long long)in->elements - 1);
    if (in->count == in->room) {
        int64_t   room = in->room == 0 ? 1024 : 2 * in->room;
        uint32_t *larger = realloc(in->index, (size_t)room * sizeof(*larger));

        if (larger == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory for the index sets");
        in->index = larger;
        in->room = room;
    }
    in->index[in->count++] = (uint32_t)value;
    return PDL_OK;
}

/* The indices of a line, which is left behind. */
static pdl_status_t read_line(reader_t *in)
{
    pdl_status_t status = PDL_OK;

    in->line++;
    in->count = 0;
    while (!status) {
        char     *end;
        long long value;

        while (*in->at == ' ' || *in->at == '\t' || *in->at == '\r') in->at++;
        if (*in->at == '\n' || *in->at == '\0') break;
        errno = 0;
        value = strtoll(in->at, &end, 10);
        if (end == in->at || errno != 0)
            return pdl_error(PDL_ERR_INPUT, "%.200s:%d: \"%.20s\": expected the indices of a rank", in->path,
                             in->line, in->at);
        status = add_index(in, value);
        in->at = end;
    }
    if (*in->at == '\n') in->at++;
    return status;
}

/* The set at hand, again and again, as far as the vector goes. */
static pdl_status_t repeat(const reader_t *in, int64_t elements, pdl_stream_t *stream)
{
    int64_t      copies = (elements + in->elements - 1) / in->elements, count = 0;
    uint32_t    *index = malloc((size_t)(copies * in->count + 1) * sizeof(*index));
    float       *value = malloc((size_t)(copies * in->count + 1) * sizeof(*value));
    pdl_status_t status;

    for (int64_t c = 0; index != NULL && value != NULL && c < copies; c++)
        for (int64_t i = 0; i < in->count && c * in->elements + in->index[i] < elements; i++) {
            value[count] = 1;
            index[count++] = (uint32_t)(c * in->elements + in->index[i]);
        }
    status = index != NULL && value != NULL ? pdl_stream_from_pairs(index, value, count, elements, NULL, stream)
                                            : pdl_error(PDL_ERR_NOMEM, "out of memory for the index sets");
    free(index);
    free(value);
    return status;
}

/* "elements N", the line that comes first. */
static pdl_status_t read_head(reader_t *in)
{
    static const char name[] = "elements ";
    char             *end = NULL;

    if (strncmp(in->at, name, sizeof(name) - 1) == 0) in->elements = strtoll(in->at + sizeof(name) - 1, &end, 10);
    if (end != NULL) end += strspn(end, " \r");
    if (end == NULL || *end != '\n' || in->elements < 1 || in->elements > UINT32_MAX)
        return pdl_error(PDL_ERR_INPUT, "%.200s:1: expected \"elements N\", the length of the vector", in->path);
    in->at = end + 1;
    in->line = 1;
    return PDL_OK;
}

static pdl_status_t read_sets(reader_t *in, int ranks, int64_t elements, pdl_stream_t *supports)
{
    pdl_status_t status = read_head(in);
    int          rank = 0;

    for (; !status && *in->at != '\0'; rank++) {
        status = read_line(in);
        if (!status && rank < ranks) status = repeat(in, elements, &supports[rank]);
    }
    if (!status && rank != ranks)
        status = pdl_error(PDL_ERR_INPUT, "%.200s has the sets of %d ranks, and there are %d: use --hosts %d",
                           in->path, rank, ranks, rank);
    return status;
}

static pdl_status_t read_file(const char *path, int ranks, int64_t elements, pdl_stream_t *supports)
{
    reader_t     in = {.path = path};
    char        *text = NULL;
    size_t       length;
    pdl_status_t status = pdl__file_read_large(path, MOST_TEXT, &text, &length);

    in.at = text;
    if (!status) status = read_sets(&in, ranks, elements, supports);
    free(in.index);
    free(text);
    return status;
}

pdl_status_t pdl__read_index_sets(const char *text, const pdl_sim_case_t *asked, int ranks,
                                  struct pdl_stream **result)
{
    int64_t       elements = asked->bytes / (int64_t)sizeof(float);
    pdl_stream_t *supports;
    uint64_t      seed;
    bool          random = is_random(text, &seed);
    pdl_status_t  status = PDL_OK;

    if (random != (asked->density > 0))
        return pdl_error(PDL_ERR_INPUT, random ? "--index-sets random draws the share --density: give it"
                                               : "--index-sets reads a file, and --density is for random sets: "
                                                 "leave one of them out");
    if (elements > UINT32_MAX)
        return pdl_error(PDL_ERR_LIMIT, "--index-sets: %lld elements of 4 bytes; there can be up to 2^32 - 1",
                         (long long)elements);
    supports = calloc((size_t)ranks + 1, sizeof(*supports));
    if (supports == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory for the index sets");
    for (int r = 0; random && !status && r < ranks; r++)
        status = pdl_stream_draw(elements, asked->density, asked->common, seed, r, NULL, &supports[r]);
    if (!random) status = read_file(text, ranks, elements, supports);
    if (status) {
        pdl__free_index_sets(supports, ranks);
        return status;
    }
    *result = supports;
    return PDL_OK;
}
