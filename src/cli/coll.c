/*
 * paradl coll: list, verify, price, bench.
 */
#include "cli/coll_price.h"
#include "cli/commands.h"

#include <paradl/base/document.h>
#include <paradl/base/units.h>
#include <paradl/coll/coll.h>
#include <paradl/report/bench_report.h>
#include <paradl/report/table.h>

#include <inttypes.h>
#include <string.h>

typedef struct values {
    bool        json;
    int         collective;
    int64_t     elements, iterations;
    const char *algorithm, *network;
    double      min_bytes, max_bytes, chunk_bytes;
    int64_t     ranks, hosts_per_switch, rows, columns, radix, root;
} values_t;

#define INT(field, low)      PDL__INT(values_t, field, low)
#define QUANTITY(field)      PDL__QUANTITY(values_t, field, PDL_UNIT_BYTES)
#define CHOICE(field, names) PDL__CHOICE(values_t, field, names, PDL_COLL_COUNT)

static const pdl__option_t verify_options[] = {
    {"ranks", "P", NULL, "ranks that take part", INT(ranks, 1), .required = true},
    {"collective", "NAME", "allreduce", "the collective", CHOICE(collective, pdl_collective_names)},
    {"elements", "N", NULL, "elements of the vector, any number; default: 3 P + 5", INT(elements, 0)},
    {"hosts-per-switch", "H", NULL, "ranks of a switch or node, for the algorithms that know them",
     INT(hosts_per_switch, 1)},
    {"rows", "R", NULL, "rows of two-dimensional algorithms; degree of kautz", INT(rows, 1)},
    {"columns", "C", NULL, "columns of two-dimensional algorithms", INT(columns, 1)},
    {"radix", "K", NULL, "radix of recmul", INT(radix, 2)},
    {"root", "R", NULL, "the rank that broadcasts", INT(root, 0)},
    {"json", NULL, NULL, "prints one JSON document instead of a text", PDL__FLAG(values_t, json)},
    {.name = NULL},
};

static const pdl__option_t bench_options[] = {
    {"collective", "NAME", "allreduce", "the collective", CHOICE(collective, pdl_collective_names)},
    {"algorithm", "NAME", "all", "one algorithm, or all that support the ranks", PDL__TEXT(values_t, algorithm)},
    {"min-bytes", "B", "4KiB", "the smallest vector; the next ones are four times larger", QUANTITY(min_bytes)},
    {"max-bytes", "B", "4MiB", "the largest vector", QUANTITY(max_bytes)},
    {"iterations", "N", "20", "timed runs of each, after a quarter as many to warm up", INT(iterations, 1)},
    {"chunk", "B", NULL, "bytes of a message chunk; default: 256 KiB", QUANTITY(chunk_bytes)},
    {"ranks-per-node", "N", NULL, "for the hierarchical algorithms", INT(hosts_per_switch, 1)},
    {"network", "FILE.yaml", NULL,
     "topology of the hosts (paradl calibrate --network): simulates each schedule on it, and says what auto takes",
     PDL__TEXT(values_t, network)},
    {"json", NULL, NULL, "prints one JSON document instead of a table", PDL__FLAG(values_t, json)},
    {.name = NULL},
};

static const pdl__option_t list_options[] = {
    {"json", NULL, NULL, "prints one JSON document instead of a table", PDL__FLAG(values_t, json)},
    {.name = NULL},
};

static pdl_status_t list_json(void)
{
    pdl_json_t json;

    pdl_document_begin(&json, stdout, "algorithm-list/1");
    pdl_json_open(&json, "algorithms", '[');
    for (int c = 0; c < PDL_COLL_COUNT; c++) {
        const char *const *names = pdl_coll_algorithms((pdl_collective_t)c);

        for (int i = 0; names[i] != NULL; i++) {
            pdl_json_open(&json, NULL, '{');
            pdl_json_string(&json, "collective", pdl_collective_names[c]);
            pdl_json_string(&json, "algorithm", names[i]);
            pdl_json_string(&json, "description", pdl_coll_describe((pdl_collective_t)c, names[i]));
            pdl_json_close(&json);
        }
    }
    pdl_json_close(&json);
    pdl_json_close(&json);
    return PDL_OK;
}

