/*
 * The script of a page. Without it the page is complete; with it tables are sorted, charts are read by keys, and a plan can be
 * asked again: the core, which is the command itself, answers in a worker. Names of documents become text, never markup; the only
 * markup that is put in is what the core wrote, which escapes them, and the policy of the page runs no script but this one.
 */
(function () {
"use strict";
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

/* ------------------------------------------------------------------ tables */

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

/* ------------------------------------------------------------------ charts */

/* Arrows go from mark to mark of a chart, and say what it is. */
function prepareChart(chart) {
    const marks = [...chart.querySelectorAll("title")].map((title) => title.parentElement).filter((mark) => mark !== chart);
    let at = -1;
    if (marks.length === 0) return;
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

/* ------------------------------------------------------------------ bytes that the page carries */

async function unpack(id) {
    const text = atob(byId(id).textContent), bytes = new Uint8Array(text.length);
    for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
    return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).arrayBuffer();
}

/* ------------------------------------------------------------------ the core, in a worker */

/* Runs in the worker: one question after the other. */
function answering() {
    let core = null, files = null;
    onmessage = (message) => {
        const {id, module, texts, words, show} = message.data;
        if (module) {
            core = module;
            files = new Map(Object.entries(texts).map(([path, text]) => [path, new TextEncoder().encode(text)]));
            return;
        }
        const begin = performance.now(), answer = {id, html: ""};
        try {
            Object.assign(answer, runCore(core, words, files));
            if (show && answer.out) {
                files.set("again.json", new TextEncoder().encode(answer.out));
                answer.html = runCore(core, ["page", "show", "again.json"], files).out;
            }
        } catch (error) {
            answer.status = 1;
            answer.out = "";
            answer.error = "the core failed: " + error.message;
        }
        answer.milliseconds = performance.now() - begin;
        postMessage(answer);
    };
}

/* Asks one question at a time. */
class Core {
    constructor() {
        this.waiting = new Map();
        this.asked = 0;
        this.inFlight = 0;
    }

    async open() {
        if (!this.parts)
            this.parts = Promise.all([unpack("paradl-core").then((bytes) => WebAssembly.compile(bytes)),
                                      unpack("paradl-files").then((bytes) => JSON.parse(new TextDecoder().decode(bytes)))]);
        const [module, texts] = await this.parts;
        this.texts = texts;
        if (this.worker) return;
        const source = runCore.toString() + "\n(" + answering.toString() + ")();";
        this.address = URL.createObjectURL(new Blob([source], {type: "text/javascript"}));
        this.worker = new Worker(this.address);
        this.worker.onmessage = (message) => {
            const resolve = this.waiting.get(message.data.id);
            this.waiting.delete(message.data.id);
            this.inFlight--;
            if (resolve) resolve(message.data);
        };
        this.worker.postMessage({module, texts});
    }

    async ask(words, show) {
        await this.open();
        const id = ++this.asked;
        this.inFlight++;
        this.most = Math.max(this.most || 0, this.inFlight);
        return new Promise((resolve) => {
            this.waiting.set(id, resolve);
            this.worker.postMessage({id, words, show});
        });
    }

    /* Ends what is computed; who waits for it gets nothing. */
    stop() {
        if (this.worker) this.worker.terminate();
        this.worker = null;
        this.inFlight = 0;
        for (const resolve of this.waiting.values()) resolve(null);
        this.waiting.clear();
    }
}

/* ------------------------------------------------------------------ what if */

const flags = new Set(["json", "layers", "explain"]), dropped = new Set(["output", "trace", "plot"]);
const alias = {pe: "devices", "samples-per-pe": "samples-per-device", n: "devices", o: "output"};

/* The options of a command as a list of [name, value]; value null of a flag. */
function parseWords(words) {
    const options = [];
    for (let i = 0; i < words.length; i++) {
        let name, value = null;
        const long = /^--([^=]+)(?:=([\s\S]*))?$/.exec(words[i]), short = /^-([a-z])([\s\S]*)$/.exec(words[i]);
        if (long) [name, value] = [long[1], long[2] === undefined ? null : long[2]];
        else if (short) [name, value] = [short[1], short[2] || null];
        else continue;
        name = alias[name] || name;
        if (value === null && !flags.has(name)) value = words[++i];
        options.push([name, value]);
    }
    return options;
}

const quote = (word) => (/^[\w.,:\/@%+=-]+$/.test(word) ? word : "'" + word.replace(/'/g, "'\\''") + "'");

class WhatIf {
    constructor(index, entry) {
        this.index = index;
        this.document = entry.document;
        this.options = parseWords(entry.document.command.slice(2)).filter(([name]) => !flags.has(name) && !dropped.has(name));
        this.given = new Map(this.options);
        this.detailed = ["layers", "explanation"].some((key) => key in entry.document);
        this.core = new Core();
        this.state = {};
        this.controls = [];
        this.wanted = null;   /* the newest state that has not been asked about */
    }

    /* The words of the command in a state: options of the document but those that the controls have. */
    words(state, more) {
        const taken = new Set(Object.keys(state).filter((key) => !key.includes(".")));
        if ("batch" in state) taken.add("samples-per-device");
        const words = ["plan"];
        for (const [name, value] of this.options)
            if (!taken.has(name) && !(name === "set" && state[value.split("=")[0]])) words.push("--" + name, value);
        for (const [key, value] of Object.entries(state))
            if (key.includes(".")) words.push("--set", key + "=" + value);
            else words.push("--" + key, String(value));
        return words.concat(more || []);
    }

    /* A value of the system's description by its path; what --set of the command says comes first. */
    valueAt(path) {
        const set = this.options.find(([name, value]) => name === "set" && value.startsWith(path + "="));
        let node = this.system;
        if (set) return set[1].slice(path.length + 1);
        for (const word of path.split(".")) node = node && node[word];
        return typeof node === "string" ? node : null;
    }

    async build() {
        await this.core.open();
        const path = Object.keys(this.core.texts).find((name) => name === this.given.get("system") ||
                                                                name === "share/systems/" + this.given.get("system") + ".yaml");
        this.system = path ? JSON.parse(this.core.texts[path]) : {};
        const choices = JSON.parse((await this.core.ask(["page", "choices"], false)).out);
        const panel = make("form", {class: "panel", "aria-label": "what if", submit: (event) => event.preventDefault()});
        const levels = Array.isArray(this.system.levels) ? this.system.levels : [];
        const standard = this.document, fit = levels.reduce((product, level) => product * (Number(level.fanout) || 1), 1);
        this.most = Math.max(fit, standard.pe);
        panel.append(make("h2", {}, "What if"));
        panel.append(this.power("devices", "devices", () => standard.pe, this.most));
        panel.append(this.power("batch", "batch", () => (this.best(this.now()) || {batch: standard.pe}).batch, 2 ** 24));
        levels.forEach((level, i) => {
            panel.append(this.factor("levels." + i + ".bandwidth", level.name + " bandwidth"));
            panel.append(this.factor("levels." + i + ".latency", level.name + " latency"));
        });
        panel.append(this.factor("device.memory", "memory of a device"));
        panel.append(this.factor("device.memory_bandwidth", "memory bandwidth"));
        this.precision = this.given.get("precision") || "fp32";
        panel.append(this.factor("device.peak." + this.precision, "peak " + this.precision));
        for (const name of ["precision", "optimizer", "goal", "mode"])
            if (choices[name]) panel.append(this.choice(name, choices[name]));
        const strategies = ["all", ...new Set((standard.candidates || []).map((candidate) => candidate.strategy))];
        panel.append(this.choice("strategy", strategies));
        this.progress = make("p", {class: "progress", role: "status"});
        this.command = make("code", {class: "again", tabindex: "0"});
        this.map = make("section", {"aria-label": "many plans at once"});
        panel.append(this.progress,
            make("p", {}, make("button", {type: "button", click: () => this.reset()}, "reset"), " ",
                make("button", {type: "button", click: () => this.copy()}, "copy the command")),
            make("p", {}, this.command),
            make("p", {}, make("button", {type: "button", click: () => this.winners(levels)}, "which strategy wins?"), " ",
                make("button", {type: "button", click: () => this.matters(levels)}, "what matters most?")));
        this.panel = panel;
        this.difference = make("p", {class: "difference", role: "status"});
        this.original = byId("d" + this.index).cloneNode(true);
        this.place = byId("d" + this.index);
        this.place.before(this.map);
        this.showCommand();
        return panel;
    }

    /* The plan that is shown. */
    now() {
        return this.shown && this.shown.plan ? this.shown.plan : this.document;
    }

    /* A number from 1 to `most`, by powers of two on the slider; `otherwise` is what it is if nobody chose. */
    power(key, label, otherwise, most) {
        const id = "what-" + key, now = () => (key in this.state ? this.state[key] : otherwise());
        const range = make("input", {type: "range", id: id + "-range", min: 0, max: Math.log2(most), step: "any",
                                     value: Math.log2(otherwise()), "aria-label": label + ", by powers of two"});
        const number = make("input", {type: "number", id, min: 1, max: most, value: otherwise()});
        const put = (chosen) => {
            range.value = Math.log2(chosen);
            number.value = chosen;
            range.setAttribute("aria-valuetext", chosen);
        };
        const take = (chosen) => {
            if (!(chosen >= 1)) return;
            this.change(key, Math.min(most, Math.round(chosen)), otherwise());
        };
        range.addEventListener("input", () => take(2 ** Math.round(range.value)));
        range.addEventListener("keydown", (event) => {
            const by = {PageUp: 2, ArrowRight: 2, ArrowUp: 2, PageDown: 0.5, ArrowLeft: 0.5, ArrowDown: 0.5}[event.key];
            if (!by) return;
            event.preventDefault();
            take(Math.max(1, now() * by));
        });
        number.addEventListener("input", () => take(Number(number.value)));
        this.controls.push({key, put: () => put(now())});
        return make("div", {class: "control"}, make("label", {for: id}, label), range, number);
    }

    /* A value of the system times 1/8 to 8. */
    factor(path, label) {
        const text = this.valueAt(path), found = /^([\d.]+(?:e[-+]?\d+)?)(.*)$/i.exec(text || "");
        if (!found) return "";
        const id = "what-" + path, shown = make("output", {for: id});
        const valueFor = (by) => Number((Number(found[1]) * by).toPrecision(6)) + found[2];
        const range = make("input", {type: "range", id, min: -3, max: 3, step: 1, value: 0});
        const put = () => {
            const value = path in this.state ? this.state[path] : text;
            const by = Number(/^[\d.e+-]+/.exec(value)[0]) / Number(found[1]);
            range.value = Math.log2(by);
            shown.textContent = value;
            range.setAttribute("aria-valuetext", value);
        };
        range.addEventListener("input", () => {
            this.change(path, valueFor(2 ** range.value), text);
            put();
        });
        this.controls.push({key: path, put, valueFor});
        put();
        return make("div", {class: "control"}, make("label", {for: id}, label), range, shown);
    }

    choice(key, names) {
        const id = "what-" + key, before = this.given.get(key) || (key === "optimizer" ? "momentum" : names.includes("fp32") ? "fp32" : names[0]);
        const select = make("select", {id, change: () => this.change(key, select.value, before)},
            ...names.map((name) => make("option", {value: name, selected: name === before}, name)));
        this.controls.push({key, put: () => { select.value = key in this.state ? this.state[key] : before; }});
        return make("div", {class: "control"}, make("label", {for: id}, key), select);
    }

    change(key, value, before) {
        if (value === before) delete this.state[key];
        else this.state[key] = value;
        this.settle();
    }

    reset() {
        this.state = {};
        this.settle();
    }

    settle() {
        for (const control of this.controls) control.put();
        this.showCommand();
        const text = Object.keys(this.state).length > 0 ? "#what=" + encodeURIComponent(JSON.stringify(this.state)) : "#";
        try {
            history.replaceState(null, "", text);
        } catch (error) { /* a browser may forbid it for files */
        }
        this.wanted = {...this.state};
        clearTimeout(this.rest);
        this.drain();
    }

    showCommand() {
        this.command.textContent = "paradl " + this.words(this.state).map(quote).join(" ");
    }

    async copy() {
        try {
            await navigator.clipboard.writeText(this.command.textContent);
            announce("copied");
        } catch (error) {
            getSelection().selectAllChildren(this.command);
            announce("selected: copy it with the keys of your system");
        }
    }

    /* The newest state is asked about as soon as the answer before has come. */
    async drain() {
        if (this.busy) return;
        this.busy = true;
        while (this.wanted) {
            const state = this.wanted;
            this.wanted = null;
            if (Object.keys(state).length === 0) this.restore();
            else await this.question(state, ["--json"]);
        }
        this.busy = false;
        if (this.detailed && Object.keys(this.state).length > 0)
            this.rest = setTimeout(() => this.details({...this.state}), 500);
    }

    async details(state) {
        if (this.busy) return;
        this.busy = true;
        await this.question(state, ["--json", "--layers", "--explain"]);
        this.busy = false;
        if (this.wanted) this.drain();
    }

    async question(state, more) {
        const slow = setTimeout(() => this.progress.replaceChildren("computing \u2026 ",
            make("button", {type: "button", click: () => this.core.stop()}, "stop")), 2000);
        const answer = await this.core.ask(this.words(state, more), true);
        clearTimeout(slow);
        this.progress.textContent = answer ? "" : "stopped";
        if (answer && !this.wanted) this.show(answer, state);
    }

    restore() {
        this.place.replaceChildren(...this.original.cloneNode(true).childNodes);
        this.difference.textContent = "";
        prepare(this.place);
        this.shown = null;
        for (const control of this.controls) control.put();
    }

    show(answer, state) {
        let plan = null;
        try {
            plan = answer.out ? JSON.parse(answer.out) : null;
        } catch (error) { /* what is no document is an error of the command, which is shown */
        }
        this.shown = {state, plan, status: answer.status, milliseconds: answer.milliseconds};
        if (!plan) {
            this.difference.textContent = answer.error.replace(/^paradl: /, "");
            if (!this.difference.isConnected) this.place.prepend(this.difference);
            return;
        }
        const template = document.createElement("template");
        template.innerHTML = answer.html;
        const parts = template.content.querySelector(".document");
        this.place.replaceChildren(...(parts || template.content).childNodes);
        this.compare(plan);
        prepare(this.place);
        for (const control of this.controls) if (!(control.key in this.state)) control.put();
    }

    best(plan) {
        return (plan.candidates || []).find((candidate) => candidate.feasible);
    }

    /* The answer beside that of the document, and every strategy beside itself. */
    compare(plan) {
        const before = this.best(this.document), after = this.best(plan);
        const perSample = (candidate) => candidate.total_s / candidate.batch;
        if (before && after)
            this.difference.textContent = before.strategy + " " + seconds(before.total_s) + " \u2192 " + after.strategy + " " +
                seconds(after.total_s) + " per iteration (" + percent(after.total_s / before.total_s - 1) + "), " +
                percent(perSample(after) / perSample(before) - 1) + " per sample";
        else this.difference.textContent = after ? "possible now" : "no strategy is possible";
        const heading = this.place.querySelector("h2");
        if (heading) heading.after(this.difference);
        const table = this.place.querySelector("section table"), column = 4; /* behind that of the iteration */
        if (!table) return;
        table.tHead.rows[0].cells[column].before(make("th", {scope: "col", class: "n"}, "change"));
        [...table.tBodies[0].rows].forEach((row, i) => {
            const now = plan.candidates[i];
            const then = this.document.candidates.find((candidate) => candidate.strategy === now.strategy);
            const known = now && now.feasible && then && then.feasible;
            row.cells[column].before(make("td", {class: "n"}, known ? percent(now.total_s / then.total_s - 1) : now.feasible ? "new" : ""));
        });
    }

    /* Asks one plan after the other until the state changes; gives the best candidate of each to `each`. */
    async series(variants, each) {
        const state = JSON.stringify(this.state), slow = make("progress", {max: variants.length, value: 0, "aria-label": "plans computed"});
        this.map.append(slow);
        for (let i = 0; i < variants.length; i++) {
            const answer = await this.core.ask(this.words({...this.state, ...variants[i]}, ["--json", "--top", "1"]), false);
            if (!answer || JSON.stringify(this.state) !== state) break;
            let plan = null;
            try {
                plan = JSON.parse(answer.out);
            } catch (error) { /* not possible */
            }
            each(i, plan ? this.best(plan) : null);
            slow.value = i + 1;
        }
        slow.remove();
    }

    /* Devices by bandwidth of the outermost level, cell by cell. */
    async winners(levels) {
        const outer = [...levels.keys()].reverse().find((i) => this.controls.some((control) => control.key === "levels." + i + ".bandwidth"));
        const now = this.state.devices || this.document.pe, rows = [], columns = [];
        if (outer === undefined) return;
        const key = "levels." + outer + ".bandwidth", control = this.controls.find((entry) => entry.key === key);
        for (let by = -4; by <= 4; by++) columns.push(control.valueFor(2 ** by));
        for (let by = -6; by <= 5; by++) if (now * 2 ** by <= this.most && Number.isInteger(now * 2 ** by)) rows.push(now * 2 ** by);
        const cells = rows.map(() => columns.map(() => make("td", {}, "\u2026"))), seen = [];
        this.map.replaceChildren(make("div", {class: "wide", tabindex: "0"}, make("table", {class: "map"},
            make("caption", {}, "The best strategy over devices and " + levels[outer].name + " bandwidth"),
            make("thead", {}, make("tr", {}, make("th", {scope: "col"}, "devices"), ...columns.map((value) => make("th", {scope: "col"}, value)))),
            make("tbody", {}, ...rows.map((devices, r) => make("tr", {}, make("th", {scope: "row"}, String(devices)), ...cells[r]))))));
        await this.series(rows.flatMap((devices) => columns.map((value) => ({devices, [key]: value}))), (i, best) => {
            const cell = cells[Math.floor(i / columns.length)][i % columns.length];
            if (best && !seen.includes(best.strategy)) seen.push(best.strategy);
            cell.replaceChildren(best ? make("span", {}, best.strategy) : "-");
            if (best) cell.className = "win hue" + seen.indexOf(best.strategy) % 8;
            if (best) cell.title = seconds(best.total_s) + " per iteration";
        });
    }

    /* Half and twice of everything, what changes the time of a sample most first. */
    async matters(levels) {
        const before = this.best(this.now()), variants = [], names = [];
        for (const control of this.controls) {
            if (!control.valueFor && control.key !== "batch") continue;
            for (const by of [0.5, 2]) {
                const now = this.state[control.key], factor = control.valueFor && now ? Number(/^[\d.e+-]+/.exec(now)[0]) /
                    Number(/^[\d.e+-]+/.exec(control.valueFor(1))[0]) : 1;
                const value = control.valueFor ? control.valueFor(by * factor) : Math.max(1, Math.round(by * (now || before.batch)));
                variants.push({[control.key]: value});
                names.push({key: control.key, by, value});
            }
        }
        if (!before) return;
        const found = [], body = make("tbody", {});
        const title = (key) => key.replace(/^levels\.(\d+)/, (all, i) => levels[i].name).replace("device.", "").replace(/[._]/g, " ");
        this.map.replaceChildren(make("div", {class: "wide", tabindex: "0"}, make("table", {},
            make("caption", {}, "Time of a sample if one value is half or twice as large"),
            make("thead", {}, make("tr", {}, ...["value", "times", "change", "best then"].map((head) => make("th", {scope: "col"}, head)))), body)));
        await this.series(variants, (i, best) => {
            const change = best ? best.total_s / best.batch / (before.total_s / before.batch) - 1 : Infinity;
            found.push({...names[i], change, strategy: best ? best.strategy : "not possible"});
            found.sort((a, b) => Math.abs(b.change) - Math.abs(a.change));
            body.replaceChildren(...found.map((row) => make("tr", {}, make("th", {scope: "row"}, title(row.key)), make("td", {class: "n"}, "\u00d7" + row.by),
                make("td", {class: "n"}, Number.isFinite(row.change) ? percent(row.change) : "-"), make("td", {}, row.strategy))));
        });
    }

    /* The state of the address, as far as there are controls for it. */
    readAddress() {
        const found = /^#what=(.*)$/.exec(location.hash);
        if (!found) return;
        try {
            const wanted = JSON.parse(decodeURIComponent(found[1]));
            for (const [key, value] of Object.entries(wanted))
                if (this.controls.some((control) => control.key === key) && ["string", "number"].includes(typeof value)) this.state[key] = value;
        } catch (error) {
            return;
        }
        this.settle();
    }

    /* Kernels of processors are not known to a page: then its own answer is the one to compare with. */
    async check() {
        if (this.system.backend ? this.system.backend !== "cpu" : !this.system.measured) return;
        const answer = await this.core.ask(this.words({}, ["--json"]), false);
        const mine = answer && answer.out ? this.best(JSON.parse(answer.out)) : null, its = this.best(this.document);
        if (!mine || !its || Math.abs(mine.total_s / its.total_s - 1) < 1e-9) return;
        this.progress.textContent = "This page models the kernels of processors: it answers the command of the document with " +
            seconds(mine.total_s) + " instead of " + seconds(its.total_s) + ", and compares with that.";
        this.document = JSON.parse(answer.out);
    }
}

/* ------------------------------------------------------------------ timelines */

const hues = [["forward", 0], ["recompute", 0], ["dgrad", 6], ["wgrad", 6], ["backward", 6], ["update", 2], ["collective", 1], ["exchange", 1],
              ["redistribute", 4], ["halo", 5], ["send", 3], ["recv", 3]];
const hueOf = (name) => (hues.find(([begin]) => name.startsWith(begin)) || ["", 7])[1];

/* The columns of packed events (docs/report_format.md), as slices of tracks. */
async function readEvents(id) {
    const bytes = new Uint8Array(await unpack(id)), stop = bytes.indexOf(10);
    const header = JSON.parse(new TextDecoder().decode(bytes.subarray(0, stop))), count = header.events;
    let at = stop + 1;
    const next = () => {
        let value = 0, scale = 1, byte;
        do {
            byte = bytes[at++];
            value += (byte & 0x7f) * scale;
            scale *= 128;
        } while (byte & 0x80);
        return value % 2 ? -(value + 1) / 2 : value / 2;
    };
    const column = () => Float64Array.from({length: count}, next), last = new Float64Array(header.tracks.length);
    const [track, start, length, name] = [column(), column(), column(), column()];
    for (let i = 0; i < count; i++) last[track[i]] = start[i] += last[track[i]];
    return {header, count, track, start, length, name, texts: header.texts.map(String), leftOut: header.left_out};
}

/*
 * A timeline that is moved by keys (w a s d, arrows, f, m, /, ?), the wheel and the pointer; the still of the page is for paper. Slices are
 * columns in the order of tracks and starts: of a track, what is seen is found by halving.
 */
class Timeline {
    constructor(events) {
        const SLICES = 0, OTHER = 2, names = new Map(), order = [];
        for (let i = 0; i < events.count; i++) {
            const kind = events.header.tracks[events.track[i]][0];
            if (kind === SLICES) order.push(i);
            if (kind !== OTHER) continue;
            const event = JSON.parse(events.texts[events.name[i]]);
            if (event && event.ph === "M" && event.args)
                names.set(event.name === "process_name" ? String(event.pid) : event.pid + "/" + event.tid, String(event.args.name));
        }
        order.sort((a, b) => events.track[a] - events.track[b] || events.start[a] - events.start[b] || a - b);
        this.start = Float64Array.from(order, (i) => events.start[i]);
        this.end = Float64Array.from(order, (i) => events.start[i] + events.length[i]);
        this.name = Int32Array.from(order, (i) => events.name[i]);
        this.texts = events.texts;
        this.hueOf = Uint8Array.from(this.texts, hueOf);
        this.tracks = [];
        order.forEach((i, place) => {
            const [, process, thread] = events.header.tracks[events.track[i]], last = this.tracks[this.tracks.length - 1];
            if (!last || last.id !== events.track[i])
                this.tracks.push({id: events.track[i], process, begin: place, name: (names.get(String(process)) || process) + " " + (names.get(process + "/" + thread) || "")});
            this.tracks[this.tracks.length - 1].stop = place + 1;
        });
        this.first = this.start.reduce((least, value) => Math.min(least, value), Infinity);
        this.last = this.end.reduce((most, value) => Math.max(most, value), 0);
        this.from = this.first;
        this.to = this.last;
        this.wanted = "";
        this.marks = [];
    }

    get count() { return this.start.length; }

    build() {
        const search = make("input", {type: "search", "aria-label": "operations with this text", placeholder: "/ search", input: () => {
            this.wanted = search.value.toLowerCase();
            this.draw();
            if (this.wanted) this.say(this.found() + " operations have this text");
        }, keydown: (event) => { if (event.key === "Enter") this.nextFound(); }});
        const help = "w and s zoom, a and d move, arrows too, f shows all or the selection, m marks two moments, slash searches, enter goes to the next one found";
        this.canvas = make("canvas", {tabindex: "0", role: "img", "aria-label": "timeline: " + help});
        this.strip = make("canvas", {class: "strip", "aria-hidden": "true"});
        this.says = make("p", {role: "status"}, help);
        this.canvas.addEventListener("keydown", (event) => {
            const move = {w: [0.7, 0], "+": [0.7, 0], s: [1.4, 0], "-": [1.4, 0], a: [1, -0.2], ArrowLeft: [1, -0.2], d: [1, 0.2], ArrowRight: [1, 0.2]}[event.key];
            if (move) this.zoom(move[0], move[1], 0.5);
            else if (event.key === "f") this.fit();
            else if (event.key === "m") this.mark((this.from + this.to) / 2);
            else if (event.key === "?") this.say(help);
            else if (event.key === "/") search.focus();
            else if (event.key === "Escape") this.select(null);
            else return;
            event.preventDefault();
        });
        this.canvas.addEventListener("wheel", (event) => {
            if (!event.ctrlKey && document.activeElement !== this.canvas) return; /* the page scrolls */
            event.preventDefault();
            this.zoom(event.deltaY > 0 ? 1.2 : 0.8, 0, event.offsetX / this.canvas.clientWidth);
        }, {passive: false});
        this.canvas.addEventListener("pointerdown", (event) => { this.pressed = this.timeAt(event.offsetX); });
        this.canvas.addEventListener("pointerup", () => { this.pressed = null; });
        this.canvas.addEventListener("pointermove", (event) => {
            if (this.pressed && event.buttons === 1) {
                this.select([Math.min(this.pressed, this.timeAt(event.offsetX)), Math.max(this.pressed, this.timeAt(event.offsetX))]);
                return;
            }
            const at = this.at(event.offsetX, event.offsetY);
            if (at >= 0) this.say(this.tracks[this.trackOf(at)].name + ": " + this.texts[this.name[at]] + ", " + seconds(1e-9 * (this.end[at] - this.start[at])));
        });
        this.strip.addEventListener("pointerdown", (event) => {
            const at = this.first + event.offsetX / this.strip.clientWidth * (this.last - this.first);
            this.zoom(1, (at - (this.from + this.to) / 2) / (this.to - this.from), 0.5);
        });
        addEventListener("resize", () => this.draw());
        addEventListener("theme", () => this.draw());
        return make("div", {class: "moves"}, search, this.strip, this.canvas, this.says);
    }

    say(text) { this.says.textContent = text; }
    timeAt(x) { return this.from + x / this.canvas.clientWidth * (this.to - this.from); }
    trackOf(at) { return this.tracks.findIndex((track) => track.begin <= at && at < track.stop); }

    /* The first slice of a track that ends behind `time`; slices of one track follow each other. */
    firstBehind(track, time) {
        let low = track.begin, high = track.stop;
        while (low < high) {
            const middle = (low + high) >> 1;
            if (this.end[middle] <= time) low = middle + 1;
            else high = middle;
        }
        return low;
    }

    zoom(factor, shift, around) {
        const span = Math.min(this.last - this.first, (this.to - this.from) * factor), at = this.from + around * (this.to - this.from);
        this.from = Math.max(this.first, Math.min(this.last - span, at - around * span + shift * span));
        this.to = this.from + span;
        this.draw();
        this.say(this.range(this.from, this.to));
    }

    fit() {
        [this.from, this.to] = this.selected && this.selected[1] > this.selected[0] ? this.selected : [this.first, this.last];
        this.select(null);
    }

    /* Two marks are a selection. */
    mark(time) {
        this.marks = this.marks.length === 1 ? [this.marks[0], time].sort((a, b) => a - b) : [time];
        this.select(this.marks.length === 2 ? this.marks : null);
        if (this.marks.length === 1) this.say("marked " + seconds(1e-9 * (time - this.first)));
    }

    select(range) {
        this.selected = range;
        if (!range) this.say(this.range(this.from, this.to));
        else this.say("selected " + this.range(range[0], range[1]));
        this.draw();
    }

    range(from, to) {
        return seconds(1e-9 * (from - this.first)) + " to " + seconds(1e-9 * (to - this.first)) + ": " + this.sums(from, to);
    }

    /* Seconds by class between two moments. */
    sums(from, to) {
        const found = new Map();
        for (const track of this.tracks)
            for (let i = this.firstBehind(track, from); i < track.stop && this.start[i] < to; i++) {
                const name = this.texts[this.name[i]].split(" ")[0];
                found.set(name, (found.get(name) || 0) + Math.min(this.end[i], to) - Math.max(this.start[i], from));
            }
        return [...found].sort((a, b) => b[1] - a[1]).slice(0, 5).map(([name, part]) => name + " " + seconds(1e-9 * part)).join(", ");
    }

    matches(i) { return this.texts[this.name[i]].toLowerCase().includes(this.wanted); }
    found() {
        let count = 0;
        for (let i = 0; i < this.count; i++) count += this.matches(i);
        return count;
    }

    /* To the first operation with the text that is searched for behind the middle of what is seen. */
    nextFound() {
        const middle = (this.from + this.to) / 2;
        let best = -1;
        for (let i = 0; i < this.count && this.wanted; i++)
            if (this.start[i] > middle && this.matches(i) && (best < 0 || this.start[i] < this.start[best])) best = i;
        if (best < 0) return;
        this.zoom(1, ((this.start[best] + this.end[best]) / 2 - middle) / (this.to - this.from) + 1e-9, 0.5);
        this.say(this.tracks[this.trackOf(best)].name + ": " + this.texts[this.name[best]]);
    }

    at(x, y) {
        const time = this.timeAt(x), track = this.tracks[Math.floor(y / this.row)];
        if (!track) return -1;
        const i = this.firstBehind(track, time);
        return i < track.stop && this.start[i] <= time ? i : -1;
    }

    draw() {
        const scale = devicePixelRatio || 1, width = this.canvas.parentElement.clientWidth, begin = performance.now();
        const style = getComputedStyle(document.documentElement), colour = (name) => style.getPropertyValue(name).trim();
        this.row = this.tracks.length > 40 ? 12 : 24;
        this.size(this.canvas, width, this.tracks.length * this.row, scale);
        const pen = this.canvas.getContext("2d"), colours = [0, 1, 2, 3, 4, 5, 6, 7].map((hue) => colour("--hue" + hue));
        const seen = this.tracks.map((track) => [this.firstBehind(track, this.from), this.firstBehind(track, this.to)]);
        const many = seen.reduce((sum, [from, to]) => sum + to - from, 0) > 20000;
        if (many) this.drawMany(pen, seen, colours, scale);
        else this.drawFew(pen, seen, colours, colour, width, scale);
        pen.setTransform(scale, 0, 0, scale, 0, 0);
        this.drawNames(pen, colour);
        for (const range of [this.selected].filter(Boolean)) {
            pen.globalAlpha = 0.2;
            pen.fillStyle = colour("--ink");
            pen.fillRect((range[0] - this.from) / (this.to - this.from) * width, 0, (range[1] - range[0]) / (this.to - this.from) * width, this.canvas.height);
            pen.globalAlpha = 1;
        }
        this.drawStrip(width, scale, colour);
        this.milliseconds = performance.now() - begin;
    }

    size(canvas, width, height, scale) {
        canvas.width = width * scale;
        canvas.height = height * scale;
        canvas.style.width = width + "px";
        canvas.style.height = height + "px";
    }

    drawFew(pen, seen, colours, colour, width, scale) {
        const per = width / (this.to - this.from), paper = colour("--paper");
        pen.scale(scale, scale);
        pen.font = "12px system-ui, sans-serif";
        seen.forEach(([from, to], t) => {
            const y = t * this.row;
            for (let i = from; i < this.tracks[t].stop && (i <= to && this.start[i] < this.to); i++) {
                const x = (this.start[i] - this.from) * per, wide = Math.max(0.5, (this.end[i] - this.start[i]) * per);
                pen.globalAlpha = this.wanted && !this.matches(i) ? 0.15 : 1;
                pen.fillStyle = colours[this.hueOf[this.name[i]]];
                pen.fillRect(x, y + 2, Math.max(0.5, wide - 0.5), this.row - 4);
                if (wide < 60 || pen.globalAlpha < 1) continue;
                pen.fillStyle = paper;
                pen.fillText(this.texts[this.name[i]], Math.max(x, 0) + 3, y + 16, wide - 6);
            }
        });
        pen.globalAlpha = 1;
    }

    /* Names of tracks stand where they hide least: small, at the left, on a ground of their own. */
    drawNames(pen, colour) {
        if (this.row < 24) return;
        pen.font = "10px system-ui, sans-serif";
        this.tracks.forEach((track, t) => {
            const text = track.name.slice(0, 40), wide = pen.measureText(text).width + 6;
            pen.globalAlpha = 0.85;
            pen.fillStyle = colour("--paper");
            pen.fillRect(0, t * this.row + 1, wide, 12);
            pen.globalAlpha = 1;
            pen.fillStyle = colour("--ink");
            pen.fillText(text, 3, t * this.row + 10);
        });
    }

    /* All of the time, how busy tracks are in it, and which part is seen. */
    drawStrip(width, scale, colour) {
        const height = 24, pen = this.strip.getContext("2d");
        if (!this.busy) {
            this.busy = new Float64Array(300);
            const per = this.busy.length / (this.last - this.first);
            for (let i = 0; i < this.count; i++) {
                const from = (this.start[i] - this.first) * per, to = (this.end[i] - this.first) * per;
                for (let k = Math.floor(from); k < to && k < this.busy.length; k++) this.busy[k] += Math.min(to, k + 1) - Math.max(from, k);
            }
            this.busiest = this.busy.reduce((most, value) => Math.max(most, value), 0) || 1;
        }
        this.size(this.strip, width, height, scale);
        pen.scale(scale, scale);
        pen.fillStyle = colour("--hue0");
        this.busy.forEach((value, k) => pen.fillRect(k * width / 300, height * (1 - value / this.busiest), width / 300 + 0.5, height * value / this.busiest));
        pen.strokeStyle = colour("--ink");
        pen.lineWidth = 2;
        const per = width / (this.last - this.first);
        pen.strokeRect((this.from - this.first) * per + 1, 1, Math.max(3, (this.to - this.from) * per - 2), height - 2);
    }
}

/* Dots in place of rectangles, where there are more operations than one could read. */
Timeline.prototype.drawMany = function (pen, seen, colours, scale) {
    const {width, height} = this.canvas, row = this.row * scale, image = pen.createImageData(width, height), dots = new Uint32Array(image.data.buffer);
    const packed = colours.map((text) => (0xff000000 | parseInt(text.slice(5, 7), 16) << 16 | parseInt(text.slice(3, 5), 16) << 8 | parseInt(text.slice(1, 3), 16)) >>> 0);
    const per = width / (this.to - this.from);
    seen.forEach(([from, to], t) => {
        const first = Math.round(t * row + 2 * scale) * width;
        let free = 0; /* the next dot that is not drawn: many slices share one */
        for (let i = from; i <= to && i < this.tracks[t].stop; i++) {
            const x = Math.max(free, Math.floor((this.start[i] - this.from) * per)), stop = Math.min(width, Math.max(x + 1, Math.round((this.end[i] - this.from) * per)));
            if ((this.end[i] - this.from) * per < free) continue;
            dots.fill(packed[this.hueOf[this.name[i]]], first + x, first + stop);
            free = stop;
        }
        for (let line = 1; line < row - 4 * scale; line++) dots.copyWithin(first + line * width, first, first + width);
    });
    pen.putImageData(image, 0, 0);
};

async function prepareTimelines() {
    for (const element of document.querySelectorAll("script[id^=paradl-trace-]")) {
        const place = byId("d" + element.id.slice("paradl-trace-".length)), still = place && place.querySelector("figure.timeline");
        if (!still) continue;
        const timeline = new Timeline(await readEvents(element.id));
        if (timeline.count === 0) continue;
        still.before(timeline.build());
        still.classList.add("paper-only");
        timeline.draw();
        (globalThis.timelines = globalThis.timelines || []).push(timeline); /* for tests */
    }
}

/* ------------------------------------------------------------------ the page */

function chooseTheme() {
    const root = document.documentElement, dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    announce(root.dataset.theme + " ground");
    dispatchEvent(new Event("theme"));
}

async function begin() {
    const page = JSON.parse(byId("paradl-documents").textContent);
    const tools = make("p", {class: "tools"}, make("button", {type: "button", click: () => print()}, "print"), " ",
        make("button", {type: "button", click: chooseTheme}, "light or dark"));
    document.querySelector("header").append(tools);
    document.body.append(live);
    prepare(document);
    if (typeof DecompressionStream !== "undefined") await prepareTimelines();
    addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((part) => { part.open = true; }));
    const index = page.documents.findIndex((entry) => /^plan-result\//.test(entry.document.paradl || ""));
    if (index < 0 || !byId("paradl-core") || typeof DecompressionStream === "undefined") return;
    const whatIf = new WhatIf(index, page.documents[index]);
    try {
        const panel = await whatIf.build(), details = make("details", {class: "what"}, make("summary", {}, "What if \u2026"), panel);
        details.open = matchMedia("(min-width: 900px)").matches;
        document.body.classList.add("asks");
        byId("main").before(details);
        globalThis.paradl = whatIf; /* for tests, and for whoever likes a console */
        await whatIf.check();
        whatIf.readAddress();
        document.body.dataset.ready = "yes";
    } catch (error) {
        announce("nothing can be asked here: " + error.message);
    }
}

begin();
})();
