/*
 * The encoding is walked once before protobuf-c sees it. protobuf-c says only that unpacking failed, and
 * descends into nested messages without a limit; the walk finds the offset of the damage and bounds the depth.
 */
#include "model/onnx/wire.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SIZE_LIMIT  ((size_t)2 << 30)
#define DEPTH_LIMIT 64
/* Unpacked messages are larger than their encoding, most for files of many small messages. */
#define BUDGET_FACTOR 4
#define BUDGET_FLOOR  ((size_t)64 << 20)

enum { WIRE_VARINT = 0, WIRE_FIXED64 = 1, WIRE_BYTES = 2, WIRE_FIXED32 = 5 };

typedef struct frame {
    const ProtobufCMessageDescriptor *type;
    size_t                            end;
    const char                       *field; /* name in the parent */
} frame_t;

typedef struct walk {
    const uint8_t *data;
    size_t         at;
    frame_t        stack[DEPTH_LIMIT];
    int            depth;
    const char    *reason; /* set when the walk stops early */
} walk_t;

static bool read_varint(walk_t *walk, size_t end, uint64_t *value)
{
    *value = 0;
    for (int shift = 0; shift < 70; shift += 7) {
        if (walk->at >= end) {
            walk->reason = "ends inside a number";
            return false;
        }
        uint8_t byte = walk->data[walk->at++];

        *value |= shift < 64 ? (uint64_t)(byte & 0x7f) << shift : 0;
        if ((byte & 0x80) == 0) return true;
    }
    walk->reason = "a number has too many digits";
    return false;
}

static bool skip(walk_t *walk, size_t end, uint64_t count)
{
    if (count > end - walk->at) {
        walk->reason = "a field is longer than what encloses it";
        return false;
    }
    walk->at += (size_t)count;
    return true;
}

static bool packable(ProtobufCType type)
{
    return type != PROTOBUF_C_TYPE_STRING && type != PROTOBUF_C_TYPE_BYTES && type != PROTOBUF_C_TYPE_MESSAGE;
}

/* protobuf-c drops a field whose wire type is not that of its declaration: here it counts as damage. */
static bool wire_fits(const ProtobufCFieldDescriptor *field, int wire)
{
    if (field->label == PROTOBUF_C_LABEL_REPEATED && wire == WIRE_BYTES && packable(field->type)) return true;
    switch (field->type) {
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_BYTES:
    case PROTOBUF_C_TYPE_MESSAGE: return wire == WIRE_BYTES;
    case PROTOBUF_C_TYPE_FLOAT:
    case PROTOBUF_C_TYPE_FIXED32:
    case PROTOBUF_C_TYPE_SFIXED32: return wire == WIRE_FIXED32;
    case PROTOBUF_C_TYPE_DOUBLE:
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_SFIXED64: return wire == WIRE_FIXED64;
    default: return wire == WIRE_VARINT;
    }
}

static bool walk_bytes(walk_t *walk, const ProtobufCFieldDescriptor *field, size_t end)
{
    uint64_t length;

    if (!read_varint(walk, end, &length)) return false;
    if (field == NULL || field->type != PROTOBUF_C_TYPE_MESSAGE) return skip(walk, end, length);
    if (length > end - walk->at) {
        walk->reason = "a message is longer than what encloses it";
        return false;
    }
    if (walk->depth == DEPTH_LIMIT) {
        walk->reason = "messages are nested too deeply";
        return false;
    }
    walk->stack[walk->depth++] = (frame_t){field->descriptor, walk->at + (size_t)length, field->name};
    return true;
}

static bool walk_field(walk_t *walk)
{
    const frame_t                  *frame = &walk->stack[walk->depth - 1];
    const ProtobufCFieldDescriptor *field;
    size_t                          end = frame->end;
    uint64_t                        tag, ignored;

    if (!read_varint(walk, end, &tag)) return false;
    if (tag >> 3 == 0 || tag >> 3 > UINT32_MAX >> 3) {
        walk->reason = "a field has an impossible number";
        return false;
    }
    field = protobuf_c_message_descriptor_get_field(frame->type, (unsigned)(tag >> 3));
    if (field != NULL && !wire_fits(field, (int)(tag & 7))) {
        walk->reason = "a field is not encoded as its type requires";
        return false;
    }
    switch (tag & 7) {
    case WIRE_VARINT: return read_varint(walk, end, &ignored);
    case WIRE_FIXED64: return skip(walk, end, 8);
    case WIRE_FIXED32: return skip(walk, end, 4);
    case WIRE_BYTES: return walk_bytes(walk, field, end);
    default: walk->reason = "a field has an unknown encoding"; return false;
    }
}

