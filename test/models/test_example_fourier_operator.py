"""Examples that are no demo of their own: they learn, strict, as on the CPU."""

import re

import pytest

from helpers import run_interpreter

SMALL = ["--steps", "12", "--log-every", "1", "--functions", "32", "--batch", "8", "--points", "48", "--width", "8"]


def test_fourier_operator():
    """The errors of twelve steps are the CPU's; the finer grid gives what the coarse one does."""
    errors = {}
    for device in ("cpu", "aule"):
        command = ["-m", "torch_aule.examples.fourier_operator", "--device", device, "--modes", "6", *SMALL]
        done = run_interpreter(*command, OMP_NUM_THREADS="1", TORCH_AULE_STRICT="1")
        assert done.returncode == 0, done.stdout + done.stderr
        errors[device] = [float(x) for x in re.findall(r"step \d+: relative error ([\d.]+)", done.stdout)]
        coarse, fine = re.search(r"error ([\d.]+) at \d+ points, ([\d.]+) at", done.stdout).groups()
        assert float(fine) == pytest.approx(float(coarse), rel=0.05)
    assert len(errors["aule"]) == 12 and errors["aule"][-1] < errors["aule"][0]
    assert errors["aule"] == pytest.approx(errors["cpu"], abs=2e-4)  # four digits are printed
