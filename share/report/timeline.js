/*
 * Timelines that move.
 */
/* The columns of packed events (docs/report_format.md), as slices of tracks. */
async function readEvents(id) {
    const bytes = new Uint8Array(await unpack(id)), stop = bytes.indexOf(10);
    const header = JSON.parse(new TextDecoder().decode(bytes.subarray(0, stop))), count = header.events;
    let at = stop + 1;
    const next = () => {
        let value = 0, scale = 1, byte;
        do {
            byte = bytes[at++];
            value += (byte & 0x7f) * scale;
            scale *= 128;
        } while (byte & 0x80);
        return value % 2 ? -(value + 1) / 2 : value / 2;
    };
    const column = () => Float64Array.from({length: count}, next), last = new Float64Array(header.tracks.length);
    const [track, start, length, name] = [column(), column(), column(), column()];
    for (let i = 0; i < count; i++) last[track[i]] = start[i] += last[track[i]];
    column(), column(); /* categories and arguments are for others */
    const path = [], arrows = [];
    for (let i = 0, event = 0; i < header.path; i++) path.push([event += next(), next()]);
    for (let i = 0, event = 0; i < header.arrows; i++) arrows.push([event += next(), event + next()]);
    return {header, count, track, start, length, name, path, arrows, texts: header.texts.map(String), leftOut: header.left_out};
}

/*
 * A timeline that is moved by keys (w a s d, arrows, f, m, /, ?), the wheel and the pointer; the still of the page is for paper. Slices are
 * columns in the order of tracks and starts: of a track, what is seen is found by halving.
 */
class Timeline {
    constructor(events) {
        const SLICES = 0, OTHER = 2, names = new Map(), order = [];
        for (let i = 0; i < events.count; i++) {
            const kind = events.header.tracks[events.track[i]][0];
            if (kind === SLICES) order.push(i);
            if (kind !== OTHER) continue;
            const event = JSON.parse(events.texts[events.name[i]]);
            if (event && event.ph === "M" && event.args)
                names.set(event.name === "process_name" ? String(event.pid) : event.pid + "/" + event.tid, String(event.args.name));
        }
        const places = events.header.tracks.map((track, id) => id).sort((a, b) => {
            const [, process, thread] = events.header.tracks[a], other = events.header.tracks[b];
            return process - other[1] || thread - other[2] || a - b;
        }), placeOf = new Int32Array(places.length);
        places.forEach((id, at) => { placeOf[id] = at; });
        order.sort((a, b) => placeOf[events.track[a]] - placeOf[events.track[b]] || events.start[a] - events.start[b] || a - b);
        this.start = Float64Array.from(order, (i) => events.start[i]);
        this.end = Float64Array.from(order, (i) => events.start[i] + events.length[i]);
        this.name = Int32Array.from(order, (i) => events.name[i]);
        this.texts = events.texts;
        this.hueOf = Uint8Array.from(events.header.hues);
        this.patternOf = Uint8Array.from(events.header.patterns || events.header.hues.map(() => 0)); /* pages of before have none */
        this.peers = [];
        const place = new Map(order.map((i, at) => [i, at]));
        this.critical = new Float64Array(order.length).fill(-1); /* what an operation adds to the critical path */
        for (const [i, own] of events.path) this.critical[place.get(i)] = own;
        this.arrows = events.arrows.map((ends) => ends.map((i) => place.get(i)));
        this.alone = false; /* whether only the critical path is lit */
        this.tracks = [];
        order.forEach((i, place) => {
            const [, process, thread] = events.header.tracks[events.track[i]], last = this.tracks[this.tracks.length - 1];
            if (!last || last.id !== events.track[i])
                this.tracks.push({id: events.track[i], process, begin: place, name: (names.get(String(process)) || process) + " " + (names.get(process + "/" + thread) || "")});
            this.tracks[this.tracks.length - 1].stop = place + 1;
        });
        this.first = this.start.reduce((least, value) => Math.min(least, value), Infinity);
        this.last = this.end.reduce((most, value) => Math.max(most, value), 0);
        this.from = this.first;
        this.to = this.last;
        this.wanted = "";
        this.marks = [];
        this.widths = new Map(); /* of names, in dots */
    }

    get count() { return this.start.length; }

