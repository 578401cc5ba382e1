"""transformers' server around one model: what may be asked, who may ask, and errors as OpenAI's clients read them."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import logging
import uuid
from http import HTTPStatus
from typing import Any

from fastapi import HTTPException
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from jinja2.exceptions import TemplateError
from starlette.exceptions import HTTPException as RoutingError
from transformers.cli.serving.chat_completion import ChatCompletionHandler
from transformers.cli.serving.completion import CompletionHandler
from transformers.cli.serving.model_manager import ModelManager
from transformers.cli.serving.response import ResponseHandler
from transformers.cli.serving.server import build_server
from transformers.cli.serving.utils import X_REQUEST_ID, CBWorkerDeadError, GenerationState, split_model_id

from torch_aule.llm._batches import Batches

__all__ = ["Model", "application"]

LOG = logging.getLogger(__name__)

PATHS = {"/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/models", "/health"}
OPEN = {"/health"}  # without a key
MOST_STOPS = 16
LENGTHS = ("max_completion_tokens", "max_tokens", "max_output_tokens")
# Options that would change the answer and are not computed, with the values that ask for nothing.
REFUSED: dict[str, tuple] = {
    "n": (1,), "best_of": (1,), "logprobs": (False, 0), "top_logprobs": (0,), "echo": (False,),
    "logit_bias": ({},), "frequency_penalty": (0,), "presence_penalty": (0,), "generation_config": (),
    "response_format": ({"type": "text"},), "previous_response_id": (), "background": (False,), "functions": ([],),
}  # fmt: skip


class Model(ModelManager):
    """One model on the device, under the name that clients use.

    Parameters
    ----------
    path : str
        A folder, a name in the Hugging Face cache, or either with ``:file.gguf``.
    name : str
        For clients.
    dtype : str
        Of the weights; "auto" is that of the file.
    """

    def __init__(self, path: str, name: str, dtype: str):
        super().__init__(device="aule", dtype=dtype, model_timeout=-1)
        self.name = name
        where, file = split_model_id(path)
        self.model, self.processor = self.load_model_and_processor(self.process_model_name(where), gguf_file=file)
        self.model.eval()

    def list_models(self, cache_dir: str | None = None) -> list[dict]:
        """The one model.

        Parameters
        ----------
        cache_dir : str, optional
            Not used.

        Returns
        -------
        list of dict
            As /v1/models shows it.
        """
        return [{"id": self.name, "object": "model", "created": 0, "owned_by": "local"}]


def _number(body: dict, name: str, low: float, high: float, whole: bool = False) -> None:
    value = body.get(name)
    if value is None:
        return
    kinds = int if whole else (int, float)
    if isinstance(value, bool) or not isinstance(value, kinds) or not low <= float(value) <= high:
        expected = "an integer" if whole else "a number"
        bounds = f"from {low:g} to {high:g}" if high != float("inf") else f"of at least {low:g}"
        raise HTTPException(400, f"{name} is {json.dumps(value)}, but is to be {expected} {bounds}.")


def _stops(body: dict) -> list[str]:
    stops = body.get("stop")
    found = [] if stops is None else [stops] if isinstance(stops, str) else stops
    if not isinstance(found, list) or len(found) > MOST_STOPS or any(not isinstance(s, str) or not s for s in found):
        raise HTTPException(400, f"stop is to be a string, or a list of at most {MOST_STOPS}, none of them empty.")
    return found


def _check_messages(body: dict) -> None:
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise HTTPException(400, "messages is to be a list of at least one message.")
    for message in messages:
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            raise HTTPException(400, "each message is to be an object with a role and a content.")
        parts = message.get("content")
        if isinstance(parts, list) and any(not isinstance(p, dict) or p.get("type") != "text" for p in parts):
            raise HTTPException(400, "this model reads text: each part of a content is to be of the type text.")


class _Checks:
    """The checks of each request, before and around transformers' handlers."""

    model_manager: Any  # a Model

    async def handle_request(self, body: dict, request_id: str):
        try:
            return await super().handle_request(body, request_id)  # type: ignore[misc]
        except (KeyError, TypeError, ValueError, TemplateError) as error:
            raise HTTPException(400, f"The request cannot be read: {type(error).__name__}: {error}") from error
        except (HTTPException, CBWorkerDeadError):
            raise
        except Exception as error:  # left to the application, it would close the client's connection as well
            LOG.exception("a request failed")
            raise HTTPException(500, f"{type(error).__name__}: {error}") from error

    def _validate_request(self, body: dict) -> None:
        super()._validate_request(body)  # type: ignore[misc]
        name = body.get("model")
        if name is not None and name != self.model_manager.name:
            raise HTTPException(
                404, f"There is no model {json.dumps(name)} here; this server has {self.model_manager.name!r}."
            )
        for option, nothing in REFUSED.items():
            if body.get(option) is not None and body[option] not in nothing:
                raise HTTPException(400, f"{option} is not supported by this server.")
        _number(body, "temperature", 0, 2)
        _number(body, "top_p", 0, 1)
        for length in LENGTHS:
            _number(body, length, 1, float("inf"), whole=True)
        _stops(body)
        if isinstance(self, ChatCompletionHandler):
            _check_messages(body)
        body.pop("seed", None)  # of all requests: they draw from one generator
        body.setdefault("stream", False)

    def _resolve_model(self, body: dict):
        body["model"] = self.model_manager.name
        return self.model_manager.name, self.model_manager.model, self.model_manager.processor

    def _build_generation_config(self, body: dict, model_generation_config, use_cb: bool = False):
        config = super()._build_generation_config(body, model_generation_config, use_cb=use_cb)  # type: ignore[misc]
        config.max_new_tokens = next((body[name] for name in LENGTHS if body.get(name) is not None), None)
        config.stop_strings = _stops(body)
        if body.get("temperature") is not None:
            config.do_sample = body["temperature"] > 0
        return config


