"""torch_aule.llm.Runner: the tokens of transformers' greedy decoding, whoever joins, leaves or guesses."""

import copy
import random

import pytest
import torch

transformers = pytest.importorskip("transformers")

from families import FAMILIES, RECURRENT, VOCABULARY, check_greedy, family, make, prompts  # noqa: E402

from torch_aule import llm  # noqa: E402
from torch_aule.llm import engine, recording  # noqa: E402

NEW = 24
STRATEGIES = {
    "plain": lambda model: None,
    "lookup": lambda model: llm.PromptLookup(5),
    "jacobi": lambda model: llm.Jacobi(3),
    "self": lambda model: llm.SelfSpeculative(2, 3),
    "draft": lambda model: llm.DraftModel(model, 2),
}


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("name", FAMILIES)
def test_tokens_are_those_of_greedy_decoding(name, strategy):
    """Five texts of different lengths for three slots: they join and leave."""
    reference, model = family(name)
    make_strategy = STRATEGIES[strategy]
    if name in RECURRENT and strategy != "plain":
        with pytest.raises(llm.UnsupportedModelError, match="recurrent"):
            llm.Runner(model, strategy=make_strategy(model))
        return
    runner = llm.Runner(model, max_batch=3, max_len=256, strategy=make_strategy(model))
    texts = prompts(1, 17, 40, 3, 150)
    answers = runner.generate(texts, max_new_tokens=NEW)
    for text, answer in zip(texts, answers):
        assert len(answer) == NEW
        check_greedy(reference, text, answer)
    assert runner.is_idle and runner.books.in_use == 0


def test_transformers_says_the_same():
    """The family's answers vary, and are those of generate() on the CPU but for ties."""
    reference, model = family("llama")
    runner = llm.Runner(model, max_batch=4, max_len=64)
    texts = prompts(9, 9, 9, 9)
    answers = runner.generate(texts, max_new_tokens=16)
    expected = reference.generate(torch.tensor(texts), max_new_tokens=16, do_sample=False)[:, 9:].tolist()
    assert sum(a == e for a, e in zip(answers, expected)) >= 3  # a tie within 1e-5 is one in thousands
    assert all(len(set(answer)) > 3 for answer in answers)


@pytest.mark.parametrize("graphs", [True, False])
@pytest.mark.parametrize("name", ["llama", "mamba2"])
def test_joining_leaving_and_cancelling(name, graphs):
    reference, model = family(name)
    runner = llm.Runner(model, max_batch=5, max_len=128, graphs=graphs, page_size=16)
    running, ended, left = [], [], 14
    while left or not runner.is_idle:
        if left and random.random() < 0.5:
            (text,) = prompts(random.randint(1, 60))
            running.append(runner.add(text, max_new_tokens=random.randint(1, 30)))
            left -= 1
        if running and random.random() < 0.15:
            runner.cancel(random.choice(running))
        runner.step()
        ended += [request for request in running if request.finished]
        running = [request for request in running if not request.finished]
    assert len(ended) == 14 and runner.books.in_use == 0 and runner.waiting == 0
    for request in ended:
        if request.finished == "length":
            assert len(request.tokens) == request.max_new_tokens
        if request.tokens:
            check_greedy(reference, request.prompt, request.tokens)


@pytest.mark.parametrize("fuse", [True, False])
@pytest.mark.parametrize("name", FAMILIES)
def test_recorded_prompts(name, fuse, monkeypatch):
    """Lengths at, below and beyond the sizes that are recorded, in pieces, behind a known prefix."""
    monkeypatch.setattr(recording, "PROMPT_SIZES", (16, 24, 48))
    reference, model = family(name)
    runner = llm.Runner(model, max_batch=2, max_len=128, page_size=16, record_prompts=True, fuse=fuse)
    assert (runner.engine.recorder is None) == (name in RECURRENT)
    texts = prompts(1, 16, 17, 48, 49, 100)
    texts.append(texts[-1][:70] + prompts(5)[0])
    for text, answer in zip(texts, runner.generate(texts, max_new_tokens=8)):
        check_greedy(reference, text, answer)
    if name not in RECURRENT:
        assert set(runner.engine.recorder._graphs) == {16, 24, 48}
    assert runner.books.in_use == 0


