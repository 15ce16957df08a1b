#!/usr/bin/env python3
"""Compares predictions with PyTorch's from the same weights: ResNet-50 (torchvision's layout, written here) and GPT-2 (transformers), drawn there.

    python3 bench/predict_torch.py --paradl build/release/paradl [--device cpu|cuda] [--only resnet|gpt2] [--bench]

Needs torch, numpy and, for GPT-2, transformers. Logits have to agree to 1e-5 of their scale in fp32, and greedy texts token by token; exit status 1
otherwise. --bench also prints rates of both, in one run on one machine: ResNet-50 and GPT-2 124M forward at batches 1, 32 and 256 (GPT-2: 1 and 32),
and tokens generated from 1 and 32 prompts.
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


def clock(device, function, repetitions):
    function()
    times = []
    for _ in range(repetitions):
        if device == "cuda":
            torch.cuda.synchronize()
        start = time.perf_counter()
        function()
        if device == "cuda":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return float(np.median(times))


def check_resnet(options, folder):
    torch.manual_seed(1)
    net = ResNet50().eval()
    with torch.no_grad():  # statistics that are not 0 and 1, so that they matter
        for name, buffer in net.named_buffers():
            if name.endswith("running_mean"):
                buffer.normal_(0, 0.1)
            elif name.endswith("running_var"):
                buffer.uniform_(0.5, 1.5)
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
    good = compare("ResNet-50, logits", ours, theirs[kept])
    if options.bench:
        net = net.float().to(options.device)
        for batch in (1, 32, 256):
            y = torch.randn(batch, 3, 224, 224, device=options.device)
            with torch.no_grad():
                seconds = clock(options.device, lambda: net(y), 10)
                compiled = torch.compile(net)
                fast = clock(options.device, lambda: compiled(y), 10)
            summary = run_paradl(options, "--model", "resnet50", "--init", weights, "--data", "synthetic", "--samples", str(100 * batch),
                                 "--batch", str(batch))
            print("ResNet-50, batch %-4d            ours %8.2f ms, PyTorch %8.2f ms, compiled %8.2f ms" %
                  (batch, 1e3 * summary["batch_s"], 1e3 * seconds, 1e3 * fast))
    return good


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


def check_gpt2(options, folder):
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(2)
    config = GPT2Config(n_layer=4, n_embd=96, n_head=4, n_positions=128, vocab_size=300)
    net = GPT2LMHeadModel(config).eval()
    with torch.no_grad():  # sharper than drawn, so that the most probable token is clear
        for name, weight in net.named_parameters():
            if weight.dim() > 1:
                weight.mul_(4)
    write_safetensors(os.path.join(folder, "model.safetensors"), net.state_dict())
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
        theirs = net.double()(x).logits.numpy()
    good = compare("GPT-2, logits", ours, theirs)
    prompts = ["The meaning of life", "Once upon a time there was a", "x"]
    with open(os.path.join(folder, "prompts.txt"), "w") as file:
        file.write("\n".join(prompts))
    run_paradl(options, folder, "--model", model, "--prompt-file", os.path.join(folder, "prompts.txt"), "--tokens", "60",
               "--temperature", "0", "-o", os.path.join(folder, "texts.json"))
    texts = json.load(open(os.path.join(folder, "texts.json")))["texts"]
    for prompt, text in zip(prompts, texts):
        x = torch.tensor([list(prompt.encode())])
        with torch.no_grad():
            theirs = net.generate(x, attention_mask=torch.ones_like(x), max_new_tokens=60, do_sample=False, pad_token_id=299,
                                  eos_token_id=299)[0, x.shape[1] :].tolist()
        theirs = theirs[: theirs.index(299)] if 299 in theirs else theirs
        same = theirs == text["tokens"]
        print("GPT-2, greedy text of %-7d %s" % (len(theirs), "ok" if same else "DIFFERS: %s, expected %s" % (text["tokens"], theirs)))
        good &= same
    if options.bench:
        bench_gpt2(options, folder)
    return good


def bench_gpt2(options, folder):
    from transformers import GPT2Config, GPT2LMHeadModel

    net = GPT2LMHeadModel(GPT2Config()).eval().to(options.device)
    where = os.path.join(folder, "124m")
    os.makedirs(where, exist_ok=True)
    write_safetensors(os.path.join(where, "model.safetensors"), net.state_dict())
    byte_tokenizer(os.path.join(where, "tokenizer.json"), 50257)
    for count in (1, 32):
        file = os.path.join(where, "prompts.txt")
        open(file, "w").write("\n".join(["The meaning of life is, as far as is known,"] * count))
        summary = run_paradl(options, where, "--model", "gpt2-124m", "--prompt-file", file, "--tokens", "100", "--temperature", "0")
        x = torch.randint(0, 255, (count, 44), device=options.device)
        with torch.no_grad():
            seconds = clock(options.device, lambda: net.generate(x, attention_mask=torch.ones_like(x), max_new_tokens=100, do_sample=False,
                                                                 pad_token_id=50256, eos_token_id=None), 3)
        whole = summary["prefill_s"] + summary["decode_s"]
        print("GPT-2 124M, %2d prompts, 100 tokens  ours %8.1f tokens/s (%.2f ms a token), transformers %8.1f tokens/s" %
              (count, 100 * count / whole, 1e3 * summary["token_s"], 100 * count / seconds))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--paradl", default="paradl")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--only", choices=("resnet", "gpt2"))
    parser.add_argument("--bench", action="store_true")
    options = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    good = True
    with tempfile.TemporaryDirectory() as folder:
        if options.only != "gpt2":
            good &= check_resnet(options, folder)
        if options.only != "resnet":
            good &= check_gpt2(options, folder)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
