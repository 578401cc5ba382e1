"""FlexAttention on matrix units: plans of made-up devices, texts for an H200, and results where lavapipe has them."""

import itertools
import os
from dataclasses import asdict, replace

import pytest
import torch

import plan_problems
from flex_reference import RandomModifiers, reference
from helpers import needs_shader_compiler
from matrix_units import ON_CPU, has_matrices

pytest.importorskip("torch._inductor.codegen.simd")
pytest.importorskip("torch.nn.attention.flex_attention")
needs_shader_compiler()

from test_flex_attention import (  # noqa: E402  `fresh` is a fixture
    Case,
    assert_close,
    causal,
    flex_attention,
    fresh,  # noqa: F401
    run_and_get_code,
    window,
)

from torch_aule.compile import config  # noqa: E402
from torch_aule.compile.codegen import facts  # noqa: E402
from torch_aule.compile.codegen.facts import DeviceFacts  # noqa: E402
from torch_aule.compile.flex.matrices import matrix_tiles  # noqa: E402

H200 = DeviceFacts(architecture="hopper", multiprocessors=132, shared_bytes=48 * 1024, max_push_bytes=256)
LAYOUT = plan_problems.layout_of("h200", "f16")
LONG = bool(os.environ.get("TORCH_AULE_LONG_TESTS"))
# Small tiles: the driver of a processor, whose matrices have 8 rows, compiles them slowly.
SHAPE = "1,1,8,1,1" if ON_CPU else "2,1,16,1,1"
SMALL = dict.fromkeys(("flex_matrix_forward", "flex_matrix_dq", "flex_matrix_dkdv"), SHAPE)
IN_SOFTWARE = {"flex_matrix_units_in_software": True, **SMALL}
# kind, head sizes, modified -> subgroups, blocks of rows, tile, blocks in flight, stages, motion barriers; rows, bytes
PLANS = {
    ("forward", (64, 64), False): "4,2,64,2,1,0; 128 rows, 18464 bytes",
    ("forward", (64, 64), True): "4,2,32,2,1,0; 128 rows, 9248 bytes",
    ("forward", (128, 128), False): "4,2,32,1,1,0; 128 rows, 17440 bytes",
    ("forward", (128, 128), True): "4,2,32,1,1,0; 128 rows, 17440 bytes",
    ("forward", (192, 128), False): "8,1,32,2,1,1; 128 rows, 34848 bytes",
    ("forward", (20, 24), False): "4,2,32,2,1,0; 128 rows, 5152 bytes",
    ("dq", (64, 64), False): "4,2,64,1,1,0; 128 rows, 18448 bytes",
    ("dq", (128, 128), True): "8,1,64,1,1,0; 128 rows, 34832 bytes",
    ("dkdv", (64, 64), False): "4,2,64,1,1,0; 128 rows, 18960 bytes",
    ("dkdv", (128, 128), True): "8,1,64,1,1,0; 128 rows, 35344 bytes",
}


def shown(tiles, kind):
    e = tiles.entry
    numbers = (e.subgroups, e.row_blocks, e.tile, tiles.in_flight, e.stages, e.motion_barriers)
    return f"{','.join(map(str, numbers))}; {tiles.block} rows, {tiles.shared_bytes(kind)} bytes"


def test_plans_of_an_h200():
    assert (LAYOUT["m"], LAYOUT["n"], LAYOUT["subgroup"], LAYOUT["acc_is_a_operand"]) == (16, 16, 32, True)
    actual = {key: shown(matrix_tiles(H200, LAYOUT, key[0], key[1], 128, key[2]), key[0]) for key in PLANS}
    assert actual == PLANS


@pytest.mark.parametrize("device", ["h200", "rdna3", "lavapipe_matrices"])
def test_no_plan_asks_for_more_than_the_device_has(device):
    layout = plan_problems.layout_of(device, "f16")
    for kilobytes in (1, 4, 16, 32, 48):
        for architecture in ("hopper", "unknown"):
            facts_ = DeviceFacts(architecture=architecture, shared_bytes=1024 * kilobytes, max_push_bytes=256)
            for dim in (8, 16, 40, 64, 80, 128, 192, 256, 300):
                for kind, block in itertools.product(("forward", "dq", "dkdv"), (128, 48, 20, 1 << 30)):
                    tiles = matrix_tiles(facts_, layout, kind, (dim, dim), block)
                    if tiles is None:
                        continue
                    e = tiles.entry
                    assert tiles.shared_bytes(kind) <= facts_.shared_bytes and tiles.local <= 1024
                    assert block % e.tile == 0 and e.tile % layout["n"] == 0 and dim <= 256
                    assert e.tile // layout["n"] % tiles.in_flight == 0


