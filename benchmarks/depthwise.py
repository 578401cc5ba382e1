"""Depthwise and thinly grouped convolutions beside CUDA's: microseconds of GPU time for one call, and CUDA's over ours.

python benchmarks/depthwise.py [--only TEXT] [--dtype float16] [--small]

Forward, input gradient, weight gradient; ratios over 1 are faster than CUDA. Both devices are timed by events, in
alternation, median of five samples. `floor` is the time to read and write forward's images once at --bandwidth.
"""

import argparse
import contextlib

import torch

from torch_aule.benchmark.case import Case
from torch_aule.benchmark.timing import Blocker, Settings, runner

# name: images, groups, channels of a group, extent, kernel, stride
LAYERS = {
    "dw 7x7 96 56": (32, 96, 1, (56, 56), 7, 1),
    "dw 7x7 384 14": (32, 384, 1, (14, 14), 7, 1),
    "dw 7x7 768 7": (32, 768, 1, (7, 7), 7, 1),
    "dw 3x3 96 112 s2": (64, 96, 1, (112, 112), 3, 2),
    "dw 5x5 240 28": (64, 240, 1, (28, 28), 5, 1),
    "dw 5x5 240 28 s2": (64, 240, 1, (28, 28), 5, 2),
    "dw 3x3 1152 7": (64, 1152, 1, (7, 7), 3, 1),
    "dw 3x3 144 56": (64, 144, 1, (56, 56), 3, 1),
    "g32 3x3 256 28": (64, 32, 8, (28, 28), 3, 1),
    "g32 3x3 512 14": (64, 32, 16, (14, 14), 3, 1),
    "dw1d 4 2048 2048": (8, 2048, 1, (2048,), 4, 1),
}
PASSES = {"forward": None, "input": (True, False, False), "weight": (False, True, False)}


def layer(sizes, dtype, last, which, small):
    """For `Case.make`: a device -> one pass, with its operands there."""
    images, groups, channels, extent, kernel, stride = sizes
    if small:
        images, groups, extent = 2, min(groups, 24), tuple(min(n, 14) for n in extent)
    dims = len(extent)
    generator = torch.Generator().manual_seed(0)

    def made(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float32).to(dtype)

    x, w = made(images, groups * channels, *extent), made(groups * channels, channels, *[kernel] * dims)
    options = ([stride] * dims, [kernel // 2] * dims, [1] * dims, False, [0] * dims, groups)

    def make(device):
        image, weight = x.to(device), w.to(device)
        if last:
            image = image.contiguous(memory_format=torch.channels_last)
            weight = weight.contiguous(memory_format=torch.channels_last)

        def forward():
            return torch.ops.aten.convolution(image, weight, None, *options)

        if which == "forward":
            return forward
        grad = torch.randn_like(forward())
        mask = PASSES[which]
        return lambda: torch.ops.aten.convolution_backward(grad, image, weight, None, *options, mask)

    return make


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="rows whose name, dtype or format contains it")
    parser.add_argument("--dtype", default="float16,float32", help="of float16, bfloat16 and float32, with commas")
    parser.add_argument("--samples", type=int, default=5)
    parser.add_argument("--bandwidth", type=float, default=4.1, help="of the device, in TB/s")
    parser.add_argument("--small", action="store_true", help="sizes for a software device")
    options = parser.parse_args()
    devices = ["aule", *(["cuda"] if torch.cuda.is_available() else [])]
    settings = Settings(samples=options.samples, rest_s=0.0)
    blockers = {} if options.small else {device: Blocker(device, 1 << 26) for device in devices}
    words = "ours / CUDA = CUDA over ours" if len(devices) > 1 else "ours"
    print(f"{'layer':36}{'floor':>6}" + "".join(f"{which:>24}" for which in PASSES) + f"   us: {words}")
    for dtype in [getattr(torch, name) for name in options.dtype.split(",")]:
        for last in (False, True):
            for name, sizes in LAYERS.items():
                row = f"{name} {str(dtype).removeprefix('torch.')} {'NHWC' if last else 'NCHW'}"
                if options.only not in row or (last and len(sizes[3]) == 1):
                    continue
                images, groups, channels, extent, _, stride = sizes
                pixels = torch.Size(extent).numel() * (1 + stride ** -len(extent))
                floor = images * groups * channels * pixels * dtype.itemsize / options.bandwidth / 1e6
                cells = []
                for which in PASSES:
                    case = Case("depthwise", row, which, str(dtype), layer(sizes, dtype, last, which, options.small))
                    runners = [runner(case, device, contextlib.nullcontext, settings, blockers) for device in devices]
                    for _ in range(options.samples):
                        for one in runners:
                            one.sample()
                    us = [one.result().median * 1e3 for one in runners]
                    ratio = f" / {us[1]:.0f} = {us[1] / us[0]:.2f}" if len(us) > 1 else ""
                    cells.append(f"{us[0]:.0f}{ratio}")
                    del runners
                print(f"{row:36}{floor:6.0f}" + "".join(f"{cell:>24}" for cell in cells), flush=True)


if __name__ == "__main__":
    main()
