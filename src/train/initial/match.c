/*
 * Which tensor of a file belongs to which weight of a model, and what is said about it.
 */
#include "train/initial/initial.h"

#include "base/memory.h"

#include <paradl/model/traits.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHAPE_SIZE  192
#define NAME_SIZE   512
#define SHOWN       20 /* weights that are named one by one */
#define PREFIX_SIZE 128

typedef struct matcher {
    pdl_initial_file_t                *initial;
    const pdl_model_t                 *model;
    const pdl_session_tensor_t *const *wanted;
    int                                count;
    pdl__initial_match_t              *match;
    char                               prefix[PREFIX_SIZE]; /* of the names in the file */
    int                                taken, transposed, missing, other_shape;
} matcher_t;

static const char *print_shape(int rank, const int64_t *dims, char text[SHAPE_SIZE])
{
    int used = snprintf(text, SHAPE_SIZE, "[");

    for (int d = 0; d < rank; d++)
        used += snprintf(text + used, SHAPE_SIZE - (size_t)used, "%s%" PRId64, d > 0 ? ", " : "", dims[d]);
    snprintf(text + used, SHAPE_SIZE - (size_t)used, "]");
    return text;
}

/* Of "h.0.attn.c_attn.weight": the layer h.0.attn.c_attn; -1: none. */
static int layer_of(const matcher_t *m, const char *weight)
{
    const char *dot = strrchr(weight, '.');
    char        name[NAME_SIZE];

    if (dot == NULL || (size_t)(dot - weight) >= sizeof(name)) return -1;
    snprintf(name, sizeof(name), "%.*s", (int)(dot - weight), weight);
    return pdl_model_find_layer(m->model, name);
}

static bool has_kernel(const matcher_t *m, const char *weight, pdl_kernel_t kernel)
{
    int layer = layer_of(m, weight);

    return layer >= 0 && pdl_layer_traits(pdl_model_layer(m->model, layer))->kernel == kernel;
}

static int find_with(const matcher_t *m, const char *prefix, const char *name)
{
    char full[NAME_SIZE + PREFIX_SIZE];

    if (snprintf(full, sizeof(full), "%s%s", prefix, name) >= (int)sizeof(full)) return -1;
    return pdl__initial_find(m->initial, full);
}

static int count_with(const matcher_t *m, const char *prefix)
{
    int found = 0;

    for (int i = 0; i < m->count; i++) found += find_with(m, prefix, m->wanted[i]->name) >= 0;
    return found;
}

/* What stands before a name of ours in the file, where most of ours are found behind it. */
static void choose_prefix(matcher_t *m)
{
    enum { TRIED = 8 }; /* weights whose name is looked for, spread over the model */
    int best = count_with(m, "");

    for (int k = 0; k < TRIED && k < m->count && best < m->count; k++) {
        const char *name = m->wanted[(int64_t)k * m->count / TRIED]->name;
        size_t      length = strlen(name);

        for (int i = 0; i < m->initial->count; i++) {
            const char *stored = m->initial->tensor[i].name;
            size_t      before = strlen(stored) > length ? strlen(stored) - length : 0;
            char        prefix[PREFIX_SIZE];
            int         found;

            if (before < 2 || before >= sizeof(prefix) || stored[before - 1] != '.' ||
                strcmp(stored + before, name) != 0)
                continue;
            snprintf(prefix, sizeof(prefix), "%.*s", (int)before, stored);
            found = count_with(m, prefix);
            if (found <= best) continue;
            best = found;
            memcpy(m->prefix, prefix, sizeof(prefix));
        }
    }
}

static int find_either(const matcher_t *m, const char *name)
{
    int found = find_with(m, m->prefix, name);

    return found >= 0 ? found : find_with(m, "", name);
}

/* The tensor of a weight, also under the name of a layer that shares it. */
static int find_tensor(const matcher_t *m, const char *name)
{
    int  found = find_either(m, name), owner = found < 0 ? layer_of(m, name) : -1;
    char other[NAME_SIZE];

    for (int i = 0; owner >= 0 && found < 0 && i < pdl_model_layer_count(m->model); i++) {
        const pdl_layer_t *layer = pdl_model_layer(m->model, i);

        if (layer->tied_to != owner) continue;
        snprintf(other, sizeof(other), "%s.weight", layer->name);
        found = find_either(m, other);
    }
    return found;
}

/* Dimensions of 1 do not count. */
static int squeeze(const pdl_session_tensor_t *wanted, int64_t dims[5])
{
    int rank = 0;

    for (int d = 0; d < wanted->rank; d++)
        if (wanted->dims[d] != 1) dims[rank++] = wanted->dims[d];
    return rank;
}

