/*
 * The pictures of the documents: screenshots.js PARADL SCRATCH IMAGES. Times depend on nothing but descriptions, so the same sources and the
 * same browser give the same pictures.
 */
"use strict";
const fs = require("fs"), path = require("path"), {spawnSync} = require("child_process");
const {chromium} = require("playwright-core");
const [paradl, scratch, images] = process.argv.slice(2);

const command = (...words) => {
    const done = spawnSync(paradl, words, {encoding: "utf8", maxBuffer: 1 << 28, cwd: scratch});
    if (done.status !== 0) throw new Error(`paradl ${words.join(" ")}: ${done.stderr}`);
    return done.stdout;
};
async function until(page, condition) {
    for (const end = Date.now() + 120000; Date.now() < end; await page.waitForTimeout(50)) if (await page.evaluate(condition)) return;
    throw new Error("waited in vain for " + condition);
}
const plan = ["plan", "--model", "resnet50", "--system", "abci-v", "--data", "imagenet"];

/* Other devices and links in the panel, and the map of the best strategies. */
async function whatIf(browser) {
    fs.writeFileSync(path.join(scratch, "plan.json"), command(...plan, "--devices", "512", "--json", "--layers", "--explain"));
    command("report", "plan.json", "-o", "what_if.html");
    const page = await browser.newPage({viewport: {width: 1280, height: 860}}), state = {devices: 256, "levels.1.bandwidth": "25GB/s"};
    await page.goto("file://" + path.join(scratch, "what_if.html") + "#what=" + encodeURIComponent(JSON.stringify(state)));
    await until(page, () => globalThis.paradl && paradl.shown && !paradl.busy);
    await page.click("text=which strategy wins?");
    await until(page, () => document.querySelector(".map") && document.querySelector("progress") === null);
    await page.screenshot({path: path.join(images, "what_if.png")});
    await page.close();
}

/* Stages of a pipeline, with messages and the critical path. */
async function timeline(browser) {
    command(...plan, "--devices", "4", "--batch", "128", "--strategy", "pipeline", "--trace", "stages.json");
    command("report", "stages.json", "-o", "timeline.html");
    const page = await browser.newPage({viewport: {width: 1280, height: 900}});
    await page.goto("file://" + path.join(scratch, "timeline.html"));
    await until(page, () => globalThis.timelines !== undefined);
    await (await page.$(".moves")).screenshot({path: path.join(images, "timeline.png")});
    await page.close();
}

(async () => {
    const browser = await chromium.launch({executablePath: process.env.CHROMIUM || "/usr/bin/chromium", args: ["--no-sandbox"]});
    try {
        await timeline(browser);
        await whatIf(browser);
    } finally {
        await browser.close();
    }
})();
