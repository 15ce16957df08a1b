/*
 * Parts of pages: elements, tables that are sorted, charts that are read by keys, bytes that the page carries. The files of this script are
 * joined in the order of read_script() in live.c. Names of documents become text, never markup; the only markup that is put in is
 * what the core wrote, which escapes them, and the policy of the page runs no script but this one.
 */
const byId = (id) => document.getElementById(id);

/* An element with attributes; children are elements or text. */
function make(name, attributes, ...children) {
    const element = document.createElement(name);
    for (const [key, value] of Object.entries(attributes || {})) {
        if (typeof value === "function") element.addEventListener(key, value);
        else if (value !== false && value !== null) element.setAttribute(key, value === true ? "" : value);
    }
    element.append(...children.filter((child) => child !== null));
    return element;
}

const live = make("p", {"aria-live": "polite", class: "unseen"});
const announce = (text) => { live.textContent = text; };

/* Numbers as the core writes them. */
function seconds(value) {
    for (const [size, unit] of [[3600, "h"], [60, "min"], [1, "s"], [1e-3, "ms"], [1e-6, "us"]])
        if (value >= size) return Number((value / size).toPrecision(3)) + " " + unit;
    return Number((value * 1e9).toPrecision(3)) + " ns";
}
const percent = (change) => (change > 0 ? "+" : change < 0 ? "\u2212" : "") + Math.abs(100 * change).toFixed(Math.abs(change) < 0.1 ? 1 : 0) + " %";

/* Beyond three times, "+2763 %" says less than a factor. */
const against = (value, before) => (value >= 3 * before ? "\u00d7" + Number((value / before).toPrecision(3)) : percent(value / before - 1));

const units = {ns: 1e-9, us: 1e-6, ms: 1e-3, s: 1, min: 60, h: 3600, d: 86400, B: 1, KiB: 1024, MiB: 2 ** 20, GiB: 2 ** 30, TiB: 2 ** 40,
               k: 1e3, M: 1e6, G: 1e9, T: 1e12, P: 1e15, "%": 1};

/* What a cell is sorted by: its number, or its text. */
function valueOf(cell) {
    const text = cell ? cell.textContent.trim() : "", found = /^([-+\u2212]?[\d,.]+(?:e[-+]?\d+)?)\s*([A-Za-z%]*)/.exec(text);
    if (!found) return text === "" || text === "-" ? Infinity : text;
    return Number(found[1].replace(/,/g, "").replace("\u2212", "-")) * (units[found[2]] || 1);
}

function sortBy(table, column, button) {
    const body = table.tBodies[0], down = button.parentElement.getAttribute("aria-sort") === "ascending";
    const rows = [...body.rows].map((row) => ({row, value: valueOf(row.cells[column])}));
    rows.sort((a, b) => (typeof a.value === typeof b.value ? (a.value < b.value ? -1 : a.value > b.value ? 1 : 0)
                                                         : typeof a.value === "number" ? -1 : 1) * (down ? -1 : 1));
    for (const head of table.tHead.rows[0].cells) head.removeAttribute("aria-sort");
    button.parentElement.setAttribute("aria-sort", down ? "descending" : "ascending");
    body.append(...rows.map((entry) => entry.row));
    announce("sorted by " + button.textContent + (down ? ", largest first" : ", smallest first"));
}

function prepareTable(table) {
    if (!table.tHead || table.tBodies[0].rows.length < 3) return;
    [...table.tHead.rows[0].cells].forEach((head, column) => {
        const button = make("button", {type: "button", class: "sort", click: () => sortBy(table, column, button)}, head.textContent);
        head.replaceChildren(button);
    });
    if (table.tBodies[0].rows.length < 20) return;
    const filter = make("input", {type: "search", "aria-label": "only rows with this text", placeholder: "filter", input: () => {
        const wanted = filter.value.toLowerCase();
        for (const row of table.tBodies[0].rows) row.hidden = !row.textContent.toLowerCase().includes(wanted);
    }});
    table.caption.append(" ", filter);
}

/* Arrows go from mark to mark of a chart, and say what it is. */
function prepareChart(chart) {
    const marks = [...chart.querySelectorAll("title")].map((title) => title.parentElement).filter((mark) => mark !== chart);
    let at = -1;
    if (marks.length === 0) return;
    if (chart.hasAttribute("tabindex")) return; /* it has keys of its own */
    chart.setAttribute("tabindex", "0");
    chart.addEventListener("keydown", (event) => {
        const step = {ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1}[event.key];
        if (!step) return;
        event.preventDefault();
        if (at >= 0) marks[at].classList.remove("at");
        at = (at + step + marks.length) % marks.length;
        marks[at].classList.add("at");
        announce(marks[at].querySelector("title").textContent);
    });
}

function prepare(root) {
    root.querySelectorAll("table").forEach(prepareTable);
    root.querySelectorAll("svg.chart").forEach(prepareChart);
    root.querySelectorAll(".wide").forEach((box) => { /* what scrolls must be reached by keys */
        if (!box.querySelector("svg[tabindex], button")) box.setAttribute("tabindex", "0");
    });
}

/* What the core wrote, as elements. Their ids, and what refers to them, begin with `prefix`, so that no id is on the page twice. */
function partsOf(html, prefix) {
    const template = document.createElement("template");
    template.innerHTML = html;
    for (const part of template.content.querySelectorAll("*"))
        for (const name of ["id", "aria-labelledby", "aria-describedby", "fill", "style", "clip-path"]) {
            const value = part.getAttribute(name);
            if (value && value.includes("again")) part.setAttribute(name, value.replace(/again(?=[a-z]+\d)/g, prefix));
        }
    return template.content;
}

async function unpack(id) {
    return new Response(new Blob([bytesOf(byId(id).textContent)]).stream().pipeThrough(new DecompressionStream("gzip"))).arrayBuffer();
}