/* "graph.node.attribute" of the message in which the walk stopped. */
static void format_place(const walk_t *walk, char *buffer, size_t size)
{
    size_t used = 0;

    snprintf(buffer, size, "the top level");
    for (int i = 1; i < walk->depth && used < size; i++)
        used += (size_t)snprintf(buffer + used, size - used, "%s%s", i > 1 ? "." : "", walk->stack[i].field);
}

static pdl_status_t check_encoding(const void *data, size_t length, const char *file)
{
    walk_t walk = {.data = data, .depth = 1};
    char   place[160];

    walk.stack[0] = (frame_t){&onnx__model_proto__descriptor, length, ""};
    while (walk.depth > 0) {
        size_t start = walk.at;

        if (walk.at == walk.stack[walk.depth - 1].end) {
            walk.depth--;
        } else if (!walk_field(&walk)) {
            format_place(&walk, place, sizeof place);
            return pdl_error(PDL_ERR_INPUT,
                             "%s: not a readable ONNX model (damaged or truncated at byte %zu of %zu, in %s: %s)",
                             file, start, length, place, walk.reason);
        }
    }
    return PDL_OK;
}

/* Blocks carry their size, so that what is freed returns to the budget. */
typedef struct budget {
    size_t left;
    bool   exhausted;
} budget_t;

typedef union header {
    size_t      size;
    max_align_t align;
} header_t;

static void *budget_alloc(void *data, size_t size)
{
    budget_t *budget = data;
    header_t *block;

    if (size > budget->left || budget->left - size < sizeof(header_t)) {
        budget->exhausted = true;
        return NULL;
    }
    block = malloc(sizeof *block + size);
    if (block == NULL) {
        budget->exhausted = true;
        return NULL;
    }
    budget->left -= size + sizeof *block;
    block->size = size + sizeof *block;
    return block + 1;
}

static void budget_free(void *data, void *pointer)
{
    budget_t *budget = data;
    header_t *block = pointer;

    if (pointer == NULL) return;
    block--;
    budget->left += block->size;
    free(block);
}

pdl_status_t pdl__onnx_unpack(const void *data, size_t length, const char *file, Onnx__ModelProto **model)
{
    budget_t           budget = {.left = BUDGET_FLOOR};
    ProtobufCAllocator allocator = {budget_alloc, budget_free, &budget};
    pdl_status_t       st;

    if (length > SIZE_LIMIT)
        return pdl_error(PDL_ERR_LIMIT,
                         "%s: %zu bytes, an ONNX model has at most 2 GiB; export it with the weights "
                         "as external data",
                         file, length);
    if (length == 0) return pdl_error(PDL_ERR_INPUT, "%s: not a readable ONNX model (the file is empty)", file);
    st = check_encoding(data, length, file);
    if (st) return st;

    budget.left += length * BUDGET_FACTOR;
    *model = onnx__model_proto__unpack(&allocator, length, data);
    if (*model == NULL && budget.exhausted)
        return pdl_error(PDL_ERR_LIMIT, "%s: unpacking takes more than %zu MiB of memory; is this an ONNX model?",
                         file, (BUDGET_FLOOR + length * BUDGET_FACTOR) >> 20);
    if (*model == NULL)
        return pdl_error(PDL_ERR_INPUT, "%s: not a readable ONNX model (damaged or truncated at a place unknown)",
                         file);
    return PDL_OK;
}

void pdl__onnx_free(Onnx__ModelProto *model)
{
    budget_t           budget = {0};
    ProtobufCAllocator allocator = {budget_alloc, budget_free, &budget};

    if (model != NULL) onnx__model_proto__free_unpacked(model, &allocator);
}
