/*
 * Pages in a real Chromium: browser.js PARADL FOLDER. Asserts what docs/report_format.md promises, prints sizes and times, and leaves
 * pictures of every page in FOLDER. CHROMIUM names another browser.
 */
"use strict";
const fs = require("fs"), path = require("path"), {spawnSync} = require("child_process");
const {chromium} = require("playwright-core");
const [paradl, folder] = process.argv.slice(2);
const axe = fs.readFileSync(require.resolve("axe-core"), "utf8");
let failures = 0;

const check = (condition, text) => {
    if (condition) return;
    failures++;
    console.log("FAILED: " + text);
};
const command = (...words) => {
    const done = spawnSync(paradl, words, {encoding: "utf8", maxBuffer: 1 << 28, cwd: folder});
    if (done.status !== 0) throw new Error(`paradl ${words.join(" ")}: ${done.stderr}`);
    return done.stdout;
};
const write = (name, text) => fs.writeFileSync(path.join(folder, name), text);

/* A document of every kind, and its page. */
function makePages() {
    const dln = ["simulate", "--topology", "dln", "--hosts", "16", "--hosts-per-switch", "2", "--json"];
    write("plan.json", command("plan", "--model", "resnet50", "--system", "abci-v", "--devices", "512", "--data", "imagenet", "--json", "--layers",
                               "--explain", "-o", "plan.yaml"));
    write("simulation.json", command("simulate", "plan.yaml", "--json"));
    command("train", "--model", "lenet", "--data", "synthetic", "--samples", "640", "--batch", "32", "--epochs", "2", "--lr", "0.02", "--threads", "1",
            "--quiet", "--log", "run.jsonl");
    write("sweep.json", command(...dln, "--sweep-bytes", "1KiB:1MiB:32", "--algorithm", "ring,rshd"));
    write("collective.json", command(...dln, "--bytes", "1MiB"));
    write("program.json", command("train", "--device", "dry", "--model", "lenet", "--data", "synthetic", "--samples", "640", "--batch", "32", "--json"));
    write("rows.csv", fs.readFileSync(path.join(process.env.SOURCE, "share/measured/abci_measured.csv"), "utf8").split("\n").slice(0, 40).join("\n"));
    write("validation.json", command("validate", "rows.csv", "--json"));
    const hostile = JSON.parse(fs.readFileSync(path.join(folder, "plan.json")));
    hostile.model = "<img src=x onerror=\"document.title='run'\"><script>document.title='run'</script>\u202e";
    hostile.candidates[0].strategy = "</script><script>document.title='run'</script>";
    write("hostile.json", JSON.stringify(hostile));
    const names = ["plan.json", "simulation.json", "run.jsonl", "sweep.json", "collective.json", "program.json", "validation.json", "hostile.json"];
    for (const name of names) command("report", name, "-o", name.split(".")[0] + ".html");
    command("report", "plan.json", "simulation.json", "run.jsonl", "-o", "several.html");
    command("report", "plan.yaml", "-o", "file.html");
    command("plan", "--model", "resnet-tiny", "--data", "synthetic", "--system", "local", "--devices", "1", "--batch", "32", "--strategy", "serial",
            "-o", "tiny.yaml", "--trace", "projected.json");
    command("train", "tiny.yaml", "--data", "synthetic", "--samples", "128", "--threads", "1", "--epochs", "1", "--lr", "0.01", "--quiet",
            "--trace", "measured.json");
    command("report", "projected.json", "measured.json", "-o", "timelines.html");
    command("plan", "--model", "resnet50", "--system", "abci-v", "--devices", "8", "--batch", "256", "--strategy", "pipeline", "--trace", "stages.json");
    command("report", "stages.json", "-o", "stages.html");
    write("scaling.json", command("plan", "--model", "resnet50", "--system", "abci-v", "--devices", "4..256", "--json"));
    command("report", "scaling.json", "-o", "scaling.html");
    return [...names.map((name) => name.split(".")[0]), "several", "file", "timelines", "stages", "scaling"];
}

