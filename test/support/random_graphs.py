"""Random graphs of pointwise operators, views, casts and reductions, compiled and compared with float64.

    python test/support/random_graphs.py --count 1000 --seed 0 --jobs 14

A graph is made from its seed alone, so a failure is repeated with `--seed N --count 1`. The same graph runs in float64
eagerly, which is the reference, and in eager float32: the compiled one may err eight times as much as that, and a few
steps of float32.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import multiprocessing
import random
import sys

import torch

UNARY = {
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "abs": torch.abs,
    "neg": torch.neg,
    "relu": torch.relu,
    "square": torch.square,
    "half_exp": lambda x: torch.exp(-x.abs()),
    "log1p": lambda x: torch.log1p(x.abs()),
    "rsqrt": lambda x: torch.rsqrt(x.abs() + 1),
    "sin": torch.sin,
    "erf": torch.erf,
    "gelu": torch.nn.functional.gelu,
}
BINARY = {
    "add": torch.add,
    "sub": torch.sub,
    "mul": torch.mul,
    "maximum": torch.maximum,
    "minimum": torch.minimum,
    "div": lambda x, y: x / (y.abs() + 1),
    "where": lambda x, y: torch.where(x > y, x, y * 0.5),
}
REDUCTIONS = {
    "sum": lambda x, d: x.sum(d, keepdim=True) / x.shape[d] ** 0.5,
    "mean": lambda x, d: x.mean(d, keepdim=True),
    "amax": lambda x, d: x.amax(d, keepdim=True),
    "amin": lambda x, d: x.amin(d, keepdim=True),
    "var": lambda x, d: x.var(d, unbiased=False, keepdim=True),
    "softmax": torch.softmax,
    "logsumexp": lambda x, d: torch.logsumexp(x, d, keepdim=True),
}
SIZES = (1, 2, 3, 8, 16, 31, 33, 64, 100, 257)


def graph(seed: int):
    """The sizes of a graph's inputs and the graph, as a function of them."""
    choose = random.Random(seed)
    shape = tuple(choose.choice(SIZES) for _ in range(choose.choice((1, 2, 2, 3))))
    steps = []
    for number in range(choose.randint(4, 10)):
        i, j, d = choose.randrange(2 + number), choose.randrange(2 + number), choose.randrange(len(shape))
        kind = choose.choices(("unary", "binary", "reduce", "flip", "cat", "transpose"), (7, 6, 4, 1, 1, 1))[0]
        table = {"unary": UNARY, "binary": BINARY, "reduce": REDUCTIONS}.get(kind)
        steps.append((kind, table[choose.choice(sorted(table))] if table else None, i, j, d))

    def run(*inputs):
        values = list(inputs)
        for kind, function, i, j, d in steps:
            x, y = values[i], values[j]
            if kind == "unary":
                values.append(function(x))
            elif kind == "binary":
                values.append(function(x, y))
            elif kind == "reduce":
                values.append(function(x, d))
            elif kind == "flip":
                values.append(x.expand(shape).flip(d))
            elif kind == "cat":
                values.append(torch.cat([x.expand(shape), y.expand(shape)], d).narrow(d, 1, shape[d]))
            else:
                values.append(x.expand(shape).transpose(0, -1).contiguous().transpose(0, -1))
        return values[len(inputs) :]

    return shape, run


def _steps(x):
    """Strides, but of dimensions that have one element."""
    return [stride for stride, size in zip(x.stride(), x.shape, strict=True) if size > 1]


def check(seed: int) -> str:
    """What is wrong with the compiled graph of a seed; "" if nothing is."""
    try:
        return _difference(seed)
    except Exception as error:  # as text: it may hold what cannot go to another process
        return f"seed {seed}: {type(error).__name__}: {' '.join(str(error).split())[:600]}"


def _difference(seed: int) -> str:
    import torch_aule  # noqa: F401

    shape, run = graph(seed)
    generator = torch.Generator().manual_seed(seed)
    inputs = [torch.randn(shape, generator=generator, dtype=torch.float64).float() for _ in range(2)]
    wanted = run(*(x.double() for x in inputs))
    device = [x.to("aule") for x in inputs]
    eager = run(*device)
    torch._dynamo.reset()
    actual = torch.compile(run, fullgraph=True)(*device)
    for number, (a, e, w) in enumerate(zip(actual, eager, wanted, strict=True)):
        if a.shape != w.shape or _steps(a) != _steps(e):
            return f"seed {seed} value {number}: layout {a.shape} {a.stride()}, eager {e.shape} {e.stride()}"
        scale = w.abs().max().clamp(min=1e-3)
        mine, its = ((t.cpu().double() - w).abs().max() / scale for t in (a, e))
        if not mine <= 8 * its + 2e-6:
            return f"seed {seed} value {number}: relative error {mine:.2e}, eager {its:.2e}"
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    wrong = 0
    with concurrent.futures.ProcessPoolExecutor(options.jobs, mp_context=context) as pool:
        for text in pool.map(check, range(options.seed, options.seed + options.count)):
            if text:
                wrong += 1
                print(text, flush=True)
    print(f"{options.count} graphs, {wrong} differ")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
