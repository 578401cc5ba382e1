"""python -m torch_aule.llm: what it prints, what it refuses, and a chat in a terminal."""

import io
import os
import re
import select
import signal
import subprocess
import sys
import time
import types

import pytest
import torch

pytest.importorskip("transformers")
pytest.importorskip("accelerate")

import tiny  # noqa: E402

import torch_aule.llm  # noqa: E402
from helpers import ROOT, interpreter  # noqa: E402
from torch_aule import llm  # noqa: E402
from torch_aule.llm import bench, commands, terminal  # noqa: E402
from torch_aule.llm.conversation import Conversation  # noqa: E402
from torch_aule.measure import roof  # noqa: E402
from torch_aule.quantized import random_weight  # noqa: E402


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("models") / "small"
    tiny.save(place)
    return place


@pytest.fixture
def run(capfd, monkeypatch):
    """A command in this process: its status, stdout and stderr."""

    def call(*arguments, stdin=""):
        monkeypatch.setattr(sys, "stdin", io.StringIO(stdin))
        capfd.readouterr()
        try:
            status = commands.main([str(argument) for argument in arguments])
        except SystemExit as end:  # argparse
            status = end.code
        return (status, *capfd.readouterr())

    return call


def test_generate_prints_the_answer(run, folder):
    lm = llm.load(folder, max_batch=1)
    expected = lm.generate("the cat", max_new_tokens=20)
    for prompt, stdin in (("the cat", ""), ("-", "the cat")):
        status, out, err = run("generate", folder, prompt, "--max-new-tokens", 20, stdin=stdin)
        assert (status, out, err) == (0, expected + "\n", "")
    status, out, err = run("generate", folder, "the cat", "--chat", "--max-new-tokens", 9, "--stats")
    assert status == 0 and out == lm.chat("the cat", max_new_tokens=9) + "\n"
    assert re.fullmatch(r"\[\d+ tokens of prompt, 0 of them known; .* per second\]\n", err)


def test_keys_and_values_in_8_bits(run, tmp_path, monkeypatch):
    tiny.save(tmp_path, head_dim=32)
    expected = llm.load(tmp_path, max_batch=1, kv_cache_dtype="int8").generate("the cat", max_new_tokens=20)
    made, begin = [], llm.Runner.__init__
    monkeypatch.setattr(llm.Runner, "__init__", lambda self, *a, **k: made.append(self) or begin(self, *a, **k))
    options = ["--kv-cache", "int8"]
    assert run("generate", tmp_path, "the cat", "--max-new-tokens", 20, *options) == (0, expected + "\n", "")
    status, out, _ = run("chat", tmp_path, "--max-new-tokens", 5, *options, stdin="the cat\n")
    assert status == 0 and out
    status, out, _ = run("bench", tmp_path, "-p", 9, "-n", 3, "--repeats", 1, *options)
    assert status == 0 and "tg3" in out
    assert [runner.kv_cache_dtype for runner in made] == ["int8"] * 3


def test_generate_draws_by_its_options(run, folder):
    options = ["--temperature", 1.5, "--top-k", 50, "--top-p", 0.95, "--min-p", 0.01, "--repetition-penalty", 1.1]
    once, again, other = (
        run("generate", folder, "the", "--max-new-tokens", 20, *options, "--seed", seed)[1] for seed in (1, 1, 2)
    )
    assert once == again != other
    lm = llm.load(folder, max_batch=1)
    assert run("generate", folder, "the", "--temperature", 5, "--top-k", 1, "--max-new-tokens", 8)[1] == (
        lm.generate("the", max_new_tokens=8) + "\n"
    )


@pytest.mark.parametrize("strategy", ["lookup", "jacobi", "self", "draft"])
def test_strategies_give_the_same_text(run, folder, strategy, monkeypatch):
    plain = run("generate", folder, "the the the", "--max-new-tokens", 16)[1]
    more = ["--draft-model", folder] if strategy == "draft" else []
    made = []
    owner = commands.STRATEGIES[strategy]
    monkeypatch.setitem(commands.STRATEGIES, strategy, lambda *a, **k: made.append(owner(*a, **k)) or made[-1])
    options = ["--max-new-tokens", 16, "--strategy", strategy, "--guesses", 3, *more]
    assert run("generate", folder, "the the the", *options)[1] == plain
    assert type(made[0]) is owner and made[0].guesses == 3


