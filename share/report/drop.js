/*
 * Files that are dropped on a page, or opened by its button: documents are shown below, descriptions take the place of those that the panel
 * asks with. They are read here and go nowhere; what the page cannot show is refused in a line.
 */
const MOST_DROPPED = 32 * 2 ** 20;
const shownKinds = {"plan-result": "a plan", collective: "a collective", sweep: "a sweep", bench: "a benchmark of collectives"};
const describedKinds = {model: "model", system: "system", data: "data", topology: "topology"};

/* Kind and JSON of a text, which may be a document, a log or a description. */
function readDropped(text) {
    const first = text.trimStart()[0], named = (json) => {
        const kind = json && typeof json.paradl === "string" ? /^([a-z-]+)\/(\d+)$/.exec(json.paradl) : null;
        if (!kind) throw new Error("it is no document or description of paradl: its first key is not \"paradl\"");
        return {kind: kind[1], version: Number(kind[2])};
    };
    if (first !== "{") {
        const json = yamlToJson(text);
        return {...named(JSON.parse(json)), json};
    }
    try {
        return {...named(JSON.parse(text)), json: text};
    } catch (error) {
        if (!(error instanceof SyntaxError)) throw error;
        const line = text.trimStart().split("\n", 1)[0]; /* a log has an object on every line */
        try {
            return named(JSON.parse(line));
        } catch (other) {
            throw other instanceof SyntaxError ? error : other;
        }
    }
}

class Drops {
    constructor(whatIf, why) {
        this.whatIf = whatIf;
        this.why = why;
        this.count = 0;
        this.says = make("p", {class: "dropped", role: "status"});
        const chosen = make("input", {type: "file", multiple: true, class: "unseen", tabindex: "-1", "aria-hidden": "true",
                                      change: () => this.take([...chosen.files])});
        this.tools = [make("button", {type: "button", click: () => chosen.click()}, "open files"), chosen];
        addEventListener("dragover", (event) => event.preventDefault());
        addEventListener("drop", (event) => {
            event.preventDefault();
            this.take([...event.dataTransfer.files]);
        });
    }

    async take(files) {
        const said = [];
        for (const file of files)
            try {
                if (file.size > MOST_DROPPED) throw new Error("it is larger than 32 MiB: paradl report " + quote(file.name) + " makes a page of it");
                said.push(await this.use(file.name, await file.text()));
            } catch (error) {
                said.push(file.name + ": " + error.message);
            }
        this.says.textContent = said.join(" \u00b7 ");
    }

    async use(name, text) {
        const found = readDropped(text);
        if (!this.whatIf) throw new Error("nothing can be asked in this page" + (this.why ? ": " + this.why : ""));
        if (shownKinds[found.kind]) return this.show(name, found);
        if (found.version > 1) throw new Error(found.kind + "/" + found.version + " is newer than this page");
        if (describedKinds[found.kind] && this.whatIf.takes.includes(found.kind)) return this.whatIf.describe(describedKinds[found.kind], name, found.json);
        throw new Error(found.kind + " cannot be shown in this page: paradl report " + quote(name) + " makes one of it");
    }

    /* As the command that made the page would show it, under what is there. */
    async show(name, found) {
        const path = "dropped" + ++this.count + ".json", answer = await this.whatIf.core.show(path, found.json);
        if (!answer || answer.status !== 0 || !answer.html) throw new Error(answer ? answer.error.replace(/^paradl: /, "").replace(path + ": ", "").trim() : "stopped");
        const parts = [...partsOf(answer.html, "dropped" + this.count + "-").children];
        byId("main").append(...parts);
        parts.forEach(prepare);
        parts[0].setAttribute("tabindex", "-1");
        parts[0].focus();
        return name + ": " + shownKinds[found.kind] + ", shown below";
    }
}
