"""The requests of a server in transformers' continuous batching: each with options of its own, limits and an end."""

from __future__ import annotations

import asyncio
import gc
import json
import threading
from dataclasses import dataclass

import torch
from fastapi import HTTPException
from tokenizers.decoders import DecodeStream
from transformers import GenerationConfig
from transformers.cli.serving.utils import CBGenerateManager, CBStreamer, CBWorkerDeadError, _StreamError
from transformers.generation.continuous_batching.continuous_api import ContinuousBatchingManager
from transformers.generation.continuous_batching.model_runner import infer_max_single_request_tokens

from torch_aule.llm._stops import CutQueue, Stops

__all__ = ["Batches", "Limits", "Sampler"]

OPTIONS = {"temperature": 0.0, "top_p": 1.0, "top_k": 0}  # of a request; the values take the likeliest token
FLOATS = ("temperature", "top_p")


class Sampler:
    """Draws the next token of each request by its options. transformers has one set of options for all of them.

    It stands where transformers has its list of logits processors: the options are rows of int32, of which floats have
    the bits, and go to the device with the other inputs of a step. The logits come back with the token that was drawn
    as the largest.
    """

    tensors_required = len(OPTIONS)
    do_processing = True

    def check_kwargs(self, kwargs: dict) -> None:
        """Refuse options that do not exist.

        Parameters
        ----------
        kwargs : dict
            Of a request.

        Raises
        ------
        ValueError
            For another name.
        """
        if unknown := sorted(set(kwargs) - set(OPTIONS)):
            raise ValueError(f"no option of sampling is named {', '.join(unknown)}: there are {', '.join(OPTIONS)}")

    @staticmethod
    def _rows(requests: list[dict]) -> torch.Tensor:
        rows = [
            torch.tensor(
                [request.get(name, default) for request in requests],
                dtype=torch.float32 if name in FLOATS else torch.int32,
            ).view(torch.int32)
            for name, default in OPTIONS.items()
        ]
        return torch.stack(rows)

    def fill_defaults(self, int32_tensor: torch.Tensor) -> None:
        """Set the options of rows that are nobody's.

        Parameters
        ----------
        int32_tensor : torch.Tensor
            int32 ``[options, 1]``.
        """
        int32_tensor.copy_(self._rows([{}]))

    def prepare_tensor_args(self, requests_in_batch: list, arg_storage: torch.Tensor) -> None:
        """Write the options of a step's requests.

        Parameters
        ----------
        requests_in_batch : list
            transformers' states of them; those amid their prompt draw no token.
        arg_storage : torch.Tensor
            int32 ``[options, columns]``.
        """
        rows = self._rows([r.state.logit_processor_kwargs for r in requests_in_batch if r.has_new_token])
        arg_storage[:, : rows.size(1)] = rows.to(arg_storage.device)

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor, args: torch.Tensor) -> torch.Tensor:
        """Draw.

        Parameters
        ----------
        input_ids : torch.Tensor
            Not used.
        scores : torch.Tensor
            float32 ``[requests, vocabulary]``.
        args : torch.Tensor
            int32 ``[options, requests]``.

        Returns
        -------
        torch.Tensor
            `scores`, infinite at the token of each row.
        """
        options = {
            name: row.view(torch.float32) if name in FLOATS else row
            for name, row in zip(OPTIONS, (row[: scores.size(0)] for row in args))
        }
        tokens = torch.ops.aule.sample(scores, **options)[0]
        return scores.scatter(1, tokens[:, None], float("inf"))


