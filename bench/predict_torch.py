#!/usr/bin/env python3
"""Compares predictions with PyTorch's from the same weights: ResNet-50 and GPT-2, with torchvision's and Hugging Face's names, drawn here.

    python3 bench/predict_torch.py --paradl build/release/paradl [--device cpu|cuda] [--only resnet|gpt2|text] [--bench] [--batches 1,32]

Needs torch and numpy. Logits have to agree to 1e-5 of their scale in fp32, and greedy texts token by token; exit status 1 otherwise.
--bench prints a table of speeds of both, in one run on one machine, medians, in bf16 on a GPU: ResNet-50 and GPT-2 124M (1024 tokens) forward at
batches 1, 32 and 256, and tokens generated from 1 and 32 prompts. PyTorch has bf16 weights, its samples on the device and, for text, a cache of
fixed size; ours has what `paradl predict` says of a batch: from samples in flight to the device to losses on the host, or of a token: from one
token of every prompt to the next. --no-check leaves the comparison out; --json FILE writes the figures of --bench too.
"""
import argparse
import json
import os
import struct
import subprocess
import sys
import tempfile
import time

import numpy as np
import torch
from torch import nn

BOUND = 1e-5


# ---- ResNet-50 with the names of torchvision, so that it need not be there ----
class Bottleneck(nn.Module):
    def __init__(self, inside, width, stride):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(inside, width, 1, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width)
        self.conv3, self.bn3 = nn.Conv2d(width, 4 * width, 1, bias=False), nn.BatchNorm2d(4 * width)
        self.downsample = None
        if stride != 1 or inside != 4 * width:
            self.downsample = nn.Sequential(nn.Conv2d(inside, 4 * width, 1, stride, bias=False), nn.BatchNorm2d(4 * width))

    def forward(self, x):
        y = torch.relu(self.bn1(self.conv1(x)))
        y = torch.relu(self.bn2(self.conv2(y)))
        y = self.bn3(self.conv3(y))
        return torch.relu(y + (x if self.downsample is None else self.downsample(x)))


class ResNet50(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64)
        inside = 64
        for i, (count, width) in enumerate(zip((3, 4, 6, 3), (64, 128, 256, 512))):
            blocks = []
            for k in range(count):
                blocks.append(Bottleneck(inside, width, 2 if i > 0 and k == 0 else 1))
                inside = 4 * width
            setattr(self, "layer%d" % (i + 1), nn.Sequential(*blocks))
        self.fc = nn.Linear(2048, 1000)

    def forward(self, x):
        x = nn.functional.max_pool2d(torch.relu(self.bn1(self.conv1(x))), 3, 2, 1)
        for i in range(4):
            x = getattr(self, "layer%d" % (i + 1))(x)
        return self.fc(x.mean((2, 3)))


def write_safetensors(path, state):
    header, body, at = {}, [], 0
    for name, tensor in state.items():
        if tensor.dtype != torch.float32:
            continue
        values = tensor.detach().cpu().contiguous().numpy().tobytes()
        header[name] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": [at, at + len(values)]}
        body.append(values)
        at += len(values)
    header = json.dumps(header).encode()
    header += b" " * (-len(header) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(header)) + header)
        for values in body:
            file.write(values)


