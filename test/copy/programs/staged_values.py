"""Values that the host reads where memory is not unified: one at a time beside kernels, and many, from several threads.

They come through staging memory, but for small ones that the host reads in place (`mapped_memory`).
"""

import threading

import torch

import torch_aule  # noqa: F401

assert not torch.aule.get_device_properties().unified_memory
DTYPES = [
    torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.complex32, torch.complex64, torch.complex128,
    torch.bool, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8, torch.uint16, torch.uint32,
    torch.uint64, torch.float8_e4m3fn, torch.float8_e5m2,
]  # fmt: skip
for dtype in DTYPES:
    host = torch.tensor([1, 0, 3]).to(dtype)
    mine = host.to("aule")
    for k in range(3):
        expected, found = host[k].item(), mine[k].item()
        assert found == expected and type(found) is type(expected), (dtype, found, expected)
z = torch.tensor(1 + 2j).to("aule")
assert z.conj().item() == 1 - 2j and z.conj().imag.item() == -2


def read(values: int, rounds: int) -> None:
    x = torch.arange(values, dtype=torch.int32, device="aule")
    expected = torch.arange(values, dtype=torch.int32)
    for k in range(1, rounds + 1):
        x += 1  # the next read must come after it, and this after the last read
        at = 7 * k % values
        assert x[at].item() == at + k, (values, k)
        assert x.sum(dtype=torch.int64).item() == values * (values - 1) // 2 + k * values, (values, k)
        if k % 16 == 0:
            assert torch.equal(x.cpu(), expected + k), (values, k)


failures = []


def reader(*arguments) -> None:
    try:
        read(*arguments)
    except BaseException as error:
        failures.append(error)


threads = [threading.Thread(target=reader, args=arguments) for arguments in ((100, 96), (1 << 19, 32), (5 << 20, 16))]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert not failures, failures
