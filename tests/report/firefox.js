/*
 * Pages in Firefox: firefox.js FIREFOX PARADL FOLDER, where browser.js left the pages. They open as files, run under their policy, and answer
 * as the command does. Speaks Marionette, Firefox's own protocol, so it needs nothing but node.
 */
"use strict";
const fs = require("fs"), net = require("net"), path = require("path"), os = require("os"), {spawn, spawnSync} = require("child_process");
const [firefox, paradl, folder] = process.argv.slice(2), port = 20000 + process.pid % 20000;
const profile = fs.mkdtempSync(path.join(os.tmpdir(), "paradl-firefox-"));
fs.writeFileSync(path.join(profile, "user.js"), `user_pref("marionette.port", ${port});\nuser_pref("app.update.enabled", false);\n`);
const child = spawn(firefox, ["--headless", "--marionette", "--no-remote", "--profile", profile], {stdio: "ignore", env: {...process.env, HOME: profile}});
const pause = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));
let failures = 0, asked = 0, socket, bytes = Buffer.alloc(0);
const waiting = new Map(), check = (condition, text) => {
    if (condition) return;
    failures++;
    console.log("FAILED: " + text);
};

async function connect() {
    for (const end = Date.now() + 60000; Date.now() < end; await pause(100)) {
        const made = await new Promise((resolve) => {
            const one = net.connect(port, "127.0.0.1", () => resolve(one));
            one.on("error", () => resolve(null));
        });
        if (!made) continue;
        made.on("data", (part) => { /* LENGTH:[1, id, error, result] */
            bytes = Buffer.concat([bytes, part]);
            for (let colon; (colon = bytes.indexOf(58)) > 0;) {
                const length = Number(bytes.subarray(0, colon));
                if (bytes.length < colon + 1 + length) break;
                const message = JSON.parse(bytes.subarray(colon + 1, colon + 1 + length));
                bytes = bytes.subarray(colon + 1 + length);
                if (Array.isArray(message) && waiting.has(message[1])) waiting.get(message[1])(message);
            }
        });
        return made;
    }
    throw new Error("Firefox does not answer");
}

/* An answer is waited for a minute at most: a browser that hangs fails the test and says in what. */
async function send(name, parameters) {
    const id = ++asked, text = JSON.stringify([0, id, name, parameters]);
    let timer;
    const answer = await new Promise((resolve, reject) => {
        timer = setTimeout(() => reject(new Error("Firefox does not answer " + text.slice(0, 300))), 60000);
        waiting.set(id, resolve);
        socket.write(Buffer.byteLength(text) + ":" + text);
    }).finally(() => clearTimeout(timer));
    waiting.delete(id);
    if (answer[2]) throw new Error(name + ": " + answer[2].message);
    return answer[3];
}

const run = async (script) => (await send("WebDriver:ExecuteScript", {script, args: [], newSandbox: true})).value;
async function until(script, limit) {
    for (const end = Date.now() + limit; Date.now() < end; await pause(50)) if (await run(script)) return;
    throw new Error("waited in vain for " + script);
}

async function everyKind() {
    const names = fs.readdirSync(folder).filter((name) => name.endsWith(".html") && name !== "large.html");
    for (const name of names) {
        await send("WebDriver:Navigate", {url: "file://" + path.join(folder, name)});
        check(await run("return document.querySelectorAll('h1').length === 1 && document.title !== 'run'"), `${name}: no heading, or a document was executed`);
        check(await run("return document.documentElement.scrollWidth <= innerWidth + 1"), `${name}: wider than the screen`);
        check(await run("return document.querySelector('.tools') !== null"), `${name}: the script has not run`);
    }
    return names.length;
}

async function answers() {
    const state = encodeURIComponent(JSON.stringify({devices: 64, "levels.1.bandwidth": "25GB/s"})), begin = Date.now();
    await send("WebDriver:Navigate", {url: "file://" + path.join(folder, "plan.html") + "#what=" + state});
    await until("const asked = (window.wrappedJSObject || window).paradl; return !!(asked && asked.shown && !asked.busy)", 30000);
    const milliseconds = Date.now() - begin, ours = JSON.parse(await run("return JSON.stringify((window.wrappedJSObject || window).paradl.shown.plan.candidates)"));
    const words = (await run("return document.querySelector('code.again').textContent")).split(" ").slice(1);
    const its = JSON.parse(spawnSync(paradl, [...words, "--json"], {encoding: "utf8", maxBuffer: 1 << 28}).stdout).candidates;
    const near = (a, b) => a === b || Math.abs(a - b) <= 4.5e-16 * Math.abs(a);
    check(ours.length === its.length && its.every((one, i) => one.strategy === ours[i].strategy && (one.total_s === undefined || near(one.total_s, ours[i].total_s))),
          "other numbers than the command: " + words.join(" "));
    return milliseconds;
}

(async () => {
    try {
        socket = await connect();
        const session = await send("WebDriver:NewSession", {});
        const count = await everyKind(), milliseconds = await answers();
        console.log(`Firefox ${session.capabilities.browserVersion}: ${count} pages, a link answered after ${milliseconds} ms` + (failures > 0 ? `, ${failures} failures` : ""));
    } catch (error) {
        failures++;
        console.log("FAILED: " + error.message);
    } finally {
        child.kill("SIGKILL"); /* one that hangs does not hear of less */
        await pause(500);
        fs.rmSync(profile, {recursive: true, force: true, maxRetries: 5, retryDelay: 200});
    }
    process.exit(failures > 0 ? 1 : 0);
})();
