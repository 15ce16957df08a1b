/*
 * Pieces of optimizer state, and of weights that are on the host, between the host, or a file, and the device.
 */
#include "train/state/state.h"
#include "train/exec/execute.h"
#include "train/state/state_file.h"
#include <paradl/base/units.h>
#include <paradl/tensor/threads.h>
#include <stdio.h>
#include <string.h>

enum { SLOTS = 8 }; /* of a file: four pieces in flight to and from the device, four read and written */

pdl_tier_t pdl__array_tier(const pdl_session_t *s, pdl_session_array_t array)
{
    if (!s->spec.training || array == PDL_ARRAY_GRADIENT) return PDL_TIER_DEVICE;
    return array == PDL_ARRAY_WEIGHT ? s->spec.plan->weights_tier : s->spec.plan->optimizer_tier;
}

/* Whether an array is one of those of a piece. */
static bool passes(const pdl_session_t *s, int array)
{
    return pdl__array_tier(s, (pdl_session_array_t)array) != PDL_TIER_DEVICE &&
           pdl__session_keeps(s, (pdl_session_array_t)array);
}

static size_t item_of(const pdl_session_t *s)
{
    return pdl_dtype_bytes(s->spec.backend->weight_type);
}

static size_t array_bytes(const pdl_session_t *s, pdl_session_array_t array)
{
    return (size_t)pdl__session_elements(s, array) * item_of(s);
}

/* Where an array is in a piece whose arrays begin with `first`: of the device with weights, of a file with moments. */
static size_t place_of(const pdl_session_t *s, int first, pdl_session_array_t array)
{
    size_t before = 0;

    for (int a = first; a < (int)array; a++) before += passes(s, a);
    return before * (size_t)s->program->piece_most * item_of(s);
}

size_t pdl__state_at(const pdl_session_t *s, pdl_session_array_t array)
{
    return place_of(s, PDL_ARRAY_WEIGHT, array);
}

/* Of a file. */
static size_t piece_bytes(const pdl_session_t *s)
{
    return place_of(s, PDL_ARRAY_MOMENT1, PDL_ARRAY_COUNT);
}

static bool on_disk(const pdl_session_t *s)
{
    return pdl__array_tier(s, PDL_ARRAY_MOMENT1) == PDL_TIER_DISK && piece_bytes(s) > 0;
}

size_t pdl__state_host_bytes(const pdl_session_t *s)
{
    size_t bytes = s->spec.training && on_disk(s) ? SLOTS * piece_bytes(s) : 0;

    for (int a = 0; a < PDL_ARRAY_COUNT; a++)
        if (pdl__array_tier(s, (pdl_session_array_t)a) == PDL_TIER_HOST)
            bytes += array_bytes(s, (pdl_session_array_t)a);
    return bytes;
}

/* Memory of the host that can be taken without paging, or a negative number where it is not known. */
static double available_bytes(void)
{
    FILE  *file = fopen("/proc/meminfo", "r");
    char   line[128];
    double kib = -1;

    while (file != NULL && fgets(line, sizeof(line), file) != NULL)
        if (sscanf(line, "MemAvailable: %lf kB", &kib) == 1) break;
    if (file != NULL) fclose(file);
    return kib * 1024;
}

/* Of all ranks on this host, which need about as much each. */
static pdl_status_t check_host(const pdl_session_t *s)
{
    double needs = (double)pdl__state_host_bytes(s) + (double)s->executor.host_bytes, has = available_bytes();
    char   needed[PDL_FORMAT_SIZE], left[PDL_FORMAT_SIZE];

    if (!s->dry) needs *= pdl_ranks_node_size(s->spec.ranks);
    if (s->dry || has < 0 || needs <= has) return PDL_OK;
    return pdl_error(
        PDL_ERR_LIMIT,
        "%s of host memory are needed for swapped activations, optimizer state and weights, and %s are "
        "available: recompute more blocks, or keep state on disk (memory.optimizer)",
        pdl_format_bytes(needs, needed), pdl_format_bytes(has, left));
}

pdl_status_t pdl__state_check(const pdl_session_t *s)
{
    const char *tier = pdl_tier_names[s->spec.plan->optimizer_tier];

    if (pdl__array_tier(s, PDL_ARRAY_MOMENT1) == PDL_TIER_DEVICE) return check_host(s);
    if (s->spec.optimizer.method == PDL_METHOD_LARS || s->spec.optimizer.method == PDL_METHOD_LAMB)
        return pdl_error(PDL_ERR_UNSUPPORTED,
                         "%s needs norms of whole tensors, and the plan has the optimizer's state on %s: use adamw "
                         "or sgd, or memory.optimizer: device",
                         pdl_method_names[s->spec.optimizer.method], tier);
    if (s->spec.plan->optimizer_tier == PDL_TIER_DISK && s->spec.optimizer.ema > 0)
        return pdl_error(PDL_ERR_UNSUPPORTED,
                         "a mean of weights (--ema) cannot be on disk: use memory.optimizer: host");
    return check_host(s);
}

/* By all threads: there may be 100 GB of it. */
enum { CLEARED_AT_ONCE = 1 << 24 };

static void clear(void *context, int64_t first, int64_t end)
{
    memset((char *)context + first, 0, (size_t)(end - first));
}

static pdl_status_t take_pinned(pdl_session_t *s, size_t bytes, void **memory)
{
    pdl_status_t status = s->executor.device->ops->alloc(s->executor.device, PDL_SPACE_PINNED, bytes, memory);

    if (!status) pdl_threads_run((int64_t)bytes, CLEARED_AT_ONCE, clear, *memory);
    return status;
}

