/*
 * The core of pages against the command: core.js PARADL SCRATCH short|all. Every page brings the core and the descriptions that
 * it asks, so what is tried is what a browser would run. Plans: the same documents, numbers to one unit in the last place.
 * Settings: the same bytes of the table, with values of the system changed.
 */
"use strict";
const fs = require("fs"), zlib = require("zlib"), path = require("path"), {spawnSync} = require("child_process");
const {runCore, bytesOf} = require(path.join(process.env.SOURCE, "share/report/core.js")), {yamlToJson} = require(path.join(process.env.SOURCE, "share/report/yaml.js"));
const [paradl, scratch, extent] = process.argv.slice(2);

const command = (words) => spawnSync(paradl, words, {encoding: "utf8", maxBuffer: 1 << 28, timeout: 60000});
const packed = (page, id) => {
    const begin = page.indexOf(`id="${id}">`);
    if (begin < 0) throw new Error(`the page has no ${id}: is the core built?`);
    return zlib.gunzipSync(bytesOf(page.slice(begin + id.length + 6, page.indexOf("</script>", begin))));
};

/* One unit in the last place. */
function near(a, b) {
    const bits = new BigInt64Array(new Float64Array([a, b]).buffer), apart = bits[0] - bits[1];
    return apart >= -1n && apart <= 1n;
}

/* How long the search took is another thing each time. */
const timeless = (text) => text.replace(/^(search: .*), in [^:]*:/m, "$1:");

let exact = 0, off = 0;
function compare(ours, its, where) {
    if (typeof ours === "number" && typeof its === "number") {
        if (ours === its) exact++;
        else if (near(ours, its)) off++;
        else throw new Error(`${where}: ${ours} in the page, ${its} by the command`);
    } else if (ours !== null && its !== null && typeof ours === "object" && typeof its === "object") {
        const keys = Object.keys(its);
        if (Object.keys(ours).join() !== keys.join()) throw new Error(`${where}: other keys`);
        for (const key of keys) if (!(where.includes(".search") && key === "seconds")) compare(ours[key], its[key], `${where}.${key}`);
    } else if (ours !== its) {
        throw new Error(`${where}: ${ours} in the page, ${its} by the command`);
    }
}

let core = null, failures = 0;
const read = new Set();
/* The page reads descriptions that are dropped on it as the command does: the JSON of YAML is the same, byte for byte. */
function compareDescriptions(files) {
    for (const [name, body] of files) {
        const source = path.join(process.env.SOURCE, name);
        if (read.has(name) || !name.endsWith(".yaml") || !fs.existsSync(source)) continue;
        read.add(name);
        const ours = yamlToJson(fs.readFileSync(source, "utf8")), its = JSON.stringify(JSON.parse(body));
        if (JSON.stringify(JSON.parse(ours)) === its) continue;
        failures++;
        console.log(`${name}: other JSON in the page`);
    }
}
function openPage(words) {
    const plan = path.join(scratch, "plan.json"), page = path.join(scratch, "page.html");
    fs.writeFileSync(plan, command([...words, "--json"]).stdout);
    const made = command(["report", plan, "-o", page]);
    if (made.status !== 0) throw new Error(made.stderr);
    const text = fs.readFileSync(page, "utf8");
    core = core || new WebAssembly.Module(packed(text, "paradl-core"));
    const files = Object.entries(JSON.parse(packed(text, "paradl-files")));
    compareDescriptions(files);
    return {plan: JSON.parse(fs.readFileSync(plan)), size: text.length, files: new Map(files.map(([name, body]) => [name, Buffer.from(body)]))};
}