@pytest.mark.parametrize("strategy", ["plain", "draft"])
def test_the_last_position(strategy):
    """Positions are learned, and there is none behind max_len, where steps and padding compute for nothing."""
    config = transformers.GPT2Config(
        vocab_size=VOCABULARY, n_embd=64, n_layer=2, n_head=4, n_positions=64, bos_token_id=1, eos_token_id=None,
    )  # fmt: skip
    reference = transformers.GPT2LMHeadModel(config).eval()
    with torch.no_grad():
        for parameter in reference.parameters():
            if parameter.dim() > 1:
                parameter.normal_(0, 1.5 / parameter.size(0) ** 0.5)
    model = copy.deepcopy(reference).to("aule")
    runner = llm.Runner(
        model, max_batch=2, max_len=64, page_size=16, strategy=STRATEGIES[strategy](model), record_prompts=True
    )
    texts = prompts(55, 33)
    for text, answer in zip(texts, runner.generate(texts, max_new_tokens=50)):
        assert len(text + answer) == 64
        check_greedy(reference, text, answer)
    torch.aule.synchronize()


def test_a_step_allocates_nothing():
    _, model = family("qwen3")
    runner = llm.Runner(model, max_batch=2, max_len=128)
    requests = [runner.add(text, max_new_tokens=60) for text in prompts(5, 9)]
    for _ in range(4):
        runner.step()

    def count():
        stats = torch.aule.memory_stats()
        return stats["allocation.all.allocated"], stats["segment.all.allocated"]

    before = count()
    for _ in range(40):
        runner.step()
    assert count() == before
    assert all(len(request.tokens) > 40 for request in requests)


def test_prefixes_are_computed_once(monkeypatch):
    reference, model = family("llama")
    runner = llm.Runner(model, max_batch=2, max_len=256, page_size=16)
    seen = []
    forward = engine.Engine.forward
    monkeypatch.setattr(
        engine.Engine, "forward", lambda self, ids, *a, **k: (seen.append(ids.size(1)), forward(self, ids, *a, **k))[1]
    )
    (start,) = prompts(70)
    ends = prompts(5, 9)
    first = runner.add(start + ends[0], max_new_tokens=20)
    while not first.finished:
        runner.step()
    # A recorded prompt is padded to the next of some sizes.
    whole, rest = ((75, 15) if runner.engine.recorder is None else (96, 16))
    assert whole in seen and first.shared == 0
    seen.clear()
    second = runner.add(start + ends[1], max_new_tokens=20)
    third = runner.add(first.prompt + first.tokens, max_new_tokens=20)  # the next turn of a chat
    while not (second.finished and third.finished):
        runner.step()
    assert (second.shared, third.shared) == (64, 80) and rest in seen and not any(n > 16 for n in seen)
    for request in (first, second, third):
        check_greedy(reference, request.prompt, request.tokens)


def test_no_page_is_lost():
    """After a thousand cancelled requests, at every stage: waiting, new, running."""
    _, model = family("llama")
    runner = llm.Runner(model, max_batch=4, max_len=64, page_size=16, graphs=False)
    texts = prompts(*(random.randint(1, 40) for _ in range(50)))
    requests = []
    for i in range(1000):
        requests.append(runner.add(texts[i % 50], max_new_tokens=20))
        if i % 8 == 7:
            runner.step()
            for request in requests:
                runner.cancel(request)
            requests.clear()
    assert runner.is_idle and runner.books.in_use == 0
    runner.step()
    assert not runner.slots.table.any() and not runner.slots.active.any()
    assert len(runner.generate([texts[0]], max_new_tokens=3)[0]) == 3


def test_more_sequences_than_the_cache_holds_wait():
    reference, model = family("llama")
    runner = llm.Runner(model, max_batch=4, max_len=64, page_size=16, tokens=128)
    texts = prompts(30, 31, 32, 33, 10)
    requests = [runner.add(text, max_new_tokens=8) for text in texts]
    runner.step()
    assert runner.running == 2 and runner.waiting == 3
    while not runner.is_idle:
        runner.step()
    for request in requests:
        check_greedy(reference, request.prompt, request.tokens)
    with pytest.raises(MemoryError, match="needs .* pages"):
        llm.Runner(model, max_len=256, page_size=16, tokens=64).add(texts[0], max_new_tokens=200)


@pytest.mark.parametrize("name", ["gemma3", "gptoss", "mamba2"])
def test_long_prompts_in_pieces(name, monkeypatch):
    monkeypatch.setattr(engine, "PROMPT_AT_ONCE", 37)
    reference, model = family(name)
    runner = llm.Runner(model, max_batch=2, max_len=256, page_size=16)
    texts = prompts(130, 38)
    for text, answer in zip(texts, runner.generate(texts, max_new_tokens=8)):
        check_greedy(reference, text, answer)