def test_what_cannot_be_is_one_sentence(run, folder, tmp_path):
    base = tmp_path / "base"
    tiny.save(base, template=None)
    for arguments, message in (
        (["generate", tmp_path / "nothing", "x"], "there is no such file or folder"),
        (["generate", folder], "required: PROMPT"),
        (["generate", folder, "x", "--dtype", "int3"], "invalid choice"),
        (["generate", folder, ""], "prompt"),
        (["generate", folder, "x", "--temperature", "-1"], "temperature"),
        (["generate", folder, "x", "--max-new-tokens", "0"], "max_new_tokens"),
        (["generate", folder, "x" * 90, "--max-len", "64"], "max_len is 64"),
        (["generate", folder, "x", "--guesses", "3"], "--guesses needs"),
        (["generate", folder, "x", "--strategy", "draft"], "needs a --draft-model"),
        (["generate", folder, "x", "--draft-model", folder], "needs --strategy draft"),
        (["generate", folder, "x", "--strategy", "jacobi", "--guesses", "99"], "0 to 15 guesses"),
        (["generate", folder, "x", "--strategy", "jacobi", "--repetition-penalty", "1.2"], "penalties"),
        (["generate", folder, "x", "--kv-cache", "int8"], "have a head_dim of 16"),
        (["generate", folder, "x", "--device", "aule:99"], "the last is aule:"),
        (["generate", folder, "x", "--device", "moon"], "no device 'moon'"),
        (["generate", base, "x", "--chat"], "no chat template"),
        (["chat", base], "no chat template"),
        (["chat", folder, "--top-p", "3"], "top_p"),
        (["chat", folder, "--max-new-tokens", "0"], "at least 1"),
        (["bench"], "a MODEL or --random"),
        (["bench", "--random", "llama-1t"], "llama-1b"),
        (["bench", folder, "--batch", "1,0"], "--batch"),
        (["bench", folder, "--batch", "99"], "max_batch"),
        (["bench", folder, "--repeats", "0"], "--repeats"),
        (["bench", folder, "--format", "q8_0"], "--random"),
        (["sing"], "invalid choice"),
        ([], "required"),
    ):
        status, out, err = run(*arguments)
        assert status == 2 and out == "" and message in err, (arguments, err)
        assert err.count("\n") == 1 and "Traceback" not in err


def test_the_server_is_loaded_when_it_is_asked_for(run, monkeypatch):
    """A module in its place: the program gives it the parser and calls it."""
    calls = []

    def main(args):
        calls.append(args.port)
        return 7

    module = types.ModuleType("torch_aule.llm.serve")
    module.add_arguments = lambda p: p.add_argument("--port", type=int)
    module.main = main
    monkeypatch.setitem(sys.modules, "torch_aule.llm.serve", module)
    monkeypatch.setattr(torch_aule.llm, "serve", module, raising=False)
    assert run("serve", "--port", 80)[0] == 7 and calls == [80]


