"""Random programs of 5 to 30 operators that give the same on the device and on the CPU.

    python test/support/random_programs.py --count 10000 --seed 0 --jobs 8       the long run
    python test/support/random_programs.py --show 1234                     one program as source text, and what it gives

A program is Python source, one operator a line, over tensors t0, t1, ...: views, in-place operators on views, casts,
type promotion, reductions, indexing, products, norms, gradients and two streams with events. It is made by running it
on the CPU: a line that fails there, or leaves the range in which results are comparable, is not taken.

Results of exact tensors must be equal. A tensor is exact as long as its values follow from the inputs by correctly
rounded operators and by sums whose every partial sum is representable, in any order. Others are compared with a
tolerance and feed nothing that would turn a rounding into a difference (comparisons, casts to integers, sorting).
"""

from __future__ import annotations

import argparse
import concurrent.futures
import copy
import random
import re
import subprocess
import sys
from pathlib import Path

import torch
import torch.nn.functional as F

FLOATS = [torch.float32, torch.float32, torch.float16, torch.bfloat16]
INTS = [torch.int64, torch.int32, torch.int16, torch.uint8]
DTYPES = [*FLOATS, *INTS, torch.bool]
# Relative to the largest value of the tensor, per inexact operator on the way.
TOLERANCE = {torch.float32: 2e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}
LARGEST = {torch.uint8: 255, torch.int16: 1 << 14, torch.float16: 1024.0}
LONGEST = 4096  # elements


def literal(dtype: torch.dtype) -> str:
    return str(dtype)


def fresh(seed: int, shape, dtype: torch.dtype) -> torch.Tensor:
    """Small integers; multiples of 1/4 for floats, so that sums and products of them are exact."""
    values = torch.randint(-12, 13, shape, generator=torch.Generator().manual_seed(seed))
    if dtype == torch.bool:
        return values > 0
    if dtype == torch.uint8:
        return values.abs().to(dtype)
    return (values / 4).to(dtype) if dtype.is_floating_point else values.to(dtype)


