/*
 * The script of a page. Without it the page is complete; with it tables are sorted, charts are read by keys, timelines move, and plans and
 * collectives are asked again.
 */
function chooseTheme() {
    const root = document.documentElement, dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    announce(root.dataset.theme + " ground");
    dispatchEvent(new Event("theme"));
}

function accept(tools, whatIf, why) {
    const drops = new Drops(whatIf, why);
    tools.append(" ", ...drops.tools);
    document.querySelector("header").append(drops.says);
    globalThis.drops = drops; /* for tests */
}

async function begin() {
    const page = JSON.parse(byId("paradl-documents").textContent);
    const tools = make("p", {class: "tools"}, make("button", {type: "button", click: () => print()}, "print"), " ",
        make("button", {type: "button", click: chooseTheme}, "light or dark"));
    document.querySelector("header").append(tools);
    document.body.append(live);
    prepareRuns(page);
    prepare(document);
    if (typeof DecompressionStream !== "undefined") await prepareTimelines();
    addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((part) => { part.open = true; }));
    const find = (kind) => page.documents.findIndex((entry) => (entry.document.paradl || "").startsWith(kind + "/"));
    const plan = find("plan-result"), index = plan >= 0 ? plan : find("collective");
    if (index < 0 || !byId("paradl-core") || typeof DecompressionStream === "undefined") {
        accept(tools, null, "it has no core, or no plan or collective to ask about");
        return;
    }
    const whatIf = new (plan >= 0 ? PlanWhatIf : NetworkWhatIf)(index, page.documents[index]);
    try {
        const panel = await whatIf.build(), details = make("details", {class: "what"}, make("summary", {}, "What if \u2026"), panel);
        details.open = matchMedia("(min-width: 900px)").matches;
        document.body.classList.add("asks");
        byId("main").before(details);
        dispatchEvent(new Event("resize")); /* timelines have less room now */
        globalThis.paradl = whatIf; /* for tests, and for whoever likes a console */
        await whatIf.check();
        whatIf.readAddress();
        accept(tools, whatIf);
        document.body.dataset.ready = "yes";
    } catch (error) {
        announce("nothing can be asked here: " + error.message);
    }
}

begin();
