"""A tiny random Llama and a tokenizer with a chat template, in a folder, for the tests of the server."""

import torch

WORDS = [f"w{i}" for i in range(60)]
TEMPLATE = (
    "{% for m in messages %}<{{ m.role }}> {{ m.content }} {% endfor %}"
    "{% if add_generation_prompt %}<assistant> {% endif %}"
)


def save(folder):
    """Save both. The model's answers are not all of one token, and it has no end of its own."""
    import tokenizers
    import transformers

    special = ["<pad>", "<unk>", "<end>", "<user>", "<assistant>", "<system>"]
    vocabulary = {word: i for i, word in enumerate([*special, *WORDS])}
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="<unk>"))
    words.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=words, pad_token="<pad>", unk_token="<unk>", eos_token="<end>", chat_template=TEMPLATE
    )
    config = transformers.LlamaConfig(
        vocab_size=len(vocabulary), hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, head_dim=16, max_position_embeddings=512, bos_token_id=None, eos_token_id=None,
        pad_token_id=0, tie_word_embeddings=False,
    )  # fmt: skip
    model = transformers.LlamaForCausalLM(config).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() > 1:
                parameter.normal_(0, 1.0 if "embed" in name else 1.5 / parameter.size(-1) ** 0.5)
        model.lm_head.weight[: len(special)] = 0  # answers are words
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return model, tokenizer
