"""Tiny models of the families of diffusers with random weights, as in model_families.py.

Diffusion times are small: a model takes sines of them, where an error of one in 2^24 in a thousand is one of 6e-5.
"""

from __future__ import annotations

import torch


def unet():
    import diffusers

    model = diffusers.UNet2DConditionModel(
        sample_size=8, in_channels=4, out_channels=4, block_out_channels=(16, 32), layers_per_block=1,
        down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"), up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
        cross_attention_dim=24, attention_head_dim=8, norm_num_groups=4,
    )  # fmt: skip
    return model, {"sample": torch.randn(2, 4, 8, 8), "timestep": torch.tensor([3, 50]),
                   "encoder_hidden_states": torch.randn(2, 7, 24)}  # fmt: skip


def vae():
    import diffusers

    model = diffusers.AutoencoderKL(block_out_channels=(8, 16), layers_per_block=1, norm_num_groups=4,
                                    down_block_types=("DownEncoderBlock2D",) * 2, latent_channels=4,
                                    up_block_types=("UpDecoderBlock2D",) * 2, sample_size=16)  # fmt: skip
    return model, {"sample": torch.randn(2, 3, 16, 16)}


def flux():
    import diffusers

    model = diffusers.FluxTransformer2DModel(
        patch_size=1, in_channels=4, num_layers=1, num_single_layers=1, attention_head_dim=16, num_attention_heads=2,
        joint_attention_dim=24, pooled_projection_dim=16, axes_dims_rope=(4, 4, 8), guidance_embeds=True,
    )  # fmt: skip
    ids_of_image = torch.zeros(16, 3)
    ids_of_image[:, 1], ids_of_image[:, 2] = torch.arange(16) // 4, torch.arange(16) % 4
    return model, {"hidden_states": torch.randn(2, 16, 4), "encoder_hidden_states": torch.randn(2, 7, 24),
                   "pooled_projections": torch.randn(2, 16), "timestep": torch.tensor([0.03, 0.09]),
                   "img_ids": ids_of_image, "txt_ids": torch.zeros(7, 3),
                   "guidance": torch.tensor([0.035, 0.01])}  # fmt: skip


def sd3():
    import diffusers

    model = diffusers.SD3Transformer2DModel(
        sample_size=8, patch_size=2, in_channels=4, num_layers=2, attention_head_dim=8, num_attention_heads=4,
        joint_attention_dim=24, caption_projection_dim=32, pooled_projection_dim=16, out_channels=4,
        pos_embed_max_size=8,
    )  # fmt: skip
    return model, {"hidden_states": torch.randn(2, 4, 8, 8), "encoder_hidden_states": torch.randn(2, 7, 24),
                   "pooled_projections": torch.randn(2, 16), "timestep": torch.tensor([30.0, 90.0])}  # fmt: skip


def pixart():
    import diffusers

    model = diffusers.PixArtTransformer2DModel(
        num_attention_heads=4, attention_head_dim=8, in_channels=4, out_channels=8, num_layers=2, sample_size=8,
        patch_size=2, cross_attention_dim=32, caption_channels=24, use_additional_conditions=False,
    )  # fmt: skip
    return model, {"hidden_states": torch.randn(2, 4, 8, 8), "encoder_hidden_states": torch.randn(2, 7, 24),
                   "timestep": torch.tensor([30, 90]),
                   "added_cond_kwargs": {"resolution": None, "aspect_ratio": None}}  # fmt: skip


def wan():
    import diffusers

    model = diffusers.WanTransformer3DModel(
        patch_size=(1, 2, 2), num_attention_heads=2, attention_head_dim=12, in_channels=4, out_channels=4, text_dim=24,
        freq_dim=16, ffn_dim=48, num_layers=2, rope_max_seq_len=16,
    )  # fmt: skip
    return model, {"hidden_states": torch.randn(1, 4, 2, 8, 8), "encoder_hidden_states": torch.randn(1, 7, 24),
                   "timestep": torch.tensor([30])}  # fmt: skip


