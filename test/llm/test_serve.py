"""transformers' server with a model on the device, asked by OpenAI's own client."""

import argparse
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
import torch

for name in ("transformers", "openai", "fastapi"):
    pytest.importorskip(name, reason=f"needs {name}, of the test extra")
uvicorn = pytest.importorskip("uvicorn", reason="needs uvicorn, of the test extra")

import openai  # noqa: E402
import word_model  # noqa: E402

from helpers import interpreter  # noqa: E402
from torch_aule.llm import serve  # noqa: E402
from torch_aule.llm._stops import Stops  # noqa: E402

pytestmark = pytest.mark.skipif(
    torch.cuda.is_available(), reason="beside CUDA transformers takes its streams from there"
)
KEY = "a key of the tests"
JSON = {"Content-Type": "application/json"}
PATHS = ("/v1/models", "/v1/chat/completions", "/v1/completions", "/v1/responses", "/docs", "/openapi.json", "/v1/x")


def options(folder, *words):
    parser = argparse.ArgumentParser()
    serve.add_arguments(parser)
    return parser.parse_args([str(folder), *words])


@pytest.fixture(scope="module")
def at(tmp_path_factory):
    """A server in a thread of this process, and the model on the CPU."""
    where = tmp_path_factory.mktemp("models") / "tiny"
    torch.manual_seed(torch.initial_seed())
    model, tokenizer = word_model.save(where)
    server = serve.Server(
        options(where, "--api-key", KEY, "--cache-tokens", "2048", "--max-batch", "16", "--max-prompt", "100",
                "--max-new-tokens", "300", "--step-tokens", "64")
    )  # fmt: skip
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    web = uvicorn.Server(uvicorn.Config(server.app, log_level="critical", timeout_graceful_shutdown=2))
    thread = threading.Thread(target=web.run, kwargs={"sockets": [listener]})
    thread.start()
    client = openai.OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key=KEY, max_retries=0, timeout=180)
    yield SimpleNamespace(server=server, port=port, client=client, model=model, tokenizer=tokenizer, folder=where)
    web.should_exit = True
    thread.join(20)
    server.close()
    assert not thread.is_alive()


def words(n):
    return " ".join(f"w{i}" for i in torch.randint(0, 60, (n,)).tolist())


def user(text):
    return [{"role": "user", "content": text}]


def check(at, prompt, answer, wanted):
    """Each word is the likeliest of the CPU after those before it. `prompt` is text or messages."""
    if isinstance(prompt, str):
        before = at.tokenizer(prompt)["input_ids"]
    else:
        before = at.tokenizer.apply_chat_template(prompt, add_generation_prompt=True)["input_ids"]
    after = at.tokenizer.convert_tokens_to_ids(answer.split())
    assert len(after) == wanted, answer
    with torch.no_grad():
        logits = at.model(torch.tensor([before + after])).logits[0, len(before) - 1 : -1]
    found = logits.gather(1, torch.tensor(after)[:, None])[:, 0]
    assert (logits.amax(1) - found).max() <= 1e-3 * logits.abs().max()
    return len(before)


def chat(at, text, length=12, **more):
    return at.client.chat.completions.create(
        model="tiny", messages=user(text), max_tokens=length, **{"temperature": 0, **more}
    )


def ask(at, path, body=None, key=KEY, kind="Bearer"):
    """Status and body, by plain HTTP."""
    headers = JSON | ({"Authorization": f"{kind} {key}"} if key else {})
    data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    request = urllib.request.Request(f"http://127.0.0.1:{at.port}{path}", data, headers)
    try:
        with urllib.request.urlopen(request, timeout=180) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def scheduler(at):
    return at.server.batches.scheduler


def until(condition, seconds=90):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def holds_nothing(at):
    allocators = scheduler(at).cache.cache_allocators.values()
    return (
        not scheduler(at).has_pending_requests()
        and not any(allocator.block_table for allocator in allocators)
        and not at.server.batches._cb.output_router.result_handlers
    )


