#!/usr/bin/env bash
# report: pages of every kind are whole without script, the same bytes each time, and give their documents back; hostile
# names stay text; what is newer, torn or no document is refused or said.
set -euo pipefail
. "$SOURCE/tests/cli/common.sh"

expect 0 plan --model lenet --system abci-v --devices 2 --batch 32 --json --layers --explain -o plan.yaml
cp out plan.json
expect 0 train --model lenet --data synthetic --samples 640 --batch 32 --epochs 2 --lr 0.02 --threads 1 --quiet --log run.jsonl --json
cp out train.json
expect 0 simulate plan.yaml --system abci-v --json
cp out sim.json
expect 0 simulate --topology dln --hosts 16 --hosts-per-switch 2 --sweep-bytes 1KiB:1MiB:32 --algorithm ring,rshd --json
cp out sweep.json
expect 0 simulate --topology dln --hosts 16 --hosts-per-switch 2 --bytes 1MiB --json
cp out collective.json
expect 0 train --device dry --model lenet --data synthetic --samples 640 --batch 32 --json
cp out program.json
expect 0 model show lenet --json
cp out model.json
head -12 "$SOURCE/share/measured/abci_measured.csv" >rows.csv
expect 0 validate rows.csv --json
cp out validation.json

cat >check.py <<'PY'
import base64, hashlib, re, sys
from html.parser import HTMLParser

class Page(HTMLParser):
    def __init__(self):
        super().__init__()
        self.open, self.seen, self.ids = [], [], []

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.seen.append((tag, given))
        if "id" in given:
            self.ids.append(given["id"])
        assert not any(name.startswith("on") for name in given), (tag, given)
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        self.open.pop()

    def handle_endtag(self, tag):
        assert self.open and self.open.pop() == tag, (tag, self.open)

text = open(sys.argv[1], encoding="utf-8").read()
page = Page()
page.feed(text)
tags = [tag for tag, _ in page.seen]
assert not page.open and tags.count("h1") == 1 and len(page.ids) == len(set(page.ids)), page.ids
kinds = [given.get("type") for tag, given in page.seen if tag == "script"]
bytes_of = [given["id"] for tag, given in page.seen if given.get("type") == "application/octet-stream"]
assert kinds == ["application/json"] + len(bytes_of) * ["application/octet-stream"] + [None], kinds
# Nothing but this one script may run: the policy names what it hashes to.
script = text[text.rindex("<script>") + 8:text.rindex("</script>")]
digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
assert f"script-src 'wasm-unsafe-eval' 'sha256-{digest}'; worker-src blob:" in text and "unsafe-inline'; script" not in text
assert "default-src 'none'" in text and "prefers-color-scheme" in text and "@media print" in text
assert not re.findall(r'(?:src|href)="(?!#)', text) and not re.findall(r"url\((?!#)", text)
assert not re.findall(r"\bnan\b", text.split("<script")[0]), "a number that is none is shown"
for tag, given in page.seen:
    if tag == "svg":
        assert given["role"] == "img" and all(i in page.ids for i in given["aria-labelledby"].split())
    if tag == "th":
        assert given["scope"] in ("row", "col")
assert tags.count("svg") >= int(sys.argv[2]), tags.count("svg")
PY

