"""What is sharded over ranks: FSDP2, tensor parallelism, pipeline stages, checkpoints."""

import re

import pytest
import torch

from ranks import check_ranks


def test_fully_shard():
    """Three ranks: their shards are padded."""
    check_ranks("distributed_fully_shard", 3, timeout=90)


def test_tensor_parallel():
    check_ranks("distributed_tensor", 2, timeout=90)


def test_pipeline():
    check_ranks("distributed_pipeline", 3)


@pytest.mark.parametrize(
    "saving, how, loading", [(2, "save", 1), (1, "save asynchronously", 3), (2, "save asynchronously", 2)]
)
def test_checkpoint(tmp_path, saving, how, loading):
    """Training goes on with the same losses."""
    if how == "save" and torch.cuda.is_available():
        pytest.skip("beside CUDA PyTorch's file writer moves only CUDA's tensors to the host")
    saved = check_ranks("distributed_checkpoint", saving, str(tmp_path), how)
    loaded = check_ranks("distributed_checkpoint", loading, str(tmp_path), "load")
    # Triton, which comes with CUDA's torch, may tell of leaks at the end of a process.
    printed = [re.findall(r"^[-+.e\d ]*\d$", text, re.MULTILINE)[-1] for text in saved + loaded]
    losses = [[float(word) for word in line.split()] for line in printed]
    assert len(losses[0]) == 3
    for others in losses[1:]:
        assert others == pytest.approx(losses[0], rel=1e-5)