/* The policy of a page forbids what drivers evaluate as text in a loop; a function that is sent each time is allowed. */
async function until(page, condition, limit) {
    for (const end = Date.now() + limit; Date.now() < end; await page.waitForTimeout(20)) if (await page.evaluate(condition)) return;
    throw new Error("waited in vain for " + condition);
}

async function open(browser, name, options) {
    const page = await browser.newPage(options), troubles = [];
    page.on("console", (message) => { if (message.type() === "error") troubles.push(message.text()); });
    page.on("pageerror", (error) => troubles.push(error.message));
    page.on("request", (request) => { if (!/^(file|blob|data):/.test(request.url())) troubles.push("asks for " + request.url()); });
    const begin = Date.now();
    await page.goto("file://" + path.join(folder, name + ".html"));
    if (!(options && options.javaScriptEnabled === false) && await page.evaluate(() => document.getElementById("paradl-core") !== null))
        await until(page, () => document.body.dataset.ready === "yes", 20000);
    return {page, troubles, milliseconds: Date.now() - begin};
}

/* A4 less its margins: tables are whole. */
async function onPaper(page, name) {
    await page.emulateMedia({media: "print"});
    await page.setViewportSize({width: 718, height: 1000});
    const clipped = await page.evaluate(() => [...document.querySelectorAll("main table, main svg")].filter((part) => part.getBoundingClientRect().right > innerWidth + 0.5)
        .map((part) => (part.caption || part.querySelector("title")).textContent));
    check(clipped.length === 0, `${name}: too wide on paper: ${clipped.join("; ")}`);
}

async function everyKind(browser, names) {
    for (const name of names) {
        for (const [width, scheme, forced] of [[1280, "light"], [800, "dark"], [400, "light"], [1280, "dark"], [1280, "light", "active"]]) {
            const {page, troubles, milliseconds} = await open(browser, name, {viewport: {width, height: 900}, colorScheme: scheme, forcedColors: forced || "none"});
            check(troubles.length === 0, `${name}: ${troubles.join("; ")}`);
            check(await page.title() !== "run", `${name}: a document was executed`);
            check(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth + 1), `${name}: wider than a screen of ${width}`);
            if (name === "plan" && width === 1280 && scheme === "light" && !forced)
                console.log(`plan: painted after ${(await page.evaluate(() => performance.getEntriesByName("first-contentful-paint")[0].startTime)).toFixed(0)} ms, ` +
                            `ready after ${milliseconds} ms, ${(fs.statSync(path.join(folder, "plan.html")).size / 1e3).toFixed(0)} kB`);
            await page.screenshot({path: path.join(folder, `${name}-${width}-${forced ? "forced" : scheme}.png`)});
            if (width !== 400) {
                await page.evaluate(axe);
                const found = await page.evaluate(() => axe.run({resultTypes: ["violations"]}));
                for (const violation of found.violations)
                    check(false, `${name} ${scheme}: ${violation.id}: ${violation.nodes.slice(0, 3).map((node) => node.html.slice(0, 120)).join(" | ")}`);
            }
            if (width === 1280 && scheme === "dark") await onPaper(page, name);
            await page.close();
        }
        const still = await open(browser, name, {javaScriptEnabled: false}).catch((error) => ({error}));
        if (still.error) throw still.error;
        check((await still.page.$$("h1")).length === 1 && (await still.page.$$("h2, table, svg")).length > 0, `${name}: nothing without script`);
        await still.page.close();
    }
}

async function sameNumbers(page) {
    const plan = JSON.parse(fs.readFileSync(path.join(folder, "plan.json")));
    const rows = await page.$$eval("section table tbody tr", (all) => all.map((row) => row.cells[0].textContent));
    plan.candidates.forEach((candidate, i) => check(rows[i] === candidate.strategy, `row ${i} is ${rows[i]}, not ${candidate.strategy}`));
}

