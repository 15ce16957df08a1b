#!/usr/bin/env python3
"""Writes ops.txt: outputs and gradients of layers as PyTorch computes them, in double precision.

    python3 make_ops.py > ops.txt

test_torch_values.c builds the same layers from the model texts in the file and compares. Format: README.md."""
import torch
import torch.nn.functional as F

from values import indices, values

INPUT, WEIGHT, GRADIENT, TARGET, SAMPLE_WEIGHT = 0, 16, 32, 40, 41
SCALE = 0.25  # of losses


def numbers(name, tensor):
    print(name, tensor.numel(), *("%.7g" % v for v in tensor.detach().reshape(-1).tolist()))


def head(text, samples, **options):
    print("case", samples, *("%s=%g" % (k, v) for k, v in options.items()))
    for line in text.split("\n"):
        print("|", line)


def shape_text(shape, sequence):
    if sequence:
        return "input: {tokens: %d, channels: %d}" % shape
    return "input: {channels: %d%s}" % (shape[0], ", size: %s" % list(shape[1:]) if len(shape) > 1 else "")


def case(samples, shape, layer, compute, weights=(), sequence=False, before=(), more=(), **options):
    """One layer. `compute(inputs, weights)` gives the output; `more` are the shapes of further inputs."""
    lines = [shape_text(shape, sequence), "layers:"] + ["  - " + l for l in list(before) + [layer]]
    inputs = [values(INPUT + i, (samples,) + s).requires_grad_() for i, s in enumerate((tuple(shape),) + tuple(more))]
    filled = [values(WEIGHT + k, w).requires_grad_() for k, w in enumerate(weights)]
    head("\n".join(lines), samples, **options)
    output = compute(*inputs, *filled)
    output.backward(values(GRADIENT, tuple(output.shape)))
    numbers("output", output)
    for i, x in enumerate(inputs):
        numbers("input %d" % i, x.grad)
    for k, w in enumerate(filled):
        numbers("weight %d" % k, w.grad)


