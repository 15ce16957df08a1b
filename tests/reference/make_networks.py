#!/usr/bin/env python3
"""Writes networks.txt: ten steps of training of whole networks as PyTorch does them.

    python3 make_networks.py > networks.txt

test_networks.c trains the same networks from the same weights on the same data. Formulas and format: README.md."""
import torch
import torch.nn.functional as F

from values import named

STEPS = 10
BATCH = 8
BATCHES = 2  # taken in turn


class Weights:
    """Parameters made when a layer first asks for them, by name; statistics of batch norm apart."""

    def __init__(self, dtype):
        self.dtype, self.trained, self.statistics = dtype, {}, {}

    def get(self, name, shape, scale=None):
        if name not in self.trained:
            u = named(name, shape)
            if len(shape) == 1:
                value = 1 + 0.1 * u if name.endswith(".weight") else 0.05 * u
            else:
                fan_in = u[0].numel()
                value = u * (scale or (6 / fan_in) ** 0.5)
            # Rounded to single precision first, so that both precisions begin alike.
            self.trained[name] = value.float().to(self.dtype).requires_grad_()
        return self.trained[name]

    def statistic(self, name, channels, value):
        if name not in self.statistics:
            self.statistics[name] = torch.full((channels,), float(value), dtype=self.dtype)
        return self.statistics[name]


def conv(w, name, x, out, kernel, stride=1, pad=0, bias=False):
    rank = x.dim() - 2
    weight = w.get(name + ".weight", (out, x.shape[1]) + (kernel,) * rank)
    shift = w.get(name + ".bias", (out,)) if bias else None
    return (F.conv2d if rank == 2 else F.conv3d)(x, weight, shift, stride, pad)


def linear(w, name, x, out):
    return F.linear(x, w.get(name + ".weight", (out, x.shape[-1])), w.get(name + ".bias", (out,)))


def batch_norm(w, name, x):
    c = x.shape[1]
    mean, var = w.statistic(name + ".running_mean", c, 0), w.statistic(name + ".running_var", c, 1)
    return F.batch_norm(x, mean, var, w.get(name + ".weight", (c,)), w.get(name + ".bias", (c,)), True)


def layer_norm(w, name, x):
    c = x.shape[-1]
    return F.layer_norm(x, (c,), w.get(name + ".weight", (c,)), w.get(name + ".bias", (c,)))


def resnet18(w, x):
    """3x3 stem without pooling, stages of two blocks, for 32-pixel images."""
    x = F.relu(batch_norm(w, "bn1", conv(w, "conv1", x, 64, 3, pad=1)))
    for stage, width in enumerate((64, 128, 256, 512), 1):
        for block in range(2):
            at = "layer%d.%d." % (stage, block)
            down = stage > 1 and block == 0
            y = F.relu(batch_norm(w, at + "bn1", conv(w, at + "conv1", x, width, 3, 2 if down else 1, 1)))
            y = batch_norm(w, at + "bn2", conv(w, at + "conv2", y, width, 3, 1, 1))
            if down:
                x = batch_norm(w, at + "downsample.1", conv(w, at + "downsample.0", x, width, 1, 2))
            x = F.relu(x + y)
    return linear(w, "fc", x.mean((2, 3)), 10)