def test_where_the_portable_kernels_serve():
    def serves(device=H200, layout=LAYOUT, v_dim=64, block=128):
        return matrix_tiles(device, layout, "forward", (64, v_dim), block) is not None

    assert serves()
    assert not serves(block=20)  # no tile divides a block of the mask
    assert not serves(v_dim=257)
    assert not serves(layout=plan_problems.layout_of("arc", "f16") | {"known": False})
    assert not serves(device=replace(H200, max_push_bytes=128))


@pytest.mark.parametrize(
    ("form", "dtype"),
    [("causal", torch.bfloat16), ("none", torch.float16), ("scores", torch.bfloat16), ("odd", torch.float16)],
)
def test_texts_for_an_h200_compile(device, monkeypatch, dtype, form):
    """What glslang makes of the kernels that an H200 gets; its driver is not here, so nothing is launched."""
    from torch_aule.compile.doors import launch
    from torch_aule.compile.flex import node, problem
    from torch_aule.glsl.shader_source import Path, parse_shader
    from torch_aule.shader import runtime

    made, texts, spirv_of = {}, [], runtime._spirv

    def read(compiler, shader):
        if "#define FLEX_COOPMAT" in shader.variants[0].text:
            texts.append(shader.variants[0].text)
        return spirv_of(compiler, shader)

    def take(name, signature, source):
        if name.startswith("aule_flex_"):
            made[name.split("_")[2]] = source, runtime.to_spirv(parse_shader(Path(name), source), {})
        return lambda *args: None

    layout = plan_problems.layout_of("h200", "bf16" if dtype == torch.bfloat16 else "f16")
    monkeypatch.setattr(node, "start_compiling", lambda *args, **options: None)
    monkeypatch.setattr(launch, "aule_kernel", take)
    monkeypatch.setattr(runtime, "_spirv", read)
    monkeypatch.setattr(problem.facts, "matrices_of", lambda index, dtype: layout)
    dim = {"causal": 64, "none": 128, "scores": 64, "odd": 72}[form]
    n = 256 if form != "odd" else 200
    case = Case(device, lengths=(n, n), batch=1)
    options = {"block_mask": case.block_mask(causal(None), 128)} if form != "none" else {}
    if form == "scores":
        options["score_mod"] = lambda s, b, h, m, n: 20 * torch.tanh(s / 20)
    x = [torch.empty(1, 2, n, dim, device=device, dtype=dtype).requires_grad_() for _ in range(3)]
    with facts.override(**asdict(H200)):
        torch.autograd.grad(torch.compile(flex_attention, dynamic=False)(*x, **options).sum(), x)
    assert set(made) == {"forward", "dq", "dkdv"}
    # glslang reads each once, without the functions that it does not call.
    assert len(texts) == 3 and not any("float digamma" in text for text in texts)
    for source, features in made.values():
        assert "cooperative_matrix" in features and ("bfloat16" in features) == (dtype == torch.bfloat16)
        for line in ("const int MAT_M = 16;", "const int MAT_N = 16;", "const int SUBGROUP = 32;",
                     "const bool ACC_IS_A_OPERAND = true;", "const bool ALIGNED = true;"):  # fmt: skip
            assert line in source, line
        whole, unmodified = form != "odd", form != "scores"
        assert f"const bool WHOLE_TILES = {str(whole).lower()};" in source
        assert f"const bool UNMODIFIED_SCORES = {str(unmodified).lower()};" in source
        assert f"const bool UNMASKED = {str(form == 'none').lower()};" in source


@pytest.fixture
def units(device):
    if not has_matrices(torch.float16):
        pytest.skip("this device has no matrix units of known layout")
    return device


def on_units(case, *modifiers, backward=True, sizes=None, **options):
    settings = IN_SOFTWARE | (dict.fromkeys(SMALL, sizes) if sizes else {})
    code = case.check(*modifiers, settings=settings, backward=backward, **options)
    assert code.count("#define FLEX_COOPMAT") == (3 if backward else 1)


@pytest.mark.current_lavapipe
def test_causal(units):
    """Blocks that are divided, full and skipped; lengths that no tile divides; grouped heads."""
    on_units(Case(units, lengths=(70, 90), heads=4, kv_heads=2, dtype=torch.float16), mask=causal, lse=True)


