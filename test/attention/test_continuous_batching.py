"""transformers' continuous batching moves between streams as it would on CUDA, and gives the CPU's tokens."""

import functools
import os

import pytest
import torch

import torch_aule.integrations

transformers = pytest.importorskip("transformers", reason="needs transformers, of the test extra")

# Without a submission when a stream is left nearly every run differs.
REPEATS = 20 if os.environ.get("TORCH_AULE_LONG_TESTS") else 3


def generated(model, prompts, config, batching):
    outputs = model.generate_batch(inputs=prompts, generation_config=config, continuous_batching_config=batching())
    by_prompt = {tuple(out.prompt_ids): list(out.generated_tokens) for out in outputs.values()}
    return [by_prompt[tuple(p)] for p in prompts]


def batching(**more):
    """A small cache: without these numbers it takes most of the device's memory."""
    size = {"num_blocks": 16} if "max_memory_percent" not in more else {}
    return transformers.ContinuousBatchingConfig(
        **size, page_size=16, max_batch_tokens=64, max_requests_per_batch=4, use_cuda_graph=False, **more
    )


beside_cuda = pytest.mark.skipif(
    torch.cuda.is_available(), reason="beside CUDA transformers takes its streams from there"
)


@beside_cuda
def test_the_cache_is_planned_by_the_memory_of_the_device(device):
    from transformers.generation.continuous_batching import cache, utils

    held = torch.empty(1 << 20, device=device)
    found, total, reserved, allocated = utils.get_device_and_memory_breakdown()
    free, all_of_it = torch.aule.mem_get_info()
    assert found == torch.device(device.type, 0) and total == all_of_it and allocated == total - free
    assert reserved == torch.aule.memory_reserved() >= held.nbytes
    assert cache.get_device_and_memory_breakdown is utils.get_device_and_memory_breakdown
    torch_aule.integrations.disable("transformers.batching_memory")
    try:
        assert utils.get_device_and_memory_breakdown()[0].type == "cpu"
    finally:
        torch_aule.integrations.enable("transformers.batching_memory")
    assert cache.get_device_and_memory_breakdown()[0].type == "aule"


@beside_cuda
@pytest.mark.parametrize("how_batched", [{}, {"use_async_batching": True}, {"max_memory_percent": 1e-3}],
                         ids=["", "asynchronous", "without a size"])  # fmt: skip
def test_generate_batch_gives_the_tokens_of_the_cpu(device, how_batched):
    config = transformers.LlamaConfig(
        vocab_size=97, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=128, eos_token_id=None, bos_token_id=None, pad_token_id=0,
    )  # fmt: skip
    model = transformers.LlamaForCausalLM(config).eval()
    model.set_attn_implementation("sdpa")
    prompts = [torch.randint(1, 97, (n,)).tolist() for n in (5, 9, 3)]
    how = transformers.GenerationConfig(max_new_tokens=8, do_sample=False, eos_token_id=-1, pad_token_id=0)
    expected = generated(model, prompts, how, batching)
    assert [len(tokens) for tokens in expected] == [8, 8, 8]
    model.to(device)
    repeated = functools.partial(batching, **how_batched)
    wrong = sum(generated(model, prompts, how, repeated) != expected for _ in range(REPEATS))
    assert wrong == 0, f"{wrong} of {REPEATS} runs differ from the CPU"
