#include "oracle/project/repeats.h"

void pdl__repeats_end(pdl__repeats_t *r, const pdl__lane_t *lane, double exchange_s)
{
    double             now = lane->free_s[PDL_STREAM_COMPUTE];
    pdl__repeat_sums_t sums = {lane->host_s, lane->slowed_s, lane->host_wait_s, exchange_s};

    for (int t = 0; t < PDL__TRACK_COUNT; t++) {
        bool rests = lane->free_s[t] <= now - r->took;
        if (!rests && !pdl__repeats_same(lane->free_s[t] - r->tracks[t], r->took, now)) r->uniform = false;
        r->tracks[t] = lane->free_s[t];
    }
    r->alike = !r->uniform ? 0 : pdl__repeats_same(r->took, r->before, now) ? r->alike + 1 : 1;
    r->before = r->took;
    r->each = (pdl__repeat_sums_t){sums.host_s - r->sums.host_s, sums.slowed_s - r->sums.slowed_s,
                                   sums.host_wait_s - r->sums.host_wait_s, sums.exchange_s - r->sums.exchange_s};
    r->sums = sums;
    r->at = 0;
}

bool pdl__repeats_seen(const pdl__repeats_t *r, double seconds)
{
    return r->alike >= 2 && pdl__repeats_same(r->before, seconds, r->tracks[PDL_STREAM_COMPUTE]);
}

void pdl__repeats_skip(pdl__repeats_t *r, int64_t count, double seconds, pdl__lane_t *lane, double *exchange_s)
{
    double n = (double)count;

    for (int t = 0; t < PDL__TRACK_COUNT; t++) {
        lane->free_s[t] += n * seconds;
        r->tracks[t] += n * seconds;
    }
    for (int k = 0; k < r->length; k++) r->ends[k] += n * seconds;
    lane->host_s += n * r->each.host_s;
    lane->slowed_s += n * r->each.slowed_s;
    lane->host_wait_s += n * r->each.host_wait_s;
    *exchange_s += n * r->each.exchange_s;
}
