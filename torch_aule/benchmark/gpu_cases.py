"""Cases for real GPUs: sizes at which a GPU is busy, beside CUDA's own kernels where torch has them.

Attention keeps batch x heads x N x D at 2^26 and counts 4 B H N^2 D operations (half when causal), 2.5 times that
backward. A case with an aim names it as ``reach``; ``gpu_report.py`` compares and prints.
"""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F

from torch_aule.benchmark.gpt2 import GPT2, Gpt2Config
from torch_aule.rotary import rotary_embedding

HALF = (torch.float16, torch.bfloat16)


@dataclass(frozen=True)
class Sizes:
    """All that a test shrinks to run every case on a software device."""

    total: int = 1 << 26  # batch x heads x N x D
    lengths: tuple[int, ...] = (2048, 8192)
    plot_lengths: tuple[int, ...] = (512, 1024, 2048, 4096, 8192, 16384)
    dims: tuple[int, ...] = (64, 128)
    other_dims: tuple[int, ...] = (32, 80, 96, 192, 256)
    other_length: int = 4096
    odd_length: tuple[int, int] = (2000, 2048)  # and the one that it is held against
    gemm: tuple[int, ...] = (4096, 8192)
    gemm_float32: int = 4096
    few_rows: tuple[int, int] = (8192, 8192)
    decode_keys: tuple[int, ...] = (16384, 131072)
    rows: tuple[int, int] = (16384, 4096)
    cold_bytes: int = 1 << 28  # inputs of a memory-bound case are rotated until they cover this much
    tiny_ops: int = 300
    gpt2: Gpt2Config = Gpt2Config()


@dataclass(frozen=True)
class Reach:
    """An aim. `of`: cuda (times CUDA's speed), tflops, copy (share of the bandwidth of x + 1), us (at most), twin."""

    of: str
    least: float
    aim: float | None = None
    twin: tuple | None = None  # key of the case whose TFLOPS are the measure


@dataclass(frozen=True)
class GpuCase:
    group: str
    name: str
    shapes: str
    dtype: str
    make: Callable[[str], Callable[[], object]]  # device -> call
    flops: float = 0.0
    bytes: float = 0.0
    reach: Reach | None = None
    rivals: dict | None = None  # name -> context in which the case is made and run on "cuda"; None: {"cuda": nothing}
    ops: int = 1  # the time is per op, and a call runs that many
    needed_bytes: int = 0  # outputs of a call: what its peak memory is held against
    main: bool = True  # also in --quick
    queued: bool = True  # the GPU's own time; False: the host's pace counts too
    autograd: bool = False  # CUDA then runs in a process of its own: beside aule its autograd does not work

    @property
    def key(self) -> tuple:
        return self.name, self.shapes, self.dtype


def short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _sdpa_backend(name: str):
    """A context in which scaled_dot_product_attention takes one CUDA backend only, or raises."""

    def context():
        from torch.nn.attention import SDPBackend, sdpa_kernel

        return sdpa_kernel(getattr(SDPBackend, name))

    return context


FLASH = {"cuda": _sdpa_backend("FLASH_ATTENTION")}
FLASH_AND_CUDNN = {**FLASH, "cudnn": _sdpa_backend("CUDNN_ATTENTION")}

# (backward, D, causal) -> at N 2048, at N 8192 (ratio to CUDA FlashAttention-2), aim
ATTENTION_REACH = {
    (False, 64, False): (1.08, 1.12, 1.2), (False, 64, True): (1.05, 1.10, 1.2),
    (False, 128, False): (0.90, 0.98, 1.1), (False, 128, True): (0.80, 0.92, 1.0),
    (True, 64, False): (1.03, 0.96, 1.15), (True, 64, True): (1.10, 1.0, 1.15),
    (True, 128, False): (0.85, 0.83, 1.0), (True, 128, True): (0.88, 0.82, 1.0),
}  # fmt: skip