def test_models_and_health(at):
    assert [model.id for model in at.client.models.list()] == ["tiny"]
    assert ask(at, "/health", key=None) == (200, {"status": "ok"})


def test_chat(at):
    text = words(9)
    answer = chat(at, text)
    length = check(at, user(text), answer.choices[0].message.content, 12)
    assert answer.choices[0].finish_reason == "length" and answer.model == "tiny"
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (length, 12)
    turns = [{"role": "system", "content": words(2)}, *user([{"type": "text", "text": words(70)}])]
    answer = at.client.chat.completions.create(model="tiny", messages=turns, max_completion_tokens=5, temperature=0)
    turns[1]["content"] = turns[1]["content"][0]["text"]
    check(at, turns, answer.choices[0].message.content, 5)


def test_streams(at):
    text = words(9)
    pieces = list(chat(at, text, stream=True, stream_options={"include_usage": True}))
    said = [piece.choices[0].delta.content or "" for piece in pieces]
    assert len([piece for piece in said if piece]) > 1
    assert pieces[-1].choices[0].finish_reason == "length" and pieces[-1].usage.completion_tokens == 12
    check(at, user(text), "".join(said), 12)
    pieces = at.client.completions.create(model="tiny", prompt=text, max_tokens=7, temperature=0, stream=True)
    check(at, text, "".join(piece.choices[0].text for piece in pieces), 7)


def test_completions_and_responses(at):
    text = words(5)
    answer = at.client.completions.create(model="tiny", prompt=text, max_tokens=7, temperature=0)
    check(at, text, answer.choices[0].text, 7)
    answer = at.client.responses.create(model="tiny", input=text, max_output_tokens=7, temperature=0)
    check(at, user(text), answer.output_text, 7)
    with at.client.responses.stream(model="tiny", input=text, max_output_tokens=7, temperature=0) as events:
        said = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    check(at, user(text), said, 7)


def test_an_end_token_ends_the_answer(at):
    """The model never says its own end: one of its words is made the end."""
    text = words(6)
    answer = chat(at, text).choices[0].message.content.split()
    end = next(word for word in answer if answer.index(word) > 0)
    config = at.server.batches.model.generation_config
    config.eos_token_id = at.tokenizer.convert_tokens_to_ids(end)
    try:
        shorter = chat(at, text)
    finally:
        config.eos_token_id = None
    assert shorter.choices[0].finish_reason == "stop"
    assert shorter.choices[0].message.content.split() == answer[: answer.index(end) + 1]


def test_strings_that_end_an_answer(at):
    text = words(6)
    whole = chat(at, text, 40).choices[0].message.content
    check(at, user(text), whole, 40)
    place = int(torch.randint(4, len(whole) - 5, ()))  # also at the end
    stops = [whole[place : place + 6], "never said"]
    expected = whole[: whole.index(stops[0])]
    for way in (stops, stops[0]):
        answer = chat(at, text, 40, stop=way)
        assert answer.choices[0].message.content == expected and answer.choices[0].finish_reason == "stop"
        assert answer.usage.completion_tokens == len(expected.split())
        pieces = list(chat(at, text, 40, stop=way, stream=True))
        assert "".join(piece.choices[0].delta.content or "" for piece in pieces) == expected
        assert pieces[-1].choices[0].finish_reason == "stop"
        answer = at.client.completions.create(model="tiny", prompt=text, max_tokens=9, temperature=0, stop="never")
        check(at, text, answer.choices[0].text, 9)
    until(lambda: holds_nothing(at))