/* To one unit in the last place: the exponential function of another library may give the neighbour. */
function same(a, b) {
    if (typeof a === "number" && typeof b === "number") return a === b || Math.abs(a - b) <= 4.5e-16 * Math.abs(a);
    if (a === null || b === null || typeof a !== "object") return a === b;
    return Object.keys(a).join() === Object.keys(b).join() && Object.keys(a).every((key) => same(a[key], b[key]));
}

/* Words of the command that is shown; only plain ones occur here. */
const shown = async (page) => (await page.textContent("code.again")).split(" ").slice(1);

async function set(page, id, value) {
    await page.evaluate(([id, value]) => {
        const control = document.getElementById(id);
        control.value = value;
        control.dispatchEvent(new Event(control.tagName === "SELECT" ? "change" : "input"));
    }, [id, value]);
}

const settled = (page) => until(page, () => {
    const asked = globalThis.paradl;
    return asked && asked.shown && !asked.busy && JSON.stringify(asked.shown.state) === JSON.stringify(asked.state);
}, 20000);

async function whatIf(browser) {
    const {page, troubles} = await open(browser, "plan", {viewport: {width: 1280, height: 900}}), times = [];
    let seed = 7;
    const random = (count) => (seed = (seed * 48271) % 2147483647) % count;
    await sameNumbers(page);
    for (let i = 0; i < 20; i++) {
        const [id, value] = [["what-devices", 2 ** random(12)], ["what-batch", 2 ** (8 + random(8))], ["what-levels.1.bandwidth", random(7) - 3],
                             ["what-levels.0.latency", random(7) - 3], ["what-device.memory", random(5) - 2], ["what-optimizer", ["sgd", "adam"][random(2)]]][random(6)];
        await set(page, id, String(value));
        if (await page.evaluate(() => Object.keys(paradl.state).length === 0)) continue;
        await settled(page);
        times.push(await page.evaluate(() => paradl.shown.milliseconds));
        const native = spawnSync(paradl, [...await shown(page), "--json"], {encoding: "utf8"}), ours = await page.evaluate(() => paradl.shown.plan);
        const its = native.stdout.startsWith("{") ? JSON.parse(native.stdout) : null;
        check((its === null) === (ours === null), "only one of page and command answers " + await page.textContent("code.again"));
        if (its) check(same(its.candidates, ours.candidates), "other numbers: " + await page.textContent("code.again"));
    }
    times.sort((a, b) => a - b);
    console.log(`what if: ${times.length} settings as by the command, median ${times[times.length >> 1].toFixed(0)} ms`);
    await page.evaluate(async () => { /* 200 changes in 2 s */
        const number = document.getElementById("what-devices");
        for (let i = 0; i < 200; i++) {
            number.value = i === 199 ? 96 : 2 ** (i % 10);
            number.dispatchEvent(new Event("input"));
            await new Promise((resolve) => setTimeout(resolve, 10));
        }
    });
    await settled(page);
    check(await page.evaluate(() => paradl.shown.plan.pe === 96 && paradl.core.most === 1), "the last answer is not that of the last state, or two were asked at once");
    const address = await page.evaluate(() => location.hash);
    const again = await browser.newPage();
    await again.goto("file://" + path.join(folder, "plan.html") + address);
    await settled(again).catch(() => check(false, "a link does not reopen its state"));
    check(await again.evaluate(() => paradl.state.devices === 96), "a link reopens another state");
    await again.close();
    const stopped = await page.evaluate(async () => { /* a search over many devices is ended, and who waits for it hears so at once */
        const asked = paradl.core.ask([...paradl.words({...paradl.state, devices: "1..4096"}), "--json"], false);
        await new Promise((resolve) => setTimeout(resolve, 200));
        const begin = performance.now();
        paradl.core.stop();
        return {answer: await asked, milliseconds: performance.now() - begin};
    });
    check(stopped.answer === null && stopped.milliseconds < 5000, "what is stopped answers");
    console.log(`stop: after ${stopped.milliseconds.toFixed(1)} ms`);
    await set(page, "what-devices", "128");
    await settled(page);
    check(await page.evaluate(() => paradl.shown.plan.pe === 128), "nothing is answered after a stop");
    await until(page, () => paradl.scaling && paradl.scaling.points.some((point) => point.devices === 128) && paradl.beside.textContent.includes("Scaling: "), 60000);
    const over = await page.evaluate(() => paradl.scaling), its = JSON.parse(spawnSync(paradl, [...over.command.slice(1)], {encoding: "utf8", maxBuffer: 1 << 28}).stdout);
    check(same(its.points, over.points), "other numbers over devices than by the command: " + over.command.join(" "));
    check(await page.evaluate(() => new Set([...document.querySelectorAll("[id]")].map((part) => part.id)).size === document.querySelectorAll("[id]").length), "ids occur twice beside the scaling");
    await page.click("text=which strategy wins?");
    await until(page, () => document.querySelectorAll(".map .win").length >= 20, 60000);
    await page.screenshot({path: path.join(folder, "map.png")});
    await page.click("text=reset");
    check((await page.textContent(".document h2")).includes("512 devices"), "reset does not bring the document back");
    check(troubles.length === 0, "what if: " + troubles.join("; "));
    await page.close();
}

