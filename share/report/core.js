/*
 * Runs the core, the command itself, on files in memory: what WASI asks of a system, as far as the core calls it.
 *
 *     const core = await WebAssembly.compile(bytes);
 *     runCore(core, ["plan", "--model", ...], files)  ->  {status, out, error}
 *
 * `files` is a Map from paths such as "share/models/lenet5.yaml" to Uint8Arrays; what the command writes is put there. Every run
 * has a memory of its own.
 */
function runCore(core, words, files) {
    "use strict";
    const OK = 0, BADF = 8, NOENT = 44, FOLDER = 3, PLAIN = 4;
    const encoder = new TextEncoder(), decoder = new TextDecoder();
    const argv = ["paradl", ...words].map((word) => encoder.encode(word + "\0"));
    const printed = {1: [], 2: []};
    const open = new Map(); /* descriptors from 4 on; 3 is the folder that all paths begin in */
    let memory, next = 4;

    const view = () => new DataView(memory.buffer);
    const text = (at, length) => decoder.decode(new Uint8Array(memory.buffer, at, length).slice());
    const put32 = (at, value) => view().setUint32(at, value, true);
    const put64 = (at, value) => view().setBigUint64(at, BigInt(value), true);
    const tidy = (path) => path.split("/").filter((part) => part !== "" && part !== ".").join("/");
    const isFolder = (path) => path === "" || [...files.keys()].some((name) => name.startsWith(path + "/"));
    const status = (at, type, size) => {
        new Uint8Array(memory.buffer, at, 64).fill(0);
        view().setUint8(at + 16, type);
        put64(at + 32, size);
    };
    /* Calls `each` with every piece of a list of buffers. */
    const pieces = (list, count, each) => {
        let all = 0;
        for (let i = 0; i < count; i++) {
            const at = view().getUint32(list + 8 * i, true), length = view().getUint32(list + 8 * i + 4, true);
            const done = each(new Uint8Array(memory.buffer, at, length));
            all += done;
            if (done < length) break;
        }
        return all;
    };
    const store = (file, bytes) => {
        const end = file.at + bytes.length;
        if (end > file.bytes.length) {
            const larger = new Uint8Array(Math.max(end, 2 * file.bytes.length));
            larger.set(file.bytes);
            file.bytes = larger;
        }
        file.bytes.set(bytes, file.at);
        file.at = end;
        file.length = Math.max(file.length, end);
        return bytes.length;
    };
    class Ended {
        constructor(code) { this.code = code; }
    }

    const system = {
        args_sizes_get(count, size) {
            put32(count, argv.length);
            put32(size, argv.reduce((sum, word) => sum + word.length, 0));
            return OK;
        },
        args_get(list, at) {
            for (const word of argv) {
                put32(list, at);
                new Uint8Array(memory.buffer, at, word.length).set(word);
                list += 4;
                at += word.length;
            }
            return OK;
        },
        environ_sizes_get(count, size) { put32(count, 0); put32(size, 0); return OK; },
        environ_get() { return OK; },
        clock_time_get(id, precision, at) { put64(at, Math.round(performance.now() * 1e6)); return OK; },
        proc_exit(code) { throw new Ended(code); },
        fd_prestat_get(fd, at) {
            if (fd !== 3) return BADF;
            put32(at, 0);
            put32(at + 4, 1);
            return OK;
        },
        fd_prestat_dir_name(fd, at) { view().setUint8(at, 47); return OK; },
        fd_fdstat_get(fd, at) {
            new Uint8Array(memory.buffer, at, 24).fill(0);
            view().setUint8(at, fd < 3 ? PLAIN : fd === 3 || open.get(fd).list ? FOLDER : PLAIN);
            put64(at + 8, -1n & 0xffffffffffffffffn);
            put64(at + 16, -1n & 0xffffffffffffffffn);
            return OK;
        },
        fd_fdstat_set_flags() { return OK; },
        fd_write(fd, list, count, out) {
            if (!printed[fd] && !open.has(fd)) return BADF;
            put32(out, pieces(list, count, (bytes) => {
                if (!printed[fd]) return store(open.get(fd), bytes);
                printed[fd].push(bytes.slice());
                return bytes.length;
            }));
            return OK;
        },
        fd_read(fd, list, count, out) {
            const file = open.get(fd);
            if (!file) return BADF;
            put32(out, pieces(list, count, (to) => {
                const part = file.bytes.subarray(file.at, Math.min(file.length, file.at + to.length));
                to.set(part);
                file.at += part.length;
                return part.length;
            }));
            return OK;
        },
        fd_seek(fd, offset, whence, out) {
            const file = open.get(fd);
            if (!file) return BADF;
            file.at = Number(offset) + [0, file.at, file.length][whence];
            put64(out, file.at);
            return OK;
        },
        fd_close(fd) {
            const file = open.get(fd);
            if (file && file.writes) files.set(file.path, file.bytes.slice(0, file.length));
            open.delete(fd);
            return OK;
        },
        fd_readdir(fd, at, size, cookie, out) {
            let used = 0;
            for (const name of open.get(fd).list.slice(Number(cookie))) {
                const entry = new Uint8Array(24 + name.length), head = new DataView(entry.buffer);
                cookie++;
                head.setBigUint64(0, cookie, true);
                head.setUint32(16, name.length, true);
                head.setUint8(20, PLAIN);
                entry.set(name, 24);
                const part = entry.subarray(0, size - used);
                new Uint8Array(memory.buffer, at + used, part.length).set(part);
                used += part.length;
                if (used === size) break;
            }
            put32(out, used);
            return OK;
        },
        path_filestat_get(fd, flags, at, length, out) {
            const path = tidy(text(at, length));
            if (files.has(path)) status(out, PLAIN, files.get(path).length);
            else if (isFolder(path)) status(out, FOLDER, 0);
            else return NOENT;
            return OK;
        },
        path_open(fd, lookup, at, length, flags, rights, inherited, more, out) {
            const CREATE = 1, TRUNCATE = 8, path = tidy(text(at, length));
            let file;
            if (flags & CREATE) file = {path, bytes: new Uint8Array(4096), at: 0, length: 0, writes: true};
            else if (files.has(path)) file = {path, bytes: files.get(path), at: 0, length: files.get(path).length};
            else if (isFolder(path)) {
                const begin = path === "" ? "" : path + "/";
                const names = [...files.keys()].filter((name) => name.startsWith(begin))
                    .map((name) => name.slice(begin.length).split("/")[0]);
                file = {path, list: [...new Set(names)].sort().map((name) => encoder.encode(name))};
            } else return NOENT;
            open.set(next, file);
            put32(out, next++);
            return OK;
        },
    };
    const absent = new Proxy(system, {get: (all, name) => all[name] || (() => 52)}); /* "not supported" */
    const instance = new WebAssembly.Instance(core, {wasi_snapshot_preview1: absent});
    let code = 0;
    memory = instance.exports.memory;
    try {
        instance.exports._start();
    } catch (error) {
        if (!(error instanceof Ended)) throw error;
        code = error.code;
    }
    const joined = (parts) => {
        const all = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
        parts.reduce((at, part) => (all.set(part, at), at + part.length), 0);
        return decoder.decode(all);
    };
    return {status: code, out: joined(printed[1]), error: joined(printed[2])};
}

