/*
 * Frames between ranks that watch each other. Numbers have a fixed size and order of bytes, texts end with a zero: what
 * is read is never trusted to be what was sent.
 */
#include "comm/watch/frames.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#define MAGIC 0x77646c70u

enum {
    AT_MAGIC = 0,
    AT_KIND = 4,
    AT_RANK = 8,
    AT_WAITING = 12,
    AT_TICKS = 16,
    AT_ACTIVE = 24,
    AT_UPDATE = 32,
    AT_PART = 40,
    AT_PID = 44,
    AT_TOKEN = 48,
    AT_DOING = 80,
    AT_LAYER = 112,
    AT_SPACE = 176,
    AT_TEXT = 184
};

static void put(unsigned char *bytes, uint64_t value, int count)
{
    for (int i = 0; i < count; i++) bytes[i] = (unsigned char)(value >> (8 * i));
}

static uint64_t get(const unsigned char *bytes, int count)
{
    uint64_t value = 0;

    for (int i = 0; i < count; i++) value |= (uint64_t)bytes[i] << (8 * i);
    return value;
}

static void put_text(unsigned char *bytes, const char *text, size_t size)
{
    memcpy(bytes, text, strnlen(text, size - 1));
}

static void get_text(const unsigned char *bytes, char *text, size_t size)
{
    memcpy(text, bytes, size - 1);
    text[size - 1] = '\0';
}

void pdl__frame_pack(const pdl__frame_t *frame, unsigned char bytes[PDL__FRAME_BYTES])
{
    const pdl__record_t *record = &frame->record;

    memset(bytes, 0, PDL__FRAME_BYTES);
    put(bytes + AT_MAGIC, MAGIC, 4);
    put(bytes + AT_KIND, (uint64_t)frame->kind, 4);
    put(bytes + AT_RANK, (uint64_t)frame->rank, 4);
    put(bytes + AT_WAITING, record->waiting, 4);
    put(bytes + AT_TICKS, record->ticks, 8);
    put(bytes + AT_ACTIVE, record->active, 8);
    put(bytes + AT_UPDATE, (uint64_t)record->update, 8);
    put(bytes + AT_PART, (uint64_t)record->micro_batch, 4);
    put(bytes + AT_PID, (uint32_t)frame->process.pid, 4);
    put(bytes + AT_SPACE, frame->process.space, 8);
    memcpy(bytes + AT_TOKEN, frame->token, sizeof(frame->token));
    put_text(bytes + AT_DOING, record->doing, sizeof(record->doing));
    put_text(bytes + AT_LAYER, record->layer, sizeof(record->layer));
    put_text(bytes + AT_TEXT, frame->text, sizeof(frame->text));
}

bool pdl__frame_unpack(const unsigned char bytes[PDL__FRAME_BYTES], pdl__frame_t *frame)
{
    pdl__record_t *record = &frame->record;
    uint64_t       kind = get(bytes + AT_KIND, 4), rank = get(bytes + AT_RANK, 4);

    if (get(bytes + AT_MAGIC, 4) != MAGIC || kind < PDL__FRAME_HELLO || kind > PDL__FRAME_LOST || rank > INT32_MAX)
        return false;
    *frame = (pdl__frame_t){.kind = (pdl__frame_kind_t)kind, .rank = (int)rank};
    record->waiting = get(bytes + AT_WAITING, 4) != 0;
    record->ticks = get(bytes + AT_TICKS, 8);
    record->active = get(bytes + AT_ACTIVE, 8);
    record->update = (int64_t)get(bytes + AT_UPDATE, 8);
    record->micro_batch = (int32_t)(uint32_t)get(bytes + AT_PART, 4);
    frame->process.pid = (int32_t)(uint32_t)get(bytes + AT_PID, 4);
    frame->process.space = get(bytes + AT_SPACE, 8);
    memcpy(frame->token, bytes + AT_TOKEN, sizeof(frame->token));
    get_text(bytes + AT_DOING, record->doing, sizeof(record->doing));
    get_text(bytes + AT_LAYER, record->layer, sizeof(record->layer));
    get_text(bytes + AT_TEXT, frame->text, sizeof(frame->text));
    return true;
}

pdl__arrival_t pdl__inbox_read(int socket, pdl__inbox_t *inbox, pdl__frame_t *frame)
{
    while (inbox->have < PDL__FRAME_BYTES) {
        ssize_t got = recv(socket, inbox->bytes + inbox->have, PDL__FRAME_BYTES - inbox->have, MSG_DONTWAIT);

        if (got < 0 && errno == EINTR) continue;
        if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return PDL__ARRIVAL_NONE;
        if (got <= 0) return PDL__ARRIVAL_CLOSED;
        inbox->have += (size_t)got;
    }
    inbox->have = 0;
    return pdl__frame_unpack(inbox->bytes, frame) ? PDL__ARRIVAL_FRAME : PDL__ARRIVAL_CLOSED;
}

static void flush(int socket, pdl__outbox_t *outbox)
{
    while (outbox->left > 0) {
        ssize_t sent = send(socket, outbox->bytes + PDL__FRAME_BYTES - outbox->left, outbox->left,
                            MSG_DONTWAIT | MSG_NOSIGNAL);

        if (sent < 0 && errno == EINTR) continue;
        if (sent <= 0) return;
        outbox->left -= (size_t)sent;
    }
}

void pdl__outbox_send(int socket, pdl__outbox_t *outbox, const pdl__frame_t *frame)
{
    flush(socket, outbox);
    if (outbox->left > 0) return;
    pdl__frame_pack(frame, outbox->bytes);
    outbox->left = PDL__FRAME_BYTES;
    flush(socket, outbox);
}