/* Collectives: another network, more hosts, a failed link, as the command says; errors are its own. */
async function whatIfNetwork(browser) {
    const {page, troubles} = await open(browser, "collective", {viewport: {width: 1280, height: 900}});
    for (const [id, value] of [["what-bytes", "65536"], ["what-hosts", "8"], ["what-link-bandwidth", "25GB/s"], ["what-fail-link", "s0-s1"], ["what-collective", "allgather"],
                               ["what-topology", "torus"], ["what-hosts-per-switch", ""]]) {
        await page.evaluate(([id, value]) => {
            const control = document.getElementById(id);
            control.value = value;
            control.dispatchEvent(new Event(control.type === "number" ? "input" : "change"));
        }, [id, value]);
        await settled(page);
        const native = spawnSync(paradl, [...await shown(page), "--json"], {encoding: "utf8"}), ours = await page.evaluate(() => paradl.shown.plan);
        const its = native.stdout.startsWith("{") ? JSON.parse(native.stdout) : null;
        check((its === null) === (ours === null), "only one of page and command answers " + await page.textContent("code.again"));
        const timed = (answer) => (answer.candidates || [answer]).map((candidate) => [candidate.algorithm, candidate.time_s]);
        if (its) check(same(timed(its), timed(ours)), "other numbers: " + await page.textContent("code.again"));
        else check((await page.textContent(".difference")).trim() === native.stderr.replace(/^paradl: /, "").trim(), "another message: " + await page.textContent(".difference"));
    }
    await page.click("text=reset");
    await page.click("text=over all sizes");
    await until(page, () => document.querySelector("main section svg") !== null && /Sweep over bytes/.test(document.querySelector("main").textContent), 60000);
    await page.screenshot({path: path.join(folder, "what-network.png")});
    check(troubles.length === 0, "what if of a collective: " + troubles.join("; "));
    await page.close();
}

