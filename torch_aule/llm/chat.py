"""``python -m torch_aule.llm chat``: a chat in a terminal."""

from __future__ import annotations

import argparse
import sys

from torch_aule.llm.commands import Refusal, Speed, load_of, refusing, sampling_of
from torch_aule.llm.conversation import Conversation
from torch_aule.llm.terminal import Interrupts, say, show
from torch_aule.measure.numbers import count_text

__all__ = ["run"]

HELP = """/reset         forget the chat
/system TEXT   tell the model something before the chat, and forget the chat
/help          this list
/exit          end; Ctrl-D does too
Ctrl-C ends an answer; at the prompt, twice, it ends the chat."""


def _defaults(lm) -> dict:
    """The drawing of tokens where the user does not say: as its makers recommend, or with some variety."""
    own = getattr(lm.model, "generation_config", None)
    if not getattr(own, "do_sample", False):
        return {"temperature": 0.7, "min_p": 0.05}
    names = ("temperature", "top_k", "top_p", "min_p")
    found = {name: getattr(own, name, None) for name in names}
    return {"temperature": 1.0, **{name: value for name, value in found.items() if value is not None}}


class _Lines:
    """Lines that a user types. A Ctrl-C takes a line back, two one after the other end the chat."""

    def __init__(self):
        self.is_terminal = sys.stdin.isatty()
        self.interrupted = False
        if self.is_terminal:
            try:
                import readline  # noqa: F401  (input() edits lines with it)
            except ImportError:
                pass

    def __iter__(self):
        while True:
            try:
                line = input("> " if self.is_terminal else "").strip()
            except EOFError:
                if self.is_terminal:
                    print()
                return
            except KeyboardInterrupt:
                print()
                if self.interrupted:
                    return
                self.interrupted = True
                say("(Ctrl-C again, Ctrl-D or /exit ends the chat)")
                continue
            self.interrupted = False
            if line:
                yield line


def _answer(chat: Conversation, line: str, stats: bool) -> None:
    pieces = chat.say(line)
    speed, has_text = Speed(), False
    with Interrupts() as interrupts:
        for piece in pieces:
            if chat.dropped and not has_text:
                say(f"[the context is full: the oldest {count_text(chat.dropped, 'message')} left out]")
            assert chat.request is not None
            speed.note(chat.request)
            piece = piece if has_text else piece.lstrip()
            has_text = has_text or bool(piece)
            show(piece)
            if interrupts.came:
                break
        pieces.close()
    if has_text:
        show("\n")
    if interrupts.came:
        say("[stopped]")
    elif chat.request is not None and chat.request.finished == "length":
        is_limit = len(chat.request.tokens) == chat.max_new_tokens
        say(f"[the answer is cut off: {'it has --max-new-tokens' if is_limit else 'the context is full'}]")
    elif not has_text:
        say("[no answer]")
    if stats:
        say(speed.text())


def _command(chat: Conversation, line: str) -> None:
    name, _, rest = line.partition(" ")
    if name == "/help":
        say(HELP)
    elif name == "/reset":
        chat.begin(chat.system)
        say("[the chat begins anew]")
    elif name == "/system":
        chat.begin(rest.strip() or None)
        say("[the chat begins anew]")
    else:
        say(f"[there is no {name}; /help lists what there is]")


def run(args: argparse.Namespace) -> int:
    """Talk with a model.

    Parameters
    ----------
    args : argparse.Namespace
        From the parser.

    Returns
    -------
    int
        0 when the user has ended it.

    Raises
    ------
    Refusal
        With the reason.
    """
    lm = load_of(args)
    with refusing():
        if args.max_new_tokens is not None and args.max_new_tokens < 1:
            raise ValueError(f"--max-new-tokens: expected at least 1, but got {args.max_new_tokens}")
        options = sampling_of(args, **_defaults(lm))
        chat = Conversation(lm, args.system, args.max_new_tokens, **options)
        lm.runner.cancel(lm.add([0], **options))  # an option that cannot be is found now
    say(f"{lm.name}, {lm.elements / 1e6:.0f} M weights of {lm.type}; room for {lm.runner.max_len} tokens")
    say("/help lists commands, Ctrl-C ends an answer, Ctrl-D the chat")
    for line in _Lines():
        if line == "/exit":
            break
        try:
            with refusing():
                if line.startswith("/"):
                    _command(chat, line)
                else:
                    _answer(chat, line, args.stats)
        except Refusal as error:
            say(f"[{error}]")
    return 0
