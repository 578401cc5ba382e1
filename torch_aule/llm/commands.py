"""The command line; see ``python -m torch_aule.llm --help``."""

from __future__ import annotations

import argparse
import os
import sys
from contextlib import contextmanager

import torch

from torch_aule.llm import speculative
from torch_aule.llm.cache import UnsupportedModelError
from torch_aule.llm.language_model import LanguageModel
from torch_aule.llm.loading import DTYPES, LoadError, load, read_model
from torch_aule.llm.request import Request
from torch_aule.llm.terminal import Interrupts, say, show
from torch_aule.measure.timing import Stopwatch

__all__ = ["main"]

PROGRAM = "python -m torch_aule.llm"
STRATEGIES = {
    "greedy": None,  # one token for each pass
    "lookup": speculative.PromptLookup,
    "jacobi": speculative.Jacobi,
    "self": speculative.SelfSpeculative,
    "draft": speculative.DraftModel,
}
SAMPLING = ("temperature", "top_k", "top_p", "min_p", "repetition_penalty")


class Refusal(Exception):
    """The user asked for something impossible; the message is for them."""


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line."""

    def error(self, message):
        self.exit(2, f"{self.prog}: {message}; --help lists what there is\n")


@contextmanager
def refusing():
    """Errors that name what is wrong with the arguments become a :class:`Refusal`."""
    try:
        yield
    except (LoadError, UnsupportedModelError, ValueError, MemoryError) as error:
        raise Refusal(str(error)) from error


def add_model(p: argparse.ArgumentParser, batch: bool = False) -> None:
    """Options about the model.

    Parameters
    ----------
    p : argparse.ArgumentParser
        That gets them.
    batch : bool, default False
        Leave out those of a single sequence.
    """
    p.add_argument("--dtype", choices=["auto", *DTYPES], default="auto", help="of weights and activations")
    p.add_argument("--device", default="aule", help="aule, or aule:1 (default %(default)s)")
    p.add_argument("--kv-cache", choices=["int8"], help="keep keys and values in 8 bits (default: as computed)")
    if batch:
        return
    p.add_argument("--max-len", type=int, metavar="N", help="tokens of prompt and answer (default: up to 4096)")
    p.add_argument("--strategy", choices=STRATEGIES, default="greedy", help="where guesses at next tokens come from")
    p.add_argument("--guesses", type=int, metavar="N", help="tokens that are guessed for each pass")
    p.add_argument("--draft-model", metavar="MODEL", help="the smaller model of --strategy draft")


def add_sampling(p: argparse.ArgumentParser) -> None:
    """Options about drawing tokens.

    Parameters
    ----------
    p : argparse.ArgumentParser
        That gets them.
    """
    p.add_argument("--max-new-tokens", type=int, metavar="N", help="of an answer")
    p.add_argument("--temperature", type=float, metavar="T", help="0: always the likeliest token")
    p.add_argument("--top-k", type=int, metavar="K", help="draw among so few likeliest tokens")
    p.add_argument("--top-p", type=float, metavar="P", help="draw among the likeliest tokens of this probability")
    p.add_argument("--min-p", type=float, metavar="P", help="draw among tokens of this share of the likeliest one's")
    p.add_argument("--repetition-penalty", type=float, metavar="X", help="above 1: against repetitions")
    p.add_argument("--seed", type=int, help="of random numbers: the same answers again")
    p.add_argument("--stats", action="store_true", help="say how fast each answer was, on stderr")


def strategy_of(args: argparse.Namespace) -> speculative.Strategy | None:
    """The strategy that the options name.

    Parameters
    ----------
    args : argparse.Namespace
        With those of :func:`add_model`.

    Returns
    -------
    Strategy or None
        None: no guesses.

    Raises
    ------
    ValueError
        For options that do not belong together.
    """
    owner = STRATEGIES[args.strategy]
    if args.draft_model is not None and args.strategy != "draft":
        raise ValueError("--draft-model needs --strategy draft")
    if owner is None:
        if args.guesses is not None:
            raise ValueError("--guesses needs a --strategy that guesses")
        return None
    options = {} if args.guesses is None else {"guesses": args.guesses}
    if args.strategy != "draft":
        return owner(**options)
    if args.draft_model is None:
        raise ValueError("--strategy draft needs a --draft-model")
    how = dict(dtype=args.dtype, device=args.device, max_len=args.max_len, kv_cache_dtype=args.kv_cache)
    model, *_ = read_model(args.draft_model, **how)
    return owner(model, **options)


def load_of(args: argparse.Namespace) -> LanguageModel:
    """The model that the options name, for one sequence.

    Parameters
    ----------
    args : argparse.Namespace
        With those of :func:`add_model`.

    Returns
    -------
    LanguageModel
        Ready to answer.

    Raises
    ------
    Refusal
        With the reason.
    """
    with refusing():
        if args.seed is not None:
            torch.manual_seed(args.seed)
        device = checked_device(args.device)
        strategy = strategy_of(args)
        return load(
            args.model,
            dtype=args.dtype,
            device=device,
            max_batch=1,
            max_len=args.max_len,
            strategy=strategy,
            kv_cache_dtype=args.kv_cache,
        )


def checked_device(name: str) -> str:
    """A device that is there.

    Parameters
    ----------
    name : str
        As the user wrote it.

    Returns
    -------
    str
        The same.

    Raises
    ------
    ValueError
        If it is not.
    """
    try:
        device = torch.device(name)
    except RuntimeError:
        raise ValueError(f"--device: there is no device {name!r}; expected aule, or aule:1 and so on") from None
    count = torch.aule.device_count()
    if device.type != "aule" or (device.index or 0) >= count:
        last = "no device is there (python -m torch_aule.doctor)" if count == 0 else f"the last is aule:{count - 1}"
        raise ValueError(f"--device: there is no {name!r}; {last}")
    return name


def sampling_of(args: argparse.Namespace, **otherwise) -> dict:
    """Options of a request.

    Parameters
    ----------
    args : argparse.Namespace
        With those of :func:`add_sampling`.
    **otherwise
        Where the user gave none.

    Returns
    -------
    dict
        As :class:`Request` takes them.
    """
    given = {name: getattr(args, name) for name in SAMPLING if getattr(args, name) is not None}
    return {**otherwise, **given}


class Speed:
    """The speed of an answer, which begins now."""

    def __init__(self):
        self.watch, self.first = Stopwatch(), None

    def note(self, request: Request) -> None:
        """A piece has come.

        Parameters
        ----------
        request : Request
            Of the answer.
        """
        self.request = request
        if self.first is None:
            self.first = (self.watch.seconds, len(request.tokens))

    def text(self) -> str:
        """A line about it."""
        if self.first is None:
            return "[no text]"
        request, (when, there) = self.request, self.first
        line = f"[{len(request.prompt)} tokens of prompt, {request.shared} of them known; the first piece after "
        line += f"{when:.2f} s"
        more = len(request.tokens) - there
        if more > 0:
            line += f", then {more} tokens, {more / (self.watch.seconds - when):.1f} per second"
        return line + "]"


def generate(args: argparse.Namespace) -> int:
    """Go on with a text.

    Parameters
    ----------
    args : argparse.Namespace
        From the parser.

    Returns
    -------
    int
        0, or 130 after Ctrl-C.
    """
    prompt = sys.stdin.read() if args.prompt == "-" else args.prompt
    lm = load_of(args)
    with refusing():
        request = lm.add(
            [{"role": "user", "content": prompt}] if args.chat else prompt,
            max_new_tokens=128 if args.max_new_tokens is None else args.max_new_tokens,
            **sampling_of(args),
        )
        pieces = lm.pieces(request)
    speed = Speed()
    with Interrupts() as interrupts:
        for piece in pieces:
            speed.note(request)
            show(piece)
            if interrupts.came:
                break
        pieces.close()
    show("\n")
    if args.stats:
        say(speed.text())
    return 130 if interrupts.came else 0


def parser(command: str | None) -> argparse.ArgumentParser:
    """The parser of the command line.

    Parameters
    ----------
    command : str or None
        What the user wants, if it is known: that of a server is loaded only then.

    Returns
    -------
    argparse.ArgumentParser
        With a function for each command.
    """
    top = _Parser(prog=PROGRAM, description="Language models on the device.")
    commands = top.add_subparsers(dest="command", required=True, metavar="generate|chat|bench|serve")
    where = "a folder with config.json and safetensors, a GGUF file, or a name of Hugging Face's"

    p = commands.add_parser("generate", help="go on with a text")
    p.add_argument("model", metavar="MODEL", help=where)
    p.add_argument("prompt", metavar="PROMPT", help="the text; - reads it from stdin")
    p.add_argument("--chat", action="store_true", help="the text is the first message of a chat")
    add_sampling(p)
    add_model(p)
    p.set_defaults(run=generate)

    p = commands.add_parser("chat", help="talk with a model that was made for it")
    p.add_argument("model", metavar="MODEL", help=where)
    p.add_argument("--system", metavar="TEXT", help="what the model is told before the chat")
    add_sampling(p)
    add_model(p)
    p.set_defaults(run=_chat)

    p = commands.add_parser("bench", help="how fast prompts are read and tokens are drawn")
    p.add_argument("model", metavar="MODEL", nargs="?", help=where)
    add_model(p, batch=True)
    if command == "bench":
        from torch_aule.llm import bench

        bench.add_arguments(p)
    p.set_defaults(run=_bench)

    p = commands.add_parser("serve", help="answer requests over HTTP")
    if command == "serve":
        from torch_aule.llm import serve

        serve.add_arguments(p)
        p.set_defaults(run=serve.main)
    return top


def _chat(args: argparse.Namespace) -> int:
    from torch_aule.llm import chat

    return chat.run(args)


def _bench(args: argparse.Namespace) -> int:
    from torch_aule.llm import bench

    return bench.run(args)


def main(arguments: list[str] | None = None) -> int:
    """Run a command.

    Parameters
    ----------
    arguments : list of str, optional
        By default those of the process.

    Returns
    -------
    int
        The exit status: 2 for what cannot be done, which one sentence on stderr explains.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # an answer may have characters that the terminal has not
    try:
        command = next((word for word in arguments if not word.startswith("-")), None)
        args = parser(command).parse_args(arguments)
        return args.run(args)
    except Refusal as error:
        say(f"{PROGRAM}: {error}")
        return 2
    except KeyboardInterrupt:
        say("")
        return 130
    except BrokenPipeError:  # the reader has gone; nothing can be written at exit either
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
