"""A prompt with its options and its answer, and a copy of the keys and values of one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

__all__ = ["OPTIONS", "PENALTIES", "Request", "Snapshot"]

# The options of a sequence, each a row of a tensor on the device: the value that has no effect.
OPTIONS = {
    "temperature": 0.0,
    "top_k": 0,
    "top_p": 1.0,
    "min_p": 0.0,
    "repetition_penalty": 1.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
}
PENALTIES = ("repetition_penalty", "presence_penalty", "frequency_penalty")


@dataclass(eq=False)
class Request:
    """A prompt and the tokens that follow it.

    Parameters
    ----------
    prompt : list of int
        Tokens.
    max_new_tokens : int, default 128
        When it ends at the latest.
    stop_tokens : sequence of int, default ()
        Tokens with which it ends; they belong to the answer.
    temperature : float, default 0.0
        0 takes the likeliest token.
    top_k : int, default 0
        Draw among this number of likeliest tokens; 0: all.
    top_p : float, default 1.0
        Draw among the likeliest tokens whose probabilities reach this sum.
    min_p : float, default 0.0
        Draw among tokens of at least this times the largest probability.
    repetition_penalty : float, default 1.0
        Divides positive logits, and multiplies negative ones, of tokens of the prompt and of the answer.
    presence_penalty, frequency_penalty : float, default 0.0
        Subtracted from the logits of tokens that stand in the answer: once, and for each time. With a
        `repetition_penalty` the prompt's tokens count too.

    Attributes
    ----------
    tokens : list of int
        The answer so far.
    finished : str or None
        Why it ended: "stop", "length" or "cancelled"; None while it runs.
    """

    prompt: list[int]
    max_new_tokens: int = 128
    stop_tokens: Sequence[int] = ()
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    tokens: list[int] = field(default_factory=list, init=False)
    finished: str | None = field(default=None, init=False)

    def __post_init__(self):
        self.slot: int | None = None
        self.pages: list[int] = []
        self.shared = 0  # tokens of the prompt that were in the cache already
        self.stop_tokens = frozenset(self.stop_tokens)
        checks = [
            ("prompt", len(self.prompt) > 0, "of at least one token"),
            ("max_new_tokens", self.max_new_tokens >= 1, "of at least 1"),
            ("temperature", self.temperature >= 0, "of at least 0"),
            ("top_k", self.top_k >= 0, "of at least 0"),
            ("top_p", 0 <= self.top_p <= 1, "between 0 and 1"),
            ("min_p", 0 <= self.min_p <= 1, "between 0 and 1"),
            ("repetition_penalty", self.repetition_penalty > 0, "above 0"),
        ]
        for name, valid, expected in checks:
            if not valid:
                raise ValueError(f"Request: expected {name} {expected}, but got {getattr(self, name)}")

    @property
    def is_greedy(self) -> bool:
        """Whether it takes the likeliest token of the logits as they are."""
        return self.temperature == 0 and not self.has_penalties

    @property
    def has_penalties(self) -> bool:
        """Whether earlier tokens change the logits."""
        return any(getattr(self, name) != OPTIONS[name] for name in PENALTIES)


@dataclass
class Snapshot:
    """Keys and values of a sequence, from :meth:`Runner.snapshot_kv_cache`.

    Parameters
    ----------
    tokens : list of int
        Whose keys and values these are: those of full pages.
    layers : list of tuple of torch.Tensor
        Keys and values of each layer, ``[pages, page_size, kv_heads, head_dim]``, and of those in 8 bits the scales.
    """

    tokens: list[int]
    layers: list[tuple[torch.Tensor, ...]]
