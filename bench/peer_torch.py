#!/usr/bin/env python3
"""The PyTorch side of bench_train.sh and bench_scaling.sh: the same networks, batches and optimizers, on data that is already in memory.

    peer_torch.py --model resnet50 --setting tuned --steps 10

prints one line of JSON with the median seconds of a step (forward, backward and update). The settings are default; tuned,
which preloads jemalloc and OpenBLAS for OpenMP and lets it use AVX-512; channels_last; and channels_last-tuned. With --ranks
there are so many processes with a batch each, and DistributedDataParallel over gloo sums their gradients.
"""
import argparse
import glob
import json
import os
import socket
import statistics
import sys
import time

SETTINGS = ("default", "tuned", "channels_last", "channels_last-tuned")


def find_library(pattern):
    """The newest library of the usual folders that matches, or None."""
    for folder in ("/usr/lib/*", "/usr/lib", "/usr/local/lib"):
        found = sorted(glob.glob(os.path.join(folder, pattern)))
        if found:
            return found[-1]
    return None


def start_again(setting, threads):
    """Threads and libraries are chosen when a process starts, so the program starts itself once more."""
    if os.environ.get("PEER_TORCH_STARTED"):
        return
    environment = dict(os.environ, PEER_TORCH_STARTED="1", OMP_NUM_THREADS=str(threads))
    if setting.endswith("tuned"):
        libraries = [find_library("libjemalloc.so.2"), find_library("openblas-openmp/libopenblas.so.0")]
        environment["LD_PRELOAD"] = ":".join(library for library in libraries if library)
        environment["MALLOC_CONF"] = "oversize_threshold:1,background_thread:true,dirty_decay_ms:-1,muzzy_decay_ms:-1"
        with open("/proc/cpuinfo", encoding="ascii", errors="replace") as info:
            if "avx512f" in info.read():
                environment.setdefault("OPENBLAS_CORETYPE", "SkylakeX")
    os.execve(sys.executable, [sys.executable] + sys.argv, environment)


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", required=True)
    parser.add_argument("--setting", choices=SETTINGS, default="default")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--warm-up", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--ranks", type=int, default=1)
    return parser.parse_args()