def test_text_in_pieces():
    """The pieces do not matter, nor how they are cut; nothing is held that cannot begin a string."""
    for _ in range(300):
        text = "".join("abc"[i] for i in torch.randint(0, 3, (30,)).tolist())
        strings = ["".join("abc"[i] for i in torch.randint(0, 3, (n,)).tolist()) for n in torch.randint(2, 5, (3,))]
        ends = [(text.index(s) + len(s), -len(s)) for s in strings if s in text]
        expected = text if not ends else text[: sum(min(ends))]
        stops, said, left = Stops(strings), "", text
        while left:
            n = int(torch.randint(1, 6, ()))
            said, left = said + stops.feed(left[:n]), left[n:]
        assert (stops.found is not None) == bool(ends)
        assert said + stops.rest() == expected
    assert Stops(["abc"]).feed("xyabz") == "xyabz", "nothing is held that cannot begin a string"


def test_who_names_no_length_gets_the_most(at):
    text = words(3)
    answer = at.client.chat.completions.create(model="tiny", messages=user(text), temperature=0)
    check(at, user(text), answer.choices[0].message.content, 300)


@pytest.mark.parametrize("path", PATHS)
def test_keys(at, path):
    body = None if path in ("/v1/models", "/docs", "/openapi.json") else {}
    for key, kind in ((None, "Bearer"), ("another", "Bearer"), (KEY[:-1], "Bearer"), (KEY, "Basic"), ("", "Bearer")):
        status, answer = ask(at, path, body, key, kind)
        assert status == 401 and "Authorization: Bearer" in answer["error"]["message"]
    assert ask(at, path, body)[0] != 401
    if path == "/v1/models":
        assert ask(at, path, body, kind="bearer")[0] == 200
    with pytest.raises(openai.AuthenticationError):
        at.client.with_options(api_key="another").models.list()


REFUSALS = {
    "a long prompt": (dict(messages=user(" ".join(["w1"] * 99))), 400, "has 101 tokens, more than the 100"),
    "a long answer": (dict(max_tokens=301), 400, "asks for 301 tokens, more than the 300"),
    "an answer of nothing": (dict(max_tokens=0), 400, "max_tokens is 0"),
    "a length in words": (dict(max_tokens="10"), 400, 'max_tokens is "10"'),
    "another model": (dict(model="gpt-4"), 404, '"gpt-4"'),
    "a field that nobody knows": (dict(colour="red"), 422, "colour"),
    "a hot temperature": (dict(temperature=3), 400, "temperature is 3"),
    "a temperature in words": (dict(temperature="cold"), 400, "temperature"),
    "top_p": (dict(top_p=-1), 400, "top_p"),
    "several answers": (dict(n=2), 400, "n is not supported"),
    "an empty end": (dict(stop=["w3", ""]), 400, "stop is to be"),
    "a number as end": (dict(stop=3), 400, "stop is to be"),
    "counts of words": (dict(frequency_penalty=0.5), 400, "frequency_penalty is not supported"),
    "a configuration": (dict(generation_config='{"max_new_tokens": 9999}'), 400, "generation_config"),
    "no messages": (dict(messages=[]), 400, "messages"),
    "messages of nobody": (dict(messages=[{"content": "w1"}]), 400, "role"),
    "messages as text": (dict(messages="w1"), 400, "messages"),
    "a picture": (dict(messages=user([{"type": "image_url", "image_url": {"url": "x"}}])), 400, "text"),
    "a number as content": (dict(messages=user(7)), 400, "cannot be read"),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_refusals(at, case):
    change, status, sentence = REFUSALS[case]
    body = {"model": "tiny", "messages": user("w1"), "max_tokens": 3} | change
    found, answer = ask(at, "/v1/chat/completions", body)
    assert found == status and sentence in answer["error"]["message"], answer
    assert ask(at, "/v1/chat/completions", body | {"stream": True}) == (found, answer), "before the stream begins"
    assert ask(at, "/v1/completions", {"prompt": "w1", "max_tokens": 1})[0] == 200


@pytest.mark.parametrize("body", [b"{", b"", b"[]", b'"w1"', b"\xff\xfe"])
def test_bodies_that_are_no_objects(at, body):
    for path in ("/v1/chat/completions", "/v1/completions", "/v1/responses"):
        status, answer = ask(at, path, body)
        assert status == 400 and "JSON object" in answer["error"]["message"]
    text = words(3)
    check(at, user(text), chat(at, text).choices[0].message.content, 12)


def test_paths_that_load_and_unload_models_are_not_there(at):
    for path in ("/reset", "/load_model", "/v1/audio/transcriptions", "/v1/systemone"):
        assert ask(at, path, {})[0] == 404


def test_a_prompt_of_no_tokens(at):
    status, answer = ask(at, "/v1/completions", {"prompt": "", "max_tokens": 3})
    assert status == 400 and "no tokens" in answer["error"]["message"]


def test_32_at_once(at):
    """More than are answered at once, of many lengths; half of them as streams."""
    texts = [words(n) for n in torch.randint(1, 90, (32,)).tolist()]
    lengths = torch.randint(1, 30, (32,)).tolist()

    def one(i):
        if i % 2:
            return chat(at, texts[i], lengths[i]).choices[0].message.content
        pieces = chat(at, texts[i], lengths[i], stream=True)
        return "".join(piece.choices[0].delta.content or "" for piece in pieces)

    with ThreadPoolExecutor(32) as pool:
        for text, length, answer in zip(texts, lengths, pool.map(one, range(32)), strict=True):
            check(at, user(text), answer, length)
    until(lambda: holds_nothing(at))


def test_each_request_has_its_own_temperature(at):
    """transformers has one for all of them, that of the first."""
    text = words(4)
    ways = [dict(temperature=0), dict(temperature=2), dict(temperature=1, top_p=1e-6), dict(temperature=1e-3)] * 4
    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda way: chat(at, text, 20, **way).choices[0].message.content, ways))
    drawn = [answer for way, answer in zip(ways, answers, strict=True) if way == dict(temperature=2)]
    assert len(set(drawn)) == len(drawn)
    for way, answer in zip(ways, answers, strict=True):
        if way in (dict(temperature=0), dict(temperature=1, top_p=1e-6)):
            check(at, user(text), answer, 20)


