/*
 * How charts look: two lists of hues that people with colour blindness can tell apart, one for a light ground and one for a
 * dark one, each at least 3:1 on its ground. Renderers without custom properties take the light list.
 */
#include "report/chart/style.h"

#include "base/utf8.h"

#include <string.h>

static const char *const light[PDL__HUES] = {"#0072b2", "#c15500", "#00855f", "#b0528a",
                                             "#a66f00", "#2b8cbe", "#7f3c8d", "#444444"};
static const char *const dark[PDL__HUES] = {"#4aa8e0", "#ff8b3d", "#2cc295", "#e29bc4",
                                            "#e6b23c", "#8fd0f5", "#c793d6", "#c8c8c8"};

static const struct look {
    int            hue;
    pdl__pattern_t pattern;
} looks[PDL__LOOK_COUNT] = {
    [PDL__LOOK_FORWARD] = {0, PDL__PATTERN_PLAIN}, [PDL__LOOK_BACKWARD] = {6, PDL__PATTERN_PLAIN},
    [PDL__LOOK_UPDATE] = {2, PDL__PATTERN_PLAIN},  [PDL__LOOK_LAYER] = {4, PDL__PATTERN_LINES},
    [PDL__LOOK_HALO] = {5, PDL__PATTERN_LINES},    [PDL__LOOK_GRADIENT] = {1, PDL__PATTERN_CROSS},
    [PDL__LOOK_STAGE] = {3, PDL__PATTERN_DOTS},    [PDL__LOOK_IDLE] = {7, PDL__PATTERN_EMPTY},
    [PDL__LOOK_INPUT] = {7, PDL__PATTERN_PLAIN},   [PDL__LOOK_NORM] = {3, PDL__PATTERN_PLAIN},
    [PDL__LOOK_ELEMENT] = {4, PDL__PATTERN_PLAIN}};

int pdl__look_hue(pdl__look_t look)
{
    return looks[look].hue;
}

pdl__pattern_t pdl__look_pattern(pdl__look_t look)
{
    return looks[look].pattern;
}

void pdl__pattern_define(pdl__pattern_t pattern, int hue, const char *id, int number, FILE *stream)
{
    static const char *const paths[] = {[PDL__PATTERN_LINES] = "M-2 2L2 -2M0 8L8 0M6 10L10 6",
                                        [PDL__PATTERN_CROSS] = "M0 0L8 8M0 8L8 0",
                                        [PDL__PATTERN_DOTS] = "M2 2h2M6 6h2"};

    if (pattern == PDL__PATTERN_PLAIN || pattern == PDL__PATTERN_EMPTY) return;
    fprintf(stream,
            "<pattern id=\"%s-p%d\" class=\"hue%d\" width=\"8\" height=\"8\" patternUnits=\"userSpaceOnUse\"><rect "
            "class=\"paper\" width=\"8\" "
            "height=\"8\"/><path d=\"%s\" stroke=\"currentColor\" stroke-width=\"2\"/></pattern>\n",
            id, number, hue, paths[pattern]);
}

void pdl__pattern_fill(pdl__pattern_t pattern, const char *id, int number, FILE *stream)
{
    if (pattern == PDL__PATTERN_EMPTY)
        fputs(" style=\"fill:none\"", stream);
    else if (pattern != PDL__PATTERN_PLAIN)
        fprintf(stream, " style=\"fill:url(#%s-p%d)\"", id, number);
}

int pdl__chart_hue(const pdl__chart_t *chart, int series)
{
    pdl__look_t look = chart->series[series].look;

    return look == PDL__LOOK_NEXT ? series % PDL__HUES : looks[look].hue;
}

/* Filled marks of one hue differ by pattern, from the second round of hues on. */
pdl__pattern_t pdl__chart_pattern(const pdl__chart_t *chart, int series)
{
    pdl__look_t look = chart->series[series].look;

    return look == PDL__LOOK_NEXT ? (pdl__pattern_t)(series / PDL__HUES % PDL__PATTERN_EMPTY) : looks[look].pattern;
}

