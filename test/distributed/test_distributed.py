"""Process groups over aule: every collective, groups beside each other, the order of streams."""

import sys

import pytest
import torch

from helpers import check_program, check_python, without
from ranks import check_ranks


@pytest.mark.parametrize("ranks, backend", [(2, "aule"), (3, "cpu:gloo,aule:aule")])
def test_collectives(ranks, backend):
    check_ranks("distributed_collectives", ranks, backend)


@pytest.mark.parametrize("off", [[], ["shm"]], ids=["shared", "gloo"])
def test_complex_numbers_and_refusals(off):
    check_ranks("distributed_collectives", 2, "aule", "complex", **without(*off))


def test_groups():
    """With no backend named."""
    check_ranks("distributed_groups", 3)


def test_data_parallel():
    check_ranks("distributed_data_parallel", 2)


@pytest.mark.parametrize("ranks", [2, 3])
def test_sync_batch_norm(ranks):
    check_ranks("distributed_sync_batch_norm", ranks)


@pytest.mark.skipif(torch.cuda.is_available(), reason="beside CUDA accelerate chooses it, and the hooks stay off")
def test_accelerate():
    check_ranks("distributed_accelerate", 2)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_many_groups():
    check_ranks("distributed_many_groups", 2)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_many_calls():
    check_ranks("distributed_many_calls", 2)


def test_without_torch_distributed():
    """The package imports where PyTorch has none, and says what is missing where it has no gloo."""
    check_python(
        "import torch.distributed as dist; dist.is_available = lambda: False\n"
        "import torch_aule.distributed as ours\n"
        "assert not ours.is_available() and 'aule' not in dist.Backend.backend_list"
    )
    check_python(
        "import torch.distributed as dist; dist.is_gloo_available = lambda: False\n"
        "import torch_aule\n"
        "try: dist.init_process_group('aule', store=dist.HashStore(), rank=0, world_size=1)\n"
        "except RuntimeError as error: assert 'without gloo' in str(error), error\n"
        "else: raise AssertionError('no error')"
    )


def test_threads_of_the_host_hold_no_python_objects():
    check_program("distributed_host_tensors")


def test_registered():
    assert torch.distributed.get_default_backend_for_device("aule") == "aule"
    assert torch.distributed.get_default_backend_for_device("cpu") == "gloo"
