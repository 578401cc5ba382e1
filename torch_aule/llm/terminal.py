"""The commands' use of the terminal: Ctrl-C that ends an answer, and text that cannot harm."""

from __future__ import annotations

import signal
import sys
import threading

__all__ = ["Interrupts", "say", "show"]

# Characters that steer a terminal; a model may write them. Tabs and ends of lines are text.
STEERING = dict.fromkeys([*range(9), *range(11, 32), *range(127, 160)], "\ufffd")


class Interrupts:
    """Inside, a first Ctrl-C is noted, so that the device's work goes on to a place where it can stop.

    A second one is Python's KeyboardInterrupt.

    Attributes
    ----------
    came : bool
        Whether there was one.
    """

    def __init__(self):
        self.came = False

    def _note(self, *_):
        if self.came:
            raise KeyboardInterrupt
        self.came = True

    def __enter__(self):
        self._is_ours = threading.current_thread() is threading.main_thread()
        if self._is_ours:
            self._before = signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(self, *_):
        if self._is_ours:
            signal.signal(signal.SIGINT, self._before)


def show(piece: str) -> None:
    """Write a piece of an answer now.

    Parameters
    ----------
    piece : str
        Written as it is to a file, and without characters that steer to a terminal.
    """
    sys.stdout.write(piece.translate(STEERING) if sys.stdout.isatty() else piece)
    sys.stdout.flush()


def say(text: str) -> None:
    """A line that is no part of an answer.

    Parameters
    ----------
    text : str
        For stderr.
    """
    print(text, file=sys.stderr, flush=True)
