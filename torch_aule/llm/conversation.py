"""A chat: its messages, and the tokens that are in the cache already."""

from __future__ import annotations

from collections.abc import Iterator

from torch_aule.llm.language_model import LanguageModel
from torch_aule.llm.request import Request

__all__ = ["Conversation"]


class Conversation:
    """A chat that goes on. Each turn reads only what is new: the runner has the pages of what came before.

    Parameters
    ----------
    lm : LanguageModel
        With a chat template.
    system : str, optional
        What the model is told before the chat.
    max_new_tokens : int, optional
        Of an answer; by default what there is room for.
    **options
        As :class:`torch_aule.llm.Request` takes them.

    Attributes
    ----------
    messages : list of dict
        Of the chat so far.
    dropped : int
        Messages that the last turn left out, because the context was full.
    request : Request or None
        Of the last answer.

    Raises
    ------
    ValueError
        For a model without a chat template.
    """

    def __init__(self, lm: LanguageModel, system: str | None = None, max_new_tokens: int | None = None, **options):
        self.lm, self.max_new_tokens, self.options = lm, max_new_tokens, options
        self.messages: list[dict[str, str]] = []
        self.dropped = 0
        self.request: Request | None = None
        self._text = ""  # of what is in the cache
        self._tokens: list[int] = []  # the same as tokens
        lm.chat_text([{"role": "user", "content": "."}])
        self.begin(system)

    def begin(self, system: str | None = None) -> None:
        """Forget the messages.

        Parameters
        ----------
        system : str, optional
            What the model is told before the chat.

        Raises
        ------
        ValueError
            If the model's template has no place for it; the chat is as before then.
        """
        messages = [{"role": "system", "content": system}] if system else []
        self.lm.chat_text([*messages, {"role": "user", "content": "."}])
        self.messages = messages

    @property
    def system(self) -> str | None:
        """The instructions of the model before the chat."""
        first = self.messages[0] if self.messages else {"role": ""}
        return first["content"] if first["role"] == "system" else None

    def _encoded(self) -> tuple[str, list[int]]:
        """The chat as text and as tokens. Those of earlier answers stay as they were drawn, as the cache has them."""
        text, tokenizer = self.lm.chat_text(self.messages), self.lm.tokenizer
        if self._text and text.startswith(self._text):
            rest = tokenizer(text[len(self._text) :], add_special_tokens=False).input_ids
            return text, [*self._tokens, *rest]
        return text, list(tokenizer(text, add_special_tokens=False).input_ids)

    def _fitting(self) -> tuple[str, list[int]]:
        """Without the oldest turns, if there is no room for an answer of a quarter of the context."""
        most = self.lm.runner.max_len
        room = min(self.max_new_tokens or most, max(most // 4, 1))
        first = 0 if self.system is None else 1
        while True:
            text, tokens = self._encoded()
            if len(tokens) + room <= most:
                return text, tokens
            if len(self.messages) - first < 3:  # one message, and nothing before it
                if len(tokens) < most:
                    return text, tokens
                raise ValueError(f"the message has {len(tokens)} tokens, but the context has room for {most - 1}")
            del self.messages[first : first + 2]
            self.dropped += 2

    def say(self, message: str) -> Iterator[str]:
        """A user's message, and the answer to it. Leaving the loop ends the answer, what there is of it stays.

        Parameters
        ----------
        message : str
            What the user says.

        Yields
        ------
        str
            The answer, piece by piece.

        Raises
        ------
        ValueError
            For a message that is longer than the context; the chat is as before then.
        """
        before, self.dropped = list(self.messages), 0
        self.messages.append({"role": "user", "content": message})
        try:
            text, tokens = self._fitting()
            room = self.lm.runner.max_len - len(tokens)
            self.request = self.lm.add(tokens, **self.options, max_new_tokens=min(self.max_new_tokens or room, room))
        except (ValueError, MemoryError):
            self.messages, self.dropped = before, 0
            raise
        request, answer = self.request, ""
        try:
            for piece in self.lm.pieces(request):
                answer += piece
                yield piece
        finally:
            if answer:
                drawn = self.lm.tokenizer.decode(
                    request.tokens, skip_special_tokens=False, clean_up_tokenization_spaces=False
                )
                self._text, self._tokens = text + drawn, tokens + request.tokens
                self.messages.append({"role": "assistant", "content": answer})
            else:  # many templates want users and the model in turns
                self.messages.pop()