# Forms of attention that settings ask for: what the name of the case ends in -> settings.
FORMS = {
    "_staged": {"AULE_ATTENTION_VARIANT": "staged"},  # as if the layout of accumulators were unknown
    "_workspace": {"AULE_ATTENTION_WORKSPACE": "1024"},  # MiB
}
FORM_REACH = {  # (form, backward, causal) -> as above
    ("_staged", False, False): (0.45, 0.45, 0.6), ("_staged", False, True): (0.45, 0.45, 0.6),
    ("_workspace", True, False): (1.0, 0.97, 1.1), ("_workspace", True, True): (1.1, 0.97, 1.1),
}  # fmt: skip


class Environment:
    """A context with environment variables; it can be entered again and again."""

    def __init__(self, values: dict[str, str]):
        self.values = values

    def __enter__(self):
        self.before = {name: os.environ.get(name) for name in self.values}
        os.environ.update(self.values)

    def __exit__(self, *error):
        for name, value in self.before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def attention_key(sizes, n, d, causal, backward, dtype, *, group=1, dropout=0.0, batch_heads=None, form="") -> tuple:
    batch_heads = batch_heads or max(1, sizes.total // (n * d))
    heads = 16 if batch_heads % 16 == 0 else batch_heads
    shapes = f"B{batch_heads // heads} H{heads}/{heads // group} N{n} D{d}" + (f" dropout {dropout}" if dropout else "")
    return f"sdpa_{'backward' if backward else 'forward'}{'_causal' if causal else ''}{form}", shapes, short(dtype)


def _attention(sizes, n, d, causal, backward, dtype, *, group=1, dropout=0.0, batch_heads=None, reach=None,
               rivals=FLASH, main=False, form="") -> GpuCase:  # fmt: skip
    batch_heads = batch_heads or max(1, sizes.total // (n * d))
    heads = 16 if batch_heads % 16 == 0 else batch_heads
    batch, kv_heads = batch_heads // heads, heads // group

    def make(device):
        q = torch.randn(batch, heads, n, d, device=device, dtype=dtype).requires_grad_(backward)
        k, v = (
            torch.randn(batch, kv_heads, n, d, device=device, dtype=dtype).requires_grad_(backward) for _ in range(2)
        )

        settings = Environment(FORMS.get(form, {}) if device == "aule" else {})

        def forward():
            with settings:
                return F.scaled_dot_product_attention(
                    q, k, v, is_causal=causal, dropout_p=dropout, enable_gqa=group != 1
                )

        if not backward:
            return forward
        out = forward()
        weight = torch.randn(out.shape, device=device, dtype=dtype)

        def grad():
            with settings:
                return torch.autograd.grad(out, (q, k, v), weight, retain_graph=True)

        return grad

    q_elems, kv_elems = batch_heads * n * d, batch_heads // group * n * d
    return GpuCase(
        "attention",
        *attention_key(sizes, n, d, causal, backward, dtype, group=group, dropout=dropout, batch_heads=batch_heads,
                       form=form),
        make, flops=4.0 * batch_heads * n * n * d * (0.5 if causal else 1) * (2.5 if backward else 1), reach=reach,
        rivals=rivals, main=main, autograd=backward,
        needed_bytes=2 * (q_elems + 2 * kv_elems if backward else q_elems) + 4 * batch_heads * n,
    )  # fmt: skip


def attention(sizes: Sizes) -> list[GpuCase]:
    cases = []
    modes = list(itertools.product((False, True), (False, True)))  # backward, causal
    for dtype, (backward, causal), d in itertools.product(HALF, modes, sizes.dims):
        for index, n in enumerate(sizes.lengths):
            if dtype is torch.float16:
                row = ATTENTION_REACH.get((backward, d, causal), (0.0, 0.0, None))
                reach = Reach("cuda", row[index], row[2])
            else:
                reach = Reach("twin", 0.95, twin=attention_key(sizes, n, d, causal, backward, torch.float16))
            cases.append(
                _attention(sizes, n, d, causal, backward, dtype, reach=reach, rivals=FLASH_AND_CUDNN, main=True)
            )
    half = torch.float16
    for form, (backward, causal), d in itertools.product(FORMS, modes, sizes.dims):
        least = FORM_REACH.get((form, backward, causal))
        for index, n in enumerate(sizes.lengths):
            if form == "_staged" or (backward and d == max(sizes.dims)):  # narrower heads gain nothing by a workspace
                reach = Reach("cuda", least[index], least[2]) if least else None
                cases.append(_attention(sizes, n, d, causal, backward, half, reach=reach, form=form))
    for (backward, causal), d, n in itertools.product(modes, sizes.dims, sizes.plot_lengths):
        if n not in sizes.lengths:
            cases.append(_attention(sizes, n, d, causal, backward, half, rivals=FLASH_AND_CUDNN))
    # Held against the nearest head dim at the same length, or the nearest length at the same head dim.
    for (backward, causal), d in itertools.product(modes, sizes.other_dims):
        near = min(sizes.dims, key=lambda x: (abs(x - d), -x))
        twin = attention_key(sizes, sizes.other_length, near, causal, backward, half)
        cases.append(
            _attention(sizes, sizes.other_length, d, causal, backward, half, reach=Reach("twin", 0.85, twin=twin))
        )
    odd, even = sizes.odd_length
    for (backward, causal), d in itertools.product(modes, sizes.dims):
        twin = attention_key(sizes, even, d, causal, backward, half)
        cases.append(_attention(sizes, odd, d, causal, backward, half, reach=Reach("twin", 0.85, twin=twin),
                                batch_heads=max(1, sizes.total // (even * d))))  # fmt: skip
    for extra in ({"group": 8}, {"dropout": 0.1}):
        for (backward, causal), d in itertools.product(modes, sizes.dims):
            twin = attention_key(sizes, sizes.other_length, d, causal, backward, half)
            cases.append(_attention(sizes, sizes.other_length, d, causal, backward, half,
                                    reach=Reach("twin", 0.85, twin=twin), **extra))  # fmt: skip
    return cases


def _gemm(n, layout, dtype, reach, main=True) -> GpuCase:
    def operand(device, transposed):
        x = torch.randn(n, n, device=device, dtype=dtype)
        return x.t() if transposed else x

    def make(device):
        a, b = operand(device, layout[0] == "T"), operand(device, layout[1] == "T")
        return lambda: a @ b

    return GpuCase("gemm", f"mm_{layout}", f"{n}x{n}x{n}", short(dtype), make, flops=2.0 * n**3, reach=reach, main=main)


def gemm(sizes: Sizes) -> list[GpuCase]:
    cases = []
    for dtype, layout in itertools.product(HALF, ("NT", "NN", "TN", "TT")):
        for index, n in enumerate(sizes.gemm):
            least = ((330, 340) if layout == "NT" else (295, 305))[index]
            cases.append(_gemm(n, layout, dtype, Reach("tflops", least, 400 if layout == "NT" else 340)))
    for layout in ("NN", "NT"):
        cases.append(_gemm(sizes.gemm_float32, layout, torch.float32, Reach("cuda", 0.7, 0.95)))
    for m, dtype in itertools.product((1, 16), HALF):
        cases.append(_few_rows(sizes, m, dtype))
    return cases


def _copies(sizes: Sizes, bytes_of_one: int) -> int:
    return min(16, max(1, -(-sizes.cold_bytes // bytes_of_one)))


def _few_rows(sizes, m, dtype) -> GpuCase:
    n, k = sizes.few_rows

    def make(device):
        x = torch.randn(m, k, device=device, dtype=dtype)
        weights = [torch.randn(n, k, device=device, dtype=dtype) for _ in range(_copies(sizes, 2 * n * k))]
        weights = itertools.cycle(weights)
        return lambda: F.linear(x, next(weights))

    moved = 2.0 * (n * k + m * (n + k))
    return GpuCase("gemm", "linear", f"{m}x{k} by {n}x{k}", short(dtype), make, bytes=moved, main=False)


def decode(sizes: Sizes) -> list[GpuCase]:
    heads, kv_heads, d = 32, 8, 128

    def case(keys, dtype):
        size = 4 * kv_heads * keys * d  # K and V

        def make(device):
            q = torch.randn(1, heads, 1, d, device=device, dtype=dtype)
            shape = (1, kv_heads, keys, d)
            caches = [
                [torch.randn(shape, device=device, dtype=dtype) for _ in range(2)] for _ in range(_copies(sizes, size))
            ]
            caches = itertools.cycle(caches)

            def call():
                k, v = next(caches)
                return F.scaled_dot_product_attention(q, k, v, enable_gqa=True)

            return call

        shapes = f"B1 H{heads}/{kv_heads} D{d} keys {keys}"
        return GpuCase("decode", "decode", shapes, short(dtype), make, bytes=float(size),
                       reach=Reach("copy", 0.7, 0.9), rivals=FLASH_AND_CUDNN)  # fmt: skip

    return [case(keys, dtype) for keys in sizes.decode_keys for dtype in HALF]


def copy_reference(sizes: Sizes) -> list[GpuCase]:
    """x + 1, whose bandwidth measures the memory-bound kernels."""
    return [_memory_case(sizes, "x+1", torch.float32, 2, lambda x, w, b: x + 1)]


def _memory_case(sizes, name, dtype, passes, function, backward=False, aim=True) -> GpuCase:
    rows, width = sizes.rows

    def make(device):
        x = torch.randn(rows, width, device=device, dtype=dtype).requires_grad_(backward)
        w, b = torch.ones(width, device=device, dtype=dtype), torch.zeros(width, device=device, dtype=dtype)
        if not backward:
            return lambda: function(x, w, b)
        wanted = (x,)
        if "norm" in name:
            wanted = (x, w.requires_grad_(), b.requires_grad_()) if "layer" in name else (x, w.requires_grad_())
        y = function(x, w, b)
        g = torch.randn(y.shape, device=device, dtype=y.dtype)
        return lambda: torch.autograd.grad(y, wanted, g, retain_graph=True)

    size = torch.empty((), dtype=dtype).element_size()
    return GpuCase(
        "norms", name, f"{rows}x{width}", short(dtype), make, bytes=float(passes * size * rows * width),
        reach=Reach("copy", 0.85, 0.95) if aim else None, autograd=backward,
    )  # fmt: skip


def _adamw(sizes, dtype) -> GpuCase:
    rows, width = sizes.rows

    def make(device):
        p = torch.nn.Parameter(torch.randn(rows, width, device=device, dtype=dtype))
        p.grad = torch.randn(rows, width, device=device, dtype=dtype)
        return torch.optim.AdamW([p], lr=1e-4, fused=True).step

    size = torch.empty((), dtype=dtype).element_size()
    return GpuCase("norms", "adamw_fused", f"{rows}x{width}", short(dtype), make, bytes=7.0 * size * rows * width,
                   reach=Reach("copy", 0.85, 0.95))  # fmt: skip


def norms(sizes: Sizes) -> list[GpuCase]:
    width = sizes.rows[1]

    def layer_norm(x, w, b):
        return F.layer_norm(x, (width,), w, b)

    def rms_norm(x, w, b):
        return F.rms_norm(x, (width,), w)

    def softmax(x, w, b):
        return x.softmax(-1)

    cases = []
    for dtype in (torch.float32, torch.float16):
        if dtype is torch.float16:  # in float32 it is the reference that runs first
            cases.append(_memory_case(sizes, "x+1", dtype, 2, lambda x, w, b: x + 1))
        for function in (layer_norm, rms_norm, softmax):
            cases.append(_memory_case(sizes, function.__name__, dtype, 2, function))
            cases.append(_memory_case(sizes, function.__name__ + "_backward", dtype, 3, function, backward=True))
        cases += [_cross_entropy(sizes, dtype, backward) for backward in (False, True)]
        cases += [_adamw(sizes, dtype), _rotary(sizes, dtype)]
    return cases


def _rotary(sizes, dtype) -> GpuCase:
    rows, width = sizes.rows
    head = min(width, 128)

    def make(device):
        x = torch.randn(rows, width // head, head, device=device, dtype=dtype).transpose(0, 1)
        angles = torch.outer(torch.arange(rows), 10000 ** (-torch.arange(0, head, 2) / head))
        cos, sin = angles.cos().to(device), angles.sin().to(device)
        if device == "aule":
            return lambda: rotary_embedding(x, cos, sin)
        cos, sin = (torch.cat((t, t), -1).to(dtype) for t in (cos, sin))

        def composed():  # as models write it
            a, b = x.chunk(2, -1)
            return x * cos + torch.cat((-b, a), -1) * sin

        return composed

    size = torch.empty((), dtype=dtype).element_size()
    return GpuCase("norms", "rotary_embedding", f"{width // head} heads, {rows} tokens, {head}", short(dtype), make,
                   bytes=2.0 * size * rows * (width // head * head), reach=Reach("copy", 0.85, 0.95))  # fmt: skip


def _cross_entropy(sizes, dtype, backward) -> GpuCase:
    rows, width = sizes.rows

    def make(device):
        x = torch.randn(rows, width, device=device, dtype=dtype).requires_grad_(backward)
        target = torch.arange(rows, device=device) % width
        if not backward:
            return lambda: F.cross_entropy(x, target)
        loss = F.cross_entropy(x, target)
        return lambda: torch.autograd.grad(loss, x, retain_graph=True)

    size = torch.empty((), dtype=dtype).element_size()
    # What must move: the logits are read, and for the gradient read and written. Eager PyTorch writes log_softmax too.
    passes = 2.0 if backward else 1.0
    return GpuCase("norms", "cross_entropy" + ("_backward" if backward else ""), f"{rows}x{width}", short(dtype), make,
                   bytes=passes * size * rows * width, autograd=backward)  # fmt: skip


def chains(sizes: Sizes) -> list[GpuCase]:
    n = sizes.tiny_ops

    def dependent(device):
        x = torch.zeros(1024, device=device)

        def call():
            for _ in range(n):
                x.add_(1)

        return call

    def independent(device):
        inputs = torch.zeros(n, 1024, device=device).unbind()
        outputs = torch.zeros(n, 1024, device=device).unbind()

        def call():
            for x, y in zip(inputs, outputs):
                torch.add(x, 1, out=y)

        return call

    return [
        GpuCase("norms", "tiny_dependent", f"{n} x 1024", "float32", dependent, ops=n, reach=Reach("us", 2.0)),
        GpuCase("norms", "tiny_independent", f"{n} x 1024", "float32", independent, ops=n, reach=Reach("us", 0.3)),
    ]


def model(sizes: Sizes) -> list[GpuCase]:
    config = sizes.gpt2

    def make(device):
        torch.manual_seed(0)
        with torch.device(device):
            net = GPT2(config)
        optimizer = torch.optim.AdamW(net.parameters(), lr=1e-4, weight_decay=0.1, fused=True)
        tokens = torch.randint(config.vocabulary, (config.batch, config.context + 1)).to(device)
        x, y = tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()

        def step():
            with torch.autocast(device, dtype=torch.bfloat16):
                logits = net(x)
                loss = F.cross_entropy(logits.view(-1, config.vocabulary), y.view(-1))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss

        return step

    tokens = config.batch * config.context
    flops = 6.0 * config.matrix_parameters() * tokens + 6.0 * config.layers * tokens * config.context * config.width
    shapes = f"B{config.batch} N{config.context} vocabulary {config.vocabulary}"
    return [GpuCase("model", "gpt2_small_step", shapes, "bfloat16 autocast", make, flops=flops,
                    reach=Reach("cuda", 0.7, 1.0), queued=False, autograd=True)]  # fmt: skip


GROUPS = {"attention": attention, "gemm": gemm, "norms": norms, "decode": decode, "chains": chains, "model": model}
NOTHING = {"cuda": contextlib.nullcontext}