/* Files that are dropped: documents are shown, descriptions are asked with, the rest is refused in a line. */
async function drops(browser) {
    const {page, troubles} = await open(browser, "plan", {viewport: {width: 1280, height: 900}}), share = path.join(process.env.SOURCE, "share");
    const drop = async (name, text) => {
        await page.evaluate(([name, text]) => drops.take([new File([text], name)]), [name, text]);
        return page.textContent(".dropped");
    };
    for (const [name, text, wanted] of [["notes.txt", "nonsense", /^notes.txt: it is no document/], ["new.json", '{"paradl": "plan-result/9"}', /newer/], ["half.json", '{"paradl": "plan-res', /half.json: /],
                                        ["run.jsonl", fs.readFileSync(path.join(folder, "run.jsonl"), "utf8"), /paradl report run.jsonl makes one/], ["bad.yaml", "paradl: model/1\nname: [a", /line 2: a comma or a bracket/],
                                        ["<img src=x onerror=alert(1)>.json", "{}", /^<img src=x onerror=alert\(1\)>.json: it is no document/], ["plan.yaml", fs.readFileSync(path.join(folder, "plan.yaml"), "utf8"), /plan cannot be shown/]]) {
        const said = await drop(name, text);
        check(wanted.test(said), `${name} is answered: ${said}`);
    }
    for (const name of ["collective.json", "hostile.json"]) check(/shown below/.test(await drop(name, fs.readFileSync(path.join(folder, name), "utf8"))), name + " is not shown");
    check(await page.title() !== "run", "a document that was dropped is executed");
    check(await page.evaluate(() => new Set([...document.querySelectorAll("[id]")].map((part) => part.id)).size === document.querySelectorAll("[id]").length), "ids occur twice");
    await page.evaluate(axe);
    for (const violation of (await page.evaluate(() => axe.run({resultTypes: ["violations"]}))).violations) check(false, "dropped: " + violation.id + ": " + violation.nodes[0].html.slice(0, 120));
    for (const [kind, name] of [["models", "vgg16"], ["systems", "dgx-h100"]]) {
        const file = path.join(share, kind, name + ".yaml");
        fs.copyFileSync(file, path.join(folder, name + ".yaml"));
        await drop(name + ".yaml", fs.readFileSync(file, "utf8"));
        await settled(page);
        const words = await shown(page), native = JSON.parse(spawnSync(paradl, [...words, "--json"], {encoding: "utf8", cwd: folder}).stdout), ours = await page.evaluate(() => paradl.shown.plan);
        check(words.includes(name + ".yaml") && same(native.candidates, ours.candidates), "other numbers: " + words.join(" "));
    }
    check(await page.evaluate(() => document.getElementById("what-levels.1.bandwidth") !== null), "no controls for the system that was dropped");
    check(troubles.length === 0, "dropped: " + troubles.join("; "));
    await page.close();
}

