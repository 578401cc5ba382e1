"""Text from tokens as they come: characters whose bytes are several tokens are held back until they are whole."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["TextPieces"]

BROKEN = "\ufffd"
MOST = 3  # tokens without their last one that may still become a character: UTF-8 has at most 4 bytes


class TextPieces:
    """Decodes tokens that come one after another.

    Parameters
    ----------
    tokenizer : transformers.PreTrainedTokenizerBase
        Whose tokens these are.
    context : sequence of int, default ()
        Tokens before the first one: some tokenizers begin a text without the space of its first word.
    """

    def __init__(self, tokenizer, context: Sequence[int] = ()):
        self.tokenizer = tokenizer
        self._tokens: list[int] = list(context)  # since the last but one place between characters
        self._given = len(self._decoded())  # characters of them that were given
        self._place = len(self._tokens)
        if self._decoded().endswith(BROKEN):
            self._tokens, self._given, self._place = [], 0, 0

    def _decoded(self) -> str:
        return self.tokenizer.decode(self._tokens, skip_special_tokens=True, clean_up_tokenization_spaces=False)

    def add(self, tokens: Sequence[int]) -> str:
        """Further tokens.

        Parameters
        ----------
        tokens : sequence of int
            The next ones.

        Returns
        -------
        str
            What is certain now and was not given before; it may be empty.
        """
        if not tokens:
            return ""
        self._tokens += tokens
        text = self._decoded()
        broken = len(text) - len(text.rstrip(BROKEN))
        end = len(text) - min(broken, MOST)
        piece = text[self._given : end]
        self._given = max(self._given, end)
        if broken == 0:
            self._tokens, self._place = self._tokens[self._place :], len(self._tokens) - self._place
            self._given = len(self._decoded())
        return piece

    def end(self) -> str:
        """The text that was held back."""
        return self._decoded()[self._given :]
