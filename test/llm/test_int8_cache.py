"""Runners whose keys and values are kept in 8 bits, beside transformers on the CPU with a cache that rounds alike."""

import copy

import pytest
import torch

transformers = pytest.importorskip("transformers")

from families import VOCABULARY, make, prompts  # noqa: E402
from transformers.cache_utils import DynamicCache  # noqa: E402

from int8_blocks import numbers_of, quantized, rounded  # noqa: E402
from torch_aule import llm  # noqa: E402
from torch_aule.llm import recording  # noqa: E402
from torch_aule.llm.cache import cache_argument  # noqa: E402
from torch_aule.llm.loading import cache_bytes  # noqa: E402

STRATEGIES = {
    "plain": lambda model: None,
    "lookup": lambda model: llm.PromptLookup(5),
    "jacobi": lambda model: llm.Jacobi(3),
    "self": lambda model: llm.SelfSpeculative(2, 3),
    "draft": lambda model: llm.DraftModel(model, 2),
}
FEW = 16  # queries that read the cache whatever they are


class Rounding(DynamicCache):
    """Keeps what 8 bits say. `fresh`: attention of a prompt of more than a few tokens reads what was computed."""

    def __init__(self, config, fresh: bool):
        super().__init__(config=config)
        self.fresh = fresh

    def update(self, key_states, value_states, layer_idx, *args, **kwargs):
        begins = self.get_seq_length(layer_idx) == 0
        kept = super().update(rounded(key_states), rounded(value_states), layer_idx, *args, **kwargs)
        return (key_states, value_states) if self.fresh and begins and key_states.size(2) > FEW else kept


def models(name="llama", **changes):
    return make(name, head_dim=32, **changes)


def logits_of(reference, prompt, tokens, cache):
    """Of each of `tokens`, by a prompt and then one token after the other."""
    found, name = [], cache_argument(reference)
    with torch.no_grad():
        for ids in ([prompt], *([[token]] for token in tokens[:-1])):
            found.append(reference(input_ids=torch.tensor(ids), use_cache=True, **{name: cache}).logits[0, -1])
    return torch.stack(found)


def check_tokens(reference, prompt, tokens, fresh, near=0.05):
    """Each token is the likeliest one, or within 0.05 of it, of logits of size 10 that are equal but for roundings.

    Numbers that float32 computes in another order may fall to the other side of half a step of 8 bits, which is about
    one in ten thousand of them, and changes logits by a few hundredths at most.
    """
    assert len(tokens) > 0
    logits = logits_of(reference, prompt, tokens, Rounding(reference.config, fresh))
    for row, token in zip(logits, tokens):
        assert row[token] >= row.max() - near, (token, int(row.argmax()), float(row.max() - row[token]))


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("name", ["llama", "mistral"])
def test_tokens(name, strategy):
    """Five texts for three slots; Mistral's window has 16 tokens."""
    reference, model = models(name)
    runner = llm.Runner(model, max_batch=3, max_len=128, strategy=STRATEGIES[strategy](model), kv_cache_dtype="int8")
    texts = prompts(1, 17, 40, 3, 70)
    for text, answer in zip(texts, runner.generate(texts, max_new_tokens=12)):
        assert len(answer) == 12
        check_tokens(reference, text, answer, fresh=True)
    assert runner.is_idle and runner.books.in_use == 0


@pytest.mark.parametrize("fuse", [True, False])
def test_recorded_prompts(fuse, monkeypatch):
    """Prompts of recordings read the cache from the first row on, in pieces and behind a known prefix."""
    monkeypatch.setattr(recording, "PROMPT_SIZES", (16, 24, 48))
    reference, model = models()
    runner = llm.Runner(
        model, max_batch=2, max_len=128, page_size=16, record_prompts=True, fuse=fuse, kv_cache_dtype="int8"
    )
    texts = prompts(1, 17, 49, 100)
    texts.append(texts[-1][:70] + prompts(5)[0])
    for text, answer in zip(texts, runner.generate(texts, max_new_tokens=6)):
        check_tokens(reference, text, answer, fresh=False)


class Kept(DynamicCache):
    """Keeps the numbers that a runner's pages hold, after a look at each beside what was computed.

    A number that lies next to the middle of two steps may be rounded to either side, and a flip in the first layers
    changes all logits by up to a quarter of what rounding does. So the reference takes the runner's side.
    """

    def __init__(self, config, runner, pages):
        super().__init__(config=config)
        self.pages = [[t[pages].flatten(0, 1).cpu() for t in layer.tensors] for layer in runner.engine.paged_layers]

    def update(self, key_states, value_states, layer_idx, *args, **kwargs):
        begin = self.get_seq_length(layer_idx)
        rows = slice(begin, begin + key_states.size(2))
        keys, values, *scales = self.pages[layer_idx]
        kept = []
        for computed, cache, scale in zip((key_states, value_states), (keys, values), scales):
            cache, scale = (t[rows].transpose(0, 1)[None] for t in (cache, scale))  # [1, heads, rows, ..]
            _, expected = quantized(computed)
            assert ((scale.double() / expected.double() - 1).abs() <= 2.0**-7).all()  # one step of bfloat16 at most
            numbers = numbers_of(cache, scale)
            # Half a step; float32's roundings of four layers are about 1e-6 of the largest number, 1e-4 of a step.
            assert ((numbers - computed).abs() <= 0.51 * scale.double().repeat_interleave(32, -1)).all()
            kept.append(numbers)
        return super().update(*kept, layer_idx, *args, **kwargs)