async function timelines(browser) {
    const {page, troubles} = await open(browser, "timelines", {viewport: {width: 1280, height: 900}});
    await until(page, () => globalThis.timelines && timelines.length === 2, 20000);
    const events = JSON.parse(fs.readFileSync(path.join(folder, "measured.json"))).traceEvents.filter((event) => event.ph === "X");
    check(await page.evaluate(() => timelines[1].count) === events.length, "the timeline has not all operations");
    const sum = events.filter((event) => event.name.startsWith("forward ")).reduce((all, event) => all + event.dur, 0);
    const sums = await page.evaluate(() => { /* seconds of a class over all of the time */
        const line = timelines[1];
        let all = 0;
        for (let i = 0; i < line.count; i++) if (line.texts[line.name[i]].startsWith("forward ")) all += line.end[i] - line.start[i];
        return {all: all / 1e3, said: line.sums(line.first, line.last)};
    });
    check(Math.abs(sums.all - sum) < 1e-6 * sum && /forward [0-9.]+ [mun]?s/.test(sums.said), `forward takes ${sum} us, not ${sums.all}: ${sums.said}`);
    const hit = await page.evaluate(() => { /* what is under the middle of an operation is that operation */
        const line = timelines[1];
        let longest = 0;
        for (let i = 0; i < line.count; i++) if (line.end[i] - line.start[i] > line.end[longest] - line.start[longest]) longest = i;
        const x = ((line.start[longest] + line.end[longest]) / 2 - line.from) / (line.to - line.from) * line.canvas.clientWidth;
        return line.at(x, (line.trackOf(longest) + 0.5) * line.row) === longest;
    });
    check(hit, "another operation is under the pointer");
    const beside = await page.$$eval("section figure.timeline figcaption", (all) => all.map((text) => text.textContent.split(" (")[0]));
    check(beside[0] === "measured" && beside[1] === "projected", "timelines are not beside each other: " + beside.join(", "));
    check(await page.evaluate(() => timelines[0].last - timelines[0].first === timelines[1].last - timelines[1].first), "two scales of time");
    await page.focus("#d1 canvas[tabindex]");
    const span = () => page.evaluate(() => timelines[1].to - timelines[1].from), before = await span();
    await page.keyboard.press("w");
    await page.keyboard.press("d");
    check(await span() < before, "w does not zoom");
    check(await page.evaluate(() => Math.abs((timelines[0].from - timelines[0].first) - (timelines[1].from - timelines[1].first)) < 1 &&
                                    Math.abs((timelines[0].to - timelines[0].from) - (timelines[1].to - timelines[1].from)) < 1), "timelines do not move together");
    await page.keyboard.press("m");
    await page.keyboard.press("a");
    await page.keyboard.press("m");
    check(/^selected .* to .*: /.test(await page.textContent("#d1 .moves p")), "two marks select nothing");
    await page.keyboard.press("f");
    check(await span() < before, "f does not show the selection");
    await page.keyboard.press("f");
    check(await span() === before, "f does not show all");
    await page.keyboard.press("/");
    await page.keyboard.type("conv1");
    const found = await page.textContent("#d1 .moves p");
    check(found === events.filter((event) => event.name.includes("conv1")).length + " operations have this text", found);
    check(troubles.length === 0, "timeline: " + troubles.join("; "));
    await page.close();
}

/* 100,000 and a million operations on 64 tracks: the size of the page, and how long it takes to open and to draw. */
async function largeTimelines(browser) {
    for (const [count, most, opens, frame] of [[1e5, 1.5e6, 2000, 33], [1e6, 12e6, 6000, 100]]) {
        const rows = [];
        for (let rank = 0, seed = 1; rank < 64; rank++)
            for (let i = 0, at = 0; i < count / 64; i++) {
                seed = (seed * 48271) % 2147483647;
                const lasts = 1e5 + seed % 5e3, name = i % 100 === 99 ? "update" : (i % 100 < 50 ? "forward" : "backward") + " h." + i % 50 + ".mlp";
                rows.push(`{"ph": "X", "name": "${name}", "pid": ${rank}, "cat": "compute", "tid": 0, "ts": ${at / 1e3}, "dur": ${lasts / 1e3}, "args": {"micro_batch": 0}}`);
                at += lasts + seed % 500;
            }
        write("large.json", '{"paradl": "trace/1", "command": ["paradl", "train"], "traceEvents": [\n' + rows.join(",\n") + "]}\n");
        const begin = Date.now();
        command("report", "large.json", "--max-events", String(2 * count), "-o", "large.html");
        const made = Date.now() - begin, bytes = fs.statSync(path.join(folder, "large.html")).size, {page, troubles, milliseconds} = await open(browser, "large", {viewport: {width: 1280, height: 900}});
        await until(page, () => globalThis.timelines !== undefined, 20000);
        const drawn = await page.evaluate(() => {
            const line = timelines[0], times = [];
            for (let i = 0; i < 20; i++) {
                line.zoom(0.8, 0.01, 0.5);
                times.push(line.milliseconds);
            }
            return {count: line.count, times: times.sort((a, b) => a - b)};
        });
        check(drawn.count === rows.length && bytes < most, `a page of ${count} operations has ${drawn.count} and ${bytes} bytes`);
        console.log(`timeline of ${count} operations: made in ${made} ms, ${(bytes / 1e6).toFixed(2)} MB, loaded after ${milliseconds} ms, ` +
                    `a frame ${drawn.times[10].toFixed(0)} ms, 95 % within ${drawn.times[18].toFixed(0)} ms`);
        if (drawn.times[18] > frame || milliseconds > opens) console.log(`  slower than ${frame} ms a frame or ${opens} ms to open: a busy machine?`);
        check(troubles.length === 0, "large timeline: " + troubles.join("; "));
        await page.close();
        fs.unlinkSync(path.join(folder, "large.json"));
    }
}

