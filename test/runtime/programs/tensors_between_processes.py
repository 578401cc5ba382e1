"""Sends tensors of the device through queues, and from the workers of a DataLoader, with the start method given."""

import sys
import traceback

import torch
import torch.multiprocessing as mp
from torch.utils.data import DataLoader, Dataset

import torch_aule  # noqa: F401

TENSORS = {
    "plain": lambda: torch.arange(6.0).reshape(2, 3),
    "transposed": lambda: torch.arange(6).reshape(2, 3).t(),
    "stepped": lambda: torch.arange(10, dtype=torch.float16)[1::3],
    "empty": lambda: torch.empty(0, 4),
    "scalar": lambda: torch.tensor(True),
    "conjugate": lambda: torch.tensor([1 + 2j, 3 - 1j]).conj(),
    "leaf": lambda: torch.ones(3).requires_grad_(),
    "parameter": lambda: torch.nn.Parameter(torch.ones(2, 2), requires_grad=False),
}


class OnDevice(Dataset):
    def __len__(self):
        return 6

    def __getitem__(self, i):
        return {"x": torch.full((3,), float(i), device="aule"), "i": i}


def send(queue, back):
    for name, make in TENSORS.items():
        t = make()
        on_device = t.to("aule").detach().requires_grad_(t.requires_grad)
        queue.put((name, torch.nn.Parameter(on_device, t.requires_grad) if name == "parameter" else on_device))
    x = torch.ones(2, device="aule", requires_grad=True)
    queue.put(("graph", x * 2))
    queue.put(("storage", torch.arange(4, dtype=torch.int32, device="aule").untyped_storage()))
    back.get()


def queues(context):
    queue, back = context.Queue(), context.Queue()
    child = context.Process(target=send, args=(queue, back))
    child.start()
    for name, make in TENSORS.items():
        got_name, got = queue.get(timeout=100)
        expected = make()
        assert got_name == name and got.device.type == "aule", (got_name, got.device)
        assert type(got) is type(expected) and got.requires_grad == expected.requires_grad, name
        torch.testing.assert_close(got.detach().cpu(), expected.detach().resolve_conj(), rtol=0, atol=0)
    try:
        queue.get(timeout=100)
        raise AssertionError("a tensor with a graph was sent")
    except RuntimeError as error:
        assert "no leaf" in str(error), error
    name, storage = queue.get(timeout=100)
    whole = torch.empty(0, dtype=torch.int32, device="aule").set_(storage)
    assert whole.tolist() == [0, 1, 2, 3]
    back.put(None)
    child.join(60)
    assert child.exitcode == 0


def loader(context):
    loader = DataLoader(OnDevice(), batch_size=2, num_workers=2, multiprocessing_context=context, timeout=100)
    seen = []
    for batch in loader:
        assert batch["x"].device.type == "aule" and batch["x"].shape == (2, 3)
        seen += batch["x"][:, 0].tolist()
    assert seen == [0, 1, 2, 3, 4, 5], seen


class OfParent(Dataset):
    def __init__(self):
        self.x = torch.ones(3, device="aule")

    def __len__(self):
        return 1

    def __getitem__(self, i):
        return self.x if i == 0 else self.x + 1


def put_parents(queue, x):
    queue.put(x)


def forked(context):
    """A child of a fork cannot use what its parent had on the device, and the parent is told."""
    x = torch.ones(3, device="aule")
    x.sum().item()
    queue = context.Queue()
    child = context.Process(target=put_parents, args=(queue, x))
    child.start()
    errors = []
    try:
        queue.get(timeout=100)
    except RuntimeError as error:
        errors.append(str(error))
    child.join(60)
    loader = DataLoader(OfParent(), num_workers=1, multiprocessing_context=context, timeout=100, collate_fn=lambda b: b)
    try:
        list(loader)
    except RuntimeError:
        errors.append(traceback.format_exc())
    assert len(errors) == 2 and all("fork" in text for text in errors), errors


if __name__ == "__main__":
    method = sys.argv[1]
    for check in (forked,) if method == "fork" else (queues, loader):
        check(mp.get_context(method))
    print("good")