    build() {
        const search = make("input", {type: "search", "aria-label": "operations with this text", placeholder: "/ search", input: () => {
            this.wanted = search.value.toLowerCase();
            this.draw();
            if (this.wanted) this.say(this.found() + " operations have this text");
        }, keydown: (event) => { if (event.key === "Enter") this.nextFound(); }});
        const help = "w and s zoom, a and d move, arrows too, f shows all or the selection, m marks two moments, p lights the critical path, slash searches, enter goes to the next one found";
        this.canvas = make("canvas", {tabindex: "0", role: "img", "aria-label": "timeline: " + help});
        this.strip = make("canvas", {class: "strip", "aria-hidden": "true"});
        this.names = make("canvas", {class: "names", "aria-hidden": "true"});
        this.says = make("p", {role: "status"}, help);
        this.canvas.addEventListener("keydown", (event) => {
            const move = {w: [0.7, 0], "+": [0.7, 0], s: [1.4, 0], "-": [1.4, 0], a: [1, -0.2], ArrowLeft: [1, -0.2], d: [1, 0.2], ArrowRight: [1, 0.2]}[event.key];
            if (move) this.zoom(move[0], move[1], 0.5);
            else if (event.key === "f") this.fit();
            else if (event.key === "m") this.mark((this.from + this.to) / 2);
            else if (event.key === "p") this.light();
            else if (event.key === "?") this.say(help);
            else if (event.key === "/") search.focus();
            else if (event.key === "Escape") this.select(null);
            else return;
            event.preventDefault();
        });
        this.canvas.addEventListener("wheel", (event) => {
            if (!event.ctrlKey && document.activeElement !== this.canvas) return; /* the page scrolls */
            event.preventDefault();
            this.zoom(event.deltaY > 0 ? 1.2 : 0.8, 0, event.offsetX / this.canvas.clientWidth);
        }, {passive: false});
        this.canvas.addEventListener("pointerdown", (event) => { this.pressed = this.timeAt(event.offsetX); });
        this.canvas.addEventListener("pointerup", () => { this.pressed = null; });
        this.canvas.addEventListener("pointermove", (event) => {
            if (this.pressed && event.buttons === 1) {
                this.select([Math.min(this.pressed, this.timeAt(event.offsetX)), Math.max(this.pressed, this.timeAt(event.offsetX))]);
                return;
            }
            const at = this.at(event.offsetX, event.offsetY);
            if (at >= 0) this.say(this.tracks[this.trackOf(at)].name + ": " + this.texts[this.name[at]] + ", " + seconds(1e-9 * (this.end[at] - this.start[at])));
        });
        this.strip.addEventListener("pointerdown", (event) => {
            const at = this.first + event.offsetX / this.strip.clientWidth * (this.last - this.first);
            this.zoom(1, (at - (this.from + this.to) / 2) / (this.to - this.from), 0.5);
        });
        addEventListener("resize", () => this.draw());
        addEventListener("theme", () => this.draw());
        return make("div", {class: "moves"}, search, make("div", {class: "tracks"}, this.names, make("div", {}, this.strip, this.canvas)), this.says);
    }

    say(text) { this.says.textContent = text; }
    timeAt(x) { return this.from + x / this.canvas.clientWidth * (this.to - this.from); }
    trackOf(at) { return this.tracks.findIndex((track) => track.begin <= at && at < track.stop); }

    /* The first slice of a track that ends behind `time`; slices of one track follow each other. */
    firstBehind(track, time) {
        let low = track.begin, high = track.stop;
        while (low < high) {
            const middle = (low + high) >> 1;
            if (this.end[middle] <= time) low = middle + 1;
            else high = middle;
        }
        return low;
    }

    zoom(factor, shift, around) {
        const span = Math.min(this.last - this.first, (this.to - this.from) * factor), at = this.from + around * (this.to - this.from);
        this.from = Math.max(this.first, Math.min(this.last - span, at - around * span + shift * span));
        this.to = this.from + span;
        this.draw();
        this.lead();
        this.say(this.range(this.from, this.to));
    }

    /* Timelines of one page show the same moments. */
    lead() {
        for (const peer of this.peers) {
            peer.from = peer.first + this.from - this.first;
            peer.to = peer.first + this.to - this.first;
            peer.draw();
        }
    }

    fit() {
        [this.from, this.to] = this.selected && this.selected[1] > this.selected[0] ? this.selected : [this.first, this.last];
        this.select(null);
        this.lead();
    }

    light() {
        this.alone = !this.alone;
        this.say(this.alone ? "only the critical path is lit: " + this.critical.reduce((sum, own) => sum + (own >= 0), 0) + " operations" : "all operations are lit");
        this.draw();
    }

