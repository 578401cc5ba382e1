"""Distributed training as it is typed in a shell."""

import re
import time

import pytest
import torch

from helpers import program, run_interpreter
from ranks import visible_devices

TORCHRUN = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
ACCELERATE = ["-m", "accelerate.commands.accelerate_cli"]


def run(*command, **env):
    done = run_interpreter(*command, TORCH_AULE_VISIBLE_DEVICES=visible_devices(2), OMP_NUM_THREADS="1", **env)
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


@pytest.fixture
def installed(tmp_path):
    """The environment of a shell in which torch_aule is installed, so that launchers have it, too."""
    pytest.importorskip("accelerate")
    if torch.cuda.is_available():
        pytest.skip("beside CUDA accelerate chooses it, and the hooks stay off")
    metadata = tmp_path / "site" / "torch_aule-0.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: torch_aule\nVersion: 0.0\n")
    (metadata / "entry_points.txt").write_text("[torch.backends]\ntorch_aule = torch_aule:_autoload\n")
    return {
        "PYTHONPATH": str(tmp_path / "site"),
        "HF_HOME": str(tmp_path / "home"),  # where accelerate looks for its configuration
        "HF_HUB_OFFLINE": "1",
        "TORCH_AULE_AUTOLOAD": "1",  # a device on the processor, too
        "TORCH_DEVICE_BACKEND_AUTOLOAD": None,
        "ACCELERATE_TORCH_DEVICE": None,
    }


def test_accelerate_launch(tmp_path, installed):
    """Without a configuration: as many processes as were asked for, and one process's losses."""
    script = program("launched_accelerate")
    run(script, "1", str(tmp_path / "one.pt"), **installed)
    launch = [*ACCELERATE, "launch", "--num_processes", "2", "--main_process_port", "0"]
    run(*launch, script, "2", str(tmp_path / "two.pt"), **installed)
    one, two = (torch.load(tmp_path / name) for name in ("one.pt", "two.pt"))
    assert len(one) == 13 and one[-1] < one[0]
    assert two == pytest.approx(one, rel=1e-5)


@pytest.mark.sampled(0)
def test_trainer(tmp_path, installed):
    """By torchrun, and by accelerate with a configuration."""
    pytest.importorskip("transformers")
    script = program("launched_trainer")
    config = tmp_path / "two.yaml"
    config.write_text("distributed_type: MULTI_GPU\nnum_processes: 2\nmain_process_port: 0\n")
    accelerate = [*ACCELERATE, "launch", "--config_file", str(config)]
    commands = {"one": (), "torchrun": TORCHRUN, "accelerate": accelerate}
    for name, launcher in commands.items():
        run(*launcher, script, "1" if name == "one" else "2", str(tmp_path / name), **installed)
    one, *others = (torch.load(tmp_path / name / "losses.pt") for name in commands)
    assert len(one) == 12
    for losses in others:
        assert losses == pytest.approx(one, rel=1e-5)


def test_a_rank_raises():
    """The command fails, says where, and does not wait for the ranks that are well."""
    begin = time.monotonic()
    done = run_interpreter(*TORCHRUN, program("launched_fault"), "1", TORCH_AULE_VISIBLE_DEVICES=visible_devices(2))
    assert done.returncode == 1, done
    assert "no luck on rank 1" in done.stderr and "ChildFailedError" in done.stderr and "rank      : 1" in done.stderr
    assert time.monotonic() - begin < 300  # the timeout of the group is half an hour
