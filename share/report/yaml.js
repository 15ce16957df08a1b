/*
 * Descriptions that are dropped on a page, from YAML to the JSON that its core reads: the YAML of our descriptions, which has no anchors, tags
 * or documents one after the other. What the command would refuse, or is not known here, is refused with its line.
 *
 *     yamlToJson("paradl: model/1\nname: small\n")  ->  '{"paradl":"model/1","name":"small"}'
 */
function yamlToJson(text) {
    "use strict";
    const MOST_DEPTH = 60;
    let at = 0, depth = 0;

    const refuse = (problem) => {
        throw new Error("line " + (text.slice(0, at).split("\n").length) + ": " + problem);
    };
    const lineBegin = () => text.lastIndexOf("\n", at - 1) + 1;
    const column = () => at - lineBegin();
    const spaces = () => { while (text[at] === " ") at++; };
    const comment = () => text[at] === "#" && (at === 0 || /\s/.test(text[at - 1]));
    const lineEnds = () => at >= text.length || text[at] === "\n" || text[at] === "\r" || comment();
    /* To the next character of a value, over blanks, comments and ends of lines. */
    const skip = () => {
        for (;; at++) {
            if (comment()) at = (text.indexOf("\n", at) + 1 || text.length + 1) - 1;
            if (at >= text.length || !/\s/.test(text[at])) return;
            if (text[at] === "\t" && /^\s*$/.test(text.slice(lineBegin(), at))) refuse("a tab where spaces set the depth");
        }
    };
    const scalar = (value, quoted) => (value === "" && !quoted ? "null" : JSON.stringify(value));
    const isItem = () => text[at] === "-" && /^(\s|$)/.test(text.slice(at + 1, at + 2));
    const deeper = (read) => {
        if (++depth > MOST_DEPTH) refuse("too many levels of nesting");
        const value = read();
        depth--;
        return value;
    };

    /* Blanks around the end of a line in a text are one space; lines between are ends of lines. */
    const fold = (value) => value.replace(/[ \t]*\r?\n(\s*\n)*[ \t]*/g, (blanks) => {
        const lines = blanks.split("\n").length - 2;
        return lines > 0 ? "\n".repeat(lines) : " ";
    });

    function quoted() {
        const mark = text[at++];
        let value = "";
        for (;; at++) {
            if (at >= text.length) refuse("a quote is not closed");
            if (text[at] === mark && mark === "'" && text[at + 1] === "'") value += text[++at];
            else if (text[at] === mark) break;
            else if (mark === '"' && text[at] === "\\") {
                const found = /^(?:u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|["\\/ntr])/.exec(text.slice(at + 1, at + 6));
                if (!found) refuse("an unknown escape in a text");
                value += {n: "\n", t: "\t", r: "\r"}[found[0]] || (found[0].length > 1 ? String.fromCharCode(parseInt(found[0].slice(1), 16)) : found[0]);
                at += found[0].length;
            } else value += text[at];
        }
        at++;
        return fold(value);
    }

    /* A key and its colon on this line; null: this is no key. */
    function key(flow) {
        const before = at;
        let value;
        if (text[at] === '"' || text[at] === "'") value = quoted();
        else {
            const found = (flow ? /^[^\s{}[\],"'#&*!|>%@][^\n{}[\],#]*?(?=\s*:(?:[\s{}[\],]|$))/ : /^[^\s{}[\],"'#&*!|>%@-](?:[^\n#]|[^\s]#)*?(?=\s*:(?:\s|$))|^-[^\s](?:[^\n#])*?(?=\s*:(?:\s|$))/)
                .exec(text.slice(at, at + 1000));
            if (found) at += found[0].length;
            value = found ? found[0] : null;
        }
        spaces();
        if (value !== null && text[at] === ":" && (flow || /^(\s|$)/.test(text.slice(at + 1, at + 2)))) {
            at++;
            return value;
        }
        at = before;
        return null;
    }

    const pair = (keys, name, value) => {
        if (keys.has(name)) refuse('key "' + name + '" is given twice');
        keys.add(name);
        return JSON.stringify(name) + ":" + value;
    };

    function flow() {
        const mapping = text[at++] === "{", parts = [], keys = new Set();
        for (skip(); text[at] !== (mapping ? "}" : "]"); skip()) {
            if (at >= text.length) refuse("a bracket is not closed");
            let name = mapping ? key(true) : null;
            if (mapping && name === null) { /* a key without a value */
                const found = /^[^\s{}[\],"'#&*!|>%@:][^\n{}[\],#:]*(?=[,}])/.exec(text.slice(at, at + 1000));
                if (!found) refuse("a key and a colon are missing");
                name = found[0].trim();
                at += found[0].length;
            }
            skip();
            const value = text[at] === "," || text[at] === "}" ? "null" : deeper(flowValue);
            parts.push(mapping ? pair(keys, name, value) : value);
            skip();
            if (text[at] === ",") at++;
            else if (text[at] !== (mapping ? "}" : "]")) refuse("a comma or a bracket is missing");
        }
        at++;
        return (mapping ? "{" : "[") + parts.join(",") + (mapping ? "}" : "]");
    }

    function flowValue() {
        if (text[at] === "{" || text[at] === "[") return flow();
        if (text[at] === '"' || text[at] === "'") return scalar(quoted(), true);
        const found = /^(?:[^,[\]{}:#]|:(?![\s,[\]{}])|[^\s](?=#)#)+/.exec(text.slice(at));
        if (!found || /^[&*!|>%@`]/.test(found[0])) refuse("anchors, tags and other marks are not allowed");
        at += found[0].length;
        return scalar(fold(found[0].trim()), false);
    }

    /* Lines that are deeper than `indent`: folded behind >, as they are behind |. */
    function block(indent) {
        const found = /^([|>])([-+]?)[ \t]*(?:#[^\n]*)?\r?(?:\n|$)/.exec(text.slice(at));
        if (!found) refuse("an unknown block of text");
        at += found[0].length;
        const lines = [];
        let deep = -1;
        while (at < text.length) {
            const end = (text.indexOf("\n", at) + 1 || text.length + 1) - 1, line = text.slice(at, end).replace(/\r$/, ""), begin = line.search(/[^ ]/);
            if (begin >= 0 && begin <= indent) break;
            if (begin >= 0 && deep < 0) deep = begin;
            lines.push(begin < 0 ? "" : line.slice(deep));
            at = Math.min(text.length, end + 1);
        }
        let value = lines.join("\n").replace(/\n*$/, "");
        if (found[1] === ">") value = value.replace(/(\n+)(?=[^\n])/g, (ends) => (ends.length > 1 ? ends.slice(1) : " "));
        return scalar(value + (found[2] === "-" || value === "" ? "" : "\n"), true);
    }

    /* A text without quotes, and what of it is on deeper lines. */
    function plain(indent) {
        const parts = [];
        for (;;) {
            const found = /^(?:[^\s#:]|[^\S\n](?!#)|:(?!\s|$)|\S#)+/.exec(text.slice(at, text.indexOf("\n", at) < 0 ? undefined : text.indexOf("\n", at)));
            if (!found || (parts.length === 0 && /^[&*!%@`]/.test(found[0]))) refuse("anchors, tags and other marks are not allowed");
            at += found[0].length;
            parts.push(found[0].trim());
            spaces();
            if (text[at] === ":") refuse("a colon where none can be");
            if (!lineEnds()) refuse("this text needs quotes");
            const before = at;
            skip();
            if (at < text.length && column() > indent && isKey()) refuse("a key where none can be");
            if (at < text.length && column() > indent) continue;
            at = before;
            return scalar(parts.join(" "), false);
        }
    }

    function inline(indent) {
        if (text[at] === "{" || text[at] === "[") return flow();
        if (text[at] === '"' || text[at] === "'") return scalar(quoted(), true);
        if (text[at] === "|" || text[at] === ">") return block(indent);
        return plain(indent);
    }

    /* What follows a key or a dash that stands at `indent`. */
    function value(indent, sameDepth) {
        spaces();
        if (!lineEnds()) return null;
        skip();
        if (at >= text.length || column() < indent || (column() === indent && !(sameDepth && isItem()))) return "null";
        return deeper(() => node(indent));
    }

    function endOfValue(indent) {
        spaces();
        if (!lineEnds() && !/^ *$/.test(text.slice(lineBegin(), at))) refuse("nothing can follow here on this line");
        skip();
        if (at < text.length && column() > indent) refuse("this line is deeper than the one it belongs to");
    }

    function sequence() {
        const indent = column(), parts = [];
        while (at < text.length && column() === indent && isItem()) {
            at++;
            const below = value(indent, false);
            parts.push(below !== null ? below : deeper(() => node(indent)));
            endOfValue(indent);
        }
        return "[" + parts.join(",") + "]";
    }

    function mapping() {
        const indent = column(), parts = [], keys = new Set();
        while (at < text.length && column() === indent) {
            const name = key(false);
            if (name === null) refuse("a key and a colon are missing");
            const below = value(indent, true);
            parts.push(pair(keys, name, below !== null ? below : inline(indent)));
            endOfValue(indent);
        }
        return "{" + parts.join(",") + "}";
    }

    const isKey = () => {
        const before = at, found = key(false);
        at = before;
        return found !== null;
    };

    /* A value that begins here; a text without quotes goes on on lines that are deeper than `indent`. */
    function node(indent) {
        return isItem() ? sequence() : isKey() ? mapping() : inline(indent);
    }

    if (text.startsWith("\ufeff")) at = 1;
    if (/^---[ \t]*\r?\n/.test(text.slice(at))) at = text.indexOf("\n") + 1;
    skip();
    if (at >= text.length) return "null";
    const json = node(-1);
    skip();
    if (at < text.length) refuse("this line belongs to nothing");
    return json;
}
if (typeof module === "object") module.exports = {yamlToJson};