static pdl_status_t run_list(const void *given, const pdl__operands_t *operands)
{
    const values_t           *values = given;
    static const pdl_column_t columns[] = {{"collective", PDL_LEFT}, {"algorithm", PDL_LEFT}, {"", PDL_LEFT}};
    pdl_table_t              *table;
    pdl_status_t              status;

    (void)operands;
    if (values->json) return list_json();
    table = pdl_table_create(columns, 3);
    for (int c = 0; c < PDL_COLL_COUNT; c++) {
        const char *const *names = pdl_coll_algorithms((pdl_collective_t)c);

        for (int i = 0; names[i] != NULL; i++) {
            pdl_table_row(table, PDL_ROW_PLAIN);
            pdl_table_cell(table, "%s", i == 0 ? pdl_collective_names[c] : "");
            pdl_table_cell(table, "%s", names[i]);
            pdl_table_cell(table, "%s", pdl_coll_describe((pdl_collective_t)c, names[i]));
        }
    }
    status = pdl_table_print(table, stdout);
    pdl_table_destroy(table);
    return status;
}

/* Some ten million messages pass in a second. */
#define QUICK_MESSAGES 2e7

static void announce(const pdl_schedule_t *schedule, int64_t elements)
{
    double messages = (double)pdl_schedule_ranks(schedule) * pdl_schedule_steps(schedule);
    char   count[PDL_FORMAT_SIZE], memory[PDL_FORMAT_SIZE];

    if (messages < QUICK_MESSAGES) return;
    fprintf(stderr,
            "coll verify: up to %s messages are checked one by one, in %s of memory; that takes about %.0f s\n",
            pdl_format_count((int64_t)messages, count),
            pdl_format_bytes(8.0 * pdl_schedule_ranks(schedule) * (double)elements, memory), messages / 1e7);
}

static void print_verified(const pdl_schedule_t *schedule, const pdl_schedule_spec_t *spec, int64_t elements)
{
    pdl_coll_price_t price = pdl_schedule_price(schedule, 1e9);

    printf("%s %s on %d ranks: right, %d steps, %" PRId64 " blocks, %" PRId64 " elements\n"
           "busiest rank: %g start-ups, %.4g of the vector sent, %.4g reduced\n",
           pdl_collective_names[spec->collective], spec->algorithm, pdl_schedule_ranks(schedule),
           pdl_schedule_steps(schedule), pdl_schedule_blocks(schedule), elements, price.startups, price.bytes / 1e9,
           price.reduced_bytes / 1e9);
}

static void verified_json(const pdl_schedule_t *schedule, const pdl_schedule_spec_t *spec, int64_t elements)
{
    pdl_coll_price_t price = pdl_schedule_price(schedule, 1e9);
    pdl_json_t       json;

    pdl_document_begin(&json, stdout, "verification/1");
    pdl_json_string(&json, "collective", pdl_collective_names[spec->collective]);
    pdl_json_string(&json, "algorithm", spec->algorithm);
    pdl_json_int(&json, "ranks", pdl_schedule_ranks(schedule));
    pdl_json_bool(&json, "right", true);
    pdl_json_int(&json, "steps", pdl_schedule_steps(schedule));
    pdl_json_int(&json, "blocks", pdl_schedule_blocks(schedule));
    pdl_json_int(&json, "elements", elements);
    pdl_json_number(&json, "startups", price.startups);
    pdl_json_number(&json, "sent_vectors", price.bytes / 1e9);
    pdl_json_number(&json, "reduced_vectors", price.reduced_bytes / 1e9);
    pdl_json_close(&json);
}

