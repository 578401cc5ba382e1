"""Launches on this device in a process whose own driver of Triton is another GPU's, which hears of none of them."""

import gc
import warnings
from collections import namedtuple

import torch

import torch_aule.triton.door as door

door.built_in_accelerator = lambda: "cuda"  # before Triton is imported

import triton  # noqa: E402
import triton.language as tl  # noqa: E402
from triton.runtime.driver import driver  # noqa: E402

warnings.filterwarnings("ignore")
asked = []


class Other:
    """Another GPU's driver, which notes what it is asked for."""

    def __getattr__(self, name):
        asked.append(name)
        raise AttributeError(name)


other = Other()
driver.set_active(other)


@triton.jit
def twice(o, x, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(o + at, tl.load(x + at, mask=at < n) * 2, mask=at < n)


@triton.jit
def twice_of_a_pair(pair, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(pair[0] + at, tl.load(pair[1] + at, mask=at < n) * 2, mask=at < n)


@triton.jit
def twice_by_descriptors(o, x, M: tl.constexpr, N: tl.constexpr):
    i = tl.program_id(0)
    o.store([i * M, 0], x.load([i * M, 0]) * 2)


def launch(out, x):
    twice[(1,)](out, x, 512, BLOCK=512)


def launch_with_a_tuple(out, x):
    twice_of_a_pair[(1,)]((out, x), 512, BLOCK=512)


def launch_with_a_named_tuple(out, x):
    twice_of_a_pair[(1,)](namedtuple("Pair", "out x")(out, x), 512, BLOCK=512)


def launch_with_another_dtype(out, x):
    twice[(1,)](triton.reinterpret(out, tl.int32), triton.reinterpret(x, tl.int32), 512, BLOCK=512)


def launch_with_descriptors(out, x):
    from triton.tools.tensor_descriptor import TensorDescriptor

    pair = [TensorDescriptor.from_tensor(t, [8, 16]) for t in (out, x)]
    twice_by_descriptors[(4,)](*pair, M=8, N=16)


def launch_what_was_compiled_ahead(out, x):
    kernel = twice.warmup(out, x, 512, BLOCK=512, grid=(1,))
    kernel._init_handles()
    kernel[(1, 1, 1)](out, x, 512, 512)


def launch_by_a_tuner(out, x):
    configs = [triton.Config({"BLOCK": block}) for block in (256, 512)]
    tuned = triton.autotune(configs, ["n"])(twice)
    tuned[lambda meta: (triton.cdiv(512, meta["BLOCK"]),)](out, x, 512)


x = torch.randint(-50, 50, (32, 16), dtype=torch.int32)
own = x.to("aule")
for call in (launch, launch_with_a_tuple, launch_with_a_named_tuple, launch_with_another_dtype, launch_with_descriptors,
             launch_what_was_compiled_ahead, launch_by_a_tuner):  # fmt: skip
    out = torch.zeros_like(own)
    call(out, own)
    assert torch.equal(out.cpu(), x * 2), call.__name__
    assert driver.active is other, call.__name__
gc.collect()  # compiled kernels end
assert not asked, asked
print("well")
