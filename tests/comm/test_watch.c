/*
 * Watching ranks: who is judged lost, and that nothing but a frame is taken for one.
 */
#include "test.h"

#include "comm/watch/links.h"

#include <paradl/base/status.h>

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Ranks that were all heard of, active and in progress at second 100. */
static void fill(pdl__watched_t *watched, int count)
{
    memset(watched, 0, (size_t)count * sizeof(*watched));
    for (int i = 0; i < count; i++) {
        watched[i].heard_s = watched[i].active_s = watched[i].moved_s = 100;
        watched[i].record.update = 7;
        strcpy(watched[i].record.doing, "forward");
        strcpy(watched[i].record.layer, "conv1");
    }
}

static void ranks_that_work_are_left_alone(void)
{
    pdl__watched_t watched[3];

    fill(watched, 3);
    CHECK(pdl__judge(watched, 0, 3, 109, 10).fault == PDL__FAULT_NONE);
    /* One computes in a long step, the others wait for it. */
    for (int i = 0; i < 3; i++) watched[i].heard_s = 500;
    watched[0].active_s = 500;
    watched[1].record.waiting = watched[2].record.waiting = true;
    CHECK(pdl__judge(watched, 0, 3, 501, 10).fault == PDL__FAULT_NONE);
    /* Without a limit nobody is late. */
    CHECK(pdl__judge(watched, 0, 3, 9999, 0).fault == PDL__FAULT_NONE);
}

static void a_silent_rank_is_named(void)
{
    pdl__watched_t watched[3];
    pdl__verdict_t verdict;

    fill(watched, 3);
    watched[0].heard_s = watched[0].active_s = watched[2].heard_s = watched[2].active_s = 111;
    watched[1].record.micro_batch = 2;
    verdict = pdl__judge(watched, 0, 3, 112, 10);
    CHECK(verdict.fault == PDL__FAULT_SILENT && verdict.first == 1 && verdict.count == 1 && verdict.speaker == 0);
    CHECK_STR(verdict.text, "rank 1 has been silent for 12 s, last heard of in update 7 (forward of layer conv1, "
                            "micro-batch 2)");
    watched[0].heard_s = 100;
    verdict = pdl__judge(watched, 0, 3, 112, 10);
    CHECK(verdict.count == 2 && verdict.first == 0 && verdict.speaker == 2);
    CHECK_STR(verdict.who, "ranks 0, 1");
    /* One that has said goodbye owes nothing. */
    watched[0].left = watched[1].left = true;
    CHECK(pdl__judge(watched, 0, 3, 112, 10).fault == PDL__FAULT_NONE);
}

static void a_rank_that_does_nothing_hangs(void)
{
    pdl__watched_t watched[2];
    pdl__verdict_t verdict;

    fill(watched, 2);
    for (int i = 0; i < 2; i++) watched[i].heard_s = 120;
    watched[0].record.waiting = true;
    strcpy(watched[1].record.doing, "waiting for samples");
    watched[1].record.layer[0] = '\0';
    verdict = pdl__judge(watched, 0, 2, 120, 10);
    CHECK(verdict.fault == PDL__FAULT_HUNG && verdict.first == 1 && verdict.speaker == 0);
    CHECK_STR(verdict.text, "rank 1 has done nothing for 20 s in update 7 (waiting for samples)");
    /* A file system may take longer. */
    strcpy(watched[1].record.doing, "writing a checkpoint");
    CHECK(pdl__judge(watched, 0, 2, 120, 10).fault == PDL__FAULT_NONE);
    for (int i = 0; i < 2; i++) watched[i].heard_s = 201;
    CHECK(pdl__judge(watched, 0, 2, 201, 10).fault == PDL__FAULT_HUNG);
}

static void ranks_that_wait_for_each_other_are_found(void)
{
    pdl__watched_t watched[2];

    fill(watched, 2);
    for (int i = 0; i < 2; i++) {
        watched[i].heard_s = watched[i].active_s = 120; /* waiting takes processor time */
        watched[i].record.waiting = true;
    }
    CHECK(pdl__judge(watched, 0, 2, 120, 10).fault == PDL__FAULT_KNOT);
    watched[1].moved_s = 115;
    CHECK(pdl__judge(watched, 0, 2, 120, 10).fault == PDL__FAULT_NONE);
}