const machines = {"abci-v": [64, 512], selene: [64, 1536], "h200-paradl": [1]};
const models = fs.readdirSync(path.join(process.env.SOURCE, "share/models")).filter((name) => name.endsWith(".yaml")).map((name) => name.slice(0, -5));
const few = ["lenet", "resnet50", "gpt2-1.5b"];
let plans = 0, refused = 0, largest = 0, times = [];
for (const model of extent === "all" ? models : few)
    for (const [system, devices] of Object.entries(machines)) {
        const words = ["plan", "--model", model, "--system", system, "--devices", String(devices[plans % devices.length])];
        try {
            const native = command([...words, "--json"]);
            if (native.stdout === null || !native.stdout.startsWith("{")) {
                refused++; /* both refuse what cannot be planned at all; there is no page of it */
                continue;
            }
            const page = openPage(words), begin = performance.now(), ours = runCore(core, [...words, "--json"], page.files);
            times.push(performance.now() - begin);
            largest = Math.max(largest, page.size);
            if (ours.status !== native.status) throw new Error(`status ${ours.status} in the page, ${native.status} by the command`);
            if (ours.error.split("\n").pop() !== native.stderr.split("\n").pop()) throw new Error("other messages");
            const document = JSON.parse(ours.out), its = JSON.parse(native.stdout);
            delete document.command;
            delete its.command;
            compare(document, its, "");
            plans++;
        } catch (error) {
            failures++;
            console.log(`${words.join(" ")}: ${error.message}`);
        }
    }

/* Settings that sliders give, the same each time. */
let seed = 1;
const random = (count) => (seed = (seed * 48271) % 2147483647) % count;
const pick = (list) => list[random(list.length)];
const systems = {"abci-v": ["levels.0.bandwidth=100GB/s", "levels.1.bandwidth=6.25GB/s", "levels.3.latency=10us", "device.memory=32GB", "levels.9.latency=1us"],
                 "dgx-h100": ["levels.0.bandwidth=200GB/s", "device.memory=40GB", "device.memory_bandwidth=6TB/s"]};
let settings = 0;
for (const model of extent === "all" ? ["resnet50", "vgg16", "gpt2-1.5b", "bert-large"] : ["resnet50"])
    for (const system of Object.keys(systems)) {
        const page = openPage(["plan", "--model", model, "--system", system, "--devices", "8"]);
        for (let i = 0; i < (extent === "all" ? 8 : 3); i++) {
            const words = ["plan", "--model", model, "--system", system, "--devices", String(2 ** random(10)), "--set", pick(systems[system]),
                           "--optimizer", pick(["sgd", "momentum", "adam"]), "--batch", String(2 ** (6 + random(10)))];
            const native = command(words), ours = runCore(core, words, page.files);
            if (ours.status !== native.status || timeless(ours.out) !== timeless(native.stdout) || ours.error.replace(/\/share/g, "") !== native.stderr.replace(/\S*\/share/g, "")) {
                failures++;
                console.log(`${words.join(" ")}: other output in the page:\n${ours.out}${ours.error}by the command:\n${native.stdout}${native.stderr}`);
            } else settings++;
        }
    }
times.sort((a, b) => a - b);
for (const [text, wanted] of [["a: &x 1", "anchors"], ["a: 1\na: 2", "twice"], ["a: [1, 2", "bracket"], ["a: 'b", "quote"], ["a:\n  b: 1\n c: 2", "belongs"], ["a: b: c", "colon"],
                              ["a: 1\n\tb: 2", "tab"], ["[".repeat(1000), "nesting"], ["a: {,}", "key"], ["- a\nb: 1", "belongs"]])
    try {
        console.log(`${JSON.stringify(text)} is read as ${yamlToJson(text)}`);
        failures++;
    } catch (error) {
        if (!/^line \d+: /.test(error.message) || !error.message.includes(wanted)) failures++, console.log(`${JSON.stringify(text)}: ${error.message}`);
    }
console.log(`${read.size} descriptions read as by the command`);
console.log(`${plans} plans and ${settings} settings as by the command (${exact} numbers equal, ${off} off by one unit), ${refused} refused; ` +
            `median ${times[times.length >> 1].toFixed(0)} ms, largest page ${(largest / 1e3).toFixed(0)} kB`);
if (largest > 800e3) {
    console.log("a page is larger than 800 kB");
    failures++;
}
process.exit(failures > 0 ? 1 : 0);