cat >bench.json <<'JSON'
{"paradl": "bench/1", "command": ["paradl", "coll", "bench"], "collective": "allreduce", "ranks": 4, "library": "x", "rows": [
{"algorithm": "mpi", "bytes": 1024, "median_s": 1e-5, "min_s": 9e-6, "bus_bytes_per_s": 1.5e8},
{"algorithm": "ring", "bytes": 1024, "median_s": 2e-5, "min_s": 9e-6, "bus_bytes_per_s": 7e7, "simulated_s": 1.9e-5},
{"algorithm": "mpi", "bytes": 4096, "median_s": 4e-5, "min_s": 3e-5, "bus_bytes_per_s": 1.5e8},
{"algorithm": "ring", "bytes": 4096, "median_s": 3e-5, "min_s": 2e-5, "bus_bytes_per_s": 2e8, "simulated_s": 2.5e-5}]}
JSON
expect 0 simulate --topology dln --hosts 16 --hosts-per-switch 2 --bytes 1MiB --algorithm ring --links --json
cp out links.json
for item in plan.json:4 run.jsonl:5 train.json:1 sim.json:1 sweep.json:1 collective.json:1 links.json:1 program.json:1 model.json:0 validation.json:2 bench.json:2; do
    name=${item%:*}
    expect 0 report $name -o $name.html
    has out "$name.html"
    python3 check.py $name.html ${item#*:} || fail "the page of $name"
    expect 0 report $name -o again.html
    cmp -s $name.html again.html || fail "$name: other bytes the second time"
    expect 0 report $name.html --extract -o back
    cmp -s $name back/1-$name || fail "$name does not come back"
    LC_ALL=C expect 0 report $name --text
    if LC_ALL=C grep -q '[^ -~]' out; then fail "$name: not ASCII: $(LC_ALL=C grep -m1 '[^ -~]' out)"; fi
done
has bench.json.html "ring is fastest at 4.00 KiB: 30.0 us."
has bench.json.html "ring, simulated"
has links.json.html "The busiest of 40 links"
has plan.json.html "Roofline: relu takes most"
expect 0 plan --model resnet50 --system abci-v --devices 8 --strategy data --batch 256 --json --explain
cp out resnet.json
expect 0 report resnet.json -o resnet.html
has model.json.html "<h3>layers: "
has model.json.html ">cross_entropy<"
has resnet.html "Sensitivity: peak of the device matters most"
has run.jsonl.html "distribution of the times of updates"
has validation.json.html "Error over devices"
expect 0 report plan.json --no-core -o still.html
has still.html "This page cannot be asked again: it was left out by --no-core."
if grep -q 'id="paradl-core"' still.html; then fail "--no-core leaves it in"; fi
mkdir -p share && cp -r "$SOURCE"/share/* share/ && rm -r share/report
PARADL_SHARE=$PWD/share expect 0 report plan.json -o bare.html
has bare.html "the script of pages is not found"
if grep -q '<script>' bare.html; then fail "a page without a script has one"; fi
expect 0 report plan.json
has out "plan.html"
has plan.html "$(python3 -c 'import json; print(json.load(open("plan.json"))["candidates"][0]["strategy"])')"
LC_ALL=C.UTF-8 expect 0 report run.jsonl --text
has out "●"
has out "The slowest updates"
expect 0 report plan.json sim.json run.jsonl train.json -o all.html --title "all <of> them"
has all.html "<title>all &lt;of&gt; them</title>"
has all.html "4 documents side by side"
python3 check.py all.html 8 || fail "the page of several documents"
expect 0 report all.html -o again.html --title "all <of> them"
cmp -s all.html again.html || fail "a page made of a page is another"

expect 0 plan --model lenet --system abci-v --devices 1..8 --samples-per-device 16 --json
cp out sweep-devices.json
expect 0 report sweep-devices.json -o sweep-devices.html
python3 check.py sweep-devices.html 1 || fail "the page of a sweep over devices"
has sweep-devices.html "On 8 devices the efficiency is"

# Timelines: classes and a still; two of them operation by operation.
expect 0 plan --model lenet --system local --devices 1 --data synthetic --batch 32 --strategy serial -o serial.yaml --trace projected.json
expect 0 train serial.yaml --data synthetic --samples 64 --threads 1 --epochs 1 --lr 0.02 --quiet --trace measured.json
expect 0 report projected.json measured.json -o timelines.html
python3 check.py timelines.html 2 || fail "the page of timelines"
has timelines.html "measured beside projected"
has timelines.html "Layers of the first rank in an iteration"
python3 - <<'PY' || fail "layers of timelines: other sums than those of their operations"
import json, re
base, text = json.load(open("projected.json"))["traceEvents"], open("timelines.html").read()
table = text[text.index("Layers of the first rank"):].split("</table>")[0]
rows = dict(re.findall(r'<th scope="row">([^<]*)</th><td class="n">([^<]*)<', table))
assert set(rows) == {e["name"].split(" ", 1)[1] for e in base if e["ph"] == "X" and e["name"].split()[0] in ("forward", "backward", "dgrad", "wgrad")}, rows
for layer, shown in rows.items():
    sum_us = sum(e["dur"] for e in base if e["ph"] == "X" and " " in e["name"] and e["name"].split(" ", 1)[1] == layer and e["name"].split()[0] in ("forward", "backward", "dgrad", "wgrad"))
    value, unit = shown.split()
    assert abs(float(value) * {"ns": 1e-3, "us": 1, "ms": 1e3}[unit] / sum_us - 1) < 6e-3, (layer, shown, sum_us)
PY
python3 - <<'PY' || fail "the still of a timeline"
import json, re
text = open("timelines.html").read()
slices = sum(len([e for e in json.load(open(name))["traceEvents"] if e["ph"] == "X"]) for name in ("projected.json", "measured.json"))
assert len(re.findall('height="16"[^>]*><title>', text)) == 2 * slices, slices  # in the comparison and in its own document
PY
expect 0 report projected.json measured.json --text
has out "forward conv1"
has out "Memory over time"
# Events are packed, and come back to the byte, also where lines and blanks were others; what does not fit is counted.
expect 0 report timelines.html --extract -o back
cmp -s projected.json back/1-projected.json && cmp -s measured.json back/2-measured.json || fail "timelines do not come back"
python3 -m json.tool measured.json indented.json
expect 0 report indented.json -o indented.html
expect 0 report indented.html --extract -o back
python3 -c 'import json; assert json.load(open("back/1-indented.json")) == json.load(open("measured.json"))' || fail "an indented timeline"
expect 0 report measured.json --max-events 20 -o few.html
has few.html "later operations are left out"
expect 0 report few.html --text
has out "later operations are left out"
python3 - <<'PY'
import base64, gzip, re
text = open("timelines.html").read()
mark = 'id="paradl-trace-0">'
begin, end = text.index(mark) + len(mark), text.index("</script>", text.index(mark))
data = gzip.decompress(base64.b85decode(text[begin:end].replace(",", "<")))
head, rest = data.split(b"\n", 1)
def put(name, made):
    open(name, "w").write(text[:begin] + base64.b85encode(gzip.compress(made)).decode().replace("<", ",") + text[end:])
put("cut.html", data[:len(data) // 2])
put("track.html", head + b"\n" + b"\x7e" + rest[1:])
put("huge.html", re.sub(rb'"events": \d+', b'"events": 900000000', head) + b"\n" + rest)
put("args.html", data.replace(b'{\\"micro_batch\\": 0}', b'{\\"micro_batch\\": 0,'))
open("digits.html", "w").write(text[:begin] + "<" + text[begin:])
open("gzip.html", "w").write(text[:begin + 40] + text[end:])
PY

# Plans over devices are curves of scaling.
for devices in 1 2 4; do
    expect 0 plan --model lenet --system abci-v --devices $devices --samples-per-device 16 --json
    cp out devices-$devices.json
done
expect 0 report devices-4.json devices-1.json devices-2.json -o scaling.html
has scaling.html "time of a sample over devices"
has scaling.html "Parts of an iteration of the best strategy, the largest difference first"
has scaling.html "<title>data, 4: "

# A plan file alone: what it lacks is computed by the commands that the page names.
expect 0 report plan.yaml --charts charts
[ "$(cat out)" = plan.html ] || fail "beside a page: $(cat out)"
python3 check.py plan.html 3 || fail "the page of a plan file"
has plan.html "<code>paradl plan --model lenet --system abci-v --devices 2"
has plan.html "<code>paradl simulate plan.yaml --json --trace timeline.json</code>"
has plan.html "Memory over time"
has plan.html "Roofline: "
for file in charts/*.svg; do
    python3 -c 'import sys, xml.dom.minidom as m; assert m.parse(sys.argv[1]).documentElement.tagName == "svg"' $file || fail "$file"
done
[ "$(ls charts | wc -l)" -ge 3 ] || fail "charts: $(ls charts)"

# Names are text, whatever they are.
python3 - <<'PY'
import json
plan, run = json.load(open("plan.json")), open("run.jsonl").read()
bad = "</script><script>alert(1)</script><img src=x onerror=alert(1)>\"'\u202eabc" + 10000 * "x"
plan["model"] = plan["explanation"] = bad
plan["candidates"][0]["strategy"] = plan["layers"][0]["name"] = bad
plan["command"].append(bad)
open("bad.json", "wb").write(json.dumps(plan, ensure_ascii=False).replace("abc", "a\udcffc").encode(errors="surrogateescape"))
higher = dict(plan, paradl="plan-result/2")
json.dump(higher, open("higher.json", "w"))
json.dump(dict(plan, paradl="cake/1"), open("cake.json", "w"))
open("torn.jsonl", "w").write(run[:-200])
lines = run.splitlines(True)
open("broken.jsonl", "w").write("".join(lines[:5]) + '{"step": 3, "lo\n' + "".join(lines[5:]))
json.dump({"paradl": "plan-result/1", "candidates": [{"mesh": 3, "limits": {}, "memory": []}, 7, None], "layers": [[]], "device": 1}, open("odd.json", "w"))
json.dump({"paradl": "validation/1", "rows": [{"measured": "x"}], "all": None}, open("odd2.json", "w"))
json.dump({"paradl": "program/1", "ops": [{}], "buffers": [{"first_op": -1, "last_op": 1e300, "bytes": 1}, {"first_op": 0, "last_op": 9, "bytes": 1}]}, open("odd3.json", "w"))
PY
expect 0 report bad.json -o bad.html
python3 check.py bad.html 1 || fail "the page of hostile names"
python3 - <<'PY' || fail "hostile names"
text = open("bad.html", encoding="utf-8").read()
assert "<img" not in text and "\u202e" not in text.split("<script")[0] and "a\ufffdc" in text and "&lt;img" in text
PY
for name in odd odd2 odd3; do expect 0 report $name.json -o odd.html; done
expect 0 report torn.jsonl -o torn.html
has torn.html "The last line of the log is torn"
has torn.html "The run has not ended"

# Documents of all kinds with every text hostile, every number at an end, or values of other types: a page without markup of theirs and without
# numbers that are none, or a refusal in one line.
cat >twist.py <<'PY'
import glob, json, os, random, re, subprocess, sys
bad = "</script><script>alert(1)</script><img src=x onerror=alert(1)>\"'\u202e\x01&amp;"
random.seed(1)

def twist(value, change):
    if isinstance(value, dict):
        return {key: member if key == "paradl" else twist(member, change) for key, member in value.items()}
    if isinstance(value, list):
        return [twist(member, change) for member in value]
    return change(value)

def number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool)

changes = {
    "texts": lambda v: bad if isinstance(v, str) else v,
    "huge": lambda v: 1e308 if number(v) else v,
    "negative": lambda v: -1 if number(v) else v,
    "zero": lambda v: 0 if number(v) else v,
    "null": lambda v: v if isinstance(v, str) else None,
    "mixed": lambda v: random.choice([v, "x", 3, None, True, [1], {"a": 1}, 1e300, -0.0, 5e-324]),
}
tried = 0
for path in sorted(glob.glob(sys.argv[1] + "/*.json*")):
    text = open(path).read()
    documents = [json.loads(line) for line in text.splitlines()] if path.endswith(".jsonl") else [json.loads(text)]
    for name, change in changes.items():
        twisted = "twisted" + os.path.splitext(path)[1]
        with open(twisted, "w") as file:
            file.writelines(json.dumps(twist(document, change)) + "\n" for document in documents)
        done = subprocess.run([os.environ["PARADL"], "report", twisted, "--no-core", "-o", "twisted.html"], capture_output=True)
        what = f"{os.path.basename(path)}, {name}: "
        assert done.returncode == 0 or (done.returncode == 2 and done.stderr.count(b"\n") == 1), what + str(done)
        if done.returncode != 0:
            continue
        tried += 1
        page = open("twisted.html", encoding="utf-8").read()
        shown = page.split("<script")[0]
        assert "<img" not in page and "<script>alert" not in page and "\u202e" not in shown, what + "markup"
        assert not re.search(r"\b(?:nan|inf)\b", shown), what + re.search(r".{60}\b(?:nan|inf)\b.{20}", shown, re.S).group()
assert tried >= 40, tried
PY
PARADL=$PARADL python3 twist.py "$SOURCE/tests/report/documents" || fail "twisted documents"

# refuse TEXT FILE...: status 2, one line, and no page.
refuse() {
    local text=$1
    shift
    expect 2 report "$@" -o refused.html
    [ "$(wc -l <err)" -eq 1 ] || fail "report $*: $(cat err)"
    has err "$text"
    [ ! -e refused.html ] || fail "report $*: a page beside an error"
}
: >empty.json
echo '{"a": 1}' >none.json
head -c 300 plan.json >cut.json
refuse "plan-result/2 is newer than this program" higher.json
refuse "there is no report of cake/1" cake.json
refuse "broken.jsonl:6: no JSON" broken.jsonl
refuse "empty.json: no document" empty.json
refuse "none.json: no document" none.json
refuse "cut.json:" cut.json
sed 's|"paradl": "plan-result/1"|"paradl": "plan-result/7"|' plan.json.html >newer.html
refuse "newer.html: plan-result/7 is newer" newer.html
for name in cut track huge args digits gzip; do refuse "$name.html" $name.html; done
sed '$d' measured.json >torn.json
refuse "torn.json:" torn.json
echo "name: mine" >mine.yaml
refuse "mine.yaml: no document" mine.yaml
expect 1 report nothing.json
has err "nothing.json"
expect 2 report plan.json --text --extract
finish