def build_networks():
    """The networks need torch, which is imported only after the process has started again."""
    import torch
    from torch import nn
    from torch.nn import functional

    class Residual(nn.Module):
        """A basic (two 3x3) or a bottleneck (1x1, 3x3, 1x1) block."""

        def __init__(self, width_in, width, stride, bottleneck):
            super().__init__()
            out = 4 * width if bottleneck else width
            kernels = [(1, 1), (3, stride), (1, 1)] if bottleneck else [(3, stride), (3, 1)]
            widths = [width_in] + [width] * (len(kernels) - 1) + [out]
            self.convs = nn.ModuleList(
                nn.Conv2d(a, b, k, s, k // 2, bias=False) for a, b, (k, s) in zip(widths, widths[1:], kernels))
            self.norms = nn.ModuleList(nn.BatchNorm2d(b) for b in widths[1:])
            self.shortcut = None
            if stride != 1 or width_in != out:
                self.shortcut = nn.Sequential(nn.Conv2d(width_in, out, 1, stride, bias=False), nn.BatchNorm2d(out))

        def forward(self, x):
            y = x
            for i, (conv, norm) in enumerate(zip(self.convs, self.norms)):
                y = norm(conv(y))
                if i + 1 < len(self.convs):
                    y = functional.relu(y, inplace=True)
            y += x if self.shortcut is None else self.shortcut(x)
            return functional.relu(y, inplace=True)

    def residual_network(blocks, bottleneck, small, classes):
        layers = [nn.Conv2d(3, 64, 3 if small else 7, 1 if small else 2, 1 if small else 3, bias=False),
                  nn.BatchNorm2d(64), nn.ReLU(inplace=True)]
        if not small:
            layers.append(nn.MaxPool2d(3, 2, 1))
        width_in = 64
        for stage, count in enumerate(blocks):
            width = 64 << stage
            for block in range(count):
                layers.append(Residual(width_in, width, 2 if stage > 0 and block == 0 else 1, bottleneck))
                width_in = 4 * width if bottleneck else width
        return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width_in, classes))

    def lenet():
        return nn.Sequential(
            nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(inplace=True), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5),
            nn.ReLU(inplace=True), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(400, 120), nn.ReLU(inplace=True),
            nn.Linear(120, 84), nn.ReLU(inplace=True), nn.Linear(84, 10))

    def cosmoflow():
        # (filters, kernel, stride, padding low and high); PyTorch pads an even kernel on one side only when told to.
        convs = [(16, 3, 1, 0, 0), (32, 3, 1, 0, 0), (64, 3, 1, 1, 1), (128, 3, 2, 0, 1), (256, 2, 1, 0, 1),
                 (256, 2, 1, 0, 1), (128, 2, 2, 0, 1)]
        layers, width_in, size = [], 4, 128
        for i, (width, kernel, stride, low, high) in enumerate(convs):
            if stride == 2:  # as "same": just enough for ceil(size / 2) positions
                total = max((-(-size // 2) - 1) * 2 + kernel - size, 0)
                low, high = total // 2, total - total // 2
            if low == high:
                layers.append(nn.Conv3d(width_in, width, kernel, stride, low))
            else:
                layers += [nn.ConstantPad3d((low, high) * 3, 0.0), nn.Conv3d(width_in, width, kernel, stride)]
            size = (size + low + high - kernel) // stride + 1
            layers.append(nn.LeakyReLU(inplace=True))
            if i < 6:
                layers.append(nn.AvgPool3d(2))
                size //= 2
            width_in = width
        return nn.Sequential(*layers, nn.Flatten(), nn.Linear(width_in * size ** 3, 2048), nn.LeakyReLU(inplace=True),
                             nn.Dropout(0.5), nn.Linear(2048, 256), nn.LeakyReLU(inplace=True), nn.Dropout(0.5),
                             nn.Linear(256, 4))

    class Decoder(nn.Module):
        def __init__(self, hidden, heads, tokens):
            super().__init__()
            self.heads = heads
            self.norm1, self.norm2 = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
            self.qkv, self.out = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden)
            self.up, self.down = nn.Linear(hidden, 4 * hidden), nn.Linear(4 * hidden, hidden)
            self.register_buffer("hidden_part", torch.ones(tokens, tokens, dtype=torch.bool).triu(1))

        def attend(self, x):
            batch, tokens, hidden = x.shape
            q, k, v = (part.view(batch, tokens, self.heads, hidden // self.heads).transpose(1, 2)
                       for part in self.qkv(x).split(hidden, dim=2))
            scores = (q @ k.transpose(-2, -1)) * (hidden // self.heads) ** -0.5
            weights = scores.masked_fill(self.hidden_part, float("-inf")).softmax(-1)
            return self.out((weights @ v).transpose(1, 2).reshape(batch, tokens, hidden))

        def forward(self, x):
            x = x + self.attend(self.norm1(x))
            return x + self.down(functional.gelu(self.up(self.norm2(x))))

    class Gpt(nn.Module):
        def __init__(self, vocabulary, layers=4, hidden=256, heads=8, tokens=128):
            super().__init__()
            self.words, self.places = nn.Embedding(vocabulary, hidden), nn.Embedding(tokens, hidden)
            self.decoders = nn.Sequential(*(Decoder(hidden, heads, tokens) for _ in range(layers)))
            self.norm = nn.LayerNorm(hidden)

        def forward(self, tokens):
            x = self.words(tokens) + self.places.weight
            return functional.linear(self.norm(self.decoders(x)), self.words.weight).flatten(0, 1)

    return {
        "resnet50": lambda: residual_network((3, 4, 6, 3), True, False, 1000),
        "resnet18-cifar": lambda: residual_network((2, 2, 2, 2), False, True, 10),
        "lenet": lenet,
        "cosmoflow-128": cosmoflow,
        "gpt-4x256": lambda: Gpt(50257),
        "gpt-4x256-small": lambda: Gpt(4096),
    }


def make_batch(model):
    """Inputs, targets and the loss."""
    import torch
    from torch.nn import functional

    images = {"resnet50": (8, 3, 224, 1000), "resnet18-cifar": (64, 3, 32, 10), "lenet": (64, 1, 28, 10)}
    if model in images:
        count, channels, size, classes = images[model]
        return (torch.rand(count, channels, size, size), torch.randint(classes, (count,)), functional.cross_entropy)
    if model == "cosmoflow-128":
        return torch.rand(1, 4, 128, 128, 128), torch.rand(1, 4), functional.mse_loss
    tokens = torch.randint(50257 if model == "gpt-4x256" else 4096, (8, 129))
    return tokens[:, :-1].contiguous(), tokens[:, 1:].flatten(), functional.cross_entropy


def measure(options, rank=0):
    import torch

    torch.manual_seed(1 + rank)
    torch.set_num_threads(options.threads)
    networks = build_networks()
    if options.model not in networks:
        sys.exit(f"unknown model {options.model}: expected one of {', '.join(networks)}")
    network = networks[options.model]()
    inputs, targets, loss_of = make_batch(options.model)
    if options.setting.startswith("channels_last"):
        layout = {4: torch.channels_last, 5: torch.channels_last_3d}.get(inputs.dim())
        if layout is None:
            sys.exit(f"{options.model} has no channels to put last")
        network, inputs = network.to(memory_format=layout), inputs.to(memory_format=layout)
    if options.ranks > 1:
        network = torch.nn.parallel.DistributedDataParallel(network)
    if options.model.startswith("gpt"):
        optimizer = torch.optim.AdamW(network.parameters(), lr=1e-4)
    else:
        optimizer = torch.optim.SGD(network.parameters(), lr=1e-3, momentum=0.9)
    seconds = []
    for _ in range(options.warm_up + options.steps):
        start = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        loss_of(network(inputs), targets).backward()
        optimizer.step()
        seconds.append(time.perf_counter() - start)
    return {"model": options.model, "setting": options.setting, "torch": torch.__version__,
            "parameters": sum(p.numel() for p in network.parameters()), "threads": options.threads,
            "step_s": statistics.median(seconds[options.warm_up:])}


def run_rank(rank, options, port):
    """One process of several, each on a core of its own as mpirun would have it."""
    import torch.distributed

    cores = sorted(os.sched_getaffinity(0))
    if options.ranks * options.threads <= len(cores):
        os.sched_setaffinity(0, cores[rank * options.threads:(rank + 1) * options.threads])
    torch.distributed.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank,
                                         world_size=options.ranks)
    result = measure(options, rank)
    torch.distributed.destroy_process_group()
    if rank == 0:
        print(json.dumps(result))


def measure_ranks(options):
    import torch.multiprocessing

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    torch.multiprocessing.spawn(run_rank, (options, port), options.ranks)


def main():
    options = parse()
    start_again(options.setting, options.threads)
    if options.ranks > 1:
        measure_ranks(options)
    else:
        print(json.dumps(measure(options)))


if __name__ == "__main__":
    main()
