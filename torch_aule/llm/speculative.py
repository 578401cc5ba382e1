"""Sources of guesses at the next tokens. The runner checks them all in one pass of the model.

A guess that is right saves a pass; a wrong one costs little, because a pass of a few tokens reads the weights once. The
tokens are those of a run without guesses: a token is drawn from the model's logits at each place, greedy or sampled,
and a guess is only kept where it is the token that was drawn.

A strategy works on the device, within the step that is recorded: it may not wait for the device.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from torch_aule.llm.cache import Rows, UnsupportedModelError

if TYPE_CHECKING:
    from torch_aule.llm.engine import Engine
    from torch_aule.llm.runner import Runner
    from torch_aule.llm.slots import Slots

__all__ = ["DraftModel", "Jacobi", "PromptLookup", "SelfSpeculative", "Strategy"]


class Strategy:
    """No guesses: one token for each pass.

    Parameters
    ----------
    guesses : int
        Tokens that are guessed for each pass.

    Raises
    ------
    ValueError
        For numbers outside 0 to 15.
    """

    def __init__(self, guesses: int = 0):
        if not 0 <= guesses <= 15:
            raise ValueError(f"{type(self).__name__}: expected 0 to 15 guesses, but got {guesses}")
        self.guesses = guesses

    def prepare(self, runner: Runner) -> None:
        """Make what the strategy keeps on the device.

        Parameters
        ----------
        runner : Runner
            To which the strategy belongs from now on.
        """

    def rows(self) -> list[torch.Tensor]:
        """Tensors with a row for each slot, which move when a sequence moves to another slot."""
        return []

    def begin(self, slot: int, prompt: list[int], shared: int) -> None:
        """A sequence has got a slot, and the model has read its prompt.

        Parameters
        ----------
        slot : int
            Of the sequence.
        prompt : list of int
            Its tokens.
        shared : int
            How many of them were in the cache already.
        """

    def guess(self, batch: int) -> torch.Tensor | None:
        """Guesses for the first slots.

        Parameters
        ----------
        batch : int
            How many slots.

        Returns
        -------
        torch.Tensor or None
            int64 ``[batch, guesses]`` on the device.
        """
        return None

    def learn(self, batch: int, drawn: torch.Tensor, kept: torch.Tensor) -> None:
        """See what the model has drawn. Lengths and last tokens of the slots are those after the step.

        Parameters
        ----------
        batch : int
            How many slots.
        drawn : torch.Tensor
            int64 ``[batch, guesses + 1]``.
        kept : torch.Tensor
            int64 ``[batch]``: how many of these are the sequence's next tokens, 1 at least.
        """


class PromptLookup(Strategy):
    """Guesses that what followed the last few tokens earlier in the text follows again.

    Good for answers that quote their prompts: summaries, changes to code.

    Parameters
    ----------
    guesses : int, default 7
        Tokens that are guessed for each pass.
    ngram : int, default 2
        How many last tokens must have stood there before.

    Raises
    ------
    ValueError
        For numbers that are too small or too large.

    References
    ----------
    A. Saxena, "Prompt Lookup Decoding", 2023.
    """

    def __init__(self, guesses: int = 7, ngram: int = 2):
        super().__init__(guesses)
        if ngram < 1 or guesses < 1:
            raise ValueError(f"PromptLookup: expected an ngram and guesses of 1 or more, but got {ngram} and {guesses}")
        self.ngram = ngram

    def prepare(self, runner: Runner) -> None:
        """A table of the texts. See :meth:`Strategy.prepare`."""
        self.runner = runner
        self.width = runner.max_len + self.guesses + self.ngram + 1
        self.history = torch.zeros((runner.max_batch, self.width), dtype=torch.int64, device=runner.device)
        self.places = torch.arange(self.width, device=runner.device)

    def rows(self) -> list[torch.Tensor]:
        """The texts. See :meth:`Strategy.rows`."""
        return [self.history]

    def begin(self, slot: int, prompt: list[int], shared: int) -> None:
        """Copies the prompt. See :meth:`Strategy.begin`."""
        self.history[slot, : len(prompt)] = torch.tensor(prompt)

    def guess(self, batch: int) -> torch.Tensor:
        """The tokens after the last place where the n-gram stands. See :meth:`Strategy.guess`."""
        n, history = self.ngram, self.history[:batch]
        last = self.runner.slots.lengths[:batch].long()[:, None]  # the place of the last token: behind what is cached
        history.scatter_(1, last, self.runner.slots.tokens[:batch, None])
        tail = history.gather(1, (last - n + 1 + self.places[:n]).clamp_(min=0))
        same = (history.unfold(1, n, 1) == tail[:, None, :]).all(2)
        starts = self.places[: same.size(1)]
        found = (same & (starts + n <= last)).long() * (starts + 1)  # one more than the place, 0: none
        start = found.amax(1, keepdim=True) - 1 + n
        return history.gather(1, start.clamp_(max=self.width - self.guesses) + self.places[: self.guesses])

    def learn(self, batch: int, drawn: torch.Tensor, kept: torch.Tensor) -> None:
        """Writes what was drawn; what is behind the kept tokens is overwritten next time."""
        first = (self.runner.slots.lengths[:batch] - kept + 1)[:, None]
        self.history[:batch].scatter_(1, first + self.places[: self.guesses + 1], drawn)


class Jacobi(Strategy):
    """Guesses what the last pass drew at the places after a wrong guess.

    Each pass is a step of Jacobi's iteration towards the tokens at which every place agrees with those before it.

    Parameters
    ----------
    guesses : int, default 4
        Tokens that are guessed for each pass.

    References
    ----------
    A. Santilli et al., "Accelerating Transformer Inference for Translation via Parallel Decoding", 2023,
    arXiv:2305.10427.
    """

    def __init__(self, guesses: int = 4):
        super().__init__(guesses)

    def prepare(self, runner: Runner) -> None:
        """A table of guesses. See :meth:`Strategy.prepare`."""
        self.guessed = torch.zeros((runner.max_batch, self.guesses), dtype=torch.int64, device=runner.device)
        self.places = torch.arange(self.guesses, device=runner.device)

    def rows(self) -> list[torch.Tensor]:
        """The guesses. See :meth:`Strategy.rows`."""
        return [self.guessed]

    def begin(self, slot: int, prompt: list[int], shared: int) -> None:
        """The first guess repeats the last token. See :meth:`Strategy.begin`."""
        self.guessed[slot].fill_(prompt[-1])

    def guess(self, batch: int) -> torch.Tensor:
        """A guess from the state that :meth:`learn` kept. See :meth:`Strategy.guess`."""
        return self.guessed[:batch]

    def learn(self, batch: int, drawn: torch.Tensor, kept: torch.Tensor) -> None:
        """Keeps what was drawn behind the kept tokens, the last one repeated. See :meth:`Strategy.learn`."""
        places = (kept[:, None] + self.places).clamp_(max=self.guesses)
        self.guessed[:batch].copy_(drawn.gather(1, places))


def _likeliest(engine: Engine, slots: Slots, batch: int, count: int) -> torch.Tensor:
    """The next tokens of the first slots, greedily, one pass for each: int64 [batch, count]."""
    token, found = slots.tokens[:batch], []
    for i in range(count):
        rows = Rows(slots.lengths[:batch] + i, slots.table[:batch], 1)
        token = engine.forward(token[:, None], rows, batch)[:, -1].argmax(-1)
        found.append(token)
    return torch.stack(found, 1)


class DraftModel(Strategy):
    """Guesses with a smaller model of the same vocabulary, greedily.

    Parameters
    ----------
    model : transformers.PreTrainedModel
        The smaller model, on the same device. Its layers must be attention.
    guesses : int, default 4
        Tokens that are guessed for each pass.

    Raises
    ------
    UnsupportedModelError
        For another vocabulary, or layers with recurrent states, which cannot be taken back.

    References
    ----------
    Y. Leviathan, M. Kalman, Y. Matias, "Fast Inference from Transformers via Speculative Decoding", 2023,
    arXiv:2211.17192.
    """

    def __init__(self, model, guesses: int = 4):
        super().__init__(guesses)
        self.model = model

    def prepare(self, runner: Runner) -> None:
        """Caches of the small model's layers, whose pages are those of the large one's."""
        own, other = self.model.config.get_text_config().vocab_size, runner.model.config.get_text_config().vocab_size
        if own != other:
            raise UnsupportedModelError(f"DraftModel: expected a vocabulary of {other} tokens, but got one of {own}")
        self.runner = runner
        self.engine = runner.another_engine(self.model)

    def begin(self, slot: int, prompt: list[int], shared: int) -> None:
        """Reads the prompt too. See :meth:`Strategy.begin`."""
        self.engine.read(self.runner.slots.table, slot, prompt, shared)

    def guess(self, batch: int) -> torch.Tensor:
        """A loop of the small model, whose last pass only fills its cache. See :meth:`Strategy.guess`."""
        return _likeliest(self.engine, self.runner.slots, batch, self.guesses + 1)[:, :-1]


class SelfSpeculative(Strategy):
    """Guesses with the first layers of the model itself, followed by its last norm and product.

    Parameters
    ----------
    layers : int, optional
        How many layers; half of them by default.
    guesses : int, default 4
        Tokens that are guessed for each pass.

    Raises
    ------
    ValueError
        For more layers than there are.
    UnsupportedModelError
        For models whose layers are not in a list named "layers".

    References
    ----------
    J. Zhang et al., "Draft & Verify: Lossless Large Language Model Acceleration via Self-Speculative Decoding", 2023,
    arXiv:2309.08168.
    """

    def __init__(self, layers: int | None = None, guesses: int = 4):
        super().__init__(guesses)
        self.layers = layers

    def prepare(self, runner: Runner) -> None:
        """Finds the layers. See :meth:`Strategy.prepare`."""
        self.runner = runner
        self.base = runner.model.base_model
        every = getattr(self.base, "layers", None)
        if not isinstance(every, torch.nn.ModuleList):
            raise UnsupportedModelError(f"SelfSpeculative: {type(self.base).__name__} has no list of layers")
        count = len(every) // 2 if self.layers is None else self.layers
        if not 1 <= count <= len(every):
            raise ValueError(f"SelfSpeculative: expected 1 to {len(every)} layers, but got {count}")
        self.every, self.first = every, torch.nn.ModuleList(list(every)[:count])

    def guess(self, batch: int) -> torch.Tensor:
        """A loop of the first layers, whose caches are written again when the guesses are checked."""
        self.base.layers = self.first
        try:
            return _likeliest(self.runner.engine, self.runner.slots, batch, self.guesses)
        finally:
            self.base.layers = self.every