    /* Two marks are a selection. */
    mark(time) {
        this.marks = this.marks.length === 1 ? [this.marks[0], time].sort((a, b) => a - b) : [time];
        this.select(this.marks.length === 2 ? this.marks : null);
        if (this.marks.length === 1) this.say("marked " + seconds(1e-9 * (time - this.first)));
    }

    select(range) {
        this.selected = range;
        if (!range) this.say(this.range(this.from, this.to));
        else this.say("selected " + this.range(range[0], range[1]));
        this.draw();
    }

    range(from, to) {
        return seconds(1e-9 * (from - this.first)) + " to " + seconds(1e-9 * (to - this.first)) + ": " + this.sums(from, to);
    }

    /* Seconds by class between two moments. */
    sums(from, to) {
        const found = new Map();
        for (const track of this.tracks)
            for (let i = this.firstBehind(track, from); i < track.stop && this.start[i] < to; i++) {
                const name = this.texts[this.name[i]].split(" ")[0];
                found.set(name, (found.get(name) || 0) + Math.min(this.end[i], to) - Math.max(this.start[i], from));
            }
        return [...found].sort((a, b) => b[1] - a[1]).slice(0, 5).map(([name, part]) => name + " " + seconds(1e-9 * part)).join(", ");
    }

    dims(i) { return (this.wanted && !this.matches(i)) || (this.alone && this.critical[i] < 0); }
    matches(i) { return this.texts[this.name[i]].toLowerCase().includes(this.wanted); }
    found() {
        let count = 0;
        for (let i = 0; i < this.count; i++) count += this.matches(i);
        return count;
    }

    /* To the first operation with the text that is searched for behind the middle of what is seen. */
    nextFound() {
        const middle = (this.from + this.to) / 2;
        let best = -1;
        for (let i = 0; i < this.count && this.wanted; i++)
            if (this.start[i] > middle && this.matches(i) && (best < 0 || this.start[i] < this.start[best])) best = i;
        if (best < 0) return;
        this.zoom(1, ((this.start[best] + this.end[best]) / 2 - middle) / (this.to - this.from) + 1e-9, 0.5);
        this.say(this.tracks[this.trackOf(best)].name + ": " + this.texts[this.name[best]]);
    }

    at(x, y) {
        const time = this.timeAt(x), track = this.tracks[Math.floor(y / this.row)];
        if (!track) return -1;
        const i = this.firstBehind(track, time);
        return i < track.stop && this.start[i] <= time ? i : -1;
    }

    draw() {
        const scale = devicePixelRatio || 1, room = this.canvas.closest(".moves").clientWidth, begin = performance.now();
        const style = getComputedStyle(document.documentElement), colour = (name) => style.getPropertyValue(name).trim();
        this.row = this.tracks.length > 40 ? 12 : 24;
        const width = room - this.drawNames(room, colour, scale);
        this.size(this.canvas, width, this.tracks.length * this.row, scale);
        const pen = this.canvas.getContext("2d"), colours = [0, 1, 2, 3, 4, 5, 6, 7].map((hue) => colour("--hue" + hue));
        const seen = this.tracks.map((track) => [this.firstBehind(track, this.from), this.firstBehind(track, this.to)]);
        const many = seen.reduce((sum, [from, to]) => sum + to - from, 0) > 20000;
        if (many) this.drawMany(pen, seen, colours, scale);
        else {
            this.drawFew(pen, seen, colours, colour, width, scale);
            this.drawArrows(pen, seen, colour("--ink"), width);
        }
        pen.setTransform(scale, 0, 0, scale, 0, 0);
        for (const range of [this.selected].filter(Boolean)) {
            pen.globalAlpha = 0.2;
            pen.fillStyle = colour("--ink");
            pen.fillRect((range[0] - this.from) / (this.to - this.from) * width, 0, (range[1] - range[0]) / (this.to - this.from) * width, this.canvas.height);
            pen.globalAlpha = 1;
        }
        this.drawStrip(width, scale, colour);
        this.milliseconds = performance.now() - begin;
    }

    size(canvas, width, height, scale) {
        canvas.width = width * scale;
        canvas.height = height * scale;
        canvas.style.width = width + "px";
        canvas.style.height = height + "px";
    }

