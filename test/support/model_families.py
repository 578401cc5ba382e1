"""Tiny models of many families of transformers with random weights, for test_model_families.py: configurations only.

A builder returns (model, inputs): `inputs` are keyword arguments of CPU tensors. Sizes are odd where a family can,
windows are shorter than sequences, key heads fewer than query heads, and the last keys of the second row are padding.
Those of diffusers are in diffusion_families.py.
"""

from __future__ import annotations

import torch

VOCABULARY = 99
LENGTH = 19


def ids(rows=2, length=LENGTH, low=3):
    return torch.randint(low, VOCABULARY, (rows, length))


def text(rows=2, length=LENGTH, padded=True):
    mask = torch.ones(rows, length, dtype=torch.long)
    if padded:
        mask[-1, -4:] = 0
    return {"input_ids": ids(rows, length), "attention_mask": mask}


def pixels(size=32, rows=2, channels=3):
    return {"pixel_values": torch.randn(rows, channels, size, size)}


def hf(config_name, model_name, inputs, **config):
    """A transformers model of the given config and model class."""
    import transformers

    configuration = getattr(transformers, config_name)(**config)
    return getattr(transformers, model_name)(configuration), inputs


DECODER = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "use_cache": False,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
ENCODER = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
}
VISION = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "image_size": 32,
    "patch_size": 8,
}


def decoder(name, model=None, **config):
    return lambda: hf(f"{name}Config", model or f"{name}ForCausalLM", text(), **{**DECODER, **config})


def encoder(name, model=None, **config):
    return lambda: hf(f"{name}Config", model or f"{name}Model", text(), **{**ENCODER, **config})


def vision(name, model=None, size=32, **config):
    return lambda: hf(f"{name}Config", model or f"{name}Model", pixels(size), **{**VISION, **config})


def experts(**config):
    """Fields of mixtures of experts, under the names that families give them."""
    return {
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 24,
        "output_router_logits": False,
        **config,
    }


def gpt2():
    return hf("GPT2Config", "GPT2LMHeadModel", text(), vocab_size=VOCABULARY, n_positions=64, n_embd=32, n_layer=2,
              n_head=4, use_cache=False, bos_token_id=1, eos_token_id=2)  # fmt: skip


def bloom():
    return hf("BloomConfig", "BloomForCausalLM", text(), vocab_size=VOCABULARY, hidden_size=32, n_layer=2, n_head=4,
              use_cache=False)  # fmt: skip


def falcon():
    return hf("FalconConfig", "FalconForCausalLM", text(), vocab_size=VOCABULARY, hidden_size=32, num_hidden_layers=2,
              num_attention_heads=4, use_cache=False, bos_token_id=1, eos_token_id=2)  # fmt: skip


def mamba():
    return hf("MambaConfig", "MambaForCausalLM", {"input_ids": ids()}, vocab_size=VOCABULARY, hidden_size=32,
              state_size=8, num_hidden_layers=2, use_cache=False, time_step_rank=4, pad_token_id=0)  # fmt: skip


def mamba2():
    return hf("Mamba2Config", "Mamba2ForCausalLM", {"input_ids": ids()}, vocab_size=VOCABULARY, hidden_size=32,
              state_size=8, num_hidden_layers=2, num_heads=8, head_dim=8, n_groups=2, expand=2, chunk_size=8,
              use_cache=False, pad_token_id=0, bos_token_id=1, eos_token_id=2)  # fmt: skip


def rwkv():
    return hf("RwkvConfig", "RwkvForCausalLM", {"input_ids": ids()}, vocab_size=VOCABULARY, hidden_size=32,
              attention_hidden_size=32, intermediate_size=48, num_hidden_layers=2, context_length=64,
              use_cache=False)  # fmt: skip


def lfm2():
    return hf("Lfm2Config", "Lfm2ForCausalLM", text(), **{**DECODER, "layer_types": ["conv", "full_attention"]})


def distilbert():
    return hf("DistilBertConfig", "DistilBertModel", text(), vocab_size=VOCABULARY, dim=32, hidden_dim=48, n_layers=2,
              n_heads=4, max_position_embeddings=64)  # fmt: skip


def xlnet():
    return hf("XLNetConfig", "XLNetModel", text(), vocab_size=VOCABULARY, d_model=32, n_layer=2, n_head=4, d_inner=48)


def longformer():
    inputs = text(length=24)
    inputs["global_attention_mask"] = torch.zeros(2, 24, dtype=torch.long)
    inputs["global_attention_mask"][:, 0] = 1
    return hf("LongformerConfig", "LongformerModel", inputs, **{**ENCODER, "attention_window": 8})


