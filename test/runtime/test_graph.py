"""Graph capture and replay through torch.accelerator.Graph."""

import os

import pytest
import torch

from helpers import assert_close

pytestmark = pytest.mark.validated


def test_capture_and_replay(device):
    x = torch.zeros(1000, device=device)
    stream = torch.Stream(device=device)
    graph = torch.aule.Graph()  # torch.accelerator's, from torch 2.12 on
    with stream, graph:
        assert torch.aule.is_current_stream_capturing()
        x += 1
        y = x * 2
    assert not torch.aule.is_current_stream_capturing()
    torch.aule.synchronize()
    assert x.cpu().unique().tolist() == [0.0], "capture must not run the work"
    for _ in range(3):
        graph.replay()
    torch.aule.synchronize()
    assert x.cpu().unique().tolist() == [3.0] and y.cpu().unique().tolist() == [6.0]


def test_helper_context(device):
    x = torch.ones(10, device=device)
    graph = torch.aule.Graph()
    with torch.aule.graph(graph):
        y = x + 1
    assert torch.aule.current_stream().stream_id == 0
    x.fill_(41)
    torch.aule.synchronize()
    graph.replay()
    torch.aule.synchronize()
    assert y.cpu().unique().tolist() == [42.0]


def test_new_inputs_between_replays(device):
    w = torch.randn(8, 8, device=device)
    x = torch.zeros(4, 8, device=device)
    graph = torch.aule.Graph()
    with torch.aule.graph(graph):
        y = (x @ w).relu().sum(1)
    for _ in range(3):
        new = torch.randn(4, 8)
        x.copy_(new)
        torch.aule.synchronize()
        graph.replay()
        torch.aule.synchronize()
        assert_close(y, (new @ w.cpu()).relu().sum(1), rtol=1e-4, atol=1e-5)


def test_captured_memory_is_kept(device):
    graph = torch.aule.Graph()
    x = torch.full((1 << 16,), 2.0, device=device)
    with torch.aule.graph(graph):
        y = (x * 3).sqrt()
    others = [torch.full((1 << 16,), float(i), device=device) for i in range(8)]
    graph.replay()
    torch.aule.synchronize()
    assert_close(y[:4], torch.full((4,), 6.0).sqrt())
    for i, t in enumerate(others):
        assert t.cpu().unique().tolist() == [float(i)], "a replay wrote into another tensor's memory"


def test_random_numbers_differ_between_replays(device):
    graph = torch.aule.Graph()
    with torch.aule.graph(graph):
        y = torch.rand(64, device=device)
    drawn = []
    for _ in range(3):
        graph.replay()
        torch.aule.synchronize()
        drawn.append(y.cpu())
    assert not torch.equal(drawn[0], drawn[1]) and not torch.equal(drawn[1], drawn[2])
    assert all(0 <= d.min() and d.max() < 1 for d in drawn)


def test_reading_a_value_while_capturing_is_an_error(device):
    graph = torch.aule.Graph()
    x = torch.ones(3, device=device)
    with pytest.raises(RuntimeError):
        with torch.aule.graph(graph):
            (x + 1).sum().item()
    assert (x + 1).sum().item() == 6


def test_reset_and_capture_again(device):
    x = torch.zeros(3, device=device)
    graph = torch.aule.Graph()
    with torch.aule.graph(graph):
        x += 1
    graph.reset()
    with torch.aule.graph(graph):
        x += 10
    graph.replay()
    torch.aule.synchronize()
    assert x.tolist() == [10, 10, 10]


def test_kernels_that_have_run_are_not_guessed(device, tmp_path):
    """A capture is on a stream of its own. With guesses for its kernels it was cut into many submissions."""
    if "timestamps" in os.environ.get("TORCH_AULE_DISABLE", ""):
        pytest.skip("without timestamps every kernel is guessed")
    x = torch.zeros(3 << 20, device=device)  # enough workgroups for a guess beyond the time budget
    for _ in range(4):  # the first run may have a compilation in it
        x.add_(1)
        torch.aule.synchronize()
    graph, file = torch.aule.Graph(), tmp_path / "graph.txt"
    with torch.aule.graph(graph):
        x.add_(1)
    graph.enable_debug_mode()
    graph.debug_dump(str(file))
    text = file.read_text()
    assert text.startswith("aule graph of 1 commands, 0 of them copies and fills, 0 barriers, 1 submissions"), text
    graph.replay()
    assert x.unique().tolist() == [5.0]