static pdl__initial_fit_t compare(const matcher_t *m, const pdl_session_tensor_t *wanted, int tensor)
{
    const pdl__initial_tensor_t *stored = &m->initial->tensor[tensor];
    int64_t                      dims[5];
    int                          rank = squeeze(wanted, dims);

    if (!stored->usable || stored->rank != rank) return PDL__FIT_SHAPE;
    if (memcmp(stored->dims, dims, (size_t)rank * sizeof(*dims)) == 0) return PDL__FIT_SAME;
    if (rank == 2 && stored->dims[0] == dims[1] && stored->dims[1] == dims[0] &&
        has_kernel(m, wanted->name, PDL_KERNEL_MATRIX))
        return PDL__FIT_TRANSPOSED;
    if (rank == 2 && stored->dims[1] == dims[1] && stored->dims[0] > dims[0] &&
        has_kernel(m, wanted->name, PDL_KERNEL_POSITIONS))
        return PDL__FIT_FIRST;
    return PDL__FIT_SHAPE;
}

/* Square linear weights do not tell: they are as the others are. ONNX says it of each. */
static void turn_squares(matcher_t *m)
{
    int transposed = 0, same = 0;

    if (m->initial->onnx != NULL) return;
    for (int pass = 0; pass < 2 && (pass == 0 || (transposed > 0 && same == 0)); pass++)
        for (int i = 0; i < m->count; i++) {
            const pdl_session_tensor_t *wanted = m->wanted[i];
            bool                        square = wanted->rank == 2 && wanted->dims[0] == wanted->dims[1];

            if (wanted->rank != 2 || !has_kernel(m, wanted->name, PDL_KERNEL_MATRIX)) continue;
            if (pass == 1 && square && m->match[i].fit == PDL__FIT_SAME) m->match[i].fit = PDL__FIT_TRANSPOSED;
            if (pass == 1 || square) continue;
            transposed += m->match[i].fit == PDL__FIT_TRANSPOSED;
            same += m->match[i].fit == PDL__FIT_SAME;
        }
}

static void match_all(matcher_t *m)
{
    for (int i = 0; i < m->count; i++) {
        int tensor = find_tensor(m, m->wanted[i]->name);

        m->match[i] = (pdl__initial_match_t){PDL__FIT_MISSING, tensor};
        if (tensor < 0) continue;
        m->match[i].fit = compare(m, m->wanted[i], tensor);
        m->initial->tensor[tensor].used = true;
    }
    turn_squares(m);
    for (int i = 0; i < m->count; i++) {
        m->taken += m->match[i].fit < PDL__FIT_MISSING;
        m->transposed += m->match[i].fit == PDL__FIT_TRANSPOSED;
        m->missing += m->match[i].fit == PDL__FIT_MISSING;
        m->other_shape += m->match[i].fit == PDL__FIT_SHAPE;
    }
}

/* What became of one weight that is not taken as it is; "" of others. */
static void describe(const matcher_t *m, int i, char *text, size_t size)
{
    const pdl_session_tensor_t  *wanted = m->wanted[i];
    const pdl__initial_tensor_t *stored = m->match[i].tensor >= 0 ? &m->initial->tensor[m->match[i].tensor] : NULL;
    char                         here[SHAPE_SIZE], there[SHAPE_SIZE];

    text[0] = '\0';
    if (m->match[i].fit == PDL__FIT_MISSING)
        snprintf(text, size, "%s is not in the file", wanted->name);
    else if (m->match[i].fit == PDL__FIT_SHAPE && !stored->usable)
        snprintf(text, size, "%s is of a type that cannot be used as real numbers", wanted->name);
    else if (m->match[i].fit == PDL__FIT_SHAPE)
        snprintf(text, size, "%s is %s in the file, %s here", wanted->name,
                 print_shape(stored->rank, stored->dims, there), print_shape(wanted->rank, wanted->dims, here));
}

static bool ends_with(const char *name, const char *ending)
{
    size_t length = strlen(name), tail = strlen(ending);

    return length >= tail && strcmp(name + length - tail, ending) == 0;
}

/* Counters of batch norms, causal masks, and a second copy of a table that is shared: nothing is lost with them. */
static bool is_expected(const matcher_t *m, const pdl__initial_tensor_t *stored)
{
    size_t      prefix = strlen(m->prefix);
    const char *name = strncmp(stored->name, m->prefix, prefix) == 0 ? stored->name + prefix : stored->name;
    int         layer = layer_of(m, name);

    if (ends_with(name, ".num_batches_tracked") || ends_with(name, ".masked_bias")) return true;
    if (ends_with(name, ".bias") && stored->rank == 2 && stored->dims[0] == stored->dims[1]) return true;
    return layer >= 0 && pdl_model_layer(m->model, layer)->tied_to >= 0;
}

