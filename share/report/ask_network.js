/*
 * What if a collective ran on another network, with more hosts or bytes, or a link that failed.
 */
class NetworkWhatIf extends WhatIf {
    constructor(index, entry) {
        super(index, entry);
        this.verb = "simulate";
        this.takes = ["topology"];
        this.standard = {collective: "allreduce", engine: "flow"};
    }

    async fill(panel) {
        const answer = await this.core.ask(["topo", "list", "--json"], false), names = JSON.parse(answer.out).topologies.map((topology) => topology.name);
        const own = this.given.get("topology");
        panel.append(this.choice("topology", names.includes(own) ? names : [own, ...names]));
        panel.append(this.power("hosts", "hosts", () => this.now().hosts, 4096));
        panel.append(this.power("bytes", "bytes", () => this.now().bytes, 2 ** 33));
        panel.append(this.choice("collective", this.choices.collective));
        for (const [key, label, example] of [["hosts-per-switch", "hosts of a switch", "1"], ["shape", "shape", "p,a,h,g"], ["dims", "dims", "4x4"],
                                             ["link-bandwidth", "link bandwidth", "12.5GB/s"], ["link-latency", "link latency", "1us"],
                                             ["fail-link", "failed links", "s0-s1"], ["algorithm", "algorithm", "all"]])
            panel.append(this.field(key, label, example));
        return [make("button", {type: "button", click: () => this.sweep()}, "over all sizes")];
    }

    best(answer) {
        return Array.isArray(answer.candidates) ? answer.candidates.find((candidate) => candidate.possible) : Number.isFinite(answer.time_s) ? answer : null;
    }

    compare(answer) {
        const before = this.best(this.document), after = this.best(answer);
        if (before && after)
            this.difference.textContent = before.algorithm + " " + seconds(before.time_s) + " \u2192 " + after.algorithm + " " + seconds(after.time_s) +
                " (" + percent(after.time_s / before.time_s - 1) + ")";
        else this.difference.textContent = after ? "possible now" : "no algorithm is possible";
    }

    /* Curves from 1 KiB to 64 MiB in place of one size. */
    async sweep() {
        const words = this.words({...this.state, bytes: ""}, ["--sweep-bytes", "1KiB:64MiB:4", "--json"]);
        this.progress.textContent = "computing \u2026";
        const answer = await this.core.ask(words, true), template = document.createElement("template");
        this.progress.textContent = answer && answer.out ? "" : answer ? answer.error.replace(/^paradl: /, "") : "stopped";
        if (!answer || !answer.out) return;
        template.innerHTML = answer.html;
        this.map.replaceChildren(template.content);
        for (const part of this.map.querySelectorAll("[id]")) part.removeAttribute("id"); /* the answer below has them, too */
        prepare(this.map);
    }
}
