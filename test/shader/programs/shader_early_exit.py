"""Ends with work in the background: how much of it began and how much came to its end."""

import atexit
import time

import torch_aule  # noqa: F401
from torch_aule.shader import generated

started, ended = [], []


def work():
    started.append(1)
    time.sleep(0.5)
    ended.append(1)
    raise ValueError


for _ in range(100):
    generated._in_background(work, 0)
atexit.register(lambda: print(len(started), len(ended)))
