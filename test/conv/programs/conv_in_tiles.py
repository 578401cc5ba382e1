"""Convolutions by the kernel of devices with real shared memory, against float64."""

import contextlib

import torch
import torch.nn.functional as F

import torch_aule.tune

torch.manual_seed(1)
units = any(s[3:] == (0, 0, 1, 1) for s in torch_aule._C.device_properties(0)["coopmat_shapes"])
CASES = [  # transposed, channels in, out, spatial, kernel, options
    (False, 16, 24, (9, 11), (3, 3), dict(padding=1)),
    (False, 3, 5, (12, 10), (5, 3), dict(stride=2, padding=(2, 1))),
    (False, 64, 16, (8, 7), (3, 2), dict(stride=(2, 1), padding=(1, 0), dilation=(1, 2), groups=2)),
    (False, 40, 33, (6, 5), (1, 1), {}),
    (False, 16, 24, (7, 8), (1, 1), dict(stride=(2, 3))),
    (False, 8, 16, (9, 8), (3, 3), dict(stride=2, dilation=2, padding=1)),
    (True, 16, 8, (4, 3), (1, 1), dict(stride=2, output_padding=1)),
    (True, 8, 16, (5, 6), (3, 3), dict(stride=2, padding=1, output_padding=1)),
    (True, 16, 64, (4, 5), (2, 2), dict(stride=(2, 3), groups=2)),
    (False, 8, 8, (17,), (5,), dict(stride=2, padding=2)),
    (False, 264, 40, (5, 6), (3, 3), dict(padding=1)),  # few tiles share k
    (False, 1040, 16, (4, 5), (3, 1), dict(padding=(1, 0), groups=2)),
    (True, 200, 17, (3, 4), (5, 3), dict(padding=1)),
    (False, 3, 16, (17, 18), (7, 7), dict(stride=2, padding=3)),  # blocks of places as channels
    (False, 3, 24, (9, 13), (4, 4), dict(stride=4)),
    (False, 1, 8, (31,), (10,), dict(stride=5, padding=2)),
    (False, 3, 16, (5, 9, 8), (3, 4, 4), dict(stride=(1, 2, 3), padding=(1, 2, 1))),
    (False, 16, 24, (8, 9), (2, 2), dict(stride=2)),
    (True, 24, 16, (5, 4), (2, 2), dict(stride=2, output_padding=1)),
    (True, 16, 3, (6, 5), (5, 4), dict(stride=2, padding=2, output_padding=1)),
    (False, 16, 24, (12, 11), (1, 1), {}),  # planes as they lie
    (False, 24, 40, (128,), (1,), {}),
    (True, 24, 16, (8, 12), (1, 1), {}),
    (False, 33, 40, (4, 5, 6), (1, 1, 1), {}),
    (False, 16, 24, (2, 4, 6), (1, 1, 1), dict(stride=(1, 2, 2))),
    (False, 16, 24, (5, 6, 7), (3, 3, 3), dict(padding=1)),
    (False, 5, 7, (6, 4, 5), (2, 3, 2), dict(stride=(2, 1, 2), padding=(1, 1, 0), dilation=(1, 2, 1))),
    (False, 32, 16, (5, 4, 6), (1, 3, 3), dict(padding=(0, 1, 1), groups=2)),
    (False, 16, 8, (4, 3, 5), (3, 1, 1), dict(padding=(1, 0, 0), stride=(2, 1, 1))),
    (True, 16, 8, (2, 3, 4), (2, 3, 2), dict(stride=2, padding=(0, 1, 0), output_padding=(1, 1, 0))),
]
LAST = {4: torch.channels_last, 5: torch.channels_last_3d}
settings = contextlib.ExitStack()
# Where there are matrix units: the third is float32 in three products of pieces, the fourth in one, the fifth in one of
# scaled halves, of which each rounds by 2^-11 of a term. Results are largest where many terms have one sign, so that a
# bound in parts of the largest is about that, too.
for dtype, precision, halves, tolerance in (
    (torch.float32, "ieee", "never", 1e-5), (torch.float16, "none", "never", 4e-3),
    (torch.float32, "tf32", "never", 4e-5), (torch.float32, "bf16", "never", 2e-2),
    (torch.float32, "tf32", "always", 2 * 2.0**-11),
):  # fmt: skip
    torch.backends.fp32_precision = precision
    settings.close()
    settings.enter_context(torch_aule.tune.override(scaled_halves=halves))
    largest = 0.0
    is_plain = precision == "ieee"
    for transposed, c_in, c_out, spatial, kernel, options in CASES if units or is_plain else ():
        dims, groups = len(spatial), options.get("groups", 1)
        function = getattr(F, f"conv{'_transpose' if transposed else ''}{dims}d")
        shape = (c_in, c_out // groups) if transposed else (c_out, c_in // groups)
        x, w, b = torch.randn(3, c_in, *spatial), torch.randn(*shape, *kernel) / 4, torch.randn(c_out)
        seed = torch.randn_like(function(x, w, b, **options))
        x, w, b, seed = (t.to(dtype) for t in (x, w, b, seed))
        results = []
        for device in ("cpu", "aule", "aule last"):
            leaves = [t.double() if device == "cpu" else t.to("aule") for t in (x, w, b)]
            last = "last" in device and dims >= 2
            if last:
                leaves = [t.to(memory_format=LAST[t.dim()]) if t.dim() in LAST else t for t in leaves]
            leaves = [t.requires_grad_() for t in leaves]
            out = function(*leaves, **options)
            results.append([out, *torch.autograd.grad(out, leaves, seed.to(out.device, out.dtype))])
            for t in results[-1][:3]:
                assert t.is_contiguous(memory_format=LAST[dims + 2] if last else torch.contiguous_format)
        for result in results[1:]:
            for got, expected in zip(result, results[0]):
                error = (got.double().cpu() - expected).abs().max() / expected.abs().max()
                largest = max(largest, error.item())
                assert error < tolerance, (dtype, precision, halves, transposed, c_in, c_out, spatial, kernel, options, error)
    if (precision == "bf16" or halves == "always") and units:
        assert largest > 2e-5, largest  # else it was not made of pieces