def big_bird():
    return hf("BigBirdConfig", "BigBirdModel", text(length=96, padded=False),
              **{**ENCODER, "max_position_embeddings": 128, "block_size": 8, "num_random_blocks": 2})  # fmt: skip


def albert():
    return hf("AlbertConfig", "AlbertModel", text(), **{**ENCODER, "embedding_size": 16})


def t5():
    return hf("T5Config", "T5ForConditionalGeneration", {**text(), "decoder_input_ids": ids(2, 7)},
              vocab_size=VOCABULARY, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4, use_cache=False,
              decoder_start_token_id=0)  # fmt: skip


def bart():
    return hf("BartConfig", "BartForConditionalGeneration", {**text(), "decoder_input_ids": ids(2, 7)},
              vocab_size=VOCABULARY, d_model=32, encoder_layers=1, decoder_layers=1, encoder_attention_heads=4,
              decoder_attention_heads=4, encoder_ffn_dim=48, decoder_ffn_dim=48, max_position_embeddings=64,
              use_cache=False)  # fmt: skip


def swin():
    return hf("SwinConfig", "SwinModel", pixels(), image_size=32, patch_size=2, embed_dim=16, depths=[2, 1],
              num_heads=[2, 4], window_size=4)  # fmt: skip


def convnext():
    return hf("ConvNextConfig", "ConvNextModel", pixels(), hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1])


def resnet():
    return hf("ResNetConfig", "ResNetModel", pixels(), embedding_size=8, hidden_sizes=[16, 24], depths=[1, 1])


def segformer():
    return hf("SegformerConfig", "SegformerForSemanticSegmentation", pixels(), depths=[1, 1, 1, 1],
              hidden_sizes=[8, 16, 24, 32], decoder_hidden_size=16, num_attention_heads=[1, 2, 2, 4])  # fmt: skip


def clip_text():
    return hf("CLIPTextConfig", "CLIPTextModel", text(), **{**ENCODER, "bos_token_id": 1, "eos_token_id": 2})


def mobilevit():
    return hf("MobileViTConfig", "MobileViTModel", pixels(64), image_size=64, hidden_sizes=[16, 24, 32],
              neck_hidden_sizes=[8, 8, 16, 16, 24, 24, 32], num_attention_heads=4)  # fmt: skip


def sam():
    return hf("SamVisionConfig", "SamVisionModel", pixels(), hidden_size=32, output_channels=16, num_hidden_layers=2,
              num_attention_heads=4, image_size=32, patch_size=4, window_size=3, global_attn_indexes=[1],
              mlp_dim=48)  # fmt: skip


def dpt():
    return hf("DPTConfig", "DPTForDepthEstimation", pixels(), **{**VISION, "num_hidden_layers": 4},
              backbone_out_indices=[0, 1, 2, 3], neck_hidden_sizes=[8, 8, 16, 16], fusion_hidden_size=16,
              is_hybrid=False)  # fmt: skip


def depth_anything():
    from transformers import Dinov2Config

    backbone = Dinov2Config(**{k: v for k, v in VISION.items() if k != "intermediate_size"}, mlp_ratio=2,
                            out_indices=[1, 2], apply_layernorm=False, reshape_hidden_states=False)  # fmt: skip
    return hf("DepthAnythingConfig", "DepthAnythingForDepthEstimation", pixels(), backbone_config=backbone,
              patch_size=8, reassemble_hidden_size=32, reassemble_factors=[2, 1], neck_hidden_sizes=[8, 16],
              fusion_hidden_size=16, head_hidden_size=8)  # fmt: skip


def detr():
    from transformers import ResNetConfig

    backbone = ResNetConfig(embedding_size=8, hidden_sizes=[16, 24], depths=[1, 1], out_features=["stage2"])
    inputs = {**pixels(), "pixel_mask": torch.ones(2, 32, 32, dtype=torch.long)}
    inputs["pixel_mask"][1, :, 24:] = 0
    return hf("DetrConfig", "DetrForObjectDetection", inputs, backbone_config=backbone, use_timm_backbone=False,
              backbone=None, use_pretrained_backbone=False, num_queries=5, d_model=32, encoder_layers=1,
              decoder_layers=1, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=48,
              decoder_ffn_dim=48)  # fmt: skip


def whisper():
    inputs = {"input_features": torch.randn(2, 20, 40), "decoder_input_ids": ids(2, 7)}
    return hf("WhisperConfig", "WhisperForConditionalGeneration", inputs, vocab_size=VOCABULARY, num_mel_bins=20,
              max_source_positions=20, max_target_positions=32, d_model=32, encoder_layers=1, decoder_layers=1,
              encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=48, decoder_ffn_dim=48,
              use_cache=False, pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1,
              suppress_tokens=None, begin_suppress_tokens=None)  # fmt: skip