def test_bench(run, folder, tmp_path, monkeypatch):
    measured = roof.measure(keep=False, copy_bytes=1 << 22, largest=64)
    monkeypatch.setattr(roof, "load", lambda device=None: measured)
    options = ["-p", 20, "-n", 6, "--repeats", 2]
    status, out, err = run("bench", folder, *options, "--batch", "1,3")
    head, columns, _, *rows = out.splitlines()
    assert status == 0 and err == "" and f"{measured.bandwidth / 1e9:.1f} GB/s" in head
    assert [cell.strip() for cell in columns.strip("|").split("|")] == list(bench.HEAD)
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    assert [row[4] for row in cells] == ["pp20", "tg6", "tg6 x 3"]
    lm = llm.load(folder)
    assert {tuple(row[:4]) for row in cells} == {
        ("small F32", f"{lm.elements * 4 / 1024:.1f} KiB", f"{lm.elements / 1e6:.2f} M", "aule")
    }
    embedding = lm.model.get_input_embeddings().weight.numel()
    each = lm.model.config.num_hidden_layers * 2 * 2 * 16 * 4  # keys and values of two heads of 16 numbers
    for row, batch in zip(cells[1:], (1, 3)):
        mean, deviation = (float(x) for x in row[5].split(" +- "))
        buffers = sum(b.numel() * 4 for b in lm.model.buffers())
        moved = (lm.elements - embedding) * 4 + batch * (2 + 3) * each
        low, high = (batch * measured.bandwidth / (moved + more) for more in (buffers, 0))
        assert low * 0.999 - 0.01 <= float(row[6]) <= high * 1.001 + 0.01
        assert mean > 0 and deviation >= 0
        assert float(row[7].rstrip(" %")) == pytest.approx(100 * mean / float(row[6]), abs=0.06)
    assert cells[0][6:] == ["-", "-"]
    config = folder / "config.json"
    status, out, err = run("bench", "--random", config, "--dtype", "bfloat16", *options[:2], "-n", 0, "--repeats", 1)
    rows = out.splitlines()[3:]
    assert status == 0 and len(rows) == 1
    assert "llama bfloat16" in rows[0] and f"{lm.elements * 2 / 1024:.1f} KiB" in rows[0] and "+- 0.00" in rows[0]
    options = ("-p", 0, "-n", 2, "--repeats", 1)
    for form in ("q8_0", "int4", "int8"):
        status, out, err = run("bench", "--random", config, "--dtype", "bfloat16", "--format", form, *options)
        (row,) = out.splitlines()[3:]
        size = 2 * lm.elements  # with the linear layers in the format instead
        for module in lm.model.modules():
            if isinstance(module, torch.nn.Linear):
                n, k = module.weight.shape
                packed, scales, _ = random_weight(form, n, k, "cpu")
                size += packed.numel() + sum(4 * s.numel() for s in scales) - 2 * n * k
        assert status == 0 and f"llama {form.upper()}" in row and f"{size / 1024:.1f} KiB" in row
        assert f"{lm.elements / 1e6:.2f} M" in row


def test_known_configurations_are_those_models():
    for name, expected in (
        ("llama-1b", 1.2358e9),
        ("llama-3b", 3.2127e9),
        ("llama-8b", 8.0303e9),
        ("qwen3-0.6b", 5.96e8),
    ):
        with torch.device("meta"):
            config = bench.AutoConfig.for_model(**bench.CONFIGURATIONS[name])
            count = sum(p.numel() for p in bench.AutoModelForCausalLM.from_config(config).parameters())
        assert count == pytest.approx(expected, rel=1e-3), name


def test_bytes_of_a_step_with_experts(tmp_path):
    """Two of four experts for each token: all of them are read by many sequences, half by one."""
    tiny.save(tmp_path, "mixtral")
    lm = llm.load(tmp_path, max_len=64)
    traffic = bench.traffic_of(lm.model, lm.runner)
    experts = sum(p.numel() * 4 for n, p in lm.model.named_parameters() if ".experts." in n)
    assert experts > 0 and sum(size for size, _ in traffic.experts) == experts
    one, many = (traffic.of_step(batch, 0) - traffic.weights for batch in (1, 50))
    assert one == pytest.approx(experts / 2) and many == pytest.approx(experts, rel=1e-6)
    assert traffic.of_step(2, 10) - traffic.of_step(2, 0) == 2 * 10 * traffic.row > 0


# A chat


@pytest.fixture(scope="module")
def lm(folder):
    return llm.load(folder, max_batch=1, max_len=256, page_size=16)


def test_a_second_turn_reads_what_is_new(lm):
    lm.runner.books.clear()
    chat = Conversation(lm, "in the", max_new_tokens=20, stop_tokens=())
    first = "".join(chat.say("the house over there"))
    before = chat.request
    assert chat.messages[1:] == [
        {"role": "user", "content": "the house over there"}, {"role": "assistant", "content": first},
    ]  # fmt: skip
    list(chat.say("then"))
    known = before.prompt + before.tokens
    assert chat.request.prompt[: len(known)] == known
    assert chat.request.shared == (len(known) - 1) // 16 * 16 > 16
    assert chat.request.prompt[len(known) :] == lm.encode("<end><user>then<end><assistant>")
    assert chat.system == "in the" and len(chat.messages) == 5
    chat.begin()
    assert chat.messages == [] and chat.system is None