/* Stages: every message has an arrow, and the critical path is as long as the timeline. */
async function arrows(browser) {
    const {page, troubles} = await open(browser, "stages", {viewport: {width: 1280, height: 900}});
    await until(page, () => globalThis.timelines !== undefined, 20000);
    const events = JSON.parse(fs.readFileSync(path.join(folder, "stages.json"))).traceEvents.filter((event) => event.ph === "X");
    const found = await page.evaluate(() => {
        const line = timelines[0], ends = line.arrows.map(([from, to]) => [line.texts[line.name[from]].replace("send ", ""), line.texts[line.name[to]].replace("receive ", ""), line.end[to] >= line.start[from]]);
        return {arrows: ends.length, fit: ends.every(([sent, got, later]) => sent === got && later), long: line.critical.reduce((sum, own) => sum + Math.max(0, own), 0), all: line.last - line.first};
    });
    check(found.arrows === events.filter((event) => event.name.startsWith("receive ")).length && found.fit, `${found.arrows} arrows, or between other tensors`);
    check(Math.abs(found.long / found.all - 1) < 1e-3, `the critical path takes ${found.long} of ${found.all} ns`);
    await page.focus("#d0 canvas[tabindex]");
    await page.keyboard.press("p");
    check(/^only the critical path is lit: \d+ operations/.test(await page.textContent("#d0 .moves p")), "p does not light the path");
    await page.screenshot({path: path.join(folder, "path.png")});
    check(troubles.length === 0, "arrows: " + troubles.join("; "));
    await page.close();
}

async function runCurves(browser) {
    const {page} = await open(browser, "run", {viewport: {width: 1280, height: 900}});
    const log = fs.readFileSync(path.join(folder, "run.jsonl"), "utf8").trim().split("\n").map((line) => JSON.parse(line)).filter((line) => line.step);
    await page.focus("svg.chart[data-over=update]");
    await page.keyboard.press("Home");
    for (let i = 0; i < 4; i++) await page.keyboard.press("ArrowRight");
    const said = await page.textContent(".curves"), drawn = await page.evaluate(() => document.querySelectorAll(".cursor[d]").length);
    check(said.startsWith(`update ${log[4].step}, loss ${log[4].loss.toPrecision(4)}, `), "a curve says: " + said);
    check(drawn >= 3 && await page.evaluate(() => new Set([...document.querySelectorAll(".cursor[d]")].map((line) => line.getAttribute("d").split(" ")[0])).size) <= 2,
          `${drawn} cursors, not at one place`);
    await page.close();
}

/* Another language of the browser changes no text. */
async function languages(browser) {
    const texts = [];
    for (const locale of ["en-US", "de-DE", "ar-EG"]) {
        const {page} = await open(browser, "plan", {viewport: {width: 1280, height: 900}, locale});
        await set(page, "what-devices", "64");
        await settled(page);
        texts.push(await page.evaluate(() => document.body.innerText));
        await page.close();
    }
    check(texts.every((text) => text === texts[0]), "another language gives other texts");
}

