/*
 * How pages look: pictures.js PARADL FOLDER [write]. Pages of the documents in tests/report/documents, which no change of the cost model changes, are
 * compared with the pictures in tests/report/pictures, or these are made anew. Pictures have a quarter of the pixels along each side, so that they are
 * small and letters of another version of a font matter little. A pixel differs where one of its colours does by more than 48 of 255; up to 2 % of the pixels
 * may. What differs more is left in FOLDER beside what was expected, and with the difference in red.
 */
"use strict";
const fs = require("fs"), path = require("path"), {spawnSync} = require("child_process");
const {chromium} = require("playwright-core");
const [paradl, folder, mode] = process.argv.slice(2), here = path.join(process.env.SOURCE, "tests/report");
const documents = path.join(here, "documents"), pictures = path.join(here, "pictures");
const STEP = 48, SHARE = 0.02, HEIGHT = 2600;
const forms = [[1280, "light"], [800, "dark"], [400, "light"]];

function makePages() {
    const pages = fs.readdirSync(documents).map((file) => [file.replace(/\..*/, ""), [file]]);
    pages.push(["several", ["plan.json", "simulation.json", "run.jsonl"]]);
    for (const [name, files] of pages) {
        const done = spawnSync(paradl, ["report", ...files, "-o", path.join(folder, name + "-look.html")], {encoding: "utf8", cwd: documents});
        if (done.status !== 0) throw new Error(done.stderr);
    }
    return pages.map(([name]) => name);
}

async function take(browser, name, width, scheme) {
    const page = await browser.newPage({viewport: {width, height: 900}, colorScheme: scheme, deviceScaleFactor: 0.25, reducedMotion: "reduce"});
    await page.goto("file://" + path.join(folder, name + "-look.html"));
    for (const end = Date.now() + 20000; Date.now() < end; await page.waitForTimeout(20)) /* the script has done all that it does by itself */
        if (await page.evaluate(() => document.body.dataset.ready === "yes" || (document.querySelector(".tools") && !document.getElementById("paradl-core") &&
                                      (!document.querySelector("figure.timeline") || globalThis.timelines !== undefined)))) break;
    await page.setViewportSize({width, height: Math.min(HEIGHT, await page.evaluate(() => document.documentElement.scrollHeight))});
    await page.waitForTimeout(50);
    const picture = await page.screenshot();
    await page.close();
    return picture;
}

/* In the browser, which reads PNG: the share of pixels that differ, and a picture of them. */
function compare([ours, its, step]) {
    const load = (data) => new Promise((resolve, reject) => {
        const image = new Image();
        image.onload = () => resolve(image);
        image.onerror = reject;
        image.src = "data:image/png;base64," + data;
    });
    return Promise.all([load(ours), load(its)]).then(([a, b]) => {
        const width = Math.max(a.width, b.width), height = Math.max(a.height, b.height), context = document.createElement("canvas").getContext("2d");
        Object.assign(context.canvas, {width, height});
        const pixels = (image) => {
            context.clearRect(0, 0, width, height);
            context.drawImage(image, 0, 0);
            return context.getImageData(0, 0, width, height);
        };
        const one = pixels(a), other = pixels(b).data;
        let differ = 0;
        for (let i = 0; i < other.length; i += 4) {
            if (![0, 1, 2, 3].some((k) => Math.abs(one.data[i + k] - other[i + k]) > step)) continue;
            differ++;
            one.data.set([255, 0, 0, 255], i);
        }
        context.putImageData(one, 0, 0);
        return {share: differ / (width * height), sizes: `${a.width} x ${a.height} and ${b.width} x ${b.height}`, picture: context.canvas.toDataURL("image/png").split(",")[1]};
    });
}

(async () => {
    const browser = await chromium.launch({executablePath: process.env.CHROMIUM || "/usr/bin/chromium", args: ["--no-sandbox"]});
    let failures = 0, count = 0, largest = 0;
    try {
        const blank = await browser.newPage();
        for (const name of makePages())
            for (const [width, scheme] of forms) {
                const file = `${name}-${width}-${scheme}.png`, stored = path.join(pictures, file), picture = await take(browser, name, width, scheme);
                count++;
                if (mode === "write") {
                    fs.writeFileSync(stored, picture);
                    continue;
                }
                const found = fs.existsSync(stored) ? await blank.evaluate(compare, [picture.toString("base64"), fs.readFileSync(stored).toString("base64"), STEP]) : null;
                if (found) largest = Math.max(largest, found.share);
                if (found && found.share <= SHARE) continue;
                failures++;
                fs.writeFileSync(path.join(folder, "ours-" + file), picture);
                if (found) fs.copyFileSync(stored, path.join(folder, "stored-" + file));
                if (found) fs.writeFileSync(path.join(folder, "differs-" + file), Buffer.from(found.picture, "base64"));
                console.log(`FAILED: ${file} ` + (found ? `differs in ${(100 * found.share).toFixed(1)} % of its pixels, sizes ${found.sizes}: see ${folder}` : "is not stored"));
            }
    } finally {
        await browser.close();
    }
    console.log(mode === "write" ? `${count} pictures written` : `${count} pictures compared, ${(100 * largest).toFixed(2)} % of the pixels differ at most, ${failures} failures`);
    if (failures > 0) console.log("where the look was changed on purpose: make screenshots stores pictures anew");
    process.exit(failures > 0 ? 1 : 0);
})();