/* The bytes that a page has in base 85 (docs/report_format.md). */
function bytesOf(text) {
    const digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;,=>?@^_`{|}~", value = new Uint8Array(128);
    for (let d = 0; d < 85; d++) value[digits.charCodeAt(d)] = d;
    const bytes = new Uint8Array(Math.floor(text.length * 4 / 5)), last = text.length - text.length % 5;
    let to = 0;
    for (let i = 0; i < last; i += 5) {
        const four = (((value[text.charCodeAt(i)] * 85 + value[text.charCodeAt(i + 1)]) * 85 + value[text.charCodeAt(i + 2)]) * 85 + value[text.charCodeAt(i + 3)]) * 85 + value[text.charCodeAt(i + 4)];
        bytes[to++] = four >>> 24;
        bytes[to++] = four >>> 16;
        bytes[to++] = four >>> 8;
        bytes[to++] = four;
    }
    if (to === bytes.length) return bytes;
    let four = 0;
    for (let k = 0; k < 5; k++) four = four * 85 + (last + k < text.length ? value[text.charCodeAt(last + k)] : 84);
    for (let k = 0; to < bytes.length; k++) bytes[to++] = Math.floor(four / 256 ** (3 - k));
    return bytes;
}
if (typeof module === "object") module.exports = {runCore, bytesOf};