def dac():
    return hf("DacConfig", "DacModel", {"input_values": torch.randn(2, 1, 128)}, encoder_hidden_size=8,
              downsampling_ratios=[2, 4], decoder_hidden_size=16, n_codebooks=2, codebook_size=16, codebook_dim=4,
              upsampling_ratios=[4, 2])  # fmt: skip


def speecht5_vocoder():
    return hf("SpeechT5HifiGanConfig", "SpeechT5HifiGan", {"spectrogram": torch.randn(2, 11, 20)}, model_in_dim=20,
              upsample_initial_channel=16, upsample_rates=[4, 2], upsample_kernel_sizes=[8, 4],
              resblock_kernel_sizes=[3], resblock_dilation_sizes=[[1, 3]])  # fmt: skip


def patchtst():
    return hf("PatchTSTConfig", "PatchTSTForPrediction", {"past_values": torch.randn(2, 32, 3)}, num_input_channels=3,
              context_length=32, patch_length=8, patch_stride=4, d_model=16, num_hidden_layers=2,
              num_attention_heads=4, ffn_dim=32, prediction_length=6)  # fmt: skip


def llava():
    from transformers import CLIPVisionConfig, LlamaConfig

    inputs = {**text(1, padded=False), **pixels(rows=1)}
    inputs["input_ids"] = torch.cat([torch.full((1, 16), VOCABULARY - 1), inputs["input_ids"].clamp(max=90)], 1)
    inputs["attention_mask"] = torch.ones_like(inputs["input_ids"])
    return hf("LlavaConfig", "LlavaForConditionalGeneration", inputs, vision_config=CLIPVisionConfig(**VISION),
              text_config=LlamaConfig(**DECODER), image_token_index=VOCABULARY - 1,
              vision_feature_layer=-1)  # fmt: skip


def qwen2_5_vl():
    grid = torch.tensor([[1, 4, 4]])
    tokens = torch.cat([ids(1, 3).clamp(max=80), torch.full((1, 4), 95), ids(1, 9).clamp(max=80)], 1)
    inputs = {"input_ids": tokens, "attention_mask": torch.ones_like(tokens), "image_grid_thw": grid,
              "pixel_values": torch.randn(16, 3 * 2 * 4 * 4),
              "mm_token_type_ids": (tokens == 95).int()}  # fmt: skip
    vision = {"depth": 2, "hidden_size": 32, "num_heads": 4, "intermediate_size": 48, "patch_size": 4,
              "out_hidden_size": 32, "window_size": 16, "fullatt_block_indexes": [1], "in_channels": 3,
              "spatial_merge_size": 2, "temporal_patch_size": 2}  # fmt: skip
    rope = {"rope_type": "default", "mrope_section": [1, 1, 2], "rope_theta": 10000.0}
    return hf("Qwen2_5_VLConfig", "Qwen2_5_VLForConditionalGeneration", inputs, vision_config=vision,
              text_config={**DECODER, "rope_parameters": rope}, image_token_id=95, video_token_id=96,
              vision_start_token_id=97, vision_end_token_id=98)  # fmt: skip


def llama4():
    return hf("Llama4TextConfig", "Llama4ForCausalLM", text(),
              **{**DECODER, "intermediate_size_mlp": 48, "head_dim": 8, "num_local_experts": 4,
                 "num_experts_per_tok": 1, "interleave_moe_layer_step": 2})  # fmt: skip


def speech(name, model=None, **config):
    return lambda: hf(
        f"{name}Config", model or f"{name}Model", {"input_values": torch.randn(2, 400)},
        vocab_size=VOCABULARY, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48,
        conv_dim=[16, 16], conv_stride=[4, 2], conv_kernel=[8, 4], num_feat_extract_layers=2,
        num_conv_pos_embeddings=8, num_conv_pos_embedding_groups=2, apply_spec_augment=False, **config,
    )  # fmt: skip


def encodec():
    return hf("EncodecConfig", "EncodecModel", {"input_values": torch.randn(2, 1, 160)}, hidden_size=16, num_filters=4,
              upsampling_ratios=[4, 2], num_lstm_layers=1, codebook_size=16, codebook_dim=16,
              target_bandwidths=[1.5], sampling_rate=800)  # fmt: skip


