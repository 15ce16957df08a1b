/*
 * The section about several precisions that a plan was searched in.
 */
#include "report/page/page.h"

#include <paradl/base/units.h>

#include <math.h>

static const char *name_of(const pdl_json_value_t *precision)
{
    return pdl__page_or(pdl_json_text_of(precision, "precision"), "?");
}

void pdl__page_precisions(pdl__page_t *page, const pdl__document_t *plan)
{
    static const pdl_column_t columns[] = {{"precision", PDL_LEFT},
                                           {"strategy", PDL_LEFT},
                                           {"iteration", PDL_RIGHT},
                                           {"times the best", PDL_RIGHT},
                                           {"samples/s", PDL_RIGHT},
                                           {"memory", PDL_RIGHT},
                                           {"why it is not possible", PDL_LEFT}};
    const pdl_json_value_t   *best = pdl_json_first(plan->head, "precisions"),
                           *second = best != NULL ? best->next : NULL;
    char text[PDL_FORMAT_SIZE];

    if (best == NULL) return;
    if (second != NULL && pdl_json_true(second, "feasible"))
        pdl__page_section(page, "Precision: %s; the best in %s takes %.2f times as long", name_of(best),
                          name_of(second), pdl_json_number_of(second, "times_best"));
    else
        pdl__page_section(page, "Precision: %s", name_of(best));
    pdl__page_table(page, "The best plan in each precision", columns, 7);
    for (const pdl_json_value_t *p = best; p != NULL; p = p->next) {
        bool   possible = pdl_json_true(p, "feasible");
        double times = pdl_json_number_of(p, "times_best"), rate = pdl_json_number_of(p, "samples_per_s");

        (possible ? pdl__page_row : pdl__page_row_faint)(page);
        pdl__page_cell(page, "%s", name_of(p));
        pdl__page_cell(page, "%s", pdl__page_or(pdl_json_text_of(p, "strategy"), "-"));
        pdl__page_seconds(page, pdl_json_number_of(p, "total_s"));
        pdl__page_cell(page, "%s", isfinite(times) ? pdl__page_print(page, "%.2f", times) : "-");
        pdl__page_cell(page, "%s", isfinite(rate) ? pdl_format_short(rate, text) : "-");
        pdl__page_bytes(page, pdl_json_number_of(p, "memory_bytes"));
        pdl__page_cell(page, "%s", possible ? "" : pdl__page_or(pdl_json_text_of(p, "reason"), "?"));
    }
    pdl__page_table_end(page);
    pdl__page_note(page, "A precision changes what is computed: whether training converges in it is to be tried.");
}
