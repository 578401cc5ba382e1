"""3 x 3 convolutions of channels-last images, pass by pass: TFLOPS by gathered tiles, tiles with a halo, cuDNN.

python benchmarks/studies/conv3x3.py [--dtype bfloat16] [--seconds 140] [--only 56] [--passes weight] [--small]

A tile is BMxBNxCHUNK/WMxWN, for the weight BMxBNxBK/WMxWN and its taps and buffers; `/s2`: two strips, `/w264`: so many
workgroups, `/b1`: one buffer, `/packed3`: the weight is packed, and loaded three steps ahead. `auto` is the planner's
choice; a tile that does not fit is the old way. Some results of the old way are compared with float64, and all results
of each tile with them: `!` behind a number says that they differ. Registers and spills of the new pipelines follow.

float32 has three ways: `auto` and `old` as above, with what PyTorch allows by default, and `exact`. cuDNN takes TF32.
Behind each number is the largest error of some results, in parts of the terms' sizes.
"""

import argparse
import contextlib
import functools
import statistics
import time

import torch

import torch_aule.tune
from torch_aule.benchmark.harness import timing
from torch_aule.benchmark.harness.case import Case

SHAPES = [  # images, channels, out channels, extent, stride
    (32, 64, 64, 56, 1),
    (32, 128, 128, 28, 1),
    (32, 256, 256, 14, 1),
    (32, 512, 512, 7, 1),
    (8, 64, 64, 224, 1),
    (2, 320, 320, 64, 1),
    (8, 256, 256, 50, 1),
    (32, 128, 128, 56, 2),
    (32, 256, 256, 28, 2),
]
SMALL = [(2, 32, 32, 14, 1), (1, 40, 48, 9, 1), (2, 32, 40, 13, 2)]
PASSES = {"forward": None, "input": (True, False, False), "weight": (False, True, False)}
# BM, BN, WM, WN, channels of a chunk, strips (0: as few as fit), workgroups (0: the planner's), buffers of the weight
# (0: it is packed), distance of its loads
TILES = [
    (128, 128, 64, 32, 32, 0, 0, 0, 3),
    (128, 128, 64, 64, 32, 0, 0, 0, 2),
    (128, 128, 64, 32, 32, 0, 0, 2, 3),
    (128, 128, 64, 64, 16, 0, 0, 2, 3),
    (256, 128, 64, 64, 32, 0, 0, 0, 2),
    (128, 64, 64, 32, 32, 0, 0, 0, 3),
    (256, 64, 64, 32, 32, 0, 0, 0, 3),
    (256, 64, 64, 64, 32, 0, 0, 0, 2),
    (128, 128, 64, 32, 64, 0, 0, 0, 3),
    (64, 128, 64, 32, 32, 0, 0, 0, 3),
]
WEIGHT_TILES = [  # BM, BN, WM, WN, positions, taps, buffers, strips, workgroups
    (64, 64, 32, 16, 32, 9, 2),
    (64, 64, 32, 16, 32, 9, 1),
    (64, 32, 32, 16, 32, 9, 1, 0, 264),
    (64, 32, 32, 16, 32, 9, 2, 2, 264),
    (64, 64, 32, 32, 32, 3, 2, 0, 264),
    (64, 64, 32, 32, 32, 3, 2, 0, 132),
    (128, 64, 32, 32, 32, 3, 2),
    (128, 64, 64, 32, 32, 3, 2),
]
SMALL_TILES = [(32, 32, 16, 16, 32), (32, 32, 16, 16, 16, 2), (64, 32, 32, 16, 32)]
SMALL_WEIGHT_TILES = [(16, 16, 16, 8, 16, 3, 1), (16, 16, 8, 8, 32, 5, 2), (32, 16, 16, 8, 32, 3, 2, 2)]


def name_of(which, tile):
    bm, bn, wm, wn, k, *more = tile
    name = f"{bm}x{bn}x{k}/{wm}x{wn}"
    if which == "weight":
        taps, buffers, *more = more
        name += f"/{taps}t{buffers}"
    strips, workgroups, buffers, distance = [*more, *[0, 0, 2, 1][len(more) :]]
    name += f"/s{strips}" * (strips > 0) + f"/w{workgroups}" * (workgroups > 0)
    if which != "weight" and (buffers, distance) != (2, 1):
        name += f"/packed{distance}" if buffers == 0 else f"/b{buffers}d{distance}"
    return name


