"""Tests for tools/test_bounds.py: one comes nearer to its bound at each run, and then fails; one does not."""

import torch

runs = [0, 0]


def test_more():
    runs[0] += 1
    assert 0.1 * runs[0] < 0.35


def test_close():
    runs[1] += 1
    torch.testing.assert_close(torch.ones(2), torch.ones(2) + 0.01 * runs[1], rtol=0, atol=0.05)