def vits():
    return hf("VitsConfig", "VitsModel", text(1, 9, padded=False), vocab_size=VOCABULARY, hidden_size=16, ffn_dim=24,
              num_hidden_layers=1, num_attention_heads=2, flow_size=16, spectrogram_bins=9,
              upsample_initial_channel=16, upsample_rates=[4, 2], upsample_kernel_sizes=[8, 4],
              resblock_kernel_sizes=[3], resblock_dilation_sizes=[[1, 3]], noise_scale=0.0, noise_scale_duration=0.0,
              prior_encoder_num_flows=1, posterior_encoder_num_wavenet_layers=1, prior_encoder_num_wavenet_layers=1,
              depth_separable_num_layers=1, duration_predictor_num_flows=1)  # fmt: skip


def fnet():
    inputs = {"input_ids": ids()}
    return hf("FNetConfig", "FNetModel", inputs, vocab_size=VOCABULARY, hidden_size=32, num_hidden_layers=2,
              intermediate_size=48, max_position_embeddings=64)  # fmt: skip


DEEPSEEK = {"q_lora_rank": 16, "kv_lora_rank": 16, "qk_rope_head_dim": 8, "qk_nope_head_dim": 8, "v_head_dim": 8,
            "n_routed_experts": 4, "n_group": 1, "topk_group": 1, "n_shared_experts": 1, "first_k_dense_replace": 1,
            "num_key_value_heads": 4}  # fmt: skip

TRANSFORMERS = {
    "llama": decoder("Llama"),
    "qwen2": decoder("Qwen2"),
    "qwen3": decoder("Qwen3", head_dim=16),
    "mistral": decoder("Mistral", sliding_window=8),
    "gemma2": decoder("Gemma2", head_dim=8, sliding_window=8),
    "gemma3": decoder("Gemma3Text", "Gemma3ForCausalLM", head_dim=8, sliding_window=8,
                      layer_types=["sliding_attention", "full_attention"]),
    "phi3": decoder("Phi3"),
    "olmo2": decoder("Olmo2"),
    "gpt2": gpt2,
    "gpt_neox": decoder("GPTNeoX"),
    "bloom": bloom,
    "falcon": falcon,
    "mamba": mamba,
    "mamba2": mamba2,
    "rwkv": rwkv,
    "lfm2": lfm2,
    "bert": encoder("Bert"),
    "roberta": encoder("Roberta"),
    "modernbert": encoder("ModernBert", local_attention=8, global_attn_every_n_layers=2, bos_token_id=1,
                          eos_token_id=2, cls_token_id=1, sep_token_id=2),
    "deberta_v2": encoder("DebertaV2", relative_attention=True, pos_att_type=["p2c", "c2p"], position_buckets=8,
                          norm_rel_ebd="layer_norm", share_att_key=True),
    "distilbert": distilbert,
    "electra": encoder("Electra", embedding_size=16),
    "mpnet": encoder("MPNet"),
    "xlnet": xlnet,
    "longformer": longformer,
    "big_bird": big_bird,
    "roformer": encoder("RoFormer", embedding_size=32),
    "convbert": encoder("ConvBert", embedding_size=32, conv_kernel_size=5),
    "albert": albert,
    "t5": t5,
    "bart": bart,
    "vit": vision("ViT"),
    "dinov2": lambda: hf("Dinov2Config", "Dinov2Model", pixels(40),
                         **{k: v for k, v in VISION.items() if k != "intermediate_size"}, mlp_ratio=2),
    "swin": swin,
    "convnext": convnext,
    "resnet": resnet,
    "segformer": segformer,
    "siglip": vision("SiglipVision"),
    "clip_vision": vision("CLIPVision"),
    "clip_text": clip_text,
    "mobilevit": mobilevit,
    "sam": sam,
    "dpt": dpt,
    "depth_anything": depth_anything,
    "detr": detr,
    "whisper": whisper,
    "dac": dac,
    "speecht5_vocoder": speecht5_vocoder,
    "patchtst": patchtst,
    "llava": llava,
    "qwen2_5_vl": qwen2_5_vl,
    "mixtral": decoder("Mixtral", **experts(num_local_experts=4)),
    "qwen3_moe": decoder("Qwen3Moe", **experts(num_experts=4, head_dim=8)),
    "gpt_oss": decoder("GptOss", **experts(num_local_experts=4, head_dim=8, sliding_window=8)),
    "deepseek_v3": decoder("DeepseekV3", **experts(**DEEPSEEK)),
    "jamba": decoder("Jamba", **experts(num_experts=4, attn_layer_period=2, attn_layer_offset=1, expert_layer_period=2,
                                        expert_layer_offset=1, mamba_d_state=8, mamba_dt_rank=4)),
    "llama4": llama4,
    "fnet": fnet,
    "wav2vec2": speech("Wav2Vec2"),
    "wav2vec2_ctc": speech("Wav2Vec2", "Wav2Vec2ForCTC"),
    "hubert": speech("Hubert"),
    "encodec": encodec,
    "vits": vits,
}  # fmt: skip
