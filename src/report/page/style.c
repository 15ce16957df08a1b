/*
 * How a page looks: for reading, on narrow screens, on paper, and with the controls that its script adds.
 */
#include "report/page/page.h"

/* clang-format off */
static const char reading[] =
    "body{margin:0 auto;max-width:68rem;padding:1rem;font:16px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper)}\n"
    ":root[data-theme=light]{color-scheme:light}:root[data-theme=dark]{color-scheme:dark}\n"
    "h1{font-size:1rem;font-weight:600;color:var(--muted)}h2{font-size:1.5rem;line-height:1.25;margin:2.5rem 0 .6rem;border-top:1px solid var(--grid);padding-top:1.5rem}\n"
    "#main>h2:first-child,#main>.document:first-child>h2:first-child,#main>section:first-child:empty+.document>h2:first-child{border-top:0;margin-top:0;padding-top:0}\n"
    "h3{font-size:1.15rem;margin:2rem 0 .4rem}h1,h2,h3,p,li{overflow-wrap:anywhere}p{margin:.6rem 0}\n"
    ".answer{font-size:1.15rem;font-weight:600;background:var(--tint);border-left:.3rem solid var(--hue0);border-radius:.2rem;padding:.6rem .9rem}\n"
    ".why{margin:.6rem 0;padding-left:1.2rem}.why li{margin:.15rem 0}.meta,footer{color:var(--muted);font-size:.85rem}\n"
    ".wide{overflow-x:auto}figure{margin:0 0 1rem}.chart{display:block}.wide .chart{min-width:40rem}\n"
    ".wide td:not(.n){min-width:5rem}.wide td:not(.n):last-child{min-width:11rem}.wide th[scope=row]:not(.n){overflow-wrap:anywhere;min-width:7.5rem}.wide th[scope=row]:nth-last-child(2):not(.n){min-width:min(17rem,45vw)}\n"
    "figcaption,caption{font-size:.9rem;text-align:left;padding:.3rem 0;color:var(--muted)}\n"
    "table{border-collapse:collapse;font-size:.875rem}\n"
    "th,td{padding:.2rem .45rem;border-bottom:1px solid var(--grid);text-align:left;vertical-align:top;font-weight:400}\n"
    "thead th{font-weight:600;vertical-align:bottom}tbody tr:hover{background:var(--tint)}.not{color:var(--muted)}.n{text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums}thead .n{white-space:normal}\n"
    "code{font-size:.85rem;overflow-wrap:anywhere}a{color:inherit}:focus-visible{outline:2px solid}\n"
    ".skip,.unseen{position:absolute;left:-99rem}.skip:focus{left:1rem}\n";

static const char controls[] =
    "header{display:flex;flex-wrap:wrap;justify-content:space-between;align-items:baseline}\n"
    "button,input,select,summary{font:inherit;color:inherit}\n"
    "button,select,input[type=number],input[type=search],input[type=text]{background:var(--paper);border:1px solid;border-radius:.3rem;padding:.1rem .5rem}\n"
    "button.sort{border:0;padding:0;font-weight:600;text-align:inherit;cursor:pointer;text-decoration:underline dotted}\n"
    "[aria-sort=ascending] .sort::after{content:\" \\2191\"}[aria-sort=descending] .sort::after{content:\" \\2193\"}\n"
    ".asks{max-width:96rem;display:grid;grid-template-columns:23rem minmax(0,1fr);column-gap:2rem}\n"
    ".asks>header,.asks>footer{grid-column:1/-1}\n"
    ".what{position:sticky;top:0;align-self:start;max-height:100vh;overflow:auto}.what summary{font-weight:600;padding:.3rem 0}\n"
    ".panel h2{display:none}.again{display:block}.dropped{flex-basis:100%}.dropped:empty{display:none}.control input,.control select{min-width:0;width:100%;box-sizing:border-box}\n"
    ".control{display:grid;grid-template-columns:8.5rem minmax(0,1fr) 6.5rem;gap:.5rem;align-items:center;font-size:.9rem;padding:.1rem 0}\n"
    ".control select,.control input[type=text]{grid-column:2/-1}.difference{font-weight:600;border-left:.4rem solid var(--hue1);padding-left:.6rem}\n"
    ".map{font-size:.78rem}.wide .map td,.wide .map th,.wide .map th[scope=row]:not(.n),.wide .map td:not(.n):last-child{padding:.1rem .25rem;min-width:0;overflow-wrap:normal}.map thead th{overflow-wrap:anywhere}.win{border-left:.5rem solid}.win span{color:var(--ink)}\n"
    ".at{stroke:var(--ink);stroke-width:3}.legend>span{white-space:nowrap;padding-right:1em}.swatch{display:inline-block;width:.9em;height:.9em;border:1px solid;background:currentColor;forced-color-adjust:none;print-color-adjust:exact}\n"
    ".pattern1{background:repeating-linear-gradient(135deg,currentColor 0 2px,transparent 2px 5px)}.pattern3{background:radial-gradient(currentColor 1px,transparent 1.4px) 0 0/4px 4px}.pattern4{background:none}\n"
    ".pattern2{background:repeating-linear-gradient(135deg,currentColor 0 1.5px,transparent 1.5px 5px),repeating-linear-gradient(45deg,currentColor 0 1.5px,transparent 1.5px 5px)}\n"
    ".critical{stroke:var(--ink);stroke-width:3}.arrow{stroke:var(--ink);stroke-width:.7;opacity:.7}.moves{overflow:hidden}.tracks{display:flex}.tracks canvas{display:block;margin:.5rem 0 0}.tracks .names{margin:0}.cursor{stroke:var(--ink)}.moves p,.curves{min-height:3em}@media screen{.paper-only{display:none}}\n"
    "@media (max-width:899px){.asks{display:block}.what{position:static;max-height:none}}\n"
    "@media (forced-colors:active){:root,:root[data-theme]{--ink:CanvasText;--paper:Canvas;--grid:GrayText;--muted:CanvasText;--tint:Canvas}.win,.difference,.answer{border-left-color:CanvasText}\n"
    ".fill,.win{forced-color-adjust:none}}\n"
    "@media (prefers-reduced-motion:reduce){*{transition:none!important;scroll-behavior:auto!important}}\n"
    "@media print{:root{font-size:11px}body{display:block;max-width:none;padding:0;font-size:1rem}section{break-inside:avoid}.wide{overflow:visible}\n"
    ".skip,.what,.tools,.moves,.curves,caption input,.difference:empty{display:none}table{font-size:9px;max-width:100%}.wide th,.wide td,.wide td:not(.n),.wide td:not(.n):last-child,.wide th[scope=row]:not(.n){padding:.15rem .3rem;min-width:0}.wide td:not(.n){overflow-wrap:anywhere}.wide th[scope=row]:not(.n){min-width:8.5em}thead{display:table-header-group}\n"
    "tr,figure{break-inside:avoid}h2,h3{break-after:avoid}.wide .chart{min-width:0;width:100%;height:auto}section:has(tbody tr:nth-child(24)){break-inside:auto}}\n";
/* clang-format on */

void pdl__page_style(FILE *stream)
{
    pdl__chart_style(stream);
    fputs(reading, stream);
    fputs(controls, stream);
}
