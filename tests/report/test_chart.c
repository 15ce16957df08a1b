/*
 * Charts: every mark and scale as SVG and with characters; texts are escaped, ticks are the same in both forms, nothing to
 * draw is refused.
 */
#include "report/chart/chart.h"
#include "report/chart/scale.h"

#include "test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double x[] = {1, 2, 4, 8}, y[] = {0.002, 0.003, NAN, 0.02}, low[] = {0.001, 0.002, 0.002, 0.01},
                    high[] = {0.003, 0.004, 0.004, 0.03}, bands[] = {0, 1, 2, 3}, size[] = {0, 0.5, 1, 0.2};
static const char *const names[] = {"data", "<b>&\"'", "pipeline",
                                    "a name that is much too long for an axis of a chart"};

static char *form(const pdl__chart_t *chart, int width)
{
    char  *text = NULL;
    size_t length;
    FILE  *stream = open_memstream(&text, &length);

    CHECK_OK(width == 0 ? pdl__chart_svg(chart, true, stream)
                        : pdl__chart_text(chart, width, width % 2 == 0, stream));
    fclose(stream);
    return text;
}

static int count_of(const char *text, const char *part)
{
    int count = 0;

    for (; (text = strstr(text, part)) != NULL; text += strlen(part)) count++;
    return count;
}

static pdl__chart_t lines(pdl__series_t series[3])
{
    series[0] = (pdl__series_t){.name = "one", .mark = PDL__MARK_LINE, .x = x, .y = y, .count = 4};
    series[1] = (pdl__series_t){.name = "two", .mark = PDL__MARK_STEP, .x = x, .y = high, .count = 4};
    series[2] =
        (pdl__series_t){.name = "bound", .mark = PDL__MARK_LINE, .x = x, .y = low, .count = 4, .faint = true};
    return (pdl__chart_t){.title = "lines & more",
                          .x = {.label = "bytes", .scale = PDL__SCALE_LOG2, .format = pdl_format_bytes},
                          .y = {.label = "time", .scale = PDL__SCALE_LOG10, .format = pdl_format_seconds},
                          .series = series,
                          .series_count = 3};
}

static void test_lines(void)
{
    pdl__series_t series[3];
    pdl__chart_t  chart = lines(series);
    char         *svg = form(&chart, 0), *text = form(&chart, 72), *ascii = form(&chart, 71);

    CHECK(strstr(svg, "<title id=\"chart-t\">lines &amp; more</title>") != NULL);
    CHECK(strstr(svg, "role=\"img\"") != NULL && strstr(svg, "prefers-color-scheme:dark") != NULL);
    CHECK(count_of(svg, "data-x=") == 3 + 4); /* a gap has no mark, and a bound has none */
    CHECK(strstr(svg, "two, 4 B: 4.00 ms</title>") != NULL);
    CHECK(strstr(svg, ">50.0 ms<") == NULL && strstr(svg, ">50 ms<") != NULL); /* ticks are round numbers */
    CHECK(strstr(svg, "nan") == NULL && strstr(svg, "inf") == NULL);
    CHECK(strstr(text, "●") != NULL && strstr(text, "5 ms") != NULL && strstr(svg, ">5 ms</text>") != NULL);
    for (const char *at = ascii; *at != '\0'; at++) CHECK((unsigned char)*at < 0x80);
    free(svg);
    free(text);
    free(ascii);
}

static void test_bars(void)
{
    pdl__series_t series[] = {
        {.name = "forward", .mark = PDL__MARK_BAR, .look = PDL__LOOK_FORWARD, .x = x, .y = bands, .count = 4},
        {.name = "gradients", .mark = PDL__MARK_BAR, .look = PDL__LOOK_GRADIENT, .x = x, .y = bands, .count = 4},
        {.name = "90 %", .mark = PDL__MARK_INTERVAL, .x = x, .y = bands, .low = x, .high = x, .count = 4},
        {.name = "capacity", .mark = PDL__MARK_RULE, .x = &x[3], .y = bands, .count = 1}};
    pdl__chart_t chart = {.title = "bars",
                          .x = {.label = "s", .from_zero = true},
                          .y = {.scale = PDL__SCALE_BAND, .bands = names, .band_count = 4},
                          .series = series,
                          .series_count = 4,
                          .id = "c7"};
    char        *svg = form(&chart, 0), *text = form(&chart, 60);
    pdl__ruler_t along, across;

    CHECK(pdl__chart_measure(&chart, &along, &across));
    CHECK_NEAR(along.low, 0, 0);
    CHECK_NEAR(along.high, 20, 0); /* two bars of 8 on each other, and a whole tick */
    CHECK_NEAR(pdl__chart_base(&chart, 1, 2), 4, 0);
    CHECK(strstr(svg, "<b>") == NULL && strstr(svg, "&lt;b&gt;&amp;&quot;&#39;") != NULL);
    CHECK(strstr(svg, "url(#c7-p1)") != NULL && strstr(svg, "id=\"c7-p1\"") != NULL &&
          strstr(svg, "capacity") != NULL);
    CHECK(strstr(text, "█") != NULL && strstr(text, "▓") != NULL && strstr(text, " 16\n") != NULL);
    free(svg);
    free(text);
}

