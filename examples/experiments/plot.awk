# Draws a table as lines with logarithmic axes, an SVG that needs no other file.
#
#     awk -v title=TEXT -v xlabel=TEXT -v ylabel=TEXT -f plot.awk TABLE >PLOT.svg
#
# Columns are separated by tabs: x, then one for each line; the first row has their names. A value that is not above 0
# leaves a gap.
function log10(v) { return log(v) / log(10) }
function px(v) { return 90 + 600 * (log10(v) - x0) / (x1 > x0 ? x1 - x0 : 1) }
function py(v) { return 450 - 400 * (log10(v) - y0) / (y1 > y0 ? y1 - y0 : 1) }
function plain(t) { gsub(/&/, "\\&amp;", t); gsub(/</, "\\&lt;", t); gsub(/>/, "\\&gt;", t); return t }
function text(x, y, anchor, size, t) {
    printf "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\" font-size=\"%d\">%s</text>\n", x, y, anchor, size, plain(t)
}
function line(xa, ya, xb, yb, colour) {
    printf "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"%s\"/>\n", xa, ya, xb, yb, colour
}
BEGIN { FS = "\t"; split("#0072b2 #d55e00 #009e73 #cc79a7 #e69f00 #56b4e9 #7f3c8d #444444", colour, " ") }
NR == 1 { lines = NF - 1; for (i = 2; i <= NF; i++) name[i - 1] = $i; next }
{
    n++
    x[n] = $1
    for (i = 1; i <= lines; i++) {
        y[i, n] = $(i + 1) + 0
        if (y[i, n] <= 0) continue
        if (!found || y[i, n] < low) low = y[i, n]
        if (!found || y[i, n] > high) high = y[i, n]
        found = 1
    }
}
END {
    if (n == 0 || !found) { print "plot.awk: nothing to draw" >"/dev/stderr"; exit 1 }
    x0 = log10(x[1]); x1 = log10(x[n])
    y0 = log10(low); y0 = y0 == int(y0) ? y0 : int(y0 + 100) - 100
    y1 = log10(high); y1 = y1 == int(y1) ? y1 : int(y1 + 101) - 100
    print "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"940\" height=\"520\" font-family=\"sans-serif\">"
    print "<rect width=\"940\" height=\"520\" fill=\"white\"/>"
    text(390, 28, "middle", 16, title)
    text(390, 505, "middle", 13, xlabel)
    printf "<text transform=\"translate(22 250) rotate(-90)\" text-anchor=\"middle\" font-size=\"13\">%s</text>\n",
        plain(ylabel)
    for (p = 1; p <= n; p++) { line(px(x[p]), 450, px(x[p]), 50, "#e5e5e5"); text(px(x[p]), 470, "middle", 12, x[p]) }
    for (d = y0; d <= y1 + 1e-9; d++) for (m = 1; m <= 5; m += m == 1 ? 1 : 3) {
        v = m * 10 ^ d
        if (log10(v) > y1 + 1e-9) continue
        line(90, py(v), 690, py(v), "#e5e5e5")
        text(82, py(v) + 4, "end", 12, sprintf("%g", v))
    }
    line(90, 450, 690, 450, "black"); line(90, 450, 90, 50, "black")
    for (i = 1; i <= lines; i++) {
        c = colour[(i - 1) % 8 + 1]
        path = ""
        for (p = 1; p <= n; p++) {
            if (y[i, p] <= 0) { broken = 1; continue }
            path = path sprintf("%s%.1f %.1f", path == "" || broken ? "M" : "L", px(x[p]), py(y[i, p]))
            broken = 0
            printf "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"%s\"/>\n", px(x[p]), py(y[i, p]), c
        }
        printf "<path d=\"%s\" fill=\"none\" stroke=\"%s\" stroke-width=\"2\"%s/>\n", path, c,
            i % 2 ? "" : " stroke-dasharray=\"8 4\""
        line(710, 60 + 22 * i, 735, 60 + 22 * i, c)
        text(742, 64 + 22 * i, "start", 12, name[i])
    }
    print "</svg>"
}
