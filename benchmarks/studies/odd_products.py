"""16-bit products with rows that start between 16-byte boundaries, beside the same with rows that do not: milliseconds.

python benchmarks/studies/odd_products.py [--dtype bfloat16] [--seconds 0.1]

For each product: its sizes rounded up to a multiple of 8 or more (`even`), today's choice (`odd`), without it
(`never`: single loads and stores), with every copy that could be made (`always`), and the ratio odd / even. Every
result of small integers is compared with the one of `never`, to the bit.
"""

import argparse
import statistics

import torch

import torch_aule.tune
from torch_aule.measure.timing import Stopwatch

# m, k, n, layout (T: stored transposed), the even sizes
PRODUCTS = {
    "logits": (8192, 768, 50257, "NT", (8192, 768, 50304)),
    "gradient of x": (8192, 50257, 768, "NN", (8192, 50304, 768)),
    "gradient of W": (50257, 8192, 768, "TN", (50304, 8192, 768)),
    "logits, columns first": (8192, 768, 50257, "NN", (8192, 768, 50304)),
    "logits of 2,048 rows": (2048, 768, 50257, "NT", (2048, 768, 50304)),
    "logits of 1,000 rows": (1000, 768, 50257, "NT", (1000, 768, 50304)),
    "square": (4095, 4095, 4095, "NT", (4096, 4096, 4096)),
    "rows of a 2 longer": (4096, 4098, 4096, "NT", (4096, 4104, 4096)),
    "rows of a 4 longer": (4096, 4100, 4096, "NT", (4096, 4104, 4096)),
    "odd k": (8192, 1001, 1024, "NT", (8192, 1008, 1024)),
    "odd n": (8192, 1024, 1001, "NT", (8192, 1024, 1008)),
    "small": (511, 255, 513, "NT", (512, 256, 520)),
    "small, odd k": (512, 255, 512, "NT", (512, 256, 512)),
    "small, odd n": (512, 256, 511, "NT", (512, 256, 512)),
    "head of 1,001 classes": (256, 2048, 1001, "NT", (256, 2048, 1008)),
    "thin": (64, 768, 50257, "NT", (64, 768, 50304)),
}


def operands(m, k, n, layout, dtype):
    def operand(rows, columns, transposed):
        stored = (columns, rows) if transposed else (rows, columns)
        t = torch.randint(-3, 4, stored, device="aule").to(dtype)
        return t.t() if transposed else t

    return operand(m, k, layout[0] == "T"), operand(k, n, layout[1] == "T")


def sample(call, seconds):
    torch.aule.synchronize()
    start, calls = Stopwatch(), 0
    while True:
        for _ in range(5):
            call()
        torch.aule.synchronize()
        calls += 5
        taken = start.seconds
        if taken > seconds:
            return taken / calls * 1e3


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dtype", default="bfloat16", choices=["float16", "bfloat16"])
    parser.add_argument("--seconds", type=float, default=0.05, help="of one sample; there are three, in turn")
    parser.add_argument("--only", default="", help="products whose name contains it")
    options = parser.parse_args()
    dtype = getattr(torch, options.dtype)
    print(f"{'product':24}{'m k n':>20} {'':4}{'even':>9}{'odd':>9}{'never':>9}{'always':>9}{'odd/even':>10}  TFLOPS")
    for name, (m, k, n, layout, even) in PRODUCTS.items():
        if options.only not in name:
            continue
        odd, whole = operands(m, k, n, layout, dtype), operands(*even, layout, dtype)
        calls = {
            "even": ("", lambda pair=whole: torch.mm(*pair)),
            "odd": ("", lambda pair=odd: torch.mm(*pair)),
            "never": ("never", lambda pair=odd: torch.mm(*pair)),
            "always": ("always", lambda pair=odd: torch.mm(*pair)),
        }
        results, samples = {}, {key: [] for key in calls}
        for key, (setting, call) in calls.items():  # pipelines are made, results compared
            with torch_aule.tune.override(aligned_rows=setting):
                if key != "even":
                    results[key] = call()
        same = all(torch.equal(results["never"], results[key]) for key in ("odd", "always"))
        results.clear()
        for _ in range(3):
            for key, (setting, call) in calls.items():
                with torch_aule.tune.override(aligned_rows=setting):
                    call()
                    samples[key].append(sample(call, options.seconds))
        ms = {key: statistics.median(values) for key, values in samples.items()}
        numbers = "".join(f"{ms[key]:9.3f}" for key in calls)
        rate = 2e-9 * m * k * n / ms["odd"]
        print(
            f"{name:24}{f'{m} {k} {n}':>20} {layout:4}{numbers}{ms['odd'] / ms['even']:10.2f}{rate:8.0f}"
            f"{'' if same else '  WRONG: differs from never'}",
            flush=True,
        )


if __name__ == "__main__":
    main()
