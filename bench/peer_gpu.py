#!/usr/bin/env python3
"""The PyTorch side of bench_gpu.sh: training steps and inference on one GPU, bf16 by autocast (or tf32, fp32), data already there.

    peer_gpu.py --model resnet50 --mode compile --steps 40
    peer_gpu.py --model gpt2-124m --mode compile --predict --batch 32

prints one line of JSON with the median seconds of a step (forward, loss, backward, update) or of a forward pass.
"""
import argparse
import json
import statistics

import torch
import torch.nn.functional as functional
from torch import nn

# Batch, and for the Transformers layers, width, heads.
CASES = {
    "resnet50": (256,),
    "wrn-28-10": (512,),
    "gpt2-124m": (32, 12, 768, 12),
    "gpt2-1.5b": (8, 48, 1600, 25),
}
TOKENS = 1024
VOCABULARY = 50304


class WideBlock(nn.Module):
    """Pre-activation block of a Wide ResNet."""

    def __init__(self, width_in, width, stride):
        super().__init__()
        self.norm1, self.norm2 = nn.BatchNorm2d(width_in), nn.BatchNorm2d(width)
        self.conv1 = nn.Conv2d(width_in, width, 3, stride, 1, bias=False)
        self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        changes = width_in != width or stride != 1
        self.shortcut = nn.Conv2d(width_in, width, 1, stride, bias=False) if changes else None

    def forward(self, x):
        active = functional.relu(self.norm1(x))
        beside = self.shortcut(active) if self.shortcut else x
        return self.conv2(functional.relu(self.norm2(self.conv1(active)))) + beside


def wide_resnet(classes=100, blocks=4, widen=10):
    layers, width_in = [nn.Conv2d(3, 16, 3, 1, 1, bias=False)], 16
    for group, width in enumerate((16 * widen, 32 * widen, 64 * widen)):
        for block in range(blocks):
            layers.append(WideBlock(width_in, width, 2 if group > 0 and block == 0 else 1))
            width_in = width
    head = [nn.BatchNorm2d(width_in), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width_in, classes)]
    return nn.Sequential(*layers, *head)


class Decoder(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        samples, tokens, width = x.shape
        parts = self.qkv(self.norm1(x)).view(samples, tokens, 3, self.heads, width // self.heads)
        query, key, value = (parts[:, :, i].transpose(1, 2) for i in range(3))
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.proj(mixed.transpose(1, 2).reshape(samples, tokens, width))
        return x + self.down(functional.gelu(self.up(self.norm2(x)), approximate="tanh"))


class Transformer(nn.Module):
    """GPT-2 with the logits' weight tied to the table of tokens."""

    def __init__(self, layers, width, heads):
        super().__init__()
        self.token, self.position = nn.Embedding(VOCABULARY, width), nn.Embedding(TOKENS, width)
        self.blocks = nn.Sequential(*[Decoder(width, heads) for _ in range(layers)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, VOCABULARY, bias=False)
        self.head.weight = self.token.weight

    def forward(self, tokens):
        places = torch.arange(tokens.shape[1], device=tokens.device)
        return self.head(self.norm(self.blocks(self.token(tokens) + self.position(places))))


def make(name, batch):
    """Network, inputs, targets."""
    if name.startswith("gpt"):
        net = Transformer(*CASES[name][1:]).cuda()
        draw = lambda: torch.randint(0, 50257, (batch, TOKENS), device="cuda")
        return net, draw(), draw()
    if name == "resnet50":
        import torchvision

        net, size, classes = torchvision.models.resnet50(), 224, 1000
    else:
        net, size, classes = wide_resnet(), 32, 100
    net = net.cuda().to(memory_format=torch.channels_last)
    images = torch.randn(batch, 3, size, size, device="cuda").to(memory_format=torch.channels_last)
    return net, images, torch.randint(0, classes, (batch,), device="cuda")


def autocast(precision):
    return torch.autocast("cuda", torch.bfloat16, enabled=precision == "bf16")


def training_step(name, net, call, inputs, targets, precision):
    if name.startswith("gpt"):
        optimizer = torch.optim.AdamW(net.parameters(), 3e-4, fused=True)
    else:
        optimizer = torch.optim.SGD(net.parameters(), 0.01, momentum=0.9, weight_decay=1e-4)

    def step():
        with autocast(precision):
            out = call(inputs)
            loss = functional.cross_entropy(out.view(-1, out.shape[-1]), targets.view(-1))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    return step


def prediction(net, call, inputs, precision):
    net.eval()

    def step():
        with torch.no_grad(), autocast(precision):
            call(inputs)

    return step


def measure(step, steps, groups=5):
    """Median over groups of steps; the first calls compile and warm up."""
    for _ in range(10):
        step()
    seconds = []
    for _ in range(groups):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        for _ in range(max(1, steps // groups)):
            step()
        end.record()
        torch.cuda.synchronize()
        seconds.append(begin.elapsed_time(end) / 1e3 / max(1, steps // groups))
    return statistics.median(seconds)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", choices=CASES, required=True)
    parser.add_argument("--mode", choices=("eager", "compile"), default="compile")
    parser.add_argument("--batch", type=int, default=0)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--predict", action="store_true")
    parser.add_argument("--precision", choices=("bf16", "tf32", "fp32"), default="bf16")
    given = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = given.precision != "fp32"
    torch.backends.cudnn.benchmark = True
    batch = given.batch or CASES[given.model][0]
    net, inputs, targets = make(given.model, batch)
    call = torch.compile(net) if given.mode == "compile" else net
    if given.predict:
        step = prediction(net, call, inputs, given.precision)
    else:
        step = training_step(given.model, net, call, inputs, targets, given.precision)
    print(json.dumps({"model": given.model, "mode": given.mode, "precision": given.precision, "batch": batch, "predict": given.predict,
                      "step_s": measure(step, given.steps),
                      "peak_bytes": torch.cuda.max_memory_allocated(), "torch": torch.__version__,
                      "cudnn": torch.backends.cudnn.version()}), flush=True)


if __name__ == "__main__":
    main()