def wan_vae():
    import diffusers

    model = diffusers.AutoencoderKLWan(base_dim=6, z_dim=4, dim_mult=[1, 2], num_res_blocks=1,
                                       temperal_downsample=[False], latents_mean=[0.0] * 4, latents_std=[1.0] * 4,
                                       scale_factor_spatial=2, scale_factor_temporal=1)  # fmt: skip
    return model, {"sample": torch.randn(1, 3, 1, 16, 16)}


def ltx():
    import diffusers

    model = diffusers.LTXVideoTransformer3DModel(
        in_channels=4, out_channels=4, num_attention_heads=2, attention_head_dim=16, cross_attention_dim=32,
        num_layers=1, caption_channels=24,
    )  # fmt: skip
    return model, {"hidden_states": torch.randn(1, 2 * 4 * 4, 4), "encoder_hidden_states": torch.randn(1, 7, 24),
                   "timestep": torch.tensor([30]), "encoder_attention_mask": torch.ones(1, 7), "num_frames": 2,
                   "height": 4, "width": 4}  # fmt: skip


def cogvideox():
    import diffusers

    model = diffusers.CogVideoXTransformer3DModel(
        num_attention_heads=2, attention_head_dim=16, in_channels=4, out_channels=4, time_embed_dim=8,
        text_embed_dim=24, num_layers=1, sample_width=8, sample_height=8, sample_frames=9, patch_size=2,
        temporal_compression_ratio=4, max_text_seq_length=7,
    )  # fmt: skip
    return model, {"hidden_states": torch.randn(1, 3, 4, 8, 8), "encoder_hidden_states": torch.randn(1, 7, 24),
                   "timestep": torch.tensor([30])}  # fmt: skip


def hunyuan_video():
    import diffusers

    model = diffusers.HunyuanVideoTransformer3DModel(
        in_channels=4, out_channels=4, num_attention_heads=2, attention_head_dim=16, num_layers=1,
        num_single_layers=1, num_refiner_layers=1, patch_size=1, patch_size_t=1, text_embed_dim=24,
        pooled_projection_dim=16, rope_axes_dim=(4, 4, 8),
    )  # fmt: skip
    mask = torch.ones(1, 7)
    mask[:, -2:] = 0
    return model, {"hidden_states": torch.randn(1, 4, 2, 4, 4), "encoder_hidden_states": torch.randn(1, 7, 24),
                   "encoder_attention_mask": mask, "pooled_projections": torch.randn(1, 16),
                   "timestep": torch.tensor([30]), "guidance": torch.tensor([60.0])}  # fmt: skip


def qwen_image():
    import diffusers

    model = diffusers.QwenImageTransformer2DModel(
        patch_size=2, in_channels=16, out_channels=4, num_layers=1, attention_head_dim=16, num_attention_heads=2,
        joint_attention_dim=24, axes_dims_rope=(4, 4, 8),
    )  # fmt: skip
    return model, {"hidden_states": torch.randn(1, 16, 16), "encoder_hidden_states": torch.randn(1, 7, 24),
                   "encoder_hidden_states_mask": torch.ones(1, 7, dtype=torch.long),
                   "timestep": torch.tensor([0.03]), "img_shapes": [(1, 4, 4)]}  # fmt: skip


def lumina2():
    import diffusers

    model = diffusers.Lumina2Transformer2DModel(
        sample_size=8, patch_size=2, in_channels=4, hidden_size=32, num_layers=1, num_refiner_layers=1,
        num_attention_heads=2, num_kv_heads=1, multiple_of=8, axes_dim_rope=(4, 4, 8), axes_lens=(32, 16, 16),
        cap_feat_dim=24,
    )  # fmt: skip
    return model, {"hidden_states": torch.randn(1, 4, 8, 8), "timestep": torch.tensor([0.03]),
                   "encoder_hidden_states": torch.randn(1, 7, 24),
                   "encoder_attention_mask": torch.ones(1, 7, dtype=torch.bool)}  # fmt: skip


DIFFUSERS = {
    "unet2d_condition": unet,
    "autoencoder_kl": vae,
    "flux": flux,
    "sd3": sd3,
    "pixart": pixart,
    "wan": wan,
    "wan_vae": wan_vae,
    "ltx": ltx,
    "cogvideox": cogvideox,
    "hunyuan_video": hunyuan_video,
    "qwen_image": qwen_image,
    "lumina2": lumina2,
}
