/*
 * A page that is asked again: the core, which is the command itself, answers in a worker. Controls make a command line of what the
 * document's own was; the core runs it and writes the sections anew.
 */
/* Runs in the worker: one question after the other. */
function answering() {
    let core = null, files = null;
    onmessage = (message) => {
        const {id, module, texts, words, show} = message.data, encoder = new TextEncoder();
        if (module) core = module;
        if (texts) files = new Map([...(files || []), ...Object.entries(texts).map(([path, text]) => [path, encoder.encode(text)])]);
        if (!words) return;
        const begin = performance.now(), answer = {id, html: ""};
        try {
            Object.assign(answer, runCore(core, words, files));
            if (show && answer.out) {
                files.set("again.json", encoder.encode(answer.out));
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

    /* A file that commands may name from now on. */
    async put(path, text) {
        await this.open();
        this.texts[path] = text;
        this.worker.postMessage({texts: {[path]: text}});
    }

    /* A document as the part of a page. */
    async show(path, text) {
        await this.put(path, text);
        const answer = await this.ask(["page", "show", path], false);
        delete this.texts[path];
        return answer && {...answer, html: answer.out};
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

const dropped = new Set(["json", "layers", "explain", "output", "trace", "plot", "measured", "export"]);
const alias = {pe: "devices", "samples-per-pe": "samples-per-device", n: "devices", o: "output"};

/* The options of a command as a list of [name, value]; the value of a flag is null. */
function parseWords(words, flags) {
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

/*
 * What every panel has: a state, which is what the controls changed, the command line of it, and one question at a time. Kinds of documents
 * give their verb, their controls (fill), and how an answer is compared with that of the document (compare).
 */
class WhatIf {
    constructor(index, entry) {
        this.index = index;
        this.document = entry.document;
        this.core = new Core();
        this.state = {};
        this.controls = [];
        this.own = false; /* whether a description is the user's: then no answer is that of the document */
        this.wanted = null; /* the newest state that has not been asked about */
    }

    /* The words of the command in a state: options of the document but those that the controls have; "" takes one away. */
    words(state, more) {
        const taken = new Set(Object.keys(state).filter((key) => !key.includes(".")));
        if ("batch" in state) taken.add("samples-per-device");
        const words = [this.verb];
        for (const [name, value] of this.options)
            if (!taken.has(name) && !(name === "set" && state[value.split("=")[0]])) words.push("--" + name, ...(value === null ? [] : [value]));
        for (const [key, value] of Object.entries(state))
            if (key.includes(".")) words.push("--set", key + "=" + value);
            else if (value !== "") words.push("--" + key, String(value));
        return words.concat(more || []);
    }

    async build() {
        await this.core.open();
        const known = JSON.parse((await this.core.ask(["page", "choices"], false)).out)[this.verb];
        this.options = parseWords(this.document.command.slice(2), new Set(known.flags)).filter(([name]) => !dropped.has(name));
        this.given = new Map(this.options);
        this.choices = known.choices;
        this.panel = make("form", {class: "panel", "aria-label": "what if", submit: (event) => event.preventDefault()});
        this.map = make("section", {"aria-label": "many answers at once"});
        this.progress = make("p", {class: "progress", role: "status"});
        this.command = make("code", {class: "again", tabindex: "0"});
        await this.furnish();
        this.difference = make("p", {class: "difference", role: "status"});
        this.place = byId("d" + this.index);
        this.original = this.place.cloneNode(true);
        this.place.before(this.map);
        this.beside = make("div", {class: "document"}); /* what follows when the controls rest */
        this.place.after(this.beside);
        this.showCommand();
        return this.panel;
    }

    /* The controls, for the descriptions at hand. */
    async furnish() {
        const panel = this.panel;
        this.controls = [];
        panel.replaceChildren(make("h2", {}, "What if"));
        const buttons = await this.fill(panel);
        panel.append(this.progress,
            make("p", {}, make("button", {type: "button", click: () => this.reset()}, "reset"), " ",
                make("button", {type: "button", click: () => this.copy()}, "copy the command")),
            make("p", {}, this.command), make("p", {}, ...buttons.flatMap((button) => [button, " "])));
    }

    /* A description of the user in place of the one that the document names. */
    async describe(option, name, json) {
        const path = /^[\w.-]+\.yaml$/.test(name) ? name : option + ".yaml";
        await this.core.put(path, json);
        this.options = [...this.options.filter(([key, value]) => key !== option && !(key === "set" && option === "system")), [option, path]];
        this.given = new Map(this.options);
        this.own = true;
        await this.furnish();
        this.reset();
        return name + ": asked as --" + option + " " + path;
    }

    /* What a kind need not have. */
    details() {}
    async check() {}

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

    choice(key, names) {
        const id = "what-" + key, before = this.given.get(key) || this.standard[key] || names[0];
        const select = make("select", {id, change: () => this.change(key, select.value, before)},
            ...names.map((name) => make("option", {value: name, selected: name === before}, name)));
        this.controls.push({key, put: () => { select.value = key in this.state ? this.state[key] : before; }});
        return make("div", {class: "control"}, make("label", {for: id}, key), select);
    }

    /* A text that an option of the command takes, such as 12.5GB/s. */
    field(key, label, example) {
        const id = "what-" + key, before = this.given.get(key) || "";
        const input = make("input", {type: "text", id, value: before, placeholder: example, spellcheck: "false", change: () => this.change(key, input.value.trim(), before)});
        this.controls.push({key, put: () => { input.value = key in this.state ? this.state[key] : before; }});
        return make("div", {class: "control"}, make("label", {for: id}, label), input);
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
        this.beside.replaceChildren();
        if (this.resting) this.core.stop(); /* a newer question does not wait for what nobody asked for */
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
            if (Object.keys(state).length === 0 && !this.own) this.restore();
            else await this.question(state, ["--json"]);
        }
        this.busy = false;
        if (Object.keys(this.state).length > 0 || this.own) this.rest = setTimeout(() => this.details({...this.state}), 500);
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
        const heading = this.place.querySelector("h2");
        if (heading) heading.after(this.difference);
        prepare(this.place);
        for (const control of this.controls) if (!(control.key in this.state)) control.put();
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
}
