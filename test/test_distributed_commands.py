"""Distributed training as it is typed in a shell."""

import re

import pytest
import torch

from helpers import run_interpreter

TORCHRUN = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]


def run(*command):
    done = run_interpreter(*command, timeout=150, TORCH_AULE_VISIBLE_DEVICES="0,0", OMP_NUM_THREADS="1")
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_torchrun(tmp_path):
    """Two processes with half of each batch have one process's losses."""
    example = ["-m", "torch_aule.examples.gpt", "--dropout", "0", "--steps", "20", "--sample", "1", "--seconds", "1e6"]
    example += ["--layers", "2", "--width", "32", "--context", "32"]
    losses = []
    for name, launcher in (("one", []), ("two", TORCHRUN)):
        text = run(*launcher, *example, "--out", str(tmp_path / name))
        assert len(re.findall("^loss ", text, re.MULTILINE)) == 1, "one process tells"
        losses.append(torch.load(tmp_path / name / "model.pt")["losses"])
    assert len(losses[0]) == 20 and losses[0][-1] < losses[0][0]
    assert losses[1] == pytest.approx(losses[0], rel=1e-5)