class _Chat(_Checks, ChatCompletionHandler):
    pass


class _Completions(_Checks, CompletionHandler):
    pass


class _Responses(_Checks, ResponseHandler):
    pass


def _error(status: int, message: str, headers: dict | None = None) -> JSONResponse:
    kind = "invalid_request_error" if status < 500 else "server_error"
    error: dict[str, Any] = {"message": message, "type": kind, "param": None, "code": None}
    return JSONResponse({"error": error}, status_code=status, headers=headers)


class Door:
    """Around the application: keys, names of requests, and clients that go away.

    Parameters
    ----------
    app
        An ASGI application.
    key : str or None
        Without it, everyone may ask.
    """

    def __init__(self, app, key: str | None):
        self.app = app
        self._key = None if key is None else hashlib.sha256(key.encode()).digest()

    def _may_ask(self, scope) -> bool:
        if self._key is None or scope["path"] in OPEN:
            return True
        given = dict(scope["headers"]).get(b"authorization", b"")
        kind, _, key = given.partition(b" ")
        same = hmac.compare_digest(hashlib.sha256(key.strip()).digest(), self._key)
        return same and kind.lower() == b"bearer"

    async def __call__(self, scope, receive, send) -> None:
        """Serve a connection.

        Parameters
        ----------
        scope, receive, send
            As of ASGI.
        """
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        if not self._may_ask(scope):
            message = "The key is missing or wrong: send the header Authorization: Bearer KEY."
            return await _error(401, message, {"WWW-Authenticate": "Bearer"})(scope, receive, send)
        # A name of its own for each request, whatever the client sends: two of one name would share a cache.
        name = X_REQUEST_ID.encode()
        headers = [(key, value) for key, value in scope["headers"] if key.lower() != name]
        scope = {**scope, "headers": [*headers, (name, str(uuid.uuid4()).encode())]}
        await self._until_gone(scope, receive, send)

    async def _until_gone(self, scope, receive, send) -> None:
        """Run the application, and cancel it when the client goes away."""
        messages: asyncio.Queue = asyncio.Queue()
        task = asyncio.ensure_future(self.app(scope, messages.get, send))

        async def listen():
            while True:
                message = await receive()
                messages.put_nowait(message)
                if message["type"] == "http.disconnect":
                    task.cancel()
                    return

        listener = asyncio.ensure_future(listen())
        try:
            await task
        except asyncio.CancelledError:
            if not listener.done():  # the server itself stops
                task.cancel()
                raise
        finally:
            listener.cancel()


def application(model: Model, batches: Batches, key: str | None) -> Door:
    """transformers' application for one model.

    Parameters
    ----------
    model : Model
        Loaded.
    batches : Batches
        Of the model.
    key : str or None
        That clients have to send.

    Returns
    -------
    Door
        An ASGI application.
    """
    state = GenerationState(continuous_batching=True)
    state._cb_manager, state._cb_model_id = batches, model.name
    app = build_server(
        model,
        _Chat(model, state),
        completion_handler=_Completions(model, state),
        response_handler=_Responses(model, state),
        transcription_handler=None,  # type: ignore[arg-type]
        systemone_handler=None,  # type: ignore[arg-type]
        generation_state=state,
    )
    # Others load and unload models, or need a model of another kind.
    app.router.routes[:] = [route for route in app.router.routes if getattr(route, "path", None) in PATHS]

    async def refused(_request, error: Any) -> JSONResponse:
        message = error.detail or HTTPStatus(error.status_code).phrase
        return _error(error.status_code, str(message), dict(error.headers or {}))

    async def unreadable(_request, error: Any) -> JSONResponse:
        return _error(400, f"The body is to be a JSON object: {error.errors()[0].get('msg', 'it is not')}.")

    async def stopped(_request, error: Any) -> JSONResponse:
        return _error(503, str(error))

    app.add_exception_handler(RoutingError, refused)
    app.add_exception_handler(RequestValidationError, unreadable)
    app.add_exception_handler(CBWorkerDeadError, stopped)
    return Door(app, key)
