/*
 * Plans a model through the library: which strategy is fastest on so many devices of a system?
 *
 *     cc plan_model.c $(pkg-config --cflags --libs paradl) -o plan_model
 *     ./plan_model resnet50 abci-v 128
 */
#include <paradl/oracle/search.h>

#include <stdio.h>

static void print_ranking(const pdl_search_t *search)
{
    char time[PDL_FORMAT_SIZE], memory[PDL_FORMAT_SIZE];

    for (int i = 0; i < search->count; i++) {
        const pdl_candidate_t *c = &search->candidates[i];

        if (c->possible)
            printf("%2d  %-14s %10s %10s\n", i + 1, c->config.strategy->name,
                   pdl_format_seconds(c->projection.total_s, time),
                   pdl_format_bytes(c->projection.memory_bytes, memory));
        else
            printf(" -  %-14s not possible: %s\n", c->config.strategy->name, c->reason);
    }
}

static pdl_status_t plan(const pdl_model_t *model, const pdl_system_t *system, int64_t pe)
{
    pdl_request_t    request = pdl_request_default();
    pdl_parameters_t parameters;
    pdl_oracle_t    *oracle = NULL;
    pdl_search_t    *search = NULL;
    pdl_status_t     status = pdl_parameters_choose(NULL, system, &parameters);

    request.pe = pe;
    if (!status) status = pdl_oracle_create(model, system, &parameters, &oracle);
    if (!status) status = pdl_search_run(oracle, &request, &search);
    if (!status) print_ranking(search);
    pdl_search_destroy(search);
    pdl_oracle_destroy(oracle);
    return status;
}

int main(int argc, char **argv)
{
    pdl_model_t        *model = NULL;
    const pdl_system_t *system = NULL;
    int64_t             pe = 128;
    pdl_status_t        status = argc > 3 ? pdl_parse_int(argv[3], 1, INT32_MAX, &pe) : PDL_OK;

    if (!status) status = pdl_model_load(argc > 1 ? argv[1] : "resnet50", &model);
    if (!status) status = pdl_system_load(argc > 2 ? argv[2] : "abci-v", &system);
    if (!status) status = plan(model, system, pe);
    if (status) fprintf(stderr, "plan_model: %s\n", pdl_error_message());
    pdl_system_destroy(system);
    pdl_model_destroy(model);
    return status ? 1 : 0;
}
