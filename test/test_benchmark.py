"""The benchmark of real GPUs, every case of it once and tiny, so that it also works where no test runs."""

import json

import pytest
import torch

from torch_aule.benchmark import gpu_cases, gpu_report, gpu_rival, gpu_timing
from torch_aule.benchmark.gpt2 import Gpt2Config

TINY = gpu_cases.Sizes(
    total=1 << 13, lengths=(32, 64), plot_lengths=(16, 32, 64), dims=(16,), other_dims=(24,), other_length=16,
    odd_length=(30, 32), gemm=(16, 32), gemm_float32=16, few_rows=(32, 32), decode_keys=(16, 64), rows=(8, 32),
    cold_bytes=1 << 14, tiny_ops=4, gpt2=Gpt2Config(layers=1, width=16, heads=2, vocabulary=33, context=8, batch=2),
)  # fmt: skip


@pytest.fixture(scope="module")
def lines():
    found = []
    before = {name: getattr(gpu_timing, name) for name in ("SAMPLE_MS", "REST_S", "SAMPLES")}
    gpu_timing.SAMPLE_MS, gpu_timing.REST_S, gpu_timing.SAMPLES = 0.0, 0.0, 2
    about = {"device": "d", "driver": "e", "torch": torch.__version__}
    # The CPU stands in for CUDA: the same code compares.
    groups = ["attention", "gemm", "norms", "decode", "chains"]
    gpu_report.run(groups, about, found.append, rivals=["cpu"], sizes=TINY)
    for name, value in before.items():
        setattr(gpu_timing, name, value)
    return found


def test_every_case_runs(lines):
    failed = [(x["case"], x["shapes"], x["dtype"], x["errors"]) for x in lines if "aule" in x.get("errors", {})]
    assert not failed
    assert all(x["aule"]["ms"] > 0 for x in lines)
    assert {x["group"] for x in lines} == {"attention", "gemm", "norms", "decode"}


def test_keys_are_unique(lines):
    keys = [(x["case"], x["shapes"], x["dtype"]) for x in lines]
    assert len(keys) == len(set(keys))


def test_aims_are_judged(lines):
    # Ratios to CUDA cannot be judged here; all else can.
    open_ones = [x for x in lines if "reach" in x and "met" not in x and x["reach_of"] != "cuda"]
    assert not open_ones
    assert all("speed_to_cpu" in x for x in lines if "cpu" not in x.get("errors", {}))


def test_markdown_and_json(lines):
    again = [json.loads(json.dumps(x)) for x in lines]
    text = gpu_report.markdown(again)
    assert text.count("\n| sdpa_forward |") == sum(x["case"] == "sdpa_forward" for x in lines)
    assert "aims hold" in text


def test_the_child_answers_for_cases_with_autograd():
    # As for CUDA, with the CPU in its place: the backend must not be needed there.
    child = gpu_rival.Child(TINY)
    cases = [c for c in gpu_cases.norms(TINY) if c.name in ("layer_norm_backward", "cross_entropy_backward")]
    assert cases and all(c.autograd for c in cases)
    for case in cases:
        remote = gpu_rival.Remote(child, case, "cpu")
        remote.sample()
        assert remote.result(case)["gbytes_per_s"] > 0
    with pytest.raises(RuntimeError):
        child.ask("make", "nowhere", cases[0].group, cases[0].key)
    child.forget()
    child.close()


def test_training_step_of_the_model():
    step = gpu_cases.model(TINY)[0].make("aule")
    first = step().item()
    assert step().item() < first


def test_the_real_sizes_name_their_twins():
    cases = [case for make in gpu_cases.GROUPS.values() for case in make(gpu_cases.Sizes())]
    seen = set()
    cases.sort(key=lambda case: not case.main)  # as they run
    for case in cases:
        if case.reach is not None and case.reach.of == "twin":
            assert case.reach.twin in seen, case.key
        assert case.key not in seen
        seen.add(case.key)
    assert len(cases) < 200