def test_an_answer_that_is_left_stays_as_far_as_it_came(lm):
    chat = Conversation(lm, stop_tokens=())
    said = ""
    for piece in chat.say("the"):
        said += piece
        if len(said) > 3:
            break
    assert lm.runner.is_idle
    assert chat.messages[-1] == {"role": "assistant", "content": said}
    list(piece for piece, _ in zip(chat.say("in"), range(2)))
    assert chat.request.prompt[: len(lm.encode("<user>the<end><assistant>"))] == lm.encode("<user>the<end><assistant>")


def test_the_oldest_turns_make_room(lm):
    chat = Conversation(lm, "er", max_new_tokens=30, stop_tokens=())
    dropped = 0
    for turn in range(12):
        list(chat.say(f"number {turn} " + "the " * 8))
        dropped += chat.dropped
        assert len(chat.request.prompt) + 30 <= 256
    assert dropped > 4 and chat.messages[0] == {"role": "system", "content": "er"}
    assert len(chat.messages) == 1 + 2 * 12 - dropped and chat.messages[1]["role"] == "user"
    before = list(chat.messages)
    with pytest.raises(ValueError, match="the message has .* tokens, but the context has room for 255"):
        list(chat.say("x" * 400))
    assert chat.messages == before


def test_what_a_template_refuses(tmp_path):
    tiny.save(
        tmp_path, template="{% if messages[0].role == 'system' %}{{ raise_exception('no system') }}{% endif %}the"
    )
    lm = llm.load(tmp_path, max_batch=1, max_len=64)
    with pytest.raises(ValueError, match="template refuses the messages: no system"):
        Conversation(lm, "in")
    chat = Conversation(lm)
    with pytest.raises(ValueError, match="refuses"):
        chat.begin("in")
    assert chat.messages == []


def test_chat_of_lines_that_are_no_terminal(run, folder):
    options = ["--temperature", 0, "--max-new-tokens", 5]
    status, out, err = run("chat", folder, *options, stdin="the\n\n/help\n/nothing\n/system in\nthe\n/exit\nthe\n")
    lm = llm.load(folder, max_batch=1)
    told = [{"role": "system", "content": "in"}, {"role": "user", "content": "the"}]
    answers = [lm.chat(messages, max_new_tokens=5).lstrip() for messages in ("the", told)]
    assert status == 0 and out == "".join(answer + "\n" for answer in answers if answer)
    assert "/reset" in err and "there is no /nothing" in err and err.count("the chat begins anew") == 1
    assert "small" in err and "room for 1024 tokens" in err and err.count("it has --max-new-tokens") == 2
    lines = "the\n" + "x" * 99 + "\n" + "in\n" * 5
    status, out, err = run("chat", folder, *options, "--max-len", 40, stdin=lines)
    assert status == 0 and err.count("it has --max-new-tokens") == 6
    assert "[the message has 10" in err
    # A broken character is one token where it was drawn, and three where the chat without its beginning is read again.
    assert re.search(r"\[the context is full: the oldest [2468] messages left out\]", err)


def test_steering_characters_do_not_reach_a_terminal(monkeypatch, capsys):
    text = "a\x1b[2J\tb\n\x9bc\u20ac"
    terminal.show(text)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    terminal.show(text)
    assert capsys.readouterr().out == text + "a\ufffd[2J\tb\n\ufffdc\u20ac"


