"""A model with its tokenizer and its runner: text in, text out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from torch_aule.llm.request import Request, Snapshot
from torch_aule.llm.runner import Runner
from torch_aule.llm.speculative import Strategy
from torch_aule.llm.text import TextPieces

__all__ = ["LanguageModel", "Prompt"]

Message = Mapping[str, str]
Prompt = str | Sequence[int] | Sequence[Message]  # text, tokens, or messages of a chat


def stop_tokens_of(model, tokenizer) -> list[int]:
    """Tokens with which an answer ends: those of the generation configuration and of the tokenizer.

    Parameters
    ----------
    model : transformers.PreTrainedModel
        Its `generation_config` has one, a list, or none.
    tokenizer : transformers.PreTrainedTokenizerBase or None
        That may have one more.

    Returns
    -------
    list of int
        Each once.
    """
    configured = getattr(getattr(model, "generation_config", None), "eos_token_id", None)
    found = list(configured) if isinstance(configured, (list, tuple)) else [configured]
    found.append(getattr(tokenizer, "eos_token_id", None))
    return sorted({int(token) for token in found if token is not None})


class LanguageModel:
    """A model, its tokenizer and a runner; :func:`torch_aule.llm.load` makes one from files.

    Parameters
    ----------
    model : transformers.PreTrainedModel
        A causal language model on the device.
    tokenizer : transformers.PreTrainedTokenizerBase, optional
        Without one prompts are tokens, and there is no text.
    max_batch : int, default 8
        How many sequences run at once.
    max_len : int, optional
        Tokens of a sequence; as :class:`Runner` has it.
    strategy : Strategy, optional
        Where guesses at next tokens come from.
    stop_tokens : sequence of int, default ()
        Further tokens with which an answer ends.
    **runner
        Further options of :class:`Runner`.

    Attributes
    ----------
    runner : Runner
        That decodes.
    stop_tokens : list of int
        Tokens with which an answer ends.
    name, type : str
        Of the model, and of most of its weights.
    elements : int
        How many weights there are.

    Raises
    ------
    UnsupportedModelError
        For an architecture that the runner does not support.
    ValueError
        For options of the runner that cannot be.
    MemoryError
        If there is no room for the cache of one sequence.

    Examples
    --------
    >>> lm = torch_aule.llm.LanguageModel(model, tokenizer, max_len=2048)
    >>> for piece in lm.stream("The sky is", max_new_tokens=20):
    ...     print(piece, end="", flush=True)
    """

    def __init__(
        self,
        model,
        tokenizer=None,
        *,
        max_batch: int = 8,
        max_len: int | None = None,
        strategy: Strategy | None = None,
        stop_tokens: Sequence[int] = (),
        **runner,
    ):
        self.model, self.tokenizer = model, tokenizer
        self.stop_tokens = sorted({*stop_tokens_of(model, tokenizer), *stop_tokens})
        self.name = type(model).__name__
        self.type = str(model.dtype).removeprefix("torch.")
        self.elements = sum({p.data_ptr(): p.numel() for p in model.parameters()}.values())
        self.runner = Runner(model, max_batch=max_batch, max_len=max_len, strategy=strategy, **runner)

    def _need_tokenizer(self, why: str):
        if self.tokenizer is None:
            raise ValueError(f"{self.name}: the model has no tokenizer, which {why} needs")
        return self.tokenizer

    @property
    def has_chat_template(self) -> bool:
        """Whether the model was made for chats."""
        return getattr(self.tokenizer, "chat_template", None) is not None

    def chat_text(self, messages: Sequence[Message]) -> str:
        """The text that a chat's messages become, up to where the answer begins.

        Parameters
        ----------
        messages : sequence of dict
            Each with "role" and "content".

        Returns
        -------
        str
            By the model's template.

        Raises
        ------
        ValueError
            For a model without a chat template, or messages that its template refuses.
        """
        tokenizer = self._need_tokenizer("a chat")
        if not self.has_chat_template:
            raise ValueError(
                f"{self.name}: the model has no chat template; it is a base model, which goes on with a text "
                "(generate) and was not made for chats"
            )
        from jinja2 import TemplateError

        try:
            return tokenizer.apply_chat_template(list(messages), tokenize=False, add_generation_prompt=True)
        except TemplateError as error:
            raise ValueError(f"{self.name}: the model's chat template refuses the messages: {error}") from None

    def encode(self, prompt: Prompt) -> list[int]:
        """Tokens of a prompt.

        Parameters
        ----------
        prompt : str, sequence of int, or sequence of dict
            Text, tokens, or messages of a chat.

        Returns
        -------
        list of int
            What the model reads.

        Raises
        ------
        ValueError
            For a text without a tokenizer, or messages that :meth:`chat_text` refuses.
        """
        if isinstance(prompt, str):
            return list(self._need_tokenizer("a text")(prompt).input_ids)
        items: list[Any] = prompt.tolist() if hasattr(prompt, "tolist") else list(prompt)
        if items and isinstance(items[0], Mapping):
            text = self.chat_text(items)  # which has the special tokens already
            return list(self.tokenizer(text, add_special_tokens=False).input_ids)
        return [int(token) for token in items]

    def add(self, prompt: Prompt, **options) -> Request:
        """Begin an answer, which goes on with each ``runner.step()``.

        Parameters
        ----------
        prompt : str, sequence of int, or sequence of dict
            Text, tokens, or messages of a chat.
        **options
            As :class:`Request` takes them; `stop_tokens` are the model's unless others are given.

        Returns
        -------
        Request
            For :meth:`pieces`.

        Raises
        ------
        ValueError
            For a prompt that is empty or too long, or options that cannot be.
        MemoryError
            For a sequence that the whole cache has no room for.
        """
        return self.runner.add(self.encode(prompt), **{"stop_tokens": self.stop_tokens, **options})

    def pieces(self, request: Request) -> Iterator[str]:
        """The text of an answer as it comes. Leaving the loop ends it.

        Parameters
        ----------
        request : Request
            From :meth:`add`.

        Yields
        ------
        str
            Whole characters: one whose bytes are several tokens comes with the last of them. The token that ends the
            answer has no text.
        """
        text, seen = TextPieces(self._need_tokenizer("text"), request.prompt[-1:]), 0
        try:
            while True:
                new = request.tokens[seen:]
                seen += len(new)
                piece = text.add([token for token in new if token not in request.stop_tokens])
                if piece:
                    yield piece
                if not new:
                    if request.finished is not None:
                        break
                    self.runner.step()
            rest = text.end()
            if rest:
                yield rest
        finally:
            self.runner.cancel(request)

    def stream(self, prompt: Prompt, **options) -> Iterator[str]:
        """The answer to a prompt, piece by piece.

        Parameters
        ----------
        prompt : str, sequence of int, or sequence of dict
            Text, tokens, or messages of a chat.
        **options
            As :class:`Request` takes them.

        Returns
        -------
        iterator of str
            From :meth:`pieces`.

        Raises
        ------
        ValueError
            As :meth:`add` does, at once.
        """
        self._need_tokenizer("text")
        return self.pieces(self.add(prompt, **options))

    def generate(self, prompt: Prompt, **options) -> str:
        """The answer to a prompt.

        Parameters
        ----------
        prompt : str, sequence of int, or sequence of dict
            Text, tokens, or messages of a chat.
        **options
            As :class:`Request` takes them: max_new_tokens, temperature, top_k, top_p, min_p, penalties.

        Returns
        -------
        str
            Without the prompt.

        Raises
        ------
        ValueError
            As :meth:`add` does.
        """
        return "".join(self.stream(prompt, **options))

    def chat(self, messages: str | Sequence[Message], **options) -> str:
        """The answer to the last message of a chat.

        Parameters
        ----------
        messages : str or sequence of dict
            Each with "role" and "content"; a text is one message of a user.
        **options
            As :class:`Request` takes them.

        Returns
        -------
        str
            The answer.

        Raises
        ------
        ValueError
            As :meth:`add` does, and for a model without a chat template.
        """
        return self.generate(
            [{"role": "user", "content": messages}] if isinstance(messages, str) else messages, **options
        )

    def snapshot_kv_cache(self, prompt: Prompt | Request) -> Snapshot:
        """A copy of a prompt's keys and values: those of its full pages.

        Parameters
        ----------
        prompt : str, sequence of int, sequence of dict, or Request
            What is read; or a request that has a slot.

        Returns
        -------
        Snapshot
            For :meth:`restore_kv_cache`, of this model or of another one that was loaded from the same files.

        Raises
        ------
        ValueError
            For a prompt that is too long, or a model with recurrent layers.
        """
        if isinstance(prompt, Request):
            return self.runner.snapshot_kv_cache(prompt)
        request = self.runner.add(self.encode(prompt), max_new_tokens=self.runner.max_len)
        try:
            while request.slot is None and request.finished is None:
                self.runner.step()
            return self.runner.snapshot_kv_cache(request)
        finally:
            self.runner.cancel(request)

    def restore_kv_cache(self, snapshot: Snapshot) -> int:
        """Put a snapshot into the cache: prompts that begin with its tokens do not compute them again.

        Parameters
        ----------
        snapshot : Snapshot
            From :meth:`snapshot_kv_cache`.

        Returns
        -------
        int
            Tokens that are in the cache now.

        Raises
        ------
        MemoryError
            If there are not enough pages.
        ValueError
            For a snapshot of another model or page size.
        """
        return self.runner.restore_kv_cache(snapshot)