@dataclass(frozen=True)
class Limits:
    """Options of a request.

    Parameters
    ----------
    prompt : int
        Tokens of a prompt.
    answer : int
        Tokens of an answer.
    both : int
        Tokens of a prompt and its answer together.
    """

    prompt: int
    answer: int
    both: int

    def admit(self, prompt: int, answer: int | None) -> int:
        """Check a request.

        Parameters
        ----------
        prompt : int
            Its tokens.
        answer : int or None
            How many it asks for.

        Returns
        -------
        int
            How many it gets at most.

        Raises
        ------
        fastapi.HTTPException
            400, if that is too much or nothing.
        """
        if prompt == 0:
            raise HTTPException(400, "The prompt has no tokens.")
        if prompt > self.prompt:
            raise HTTPException(
                400,
                f"The prompt has {prompt} tokens, more than the {self.prompt} that this server takes (--max-prompt).",
            )
        if answer is None:
            return max(1, min(self.answer, self.both - prompt))
        if answer > self.answer:
            raise HTTPException(
                400,
                f"The request asks for {answer} tokens, more than the {self.answer} that this server answers "
                "(--max-new-tokens).",
            )
        if prompt + answer > self.both:
            raise HTTPException(
                400,
                f"The prompt has {prompt} tokens and the request asks for {answer} more, but this server holds "
                f"{self.both} tokens of one request.",
            )
        return answer


class _Streamer(CBStreamer):
    """transformers' own, and a request that is cancelled leaves nothing behind."""

    def cancel(self) -> None:
        super().cancel()
        _forget(self._cb, self._request_id)


class _Cut:
    """An answer that is not sent in pieces, and ends at a string."""

    def __init__(self, tokenizer, strings: list[str]):
        self.strings, self._tokenizer = strings, tokenizer
        self._stops, self._stream = Stops(strings), DecodeStream([], skip_special_tokens=True)
        self._seen, self._text = 0, ""

    def feed(self, tokens: list[int]) -> bool:
        """Take all tokens so far; whether the answer ends."""
        if not self.strings:
            return False
        for token in tokens[self._seen :]:
            self._text += self._stops.feed(self._stream.step(self._tokenizer._tokenizer, token) or "")
        self._seen = len(tokens)
        return self.has_ended

    @property
    def has_ended(self) -> bool:
        """Whether a string was found."""
        return self._stops.found is not None

    def answer(self, tokens: list[int]) -> tuple[str, list[int]]:
        """The text, and tokens that say it."""
        found = self._stops.found
        if found is None:
            return self._tokenizer.decode(tokens, skip_special_tokens=True), tokens
        whole = self._tokenizer.decode(tokens)  # with special tokens, for who reads thoughts and calls of tools
        before = whole[: whole.rfind(found)]
        return self._text, self._tokenizer(before, add_special_tokens=False)["input_ids"]


def _forget(manager: ContinuousBatchingManager, request_id: str) -> None:
    with manager.output_router._lock:
        manager.output_router.result_handlers.pop(request_id, None)


def _options(config: GenerationConfig) -> dict:
    if not config.do_sample or config.temperature == 0:
        return {}
    temperature, top_p, top_k = config.temperature, config.top_p, config.top_k
    return {
        "temperature": 1.0 if temperature is None else float(temperature),
        "top_p": 1.0 if top_p is None else float(top_p),
        "top_k": int(top_k or 0),
    }


