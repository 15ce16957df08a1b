/*
 * Measured collectives: one block of lines per size, the MPI library's own first.
 */
#include <paradl/base/document.h>
#include <paradl/base/units.h>
#include <paradl/report/bench_report.h>
#include <paradl/report/table.h>

static void add_row(pdl_table_t *table, const pdl_bench_row_t *row, const pdl_bench_row_t *own, bool first,
                    bool network)
{
    char size[PDL_FORMAT_SIZE], median[PDL_FORMAT_SIZE], least[PDL_FORMAT_SIZE], rate[PDL_FORMAT_SIZE],
        bus[PDL_FORMAT_SIZE];

    pdl_table_row(table, row->wrong > 0 ? PDL_ROW_STRONG : PDL_ROW_PLAIN);
    pdl_table_cell(table, "%s", first ? pdl_format_bytes((double)row->bytes, size) : "");
    pdl_table_cell(table, "%s", row->algorithm);
    pdl_table_cell(table, "%s", pdl_format_seconds(row->median_s, median));
    pdl_table_cell(table, "%s", pdl_format_seconds(row->min_s, least));
    pdl_table_cell(table, "%s", pdl_format_byte_rate(row->algorithm_bytes_per_s, rate));
    pdl_table_cell(table, "%s", pdl_format_byte_rate(row->bus_bytes_per_s, bus));
    pdl_table_cell(table, "%.2f", row->median_s > 0 ? own->median_s / row->median_s : 0);
    if (network && row->simulated_s > 0)
        pdl_table_cell(table, "%s", pdl_format_seconds(row->simulated_s, median));
    else if (network)
        pdl_table_cell(table, "-");
    if (row->wrong == 0)
        pdl_table_cell(table, row->chosen ? "right, auto" : "right");
    else
        pdl_table_cell(table, "%lld WRONG", (long long)row->wrong);
}

static bool is_simulated(const pdl_bench_t *bench)
{
    for (int i = 0; i < bench->row_count; i++)
        if (bench->row[i].simulated_s > 0) return true;
    return false;
}

pdl_status_t pdl_report_bench(const pdl_bench_t *bench, FILE *stream)
{
    static const pdl_column_t columns[] = {{"bytes", PDL_RIGHT},    {"algorithm", PDL_LEFT},  {"median", PDL_RIGHT},
                                           {"least", PDL_RIGHT},    {"rate", PDL_RIGHT},      {"bus", PDL_RIGHT},
                                           {"speed-up", PDL_RIGHT}, {"simulated", PDL_RIGHT}, {"result", PDL_LEFT}};
    static const pdl_column_t plain[] = {{"bytes", PDL_RIGHT},    {"algorithm", PDL_LEFT}, {"median", PDL_RIGHT},
                                         {"least", PDL_RIGHT},    {"rate", PDL_RIGHT},     {"bus", PDL_RIGHT},
                                         {"speed-up", PDL_RIGHT}, {"result", PDL_LEFT}};
    bool                      network = is_simulated(bench);
    pdl_table_t              *table = network ? pdl_table_create(columns, 9) : pdl_table_create(plain, 8);
    const pdl_bench_row_t    *own = bench->row;
    pdl_status_t              status;

    fprintf(stream, "%s on %d ranks, floats, beside %s\n\n", pdl_collective_names[bench->collective], bench->ranks,
            bench->library);
    for (int i = 0; i < bench->row_count; i++) {
        bool first = i == 0 || bench->row[i].bytes != bench->row[i - 1].bytes;

        if (first) own = &bench->row[i];
        add_row(table, &bench->row[i], own, first, network);
    }
    status = pdl_table_print(table, stream);
    pdl_table_destroy(table);
    return status;
}

pdl_status_t pdl_report_bench_json(const pdl_bench_t *bench, FILE *stream)
{
    pdl_json_t json;

    pdl_document_begin(&json, stream, "bench/1");
    pdl_json_string(&json, "collective", pdl_collective_names[bench->collective]);
    pdl_json_int(&json, "ranks", bench->ranks);
    pdl_json_string(&json, "library", bench->library);
    pdl_json_open(&json, "rows", '[');
    for (int i = 0; i < bench->row_count; i++) {
        const pdl_bench_row_t *row = &bench->row[i];

        pdl_json_open(&json, NULL, '{');
        pdl_json_string(&json, "algorithm", row->algorithm);
        pdl_json_int(&json, "bytes", row->bytes);
        pdl_json_number(&json, "median_s", row->median_s);
        pdl_json_number(&json, "min_s", row->min_s);
        pdl_json_number(&json, "algorithm_bytes_per_s", row->algorithm_bytes_per_s);
        pdl_json_number(&json, "bus_bytes_per_s", row->bus_bytes_per_s);
        if (row->simulated_s > 0) pdl_json_number(&json, "simulated_s", row->simulated_s);
        if (row->chosen) pdl_json_bool(&json, "auto", true);
        pdl_json_int(&json, "wrong", row->wrong);
        pdl_json_close(&json);
    }
    pdl_json_close(&json);
    pdl_json_close(&json);
    return PDL_OK;
}