def operands(shape, dtype):
    images, channels, out_channels, extent, stride = shape
    generator = torch.Generator().manual_seed(0)
    out_extent = (extent - 1) // stride + 1

    def made(*size):
        return torch.randn(*size, generator=generator).to(dtype).contiguous(memory_format=torch.channels_last)

    return (made(images, out_channels, out_extent, out_extent), made(images, channels, extent, extent),
            made(out_channels, channels, 3, 3))  # fmt: skip


def call_of(which, tensors, stride):
    dy, x, w = tensors
    options = ([stride] * 2, [1, 1], [1, 1], False, [0, 0], 1)
    if which == "forward":
        return lambda: torch.ops.aten.convolution(x, w, None, *options)
    mask = PASSES[which]
    at = list(mask).index(True)
    return lambda: torch.ops.aten.convolution_backward(dy, x, w, None, *options, mask)[at]


def sampled_error(which, tensors, result, stride, samples=6):
    """The largest difference from float64 among some results, by the sum of the terms' sizes."""
    dy, x, w = tensors
    generator = torch.Generator().manual_seed(1)
    worst = 0.0
    for _ in range(samples):
        a, b, *place = (int(torch.randint(n, (1,), generator=generator)) for n in result.shape)
        pairs = []  # along each axis: {of dy or the result, of x, tap}, each result's terms
        for at in place:
            axis = [(y, y * stride + tap - 1, tap) for y in range(dy.size(2)) for tap in range(3)]
            axis = [one for one in axis if 0 <= one[1] < x.size(2)]
            own = {"forward": 0, "input": 1, "weight": 2}[which]
            pairs.append(list(zip(*(one for one in axis if one[own] == at))))
        ys, xs, taps = ([torch.tensor(axis[i]) for axis in pairs] for i in range(3))
        of_dy, of_x, of_w = (
            t[..., rows[:, None], columns].double() for t, (rows, columns) in ((dy, ys), (x, xs), (w, taps))
        )
        if which == "weight":  # out channel a, channel b
            terms = of_dy[:, a] * of_x[:, b]
        else:  # image a; out channel or channel b
            terms = of_x[a] * of_w[b] if which == "forward" else of_dy[a] * of_w[:, b]
        worst = max(worst, abs(float(result[(a, b, *place)]) - float(terms.sum())) / float(terms.abs().sum()))
    return worst


def measured(call, device, flops, context, settings, blockers):
    """TFLOPS, the median of bursts."""
    case = Case("layers", "conv3x3", "", "", lambda _: call, flops=flops)
    runner = timing.runner(case, device, context, settings, blockers)
    for _ in range(settings.samples):
        runner.sample()
    return flops / statistics.median(runner.times) / 1e9


def differs(result, expected, dtype):
    largest = expected.abs().max().float()
    return not bool((result.float() - expected.float()).abs().max() <= 4 * torch.finfo(dtype).eps * largest)