class Batches(CBGenerateManager):
    """A model whose requests are answered together, by transformers' scheduler.

    Parameters
    ----------
    model : transformers.PreTrainedModel
        On its device.
    config : transformers.ContinuousBatchingConfig
        Of the cache and of the steps.
    limits : callable
        Takes the most tokens that the cache holds of one request, and gives the :class:`Limits`.
    """

    def __init__(self, model, config, limits):
        super().__init__(cb_config=config)
        self.model, self._limits_of = model, limits
        self._starting = threading.Lock()
        self.limits = Limits(0, 0, 0)
        self._start()

    def _start(self) -> None:
        manager = self.model.init_continuous_batching(
            generation_config=GenerationConfig(do_sample=False, use_cache=False, max_new_tokens=1),
            continuous_batching_config=self._cb_config,
        )
        manager.logit_processor = Sampler()  # before anything asks how many rows it needs
        manager.warmup()  # makes the cache, and the graphs
        assert manager.batch_processor is not None
        self.limits = self._limits_of(infer_max_single_request_tokens(manager.batch_processor.cache))
        manager.start()
        self._cb = manager

    def init_cb(self, model, gen_config) -> None:
        """Start again if an error has ended all requests; transformers calls it before each request.

        Parameters
        ----------
        model, gen_config
            Not used: the model is known, and options belong to requests.

        Raises
        ------
        CBWorkerDeadError
            If it does not start.
        """
        with self._starting:
            if self._cb is not None and self.is_alive():
                return
            self.stop()
            self._cb = None
            gc.collect()
            torch.accelerator.empty_cache()
            try:
                self._start()
            except Exception as error:
                raise CBWorkerDeadError(f"the model stopped and does not start again: {error}") from error

    def stop(self) -> None:
        """End the thread that answers, and the requests with it."""
        if self._cb is not None:
            self._cb.stop(block=True, timeout=10, hard_stop=True)

    def _submit(self, ids: list[int], request_id: str, config: GenerationConfig, deliver, streaming: bool):
        manager = self._cb
        if manager is None:
            raise CBWorkerDeadError("the model is not running")
        config.max_new_tokens = self.limits.admit(len(ids), config.max_new_tokens)
        manager.register_result_handler(request_id, deliver)  # first: an answer may be there at once
        accepted = manager.add_request(
            ids,
            request_id=request_id,
            streaming=streaming,
            max_new_tokens=config.max_new_tokens,
            eos_token_id=-1 if config.eos_token_id is None else config.eos_token_id,
            **_options(config),
        )
        if accepted is None or manager.background_thread_status.can_accept_new_requests() is not None:
            _forget(manager, request_id)
            raise CBWorkerDeadError("the model has just stopped; the next request starts it again")
        return manager

    def generate_streaming(self, model, processor, inputs, gen_config, request_id, response_parser=None):
        """Begin an answer that is sent in pieces.

        Parameters
        ----------
        model, processor, inputs, gen_config, request_id, response_parser
            As of transformers.

        Returns
        -------
        (asyncio.Queue, CBStreamer)
            Pieces of text, and what cancels.
        """
        manager, pieces = self._cb, CutQueue(gen_config.stop_strings or [])
        tokenizer = getattr(processor, "tokenizer", processor)._tokenizer
        loop = asyncio.get_running_loop()
        streamer = _Streamer(manager, request_id, tokenizer, loop, pieces, response_parser=response_parser)

        def found():
            gen_config.max_new_tokens = None  # by which transformers tells that an answer ended by its length
            streamer.cancel()

        pieces.on_found = found

        def deliver(output):
            try:
                streamer.put(output)
                if output.error is not None:
                    raise RuntimeError(output.error)
                if output.is_finished():
                    streamer.end()
            except Exception as error:
                pieces.put_nowait(_StreamError(json.dumps(str(error))[1:-1]))  # it is put between quotes
                streamer.cancel()

        self._submit(inputs["input_ids"], request_id, gen_config, deliver, streaming=True)
        return pieces, streamer

    async def generate_non_streaming(self, model, processor, inputs, gen_config, request_id):
        """Answer.

        Parameters
        ----------
        model, processor, inputs, gen_config, request_id
            As of transformers.

        Returns
        -------
        (str, int, list of int)
            The text, the number of tokens of the prompt, and the tokens of the answer.

        Raises
        ------
        CBWorkerDeadError, RuntimeError
            If this request failed, with all or alone.
        """
        future = asyncio.get_running_loop().create_future()
        cut = _Cut(getattr(processor, "tokenizer", processor), gen_config.stop_strings or [])

        def deliver(output):
            if not future.done() and (cut.feed(output.generated_tokens) or output.is_finished()):
                future.set_result(output)

        ids = inputs["input_ids"]
        manager = self._submit(ids, request_id, gen_config, deliver, streaming=bool(cut.strings))
        try:
            output = await future
        except asyncio.CancelledError:
            manager.cancel_request(request_id)
            _forget(manager, request_id)
            raise
        if output.error is not None:
            stopped = manager.background_thread_status.local_status != manager.background_thread_status.DONT_STOP
            raise (CBWorkerDeadError if stopped else RuntimeError)(f"the request failed: {output.error}")
        if cut.has_ended:
            gen_config.max_new_tokens = None  # by which transformers tells that an answer ended by its length
            manager.cancel_request(request_id)
            _forget(manager, request_id)
        text, tokens = cut.answer(output.generated_tokens)
        return text, len(ids), tokens
