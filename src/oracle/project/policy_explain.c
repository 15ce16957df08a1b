/*
 * Why a data policy takes the time it takes, beside another one.
 */
#include "oracle/writer.h"

#include <paradl/oracle/data_policy.h>

#include <math.h>

static void say_reading(pdl__writer_t *w, const pdl_policy_row_t *row)
{
    const pdl_policy_projection_t *p = &row->projection;
    char                           total[PDL_FORMAT_SIZE], shown[PDL_FORMAT_SIZE];
    bool                           pfs = row->policy.store == PDL_POLICY_PFS;

    if (!(p->input_s > 0)) {
        pdl__say(w, "reading: the system does not describe %s, so that reading costs nothing.\n",
                 pfs ? "the parallel file system" : "the storage of its nodes");
        return;
    }
    pdl__say(w, "reading: %s an epoch from %s%s; ", pdl_format_seconds(p->input_s, total),
             pfs ? "the parallel file system" : "the storage of the nodes",
             p->input_s > p->read_s ? ", bound by decoding"
             : p->shared_limits     ? ", which is slower than its clients together"
                                    : "");
    if (p->io_s > 0)
        pdl__say(w, "training hides all but %s.\n", pdl_format_seconds(p->io_s, shown));
    else
        pdl__say(w, "training hides it.\n");
}

static void say_exchange(pdl__writer_t *w, const pdl_policy_row_t *row)
{
    const pdl_policy_projection_t *p = &row->projection;
    char samples[PDL_FORMAT_SIZE], bytes[PDL_FORMAT_SIZE], time[PDL_FORMAT_SIZE], rate[PDL_FORMAT_SIZE];
    char slice[PDL_FORMAT_SIZE], pass[PDL_FORMAT_SIZE], shown[PDL_FORMAT_SIZE];

    if (!(p->exchange_samples > 0)) return;
    pdl__say(w, "exchange: every worker sends %s samples, %s, in %s an epoch (%s, %s to start a message).\n",
             pdl_format_count((int64_t)p->exchange_samples, samples), pdl_format_bytes(p->exchange_bytes, bytes),
             pdl_format_seconds(p->exchange_total_s, time), pdl_format_byte_rate(p->exchange_bytes_per_s, rate),
             pdl_format_seconds(p->startup_s, shown));
    pdl_format_seconds(p->exchange_total_s / p->iterations, slice);
    pdl_format_seconds(p->pass_s / p->iterations, pass);
    if (p->stall_s > 0)
        pdl__say(w, "exchange: a slice of %s is longer than the passes of its iteration, %s: each stalls for %s.\n",
                 slice, pass, pdl_format_seconds(p->stall_s, shown));
    else
        pdl__say(w,
                 "exchange: a slice of %s hides behind the passes of its iteration, %s; the last one does not.\n",
                 slice, pass);
}

static void say_hiding(pdl__writer_t *w, const pdl_policy_row_t *row)
{
    const pdl_policy_projection_t *p = &row->projection;
    char                           time[PDL_FORMAT_SIZE];

    if (!(row->policy.hide > 0)) return;
    pdl__say(w,
             "hiding: %.1f %% of the samples on average (at most %.0f %%) save %.1f %% of the time of passes, "
             "gradients and update",
             100 * p->hidden, 100 * row->policy.hide, 100 * p->saving);
    if (row->policy.refresh_every == 1)
        pdl__say(w, "; their forward pass remains");
    else if (row->policy.refresh_every > 1)
        pdl__say(w, "; their forward pass remains in one of %lld epochs", (long long)row->policy.refresh_every);
    pdl__say(w, "; selecting takes %s.\n", pdl_format_seconds(p->select_s, time));
    if (p->io_s > 0 && row->policy.refresh_every == 1)
        pdl__say(w, "hiding: hidden samples are still read, so that waiting for input does not become less.\n");
}

static void say_storage(pdl__writer_t *w, const pdl_policy_projection_t *p)
{
    char node[PDL_FORMAT_SIZE], capacity[PDL_FORMAT_SIZE];

    if (!(p->stored_share > 0)) return;
    pdl__say(w, "storage: a worker keeps %.2g %% of the data set; a node %s", 100 * p->stored_share,
             pdl_format_bytes(p->node_bytes, node));
    if (p->capacity_bytes > 0)
        pdl__say(w, " of %s%s", pdl_format_bytes(p->capacity_bytes, capacity),
                 p->fits ? "" : ", which is more than it holds");
    pdl__say(w, ".\n");
}

void pdl_policy_explain(const pdl_policy_row_t *row, const pdl_policy_row_t *base, char *text, size_t size)
{
    pdl__writer_t w = {text, size, 0};
    char          own[PDL_FORMAT_SIZE], other[PDL_FORMAT_SIZE], name[PDL_POLICY_TEXT_SIZE];

    if (size > 0) text[0] = '\0';
    say_reading(&w, row);
    say_exchange(&w, row);
    say_hiding(&w, row);
    say_storage(&w, &row->projection);
    if (row->policy.shuffle != PDL_POLICY_GLOBAL)
        pdl__say(&w,
                 "mixing: after %.0f epochs a worker has seen %.3g %% of the data set, and %.2g %% of the samples "
                 "never left their first worker.\n",
                 row->projection.epochs, 100 * row->projection.seen, 100 * row->projection.never_left);
    pdl__say(&w, "%s takes %s an epoch", pdl_data_policy_format(&row->policy, name),
             pdl_format_seconds(row->projection.epoch_s, own));
    pdl__say(&w, ", %s %s.\n", pdl_data_policy_format(&base->policy, name),
             pdl_format_seconds(base->projection.epoch_s, other));
}
