#!/usr/bin/env python3
"""The loss of GPT-2 124M on real text beside PyTorch's, from the same initial weights, on one GPU in bf16.

    PARADL=build/release/paradl bench/bench_gpu_curve.py --text input.txt --steps 1000

Trains three times: paradl, PyTorch, and PyTorch with another order of the samples, which shows what noise is. Prints the mean loss of
windows of steps, and the largest distance of ours from PyTorch's beside the largest between PyTorch's two.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

import numpy
import torch
import torch.nn.functional as functional
from safetensors.torch import load_file

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import peer_gpu  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
MODEL = os.path.join(HERE, "models", "gpt2-124m-plain.yaml")
PARADL = os.environ.get("PARADL", "paradl")
LAYERS = 12


def write_corpus(text, folder):
    """Bytes as tokens, the last tenth to validate with."""
    tokens = numpy.frombuffer(open(text, "rb").read(), dtype="u1").astype("<u2")
    cut = len(tokens) * 9 // 10
    tokens[:cut].tofile(os.path.join(folder, "train.bin"))
    tokens[cut:].tofile(os.path.join(folder, "val.bin"))
    return tokens[:cut].astype("i8")


def run_ours(given, folder, *options):
    command = [PARADL, "train", "--device", "cuda", "--precision", "bf16", "--model", MODEL, "--data", folder, "--batch",
               str(given.batch), "--optimizer", "adamw", "--lr", str(given.lr), "--weight-decay", "0", "--no-valid", "--quiet"]
    subprocess.run(command + list(options), check=True, stdout=subprocess.DEVNULL)


def names_of_ours():
    """Names of PyTorch's parameters and ours."""
    names = {"token.weight": "wte.weight", "position.weight": "wpe.weight", "norm.weight": "ln_f.weight", "norm.bias": "ln_f.bias"}
    parts = {"norm1": "ln_1", "qkv": "attn.c_attn", "proj": "attn.c_proj", "norm2": "ln_2", "up": "mlp.c_fc", "down": "mlp.c_proj"}
    for block in range(LAYERS):
        for theirs, ours in parts.items():
            for kind in ("weight", "bias"):
                names[f"blocks.{block}.{theirs}.{kind}"] = f"h.{block}.{ours}.{kind}"
    return names


def find_ours(tensors, name):
    if name in tensors:
        return tensors[name]
    raise SystemExit(f"the checkpoint has no {name}; it has {', '.join(sorted(tensors)[:8])}, ...")


def train_theirs(given, tokens, start, seed):
    net, _, _ = peer_gpu.make("gpt2-124m", 1)
    with torch.no_grad():
        parameters = dict(net.named_parameters())
        for theirs, ours in names_of_ours().items():
            parameters[theirs].copy_(find_ours(start, ours).view_as(parameters[theirs]))
    optimizer = torch.optim.AdamW(net.parameters(), given.lr, weight_decay=0, fused=True)
    draw, call, losses = numpy.random.default_rng(seed), torch.compile(net), []
    for _ in range(given.steps):
        places = draw.integers(0, len(tokens) - peer_gpu.TOKENS - 1, given.batch)
        rows = torch.from_numpy(numpy.stack([tokens[p:p + peer_gpu.TOKENS + 1] for p in places])).cuda()
        with torch.autocast("cuda", torch.bfloat16):
            out = call(rows[:, :-1])
            loss = functional.cross_entropy(out.view(-1, out.shape[-1]), rows[:, 1:].reshape(-1))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return torch.stack(losses).float().cpu().numpy()


def train_ours(given, folder, start):
    log = os.path.join(folder, "log")
    run_ours(given, folder, "--init", start, "--steps", str(given.steps), "--log", log)
    rows = [json.loads(line) for line in open(log)]
    return numpy.array([row["loss"] for row in rows if "step_s" in row][:given.steps])


def windows(losses, width):
    return losses[:len(losses) // width * width].reshape(-1, width).mean(axis=1)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--text", required=True)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--lr", type=float, default=3e-4)
    given = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = True
    with tempfile.TemporaryDirectory() as folder:
        tokens = write_corpus(given.text, folder)
        run_ours(given, folder, "--steps", "0", "--checkpoint", os.path.join(folder, "start"))
        start = os.path.join(folder, "start", "step-00000000", "model.safetensors")
        weights = load_file(start)
        width = max(1, given.steps // 20)
        ours = windows(train_ours(given, folder, start), width)
        theirs = [windows(train_theirs(given, tokens, weights, seed), width) for seed in (1, 2)]
    print(f"{'steps':>10} {'ours':>8} {'PyTorch':>8} {'again':>8}")
    for k, row in enumerate(zip(ours, *theirs)):
        print(f"{(k + 1) * width:>10} " + " ".join(f"{value:8.4f}" for value in row))
    apart = numpy.abs(ours - theirs[0])[1:]
    noise = numpy.abs(theirs[1] - theirs[0])[1:]
    print(f"largest distance {apart.max():.4f} (mean {apart.mean():.4f}); between PyTorch's two {noise.max():.4f} (mean {noise.mean():.4f})")


if __name__ == "__main__":
    main()