static void test_others(void)
{
    static const char *const labels[] = {"first", NULL, NULL, "last"};
    pdl__series_t            series[] = {
                   {.name = "areas", .mark = PDL__MARK_AREA, .x = x, .y = low, .count = 4},
                   {.name = "on them", .mark = PDL__MARK_AREA, .x = x, .y = high, .count = 4},
                   {.name = "points", .mark = PDL__MARK_POINT, .x = x, .y = y, .size = size, .count = 4},
                   {.name = "text", .mark = PDL__MARK_LABEL, .x = x, .y = low, .labels = labels, .count = 4}};
    pdl__chart_t chart = {
        .title = "others", .x = {.label = "x"}, .y = {.from_zero = true}, .series = series, .series_count = 4};
    pdl__series_t cells = {.mark = PDL__MARK_CELL, .x = bands, .y = bands, .size = size, .count = 4};
    pdl__chart_t  map = {.title = "map",
                         .x = {.scale = PDL__SCALE_BAND, .bands = names, .band_count = 4},
                         .y = {.scale = PDL__SCALE_BAND, .bands = names, .band_count = 4},
                         .series = &cells,
                         .series_count = 1};
    char         *svg = form(&chart, 0), *text = form(&chart, 60), *grid = form(&map, 0);

    CHECK(strstr(svg, ">last</text>") != NULL && count_of(svg, "fill-opacity=\".8\"") == 2);
    CHECK(strstr(text, "▲") != NULL);
    CHECK(count_of(grid, "<rect class=\"fill\"") == 4);
    free(svg);
    free(text);
    free(grid);
}

/* Bytes that are no text, and marks that turn its direction, never reach a page. */
static void test_escape(void)
{
    char  *text = NULL;
    size_t length;
    FILE  *stream = open_memstream(&text, &length);

    pdl__chart_escape("a\xff"
                      "b\xe2\x80\xae"
                      "c\x01<script>",
                      stream);
    fclose(stream);
    CHECK_STR(text, "a\xef\xbf\xbd"
                    "b\xef\xbf\xbd"
                    "c\xef\xbf\xbd&lt;script&gt;");
    free(text);
}

/* Values next to which a tick is nothing, and others at the ends of what numbers are, come to an end. */
static void test_extremes(void)
{
    static const double far[] = {1e20, 1e20 + 16384}, wide[] = {-1.7e308, 1.7e308}, small[] = {5e-324, 1e-320};
    const double *const values[] = {far, wide, small};

    for (int i = 0; i < 6; i++) {
        pdl__series_t series = {.name = "s", .mark = PDL__MARK_LINE, .x = x, .y = values[i / 2], .count = 2};
        pdl__chart_t  chart = {.title = "extremes",
                               .y = {.scale = i % 2 == 0 ? PDL__SCALE_LINEAR : PDL__SCALE_LOG10},
                               .series = &series,
                               .series_count = 1};
        FILE         *stream = tmpfile();
        pdl_status_t  status = pdl__chart_svg(&chart, true, stream);

        CHECK(status == PDL_OK || status == PDL_ERR_LIMIT);
        fclose(stream);
    }
}

static void test_nothing(void)
{
    static const double none[] = {NAN, 0};
    pdl__series_t       series = {.name = "none", .mark = PDL__MARK_LINE, .x = x, .y = none, .count = 2};
    pdl__chart_t chart = {.title = "none", .y = {.scale = PDL__SCALE_LOG10}, .series = &series, .series_count = 1};

    CHECK(pdl__chart_svg(&chart, true, stdout) == PDL_ERR_LIMIT);
    CHECK(pdl__chart_text(&chart, 80, true, stdout) == PDL_ERR_LIMIT);
    chart.series_count = 0;
    CHECK(pdl__chart_svg(&chart, true, stdout) == PDL_ERR_LIMIT);
}

int main(void)
{
    RUN(test_lines);
    RUN(test_bars);
    RUN(test_others);
    RUN(test_escape);
    RUN(test_extremes);
    RUN(test_nothing);
    return test_done();
}