def run_paradl(options, *arguments):
    command = [options.paradl, "predict", *arguments, "--device", options.device, "--quiet", "--json"]
    if options.threads:
        command += ["--threads", str(options.threads)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit("%s\n%s" % (" ".join(command), done.stderr))
    return json.loads(done.stdout)


def compare(what, ours, theirs):
    scale = float(np.abs(theirs).max())
    difference = float(np.abs(ours - theirs).max()) / scale
    good = difference <= BOUND
    print("%-28s largest difference %.1e of the scale %.3g: %s" % (what, difference, scale, "ok" if good else "TOO LARGE"))
    return good


def clock(device, function, repetitions, seconds=2.0):
    """Median; the first calls compile and warm up."""
    for _ in range(3):
        function()
    times, begun = [], time.perf_counter()
    while len(times) < repetitions and (len(times) < 5 or time.perf_counter() - begun < seconds):
        if device == "cuda":
            torch.cuda.synchronize()
        start = time.perf_counter()
        function()
        if device == "cuda":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return float(np.median(times))


def time_both(options, function, repetitions=100):
    """Seconds of a call, as it is and compiled for its shapes alone."""
    with torch.inference_mode():
        eager = clock(options.device, function, repetitions)
        torch._dynamo.reset()
        return eager, clock(options.device, torch.compile(function, dynamic=False), repetitions)


rows = []


def print_row(what, batch, ours, eager, compiled):
    rows.append({"what": what, "batch": batch, "ours_s": ours, "eager_s": eager, "compiled_s": compiled, "ratio": compiled / ours})
    print("%-24s %5d %12.3f %12.3f %12.3f %8.2f" % (what, batch, 1e3 * ours, 1e3 * eager, 1e3 * compiled, compiled / ours), flush=True)


def precision(options):
    return ("--precision", "bf16") if options.device == "cuda" else ()


def fast(options, net):
    """As it is measured: bf16 on GPUs."""
    return net.to(options.device, torch.bfloat16 if options.device == "cuda" else torch.float32)


def make_resnet():
    torch.manual_seed(1)
    net = ResNet50().eval()
    with torch.no_grad():  # statistics that are not 0 and 1, so that they matter
        for name, buffer in net.named_buffers():
            if name.endswith("running_mean"):
                buffer.normal_(0, 0.1)
            elif name.endswith("running_var"):
                buffer.uniform_(0.5, 1.5)
    return net


def check_resnet(options, folder):
    net = make_resnet()
    weights = os.path.join(folder, "resnet50.safetensors")
    write_safetensors(weights, net.state_dict())
    x = torch.randn(20, 3, 224, 224)
    np.save(os.path.join(folder, "train.npy"), x.numpy())
    np.save(os.path.join(folder, "train.labels.npy"), np.arange(20, dtype=np.int32))
    out = os.path.join(folder, "resnet.npy")
    run_paradl(options, "--model", "resnet50", "--init", weights, "--data", os.path.join(folder, "train.npy"), "--train-split",
               "--no-normalise", "--batch", "8", "-o", out)
    ours = np.load(out)
    with torch.no_grad():
        theirs = net.double()(x.double()).numpy()
    rows = ours.shape[0]  # every tenth sample is of the other split
    kept = [i for i in range(20) if rows == 20 or i % 10 != 9]
    return compare("ResNet-50, logits", ours, theirs[kept])


def bench_resnet(options, folder):
    net = make_resnet()
    weights, images = os.path.join(folder, "resnet50.safetensors"), os.path.join(folder, "images")
    write_safetensors(weights, net.state_dict())
    net = fast(options, net).to(memory_format=torch.channels_last)
    os.makedirs(images)
    draw = np.random.default_rng(4)
    for batch in options.batches:
        count = min(100, max(12, 4096 // batch)) * batch
        np.save(os.path.join(images, "val.npy"), np.frombuffer(draw.bytes(count * 3 * 224 * 224), "u1").reshape(count, 3, 224, 224))
        np.save(os.path.join(images, "val.labels.npy"), draw.integers(0, 1000, count).astype("i4"))
        np.save(os.path.join(images, "train.npy"), np.zeros((1, 3, 224, 224), "u1"))
        np.save(os.path.join(images, "train.labels.npy"), np.zeros(1, "i4"))
        summary = run_paradl(options, "--model", "resnet50", "--init", weights, "--data", images, "--batch", str(batch), "--loader-threads",
                             str(os.cpu_count() - 1 or 1), *precision(options))
        y = torch.randn(batch, 3, 224, 224).to(options.device, next(net.parameters()).dtype).to(memory_format=torch.channels_last)
        print_row("ResNet-50 forward", batch, summary["batch_s"], *time_both(options, lambda: net(y)))


# ---- GPT-2 with the names of Hugging Face, so that it need not be there ----
class Turned(nn.Module):
    """A linear layer whose weight is [in][out]."""

    def __init__(self, inside, out, draw):
        super().__init__()
        self.weight = nn.Parameter(draw * torch.randn(inside, out))
        self.bias = nn.Parameter(0.01 * torch.randn(out))

    def forward(self, x):
        return x @ self.weight + self.bias


class Attention(nn.Module):
    def __init__(self, width, heads, draw):
        super().__init__()
        self.heads, self.c_attn, self.c_proj = heads, Turned(width, 3 * width, draw), Turned(width, width, draw)

    def forward(self, x, cache, place, mask):
        samples, tokens, width = x.shape
        q, k, v = (part.view(samples, tokens, self.heads, -1).transpose(1, 2) for part in self.c_attn(x).split(width, 2))
        if cache is not None:
            k, v = (cache[i].index_copy_(2, place, part) for i, part in enumerate((k, v)))
        y = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=mask is None)
        return self.c_proj(y.transpose(1, 2).reshape(samples, tokens, width))


class Block(nn.Module):
    def __init__(self, width, heads, draw):
        super().__init__()
        self.ln_1, self.ln_2, self.attn = nn.LayerNorm(width), nn.LayerNorm(width), Attention(width, heads, draw)
        self.mlp = nn.ModuleDict({"c_fc": Turned(width, 4 * width, draw), "c_proj": Turned(4 * width, width, draw)})

    def forward(self, x, cache, place, mask):
        x = x + self.attn(self.ln_1(x), cache, place, mask)
        return x + self.mlp["c_proj"](nn.functional.gelu(self.mlp["c_fc"](self.ln_2(x)), approximate="tanh"))


class Gpt2(nn.Module):
    def __init__(self, layers=12, width=768, heads=12, positions=1024, vocabulary=50257, draw=0.02):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocabulary, width), nn.Embedding(positions, width)
        for table in (self.wte, self.wpe):
            nn.init.normal_(table.weight, std=draw)
        self.h = nn.ModuleList(Block(width, heads, draw) for _ in range(layers))
        self.ln_f = nn.LayerNorm(width)

    def forward(self, tokens, cache=None, place=None, mask=None):
        places = torch.arange(tokens.shape[1], device=tokens.device) if place is None else place
        x = self.wte(tokens) + self.wpe(places)
        for i, block in enumerate(self.h):
            x = block(x, None if cache is None else cache[i], place, mask)
        return self.ln_f(x) @ self.wte.weight.T

    def save(self, path):
        write_safetensors(path, {"transformer." + name: value for name, value in self.state_dict().items()})


def byte_tokenizer(path, size):
    """Every byte is a token: prompts are text of which the tokens are known."""
    characters, extra = {}, 256
    for byte in range(256):
        itself = 33 <= byte <= 126 or (byte >= 161 and byte != 173)
        characters[byte] = chr(byte) if itself else chr(extra)
        extra += not itself
    vocabulary = {characters[byte]: byte for byte in range(256)}
    vocabulary["<|endoftext|>"] = size - 1
    json.dump({"model": {"type": "BPE", "vocab": vocabulary, "merges": []}}, open(path, "w"))


def greedy(net, prompt, count, end):
    """The most probable tokens that follow, all computed anew for each."""
    text = list(prompt)
    for _ in range(count):
        token = int(net(torch.tensor([text]))[0, -1].argmax())
        if token == end:
            break
        text.append(token)
    return text[len(prompt) :]


def check_gpt2(options, folder):
    torch.manual_seed(2)
    net = Gpt2(4, 96, 4, 128, 300, 0.08).eval()  # sharper than usual, so that the most probable token is clear
    net.save(os.path.join(folder, "model.safetensors"))
    byte_tokenizer(os.path.join(folder, "tokenizer.json"), 300)
    model = os.path.join(folder, "gpt.yaml")
    with open(model, "w") as file:
        file.write("paradl: model/1\nname: gpt\nextends: gpt2-124m\n"
                   "parameters: {layers: 4, hidden: 96, heads: 4, tokens: 128, vocabulary: 300, dropout: 0}\n")
    tokens = np.random.default_rng(3).integers(0, 255, 128 * 12 + 1).astype(np.uint16)
    tokens.tofile(os.path.join(folder, "tokens.bin"))
    out = os.path.join(folder, "gpt.npy")
    run_paradl(options, "--model", model, "--init", os.path.join(folder, "model.safetensors"), "--data",
               os.path.join(folder, "tokens.bin"), "--train-split", "--batch", "4", "-o", out)
    ours = np.load(out)
    x = torch.from_numpy(tokens[:-1].astype(np.int64)).reshape(12, 128)[: ours.shape[0]]
    with torch.no_grad():
        theirs = net.double()(x).numpy()
    good = compare("GPT-2, logits", ours, theirs)
    prompts = ["The meaning of life", "Once upon a time there was a", "x"]
    with open(os.path.join(folder, "prompts.txt"), "w") as file:
        file.write("\n".join(prompts))
    run_paradl(options, folder, "--model", model, "--prompt-file", os.path.join(folder, "prompts.txt"), "--tokens", "60",
               "--temperature", "0", "-o", os.path.join(folder, "texts.json"))
    texts = json.load(open(os.path.join(folder, "texts.json")))["texts"]
    for prompt, text in zip(prompts, texts):
        with torch.no_grad():
            theirs = greedy(net, prompt.encode(), 60, 299)
        same = theirs == text["tokens"]
        print("GPT-2, greedy text of %-7d %s" % (len(theirs), "ok" if same else "DIFFERS: %s, expected %s" % (text["tokens"], theirs)))
        good &= same
    return good


def bench_gpt2(options, folder):
    net, where = Gpt2().eval(), os.path.join(folder, "124m")
    os.makedirs(where)
    net.save(os.path.join(where, "model.safetensors"))
    net = fast(options, net)
    draw = np.random.default_rng(5)
    for batch in options.batches:
        count = min(100, max(6, 512 // batch)) * batch
        draw.integers(0, 50257, count * 1024 + 1).astype("u2").tofile(os.path.join(where, "val.bin"))
        draw.integers(0, 50257, 1025).astype("u2").tofile(os.path.join(where, "train.bin"))
        summary = run_paradl(options, "--model", "gpt2-124m", "--init", os.path.join(where, "model.safetensors"), "--data", where, "--batch",
                             str(batch), *precision(options))
        x = torch.randint(0, 50257, (batch, 1024), device=options.device)
        print_row("GPT-2 124M forward", batch, summary["batch_s"], *time_both(options, lambda: net(x), 30))


def bench_text(options, folder, context=144):
    net, where = Gpt2().eval(), os.path.join(folder, "text")
    os.makedirs(where)
    net.save(os.path.join(where, "model.safetensors"))
    byte_tokenizer(os.path.join(where, "tokenizer.json"), 50257)
    net = fast(options, net)
    for count in [batch for batch in options.batches if batch <= 32]:
        file = os.path.join(where, "prompts.txt")
        open(file, "w").write("\n".join(["The meaning of life is, as far as is known,"] * count))
        summary = run_paradl(options, where, "--model", "gpt2-124m", "--prompt-file", file, "--tokens", "100", "--temperature", "0",
                             *precision(options))
        dtype = next(net.parameters()).dtype
        cache = [[torch.zeros(count, 12, context, 64, device=options.device, dtype=dtype) for _ in range(2)] for _ in range(12)]
        token = torch.randint(0, 255, (count, 1), device=options.device)
        place = torch.tensor([context // 2], device=options.device)
        seen = torch.arange(context, device=options.device) <= place
        mask = torch.zeros(1, 1, 1, context, device=options.device, dtype=dtype).masked_fill(~seen, float("-inf"))
        step = lambda: net(token, cache, place, mask)[:, -1].argmax(1)
        print_row("GPT-2 124M, a token", count, summary["token_s"], *time_both(options, step))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--paradl", default="paradl")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--only", choices=("resnet", "gpt2", "text"))
    parser.add_argument("--bench", action="store_true")
    parser.add_argument("--no-check", action="store_true")
    parser.add_argument("--batches", default="1,32,256")
    parser.add_argument("--json")
    options = parser.parse_args()
    options.batches = [int(batch) for batch in options.batches.split(",")]
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    good = True
    with tempfile.TemporaryDirectory() as folder:
        if not options.no_check and options.only in (None, "resnet"):
            good &= check_resnet(options, folder)
        if not options.no_check and options.only != "resnet":
            good &= check_gpt2(options, folder)
        if options.bench:
            print("%-24s %5s %12s %12s %12s %8s" % ("ms", "batch", "ours", "PyTorch", "compiled", "ratio"))
            for name, bench in (("resnet", bench_resnet), ("gpt2", bench_gpt2), ("text", bench_text)):
                if options.only in (None, name):
                    bench(options, folder)
            if options.json:
                json.dump(rows, open(options.json, "w"), indent=1)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