class Terminal:
    """A program in a terminal of its own."""

    def __init__(self, *arguments):
        import pty

        self.master, other = pty.openpty()
        command = [*interpreter(), "-m", "torch_aule.llm", *map(str, arguments)]
        folders = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
        self.process = subprocess.Popen(
            command, stdin=other, stdout=other, stderr=other, cwd=ROOT, start_new_session=True,
            env={**os.environ, "PYTHONPATH": folders, "TERM": "dumb"},
        )  # fmt: skip
        os.close(other)
        self.text, self.all = "", ""

    def type(self, line):
        os.write(self.master, line.encode())

    def until(self, pattern, seconds=120):
        """What came up to a text."""
        end = time.monotonic() + seconds
        while not (found := re.search(pattern, self.text)):
            assert time.monotonic() < end, f"no {pattern!r} in {self.all!r}"
            if select.select([self.master], [], [], 0.2)[0]:
                try:
                    new = os.read(self.master, 4096).decode(errors="replace")
                except OSError:
                    new = ""
                assert new, f"ended: {self.all!r}"
                self.text += new
                self.all += new
        before, self.text = self.text[: found.end()], self.text[found.end() :]
        return before

    def interrupt(self, pattern):
        """Ctrl-C, again if Python was between two places where it notices one, until a text comes."""
        for _ in range(20):
            self.process.send_signal(signal.SIGINT)
            try:
                return self.until(pattern, 3)
            except AssertionError:
                assert self.process.poll() is None
        raise AssertionError(f"Ctrl-C did nothing: {self.all!r}")

    def interrupt_until_it_ends(self):
        for _ in range(4):
            self.process.send_signal(signal.SIGINT)
            try:
                return self.process.wait(30)  # an ending program is left alone
            except subprocess.TimeoutExpired:
                pass

    def close(self):
        self.process.kill()
        self.process.wait(30)
        os.close(self.master)


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="terminals are of POSIX")
@pytest.mark.parametrize("end", ["/exit\n", "Ctrl-C twice"])
def test_a_chat_in_a_terminal(tmp_path, end):
    """Ctrl-C ends an answer and not the chat, whose next turn goes on."""
    tiny.save(tmp_path, max_position_embeddings=8192)
    terminal = Terminal("chat", tmp_path, "--temperature", "0", "--max-len", "4096")
    try:
        terminal.until("> $")
        if end == "/exit\n":
            terminal.type("the house\n")
            terminal.until(r"the house\r\n")
            terminal.until(r"\S\S\S")  # the answer is under way
            terminal.process.send_signal(signal.SIGINT)
            terminal.until(r"\[stopped\]\r\n> $")
            terminal.type("/system in\n")
            terminal.until(r"begins anew\]\r\n> $")
            terminal.type("in\n")
            terminal.until(r"in\r\n")
            terminal.until(r"\S\S\S")
            terminal.process.send_signal(signal.SIGINT)
            terminal.until(r"\[stopped\]\r\n> $")
        if end == "Ctrl-C twice":
            time.sleep(0.5)
            terminal.interrupt(r"Ctrl-C again, .* ends the chat\)\r\n> $")
            terminal.interrupt_until_it_ends()
        else:
            terminal.type(end)
        assert terminal.process.wait(120) == 0, terminal.all
        assert "Traceback" not in terminal.all
    finally:
        terminal.close()


def test_interrupts(run, folder, monkeypatch):
    """The first ends an answer where it is; a second one is Python's own."""
    seen = []

    def show(piece):
        seen.append(piece)
        if len(seen) == 2:
            os.kill(os.getpid(), signal.SIGINT)

    before = signal.getsignal(signal.SIGINT)
    monkeypatch.setattr(commands, "show", show)
    assert run("generate", folder, "the", "--max-new-tokens", 200)[0] == 130
    assert len(seen) == 3 and seen[-1] == "\n"
    with pytest.raises(KeyboardInterrupt), terminal.Interrupts() as interrupts:
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGINT)
            assert interrupts.came
    assert signal.getsignal(signal.SIGINT) is before


def test_a_reader_that_has_gone():
    """As of `generate ... | head -1`: nothing is said about it."""
    script = "import os, sys; from torch_aule.llm import commands; commands._bench = lambda args: "
    script += "[print('x' * 9999, flush=True) for _ in range(99)]; sys.exit(commands.main(['bench']))"
    command = [*interpreter(), "-c", "import torch_aule; " + script]
    folders = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT,
                          env={**os.environ, "PYTHONPATH": folders}) as process:  # fmt: skip
        process.stdout.close()
        assert process.wait(120) == 0 and process.stderr.read() == b""
