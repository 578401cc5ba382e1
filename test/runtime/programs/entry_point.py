"""Importing this makes torch_aule an entry point of torch.backends, as in an environment where it is installed."""

import importlib.metadata

_real = importlib.metadata.entry_points
_point = importlib.metadata.EntryPoint("torch_aule", "torch_aule:_autoload", "torch.backends")
importlib.metadata.entry_points = lambda **kw: [_point] if kw.get("group") == "torch.backends" else _real(**kw)