@pytest.mark.current_lavapipe
def test_whole_tiles(units):
    on_units(Case(units, lengths=(64, 64), batch=1, dtype=torch.float16), mask=window, block=16, backward=False)


@pytest.mark.current_long
@pytest.mark.current_lavapipe
def test_scores_and_captured_tensors(units):
    captured = {"table": torch.randn(140, dtype=torch.float64), "head": torch.randn(2, dtype=torch.float64)}

    def score(t):
        return lambda score, b, h, m, n: score * t["head"][h] + t["table"][m - n + 70]

    case = Case(units, dtype=torch.float16, captured=captured, trained=("table", "head"), dim=20, v_dim=12)
    on_units(case, score, causal, lse=True)


@pytest.mark.current_long
@pytest.mark.current_lavapipe
def test_rows_that_see_nothing(units):
    """In blocks that are read, and in blocks that are not; then rows whose only keys are in full blocks."""
    case = Case(units, lengths=(80, 80), batch=1, dtype=torch.float16)
    on_units(case, mask=lambda t: lambda b, h, m, n: (m > 40) & (n <= m) & (m % 7 != 3), lse=True)
    case = Case(units, lengths=(32, 64), batch=1, dtype=torch.float16)
    on_units(case, mask=lambda t: lambda b, h, m, n: (n >= 32) | (m % 2 == 0), backward=False)


@pytest.mark.current_lavapipe
def test_weights_beyond_float16(units):
    """Scores of the sampled tiles are low, later ones are high: the block is computed again."""
    case = Case(units, lengths=(16, 64), batch=1, heads=1, dtype=torch.float16)
    with torch.no_grad():
        for x in (case.own[1], case.exact[1]):
            x[:, :, 40:] *= 32  # exact in float16
    on_units(case, backward=False)


@pytest.mark.current_lavapipe
@pytest.mark.parametrize("scale", [-0.25, 0.0])
def test_scales_that_turn_maxima_round(units, scale):
    case = Case(units, lengths=(16, 40), batch=1, dtype=torch.float16)
    call = torch.compile(flex_attention, dynamic=False)
    with config.patch(IN_SOFTWARE), torch.no_grad():
        o, code = run_and_get_code(lambda: call(*case.own, scale=scale, block_mask=case.block_mask(causal(None))))
    assert "#define FLEX_COOPMAT" in code[0]
    q, k, v = case.exact
    assert_close(o, reference(q * scale * 4, k, v, None, causal(None))[0], rtol=1e-2, atol=1e-2)


@pytest.mark.current_lavapipe
def test_lengths_that_change(units):
    call = torch.compile(flex_attention, fullgraph=True, dynamic=True)
    with config.patch(IN_SOFTWARE):
        for number, (m, n) in enumerate([(70, 90), (33, 129), (200, 64)]):
            with torch._dynamo.config.patch(error_on_recompile=number > 0):
                case = Case(units, lengths=(m, n), batch=number + 3, dtype=torch.float16)
                case.check(mask=window, block=16, call=call, kernels=False, backward=False)


@pytest.mark.current_lavapipe
@pytest.mark.skipif(not LONG, reason="a driver of a processor takes a minute for it: TORCH_AULE_LONG_TESTS=1")
@pytest.mark.parametrize("sizes", ["2,2,8,1,2", "2,1,16,1,1"])
def test_shapes(units, sizes):
    """Several subgroups and blocks of rows; two tiles in shared memory."""
    on_units(Case(units, lengths=(100, 100), batch=1, dtype=torch.float16), mask=causal, sizes=sizes, block=64)


@pytest.mark.current_lavapipe
@pytest.mark.parametrize("seed", range(1000, 1030 if LONG else 1001))
def test_random_modifiers(units, seed):
    length = 20 + seed % 5 * 9
    modifiers = RandomModifiers(seed, 2, 2, length)
    case = Case(units, lengths=(length, length), captured=modifiers.tensors, trained=modifiers.trained(),
                dtype=torch.float16)  # fmt: skip
    mask = modifiers.mask_mod if modifiers.mask_steps else None
    # In float16 the gradient of clamp has another place where it ends, in the portable kernels as well.
    on_units(case, modifiers.score_mod, mask, block=16 if seed % 2 else 128, lse=seed % 3 == 0,
             backward=8 not in modifiers.score_steps)  # fmt: skip