/* A muted text has at least 4.5:1 on paper and tint. */
static const struct ground {
    const char *ink, *muted, *paper, *tint, *grid;
} on_light = {"#1c1e21", "#565c66", "#ffffff", "#f2f5f9", "#d9dce0"},
  on_dark = {"#e6e8eb", "#a9b0bb", "#16181d", "#21262e", "#3a3f47"},
  on_page = {"#000000", "#444444", "#ffffff", "#ffffff", "#cccccc"};

static void write_hues(const char *const *hues, const struct ground *ground, FILE *stream)
{
    fprintf(stream, "{--ink:%s;--muted:%s;--paper:%s;--tint:%s;--grid:%s", ground->ink, ground->muted,
            ground->paper, ground->tint, ground->grid);
    for (int i = 0; i < PDL__HUES; i++) fprintf(stream, ";--hue%d:%s", i, hues[i]);
    fputs("}", stream);
}

void pdl__chart_style(FILE *stream)
{
    fputs(":root", stream);
    write_hues(light, &on_light, stream);
    fputs("\n@media (prefers-color-scheme:dark){:root:not([data-theme=light])", stream);
    write_hues(dark, &on_dark, stream);
    fputs("}\n:root[data-theme=dark]", stream);
    write_hues(dark, &on_dark, stream);
    fputs("\n@media print{:root:root:root", stream); /* stronger than a theme that was chosen */
    write_hues(light, &on_page, stream);
    fputs("}\n", stream);
    for (int i = 0; i < PDL__HUES; i++) fprintf(stream, ".hue%d{color:%s;color:var(--hue%d)}\n", i, light[i], i);
    fputs(".chart{font-family:system-ui,sans-serif;font-size:13px;max-width:100%;height:auto}\n"
          ".chart text{fill:#1c1e21;fill:var(--ink)}\n"
          ".paper{fill:#ffffff;fill:var(--paper)}\n"
          ".grid{stroke:#d9dce0;stroke:var(--grid)}\n"
          ".ink{stroke:#1c1e21;stroke:var(--ink)}\n"
          ".line{fill:none;stroke:currentColor;stroke-width:2}\n"
          ".faint{stroke-width:1.5;opacity:.8}\n"
          ".fill{fill:currentColor;stroke:currentColor}\n"
          "@media (forced-colors:active){.fill,.line{forced-color-adjust:none}}\n",
          stream);
}

/* U+202A to U+202E, U+2066 to U+2069, U+200E, U+200F. */
static bool turns_direction(const unsigned char *at)
{
    if (at[0] != 0xe2) return false;
    if (at[1] == 0x80) return (at[2] >= 0xaa && at[2] <= 0xae) || at[2] == 0x8e || at[2] == 0x8f;
    return at[1] == 0x81 && at[2] >= 0xa6 && at[2] <= 0xa9;
}

void pdl__chart_escape(const char *text, FILE *stream)
{
    const unsigned char *at = (const unsigned char *)text;

    while (*at != '\0') {
        int length = pdl__utf8_length(at);

        switch (*at) {
        case '<': fputs("&lt;", stream); break;
        case '>': fputs("&gt;", stream); break;
        case '&': fputs("&amp;", stream); break;
        case '"': fputs("&quot;", stream); break;
        case '\'': fputs("&#39;", stream); break;
        default:
            if (length == 0 || turns_direction(at) || (*at < 0x20 && *at != '\n' && *at != '\t') || *at == 0x7f)
                fputs("\xef\xbf\xbd", stream);
            else
                fwrite(at, 1, (size_t)length, stream);
        }
        at += length > 0 ? length : 1;
    }
}

int pdl__chart_width(const char *text)
{
    int count = 0;

    for (; *text != '\0'; text++) count += ((unsigned char)*text & 0xc0) != 0x80;
    return count;
}
