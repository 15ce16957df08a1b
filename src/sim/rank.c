/*
 * Every algorithm on one case, best first.
 */
#include "sim/case.h"

#include <paradl/coll/sparse.h>

#include <stdlib.h>
#include <string.h>

/* Best first, then the impossible ones; of equal ones the simplest first. */
static int compare(const void *left, const void *right)
{
    const pdl_sim_verdict_t *a = left, *b = right;

    if (a->possible != b->possible) return a->possible ? -1 : 1;
    if (a->possible && a->result.time_s < b->result.time_s) return -1;
    if (a->possible && a->result.time_s > b->result.time_s) return 1;
    return a->place - b->place;
}

/* PDL_ERR_LIMIT: the algorithm does not support the case, which is a result as well. */
static pdl_status_t check_support(const pdl_sim_case_t *asked, const char *name)
{
    pdl_schedule_t *schedule;
    pdl_status_t    status;

    if (pdl__is_sparse(name)) return pdl__check_sparse(asked, name);
    status = pdl_sim_schedule(asked, name, &schedule);
    if (status == PDL_OK) pdl_schedule_destroy(schedule);
    return status;
}

/* Any other failure ends the ranking. */
static pdl_status_t try_algorithm(const pdl_sim_case_t *asked, const char *name, pdl_sim_verdict_t *verdict)
{
    pdl_status_t status = check_support(asked, name);

    if (status == PDL_OK) return pdl_sim_run_case(asked, name, verdict);
    if (status != PDL_ERR_LIMIT) return status;
    strncpy(verdict->algorithm, name, sizeof(verdict->algorithm) - 1);
    strncpy(verdict->problem, pdl_error_message(), sizeof(verdict->problem) - 1);
    return PDL_OK;
}

/* The general nesting has no shape unless its name gives one; sparse ones need a density. `wanted` NULL: only
   counts. */
static int all_names(const pdl_sim_case_t *asked, const char **wanted)
{
    const char *const *names = pdl_coll_algorithms(asked->collective);
    int                count = 0;

    for (int i = 0; (asked->density > 0 || asked->supports != NULL) && pdl_sparse_algorithms[i] != NULL; i++) {
        if (wanted != NULL) wanted[count] = pdl_sparse_algorithms[i];
        count++;
    }
    for (int i = 0; names[i] != NULL; i++) {
        if (strcmp(names[i], "levels") == 0) continue;
        if (wanted != NULL) wanted[count] = names[i];
        count++;
    }
    return count;
}

static pdl_status_t rank_names(const pdl_sim_case_t *asked, const char *const *names, int count,
                               pdl_sim_verdict_t **verdicts)
{
    pdl_sim_verdict_t *list = calloc((size_t)count + 1, sizeof(*list));
    pdl_status_t       status = list != NULL ? PDL_OK : pdl_error(PDL_ERR_NOMEM, "out of memory for a ranking");

    for (int i = 0; !status && i < count; i++) {
        status = try_algorithm(asked, names[i], &list[i]);
        list[i].place = i;
    }
    if (status) {
        for (int i = 0; list != NULL && i < count; i++) pdl_sim_verdict_free(&list[i]);
        free(list);
        return status;
    }
    qsort(list, (size_t)count, sizeof(*list), compare);
    *verdicts = list;
    return PDL_OK;
}

pdl_status_t pdl_sim_rank(const pdl_sim_case_t *asked, const char *const *algorithms, int count,
                          pdl_sim_verdict_t **verdicts, int *verdict_count)
{
    const char **all;
    pdl_status_t status;

    if (algorithms != NULL) {
        status = rank_names(asked, algorithms, count, verdicts);
        if (!status) *verdict_count = count;
        return status;
    }
    count = all_names(asked, NULL);
    all = calloc((size_t)count + 1, sizeof(*all));
    if (all == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory for a ranking");
    all_names(asked, all);
    status = rank_names(asked, all, count, verdicts);
    if (!status) *verdict_count = count;
    free(all);
    return status;
}
