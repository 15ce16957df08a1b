/*
 * Which ranks are lost, from what is known of each.
 */
#include "comm/watch/judge.h"

#include <stdio.h>
#include <string.h>

/* A file system may take its time over a checkpoint, during which a rank only waits. */
#define CHECKPOINT_LIMITS 10

void pdl__watched_hear(pdl__watched_t *watched, const pdl__record_t *record, double now_s)
{
    bool moved = record->ticks != watched->record.ticks;

    if (moved) watched->moved_s = now_s;
    if (moved || record->active != watched->record.active) watched->active_s = now_s;
    watched->heard_s = now_s;
    watched->record = *record;
}

void pdl__record_place(const pdl__record_t *record, char *text, size_t size)
{
    const char *doing = record->doing[0] != '\0' ? record->doing : "start-up";
    char        layer[96] = "", part[32] = "";

    if (record->layer[0] != '\0') snprintf(layer, sizeof(layer), " of layer %s", record->layer);
    if (record->micro_batch > 0) snprintf(part, sizeof(part), ", micro-batch %d", (int)record->micro_batch);
    if (record->update > 0)
        snprintf(text, size, "in update %lld (%s%s%s)", (long long)record->update, doing, layer, part);
    else
        snprintf(text, size, "in %s%s%s", doing, layer, part);
}

static bool hangs(const pdl__watched_t *w, double now_s, double limit_s)
{
    bool writes = strcmp(w->record.doing, "writing a checkpoint") == 0;

    return !w->record.waiting && now_s - w->active_s > (writes ? CHECKPOINT_LIMITS : 1) * limit_s;
}

static bool at_fault(const pdl__watched_t *w, pdl__fault_t fault, double now_s, double limit_s)
{
    if (w->left) return false;
    if (fault == PDL__FAULT_DIED) return w->closed;
    if (limit_s <= 0 || w->closed) return false;
    if (fault == PDL__FAULT_SILENT) return now_s - w->heard_s > limit_s;
    if (fault == PDL__FAULT_HUNG) return hangs(w, now_s, limit_s);
    return w->record.waiting && now_s - w->moved_s > limit_s;
}

static void name(pdl__verdict_t *v, int rank, int count)
{
    size_t length = strlen(v->who);

    if (v->count == 1) {
        v->first = rank;
        snprintf(v->who, sizeof(v->who), count > 1 ? "ranks %d" : "rank %d", rank);
    } else if (v->count <= 8) {
        snprintf(v->who + length, sizeof(v->who) - length, v->count < 8 ? ", %d" : ", ...", rank);
    }
}

static void describe(pdl__verdict_t *v, const pdl__record_t *record, double since_s)
{
    static const char *const plural[] = {"has", "have"};
    const char              *has = plural[v->count > 1];
    char                     place[192];

    pdl__record_place(record, place, sizeof(place));
    if (v->fault == PDL__FAULT_DIED)
        snprintf(v->text, sizeof(v->text), "last heard of %s", place);
    else if (v->fault == PDL__FAULT_SILENT)
        snprintf(v->text, sizeof(v->text), "%s %s been silent for %.3g s, last heard of %s", v->who, has, since_s,
                 place);
    else if (v->fault == PDL__FAULT_HUNG)
        snprintf(v->text, sizeof(v->text), "%s %s done nothing for %.3g s %s", v->who, has, since_s, place);
    else
        snprintf(v->text, sizeof(v->text), "all ranks have waited for each other for %.3g s, rank %d %s", since_s,
                 v->first, place);
}

/* How long ago. */
static double age(const pdl__watched_t *w, pdl__fault_t fault, double now_s)
{
    if (fault == PDL__FAULT_SILENT) return now_s - w->heard_s;
    return now_s - (fault == PDL__FAULT_HUNG ? w->active_s : w->moved_s);
}

static int count_at_fault(const pdl__watched_t *watched, int count, pdl__fault_t fault, double now_s,
                          double limit_s)
{
    int bad = 0;

    for (int i = 0; i < count; i++) bad += at_fault(&watched[i], fault, now_s, limit_s);
    return bad;
}

static int count_there(const pdl__watched_t *watched, int count)
{
    int there = 0;

    for (int i = 0; i < count; i++) there += !watched[i].left;
    return there;
}

pdl__verdict_t pdl__judge(const pdl__watched_t *watched, int first, int count, double now_s, double limit_s)
{
    pdl__verdict_t v = {.speaker = -1};
    int            bad = 0;

    for (int f = PDL__FAULT_DIED; f <= PDL__FAULT_KNOT && bad == 0; f++) {
        v.fault = (pdl__fault_t)f;
        bad = count_at_fault(watched, count, v.fault, now_s, limit_s);
        /* Whoever waits for a rank that works is not at fault. */
        if (f == PDL__FAULT_KNOT && (bad < 2 || bad < count_there(watched, count))) bad = 0;
    }
    if (bad == 0) return (pdl__verdict_t){.speaker = -1};
    for (int i = 0; i < count; i++) {
        if (at_fault(&watched[i], v.fault, now_s, limit_s)) {
            v.count++;
            name(&v, first + i, bad);
        } else if (v.speaker < 0 && !watched[i].left) {
            v.speaker = first + i;
        }
    }
    if (v.fault == PDL__FAULT_KNOT) v.speaker = first;
    const pdl__watched_t *w = &watched[v.first - first];
    describe(&v, &w->record, age(w, v.fault, now_s));
    return v;
}