    drawFew(pen, seen, colours, colour, width, scale) {
        const per = width / (this.to - this.from), paper = colour("--paper"), ink = colour("--ink"), fills = this.fills(pen, colours, paper, scale);
        pen.scale(scale, scale);
        pen.font = "12px system-ui, sans-serif";
        seen.forEach(([from, to], t) => {
            const y = t * this.row;
            for (let i = from; i < this.tracks[t].stop && (i <= to && this.start[i] < this.to); i++) {
                const x = (this.start[i] - this.from) * per, wide = Math.max(0.5, (this.end[i] - this.start[i]) * per);
                pen.globalAlpha = this.dims(i) ? 0.15 : 1;
                pen.fillStyle = fills(this.name[i], wide);
                pen.fillRect(x, y + 2, Math.max(0.5, wide - 0.5), this.row - 4);
                if (typeof pen.fillStyle !== "string") { /* a pattern has an outline in its colour */
                    pen.strokeStyle = colours[this.hueOf[this.name[i]]];
                    pen.strokeRect(x + 0.5, y + 2.5, wide - 1.5, this.row - 5);
                }
                if (this.critical[i] > 0) {
                    pen.fillStyle = ink;
                    pen.fillRect(x + wide - this.critical[i] * per, y + this.row - 4, this.critical[i] * per, 3);
                }
                if (wide < 60 || pen.globalAlpha < 1) continue;
                const text = this.fitting(pen, this.name[i], Math.min(wide, x + wide, width - x) - 6), left = Math.max(x, 0) + 3;
                pen.fillStyle = paper;
                if (this.patternOf[this.name[i]]) { /* a text on a pattern has a ground of its own */
                    if (text) pen.fillRect(left - 1, y + 5, pen.measureText(text).width + 2, 14);
                    pen.fillStyle = ink;
                }
                pen.fillText(text, left, y + 16);
            }
        });
        pen.globalAlpha = 1;
    }

    /* What operations are filled with: their colour, or a pattern of it where it is wide enough to be seen. As the stills have it. */
    fills(pen, colours, paper, scale) {
        const made = new Map(), tile = (hue, pattern) => {
            const canvas = make("canvas", {width: 8 * scale, height: 8 * scale}), ink = canvas.getContext("2d");
            ink.scale(scale, scale);
            ink.fillStyle = paper;
            ink.fillRect(0, 0, 8, 8);
            ink.strokeStyle = colours[hue];
            ink.lineWidth = 2;
            ink.stroke(new Path2D(["", "M-2 2L2 -2M0 8L8 0M6 10L10 6", "M0 0L8 8M0 8L8 0", "M2 2h2M6 6h2"][pattern]));
            const found = pen.createPattern(canvas, "repeat");
            found.setTransform(new DOMMatrix().scale(1 / scale));
            return found;
        };
        return (name, wide) => {
            const hue = this.hueOf[name], pattern = this.patternOf[name], key = 8 * pattern + hue;
            if (pattern === 0 || pattern > 3 || wide < 12) return colours[hue];
            if (!made.has(key)) made.set(key, tile(hue, pattern));
            return made.get(key);
        };
    }

    /* As much of a name as there is room for. */
    fitting(pen, name, room) {
        const text = this.texts[name];
        if (!this.widths.has(name)) this.widths.set(name, pen.measureText(text).width);
        const wide = this.widths.get(name);
        return wide <= room ? text : room < 30 ? "" : text.slice(0, Math.floor(text.length * room / wide) - 1) + "\u2026";
    }

    /* Messages whose both ends are seen, as long as one can tell them apart. */
    drawArrows(pen, seen, ink, width) {
        const per = width / (this.to - this.from), sees = (i) => this.start[i] < this.to && this.end[i] > this.from;
        const shown = this.arrows.filter(([from, to]) => sees(from) && sees(to));
        if (shown.length > 2000) return;
        pen.strokeStyle = pen.fillStyle = ink;
        for (const [from, to] of shown) {
            const x = (this.start[from] - this.from) * per, y = (this.trackOf(from) + 0.5) * this.row;
            const tip = (this.end[to] - this.from) * per, down = (this.trackOf(to) + 0.5) * this.row, angle = Math.atan2(down - y, tip - x);
            pen.globalAlpha = this.alone && (this.critical[from] < 0 || this.critical[to] < 0) ? 0.1 : 0.6;
            pen.beginPath();
            pen.moveTo(x, y);
            pen.lineTo(tip, down);
            pen.stroke();
            pen.beginPath();
            pen.moveTo(tip, down);
            for (const side of [-0.4, 0.4]) pen.lineTo(tip - 7 * Math.cos(angle + side), down - 7 * Math.sin(angle + side));
            pen.fill();
        }
        pen.globalAlpha = 1;
    }

