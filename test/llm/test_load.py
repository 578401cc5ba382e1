"""torch_aule.llm.load: models from files, what is wrong with files, and text from tokens."""

import json
import random
import shutil
import struct

import pytest
import torch

pytest.importorskip("transformers")
pytest.importorskip("accelerate")
huggingface_hub = pytest.importorskip("huggingface_hub")

import tiny  # noqa: E402
from families import check_greedy  # noqa: E402
from tokenizers import Tokenizer, decoders, models  # noqa: E402
from transformers import PreTrainedTokenizerFast  # noqa: E402

from torch_aule import llm  # noqa: E402
from torch_aule.llm import loading, sources  # noqa: E402
from torch_aule.llm.text import TextPieces  # noqa: E402

OPTIONS = dict(max_batch=2, max_len=256, page_size=16)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A Llama in float32; nobody changes it."""
    place = tmp_path_factory.mktemp("models") / "small"
    tiny.save(place)
    return place


@pytest.fixture(scope="module")
def gguf(tmp_path_factory):
    place = tmp_path_factory.mktemp("gguf") / "small.gguf"
    tiny.save_gguf(place)
    return place


@pytest.fixture
def copied(folder, tmp_path):
    return shutil.copytree(folder, tmp_path / "copied")


@pytest.fixture(scope="module")
def lm(folder):
    return llm.load(folder, **OPTIONS)


def test_the_answer_is_that_of_the_files(folder, lm):
    reference = loading.AutoModelForCausalLM.from_pretrained(folder)
    prompt = tiny.tokenizer()("The cat sat in the").input_ids
    request = lm.add("The cat sat in the", max_new_tokens=20, stop_tokens=())
    text = "".join(lm.pieces(request))
    assert request.prompt == prompt and len(request.tokens) == 20
    check_greedy(reference, prompt, request.tokens)
    assert text == tiny.tokenizer().decode(request.tokens, skip_special_tokens=True)
    assert {p.device.type for p in lm.model.parameters()} == {"aule"}
    assert lm.name == "small" and lm.elements == sum(p.numel() for p in reference.parameters())


def test_ways_to_ask_say_the_same(lm):
    prompt = lm.encode("in the")
    options = dict(max_new_tokens=12)
    expected = lm.generate("in the", **options)
    assert lm.generate(prompt, **options) == expected == lm.generate(torch.tensor(prompt), **options)
    assert "".join(lm.stream("in the", **options)) == expected
    messages = [{"role": "user", "content": "in the"}]
    assert lm.encode(messages) == lm.encode("<user>in the<end><assistant>")
    assert lm.chat("in the", **options) == lm.chat(messages, **options) == lm.generate(messages, **options)
    assert lm.generate("in the", temperature=2.0, max_new_tokens=30) != lm.generate(
        "in the", temperature=2.0, max_new_tokens=30
    )
    with pytest.raises(ValueError, match="temperature"):
        lm.stream("in the", temperature=-1)


def test_a_stream_that_is_left_ends(lm):
    for _ in lm.stream("in", max_new_tokens=200, stop_tokens=()):
        break
    assert lm.runner.is_idle and lm.runner.books.in_use == 0


def test_stop_tokens(folder, copied):
    end = tiny.tokenizer().eos_token_id
    for configured, expected in ((7, {7, end}), ([7, 9], {7, 9, end}), (None, {end})):
        file = copied / "generation_config.json"
        file.write_text(json.dumps({"eos_token_id": configured}))
        assert set(llm.load(copied, **OPTIONS).stop_tokens) == expected
    lm = llm.load(folder, **OPTIONS)
    request = lm.add("the", max_new_tokens=20, stop_tokens=())
    whole = "".join(lm.pieces(request))
    last = next(token for token in request.tokens if request.tokens[0] != token)  # not the first one
    place = request.tokens.index(last)
    lm.stop_tokens = [last]
    again = lm.add("the", max_new_tokens=20)
    text = "".join(lm.pieces(again))
    assert again.finished == "stop" and again.tokens == request.tokens[: place + 1]
    assert text == lm.tokenizer.decode(request.tokens[:place], skip_special_tokens=True) != whole


@pytest.mark.skipif(
    torch.cuda.is_available(), reason="beside CUDA transformers chooses it, and the hooks stay off"
)
@pytest.mark.parametrize("place", ["file", "folder"])
def test_gguf_stays_packed(gguf, place):
    lm = llm.load(gguf if place == "file" else gguf.parent, **OPTIONS)
    packed = [p for p in lm.model.parameters() if p.dtype == torch.uint8]
    assert len(packed) == 2 + 7 * 2 and lm.name == "small" and lm.type == "Q8_0"
    assert set(lm.stop_tokens) == {tiny.VOCABULARY - len(tiny.SPECIAL), tiny.VOCABULARY - 1}
    request = lm.add("in the house", max_new_tokens=12, stop_tokens=())
    "".join(lm.pieces(request))
    check_greedy(_OnHost(lm.model), request.prompt, request.tokens)
    source = sources.read(gguf)
    assert sum(p.numel() * p.element_size() for p in lm.model.parameters()) == source.bytes_in(torch.float32)
    inner = 2 * (64 * (64 + 32) * 2 + 3 * 64 * 96 + 2 * 64)
    assert lm.elements == inner + 64 + 2 * tiny.VOCABULARY * 64


class _OnHost:
    """A model on the device whose logits come to the host."""

    def __init__(self, model):
        self.model = model

    def __call__(self, input_ids):
        out = self.model(input_ids=input_ids.to("aule"))
        out.logits = out.logits.cpu()
        return out


@pytest.mark.parametrize("family", ["llama", "gemma3", "mixtral", "mamba2"])
def test_memory_is_what_the_headers_say(tmp_path, family):
    for dtype, other in ((torch.float32, "bfloat16"), (torch.bfloat16, "float32")):
        tiny.save(tmp_path / str(dtype), family, dtype=dtype)
        source = sources.read(tmp_path / str(dtype))
        for wanted in ("auto", other):
            model, tokenizer, _ = loading.read_model(tmp_path / str(dtype), dtype=wanted)
            assert model.dtype == (dtype if wanted == "auto" else getattr(torch, wanted)) and tokenizer is not None
            weights = {p.data_ptr(): p.numel() * p.element_size() for p in model.parameters()}
            assert source.bytes_in(model.dtype) == sum(weights.values())
    runner = llm.Runner(model, max_batch=1, max_len=64, page_size=16)
    pages = [cache for layer in runner.engine.paged_layers for cache in (layer.key_cache, layer.value_cache)]
    row = sum(cache[0, 0].numel() * cache.element_size() for cache in pages)
    assert loading.cache_bytes(model.config, 10, model.dtype) == 10 * row


def test_a_tied_weight_counts_once(tmp_path):
    tiny.save(tmp_path, tie_word_embeddings=True)
    model, *_ = loading.read_model(tmp_path)
    assert sources.read(tmp_path).bytes_in(torch.float32) == sum(p.numel() * 4 for p in model.parameters())


def test_too_little_memory(folder, gguf, monkeypatch):
    source = sources.read(folder)
    weights, cache = (
        source.bytes_in(torch.float32),
        loading.cache_bytes(loading.AutoConfig.from_pretrained(folder), 1024, torch.float32),
    )

    def never(*args, **kwargs):
        raise AssertionError("loads although there is no room")

    monkeypatch.setattr(loading.AutoModelForCausalLM, "from_pretrained", never)

    def said(free, path=folder, **options):
        monkeypatch.setattr(torch.aule, "mem_get_info", lambda device=None: (int(free), 2**31))
        with pytest.raises(llm.LoadError) as error:
            llm.load(path, **options)
        return str(error.value)

    eight, four = (source.elements * bits / 8 for bits in (8.5, 4.5))
    text = said(eight + cache + 1)
    assert "8 bits" in text and "4 bits" in text and "would fit" in text and "of a sequence of 1024 tokens" in text
    assert loading.bytes_text(weights) in text and loading.bytes_text(cache) in text
    text = said(four + cache + 1)
    assert "8 bits" not in text and "4 bits" in text
    text = said(four + 1)
    assert "even 4 bits" in text and "would not fit" in text
    fits = int(said(weights + cache // 2).split("max_len of ")[1].split()[0])
    assert 256 < fits < 512
    monkeypatch.setattr(torch.aule, "mem_get_info", lambda device=None: (weights + cache, 2**31))
    with pytest.raises(llm.LoadError, match="although"):  # the room is enough: loading begins
        llm.load(folder)
    text = said(1000, gguf, max_len=64)
    assert "Q8_0" not in text and "64 tokens" in text


def test_wrong_paths(tmp_path, folder, gguf, monkeypatch):
    def offline(*args, **kwargs):
        raise OSError("no network")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", offline)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    (tmp_path / "empty").mkdir()
    two = tmp_path / "two"
    two.mkdir()
    for name in "ab":
        shutil.copy(gguf, two / f"{name}.gguf")
    for path, message in (
        (tmp_path / "nothing", "there is no such file or folder"),
        ("nobody/nothing", "not in Hugging Face's cache.*OSError"),
        ("nothing", "there is no such file or folder"),
        ("models/small.gguf", "small.gguf: there is no such file or folder$"),
        (tmp_path / "empty", "a folder without config.json"),
        (two, "has 2 GGUF files; name one of them: a.gguf, b.gguf"),
        (folder / "model.safetensors", "expected the folder"),
        (folder / "config.json", "not a GGUF file"),
    ):
        with pytest.raises(llm.LoadError, match=message) as error:
            llm.load(path)
        assert "\n" not in str(error.value)
    with pytest.raises(llm.LoadError, match="without GGUF file"):
        llm.from_gguf(folder)
    with pytest.raises(llm.LoadError, match="without config.json"):
        llm.from_safetensors(two)


def test_both_kinds_in_one_folder(copied, gguf):
    shutil.copy(gguf, copied)
    assert llm.load(copied, **OPTIONS).type == "F32" == llm.from_safetensors(copied, **OPTIONS).type
    assert llm.from_gguf(copied, **OPTIONS).type == "Q8_0"


def cut(path, length):
    path.write_bytes(path.read_bytes()[:length])


def long_header(path):
    path.write_bytes(struct.pack("<Q", 10**9) + path.read_bytes()[8:])


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda f: cut(f / "model.safetensors", 5), "cut off"),
        (lambda f: cut(f / "model.safetensors", 100), "cut off"),
        (lambda f: cut(f / "model.safetensors", (f / "model.safetensors").stat().st_size - 1), "cut off.*byte"),
        (lambda f: long_header(f / "model.safetensors"), "cut off, or no safetensors.*1000000000 bytes"),
        (lambda f: (f / "model.safetensors").write_bytes(struct.pack("<Q", 4) + b"nope"), "header cannot be read"),
        (lambda f: (f / "model.safetensors").write_bytes(b"version https://git-lfs.github.com/spec/v1\n"), "Git LFS"),
        (lambda f: (f / "model.safetensors").rename(f / "pytorch_model.bin"), "neither.*only pytorch_model.bin"),
        (lambda f: (f / "model.safetensors.index.json").write_text('{"weight_map": {"a": "b.safetensors"}}'),
         "1 of 1 files of weights are missing; one is b.safetensors"),
        (lambda f: (f / "model.safetensors.index.json").write_text("[]"), "no index"),
        (lambda f: (f / "config.json").write_text("{"), "no JSON"),
        (lambda f: tiny.edit(f, model_type="of_tomorrow"), "does not know the architecture 'of_tomorrow'"),
        (lambda f: tiny.edit(f, model_type="t5"), "'t5' is no causal language model"),
        (lambda f: tiny.edit(f, num_hidden_layers=5), "lack 9 weights of LlamaForCausalLM; one is model.layers.4"),
        (lambda f: (f / "tokenizer.json").write_text("{}"), "copied: "),
    ],
)  # fmt: skip
def test_broken_folders(copied, change, message):
    change(copied)
    with pytest.raises(llm.LoadError, match=message) as error:
        llm.load(copied, **OPTIONS)
    assert "\n" not in str(error.value) and len(str(error.value)) < 400


def test_broken_gguf_files(gguf, tmp_path):
    whole = gguf.read_bytes()
    file = tmp_path / "broken.gguf"
    for data, message in (
        (whole[:3], "not a GGUF file"),
        (whole[:200], "the file ends within"),
        (whole[:-1000], "wants .* bytes"),
        (whole.replace(b"llama", b"lmaal"), "does not read GGUF files of the architecture 'lmaal'"),
    ):
        file.write_bytes(data)
        with pytest.raises(llm.LoadError, match=message):
            llm.load(file)


def test_arguments_that_cannot_be(folder):
    with pytest.raises(ValueError, match="expected a dtype of auto, float32, float16, bfloat16"):
        llm.load(folder, dtype="int3")
    with pytest.raises(ValueError, match="max_batch"):
        llm.load(folder, max_batch=0)


def test_without_a_tokenizer_or_a_template(copied, tmp_path):
    tiny.save(tmp_path / "base", template=None)
    base = llm.load(tmp_path / "base", **OPTIONS)
    assert not base.has_chat_template and base.generate("the", max_new_tokens=3) is not None
    with pytest.raises(ValueError, match="no chat template; it is a base model"):
        base.chat("the")
    for file in copied.glob("tokenizer*"):
        file.unlink()
    (copied / "chat_template.jinja").unlink(missing_ok=True)
    mute = llm.load(copied, **OPTIONS)
    assert mute.tokenizer is None
    assert len(mute.runner.generate([[1, 2, 3]], max_new_tokens=4)[0]) == 4
    for call in (lambda: mute.encode("the"), lambda: mute.generate([1, 2]), lambda: mute.chat("the")):
        with pytest.raises(ValueError, match="no tokenizer"):
            call()


def test_a_name_in_the_cache_needs_no_network(folder, tmp_path, monkeypatch):
    place = tmp_path / "models--nobody--small"
    shutil.copytree(folder, place / "snapshots" / "0123456789abcdef")
    (place / "refs").mkdir()
    (place / "refs" / "main").write_text("0123456789abcdef")
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(huggingface_hub, "snapshot_download", lambda *a, **k: pytest.fail("asks the network"))
    assert llm.load("nobody/small", **OPTIONS).name == "nobody/small"


def test_a_name_that_is_not_there_is_fetched(folder, tmp_path, monkeypatch):
    """Also where the cache has the configuration alone."""
    place = tmp_path / "models--nobody--small" / "snapshots" / "0123456789abcdef"
    place.mkdir(parents=True)
    shutil.copy(folder / "config.json", place)
    (tmp_path / "models--nobody--small" / "refs").mkdir()
    (tmp_path / "models--nobody--small" / "refs" / "main").write_text("0123456789abcdef")
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    asked = []

    def fetch(name, allow_patterns):
        asked.append(name)
        return str(folder)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", fetch)
    assert sources.read("nobody/small").folder == folder
    assert sources.read("nobody/other").folder == folder
    assert asked == ["nobody/small", "nobody/other"]
    monkeypatch.setattr(huggingface_hub, "snapshot_download", lambda *a, **k: str(tmp_path))
    with pytest.raises(llm.LoadError, match="has no config.json .*; if it has GGUF files"):
        sources.read("nobody/other")


def test_a_cache_that_was_kept(folder):
    """Of one model, in another one that was loaded from the same files."""
    first, second = (llm.load(folder, **OPTIONS) for _ in range(2))
    text = "the cat sat in there and then the other " * 3
    snapshot = first.snapshot_kv_cache(text)
    tokens = first.encode(text)
    assert snapshot.tokens == tokens[: len(tokens) // 16 * 16]
    assert first.runner.is_idle and first.runner.books.in_use == 0
    assert second.restore_kv_cache(snapshot) == len(snapshot.tokens)
    requests = [lm.add(text + "in", max_new_tokens=10) for lm in (first, second)]
    answers = ["".join(lm.pieces(request)) for lm, request in zip((first, second), requests)]
    assert requests[1].shared == len(snapshot.tokens) > 0
    assert requests[0].tokens == requests[1].tokens and answers[0] == answers[1]


# Text from tokens


def chunks(tokens):
    """Some tokens at a time, as a runner with guesses gives them."""
    while tokens:
        count = random.randint(1, 3)
        yield tokens[:count]
        tokens = tokens[count:]


def test_characters_of_several_tokens_come_whole():
    tokenizer = tiny.tokenizer()
    letters = [chr(random.choice([random.randint(32, 126), random.randint(160, 0x7FF), random.randint(0x800, 0xD7FF),
                                  random.randint(0x10000, 0x1FFFF)])) for _ in range(60)]  # fmt: skip
    text = "".join(letters).replace("\ufffd", "?")
    tokens = tokenizer(text, add_special_tokens=False).input_ids
    pieces = TextPieces(tokenizer, tokenizer("before", add_special_tokens=False).input_ids)
    given = [pieces.add([token]) for token in tokens]
    assert "".join(given) + pieces.end() == text and pieces.end() == ""
    assert not any("\ufffd" in piece for piece in given)
    done = ""
    for token, piece in zip(range(1, len(tokens) + 1), given):  # a character comes with its last token
        done += piece
        whole = bytes(b for t in tokens[:token] for b in _bytes(tokenizer, t)).decode(errors="ignore")
        assert done == whole
    assert len([piece for piece in given if piece == ""]) > 20


def _bytes(tokenizer, token):
    of = {letter: i for i, letter in enumerate(tiny.letters())}
    return bytes(of[letter] for letter in tokenizer.convert_ids_to_tokens(token))


def test_bytes_that_are_no_text_do_not_stop_it():
    tokenizer = tiny.tokenizer()
    tokens = [random.randrange(256) for _ in range(80)]
    pieces = TextPieces(tokenizer)
    given = [pieces.add(some) for some in chunks(tokens)]
    assert "".join(given) + pieces.end() == tokenizer.decode(tokens)
    pieces = TextPieces(tokenizer)
    cut_off = "a" + "\u20ac"
    assert [pieces.add([t]) for t in tokenizer(cut_off).input_ids[:-1]] == ["a", "", ""] and pieces.end() == "\ufffd"


def test_the_space_before_the_first_word_stays():
    """Tokenizers that write a space into the word leave out the first one of a text."""
    words = {"\u2581the": 0, "\u2581cat": 1, "s": 2, "</s>": 3}
    inner = Tokenizer(models.WordLevel(words, unk_token="s"))
    inner.decoder = decoders.Metaspace()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=inner, eos_token="</s>")
    for context, expected in (([0], " cats the"), ([], "cats the")):
        pieces = TextPieces(tokenizer, context)
        assert pieces.add([1]) + pieces.add([2]) + pieces.add([]) + pieces.add([0]) + pieces.end() == expected
