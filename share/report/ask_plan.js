/*
 * What if a plan had other devices, another batch, other links: sliders, the map of the best strategies, and what matters most.
 */
class PlanWhatIf extends WhatIf {
    constructor(index, entry) {
        super(index, entry);
        this.verb = "plan";
        this.takes = ["model", "system", "data"];
        this.standard = {optimizer: "momentum", precision: "fp32"};
        this.detailed = ["layers", "explanation"].some((key) => key in entry.document);
    }

    async fill(panel) {
        const path = Object.keys(this.core.texts).find((name) => name === this.given.get("system") ||
                                                                name === "share/systems/" + this.given.get("system") + ".yaml");
        this.system = path ? JSON.parse(this.core.texts[path]) : {};
        const levels = Array.isArray(this.system.levels) ? this.system.levels : [];
        const standard = this.document, fit = levels.reduce((product, level) => product * (Number(level.fanout) || 1), 1);
        this.most = Math.max(fit, standard.pe);
        panel.append(this.power("devices", "devices", () => standard.pe, this.most));
        panel.append(this.power("batch", "batch", () => (this.best(this.now()) || {batch: standard.pe}).batch, 2 ** 24));
        levels.forEach((level, i) => {
            panel.append(this.factor("levels." + i + ".bandwidth", level.name + " bandwidth"));
            panel.append(this.factor("levels." + i + ".latency", level.name + " latency"));
        });
        panel.append(this.factor("device.memory", "memory of a device"));
        panel.append(this.factor("device.memory_bandwidth", "memory bandwidth"));
        /* Of several that were asked for, the one of the best plan. */
        this.precision = (this.best(standard) || {}).precision || (this.given.get("precision") || "fp32").split(",")[0];
        panel.append(this.factor("device.peak." + this.precision, "peak " + this.precision));
        for (const name of ["precision", "optimizer", "goal", "mode"])
            if (this.choices[name]) panel.append(this.choice(name, this.withGiven(name)));
        const strategies = ["all", ...new Set((standard.candidates || []).map((candidate) => candidate.strategy))];
        panel.append(this.choice("strategy", strategies));
        return [make("button", {type: "button", click: () => this.winners(levels)}, "which strategy wins?"),
            make("button", {type: "button", click: () => this.matters(levels)}, "what matters most?"),
            make("button", {type: "button", click: () => this.overDevices({...this.state})}, "over devices")];
    }

    /* Several at once are a choice where they were asked for. */
    withGiven(name) {
        const given = this.given.get(name), names = this.choices[name];
        return !given || names.includes(given) ? names : [given, ...names];
    }

    /* A value of the system's description by its path; what --set of the command says comes first. */
    valueAt(path) {
        const set = this.options.find(([name, value]) => name === "set" && value.startsWith(path + "="));
        let node = this.system;
        if (set) return set[1].slice(path.length + 1);
        for (const word of path.split(".")) node = node && node[word];
        return typeof node === "string" ? node : null;
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

    async details(state) {
        if (this.busy) return;
        this.busy = true;
        if (this.detailed) await this.question(state, ["--json", "--layers", "--explain"]);
        this.busy = false;
        if (this.wanted) this.drain();
        else await this.overDevices(state);
    }

    /* The same question on fewer and on more devices, down to 1/16 and up to 8 times of them. */
    async overDevices(state) {
        const now = state.devices || this.document.pe;
        let least = now, most = now;
        while (least % 2 === 0 && least > now / 16) least /= 2;
        while (2 * most <= Math.min(this.most, 8 * now)) most *= 2;
        if (this.busy || this.resting || least === most) return;
        this.resting = true;
        const answer = await this.core.ask(this.words({...state, devices: least + ".." + most}, ["--json"]), true);
        this.resting = false;
        if (!answer || !answer.html || JSON.stringify(state) !== JSON.stringify(this.state)) return;
        this.scaling = JSON.parse(answer.out);
        this.beside.replaceChildren(...partsOf(answer.html, "beside-").querySelector(".document").childNodes);
        prepare(this.beside);
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
                seconds(after.total_s) + " per iteration (" + against(after.total_s, before.total_s) + "), " +
                against(perSample(after), perSample(before)) + " per sample";
        else this.difference.textContent = after ? "possible now" : "no strategy is possible";
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
            make("thead", {}, make("tr", {}, make("th", {scope: "col"}, "devices"), ...columns.map((value) => make("th", {scope: "col"}, value.replace(/^[\d.e+-]+/, (digits) => Number(Number(digits).toPrecision(3))))))),
            make("tbody", {}, ...rows.map((devices, r) => make("tr", {}, make("th", {scope: "row"}, String(devices)), ...cells[r]))))));
        await this.series(rows.flatMap((devices) => columns.map((value) => ({devices, [key]: value}))), (i, best) => {
            const cell = cells[Math.floor(i / columns.length)][i % columns.length];
            if (best && !seen.includes(best.strategy)) seen.push(best.strategy);
            cell.replaceChildren(best ? make("span", {}, ...best.strategy.split("+").flatMap((part, at) => (at > 0 ? ["+", make("wbr"), part] : [part]))) : "-");
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
