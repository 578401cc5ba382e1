"""Strings with which an answer ends, in text that comes in pieces."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

__all__ = ["CutQueue", "Stops"]


class Stops:
    """Finds the first of some strings to be complete. Text that may begin one is held back.

    Parameters
    ----------
    strings : list of str
        None of them empty.

    Attributes
    ----------
    found : str or None
        The one that was found.
    """

    def __init__(self, strings: list[str]):
        self.strings = strings
        self.found: str | None = None
        self._held = ""

    def feed(self, text: str) -> str:
        """Take a piece of text.

        Parameters
        ----------
        text : str
            What follows the pieces so far.

        Returns
        -------
        str
            What belongs to the answer for certain, and was not returned before. Nothing once a string was found.
        """
        sure = []
        for letter in text if self.found is None else "":  # by letters: pieces may be cut anywhere
            self._held += letter
            complete = [string for string in self.strings if self._held.endswith(string)]
            if complete:
                self.found = max(complete, key=len)
                sure.append(self._held[: -len(self.found)])
                self._held = ""
                break
            while self._held and not any(string.startswith(self._held) for string in self.strings):
                sure.append(self._held[0])
                self._held = self._held[1:]
        return "".join(sure)

    def rest(self) -> str:
        """The text that was held back, when no more comes.

        Returns
        -------
        str
            The end of the answer.
        """
        held, self._held = self._held, ""
        return held


class CutQueue(asyncio.Queue):
    """A queue of an answer's pieces that ends at a string.

    Parameters
    ----------
    strings : list of str
        None of them empty; without any, pieces go through as they are.
    """

    def __init__(self, strings: list[str]):
        super().__init__()
        self._stops = Stops(strings) if strings else None
        self.on_found: Callable[[], None] = lambda: None

    def put_nowait(self, item) -> None:
        """Take a piece.

        Parameters
        ----------
        item
            Text, None at the end, or something else that goes through.
        """
        stops = self._stops
        if stops is None:
            return super().put_nowait(item)
        if stops.found is not None:
            return  # the answer has ended
        if type(item) is str:
            if sure := stops.feed(item):
                super().put_nowait(sure)
            if stops.found is not None:
                super().put_nowait(None)
                self.on_found()
            return
        if held := stops.rest():
            super().put_nowait(held)
        super().put_nowait(item)
