/*
 * Opens a page in Chromium and prints what an expression gives once it gives something: ask.js BROWSER PROFILE ADDRESS EXPRESSION.
 * Speaks with the browser through a pipe, so it needs nothing but node.
 */
"use strict";
const {spawn} = require("child_process");
const [browser, profile, address, expression] = process.argv.slice(2);
const child = spawn(browser, ["--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", "--user-data-dir=" + profile, "about:blank"],
                    {stdio: ["ignore", "ignore", "ignore", "pipe", "pipe"]});
const waiting = new Map();
let text = "", sent = 0;
child.stdio[4].on("data", (part) => {
    text += part;
    for (let end; (end = text.indexOf("\0")) >= 0; text = text.slice(end + 1)) {
        const message = JSON.parse(text.slice(0, end));
        if (waiting.has(message.id)) waiting.get(message.id)(message.result || message);
    }
});
const send = (method, params, sessionId) => new Promise((resolve) => {
    waiting.set(++sent, resolve);
    child.stdio[3].write(JSON.stringify({id: sent, method, params, sessionId}) + "\0");
});

(async () => {
    const {targetId} = await send("Target.createTarget", {url: address});
    const {sessionId} = await send("Target.attachToTarget", {targetId, flatten: true});
    for (const end = Date.now() + 60000; Date.now() < end; await new Promise((resolve) => setTimeout(resolve, 50))) {
        const {result} = await send("Runtime.evaluate", {expression, returnByValue: true}, sessionId);
        if (!result || !result.value) continue;
        console.log(result.value);
        await send("Browser.close", {});
        return;
    }
    console.log("nothing came");
    child.kill();
    process.exitCode = 1;
})();