def test_options_of_each_sequence():
    """A draw among one token is the likeliest; penalties change it; neighbours have options of their own."""
    reference, model = family("llama")
    runner = llm.Runner(model, max_batch=4, max_len=64)
    texts = prompts(6, 7, 8, 9)
    options = [
        {},
        {"temperature": 0.7, "top_k": 1},
        {"temperature": 2.0, "top_p": 0.0},
        {"repetition_penalty": 1.8},
    ]
    requests = [runner.add(text, max_new_tokens=12, **given) for text, given in zip(texts, options)]
    while not runner.is_idle:
        runner.step()
    for request in requests:
        check_greedy(reference, request.prompt, request.tokens, request.repetition_penalty)
    free = runner.add(texts[0], max_new_tokens=12, frequency_penalty=1e4)
    while not free.finished:
        runner.step()
    assert len(set(free.tokens)) == 12  # nothing twice


@pytest.mark.parametrize("strategy", [None, "lookup"])
def test_draws_follow_the_probabilities(strategy):
    """The second token's counts, with and without guesses, lie where Bernstein's inequality has all but e^-30."""
    reference, model = family("llama")
    guesses = None if strategy is None else STRATEGIES[strategy](model)
    runner = llm.Runner(model, max_batch=32, max_len=32, page_size=16, strategy=guesses)
    text = prompts(4)[0] * 2
    answers = runner.generate([text] * 512, max_new_tokens=2, temperature=1.3, top_k=6)
    with torch.no_grad():
        z = reference(input_ids=torch.tensor([text])).logits[0, -1].double() / 1.3
    z[z < z.topk(6).values[-1]] = -torch.inf
    p = z.softmax(0)
    counts = torch.tensor([answer[0] for answer in answers]).bincount(minlength=VOCABULARY)
    bound = 10 + (100 + 60 * 512 * p * (1 - p)).sqrt()
    assert bool(((counts - 512 * p).abs() <= bound).all())
    first = int(counts.argmax())
    with torch.no_grad():
        z = reference(input_ids=torch.tensor([text + [first]])).logits[0, -1].double() / 1.3
    z[z < z.topk(6).values[-1]] = -torch.inf
    p = z.softmax(0)
    seconds = torch.tensor([answer[1] for answer in answers if answer[0] == first])
    counts = seconds.bincount(minlength=VOCABULARY)
    bound = 10 + (100 + 60 * len(seconds) * p * (1 - p)).sqrt()
    assert bool(((counts - len(seconds) * p).abs() <= bound).all())


def test_steps_that_are_recorded_ahead():
    reference, model = family("llama")
    runner = llm.Runner(model, max_batch=3, max_len=64)
    runner.record(("greedy", "sampled", "penalties"))
    recorded = dict(runner._recorder._graphs)
    assert set(recorded) == {(n, mode) for n in (1, 2, 3) for mode in ("greedy", "sampled", "penalties")}
    texts = prompts(5, 9, 14)
    for text, answer in zip(texts, runner.generate(texts, max_new_tokens=6)):
        check_greedy(reference, text, answer)
    answer = runner.generate(texts[:1], max_new_tokens=6, repetition_penalty=1.5)[0]
    check_greedy(reference, texts[0], answer, 1.5)
    assert runner._recorder._graphs == recorded


def test_stop_tokens_and_streams():
    reference, model = family("llama")
    runner = llm.Runner(model, max_batch=2, max_len=64, strategy=llm.Jacobi(3))
    (text,) = prompts(12)
    whole = runner.generate([text], max_new_tokens=20)[0]
    stop = whole[7]
    cut = whole[: whole.index(stop) + 1]
    request = runner.add(text, max_new_tokens=20, stop_tokens=[stop])
    while not request.finished:
        runner.step()
    assert request.tokens == cut and request.finished == "stop"
    assert list(runner.stream(text, max_new_tokens=20)) == whole
    for token in runner.stream(text, max_new_tokens=20):
        assert token == whole[0]
        break
    assert runner.is_idle and runner.books.in_use == 0
    (long,) = prompts(60)
    assert len(runner.generate([long], max_new_tokens=20)[0]) == 4  # max_len


def test_snapshots():
    reference, model = family("mistral")
    runner = llm.Runner(model, max_batch=2, max_len=128, page_size=16)
    (text,) = prompts(40)
    request = runner.add(text, max_new_tokens=30)
    for _ in range(12):
        runner.step()
    snapshot = runner.snapshot_kv_cache(request)
    assert len(snapshot.tokens) % 16 == 0 and len(snapshot.tokens) >= 32
    other = llm.Runner(model, max_batch=1, max_len=128, page_size=16)
    assert other.restore_kv_cache(snapshot) == len(snapshot.tokens)
    again = other.add(text, max_new_tokens=30)
    while not again.finished:
        other.step()
    assert again.shared == 32
    check_greedy(reference, text, again.tokens)
    with pytest.raises(ValueError, match="another size"):
        llm.Runner(model, max_len=64, page_size=32).restore_kv_cache(snapshot)
    runner.cancel(request)
    with pytest.raises(ValueError, match="no slot"):
        runner.snapshot_kv_cache(request)


