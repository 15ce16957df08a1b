#!/usr/bin/env python3
"""The loss of GPT-2 124M on real text beside PyTorch's, from the same initial weights, on one GPU in bf16.

    PARADL=build/release/paradl bench/bench_gpu_curve.py --text input.txt --steps 1000

Trains three times: paradl, PyTorch, and PyTorch with another order of the samples, which shows what noise is. Tokens are the bytes of the text; an
epoch is a permutation of its windows. Prints the mean loss of windows of steps, and the largest distance of ours from PyTorch's beside the largest
between PyTorch's two; exit status 1 where ours is further away than twice that.
"""
import argparse
import json
import os
import struct
import subprocess
import sys
import tempfile
import time

import numpy
import torch
import torch.nn.functional as functional

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import peer_gpu  # noqa: E402

PARADL = os.environ.get("PARADL", "paradl")
WIDTH, HEADS = 768, 12


def write_corpus(text, folder):
    """Bytes as tokens, the last tenth to validate with."""
    tokens = numpy.frombuffer(open(text, "rb").read(), dtype="u1").astype("<u2")
    cut = len(tokens) * 9 // 10
    tokens[:cut].tofile(os.path.join(folder, "train.bin"))
    tokens[cut:].tofile(os.path.join(folder, "val.bin"))
    return tokens[:cut].astype("i8")


def write_model(given, folder):
    path = os.path.join(folder, "gpt.yaml")
    with open(path, "w") as file:
        file.write(f"paradl: model/1\nname: gpt2-curve\nextends: gpt2-124m\nparameters: {{layers: {given.layers}, tokens: {given.tokens}, "
                   f"vocabulary: {peer_gpu.VOCABULARY}, dropout: 0}}\n")
    return path


def run_ours(given, folder, *options):
    command = [PARADL, "train", "--device", given.device, "--precision", "bf16", "--model", write_model(given, folder), "--data", folder,
               "--batch", str(given.batch), "--optimizer", "adamw", "--lr", str(given.lr), "--weight-decay", "0", "--no-valid", "--quiet"]
    done = subprocess.run(command + list(options), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}\n{done.stderr}")


def read_weights(path):
    """The tensors of a safetensors file in fp32."""
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header, body = json.loads(file.read(length)), file.read()
    tensors = {}
    for name, entry in header.items():
        if name != "__metadata__" and entry["dtype"] == "F32":
            low, high = entry["data_offsets"]
            tensors[name] = torch.from_numpy(numpy.frombuffer(body[low:high], "<f4").copy()).view(entry["shape"])
    return tensors


def names_of_ours(layers):
    """Names of PyTorch's parameters and ours."""
    names = {"token.weight": "wte.weight", "position.weight": "wpe.weight", "norm.weight": "ln_f.weight", "norm.bias": "ln_f.bias"}
    parts = {"norm1": "ln_1", "qkv": "attn.c_attn", "proj": "attn.c_proj", "norm2": "ln_2", "up": "mlp.c_fc", "down": "mlp.c_proj"}
    for block in range(layers):
        for theirs, ours in parts.items():
            for kind in ("weight", "bias"):
                names[f"blocks.{block}.{theirs}.{kind}"] = f"h.{block}.{ours}.{kind}"
    return names


def make_theirs(given, start):
    net = peer_gpu.Transformer(given.layers, WIDTH, HEADS).to(given.device)
    parameters = dict(net.named_parameters())
    with torch.no_grad():
        for theirs, ours in names_of_ours(given.layers).items():
            if ours not in start:
                raise SystemExit(f"the checkpoint has no {ours}; it has {', '.join(sorted(start)[:8])}, ...")
            values = start[ours].view(-1, parameters[theirs].shape[-1]) if parameters[theirs].dim() > 1 else start[ours]
            parameters[theirs][: values.shape[0]].copy_(values)  # of positions only those that are used
    return net


def train_theirs(given, tokens, start, seed):
    net = make_theirs(given, start)
    optimizer = torch.optim.AdamW(net.parameters(), given.lr, weight_decay=0, fused=given.device == "cuda")
    count, draw, losses, order = (len(tokens) - 1) // given.tokens, numpy.random.default_rng(seed), [], []
    for _ in range(given.steps):
        if len(order) < given.batch:
            order = draw.permutation(count)
        places, order = order[: given.batch] * given.tokens, order[given.batch :]
        rows = torch.from_numpy(numpy.stack([tokens[p:p + given.tokens + 1] for p in places])).to(given.device)
        with torch.autocast(given.device, torch.bfloat16):
            out = net(rows[:, :-1])
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
    parser.add_argument("--tokens", type=int, default=512)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--lr", type=float, default=3e-4)
    parser.add_argument("--device", default="cuda")
    given = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = True
    with tempfile.TemporaryDirectory() as folder:
        tokens = write_corpus(given.text, folder)
        run_ours(given, folder, "--steps", "0", "--checkpoint", os.path.join(folder, "start"))
        start = os.path.join(folder, "start", "step-00000000", "model.safetensors")
        weights = read_weights(start)
        width, begun = max(1, given.steps // 20), time.perf_counter()
        ours = windows(train_ours(given, folder, start), width)
        print(f"ours took {time.perf_counter() - begun:.1f} s", flush=True)
        begun = time.perf_counter()
        theirs = [windows(train_theirs(given, tokens, weights, seed), width) for seed in (1, 2)]
        print(f"PyTorch's two took {time.perf_counter() - begun:.1f} s", flush=True)
    print(f"{'steps':>10} {'ours':>8} {'PyTorch':>8} {'again':>8}")
    for k, row in enumerate(zip(ours, *theirs)):
        print(f"{(k + 1) * width:>10} " + " ".join(f"{value:8.4f}" for value in row))
    apart = numpy.abs(ours - theirs[0])[1:]
    noise = numpy.abs(theirs[1] - theirs[0])[1:]
    print(f"largest distance {apart.max():.4f} (mean {apart.mean():.4f}); between PyTorch's two {noise.max():.4f} (mean {noise.mean():.4f})")
    sys.exit(0 if apart.max() <= 2 * noise.max() else 1)


if __name__ == "__main__":
    main()