def test_names_of_requests_are_the_servers(at):
    """Two of one name would share a cache."""
    texts = [words(5), words(7)]

    def one(text):
        return chat(at, text, 20, extra_headers={"x-request-id": "mine"}).choices[0].message.content

    with ThreadPoolExecutor(2) as pool:
        for text, answer in zip(texts, pool.map(one, texts), strict=True):
            check(at, user(text), answer, 20)


def running(at):
    until(lambda: scheduler(at).active_requests)
    return next(iter(scheduler(at).active_requests.values()))


def test_a_client_that_leaves_a_stream_frees_its_pages(at):
    until(lambda: holds_nothing(at))
    stream = chat(at, words(20), 300, stream=True)
    for _ in range(3):
        next(stream)
    state = running(at)
    assert not holds_nothing(at)
    stream.close()
    until(lambda: holds_nothing(at))
    assert len(state.generated_tokens) < 300


def test_a_client_that_does_not_wait_for_its_answer_frees_its_pages(at):
    until(lambda: holds_nothing(at))
    connection = http.client.HTTPConnection("127.0.0.1", at.port)
    body = json.dumps({"prompt": words(20), "max_tokens": 300})
    connection.request("POST", "/v1/completions", body, {"Authorization": f"Bearer {KEY}"} | JSON)
    state = running(at)
    connection.close()
    until(lambda: holds_nothing(at))
    assert len(state.generated_tokens) < 300


