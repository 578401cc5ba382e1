"""transformers' continuous batching moves between streams as it would on CUDA, and gives the CPU's tokens."""

import os

import pytest
import torch

transformers = pytest.importorskip("transformers", reason="needs transformers, of the test extra")

# Without a submission when a stream is left nearly every run differs.
REPEATS = 20 if os.environ.get("TORCH_AULE_LONG_TESTS") else 3


def generated(model, prompts, config, batching):
    outputs = model.generate_batch(inputs=prompts, generation_config=config, continuous_batching_config=batching())
    by_prompt = {tuple(out.prompt_ids): list(out.generated_tokens) for out in outputs.values()}
    return [by_prompt[tuple(p)] for p in prompts]


def batching():
    """A small cache: without these numbers it takes most of the machine's memory."""
    return transformers.ContinuousBatchingConfig(
        num_blocks=16, page_size=16, max_batch_tokens=64, max_requests_per_batch=4, use_cuda_graph=False
    )


@pytest.mark.skipif(torch.cuda.is_available(), reason="beside CUDA transformers takes its streams from there")
def test_generate_batch_gives_the_tokens_of_the_cpu(device):
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
    wrong = sum(generated(model, prompts, how, batching) != expected for _ in range(REPEATS))
    assert wrong == 0, f"{wrong} of {REPEATS} runs differ from the CPU"