pdl_status_t pdl__state_take(pdl_session_t *s)
{
    pdl_status_t status = PDL_OK;
    void        *memory = NULL;

    for (int a = 0; a < PDL_ARRAY_COUNT; a++) {
        bool   host = pdl__array_tier(s, (pdl_session_array_t)a) == PDL_TIER_HOST;
        size_t bytes = host ? array_bytes(s, (pdl_session_array_t)a) : 0;
        if (!status && bytes > 0) status = take_pinned(s, bytes, &s->weights.array[a]);
    }
    if (!status) status = pdl__host_update_create(s);
    if (status || !s->spec.training || !on_disk(s)) return status;
    status = take_pinned(s, SLOTS * piece_bytes(s), &memory);
    if (status) return status;
    s->weights.slots = memory;
    pdl__state_file_spec_t spec = {.folder = s->spec.state_folder != NULL ? s->spec.state_folder : ".",
                                   .piece_bytes = piece_bytes(s),
                                   .pieces = s->program->piece_count,
                                   .slots = SLOTS,
                                   .memory = memory};
    return pdl__state_file_create(&spec, &s->weights.file);
}

void pdl__state_give(pdl_session_t *s)
{
    pdl__host_update_destroy(s);
    pdl__state_file_destroy(s->weights.file);
    s->weights.file = NULL;
    if (s->weights.slots != NULL)
        s->executor.device->ops->release(s->executor.device, PDL_SPACE_PINNED, s->weights.slots,
                                         SLOTS * piece_bytes(s));
    s->weights.slots = NULL;
}

/* All arrays of a piece: from and to those of the host, or a slot of the file. */
static pdl_status_t copy_arrays(pdl_session_t *s, const pdl_program_op_t *op, char *buffer)
{
    const pdl_program_piece_t *piece = &s->program->piece[op->piece];
    pdl_status_t               status = PDL_OK;

    for (int a = 0; a < PDL_ARRAY_COUNT && !status; a++) {
        if (!passes(s, a)) continue;
        size_t at = pdl__state_at(s, (pdl_session_array_t)a);
        bool   disk = pdl__array_tier(s, (pdl_session_array_t)a) == PDL_TIER_DISK;
        char  *home = disk ? pdl__state_file_slot(s->weights.file, op->piece) +
                                place_of(s, PDL_ARRAY_MOMENT1, (pdl_session_array_t)a)
                           : (char *)s->weights.array[a] + (size_t)piece->low * item_of(s);
        bool   in = op->kind == PDL_OP_COPY_IN;
        status = s->executor.device->ops->copy(s->executor.device, s->executor.stream[op->stream],
                                               in ? buffer + at : home, in ? home : buffer + at,
                                               (size_t)(piece->high - piece->low) * item_of(s));
    }
    return status;
}

/* Pieces that have left the device are written, and their slots get the next ones. */
static pdl_status_t write_behind(pdl_session_t *s, int until)
{
    pdl_status_t status = PDL_OK;

    if (s->weights.written < until)
        status = s->executor.device->ops->synchronise(s->executor.device, s->executor.stream[PDL_STREAM_COPY_OUT]);
    for (; s->weights.written < until && !status; s->weights.written++) {
        int next = s->weights.written + SLOTS;
        pdl__state_file_write(s->weights.file, s->weights.written);
        if (next < s->program->piece_count) pdl__state_file_read(s->weights.file, next);
    }
    return status;
}

pdl_status_t pdl__state_copy(pdl_session_t *s, const pdl_program_op_t *op, const pdl__execution_t *execution)
{
    bool         in = op->kind == PDL_OP_COPY_IN;
    pdl_status_t status = PDL_OK;

    if (s->weights.file != NULL && in) {
        for (int k = 0; k < SLOTS && k < s->program->piece_count && op->piece == 0; k++)
            pdl__state_file_read(s->weights.file, k);
        if (op->piece == 0) s->weights.written = s->weights.returned = 0;
        status = write_behind(s, s->weights.returned);
        if (!status) status = pdl__state_file_wait(s->weights.file, op->piece);
    }
    if (!in) s->weights.returned = op->piece + 1;
    return status ? status : copy_arrays(s, op, pdl__buffer_at(s, execution, in ? op->output : op->input[0]));
}

pdl_status_t pdl__state_end(pdl_session_t *s)
{
    return s->weights.file != NULL && s->weights.returned > 0 ? write_behind(s, s->program->piece_count) : PDL_OK;
}

/* Elements of one array, which may lie in several pieces. */
static pdl_status_t transfer(const pdl_session_t *s, pdl_session_array_t array, int64_t at, int64_t elements,
                             char *to, const char *from)
{
    size_t                     item = item_of(s), begin = place_of(s, PDL_ARRAY_MOMENT1, array);
    const pdl_program_piece_t *all = s->program->piece;
    pdl_status_t               status = PDL_OK;

    while (elements > 0 && !status) {
        int piece = 0;
        while (all[piece].low > at || all[piece].high <= at) piece++;
        int64_t skip = at - all[piece].low, count = all[piece].high - at;
        if (count > elements) count = elements;
        size_t bytes = (size_t)count * item, place = begin + (size_t)skip * item;
        if (to != NULL) {
            status = pdl__state_file_get(s->weights.file, piece, place, to, bytes);
            to += bytes;
        } else {
            status = pdl__state_file_put(s->weights.file, piece, place, from, bytes);
            from += bytes;
        }
        at += count;
        elements -= count;
    }
    return status;
}

pdl_status_t pdl__state_read(const pdl_session_t *s, pdl_session_array_t array, int64_t at, int64_t elements,
                             void *values)
{
    return transfer(s, array, at, elements, values, NULL);
}

pdl_status_t pdl__state_write(pdl_session_t *s, pdl_session_array_t array, int64_t at, int64_t elements,
                              const void *values)
{
    return transfer(s, array, at, elements, NULL, values);
}