def gpt(w, tokens, layers=2, hidden=64, heads=4, vocabulary=97):
    """Pre-norm decoder with learned positions; the head is the embedding."""
    n, t = tokens.shape
    table = w.get("wte.weight", (vocabulary, hidden), 0.05)
    mask = torch.full((t, t), float("-inf"), dtype=w.dtype).triu(1)
    x = F.embedding(tokens, table) + w.get("wpe.weight", (t, hidden), 0.05)
    for i in range(layers):
        at = "h.%d." % i
        y = linear(w, at + "attn.c_attn", layer_norm(w, at + "ln_1", x), 3 * hidden)
        q, k, v = (a.reshape(n, t, heads, hidden // heads).transpose(1, 2) for a in y.split(hidden, -1))
        y = ((q @ k.transpose(2, 3) / (hidden // heads) ** 0.5 + mask).softmax(-1) @ v).transpose(1, 2).flatten(2)
        x = x + linear(w, at + "attn.c_proj", y, hidden)
        y = linear(w, at + "mlp.c_fc", layer_norm(w, at + "ln_2", x), 4 * hidden)
        x = x + linear(w, at + "mlp.c_proj", F.gelu(y), hidden)
    return F.linear(layer_norm(w, "ln_f", x), table)


def cosmoflow(w, x):
    """Padding "same" puts the odd element at the high end."""
    high = lambda a: F.pad(a, (0, 1) * 3)
    act = lambda a: F.leaky_relu(a, 0.01)
    x = F.avg_pool3d(act(conv(w, "conv1", x, 16, 3, bias=True)), 2)
    x = F.avg_pool3d(act(conv(w, "conv2", x, 32, 3, bias=True)), 2)
    x = F.avg_pool3d(act(conv(w, "conv3", x, 64, 3, pad=1, bias=True)), 2)
    x = act(conv(w, "conv4", x, 128, 3, 2, 1, bias=True))
    x = F.avg_pool3d(act(conv(w, "conv5", high(x), 256, 2, bias=True)), 2)
    x = act(conv(w, "conv7", high(x), 128, 2, 2, bias=True)).flatten(1)
    return linear(w, "fc3", act(linear(w, "fc2", act(linear(w, "fc1", x, 256)), 64)), 4)


def classes(name, shape, limit):
    return ((named(name, shape) + 1) / 2 * limit).to(torch.int64)


def resnet_loss(w, batch):
    x = named("input.%d" % batch, (BATCH, 3, 32, 32)).to(w.dtype)
    return F.cross_entropy(resnet18(w, x), classes("target.%d" % batch, (BATCH,), 10))


def gpt_loss(w, batch):
    y = gpt(w, classes("input.%d" % batch, (BATCH, 32), 97))
    return F.cross_entropy(y.transpose(1, 2), classes("target.%d" % batch, (BATCH, 32), 97))


def cosmoflow_loss(w, batch):
    x = named("input.%d" % batch, (BATCH, 4, 32, 32, 32)).to(w.dtype)
    return F.mse_loss(cosmoflow(w, x), named("target.%d" % batch, (BATCH, 4)).to(w.dtype))


def groups(w, decay):
    """Weight decay is for matrices and kernels only."""
    every = list(w.trained.values())
    return [{"params": [p for p in every if p.dim() > 1], "weight_decay": decay},
            {"params": [p for p in every if p.dim() == 1], "weight_decay": 0.0}]


def train(loss_of, make_optimizer, dtype):
    w, losses = Weights(dtype), []
    with torch.no_grad():  # makes the weights
        loss_of(w, 0)
    w.statistics.clear()
    optimizer = make_optimizer(w)
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = loss_of(w, step % BATCHES)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return w, losses


def write(name, loss_of, make_optimizer):
    _, single = train(loss_of, make_optimizer, torch.float32)
    w, double = train(loss_of, make_optimizer, torch.float64)
    print("network", name)
    print("float32", *("%.9g" % v for v in single))
    print("float64", *("%.9g" % v for v in double))
    for tensor, value in list(w.trained.items()) + list(w.statistics.items()):
        print("tensor %s %.9g %.9g" % (tensor, value.sum().item(), value.pow(2).sum().item()))


if __name__ == "__main__":
    torch.set_num_threads(2)
    print("# made by make_networks.py with PyTorch %s" % torch.__version__.split("+")[0])
    write("resnet18-cifar", resnet_loss, lambda w: torch.optim.SGD(groups(w, 5e-4), lr=0.00005, momentum=0.9))
    write("gpt", gpt_loss, lambda w: torch.optim.AdamW(groups(w, 0.1), lr=1e-3, eps=1e-6))
    write("cosmoflow-32", cosmoflow_loss, lambda w: torch.optim.SGD(groups(w, 5e-4), lr=0.01, momentum=0.9))
