"""Decoding with a static cache, token by token: milliseconds a token, eager, compiled, and with mode="reduce-overhead".

    python benchmarks/decode.py                      a Llama of 1.2 billion parameters, random weights, bfloat16
    python benchmarks/decode.py --device cuda        the same beside it
    python benchmarks/decode.py --small              a model for software devices, float32

The tokens of all three are compared (greedy choice, same prompt). GB/s is of the weights that a token reads.
"""

import argparse
import statistics
import time

import torch
from transformers import LlamaConfig, LlamaForCausalLM, StaticCache

FULL = dict(hidden_size=2048, intermediate_size=8192, num_hidden_layers=16, num_attention_heads=32,
            num_key_value_heads=8, vocab_size=128256)  # fmt: skip
SMALL = dict(hidden_size=256, intermediate_size=512, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, vocab_size=1000)  # fmt: skip
MODES = {"eager": None, "compiled": {}, "reduce-overhead": {"mode": "reduce-overhead"}}


class Decoder:
    """Greedy tokens one after the other, with keys and values of all of them in one static cache."""

    def __init__(self, model, prompt, length, compile_options):
        self.model, self.prompt = model, prompt
        self.cache = StaticCache(config=model.config, max_cache_len=length)
        self.step = self._next if compile_options is None else torch.compile(self._next, **compile_options)

    def _next(self, token, position):
        logits = self.model(token, position_ids=position[None], past_key_values=self.cache, use_cache=True).logits
        return logits[:, -1].argmax(-1, keepdim=True)

    def tokens(self, count):
        """The tokens, and the seconds that each of those after the third took on average."""
        synchronize = getattr(torch, self.prompt.device.type).synchronize
        self.cache.reset()
        start = self.prompt.shape[1]
        token = self._next(self.prompt, torch.arange(start, device=self.prompt.device))
        found = [token]
        for i in range(count):
            if i == 3:  # graphs are recorded
                synchronize()
                began = time.perf_counter()
            position = torch.full((1,), start + i, device=token.device)
            token = self.step(token, position).clone()
            found.append(token)
        synchronize()
        return torch.cat(found, 1).cpu(), (time.perf_counter() - began) / (count - 3)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="aule")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--prompt", type=int, default=128, help="tokens before the first that is timed")
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    if options.device == "aule":
        import torch_aule  # noqa: F401  makes the device
    torch.manual_seed(0)
    length = options.prompt + options.tokens + 1
    config = LlamaConfig(**(SMALL if options.small else FULL), max_position_embeddings=length)
    dtype = torch.float32 if options.small else torch.bfloat16
    model = LlamaForCausalLM(config).to(dtype).to(options.device).eval()
    prompt = torch.randint(0, config.vocab_size, (1, options.prompt), device=options.device)
    read = sum(p.numel() * p.element_size() for n, p in model.named_parameters() if "embed_tokens" not in n)
    print(f"{options.device}: {sum(p.numel() for p in model.parameters()) / 1e6:.0f} million parameters, "
          f"prompt {options.prompt}, {options.tokens} tokens", flush=True)  # fmt: skip
    eager = expected = None
    for name, compile_options in MODES.items():
        torch._dynamo.reset()
        decoder = Decoder(model, prompt, length, compile_options)
        with torch.no_grad():
            results = [decoder.tokens(options.tokens) for _ in range(options.runs)]
        seconds = statistics.median(s for _, s in results[1:] or results)
        eager, expected = eager or seconds, results[0][0] if expected is None else expected
        same = (results[-1][0] == expected).float().mean().item()
        print(f"{name:16} {seconds * 1e3:8.3f} ms a token, {eager / seconds:5.2f} times eager, "
              f"{read / seconds / 1e9:7.1f} GB/s, {same:.0%} of eager's tokens", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
