"""``python -m torch_aule.llm serve MODEL``: transformers' OpenAI-compatible server, with a model on the device."""

from __future__ import annotations

import argparse
import ipaddress
import logging
import signal
import sys
from math import ceil
from pathlib import Path

__all__ = ["Server", "add_arguments", "main"]

PAGE = 64  # tokens of a page of the cache
PACKAGES = ("fastapi", "uvicorn", "openai", "pydantic")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the server.

    Parameters
    ----------
    parser : argparse.ArgumentParser
        Of the command.
    """
    parser.add_argument("model", help="a folder, a GGUF file, or a name in the Hugging Face cache")
    parser.add_argument("--name", help="of the model, for clients (default: that of the folder or file)")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen at (default: %(default)s)")
    parser.add_argument("--port", type=int, default=8000, help="0 takes a free one (default: %(default)s)")
    parser.add_argument("--api-key", metavar="KEY", help="clients must send it; @FILE reads it from a file")
    parser.add_argument("--max-prompt", type=int, metavar="N", help="tokens of a prompt (default: what fits)")
    parser.add_argument("--max-new-tokens", type=int, default=1024, metavar="N",
                        help="tokens of an answer (default: %(default)s)")  # fmt: skip
    parser.add_argument("--max-batch", type=int, default=32, metavar="N",
                        help="requests that are answered at once; others wait (default: %(default)s)")  # fmt: skip
    parser.add_argument("--step-tokens", type=int, default=512, metavar="N",
                        help="tokens of prompts in one step (default: %(default)s)")  # fmt: skip
    parser.add_argument("--cache-tokens", type=int, metavar="N",
                        help="tokens that the cache holds, of all requests (default: by the free memory)")  # fmt: skip
    parser.add_argument("--memory", type=float, default=0.8, metavar="SHARE",
                        help="of the free memory for the cache, else (default: %(default)s)")  # fmt: skip
    parser.add_argument("--dtype", default="auto", help="of the weights, such as bfloat16 (default: the file's)")
    parser.add_argument("--no-graphs", action="store_true", help="launch each step anew instead of recording steps")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _key(option: str | None) -> str | None:
    if option is None:
        return None
    if option.startswith("@"):
        option = Path(option[1:]).read_text().strip()
    if not option:
        raise ValueError("the key is empty")
    return option


def _model_and_name(model: str) -> tuple[str, str]:
    """The model that transformers loads, and its name for clients."""
    path = Path(model).expanduser()
    if path.suffix == ".gguf" and path.is_file():
        return f"{path.resolve().parent}:{path.name}", path.stem
    if path.is_dir():
        return str(path.resolve()), path.resolve().name
    if path.is_absolute() or model.startswith((".", "~")):
        raise ValueError(f"there is no folder and no GGUF file {model}")
    return model, model


class Server:
    """A model that is loaded, and the application that answers for it.

    Parameters
    ----------
    args : argparse.Namespace
        Of :func:`add_arguments`.

    Attributes
    ----------
    name : str
        Of the model, for clients.
    app
        An ASGI application.
    batches
        The requests that are being answered.

    Raises
    ------
    ValueError, OSError
        If the model cannot be found, or is none that answers with text.
    """

    def __init__(self, args: argparse.Namespace):
        from transformers import ContinuousBatchingConfig
        from transformers.cli.serving.utils import Modality

        from torch_aule.llm._batches import Batches, Limits
        from torch_aule.llm._web import Model, application

        for option in ("max_prompt", "max_new_tokens", "max_batch", "step_tokens", "cache_tokens"):
            if (value := getattr(args, option)) is not None and value < 1:
                raise ValueError(f"--{option.replace('_', '-')} is {value}, but is to be at least 1")
        if not 0 < args.memory <= 1:
            raise ValueError(f"--memory is {args.memory}, but is to be above 0 and at most 1")
        key = _key(args.api_key)
        path, name = _model_and_name(args.model)
        self.name = args.name or name
        loaded = Model(path, self.name, args.dtype)
        model = loaded.model
        if loaded.get_model_modality(model, loaded.processor) is not Modality.LLM or not hasattr(
            model, "init_continuous_batching"
        ):
            raise ValueError(f"{args.model} is a {type(model).__name__}, which does not answer text with text")
        context = getattr(model.config.get_text_config(), "max_position_embeddings", None) or 1 << 20

        def limits(fits: int) -> Limits:
            both = min(context, fits)
            answer = min(args.max_new_tokens, both - 1)
            return Limits(min(args.max_prompt or both, both - 1), answer, both)

        config = ContinuousBatchingConfig(
            page_size=PAGE,
            num_blocks=None if args.cache_tokens is None else ceil(args.cache_tokens / PAGE),
            max_batch_tokens=max(args.step_tokens, args.max_batch),
            max_requests_per_batch=args.max_batch,
            max_blocks_per_request=ceil(context / PAGE),
            max_memory_percent=args.memory,
            use_cuda_graph=(False, not args.no_graphs),  # prompts have any length, single tokens have none
            # With two steps under way a request that is cancelled loses the pages that a step is about to mark.
            use_async_batching=False,
            kv_padding_interval_size=1024,
        )
        self.batches = Batches(model, config, limits)
        self.app = application(loaded, self.batches, key)

    def close(self) -> None:
        """End all requests, and give the model back."""
        self.batches.stop()


def _run(args: argparse.Namespace) -> int:
    import uvicorn

    # Beside errors they tell each request, and each step that is recorded.
    logging.getLogger("transformers").setLevel(logging.ERROR)
    logging.getLogger("ContinuousBatchingLogger").setLevel(logging.ERROR)
    server = Server(args)
    try:
        config = uvicorn.Config(
            server.app, host=args.host, port=args.port, log_level="warning", timeout_graceful_shutdown=5
        )
        listener = config.bind_socket()
        listener.listen(config.backlog)  # who reads the address may connect at once
        host, port = listener.getsockname()[:2]
        if args.api_key is None and not _is_loopback(args.host):
            print(f"warning: whoever reaches {host} may use this server; --api-key asks for a key", file=sys.stderr)
        most = server.batches.limits
        print(f"{server.name} at http://{f'[{host}]' if ':' in host else host}:{port}/v1", flush=True)
        print(f"prompts to {most.prompt} tokens, answers to {most.answer}, {most.both} together", flush=True)
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # uvicorn passes signals on when it has ended
        uvicorn.Server(config).run(sockets=[listener])
    except KeyboardInterrupt:
        pass
    finally:
        server.close()
    return 0


def main(args: argparse.Namespace) -> int:
    """Serve until the process is interrupted.

    Parameters
    ----------
    args : argparse.Namespace
        Of :func:`add_arguments`.

    Returns
    -------
    int
        0, or 1 if there is nothing to serve; a sentence on the standard error says why.
    """
    import torch

    import torch_aule  # noqa: F401  it registers the device

    try:
        if not torch.aule.is_available():
            raise ValueError("no device of Vulkan was found")
        return _run(args)
    except ImportError as error:
        missing = f"serving needs {', '.join(PACKAGES)} (pip install torch_aule[llm,serve]): {error}"
        print(f"error: {missing}", file=sys.stderr)
    except (OSError, ValueError, MemoryError) as error:
        print(f"error: {error}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m torch_aule.llm serve", description=__doc__)
    add_arguments(parser)
    sys.exit(main(parser.parse_args()))
