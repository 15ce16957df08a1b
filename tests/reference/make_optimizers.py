#!/usr/bin/env python3
"""Reference values of optimizers and learning rates, from PyTorch in double precision.

Run as `python3 make_optimizers.py > optimizers.txt`; needs torch 1.13 or later. Lines of the output:
    case NAME METHOD LR MOMENTUM NESTEROV BETA1 BETA2 EPSILON DECAY CLIP STEPS
    w VALUES            the weights before the first step; the first DECAYING of them decay
    g VALUES            gradients of a step
    w VALUES            the weights after it
    rate NAME SCHEDULE LR MIN TOTAL POWER GAMMA COUNT
    r VALUES            the rates of steps 0, 1, ...
"""
import torch

WEIGHTS, DECAYING, STEPS = 11, 7, 6
CASES = [
    # name, method, lr, momentum, nesterov, beta1, beta2, epsilon, decay, clip
    ("plain", "sgd", 0.1, 0, 0, 0.9, 0.999, 1e-8, 0, 0),
    ("decay", "sgd", 0.05, 0, 0, 0.9, 0.999, 1e-8, 0.01, 0),
    ("momentum", "sgd", 0.1, 0.9, 0, 0.9, 0.999, 1e-8, 5e-4, 0),
    ("nesterov", "sgd", 0.02, 0.8, 1, 0.9, 0.999, 1e-8, 1e-2, 0),
    ("clipped", "sgd", 0.1, 0.9, 0, 0.9, 0.999, 1e-8, 1e-3, 0.5),
    ("adamw", "adamw", 1e-2, 0, 0, 0.9, 0.999, 1e-8, 0.1, 0),
    ("adamw-betas", "adamw", 3e-3, 0, 0, 0.8, 0.95, 1e-6, 0, 0),
    ("adamw-clipped", "adamw", 1e-2, 0, 0, 0.9, 0.95, 1e-8, 0.1, 1.0),
]


def row(letter, values):
    print(letter, *("%.17g" % float(v) for v in values))


def run_case(case):
    name, method, lr, momentum, nesterov, beta1, beta2, epsilon, decay, clip = case
    print("case", *case, STEPS)
    start = torch.randn(WEIGHTS, dtype=torch.float64)
    decaying = torch.nn.Parameter(start[:DECAYING].clone())
    others = torch.nn.Parameter(start[DECAYING:].clone())
    groups = [{"params": [decaying], "weight_decay": decay}, {"params": [others], "weight_decay": 0}]
    if method == "sgd":
        optimizer = torch.optim.SGD(groups, lr=lr, momentum=momentum, nesterov=bool(nesterov))
    else:
        optimizer = torch.optim.AdamW(groups, lr=lr, betas=(beta1, beta2), eps=epsilon)
    row("w", start)
    for _ in range(STEPS):
        gradient = torch.randn(WEIGHTS, dtype=torch.float64)
        row("g", gradient)
        decaying.grad, others.grad = gradient[:DECAYING].clone(), gradient[DECAYING:].clone()
        if clip > 0:
            torch.nn.utils.clip_grad_norm_([decaying, others], clip)
        optimizer.step()
        row("w", torch.cat([decaying.data, others.data]))


def run_rate(name, schedule, lr, minimum, total, power, gamma, count, make):
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=lr)
    scheduler = make(optimizer)
    rates = []
    for _ in range(count):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    print("rate", name, schedule, lr, minimum, total, power, gamma, count)
    row("r", rates)


torch.manual_seed(7)
for described in CASES:
    run_case(described)
schedules = torch.optim.lr_scheduler
run_rate("cosine", "cosine", 0.4, 0, 10, 1, 0.1, 11, lambda o: schedules.CosineAnnealingLR(o, 10))
run_rate("cosine-min", "cosine", 0.4, 0.01, 7, 1, 0.1, 8, lambda o: schedules.CosineAnnealingLR(o, 7, eta_min=0.01))
run_rate("poly", "polynomial", 0.1, 0, 9, 2, 0.1, 12, lambda o: schedules.PolynomialLR(o, total_iters=9, power=2))
# The milestones 3, 6 and 8 are known to the test.
run_rate("step", "step", 0.1, 0, 0, 1, 0.3, 10, lambda o: schedules.MultiStepLR(o, [3, 6, 8], gamma=0.3))
