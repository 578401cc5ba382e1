"""SIGINT is for the main thread: a wait of another thread goes on."""

import os
import signal
import threading
import time

import torch

import torch_aule  # noqa: F401

x = torch.randn(512, 512, device="aule") / 512**0.5
torch.aule.synchronize()
results = []


def work():
    y = x
    for _ in range(40):
        y = y @ x
    results.append(y.sum().item())


thread = threading.Thread(target=work)
threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
try:
    thread.start()
    while True:
        time.sleep(0.01)
except KeyboardInterrupt:
    pass
thread.join()
assert len(results) == 1 and results[0] == results[0]
print("good")