def conv(samples, shape, out, kernel, stride=1, low=0, high=None, dilation=1, groups=1, bias=True):
    rank = len(shape) - 1
    all_of = lambda v: [v] * rank if isinstance(v, int) else list(v)
    kernel, stride, low, dilation = all_of(kernel), all_of(stride), all_of(low), all_of(dilation)
    high = low if high is None else all_of(high)
    layer = "conv: {out: %d, kernel: %s, stride: %s, pad: %s, pad_high: %s, dilation: %s, groups: %d, bias: %d}" % (
        out, kernel, stride, low, high, dilation, groups, bias)
    around = [v for d in reversed(range(rank)) for v in (low[d], high[d])]
    function = (F.conv1d, F.conv2d, F.conv3d)[rank - 1]

    def compute(x, w, b=None):
        return function(F.pad(x, around), w, b, stride, 0, dilation, groups)

    weights = [(out, shape[0] // groups, *kernel)] + ([(out,)] if bias else [])
    case(samples, shape, layer, compute, weights)


def conv_transpose(samples, shape, out, kernel, stride=1, pad=0, extra=0, dilation=1, groups=1, bias=True):
    rank = len(shape) - 1
    layer = "conv_transpose: {out: %d, kernel: %d, stride: %d, pad: %d, output_pad: %d, dilation: %d, groups: %d, bias: %d}" % (
        out, kernel, stride, pad, extra, dilation, groups, bias)
    function = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[rank - 1]

    def compute(x, w, b=None):
        return function(x, w, b, stride, pad, extra, groups, dilation)

    weights = [(shape[0], out // groups) + (kernel,) * rank] + ([(out,)] if bias else [])
    case(samples, shape, layer, compute, weights)


def convolutions():
    conv(2, (3, 11), 5, 3, stride=2, low=1)
    conv(1, (1, 1), 1, 1)
    conv(2, (3, 7, 6), 4, 3, low=1)
    conv(2, (17, 4, 3), 18, 1, stride=2, bias=False)
    conv(2, (5, 8, 7), 3, 2, stride=3)
    conv(1, (3, 4, 6), 5, [2, 3], low=[0, 1], high=[3, 0])
    conv(1, (4, 9, 8), 3, 3, dilation=[2, 3], low=2)
    conv(2, (6, 4, 5), 9, 3, low=1, groups=3)
    conv(2, (18, 4, 3), 18, 3, low=1, stride=2, groups=18, bias=False)
    conv(1, (2, 4, 5, 3), 3, 2, low=0, high=1)
    conv(2, (3, 3, 4, 3), 4, [1, 3, 2], stride=[1, 2, 1], low=[0, 1, 1])
    conv_transpose(2, (3, 7), 4, 3, stride=2, pad=1)
    conv_transpose(2, (4, 3, 4), 3, 3, stride=2, pad=1, extra=1)
    conv_transpose(1, (6, 4, 3), 4, 3, dilation=2, pad=1, groups=2)
    conv_transpose(1, (17, 2, 2), 3, 2, stride=3, bias=False)
    conv_transpose(1, (3, 2, 3, 2), 2, 2, stride=2)


def linears():
    case(3, (7,), "linear: {out: 5}", F.linear, [(5, 7), (5,)])
    case(2, (5, 9), "linear: {out: 11, bias: false}", F.linear, [(11, 9)], sequence=True)
    case(1, (6, 1, 1), "linear: {out: 4}", lambda x, w, b: F.linear(x.flatten(1), w, b), [(4, 6), (4,)])


def batch_norm(samples, shape, training, momentum=0.1, epsilon=1e-5):
    """Running statistics come after weight and bias, and are compared afterwards."""
    c = shape[0]
    x = values(INPUT, (samples,) + shape).requires_grad_()
    w, b = values(WEIGHT, (c,)).requires_grad_(), values(WEIGHT + 1, (c,)).requires_grad_()
    mean, var = values(WEIGHT + 2, (c,)), values(WEIGHT + 3, (c,)).abs() + 0.5
    head(shape_text(shape, False) + "\nlayers:\n  - batch_norm: {momentum: %g, epsilon: %g}" % (momentum, epsilon),
         samples, evaluate=0 if training else 1)
    y = F.batch_norm(x, mean, var, w, b, training, momentum, epsilon)
    numbers("output", y)
    if training:
        y.backward(values(GRADIENT, tuple(y.shape)))
        numbers("input 0", x.grad)
        numbers("weight 0", w.grad)
        numbers("weight 1", b.grad)
        numbers("after 2", mean)
        numbers("after 3", var)


def norms():
    batch_norm(7, (5,), True)
    batch_norm(2, (17, 3, 4), True, 0.3, 1e-3)
    batch_norm(2, (3, 2, 3, 2), True)
    batch_norm(2, (5, 3), False)
    case(2, (5, 7), "layer_norm: {}", lambda x, w, b: F.layer_norm(x, (7,), w, b), [(7,), (7,)], sequence=True)
    case(3, (9,), "layer_norm: {bias: false, epsilon: 1e-3}", lambda x, w: F.layer_norm(x, (9,), w, None, 1e-3), [(9,)])
    case(2, (3, 7), "rms_norm: {epsilon: 1e-2}",
         lambda x, w: x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-2) * w, [(7,)], sequence=True)
    case(2, (6, 3, 5), "group_norm: {groups: 3}", lambda x, w, b: F.group_norm(x, 3, w, b), [(6,), (6,)])
    case(1, (18, 5), "group_norm: {groups: 2}", lambda x, w, b: F.group_norm(x, 2, w, b), [(18,), (18,)])
    case(2, (7, 3, 2), "local_response_norm: {size: 5, alpha: 0.5, k: 2}",
         lambda x: F.local_response_norm(x, 5, 0.5, 0.75, 2))
    case(1, (18, 4, 2), "local_response_norm: {size: 4, alpha: 1.5, beta: 0.5}",
         lambda x: F.local_response_norm(x, 4, 1.5, 0.5, 1))


def activations():
    case(2, (5, 3, 4), "relu: {}", F.relu)
    case(2, (17, 3), "leaky_relu: 0.2", lambda x: F.leaky_relu(x, 0.2))
    case(2, (5, 3), "gelu: {}", F.gelu, sequence=True)
    case(2, (5, 3), "silu: {}", F.silu)
    case(2, (13,), "tanh: {}", torch.tanh)
    case(2, (5, 3), "sigmoid: {}", torch.sigmoid)
    case(2, (5, 3, 2), "softmax: {}", lambda x: F.softmax(x, 1))
    case(2, (5, 9), "softmax: {}", lambda x: F.softmax(x, 2), sequence=True)


def pools():
    case(2, (3, 7, 8), "max_pool: {kernel: 2}", lambda x: F.max_pool2d(x, 2))
    case(2, (17, 6, 5), "max_pool: {kernel: 3, stride: 2, pad: 1}", lambda x: F.max_pool2d(x, 3, 2, 1))
    case(2, (3, 7), "max_pool: {kernel: 2, stride: 3}", lambda x: F.max_pool1d(x, 2, 3))
    case(1, (2, 9, 8), "max_pool: {kernel: 2, stride: 1, dilation: 3}", lambda x: F.max_pool2d(x, 2, 1, 0, 3))
    case(2, (3, 6, 6), "max_pool: {kernel: 3, stride: 2, ceil: true}", lambda x: F.max_pool2d(x, 3, 2, ceil_mode=True))
    case(1, (3, 4, 3, 6), "max_pool: {kernel: [2, 1, 3], stride: [2, 1, 2], pad: [0, 0, 1]}",
         lambda x: F.max_pool3d(x, (2, 1, 3), (2, 1, 2), (0, 0, 1)))
    case(2, (3, 7, 8), "avg_pool: {kernel: 2}", lambda x: F.avg_pool2d(x, 2))
    case(1, (17, 6, 5), "avg_pool: {kernel: 3, stride: 2, pad: 1}",
         lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False))
    case(1, (5, 6, 5), "avg_pool: {kernel: 3, stride: 2, pad: 1, count_padding: true}", lambda x: F.avg_pool2d(x, 3, 2, 1))
    case(1, (4, 4, 6, 2), "avg_pool: {kernel: 2}", lambda x: F.avg_pool3d(x, 2))
    case(2, (5, 3, 7), "global_avg_pool: {}", lambda x: F.adaptive_avg_pool2d(x, 1))
    case(2, (5, 6), "global_avg_pool: {}", lambda x: x.mean(1), sequence=True)


def movers():
    case(2, (5, 3, 4), "add: [input, a]", torch.add, before=["relu: {name: a}"], more=[(5, 3, 4)])
    case(2, (5, 3, 4), "mul: [input, a]", torch.mul, before=["relu: {name: a}"], more=[(5, 3, 4)])
    case(2, (5, 3, 4), "mul: [input, a]", torch.mul, before=["global_avg_pool: {name: a}"], more=[(5, 1, 1)])
    case(2, (5, 3), "concat: [a, input]", lambda x, y: torch.cat((x, y), 1), before=["conv: {name: a, out: 5, kernel: 1}"],
         more=[(5, 3)])
    case(2, (3, 5), "concat: [input, a]", lambda x, y: torch.cat((x, y), 2), sequence=True,
         before=["linear: {name: a, out: 2}"], more=[(3, 2)])
    case(2, (3, 3, 4), "upsample: 2", lambda x: F.interpolate(x, scale_factor=2))
    case(2, (3, 3, 5), "upsample: {size: [7, 8]}", lambda x: F.interpolate(x, size=(7, 8)))
    case(2, (3, 3, 4), "upsample: {factor: 2, bilinear: true}", lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"))
    case(1, (18, 5, 3), "upsample: {size: [7, 8], bilinear: true}",
         lambda x: F.interpolate(x, size=(7, 8), mode="bilinear"))
    case(2, (2, 4), "upsample: {factor: 3, bilinear: true}", lambda x: F.interpolate(x, scale_factor=3, mode="linear"))
    case(1, (2, 2, 3, 2), "upsample: {factor: 2, bilinear: true}",
         lambda x: F.interpolate(x, scale_factor=2, mode="trilinear"))
    case(2, (5, 3, 2), "flatten: {}", lambda x: x.flatten(1))
    case(2, (5, 3, 2), "to_sequence: {}", lambda x: x.flatten(2).transpose(1, 2))
    case(2, (4, 5), "select: -2", lambda x: x[:, -2], sequence=True)
    case(2, (4, 3), "position: {}", lambda x, w: x + w, [(4, 3)], sequence=True)
    case(2, (4, 3), "position: {class_token: true}",
         lambda x, w, t: torch.cat((t.expand(2, 1, 3), x), 1) + w, [(5, 3), (3,)], sequence=True)


def embedding(samples, tokens, vocabulary, channels):
    w = values(WEIGHT, (vocabulary, channels)).requires_grad_()
    head("input: {tokens: %d, vocabulary: %d}\nlayers:\n  - embedding: %d" % (tokens, vocabulary, channels), samples)
    y = F.embedding(indices(INPUT, (samples, tokens), vocabulary), w)
    y.backward(values(GRADIENT, tuple(y.shape)))
    numbers("output", y)
    numbers("weight 0", w.grad)


def rotate(x):
    """x: [n, heads, tokens, dim]. Element i and i + dim/2 are the parts of a complex number that is turned."""
    half = x.shape[-1] // 2
    angle = torch.arange(x.shape[2])[:, None] * 10000.0 ** (-torch.arange(half, dtype=x.dtype) / half)
    turned = torch.complex(x[..., :half], x[..., half:]) * torch.polar(torch.ones_like(angle), angle)
    return torch.cat((turned.real, turned.imag), -1)


def attention(samples, tokens, heads, kv_heads, dim, causal, rotary):
    def compute(x):
        q, k, v = x.split([heads * dim, kv_heads * dim, kv_heads * dim], -1)
        q, k, v = (a.reshape(samples, tokens, -1, dim).transpose(1, 2) for a in (q, k, v))
        if rotary:
            q, k = rotate(q), rotate(k)
        k, v = (a.repeat_interleave(heads // kv_heads, 1) for a in (k, v))
        scores = q @ k.transpose(2, 3) / dim ** 0.5
        if causal:
            scores = scores + torch.full((tokens, tokens), float("-inf"), dtype=x.dtype).triu(1)
        return (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)

    case(samples, (tokens, (heads + 2 * kv_heads) * dim),
         "attention: {heads: %d, kv_heads: %d, causal: %d, rotary: %d}" % (heads, kv_heads, causal, rotary), compute,
         sequence=True)


def library_attention():
    """PyTorch's own module, with projections that change nothing."""
    heads, channels = 2, 6
    one = torch.eye(channels, dtype=torch.float64)

    def compute(x):
        q, k, v = (a.transpose(0, 1) for a in x.split(channels, -1))
        y, _ = F.multi_head_attention_forward(
            q, k, v, channels, heads, None, torch.zeros(3 * channels, dtype=torch.float64), None, None, False, 0, one,
            None, need_weights=False, use_separate_proj_weight=True, q_proj_weight=one, k_proj_weight=one,
            v_proj_weight=one)
        return y.transpose(0, 1)

    case(2, (5, 3 * channels), "attention: {heads: %d}" % heads, compute, sequence=True)


def moe(samples, tokens, channels, experts, top_k, hidden, gated):
    def compute(x, router, *matrices):
        gate, up, down = matrices if gated else (None, *matrices)
        best, chosen = (x @ router.T).topk(top_k)
        share = best.softmax(-1)
        y = torch.zeros_like(x)
        for e in range(experts):
            inner = F.silu(x @ gate[e].T) * (x @ up[e].T) if gated else F.gelu(x @ up[e].T)
            y = y + (share * (chosen == e)).sum(-1, keepdim=True) * (inner @ down[e].T)
        return y

    wide, narrow = (experts, hidden, channels), (experts, channels, hidden)
    case(samples, (tokens, channels), "moe: {experts: %d, top_k: %d, hidden: %d, gated: %d}" % (experts, top_k, hidden, gated),
         compute, [(experts, channels)] + [wide] * (2 if gated else 1) + [narrow], sequence=True)


def sequences():
    embedding(2, 7, 5, 3)
    attention(2, 7, 2, 2, 5, True, False)
    attention(1, 6, 4, 2, 4, True, True)
    attention(2, 5, 3, 1, 2, False, True)
    attention(1, 33, 1, 1, 4, True, False)
    library_attention()
    moe(2, 4, 6, 4, 2, 5, True)
    moe(2, 4, 5, 3, 1, 4, False)


def cross_entropy(samples, shape, sequence=False, smoothing=0.0, ignore=False, weigh=False):
    x = values(INPUT, (samples,) + shape).requires_grad_()
    classes, positions = (shape[1], (shape[0],)) if sequence else (shape[0], shape[1:])
    target = indices(TARGET, (samples,) + positions, classes).reshape(samples, -1)
    if ignore:  # as in op_case.h
        flat = target.reshape(-1)
        flat[1::3] = -1
        flat[:target.shape[1]] = -1
    logits = (x.transpose(1, 2) if sequence else x).reshape(samples, classes, -1)
    loss = F.cross_entropy(logits, target, reduction="none", ignore_index=-1, label_smoothing=smoothing)
    counted = (target >= 0).double()
    count = counted.sum(1).clamp(min=1)
    right = logits.softmax(1).gather(1, target.clamp(min=0)[:, None])[:, 0]
    hits = (logits.argmax(1) == target).double()
    result = torch.stack([(v * counted).sum(1) / count for v in (loss, hits, right)])
    weight = values(SAMPLE_WEIGHT, (samples,)) + 1.5 if weigh else torch.ones(samples, dtype=torch.float64)
    (SCALE * weight * result[0]).sum().backward()
    head(shape_text(shape, sequence) + "\nlayers:\n  - cross_entropy: {}", samples, smoothing=smoothing, ignore=ignore,
         weigh=weigh)
    numbers("output", result)
    numbers("input 0", x.grad)


def mse(samples, shape, weigh=False):
    x = values(INPUT, (samples,) + shape).requires_grad_()
    loss = F.mse_loss(x, values(TARGET, (samples,) + shape), reduction="none").reshape(samples, -1).mean(1)
    weight = values(SAMPLE_WEIGHT, (samples,)) + 1.5 if weigh else torch.ones(samples, dtype=torch.float64)
    (SCALE * weight * loss).sum().backward()
    head(shape_text(shape, False) + "\nlayers:\n  - mse: {}", samples, weigh=weigh)
    numbers("output", torch.stack([loss, torch.zeros_like(loss), torch.zeros_like(loss)]))
    numbers("input 0", x.grad)


def losses():
    cross_entropy(3, (7,))
    cross_entropy(2, (13,), smoothing=0.1, weigh=True)
    cross_entropy(2, (5, 3, 4))
    cross_entropy(3, (6, 2, 3), smoothing=0.2, ignore=True)
    cross_entropy(3, (5, 9), sequence=True, ignore=True, weigh=True)
    mse(3, (4,))
    mse(2, (5, 3, 2), weigh=True)


def imports():
    """Layers that graphs of tests/model/onnx/cases.txt become, computed as ONNX defines their operators: a transposed
    convolution with auto_pad or output_shape is the whole one without the positions that its padding takes away."""
    def whole(x, w, b):
        return F.conv_transpose2d(x, w, b, 2)

    weights = [(3, 4, 3, 3), (4,)]
    window = "conv_transpose: {out: 4, kernel: 3, stride: 2, "
    case(1, (3, 3, 3), window + "pad: 0, pad_high: 1}", lambda *x: whole(*x)[..., :6, :6], weights)  # SAME_UPPER
    case(1, (3, 3, 3), window + "pad: 1, pad_high: 0}", lambda *x: whole(*x)[..., 1:, 1:], weights)  # SAME_LOWER
    case(1, (2, 8, 8), "avg_pool: {kernel: 3, stride: 2, pad_high: 1}",
         lambda x: F.avg_pool2d(x, 3, 2, ceil_mode=True, count_include_pad=False))
    case(1, (2, 6, 6), "upsample: {size: 8}", lambda x: F.interpolate(x, scale_factor=4 / 3))


if __name__ == "__main__":
    torch.set_default_dtype(torch.float64)
    print("# made by make_ops.py with PyTorch %s" % torch.__version__.split("+")[0])
    for family in (convolutions, linears, norms, activations, pools, movers, sequences, losses,
                   imports):
        family()
