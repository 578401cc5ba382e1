"""Decoding with a static cache, token by token: milliseconds a token, eager, compiled, and with mode="reduce-overhead".

    python benchmarks/studies/decode.py                      a Llama of 1.2 billion parameters, random weights, bfloat16
    python benchmarks/studies/decode.py --device cuda        the same beside it
    python benchmarks/studies/decode.py --small              a model for software devices, float32

Logits of all three are compared, for the tokens that eager mode chose: with random weights two of them often lie within
a rounding of each other, so that greedy choices part. GB/s is of the weights that a token reads.
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
        return logits[:, -1].argmax(-1, keepdim=True), logits[:, -1]

    def tokens(self, count, given=None):
        """The tokens, the logits they were chosen from, and the seconds for each after the third on average.

        With `given` tokens, those are read instead of the ones chosen.
        """
        synchronize = getattr(torch, self.prompt.device.type).synchronize
        self.cache.reset()
        start = self.prompt.shape[1]
        token, logits = self._next(self.prompt, torch.arange(start, device=self.prompt.device))
        found, chosen_from = [token], [logits]
        for i in range(count):
            if i == 3:  # graphs are recorded
                synchronize()
                began = time.perf_counter()
            position = torch.full((1,), start + i, device=token.device)
            token, logits = (t.clone() for t in self.step(token if given is None else given[:, i : i + 1], position))
            found.append(token)
            if given is not None:
                chosen_from.append(logits)
        synchronize()
        seconds = (time.perf_counter() - began) / (count - 3)
        return torch.cat(found, 1), torch.stack(chosen_from).float(), seconds


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
    eager = expected = given = None
    for name, compile_options in MODES.items():
        torch._dynamo.reset()
        decoder = Decoder(model, prompt, length, compile_options)
        with torch.no_grad():
            seconds = statistics.median([decoder.tokens(options.tokens)[2] for _ in range(options.runs + 1)][1:])
            if expected is None:
                eager, given = seconds, decoder.tokens(options.tokens)[0]
            logits = decoder.tokens(options.tokens, given)[1]
        expected = logits if expected is None else expected
        error = ((logits - expected).norm() / expected.norm()).item()
        print(f"{name:16} {seconds * 1e3:8.3f} ms a token, {eager / seconds:5.2f} times eager, "
              f"{read / seconds / 1e9:7.1f} GB/s, logits differ by {error:.1e}", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