    /* Names of tracks, beside them; returns the width that they take, none on a narrow screen. */
    drawNames(room, colour, scale) {
        const width = room < 640 ? 0 : 170, pen = this.names.getContext("2d"), top = 40; /* behind the strip */
        this.size(this.names, width, top + this.tracks.length * this.row, scale);
        pen.scale(scale, scale);
        pen.font = (this.row < 24 ? 10 : 12) + "px system-ui, sans-serif";
        pen.fillStyle = colour("--ink");
        this.tracks.forEach((track, t) => pen.fillText(track.name.slice(0, 40), 0, top + (t + 0.5) * this.row + 4, width - 6));
        return width;
    }

    /* All of the time, how busy tracks are in it, and which part is seen. */
    drawStrip(width, scale, colour) {
        const height = 24, pen = this.strip.getContext("2d");
        if (!this.busy) {
            this.busy = new Float64Array(300);
            const per = this.busy.length / (this.last - this.first);
            for (let i = 0; i < this.count; i++) {
                const from = (this.start[i] - this.first) * per, to = (this.end[i] - this.first) * per;
                for (let k = Math.floor(from); k < to && k < this.busy.length; k++) this.busy[k] += Math.min(to, k + 1) - Math.max(from, k);
            }
            this.busiest = this.busy.reduce((most, value) => Math.max(most, value), 0) || 1;
        }
        this.size(this.strip, width, height, scale);
        pen.scale(scale, scale);
        pen.fillStyle = colour("--hue0");
        this.busy.forEach((value, k) => pen.fillRect(k * width / 300, height * (1 - value / this.busiest), width / 300 + 0.5, height * value / this.busiest));
        pen.strokeStyle = colour("--ink");
        pen.lineWidth = 2;
        const per = width / (this.last - this.first);
        pen.strokeRect((this.from - this.first) * per + 1, 1, Math.max(3, (this.to - this.from) * per - 2), height - 2);
    }
}

/* Dots in place of rectangles, where there are more operations than one could read. */
Timeline.prototype.drawMany = function (pen, seen, colours, scale) {
    const {width, height} = this.canvas, row = this.row * scale, image = pen.createImageData(width, height), dots = new Uint32Array(image.data.buffer);
    const packed = colours.map((text) => (0xff000000 | parseInt(text.slice(5, 7), 16) << 16 | parseInt(text.slice(3, 5), 16) << 8 | parseInt(text.slice(1, 3), 16)) >>> 0);
    const per = width / (this.to - this.from);
    seen.forEach(([from, to], t) => {
        const first = Math.round(t * row + 2 * scale) * width;
        let free = 0; /* the next dot that is not drawn: many slices share one */
        for (let i = from; i <= to && i < this.tracks[t].stop; i++) {
            const x = Math.max(free, Math.floor((this.start[i] - this.from) * per)), stop = Math.min(width, Math.max(x + 1, Math.round((this.end[i] - this.from) * per)));
            if ((this.end[i] - this.from) * per < free) continue;
            dots.fill(packed[this.hueOf[this.name[i]]], first + x, first + stop);
            free = stop;
        }
        for (let line = 1; line < row - 4 * scale; line++) dots.copyWithin(first + line * width, first, first + width);
    });
    pen.putImageData(image, 0, 0);
};

/* One scale of time for all, so that what takes longer is wider. */
function joinTimelines(all) {
    const span = Math.max(...all.map((line) => line.last - line.first));
    for (const line of all) {
        line.last = line.to = line.first + span;
        line.peers = all.filter((other) => other !== line);
        line.draw();
    }
}

async function prepareTimelines() {
    for (const element of document.querySelectorAll("script[id^=paradl-trace-]")) {
        const place = byId("d" + element.id.slice("paradl-trace-".length)), still = place && place.querySelector("figure.timeline");
        if (!still) continue;
        const timeline = new Timeline(await readEvents(element.id));
        if (timeline.count === 0) continue;
        still.before(timeline.build());
        still.classList.add("paper-only");
        timeline.draw();
        (globalThis.timelines = globalThis.timelines || []).push(timeline); /* for tests, too */
    }
    if (globalThis.timelines && timelines.length > 1) joinTimelines(timelines);
}