def odd_sizes(dtype):
    """Sizes that end inside tiles, chunks and vec8s, with a bias, held against float64; in rounding steps."""
    worst = {}
    for n, c, o, extent in ((2, 40, 24, 9), (1, 35, 33, 13), (3, 136, 64, 7)):
        x, w, b = torch.randn(n, c, extent, extent), torch.randn(o, c, 3, 3), torch.randn(o)
        x, w, b = (t.to(dtype) for t in (x, w, b))
        wide = [t.double().requires_grad_() for t in (x, w)]
        exact = torch.nn.functional.conv2d(*wide, b.double(), padding=1)
        seed = torch.randn_like(exact).to(dtype)
        expected = [exact, *torch.autograd.grad(exact, wide, seed.double())]
        for name, values in {
            "shared": {"halo_tile": (64, 64, 32, 32, 32)},
            "packed": {"halo_tile": (64, 64, 32, 32, 32, 0, 0, 0, 3)},
            "packed, parts": {"halo_tile": (64, 64, 32, 32, 32, 0, 64, 0, 3)},
        }.items():
            with torch_aule.tune.override(halo_conv="always", **values):
                leaves = [t.to("aule").requires_grad_() for t in (x, w)]
                out = torch.nn.functional.conv2d(*leaves, b.to("aule"), padding=1)
                results = [out, *torch.autograd.grad(out, leaves, seed.to("aule"))]
            errors = [(r.double().cpu() - e).abs().max() / e.abs().max() for r, e in zip(results, expected)]
            worst[name] = max(worst.get(name, 0.0), float(max(errors)) / torch.finfo(dtype).eps)
    print("odd sizes, error in steps of the largest result:", worst, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dtype", default="float16", choices=["float16", "bfloat16", "float32"])
    parser.add_argument("--seconds", type=float, default=140, help="no shape begins after them (%(default)s)")
    parser.add_argument("--only", default="", help="part of a shape's name")
    parser.add_argument("--stride", type=int, default=0)
    parser.add_argument("--no-cuda", action="store_true")
    parser.add_argument("--passes", default=",".join(PASSES))
    parser.add_argument("--small", action="store_true", help="shapes and tiles of a software device")
    options = parser.parse_args()
    dtype, start = getattr(torch, options.dtype), time.monotonic()
    settings = timing.Settings(sample_ms=5.0, samples=5, rest_s=0.01)
    has_cuda = torch.cuda.is_available() and not options.no_cuda
    if has_cuda:
        torch.backends.cudnn.benchmark = True
    elements = 1024 if options.small else 1 << 24
    blockers = {device: timing.Blocker(device, elements) for device in ("aule", *["cuda"] * has_cuda)}
    is_wide = dtype == torch.float32
    if not options.small and not is_wide:
        odd_sizes(dtype)
    tiles = [] if is_wide else SMALL_TILES if options.small else TILES
    weight_tiles = [] if is_wide else SMALL_WEIGHT_TILES if options.small else WEIGHT_TILES
    torch_aule._C.keep_pipeline_statistics(True)
    for which in options.passes.split(","):
        setting, some = ("halo_weight_tile", weight_tiles) if which == "weight" else ("halo_tile", tiles)
        ways = {"old": {"halo_conv": "never"}, "auto": {}}
        ways |= {name_of(which, tile): {"halo_conv": "always", setting: tile} for tile in some}
        if is_wide:
            ways["exact"] = {"halo_conv": "never"}
        print(f"\n{which}, {options.dtype}, TFLOPS", flush=True)
        for shape in SMALL if options.small else SHAPES:
            images, channels, out_channels, extent, stride = shape
            name = f"{channels}>{out_channels} {extent}^2 B{images}{' s2' if stride == 2 else ''}"
            if options.only not in name or (options.stride and stride != options.stride):
                continue
            if time.monotonic() - start > options.seconds:
                print(f"{name} left out: {options.seconds:g} s are over", flush=True)
                continue
            flops = 2.0 * 9 * images * ((extent - 1) // stride + 1) ** 2 * channels * out_channels
            host, found = operands(shape, dtype), []
            if has_cuda:
                call = call_of(which, [t.cuda() for t in host], stride)
                error = f" ({sampled_error(which, host, call().cpu(), stride):.1e})" if is_wide else ""
                tflops = measured(call, "cuda", flops, contextlib.nullcontext, settings, blockers)
                found.append(f"cuda {tflops:.0f}{error}")
                torch.cuda.empty_cache()
            call, expected = call_of(which, [t.to("aule") for t in host], stride), None
            for way, values in ways.items():
                tile = values.get(setting)
                torch.backends.fp32_precision = "ieee" if way == "exact" else "none"
                if tile and not options.small and which != "weight" and tile[1] > out_channels:
                    continue
                with torch_aule.tune.override(**values):
                    result = call()
                if is_wide:
                    wrong = f" ({sampled_error(which, host, result.cpu(), stride):.1e})"
                elif expected is None:
                    expected = result
                    wrong = not sampled_error(which, host, result.cpu(), stride) <= torch.finfo(dtype).eps
                else:
                    wrong = differs(result, expected, dtype)
                context = functools.partial(torch_aule.tune.override, **values)
                tflops = measured(call, "aule", flops, context, settings, blockers)
                found.append(f"{way} {tflops:.0f}{wrong if is_wide else '!' if wrong else ''}")
            print(f"{name}: " + ", ".join(found), flush=True)
            del expected, result
    print(f"\n{time.monotonic() - start:.0f} s. Pipelines:")
    for label, values in sorted(torch_aule._C.keep_pipeline_statistics(False)):
        if "halo" in label:
            print(label, {name: value for name, value in values if value})


if __name__ == "__main__":
    main()