def test_the_model_is_as_before():
    reference, model = family("gemma3")
    names = [model.config._attn_implementation]
    forward = model.forward
    runner = llm.Runner(model, max_batch=1, max_len=64)
    (text,) = prompts(8)
    answer = runner.generate([text], max_new_tokens=6)[0]
    assert [model.config._attn_implementation] == names and model.forward == forward
    own = model.generate(torch.tensor([text], device="aule"), max_new_tokens=6, do_sample=False)[0, 8:].tolist()
    check_greedy(reference, text, answer)
    check_greedy(reference, text, own)


def test_half_precision():
    """Tokens of bfloat16 are likely ones of the reference: within a few roundings of 2^-8 of its largest logit."""
    reference, model = make("llama")
    runner = llm.Runner(model.bfloat16(), max_batch=2, max_len=64)
    for text, answer in zip(texts := prompts(9, 20), runner.generate(texts, max_new_tokens=12)):
        with torch.no_grad():
            logits = reference(input_ids=torch.tensor([text + answer])).logits[0]
        for i, token in enumerate(answer):
            row = logits[len(text) + i - 1]
            assert row[token] >= row.max() - 0.25 * row.std()


def test_beams_are_those_of_transformers():
    """The model of a runner answers by itself too: its own generate, with caches of transformers."""
    reference, model = make("qwen3")
    llm.Runner(model, max_batch=1, max_len=64)
    (text,) = prompts(9)
    beams = model.generate(torch.tensor([text], device="aule"), num_beams=3, max_new_tokens=6, do_sample=False)
    tokens = beams[0].tolist()
    with torch.no_grad():
        logits = reference(input_ids=torch.tensor([tokens])).logits[0, len(text) - 1 : -1].log_softmax(-1)
        own = logits.gather(1, torch.tensor(tokens[len(text) :])[:, None]).sum()
        known = reference.generate(torch.tensor([text]), num_beams=3, max_new_tokens=6, do_sample=False)[0]
        logits = reference(input_ids=known[None]).logits[0, len(text) - 1 : -1].log_softmax(-1)
        best = logits.gather(1, known[len(text) :, None]).sum()
    assert own >= best - 1e-3


class Shared(torch.nn.Module):
    """An attention that reads the keys of another layer, which the cache does not see."""

    def __init__(self, inner, other):
        super().__init__()
        self.inner, self.other = inner, [other]

    def forward(self, hidden_states, cache=None, past_key_values=None, **kwargs):
        return self.inner(hidden_states=hidden_states, **kwargs)


def test_an_attention_beside_the_cache_is_refused_at_once():
    _, model = make("llama")
    layers = model.model.layers
    layers[1].self_attn = Shared(layers[1].self_attn, layers[0].self_attn)
    with pytest.raises(llm.UnsupportedModelError):
        llm.Runner(model, max_batch=1, max_len=64)


def test_errors():
    _, model = family("llama")
    runner = llm.Runner(model, max_batch=1, max_len=32, strategy=llm.Jacobi(2))
    cases = [
        (ValueError, "max_batch between 1 and 32", lambda: llm.Runner(model, max_batch=33)),
        (ValueError, "max_len", lambda: llm.Runner(model, max_len=1)),
        (ValueError, "prompt of at least one token", lambda: runner.add([])),
        (ValueError, "prompt has 32 tokens, but max_len is 32", lambda: runner.add([1] * 32)),
        (ValueError, "temperature", lambda: runner.add([1], temperature=-1.0)),
        (ValueError, "top_p between", lambda: runner.add([1], top_p=1.5)),
        (ValueError, "penalties", lambda: runner.add([1], presence_penalty=1.0)),
        (ValueError, "0 to 15 guesses", lambda: llm.Jacobi(16)),
        (ValueError, "ngram", lambda: llm.PromptLookup(2, 0)),
        (ValueError, "1 to 4 layers", lambda: llm.Runner(model, strategy=llm.SelfSpeculative(5))),
        (
            llm.UnsupportedModelError,
            "vocabulary of 97",
            lambda: llm.Runner(model, strategy=llm.DraftModel(make("llama", vocab_size=64)[1])),
        ),
        (
            llm.UnsupportedModelError,
            "recurrent",
            lambda: llm.Runner(model, strategy=llm.DraftModel(family("mamba2")[1])),
        ),
    ]
    for kind, message, call in cases:
        with pytest.raises(kind, match=message):
            call()
