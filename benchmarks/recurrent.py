"""Recurrent layers, inference and training: microseconds a call beside CUDA's (cuDNN), and CUDA's time over ours.

    python benchmarks/recurrent.py                   on both devices, where CUDA is there
    python benchmarks/recurrent.py --no-cuda         on ours alone
    python benchmarks/recurrent.py --small           sizes for software devices
    python benchmarks/recurrent.py --products        the product of each step alone: us beside CUDA's

A sample is the time of as many calls as take 100 ms, with the end of the device's work: the host's share shows where it
is the longer one. Of each the median of five samples, in alternation. cuDNN takes TF32 for float32 layers, its default;
--exact turns that off.
"""

import argparse
import statistics
import time

import torch

import torch_aule  # noqa: F401  makes the device

# kind, features, hidden, layers, directions, times, batch, dtype, more
ROWS = [
    ("LSTM", 512, 1024, 2, 1, 100, 64, torch.float32, {}),
    ("LSTM", 256, 256, 1, 1, 50, 32, torch.float32, {}),
    ("LSTM", 512, 512, 2, 2, 100, 32, torch.float16, {}),
    ("GRU", 512, 512, 2, 1, 100, 64, torch.float32, {}),
    ("RNN", 256, 256, 1, 1, 100, 64, torch.float32, {}),
    ("LSTM", 512, 1024, 2, 1, 100, 64, torch.bfloat16, {}),
    ("LSTM", 512, 1024, 1, 1, 100, 64, torch.float16, {"proj_size": 512}),
]
SMALL = [
    ("LSTM", 32, 64, 1, 1, 20, 4, torch.float32, {}),
    ("LSTM", 64, 128, 2, 2, 16, 8, torch.float32, {}),
    ("GRU", 32, 64, 2, 1, 20, 4, torch.float32, {}),
    ("RNN", 16, 32, 1, 1, 20, 4, torch.float32, {}),
    ("LSTM", 64, 64, 1, 1, 16, 8, torch.float16, {}),
]
# rows, columns, k: of the steps above, forward (x @ w.T) and backward (y @ w)
PRODUCTS = [(64, 4096, 1024), (32, 1024, 256), (32, 2048, 512), (64, 1536, 512), (64, 256, 256)]


def calls_of(device, kind, features, hidden, layers, directions, times, batch, dtype, more):
    """Inference and forward with backward, as functions without arguments."""
    torch.manual_seed(0)
    options = dict(num_layers=layers, bidirectional=directions == 2, **more)
    model = getattr(torch.nn, kind)(features, hidden, **options).to(dtype).to(device)
    x = torch.randn(times, batch, features).to(dtype).to(device)
    trained = x.clone().requires_grad_()
    grad = torch.randn(times, batch, directions * more.get("proj_size", hidden)).to(dtype).to(device)
    wanted = [trained, *model.parameters()]

    def inference():
        with torch.no_grad():
            model(x)

    def training():
        torch.autograd.grad(model(trained)[0], wanted, grad)

    return {"inference": inference, "training": training}


def product_calls(device, m, n, k, dtype):
    x, y, w = (torch.randn(s, device=device).to(dtype) for s in ((m, k), (m, n), (n, k)))
    return {"x @ w.T": lambda: x @ w.T, "y @ w": lambda: y @ w, "y.T @ x": lambda: y.T @ x}


def synchronize(device):
    getattr(torch, device).synchronize()


def seconds_of(device, call, calls):
    synchronize(device)
    start = time.perf_counter()
    for _ in range(calls):
        call()
    synchronize(device)
    return (time.perf_counter() - start) / calls


def medians(calls, samples, sample_seconds):
    """device -> microseconds, of devices whose calls take turns."""
    counts = {}
    for device, call in calls.items():
        seconds_of(device, call, 2)
        counts[device] = max(1, round(sample_seconds / seconds_of(device, call, 1)))
    found = {device: [] for device in calls}
    for _ in range(samples):
        for device, call in calls.items():
            found[device].append(seconds_of(device, call, counts[device]))
    return {device: statistics.median(times) * 1e6 for device, times in found.items()}


def cell(found):
    """Ours / CUDA's = CUDA's over ours."""
    if "cuda" not in found:
        return f"{found['aule']:.0f}"
    return f"{found['aule']:.0f} / {found['cuda']:.0f} = {found['cuda'] / found['aule']:.2f}"


def name_of(kind, features, hidden, layers, directions, times, batch, dtype, more):
    both = " bi" if directions == 2 else ""
    projected = f" proj {more['proj_size']}" if more else ""
    return f"{kind} {features}>{hidden} x{layers}{both}{projected} T{times} B{batch} {str(dtype).split('.')[1]}"


def print_rows(rows, names, make, devices, options):
    """A line of Markdown for each row, with a cell for each of its calls."""
    for row, name in zip(rows, names, strict=True):
        by_device = {device: make(device, *row) for device in devices}
        cells = [
            cell(medians({d: calls[what] for d, calls in by_device.items()}, options.samples, options.seconds))
            for what in by_device["aule"]
        ]
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--no-cuda", action="store_true")
    parser.add_argument("--exact", action="store_true")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--products", action="store_true")
    parser.add_argument("--only", default="", help="rows whose name contains it")
    parser.add_argument("--samples", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.1, help="of one sample")
    options = parser.parse_args()
    devices = ["aule"] + (["cuda"] if torch.cuda.is_available() and not options.no_cuda else [])
    if options.exact:
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    if options.products:
        rows = [(*sizes, dtype) for dtype in (torch.float32, torch.float16) for sizes in PRODUCTS]
        names = ["{}x{}x{} {}".format(*row[:3], str(row[3]).split(".")[1]) for row in rows]
        print("| product | x @ w.T | y @ w | y.T @ x |\n|---|---:|---:|---:|")
        make = product_calls
    else:
        rows = SMALL if options.small else ROWS
        names = [name_of(*row) for row in rows]
        print("| layer | inference | forward + backward |\n|---|---:|---:|")
        make = calls_of
    chosen = [i for i, name in enumerate(names) if options.only in name]
    print_rows([rows[i] for i in chosen], [names[i] for i in chosen], make, devices, options)


if __name__ == "__main__":
    main()
