/*
 * The critical path and the messages of made-up timelines: what waits for what is known, and the parts of the path add up to its length.
 */
#include "test.h"

#include "report/page/events.h"

#include <stdio.h>
#include <string.h>

static pdl_arena_t  *arena;
static pdl__events_t events;

/* Slices as rank, stream, micro-batch, start, end and name; times in microseconds. */
typedef struct slice {
    int         rank, stream, micro_batch, start, end;
    const char *name;
} slice_t;

static void read_slices(const slice_t *slices, int count)
{
    char        text[8192] = "[";
    int         length = 1;
    const char *end;

    for (int i = 0; i < count; i++)
        length +=
            snprintf(text + length, sizeof(text) - (size_t)length,
                     "%s\n{\"ph\": \"X\", \"name\": \"%s\", \"pid\": %d, \"tid\": %d, \"ts\": %d, \"dur\": %d, "
                     "\"args\": {\"micro_batch\": %d}}",
                     i > 0 ? "," : "", slices[i].name, slices[i].rank, slices[i].stream, slices[i].start,
                     slices[i].end - slices[i].start, slices[i].micro_batch);
    snprintf(text + length, sizeof(text) - (size_t)length, "]");
    pdl__events_free(&events);
    events = (pdl__events_t){.arena = arena};
    CHECK_INT(pdl__events_read(&events, text, strlen(text), "made up", 1, &end), PDL_OK);
    CHECK_INT(pdl__events_path(&events), PDL_OK);
}

/* "0 2 3": the events of the path; its parts are all of the time from its first slice on. */
static void check_path(const char *wanted)
{
    const pdl__path_t *path = &events.path;
    char               text[256] = "";
    int                length = 0;
    int64_t            all_ns = 0;

    for (int64_t i = 0; i < path->step_count; i++) {
        length += snprintf(text + length, sizeof(text) - (size_t)length, "%s%d", i > 0 ? " " : "",
                           (int)path->step[i].event);
        all_ns += path->step[i].own_ns + path->step[i].idle_ns;
    }
    CHECK_STR(text, wanted);
    if (path->step_count == 0) return;
    const pdl__event_t *first = &events.event[path->step[0].event],
                       *last = &events.event[path->step[path->step_count - 1].event];
    CHECK_INT(all_ns, last->start_ns + last->length - first->start_ns);
}

static void check_arrow(int64_t i, int64_t from, int64_t to)
{
    CHECK(i < events.path.arrow_count);
    if (i >= events.path.arrow_count) return;
    CHECK_INT(events.path.arrow[i].from, from);
    CHECK_INT(events.path.arrow[i].to, to);
}

/* Rank 1 waits for the first tensor; the second one is there before it is needed. */
static void two_stages(void)
{
    const slice_t slices[] = {{0, 0, 0, 0, 10, "forward a"},  {0, 1, 0, 10, 14, "send a"},
                              {0, 0, 1, 10, 20, "forward a"}, {0, 1, 1, 20, 24, "send a"},
                              {1, 2, 0, 0, 14, "receive a"},  {1, 0, 0, 14, 30, "forward b"},
                              {1, 2, 1, 30, 30, "receive a"}, {1, 0, 1, 30, 46, "forward b"}};

    read_slices(slices, 8);
    CHECK_INT(events.path.arrow_count, 2);
    check_arrow(0, 1, 4);
    check_arrow(1, 3, 6);
    check_path("0 1 4 5 7");
    CHECK_INT(events.path.step[2].own_ns, 0); /* all of the receive was waiting for the send */
}

/* In a run it is the wait that ends with the message, and a rank may do nothing for a while. */
static void measured(void)
{
    const slice_t slices[] = {{1, 3, 0, 0, 1, "receive a"},   {0, 0, 0, 5, 10, "forward a"},
                              {0, 3, 0, 10, 12, "send a"},    {1, 3, 0, 2, 15, "wait for receive a"},
                              {1, 0, 0, 18, 20, "forward b"}, {1, 3, 0, 20, 21, "receive a"},
                              {0, 3, 0, 23, 26, "send a"},    {1, 3, 0, 21, 25, "wait for receive a"},
                              {0, 0, 0, 14, 23, "forward a"}};

    read_slices(slices, 9);
    CHECK_INT(events.path.arrow_count, 2);
    check_arrow(0, 2, 3);
    check_arrow(1, 6, 7);
    check_path("1 2 8 6"); /* the send ends last, behind its own message */
    CHECK_INT(events.path.step[2].idle_ns, 2000);
}

/* Ranks 0 and 1 send to 2 and 3, in this order; three receivers of two senders have no arrows. */
static void replicas(void)
{
    slice_t slices[] = {{1, 1, 0, 1, 3, "send a"},
                        {0, 1, 0, 0, 2, "send a"},
                        {3, 2, 0, 0, 3, "receive a"},
                        {2, 2, 0, 0, 2, "receive a"},
                        {4, 2, 0, 0, 2, "receive b"}};

    read_slices(slices, 5);
    CHECK_INT(events.path.arrow_count, 2);
    check_arrow(0, 1, 3);
    check_arrow(1, 0, 2);
    slices[4].name = "receive a";
    read_slices(slices, 5);
    CHECK_INT(events.path.arrow_count, 0);
}

/* Slices without a length, all at one moment, have an end too. */
static void moments(void)
{
    const slice_t slices[] = {{0, 0, 0, 5, 5, "load"},
                              {0, 1, 0, 5, 5, "result"},
                              {0, 0, 1, 5, 5, "load"},
                              {0, 1, 1, 5, 5, "result"}};

    read_slices(slices, 4);
    check_path("0");
    read_slices(slices, 0);
    check_path("");
}

/* A sum begins when its last rank comes: what that rank did before is on the path, and what the other one waited is not. Another group, which
   had ended before, is not waited for. */
static void collectives(void)
{
    const slice_t slices[] = {{0, 0, 0, 0, 10, "forward a"},
                              {0, 1, 0, 10, 40, "allreduce gradients a"},
                              {1, 0, 0, 0, 30, "forward a"},
                              {1, 1, 0, 30, 40, "allreduce gradients a"},
                              {0, 0, 0, 40, 45, "update a"}};
    const slice_t apart[] = {{0, 0, 0, 0, 10, "forward a"},
                             {0, 1, 0, 10, 20, "allreduce gradients a"},
                             {1, 0, 0, 0, 8, "forward a"},
                             {1, 1, 0, 30, 40, "allreduce gradients a"}};

    read_slices(slices, 5);
    check_path("2 1 4");
    CHECK_INT(events.path.step[1].own_ns, 10000);
    read_slices(apart, 4);
    check_path("2 3");
}

int main(void)
{
    arena = pdl_arena_create();
    RUN(two_stages);
    RUN(measured);
    RUN(replicas);
    RUN(moments);
    RUN(collectives);
    pdl__events_free(&events);
    pdl_arena_destroy(arena);
    return test_done();
}