static pdl_status_t run_verify(const void *given, const pdl__operands_t *operands)
{
    const values_t     *values = given;
    pdl_schedule_spec_t spec = {.collective = (pdl_collective_t)values->collective,
                                .algorithm = operands->text[0],
                                .ranks = values->ranks,
                                .hosts_per_switch = values->hosts_per_switch,
                                .rows = values->rows,
                                .columns = values->columns,
                                .radix = values->radix,
                                .root = values->root};
    int64_t             elements = values->elements > 0 ? values->elements : 3 * values->ranks + 5;
    pdl_schedule_t     *schedule;
    pdl_status_t        status = pdl_schedule_create(&spec, &schedule);

    if (status) return status;
    announce(schedule, elements);
    status = pdl_schedule_verify(schedule, elements);
    if (!status && values->json)
        verified_json(schedule, &spec, elements);
    else if (!status)
        print_verified(schedule, &spec, elements);
    pdl_schedule_destroy(schedule);
    return status;
}

static int64_t count_wrong(const pdl_bench_t *bench)
{
    int64_t wrong = 0;

    for (int i = 0; i < bench->row_count; i++) wrong += bench->row[i].wrong;
    return wrong;
}

static pdl_status_t run_bench(const void *given, const pdl__operands_t *operands)
{
    const values_t     *values = given;
    bool                all = strcmp(values->algorithm, "all") == 0;
    pdl_bench_options_t options = {.collective = (pdl_collective_t)values->collective,
                                   .algorithm = all ? NULL : values->algorithm,
                                   .min_bytes = (int64_t)values->min_bytes,
                                   .max_bytes = (int64_t)values->max_bytes,
                                   .iterations = values->iterations,
                                   .chunk_bytes = (int64_t)values->chunk_bytes,
                                   .ranks_per_node = values->hosts_per_switch};
    pdl_bench_t        *bench;
    pdl_status_t        status = PDL_OK;

    (void)operands;
    if (values->network != NULL) {
        pdl_topology_spec_t wanted = pdl_topology_spec(values->network);

        status = pdl_topology_create(&wanted, &options.network);
    }
    if (!status) status = pdl_bench_run(&options, &bench);
    pdl_topology_destroy(options.network);
    if (status) return status;
    if (bench->ranks == 1)
        fputs("coll bench: one rank, so nothing is exchanged; start it with mpirun -n P paradl coll bench\n",
              stderr);
    if (bench->rank == 0)
        status = values->json ? pdl_report_bench_json(bench, stdout) : pdl_report_bench(bench, stdout);
    if (!status && count_wrong(bench) > 0)
        status = pdl_error(PDL_ERR_IO, "%" PRId64 " elements came out wrong", count_wrong(bench));
    pdl_bench_destroy(bench);
    return status;
}

const pdl__command_t pdl__coll_commands[] = {
    {.name = "coll list",
     .usage = "[--json]",
     .summary = "lists the collectives and their algorithms",
     .options = list_options,
     .values = sizeof(values_t),
     .run = run_list},
    {.name = "coll verify",
     .usage = "ALGORITHM --ranks P [--collective C] [--elements N] [--json]",
     .summary = "runs an algorithm on integers and checks every element",
     .options = verify_options,
     .values = sizeof(values_t),
     .operands = 1,
     .run = run_verify},
    {.name = "coll price",
     .usage = "--system S [--devices 2..8] [--bytes LIST] [--collective C] [--json]",
     .summary = "says what a collective takes on a machine",
     .notes =
         "The first devices of the machine take part. Inside a node the price is as measured where the system\n"
         "file says so (key fabric); elsewhere it follows from link speeds and start-ups, as in paradl plan.",
     .options = pdl__coll_price_options,
     .values = sizeof(pdl__coll_price_t),
     .run = pdl__coll_price},
    {.name = "coll bench",
     .usage = "[--collective C] [--algorithm A] [--json]",
     .summary = "measures algorithms beside the MPI library's own, under mpirun",
     .notes =
         "Start it with mpirun -n P paradl coll bench. Times are of the slowest rank; the rate is bytes over the\n"
         "median, the bus rate what a link must carry for it, so that it compares with the speed of a link.",
     .options = bench_options,
     .values = sizeof(values_t),
     .run = run_bench},
    {.name = NULL},
};