static void a_closed_connection_is_a_death(void)
{
    pdl__watched_t watched[2];
    pdl__verdict_t verdict;

    fill(watched, 2);
    watched[1].closed = true;
    verdict = pdl__judge(watched, 0, 2, 101, 0);
    CHECK(verdict.fault == PDL__FAULT_DIED && verdict.first == 1 && verdict.speaker == 0);
    CHECK_STR(verdict.text, "last heard of in update 7 (forward of layer conv1)");
    watched[1].left = true;
    CHECK(pdl__judge(watched, 0, 2, 101, 0).fault == PDL__FAULT_NONE);
}

static void frames_arrive_in_pieces(void)
{
    pdl__frame_t  sent = {.kind = PDL__FRAME_BEAT, .rank = 5, .record = {.ticks = 1234567890123, .update = 42}};
    pdl__frame_t  got;
    pdl__inbox_t  inbox = {.have = 0};
    pdl__outbox_t outbox = {.left = 0};
    unsigned char bytes[PDL__FRAME_BYTES];
    int           pair[2];

    strcpy(sent.record.doing, "backward");
    memset(sent.record.layer, 'x', sizeof(sent.record.layer) - 1);
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    CHECK(pdl__inbox_read(pair[1], &inbox, &got) == PDL__ARRIVAL_NONE);
    pdl__frame_pack(&sent, bytes);
    CHECK(write(pair[0], bytes, 100) == 100);
    CHECK(pdl__inbox_read(pair[1], &inbox, &got) == PDL__ARRIVAL_NONE);
    CHECK(write(pair[0], bytes + 100, PDL__FRAME_BYTES - 100) == PDL__FRAME_BYTES - 100);
    CHECK(pdl__inbox_read(pair[1], &inbox, &got) == PDL__ARRIVAL_FRAME);
    CHECK(got.kind == PDL__FRAME_BEAT && got.rank == 5 && got.record.ticks == 1234567890123);
    CHECK_STR(got.record.layer, sent.record.layer);
    /* Where nobody reads, frames are dropped as a whole. */
    for (int i = 0; i < 10000; i++) pdl__outbox_send(pair[0], &outbox, &sent);
    int frames = 0;
    while (pdl__inbox_read(pair[1], &inbox, &got) == PDL__ARRIVAL_FRAME) frames++;
    CHECK(frames > 0 && frames < 10000);
    pdl__outbox_send(pair[0], &outbox, &sent);
    while (pdl__inbox_read(pair[1], &inbox, &got) == PDL__ARRIVAL_FRAME) frames++;
    CHECK(inbox.have == 0);
    close(pair[0]);
    CHECK(pdl__inbox_read(pair[1], &inbox, &got) == PDL__ARRIVAL_CLOSED);
    close(pair[1]);
}

static void garbage_is_no_frame(void)
{
    pdl__frame_t   frame = {.kind = PDL__FRAME_HELLO, .rank = 1}, got;
    pdl__meeting_t meeting = {.port = 1};
    unsigned char  bytes[PDL__FRAME_BYTES];

    for (int seed = 0; seed < 200; seed++) {
        for (int i = 0; i < PDL__FRAME_BYTES; i++) bytes[i] = (unsigned char)(i * 31 + seed * 7 + seed / (i + 1));
        CHECK(!pdl__frame_unpack(bytes, &got));
    }
    pdl__frame_pack(&frame, bytes);
    CHECK(pdl__frame_unpack(bytes, &got));
    bytes[4] = 9;
    CHECK(!pdl__frame_unpack(bytes, &got));
    /* Texts end, whatever is in them. */
    pdl__frame_pack(&frame, bytes);
    memset(bytes + 80, 'y', PDL__FRAME_BYTES - 80);
    CHECK(pdl__frame_unpack(bytes, &got));
    CHECK(strlen(got.record.doing) < sizeof(got.record.doing) && strlen(got.text) < sizeof(got.text));
    /* A hello needs the word. */
    CHECK(pdl__meeting_knows(&meeting, &frame));
    frame.token[31] = 1;
    CHECK(!pdl__meeting_knows(&meeting, &frame));
}

int main(void)
{
    RUN(ranks_that_work_are_left_alone);
    RUN(a_silent_rank_is_named);
    RUN(a_rank_that_does_nothing_hangs);
    RUN(ranks_that_wait_for_each_other_are_found);
    RUN(a_closed_connection_is_a_death);
    RUN(frames_arrive_in_pieces);
    RUN(garbage_is_no_frame);
    return test_done();
}
