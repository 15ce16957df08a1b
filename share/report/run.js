/*
 * Curves of a run: one cursor in all of them, by the pointer or the keys, and what the log says of that update.
 */
class Curves {
    constructor(charts, lines) {
        this.charts = charts.map((chart) => {
            const [left, right, from, to] = chart.dataset.x.split(" ").map(Number), [top, bottom] = chart.dataset.y.split(" ").map(Number);
            const line = document.createElementNS("http://www.w3.org/2000/svg", "path");
            line.setAttribute("class", "cursor");
            chart.append(line);
            return {chart, left, right, from, to, top, bottom, line};
        });
        this.lines = lines;
        this.place = -1;
        this.says = make("p", {class: "curves", role: "status"}, "point at a curve, or move along it with the arrows");
        for (const one of this.charts) this.listen(one);
    }

    listen(one) {
        one.chart.setAttribute("tabindex", "0");
        one.chart.addEventListener("pointermove", (event) => {
            const box = one.chart.getBoundingClientRect(), x = (event.clientX - box.left) / box.width * one.chart.viewBox.baseVal.width;
            this.show(this.nearest(one.from + (x - one.left) / (one.right - one.left) * (one.to - one.from)));
        });
        one.chart.addEventListener("keydown", (event) => {
            const step = {ArrowRight: 1, ArrowLeft: -1, PageDown: 10, PageUp: -10, Home: -Infinity, End: Infinity}[event.key];
            if (step === undefined) return;
            event.preventDefault();
            event.stopImmediatePropagation();
            this.show(Math.max(0, Math.min(this.lines.length - 1, this.place + step)));
        }, true);
    }

    nearest(step) {
        let low = 0, high = this.lines.length - 1;
        while (low < high) {
            const middle = (low + high) >> 1;
            if (this.lines[middle].step < step - 0.5) low = middle + 1;
            else high = middle;
        }
        return low;
    }

    show(place) {
        const line = this.lines[place], parts = ["update " + line.step];
        this.place = place;
        for (const [key, name, format] of [["loss", "loss", (v) => v.toPrecision(4)], ["accuracy", "accuracy", (v) => (100 * v).toFixed(1) + " %"],
                                           ["lr", "learning rate", (v) => v.toPrecision(3)], ["step_s", "time", seconds], ["io_s", "waiting for samples", seconds],
                                           ["comm_s", "exchanging", seconds], ["samples_per_s", "samples per second", (v) => v.toFixed(0)]])
            if (Number.isFinite(line[key])) parts.push(name + " " + format(line[key]));
        this.says.textContent = parts.join(", ");
        for (const one of this.charts) {
            const x = one.left + (line.step - one.from) / (one.to - one.from) * (one.right - one.left);
            one.line.setAttribute("d", "M" + x.toFixed(1) + " " + one.top + "V" + one.bottom);
        }
    }
}

function prepareRuns(page) {
    page.documents.forEach((entry, i) => {
        const place = byId("d" + i), log = entry.document.log;
        if (!place || !Array.isArray(log)) return;
        const lines = log.filter((line) => line && Number.isFinite(line.step)), charts = [...place.querySelectorAll("svg.chart[data-over=update]")];
        if (lines.length === 0 || charts.length === 0) return;
        const curves = new Curves(charts, lines);
        charts[0].closest("figure").before(curves.says);
        (globalThis.curves = globalThis.curves || []).push(curves); /* for tests */
    });
}