def half_shared(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether a and b are different views of one storage."""
    if a.untyped_storage().data_ptr() != b.untyped_storage().data_ptr():
        return False
    return (a.shape, a.stride(), a.storage_offset()) != (b.shape, b.stride(), b.storage_offset())


class Machine:
    """What a program's lines see: where tensors are made, and streams."""

    def __init__(self, device: str):
        self.device = device
        self.on_device = device != "cpu"
        self.env = {"torch": torch, "F": F, "new": self.new, "switch": self.switch, "index": self.index}
        self.streams = [torch.aule.current_stream(), torch.aule.Stream()] if self.on_device else []

    def new(self, seed, shape, dtype):
        return fresh(seed, shape, dtype).to(self.device)

    def index(self, seed, shape, end):
        values = torch.randint(0, end, shape, generator=torch.Generator().manual_seed(seed))
        return values.to(self.device)

    def switch(self, to: int, by: str):
        """Go on in another stream, ordered behind what was done so far by an event or by the whole stream."""
        if not self.on_device:
            return
        before = torch.aule.current_stream()
        if by == "event":
            self.streams[to].wait_event(before.record_event())
        else:
            self.streams[to].wait_stream(before)
        for value in self.env.values():
            if isinstance(value, torch.Tensor):
                value.record_stream(self.streams[to])
        torch.aule.set_stream(self.streams[to])

    def run(self, lines):
        try:
            for line in lines:
                exec(line, self.env)
        finally:
            if self.on_device:
                self.switch(0, "event")

    def tensors(self):
        return {name: value for name, value in self.env.items() if isinstance(value, torch.Tensor)}


def overlaps(t: torch.Tensor) -> bool:
    """Whether two elements may share memory, in which case in-place operators are refused or undefined."""
    reach = 1
    for size, stride in sorted(zip(t.shape, t.stride()), key=lambda x: x[1]):
        if size > 1:
            if stride < reach:
                return True
            reach = stride * (size - 1) + reach
    return False


def sums_are_exact(terms: torch.Tensor, steps: float) -> bool:
    """Whether sums of |terms| (multiples of 1/steps) stay below 2^24 steps, so that float32 adds them exactly."""
    return float(terms.double().abs().sum()) * steps < 2**24


class Generator:
    """Makes one program. The same seed gives the same program with the same torch."""

    def __init__(self, seed: int):
        self.rng = random.Random(seed)
        self.machine = Machine("cpu")
        self.lines: list[str] = []
        self.depths: dict[str, int] = {}  # inexact operators on the way to a tensor, also of those that are gone
        self.tolerances: dict[str, float] = {}  # the coarsest of the dtypes on the way to a tensor
        self.known: list[str] = []
        self.count = 0

    # -- picking operands ----------------------------------------------------------------------------------------
    def value(self, name) -> torch.Tensor:
        return self.machine.env[name]

    def pick(self, *conditions) -> str:
        names = [n for n in self.known if all(c(self.value(n)) for c in conditions)]
        if not names:
            raise LookupError
        return self.rng.choice(names[-6:] if self.rng.random() < 0.7 else names)

    def exact(self, *conditions) -> str:
        for _ in range(8):
            name = self.pick(*conditions)
            if not self.depths[name]:
                return name
        raise LookupError

    def number(self, t: torch.Tensor) -> str:
        n = self.rng.randint(-6, 6)
        if t.dtype == torch.uint8:
            n = abs(n)
        return repr(n / 4) if t.dtype.is_floating_point and self.rng.random() < 0.5 else repr(n)

    def dim(self, t) -> int:
        return self.rng.randrange(-t.dim(), t.dim())

    def seed(self) -> int:
        return self.rng.randrange(1 << 30)

    def shape(self) -> tuple:
        dims = self.rng.choice([0, 1, 1, 2, 2, 2, 3, 3, 4])
        return tuple(self.rng.choice([0, 1, 1, 2, 3, 4, 5, 7, 8, 16, 17, 33][1 - (self.rng.random() < 0.04):])
                     for _ in range(dims))  # fmt: skip

    # -- the program ---------------------------------------------------------------------------------------------
    def make(self) -> list[str]:
        for _ in range(3):
            self.take(self.create)
        wanted = self.rng.randint(5, 30)
        templates = [(getattr(self, name), weight) for name, weight in WEIGHTS.items()]
        for _ in range(8 * wanted):
            if len(self.lines) >= wanted + 3:
                break
            self.take(self.rng.choices([t for t, _ in templates], [w for _, w in templates])[0])
        return self.lines

    def take(self, template) -> None:
        """Adds a line of this kind if the CPU runs it and its results can be compared."""
        try:
            line, target, depth = template()
        except LookupError:
            return
        trial = {n: v for n, v in self.machine.env.items() if not isinstance(v, torch.Tensor)}
        tensors = self.machine.tensors()
        trial |= copy.deepcopy(tensors)  # storages that views share stay shared
        try:
            exec(line, trial)
        except Exception:  # shapes or dtypes that the operator does not take
            return
        result = trial.get(target)
        if not isinstance(result, torch.Tensor) or result.numel() > LONGEST or result.requires_grad:
            return
        touched = [n for n in tensors if not torch.equal(trial[n], tensors[n])] + [target]
        for name in touched:
            t = trial[name]
            if t.dtype.is_complex or t.dtype == torch.float64 or t.dtype not in DTYPES + [torch.int8]:
                return
            largest = float(t.double().abs().max()) if t.numel() else 0.0
            if not largest <= LARGEST.get(t.dtype, 1 << 20 if not t.dtype.is_floating_point else 4096.0):
                return
            if t.dtype.is_floating_point and not depth and t.numel():
                steps = 2.0**14 if t.dtype == torch.float32 else 2.0**30
                if not torch.equal((t.double() * steps).round(), t.double() * steps):
                    return  # finer than products and sums can take exactly
        exec(line, self.machine.env)
        self.lines.append(line)
        read = [n for n in tensors if re.search(rf"\b{n}\b", line)]
        for name in touched:
            self.depths[name] = max(depth, self.depths.get(name, 0) if name != target else 0)
            tolerances = [self.tolerances.get(n, 0.0) for n in [*read, name]]
            self.tolerances[name] = max(TOLERANCE.get(trial[name].dtype, 0.0), *tolerances)
        if target not in self.known:
            self.known.append(target)

    def name(self) -> str:
        self.count += 1
        return f"t{self.count - 1}"

    def depth(self, *names) -> int:
        return max(self.depths[n] for n in names)

    def create(self):
        t = self.name()
        return f"{t} = new({self.seed()}, {self.shape()}, {literal(self.rng.choice(DTYPES))})", t, 0

    def view(self):
        a, t = self.pick(lambda x: x.dim() > 0), self.name()
        x, d = self.value(a), self.dim(self.value(a))
        n = x.shape[d]
        start = self.rng.randint(0, max(n - 1, 0))
        others = [d2 for d2 in range(x.dim())]
        self.rng.shuffle(others)
        choices = [
            f"{a}.transpose({d}, {self.dim(x)})", f"{a}.permute({others})", f"{a}.unsqueeze({d})",
            f"{a}.narrow({d}, {start}, {self.rng.randint(0 if n else 0, n - start)})", f"{a}.flatten()",
            f"{a}.select({d}, {start})", f"{a}[..., ::2]", f"{a}[{self.rng.randint(0, 2)}::{self.rng.randint(1, 3)}]",
            f"{a}.movedim({d}, 0)", f"{a}.reshape(-1)", f"{a}.view(-1)", f"{a}.squeeze()", f"{a}.diagonal()",
            f"{a}.unflatten({d}, (-1, {self.rng.choice([1, 2, 4])}))", f"{a}.expand(3, *{a}.shape)",
            f"{a}.unfold({d}, {self.rng.randint(1, 3)}, {self.rng.randint(1, 3)})", f"{a}.chunk(2, {d})[0]",
            f"{a}.split(2, {d})[-1]", f"{a}.mT", f"{a}.expand(-1, 4)", f"{a}.unbind({d})[0]",
        ]  # fmt: skip
        return f"{t} = {self.rng.choice(choices)}", t, self.depth(a)

    def inplace(self):
        a = self.pick(lambda x: not overlaps(x))
        x = self.value(a)
        b = self.pick()
        k = self.number(x)
        choices = [
            f"{a}.add_({k})", f"{a}.mul_({k})", f"{a}.add_({b})", f"{a}.sub_({b})", f"{a}.mul_({b})",
            f"{a}.fill_({k})", f"{a}.zero_()", f"{a}.neg_()", f"{a}.abs_()", f"{a}.clamp_(-3, 3)", f"{a}.copy_({b})",
            f"{a}.relu_()", f"{a}.add_({b}, alpha=2)", f"{a}.copy_(new({self.seed()}, {tuple(x.shape)}, {x.dtype}))",
            f"{a}.maximum({b}).add_(0); {a}.logical_not_()" if x.dtype == torch.bool else f"{a}.sign_()",
            f"{a}.copy_({a}.flip(0))", f"{a}.set_({a}.clone())" if self.rng.random() < 0.2 else f"{a}.clamp_min_(0)",
            f"{a}.bitwise_and_({b})", f"{a}.pow_(2)", f"{a}.tril_()", f"{a}.floor_()", f"{a}.eq_({b})",
        ]  # fmt: skip
        line = self.rng.choice(choices)
        if re.search(rf"\b{b}\b", line.removeprefix(a)) and half_shared(x, self.value(b)):
            raise LookupError  # which elements are read before they are written is up to the device
        if self.depth(a, b) and any(w in line for w in ("floor_", "eq_", "logical", "bitwise", "sign_", "copy_")):
            raise LookupError
        return line, a, self.depth(a, b)

    def binary(self):
        a, b, t = self.pick(), self.pick(), self.name()
        op = self.rng.choice(["+", "-", "*", "+", "-", "*", "&", "|", "^"])
        if op in "&|^" and self.depth(a, b):
            raise LookupError
        k = self.number(self.value(a))
        choices = [f"{a} {op} {b}", f"{a} {op} {b}", f"{a} * {k}", f"{k} - {a}", f"torch.maximum({a}, {b})",
                   f"torch.minimum({a}, {b})", f"torch.add({a}, {b}, alpha=3)",
                   f"torch.addcmul({a}, {b}, {b})"]  # fmt: skip
        line = self.rng.choice(choices)
        # The CPU rounds the product too where it promotes an operand to 16 bits.
        narrow = torch.result_type(self.value(a), self.value(b)) in (torch.float16, torch.bfloat16)
        return f"{t} = {line}", t, self.depth(a, b) + (narrow and ("alpha" in line or "addcmul" in line))

    def compare(self):
        a, b, t = self.exact(), self.exact(), self.name()
        op = self.rng.choice(["<", "<=", ">", ">=", "==", "!="])
        other = b if self.rng.random() < 0.6 else self.number(self.value(a))
        c, d = self.pick(), self.pick()
        if self.rng.random() < 0.4:
            return f"{t} = torch.where({a} {op} {other}, {c}, {d})", t, self.depth(c, d)
        choices = [f"{a} {op} {other}", f"torch.logical_and({a}, {b})", f"~({a} {op} {other})", f"{a}.sign()",
                   f"torch.floor_divide({a}, 2)", f"torch.remainder({a}, 3)", f"{a}.isnan()",
                   f"torch.trunc({a} * 0.5)"]  # fmt: skip
        return f"{t} = {self.rng.choice(choices)}", t, 0

    def cast(self):
        t = self.name()
        dtype = self.rng.choice([*DTYPES, torch.int8])
        a = self.pick() if dtype.is_floating_point else self.exact()
        if dtype == torch.uint8:  # a negative float to an unsigned integer is undefined
            return f"{t} = {a}.abs().clamp(max=200).to({dtype})", t, 0
        form = self.rng.choice([f"{a}.to({dtype})", f"{a}.type({dtype})", f"{a}.to({dtype}).contiguous()"])
        return f"{t} = {form}", t, self.depth(a)

    def reduce(self):
        a, t = self.pick(lambda x: x.dim() > 0), self.name()
        x, d = self.value(a), self.dim(self.value(a))
        keep = self.rng.choice(["", ", keepdim=True"])
        forms = [f"{a}.sum({d}{keep})", f"{a}.amax({d}{keep})", f"{a}.amin({d}{keep})", f"{a}.sum()", f"{a}.max()",
                 f"{a}.cumsum({d})", f"{a}.sum(({d},), dtype=torch.float32)", f"{a}.min({d}).values"]  # fmt: skip
        if not self.depths[a]:
            forms += [f"{a}.any({d}{keep})", f"{a}.all({d}{keep})", f"{a}.count_nonzero({d})",
                      f"{a}.cummax({d}).values",
                      f"{a}.sort({d}, stable=True).values", f"{a}.sort({d}, stable=True).indices",
                      f"{a}.argmax({d}{keep})",
                      f"{a}.topk(1, {d}).values", f"{a}.unique()", f"{a}.nonzero()",
                      f"{a}.argsort({d}, stable=True)"]  # fmt: skip
            if x.dtype.is_floating_point and not sums_are_exact(x, 2.0**14):
                raise LookupError
            if x.dtype in (torch.float16, torch.bfloat16):
                forms = [f for f in forms if "cumsum" not in f]  # whether each step is rounded differs by device
        if self.rng.random() < 0.15 and x.dtype.is_floating_point:
            return f"{t} = {a}.mean({d}{keep})", t, self.depth(a) + 1
        line = self.rng.choice(forms)
        if "argmax" in line and x.numel() and (x == x.amax()).sum() > 1:
            raise LookupError  # which of several is the first is up to the device
        return f"{t} = {line}", t, self.depth(a)

    def indexing(self):
        a, t = self.pick(lambda x: x.dim() > 0 and x.shape[0] > 0), self.name()
        x = self.value(a)
        n, m = x.shape[0], self.rng.randint(1, 9)
        i = f"index({self.seed()}, ({m},), {n})"
        last = f"index({self.seed()}, {tuple(x.shape)}, {max(x.shape[-1], 1)})"
        b, mask = self.pick(), self.exact()
        forms = [f"{a}[{i}]", f"{a}.index_select(0, {i})", f"{a}.gather(-1, {last})", f"{a}.flip(0)", f"{a}.roll(2, 0)",
                 f"torch.cat([{a}, {b}])", f"torch.cat([{a}, {a}], -1)", f"torch.stack([{a}, {a}])",
                 f"{a}.repeat(2, 1)",
                 f"{a}.repeat_interleave(2, 0)", f"{a}.take({i})", f"{a}.masked_fill({a} != {a}, 1)", f"{a}.tril()",
                 f"{a}.clone()", f"F.pad({a}, (1, 2))", f"{a}.contiguous()", f"{a}.index_fill(0, {i}, 2)",
                 f"{a}.scatter(-1, {last}, 3)", f"{a}.triu(1)", f"{a}[{mask} != 0]",
                 f"{a}.masked_select({mask} != 0)"]  # fmt: skip
        return f"{t} = {self.rng.choice(forms)}", t, self.depth(a, b)

    def index_write(self):
        a = self.pick(lambda x: x.dim() > 0 and x.shape[0] > 0 and not overlaps(x))
        x = self.value(a)
        n, m = x.shape[0], self.rng.randint(1, 9)
        i = f"index({self.seed()}, ({m},), {n})"
        rows = f"new({self.seed()}, {(m, *x.shape[1:])}, {x.dtype})"
        k, mask = self.number(x), self.exact()
        forms = [f"{a}[{i}] = {k}", f"{a}.index_add_(0, {i}, {rows})", f"{a}[{mask} != 0] = {k}",
                 f"{a}.index_fill_(0, {i}, {k})", f"{a}.masked_fill_({mask} != 0, {k})", f"{a}[0] = {k}",
                 f"{a}.index_put_(({i},), {rows}, accumulate=True)", f"{a}[::2] = {k}", f"{a}[..., -1:] += 1",
                 f"{a}.scatter_add_(0, index({self.seed()}, {(m, *x.shape[1:])}, {n}), {rows})"]  # fmt: skip
        line = self.rng.choice(forms)
        # Sums in 16 bits depend on their order, and on whether each step is rounded.
        rounds = x.dtype in (torch.float16, torch.bfloat16) and ("_add_" in line or "accumulate" in line)
        return line, a, self.depth(a) + rounds

    def product(self):
        a, t = self.pick(lambda x: x.dim() in (2, 3) and x.dtype.is_floating_point), self.name()
        x = self.value(a)
        if not self.depths[a] and not sums_are_exact(x, 2.0**16):
            raise LookupError
        n = self.rng.choice([1, 2, 5, 8, 16, 33])
        w = f"new({self.seed()}, {(x.shape[-1], n)}, {x.dtype})"
        wt = f"new({self.seed()}, {(n, x.shape[-1])}, {x.dtype})"
        forms = [f"{a} @ {w}", f"F.linear({a}, {wt})", f"F.linear({a}, {wt}, new({self.seed()}, ({n},), {x.dtype}))",
                 f"{a} @ {a}.mT", f"torch.einsum('...ij,jk->...ik', {a}, {w})", f"{a}.mT @ {a}",
                 f"{a} @ new({self.seed()}, ({x.shape[-1]},), {x.dtype})"]  # fmt: skip
        # 16-bit products round more than once on some CPUs.
        return f"{t} = {self.rng.choice(forms)}", t, self.depth(a) + 1

    def smooth(self):
        a, t = self.pick(lambda x: x.dtype.is_floating_point and x.dim() > 0), self.name()
        d = self.dim(self.value(a))
        n = self.value(a).shape[-1]
        if self.depth(a) and self.value(a).numel() and self.value(a).abs().max() > 8:
            raise LookupError  # softmax and sin of large values are as wrong as the values' roundings are large
        forms = [f"{a}.tanh()", f"({a} * 0.25).exp().clamp(max=8)", f"torch.softmax({a}, {d})", f"{a}.sigmoid()",
                 f"F.layer_norm({a}, ({n},), eps=0.5)", f"F.gelu({a})", f"F.silu({a})", f"{a} / ({a}.abs() + 1)",
                 f"({a}.abs() + 1).sqrt()", f"torch.log_softmax({a}, {d})", f"{a}.sin()",
                 f"F.rms_norm({a}, ({n},), eps=0.5)",
                 f"{a}.var({d}, correction=0)", f"({a}.abs() + 1).log()", f"{a}.mean()",
                 f"({a} * {a}).mean({d})"]  # fmt: skip
        return f"{t} = {self.rng.choice(forms)}", t, self.depth(a) + 1

    def gradient(self):
        a, t = self.pick(lambda x: x.dtype.is_floating_point and x.dim() > 0), self.name()
        n = self.value(a).shape[-1]
        bodies = ["(x * x).sum()", "x.tanh().sum()", "x[..., ::2].sum() * 2", "(x.softmax(-1) * x).sum()",
                  f"F.layer_norm(x, ({n},), eps=0.5).tanh().sum()", "(x.mT @ x).sum()", "x.relu().sum()",
                  "torch.cat([x, x * 2]).sum()", "x.cumsum(0).sum()", "(x.flip(0) * x).sum()"]  # fmt: skip
        body = self.rng.choice(bodies)
        if "relu" in body and self.depths[a]:
            raise LookupError
        line = f"x = {a}.detach().clone().requires_grad_(); ({body}).backward(); {t} = x.grad; del x"
        return line, t, self.depth(a) + 1

    def stream(self):
        any_one, by = self.pick(), self.rng.choice(["event", "stream"])
        return f"switch({self.rng.randint(0, 1)}, '{by}')", any_one, self.depth(any_one)

    def forget(self):
        if len(self.known) < 6:
            raise LookupError
        gone = self.rng.choice(self.known[:-3])
        self.known.remove(gone)
        del self.machine.env[gone]
        self.lines.append(f"del {gone}")
        raise LookupError


WEIGHTS = {"create": 1, "view": 4, "inplace": 4, "binary": 4, "compare": 2, "cast": 2, "reduce": 3, "indexing": 3,
           "index_write": 2, "product": 1.5, "smooth": 1.5, "gradient": 0.6, "stream": 1, "forget": 0.5}  # fmt: skip


def check(seed: int) -> str:
    """Empty if the program of this seed gives the same on the device, else the program and the first difference."""
    torch.manual_seed(seed)
    program = Generator(seed)
    lines = program.make()
    found = run_and_compare(program, lines)
    if not found:
        return ""
    # The first line after which the tensors differ. None where only the whole program does: then look for a race.
    guilty = next((n for n in range(1, len(lines)) if run_and_compare(program, lines[:n])), None)
    marks = {guilty - 1: "  # <-- the first line that differs when run up to here"} if guilty else {}
    return "\n".join([f"program {seed}: {found}", *(f"    {line}{marks.get(i, '')}" for i, line in enumerate(lines))])


def run_and_compare(program: Generator, lines: list[str]) -> str:
    """Runs the lines on both; empty if what they leave is the same, else what differs."""
    device, host = Machine("aule"), Machine("cpu")
    try:
        host.run(lines)
        device.run(lines)
        return differences(program, host, device)
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def differences(program: Generator, host: Machine, device: Machine) -> str:
    for name, e in host.tensors().items():
        a, depth = device.env[name], program.depths[name]
        if a.device.type != "aule" or a.dtype != e.dtype or a.shape != e.shape:
            return f"{name} is {a.dtype} {tuple(a.shape)} on {a.device}, expected {e.dtype} {tuple(e.shape)}"
        a = a.cpu()
        if not depth or not e.dtype.is_floating_point:
            if not torch.equal(a, e):
                return f"{name}: {(a != e).sum().item()} of {e.numel()} values differ from the CPU's exact ones"
            continue
        largest = float(e.double().abs().max()) if e.numel() else 0.0
        allowed = program.tolerances[name] * 4 ** min(depth, 4) * max(1.0, largest)
        error = (a.double() - e.double()).abs()
        if e.numel() and not bool((error <= allowed).all()):
            return f"{name}: differs by {error.max().item()}, {depth} inexact operators allow {allowed}"
    return ""


def run_range(first: int, count: int) -> list[str]:
    """Failures among the programs `first` to `first + count - 1`."""
    return [found for seed in range(first, first + count) if (found := check(seed))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0, help="seed of the first program")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--show", type=int, help="print one program and check it")
    options = parser.parse_args()
    import torch_aule  # noqa: F401

    if options.show is not None:
        print("\n".join(Generator(options.show).make()))
        print(check(options.show) or "equal")
        return
    if options.jobs > 1:
        # Parts of a hundred at most, told as they end: a run that is cut off has said what it found.
        share = min(100, -(-options.count // (4 * options.jobs)))
        starts = range(options.seed, options.seed + options.count, share)

        def part(first):
            count = min(share, options.seed + options.count - first)
            command = [sys.executable, str(Path(__file__)), "--seed", str(first), "--count", str(count)]
            return count, subprocess.run(command, capture_output=True, text=True)

        failed = ran = 0
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            for future in concurrent.futures.as_completed(pool.submit(part, first) for first in starts):
                count, result = future.result()
                ran += count
                lines = result.stdout.splitlines() if result.returncode in (0, 1) else [result.stderr[-2000:], "1"]
                failed += int(lines.pop().split()[0])
                print("\n".join([*filter(None, lines), f"{failed} of {ran} differ so far"]), flush=True)
    else:
        torch.set_num_threads(1)
        failures = run_range(options.seed, options.count)
        print("\n".join(failures))
        failed = len(failures)
    print(f"{failed} of {options.count} programs differ, seeds {options.seed} to {options.seed + options.count - 1}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