@pytest.mark.parametrize("fuse", [True, False])
def test_logits_are_those_of_the_same_rounding(fuse):
    """Beside a float64 reference that reads the runner's own numbers, and far from one that does not round."""
    reference, model = models()
    (text,) = prompts(16)  # few: every pass reads the cache
    runner = llm.Runner(model, max_batch=1, max_len=64, graphs=False, fuse=fuse, kv_cache_dtype="int8")
    seen, forward = [], runner.engine.forward
    runner.engine.forward = lambda *a, **k: seen.append(forward(*a, **k)) or seen[-1]
    request = runner.add(text, max_new_tokens=9)
    while not request.finished:
        pages = list(request.pages)
        runner.step()
    answer = request.tokens
    found = torch.cat([logits[0] for logits in seen]).cpu()[: len(answer)]
    reference = reference.double()
    alike = logits_of(reference, text, answer, Kept(reference.config, runner, pages))
    other = logits_of(reference, text, answer, DynamicCache(config=reference.config))
    assert 1e-3 < float((alike - other).square().mean().sqrt()) < 0.3  # of logits of size 10
    torch.testing.assert_close(found.double(), alike, atol=1e-4, rtol=1e-5)


def test_pages_take_half():
    """In 16 bits 64 bytes for 32 numbers, in 8 bits 34: the same memory has room for 1.88 times the tokens."""
    _, model = models()
    model = model.bfloat16()
    sizes, prefixes = {}, {}
    for kind in (None, "int8"):
        runner = llm.Runner(model, max_batch=2, max_len=64, kv_cache_dtype=kind)
        sizes[kind] = sum(t.nbytes for layer in runner.engine.paged_layers for t in layer.tensors)
        prefixes[kind] = cache_bytes(model.config, 1000, torch.bfloat16, kind)
    assert 64 * sizes["int8"] == 34 * sizes[None] and 64 * prefixes["int8"] == 34 * prefixes[None]


def test_fewer_bytes_count_as_such(monkeypatch):
    """Room for pages, and what bench takes for the traffic of a token."""
    from torch_aule.llm.bench import traffic_of

    _, model = models()
    free = 4 * 2 * 2 * 32 * 4 * 16 * 10 / 0.8  # ten pages of float32
    monkeypatch.setattr(torch.aule, "mem_get_info", lambda device: (int(free) + 8, 2**30))
    pages, rows = {}, {}
    for kind in (None, "int8"):
        runner = llm.Runner(model, max_batch=8, max_len=100, fuse=False, kv_cache_dtype=kind)
        pages[kind], rows[kind] = runner.books.total, traffic_of(model, runner).row
    assert pages == {None: 10, "int8": 37}  # 128 bytes to 34
    assert rows == {None: 4 * 2 * 2 * 128, "int8": 4 * 2 * 2 * 34}


def test_what_is_fused_is_compared_without_rounding():
    """The same parts are found as with a cache that does not round, by the same tolerances."""
    _, model = models()
    found = [llm.Runner(model, max_batch=1, max_len=64, kv_cache_dtype=k).engine.fusions for k in (None, "int8")]
    assert found[0].counts == found[1].counts and found[0].counts["attention"] == 4
    assert found[0].left_out == found[1].left_out == []


def test_snapshots():
    reference, model = models()
    runner = llm.Runner(model, max_batch=2, max_len=128, page_size=16, kv_cache_dtype="int8")
    (text,) = prompts(40)
    request = runner.add(text, max_new_tokens=30)
    for _ in range(12):
        runner.step()
    snapshot = runner.snapshot_kv_cache(request)
    other = llm.Runner(model, max_batch=1, max_len=128, page_size=16, kv_cache_dtype="int8")
    assert other.restore_kv_cache(snapshot) == len(snapshot.tokens)
    pages = torch.tensor(other.books.find([*snapshot.tokens, 0]), device="aule")
    assert len(pages) * 16 == len(snapshot.tokens) >= 32
    for layer, kept in zip(other.engine.paged_layers, snapshot.layers):
        assert len(kept) == 4 and all(torch.equal(t[pages], k) for t, k in zip(layer.tensors, kept))
    again = other.add(text, max_new_tokens=12)
    while not again.finished:
        other.step()
    assert again.shared == 32
    check_tokens(reference, text, again.tokens, fresh=True, near=0.3)  # the last tokens of the prompt read the cache
    with pytest.raises(ValueError, match="another size or dtype"):
        llm.Runner(model, max_len=128, page_size=16).restore_kv_cache(snapshot)


def test_what_cannot_be():
    _, model = make("llama")  # heads of 16
    with pytest.raises(ValueError, match="multiple of 32, but those of LlamaForCausalLM have a head_dim of 16"):
        llm.Runner(model, max_len=64, kv_cache_dtype="int8")
    with pytest.raises(ValueError, match="expected kv_cache_dtype to be None or 'int8', but got 'fp8'"):
        llm.Runner(model, max_len=64, kv_cache_dtype="fp8")


def test_recurrent_layers_keep_their_states():
    reference, model = make("mamba2")
    (text,) = prompts(9)
    plain, same = (
        llm.Runner(copy.deepcopy(model), max_batch=1, max_len=64, kv_cache_dtype=kind).generate(
            [text], max_new_tokens=5
        )
        for kind in (None, "int8")
    )
    assert plain == same and max(plain[0]) < VOCABULARY