/* Texts have 4.5:1, marks 3:1, on both grounds. */
async function contrast(browser) {
    for (const colorScheme of ["light", "dark"]) {
        const {page} = await open(browser, "run", {viewport: {width: 1280, height: 900}, colorScheme});
        const low = await page.evaluate(() => {
            const style = getComputedStyle(document.documentElement), light = (name) => {
                const part = [1, 3, 5].map((at) => parseInt(style.getPropertyValue(name).trim().slice(at, at + 2), 16) / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
                return 0.2126 * part[0] + 0.7152 * part[1] + 0.0722 * part[2];
            };
            const ratio = (a, b) => (Math.max(light(a), light(b)) + 0.05) / (Math.min(light(a), light(b)) + 0.05), found = [];
            for (const [names, grounds, least] of [[["--ink", "--muted"], ["--paper", "--tint"], 4.5], [[0, 1, 2, 3, 4, 5, 6, 7].map((i) => "--hue" + i), ["--paper"], 3]])
                for (const name of names) for (const ground of grounds) if (!(ratio(name, ground) >= least)) found.push(`${name} on ${ground} ${ratio(name, ground).toFixed(2)}`);
            return found;
        });
        check(low.length === 0, `too little contrast on a ${colorScheme} ground: ${low.join("; ")}`);
        await page.close();
    }
}

/* Everything that can be used is reached by the tab key, in the order of the page. */
async function byTab(browser) {
    const {page} = await open(browser, "plan", {viewport: {width: 1280, height: 900}});
    const wanted = await page.evaluate(() => {
        const all = [...document.querySelectorAll("a[href], button, input, select, summary, [tabindex='0']")].filter((part) => part.tabIndex >= 0 && part.getClientRects().length > 0);
        all.forEach((part, i) => { part.dataset.place = i; });
        return all.length;
    });
    const reached = [];
    for (let i = 0; i < wanted; i++) {
        await page.keyboard.press("Tab");
        reached.push(await page.evaluate(() => Number(document.activeElement.dataset.place ?? -1)));
    }
    const first = reached.findIndex((place, i) => place !== i);
    const missed = await page.evaluate((i) => (document.querySelector(`[data-place="${i}"]`) || {outerHTML: ""}).outerHTML.slice(0, 100), first);
    check(wanted > 50 && first < 0, `the tab key reaches part ${reached[first]} as number ${first} of ${wanted}, not ${missed}`);
    await page.close();
}

async function byKeys(browser) {
    const {page} = await open(browser, "plan", {viewport: {width: 1280, height: 900}});
    await page.focus("svg.chart");
    await page.keyboard.press("ArrowRight");
    check((await page.textContent(".unseen[aria-live]")).length > 3, "a chart says nothing");
    await page.focus("#what-devices-range");
    await page.keyboard.press("PageUp");
    await settled(page);
    check(await page.evaluate(() => paradl.state.devices === 1024), "page up does not double the devices");
    await page.click("text=reset"); /* the document itself, with layers and roofline */
    await page.emulateMedia({media: "print"});
    const pdf = await page.pdf({format: "A4", margin: {top: "1cm", bottom: "1cm", left: "1cm", right: "1cm"}, path: path.join(folder, "plan.pdf")});
    const pages = Math.max(...[...pdf.toString("latin1").matchAll(/\/Count (\d+)/g)].map((found) => Number(found[1])));
    console.log(`print: ${pages} pages`);
    check(pages >= 1 && pages <= 12, `${pages} printed pages`);
    await page.close();
}

(async () => {
    const names = makePages();
    const browser = await chromium.launch({executablePath: process.env.CHROMIUM || "/usr/bin/chromium", args: ["--no-sandbox"]});
    try {
        await everyKind(browser, names);
        await whatIf(browser);
        await whatIfNetwork(browser);
        await drops(browser);
        await runCurves(browser);
        await byKeys(browser);
        await byTab(browser);
        await languages(browser);
        await contrast(browser);
        await timelines(browser);
        await arrows(browser);
        await largeTimelines(browser);
    } finally {
        await browser.close();
    }
    console.log(failures > 0 ? `${failures} failures` : "all as expected");
    process.exit(failures > 0 ? 1 : 0);
})();
