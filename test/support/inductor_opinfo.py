"""PyTorch's operator database through torch.compile: compiled results against eager ones on the device.

    python test/support/inductor_opinfo.py --dtype float32 --jobs 14 [--samples 2] [--only NAME ...] [--save FILE.jsonl]
    python test/support/inductor_opinfo.py --gradients ...       results and the gradients of all inputs

Each operator runs in one of several processes. A row says what became of it: `same`, `differs` (numbers), `fails`
(compiled only), `eager` (eager refuses it here), `no dtype`, or `crash`. Exit status 1 if a row differs, fails or
crashes.
"""

from __future__ import annotations

import argparse
import collections
import concurrent.futures
import json
import multiprocessing
import os
import sys

# Results that are not numbers to be compared: uninitialised or random.
RANDOM = {
    "bernoulli", "cauchy", "empty", "empty_like", "empty_permuted", "empty_strided", "exponential", "geometric",
    "log_normal", "multinomial", "new_empty", "new_empty_strided", "nn.functional.alpha_dropout",
    "nn.functional.dropout", "nn.functional.dropout2d", "nn.functional.dropout3d",
    "nn.functional.feature_alpha_dropout", "nn.functional.rrelu", "normal", "rand_like", "randint", "randint_like",
    "randn", "randn_like", "torch.ops.aten._safe_softmax.default", "uniform", "pca_lowrank", "svd_lowrank",
    "nn.functional.scaled_dot_product_attention", "randperm", "nn.functional.fractional_max_pool2d",
    "nn.functional.fractional_max_pool3d", "nn.functional.multi_head_attention_forward",
}  # fmt: skip
TOLERANCE = {"float16": (4e-3, 4e-3), "bfloat16": (3e-2, 3e-2), "int64": (0, 0), "bool": (0, 0)}
BAD = ("differs", "fails", "crash")


def _tensors(x):
    import torch

    return [t for t in torch.utils._pytree.tree_leaves(x) if isinstance(t, torch.Tensor)]


def _gradients(call, args, kwargs):
    """The results of a call, and the gradients of its inputs under fixed gradients of the results."""
    import torch

    leaves = [t for t in _tensors((args, kwargs)) if t.requires_grad]
    results = _tensors(call(*args, **kwargs))
    ends = [(r, torch.linspace(-1, 1, r.numel(), device=r.device).view(r.shape).to(r.dtype)) for r in results
            if r.requires_grad and r.is_floating_point()]  # fmt: skip
    if not ends or not leaves:
        return results
    given = torch.autograd.grad([r for r, _ in ends], leaves, [g for _, g in ends], allow_unused=True)
    return results + [g for g in given if g is not None]


def run(name: str, variant: str, dtype_name: str, samples: int, gradients: bool = False) -> dict:
    """The row of one operator."""
    import torch
    from torch.testing._internal.common_methods_invocations import op_db

    import torch_aule  # noqa: F401

    torch._dynamo.config.cache_size_limit = 1000
    dtype = getattr(torch, dtype_name)
    row = {"op": name, "variant": variant, "dtype": dtype_name, "samples": 0, "state": "same", "why": ""}
    (op,) = (o for o in op_db if o.name == name and o.variant_test_name == variant)
    dtypes = op.supported_backward_dtypes("cpu") if gradients else op.supported_dtypes("cpu")
    if dtype not in dtypes or gradients and not op.supports_autograd:
        return row | {"state": "no dtype"}
    for sample in list(op.sample_inputs("cpu", dtype, requires_grad=gradients))[:samples]:

        def move(x):
            return x.detach().to("aule").requires_grad_(x.requires_grad) if isinstance(x, torch.Tensor) else x

        try:
            sample = sample.transform(move)
        except NotImplementedError as error:  # a sparse tensor
            return row | {"state": "eager", "why": str(error)[:200]}

        def call(x, *args, **kwargs):
            return op.op(x, *args, **kwargs)

        args = (sample.input, *sample.args)
        copies = torch.utils._pytree.tree_map(
            lambda x: x.detach().clone().requires_grad_(x.requires_grad) if isinstance(x, torch.Tensor) else x, args
        )
        results_of = _gradients if gradients else lambda call, args, kwargs: _tensors(call(*args, **kwargs))
        try:
            torch.manual_seed(0)
            expected = results_of(call, args, sample.kwargs)
        except Exception as error:
            return row | {"state": "eager", "why": f"{type(error).__name__}: {str(error)[:200]}"}
        torch._dynamo.reset()
        try:
            torch.manual_seed(0)
            actual = results_of(torch.compile(call), copies, sample.kwargs)
            torch.aule.synchronize()
        except Exception as error:
            return row | {"state": "fails", "why": f"{type(error).__name__}: {str(error)[:600]}"}
        row["samples"] += 1
        if name in RANDOM:
            continue
        rtol, atol = TOLERANCE.get(dtype_name, (1e-4, 1e-4))
        try:
            assert len(actual) == len(expected), "another number of results"
            for a, e in zip(actual, expected):
                torch.testing.assert_close(a.detach().cpu(), e.detach().cpu(), rtol=rtol, atol=atol, equal_nan=True)
        except AssertionError as error:
            return row | {"state": "differs", "why": " ".join(str(error).split())[:300]}
    return row


def _worker(job) -> dict:
    name, variant, dtype = job[:3]
    try:
        return run(*job)
    except Exception as error:
        return {"op": name, "variant": variant, "dtype": dtype, "state": "fails", "why": f"runner: {error!r}"[:300]}


def _run_all(jobs: list, processes: int) -> list[dict]:
    rows = []
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(processes, mp_context=context) as pool:
        futures = {pool.submit(_worker, job): job for job in jobs}
        for future in concurrent.futures.as_completed(futures):
            try:
                row = future.result()
            except Exception as error:
                name, variant, dtype = futures[future][:3]
                row = {"op": name, "variant": variant, "dtype": dtype, "state": "crash", "why": repr(error)[:200]}
            rows.append(row)
            if row["state"] in BAD:
                print(row["state"], row["op"], row["variant"], row["dtype"], row["why"], flush=True)
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--samples", type=int, default=2)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--gradients", action="store_true")
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--part", default="0/1", help="I/N: every N-th operator from I on")
    parser.add_argument("--save")
    options = parser.parse_args()
    from torch.testing._internal.common_methods_invocations import op_db

    names = [(o.name, o.variant_test_name) for o in op_db if not options.only or o.name in options.only]
    part, parts = map(int, options.part.split("/"))
    jobs = [(name, variant, options.dtype, options.samples, options.gradients) for name, variant in names[part::parts]]
    rows = []
    size = 30 * options.jobs
    for first in range(0, len(jobs), size):  # fresh processes now and then: Dynamo keeps much of what it has seen
        rows += _run_all(jobs[first : first + size], options.jobs)
    rows.sort(key=lambda r: (r["state"], r["op"], r["variant"]))
    if options.save:
        with open(options.save, "w") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)
    print(options.dtype, dict(collections.Counter(row["state"] for row in rows)))
    return int(any(row["state"] in BAD for row in rows))


if __name__ == "__main__":
    sys.exit(main())