def test_a_request_that_fails_ends_alone(at, monkeypatch):
    own = scheduler(at).add_waiting_request
    bad = at.tokenizer.convert_tokens_to_ids("w59")

    def add(state):
        if state.initial_tokens[1:4] == [bad] * 3:
            raise ZeroDivisionError('a "fault" of the tests')
        own(state)

    monkeypatch.setattr(scheduler(at), "add_waiting_request", add)
    text = words(2)
    with ThreadPoolExecutor(8) as pool:
        others = [pool.submit(chat, at, text, 25) for _ in range(4)]
        bads = [pool.submit(chat, at, "w59 w59 w59") for _ in range(2)]
        for bad_one in bads:
            with pytest.raises(openai.InternalServerError, match="fault") as error:
                bad_one.result()
            assert error.value.status_code == 500
        with pytest.raises(openai.APIError) as failed:
            list(chat(at, "w59 w59 w59", stream=True))
        assert failed.value.body == 'a "fault" of the tests'
        for other in others:
            check(at, user(text), other.result().choices[0].message.content, 25)
    until(lambda: holds_nothing(at))
    assert ask(at, "/health", key=None)[0] == 200


def test_after_a_step_that_fails_the_model_starts_again(at, monkeypatch):
    until(lambda: holds_nothing(at))
    first = at.server.batches._cb
    stream = chat(at, words(4), 300, stream=True)
    next(stream)
    running(at)

    def fail():
        raise RuntimeError("a step of the tests")

    monkeypatch.setattr(first, "_generation_step", fail)
    with pytest.raises(openai.APIError) as failed:
        list(stream)
    assert failed.value.body == "a step of the tests"
    until(lambda: first.background_thread_status.fatal_error is not None)
    assert ask(at, "/health", key=None)[0] == 503
    text = words(4)
    check(at, user(text), chat(at, text).choices[0].message.content, 12)
    assert at.server.batches._cb is not first and ask(at, "/health", key=None)[0] == 200
    until(lambda: holds_nothing(at))


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM])
def test_the_command(at, ending):
    """A free port, a warning for a server that all may use, and an end when it is told to end."""
    command = [*interpreter(), "-m", "torch_aule.llm.serve", str(at.folder), "--host", "0.0.0.0", "--port", "0",
               "--memory", "0.01", "--max-batch", "4", "--name", "small", "--no-graphs"]  # fmt: skip
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ)
    try:
        first = process.stdout.readline()
        assert first.startswith("small at http://0.0.0.0:"), (first, process.poll() and process.stderr.read())
        assert re.fullmatch(r"prompts to \d+ tokens, answers to \d+, \d+ together\n", process.stdout.readline())
        there = SimpleNamespace(port=int(first.rsplit(":", 1)[1].split("/")[0]))
        text = words(5)
        status, answer = ask(there, "/v1/completions", {"prompt": text, "max_tokens": 4, "temperature": 0}, key=None)
        assert status == 200
        check(at, text, answer["choices"][0]["text"], 4)
        process.send_signal(ending)
        _, errors = process.communicate(timeout=90)
        assert process.returncode == 0 and "--api-key asks for a key" in errors
    finally:
        if process.poll() is None:
            process.kill()


@pytest.mark.parametrize("change, sentence", [
    (["/nowhere/at/all"], "there is no folder"), (["--max-batch", "0"], "--max-batch is 0"),
    (["--api-key", ""], "the key is empty"), (["--api-key", "@/nowhere"], "/nowhere"),
    (["--memory", "2"], "--memory is 2"), (["--dtype", "floaty"], "floaty"),
    (["--cache-tokens", "999999999999"], "emory"),
])  # fmt: skip
def test_what_cannot_be_served(at, capsys, change, sentence):
    words = change if change[0].startswith("/") else [str(at.folder), *change]
    assert serve.main(options(*words)) == 1
    errors = capsys.readouterr().err.splitlines()
    assert errors[-1].startswith("error: ") and sentence in errors[-1]


def test_a_key_from_a_file(tmp_path):
    path = tmp_path / "key"
    path.write_text("secret\n")
    assert serve._key(f"@{path}") == serve._key("secret") == "secret" and serve._key(None) is None


@pytest.mark.parametrize("host, alone", [("127.0.0.1", True), ("localhost", True), ("::1", True), ("0.0.0.0", False),
                                         ("::", False), ("192.168.1.4", False), ("example.org", False)])  # fmt: skip
def test_loopback(host, alone):
    assert serve._is_loopback(host) is alone
