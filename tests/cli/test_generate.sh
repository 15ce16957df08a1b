#!/usr/bin/env bash
# predict --prompt: with the cache as without, on ranks as on one, tokenizers of Hugging Face, what is refused.
set -euo pipefail
. "$SOURCE/tests/cli/ranks.sh"

# same_texts A B: two files of texts are alike but for the command that made them.
same_texts() {
    python3 -c 'import json, sys
one, other = (json.load(open(name)) for name in sys.argv[1:])
assert one.pop("command") != other.pop("command") and one == other' "$1" "$2"
}
export PYTHONPATH=$SOURCE/tests/cli

small_gpt 0
for _ in $(seq 60); do echo "the cat sat on the mat"; done >text.txt
expect 0 train --model gpt.yaml --data text.txt --batch 8 --optimizer adamw --lr 0.01 --steps 60 --threads 1 --quiet --no-valid --checkpoint run
printf 'the cat\nthe mat\n\nsat on' >prompts
text=(predict run --data text.txt --prompt-file prompts --tokens 12)

expect 0 predict run --data text.txt --prompt "the cat" --tokens 12 --temperature 0
cp out learned
grep -q "^the cat.*the" learned || fail "what it has learned: $(cat learned)"
has err "for keys and values"
has err "tokens/s"
has err "projected"
# The text does not depend on the cache, on the batch or on the ranks, only on the seed.
expect 0 "${text[@]}" --temperature 1.3 --top-k 9 -o cached.json
expect 0 "${text[@]}" --temperature 1.3 --top-k 9 -o again.json --no-cache
same_texts cached.json again.json || fail "tokens differ without the cache"
expect 0 "${text[@]}" --temperature 1.3 --top-k 9 -o again.json --batch 1 --pe 2
same_texts cached.json again.json || fail "tokens differ on two ranks"
expect 0 "${text[@]}" --temperature 1.3 --top-k 9 -o other.json --seed 2
! cmp -s cached.json other.json || fail "another seed gives the same text"
expect 0 "${text[@]}" -o texts.txt --json
python3 - <<'PY' || fail "summary or texts"
import json

summary = json.load(open("out"))
assert summary["prompts"] == 3 and summary["prompt_tokens"] == 20 and summary["tokens"] == 36
assert summary["cache_bytes"] == 2 * 2 * 3 * 19 * 32 * 4 and summary["memory_bytes"] > summary["cache_bytes"]
for key in "tokens_per_s token_s token_p95_s prefill_s decode_s projected_token_s".split():
    assert summary[key] > 0, key
texts = json.load(open("cached.json"))["texts"]
assert [t["prompt"] for t in texts] == ["the cat", "the mat", "sat on"]
assert all(len(t["tokens"]) == len(t["text"]) == 12 for t in texts)
assert open("texts.txt").read().count("---\n") == 2
PY

# A folder as Hugging Face has it: weights in its layout, a tokenizer beside them.
python3 - <<'PY'
import glob, json, os, weights

os.mkdir("folder")
ours = weights.read(glob.glob("run/step-*/model.safetensors")[0])
turned = ("c_attn.weight", "c_proj.weight", "c_fc.weight")
weights.write("folder/model.safetensors", {"transformer." + name: weights.transpose(t) if name.endswith(turned) else t for name, t in ours.items()})
# As many single characters as there are in the text, in the same order; a pair that becomes one token, and the end.
characters = sorted(set(open("text.txt").read()))
vocabulary = {{" ": "\u0120", "\n": "\u010a"}.get(c, c): i for i, c in enumerate(characters)}
vocabulary["<|endoftext|>"] = len(vocabulary)
json.dump({"model": {"type": "BPE", "vocab": vocabulary, "merges": []}}, open("folder/tokenizer.json", "w"))
PY
expect 0 predict folder --model gpt.yaml --prompt "the cat" --tokens 12 --temperature 0
cmp out learned || fail "from a folder of Hugging Face: $(cat out)"

expect 2 predict run --data text.txt --prompt "the dog"
has err "prompt 1: the character 0x64 is not in the text"
expect 2 predict run --data text.txt --prompt "the cat" --tokens 20
has err "at most --tokens 19 can follow"
expect 2 predict run --vocabulary byte --prompt "the cat"
has err "has 256 tokens, gpt knows 65"
expect 2 predict run --vocabulary nowhere --prompt "the cat"
expect 2 predict folder --model gpt.yaml --prompt ""
expect 2 predict run --data text.txt --prompt a --prompt-file prompts
expect 2 predict run --data text.txt --prompt "the cat" --temperature -1
expect 2 predict run --data text.txt --prompt "the cat" --train-split
expect 1 predict run --data text.txt --prompt-file nowhere
printf '\n\n' >empty
expect 2 predict run --data text.txt --prompt-file empty
has err "empty: there is no prompt in it"
finish
