"""What is run from the command line: environment report, shader compilation; and other names."""

import re
import subprocess
import sys
from pathlib import Path

import torch

import torch_aule
from torch_aule import _C
from torch_aule.compat import build_shaders

ROOT = Path(__file__).resolve().parents[2]


def test_collect_env_has_both_reports(device):
    done = subprocess.run([sys.executable, "-m", "torch_aule.collect_env"], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert "PyTorch version" in done.stdout and torch.__version__ in done.stdout
    assert torch.aule.get_device_name(0) in done.stdout
    assert done.stdout.index("PyTorch version") < done.stdout.index(torch.aule.get_device_name(0))


def test_build_shaders_compiles_elsewhere(tmp_path):
    assert build_shaders.main(["--help"]) == 0


def test_other_names_of_operators(device):
    q, cache = torch.randn(2, 1, 4, 16, device=device), torch.randn(2, 32, 2, 16, device=device)
    by_name = torch.ops.aule.flash_attn_decode(q, cache, cache)[0]
    assert torch.equal(torch.ops.aule.sdpa_decode(q, cache, cache)[0].cpu(), by_name.cpu())
    x = torch.randn(2, 5, 3, 8, device=device, requires_grad=True)
    angles = torch.rand(5, 4, device=device)
    results = []
    for op in (torch.ops.aule.rotary_embedding, torch.ops.aule.rope):
        x.grad = None
        y = op(x, angles.cos(), angles.sin())
        y.square().sum().backward()
        results.append((y.detach().cpu(), x.grad.cpu()))
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))
    schemas = [torch.ops.aule.paged_attn.default._schema, torch.ops.aule.paged_attention.default._schema]
    assert len({str(schema).split("(", 1)[1] for schema in schemas}) == 1


def test_statistics_of_chips_know_the_kernels_on_matrix_units(monkeypatch):
    """Their subgroups are compared with the plan's: each kernel with such matrices, but the probe, and no other."""
    monkeypatch.syspath_prepend(str(ROOT / "tools" / "chips"))
    import chip_statistics

    variants = [name for name, *_ in _C.registered_kernels()]
    for pattern in chip_statistics.ON_MATRICES:
        assert any(re.match(pattern, name) for name in variants), f"{pattern} is no kernel's name"
    found = {name.split("<")[0] for name in variants if chip_statistics.is_on_matrices(name)}
    with_matrices = {
        path.stem for path in (ROOT / "shaders").glob("*/*.comp") if "feature cooperative_matrix" in path.read_text()
    }
    assert found == with_matrices - {"coopmat_layout"}


def test_metadata_of_a_wheel_names_its_torch(tmp_path):
    """An extension belongs to one minor of torch: the version says so, and pip then keeps no other."""
    command = [sys.executable, "setup.py", "-q", "dist_info", "--output-dir", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    (metadata,) = tmp_path.glob("*.dist-info/METADATA")
    minor = ".".join(torch.__version__.split(".")[:2])
    lines = metadata.read_text().splitlines()
    assert f"Version: {torch_aule.__version__}+torch{minor}" in lines
    assert f"Requires-Dist: torch=={minor}.*" in lines


def test_seeded_faults_apply_and_name_tests():
    """Without a build; .github/workflows/nightly.yml runs the tests that each fault names."""
    command = [sys.executable, "tools/seeded_faults.py", "--check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    number = len(list((ROOT / "test/faults").glob("*.patch")))
    assert number >= 25 and done.stdout.startswith(f"{number} faults")


def test_stale_faults_are_found(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    import seeded_faults

    (path,) = (ROOT / "test/faults").glob("scan_carry_lost.patch")
    text = path.read_text()
    stale = tmp_path / "stale.patch"
    for good, bad, word in (
        ("PASS == 3", "PASS == 4", "patch"),
        ("-k test_", "-k test_no_", "no test_no_"),
        ("test/reduce/test_reduce_scan.py", "test/test_nowhere.py", "no file"),
        ("Caught-by:", "Caught:", "names no test"),
    ):
        stale.write_text(text)
        assert not seeded_faults.wrong_with(seeded_faults.read_fault(stale))
        stale.write_text(text.replace(good, bad))
        wrong = " ".join(seeded_faults.wrong_with(seeded_faults.read_fault(stale)))
        assert word in wrong, (bad, wrong)