static pdl_status_t say_weights(const matcher_t *m)
{
    char         text[NAME_SIZE + 2 * SHAPE_SIZE];
    int          said = 0, more = 0;
    pdl_status_t status = PDL_OK;

    for (int i = 0; i < m->count && !status; i++) {
        describe(m, i, text, sizeof(text));
        if (text[0] == '\0') continue;
        if (said++ < SHOWN)
            status = pdl__initial_say(m->initial, "  %s: drawn anew", text);
        else
            more++;
    }
    if (more > 0 && !status) status = pdl__initial_say(m->initial, "  and %d more weights are drawn anew", more);
    return status;
}

/* The tensors that nobody took; how many. */
static int list_unused(const matcher_t *m, char *text, size_t size)
{
    size_t used = 0;
    int    unused = 0;

    text[0] = '\0';
    for (int i = 0; i < m->initial->count; i++) {
        const pdl__initial_tensor_t *stored = &m->initial->tensor[i];

        if (stored->used || is_expected(m, stored)) continue;
        if (unused++ < SHOWN && used + strlen(stored->name) + 3 < size)
            used += (size_t)snprintf(text + used, size - used, "%s%s", used > 0 ? ", " : "", stored->name);
    }
    return unused;
}

static pdl_status_t say(const matcher_t *m, int unused, const char *names)
{
    char         how[PREFIX_SIZE + 160] = "";
    size_t       used = 0;
    pdl_status_t status;

    if (m->prefix[0] != '\0')
        used += (size_t)snprintf(how, sizeof(how), "; their names have \"%s\" in front", m->prefix);
    if (m->transposed > 0)
        snprintf(how + used, sizeof(how) - used, "; %d linear weights are stored [in][out] and were transposed",
                 m->transposed);
    status = pdl__initial_say(m->initial, "initial weights from %s: %d of %d tensors%s", m->initial->path, m->taken,
                              m->count, how);
    for (int i = 0; i < m->count && !status; i++)
        if (m->match[i].fit == PDL__FIT_FIRST)
            status = pdl__initial_say(m->initial, "  %s: the first %" PRId64 " of %" PRId64 " positions",
                                      m->wanted[i]->name, m->wanted[i]->dims[0],
                                      m->initial->tensor[m->match[i].tensor].dims[0]);
    if (!status) status = say_weights(m);
    if (!status && unused > 0)
        status = pdl__initial_say(m->initial, "  not used: %s%s", names, unused > SHOWN ? ", and more" : "");
    return status;
}

/* What is an error instead. */
static pdl_status_t judge(const matcher_t *m, int unused, const char *names)
{
    char text[NAME_SIZE + 2 * SHAPE_SIZE];

    if (m->taken == 0)
        return pdl_error(PDL_ERR_INPUT,
                         "%s: none of its %d tensors (%s, ...) is a weight of %s (%s, ...): it is of another model",
                         m->initial->path, m->initial->count,
                         m->initial->count > 0 ? m->initial->tensor[0].name : "none", pdl_model_name(m->model),
                         m->count > 0 ? m->wanted[0]->name : "none");
    for (int i = 0; i < m->count && m->initial->demand != PDL_INITIAL_ANY; i++) {
        describe(m, i, text, sizeof(text));
        if (text[0] != '\0')
            return pdl_error(PDL_ERR_INPUT, "%s: %s%s", m->initial->path, text,
                             m->initial->demand == PDL_INITIAL_STRICT ? ": leave out --init-strict to draw it anew"
                                                                      : ": it is of another model");
    }
    if (m->initial->demand == PDL_INITIAL_STRICT && unused > 0)
        return pdl_error(PDL_ERR_INPUT, "%s: %d of its tensors are not in %s (%.300s): leave out --init-strict",
                         m->initial->path, unused, pdl_model_name(m->model), names);
    return PDL_OK;
}

pdl_status_t pdl__initial_match(pdl_initial_file_t *initial, const pdl_model_t *model,
                                const pdl_session_tensor_t *const *wanted, int count, pdl__initial_match_t *matches)
{
    matcher_t    m = {.initial = initial, .model = model, .wanted = wanted, .count = count, .match = matches};
    char         names[NAME_SIZE];
    int          unused;
    pdl_status_t status;

    pdl__initial_forget(initial);
    choose_prefix(&m);
    match_all(&m);
    unused = list_unused(&m, names, sizeof(names));
    status = judge(&m, unused, names);
    return status ? status : say(&m, unused, names);
}
