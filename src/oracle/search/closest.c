/*
 * What leaves no plan: each of the things that were asked for is given up in turn, and the closest that has a plan is named.
 */
#include "oracle/search/searcher.h"
#include <stdio.h>
#include <string.h>

enum { NEAR = 8, MOST_DOUBLINGS = 16 }; /* numbers tried on both sides; beyond, doublings */

/* Whether the named strategies have a plan; by the model's figures of memory. */
static pdl_status_t has_plan(pdl_oracle_t *oracle, const pdl_request_t *request, bool *has)
{
    pdl_request_t asked = *request;
    pdl_search_t *search;

    asked.memory = NULL;
    asked.exact = NULL;
    pdl_status_t status = pdl_search_run(oracle, &asked, &search);
    *has = !status && search->possible > 0;
    if (!status) pdl_search_destroy(search);
    return status == PDL_ERR_LIMIT || status == PDL_ERR_INPUT ? PDL_OK : status;
}

static pdl_status_t try_number(pdl_oracle_t *oracle, const pdl_request_t *request, int64_t *number, int64_t value,
                               bool *has)
{
    int64_t asked = *number;

    *number = value;
    pdl_status_t status = has_plan(oracle, request, has);
    *number = asked;
    return status;
}

/* Between a number that has a plan and one that has none. */
static pdl_status_t approach(pdl_oracle_t *oracle, const pdl_request_t *request, int64_t *number, int64_t without,
                             int64_t *found)
{
    pdl_status_t status = PDL_OK;

    while (!status && (without > *found ? without - *found : *found - without) > 1) {
        int64_t middle = *found + (without - *found) / 2;
        bool    has;
        status = try_number(oracle, request, number, middle, &has);
        *(has ? found : &without) = middle;
    }
    return status;
}

/* The nearest number within these that has a plan, 0 where none was found: up and down by ones, then by halves and doublings, and between
   the last of these. `number` is part of the request. */
static pdl_status_t nearest(pdl_oracle_t *oracle, const pdl_request_t *request, int64_t *number, int64_t least,
                            int64_t most, int64_t *found)
{
    pdl_status_t status = PDL_OK;
    bool         has = false;

    *found = 0;
    for (int64_t k = 1; k <= NEAR + MOST_DOUBLINGS && !status && *found == 0; k++)
        for (int sign = 1; sign >= -1 && !status && *found == 0; sign -= 2) {
            int64_t far = (int64_t)1 << (k - NEAR > 0 ? k - NEAR : 0);
            int64_t value = k <= NEAR ? *number + sign * k : sign > 0 ? *number * far : *number / far;
            if (value < least || value > most) continue;
            status = try_number(oracle, request, number, value, &has);
            if (has) *found = value;
        }
    if (status || *found == 0) return status;
    return approach(oracle, request, number, *number, found);
}

static void say(const char *what, int64_t asked, int64_t found, char *text, size_t size)
{
    int64_t by = found > asked ? found - asked : asked - found;

    snprintf(text, size, "%s %lld leaves no plan: %lld has one, %lld %s", what, (long long)asked, (long long)found,
             (long long)by, found > asked ? "more" : "fewer");
}

pdl_status_t pdl_search_closest(pdl_oracle_t *oracle, const pdl_request_t *request, char *text, size_t size)
{
    pdl_request_t r = *request;
    int64_t       found = 0;
    char          why[160];
    pdl_status_t  status = pdl__choose_batch(oracle, request, &r.batch, why, sizeof(why));
    bool          has = false;

    text[0] = '\0';
    if (!status && r.micro_batches > 0) status = nearest(oracle, &r, &r.micro_batches, 1, r.batch, &found);
    if (!status && found > 0) say("--micro-batches", r.micro_batches, found, text, size);
    if (!status && found == 0) status = nearest(oracle, &r, &r.batch, 1, INT32_MAX, &found);
    if (!status && found > 0 && text[0] == '\0') say("--batch", r.batch, found, text, size);
    if (!status && found == 0) status = nearest(oracle, &r, &r.pe, 2, oracle->system->pe_count, &found);
    if (!status && found > 0 && text[0] == '\0') say("--devices", r.pe, found, text, size);
    if (status || found > 0 || r.strategy == NULL) return status;
    r.strategy = NULL;
    status = has_plan(oracle, &r, &has);
    if (!status && has)
        snprintf(text, size, "--strategy %s leaves no plan: others have one", request->strategy->name);
    return status;
}
