"""Tokens drawn from logits, one kernel for a vocabulary of any size."""

from __future__ import annotations

import torch

__all__ = ["sample"]


def _option(value, dtype: torch.dtype, device: torch.device) -> torch.Tensor | None:
    if value is None:
        return None
    if isinstance(value, torch.Tensor):
        return value.to(device=device, dtype=dtype)
    return torch.full((), value, dtype=dtype, device=device)


def sample(
    logits: torch.Tensor,
    temperature: float | torch.Tensor = 1.0,
    top_k: int | torch.Tensor | None = None,
    top_p: float | torch.Tensor | None = None,
    min_p: float | torch.Tensor | None = None,
    *,
    counts: torch.Tensor | None = None,
    repetition_penalty: float | torch.Tensor | None = None,
    presence_penalty: float | torch.Tensor | None = None,
    frequency_penalty: float | torch.Tensor | None = None,
    generator: torch.Generator | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Draw a token from each row of logits, in one launch that waits for nothing.

    Options are numbers for all rows, or tensors with one for each, which a captured graph reads anew at each replay.
    The order is: penalties, `temperature`, `top_k`, `top_p`, `min_p`. Tokens as large as the last one that is kept are
    kept too. There is no gradient.

    Parameters
    ----------
    logits : torch.Tensor
        ``[rows, tokens]`` on a device aule; float32, float16 or bfloat16. A NaN is never drawn.
    temperature : float or torch.Tensor, default 1.0
        Divides the logits; 0 takes the largest.
    top_k : int or torch.Tensor, optional
        Keep this number of largest ones; 0 keeps all.
    top_p : float or torch.Tensor, optional
        Of these keep the fewest largest whose probabilities reach it (nucleus sampling).
    min_p : float or torch.Tensor, optional
        Of these keep those of at least this times the largest probability.
    counts : torch.Tensor, optional
        int32 ``[rows, tokens]``: how often each token has occurred, for the penalties.
    repetition_penalty : float or torch.Tensor, optional
        Positive logits of tokens that have occurred are divided by it, negative ones multiplied.
    presence_penalty, frequency_penalty : float or torch.Tensor, optional
        Subtracted from logits of tokens that have occurred: once, and for each time.
    generator : torch.Generator, optional
        Of the device; its default one otherwise.

    Returns
    -------
    token : torch.Tensor
        int64 ``[rows]``.
    log_probability : torch.Tensor
        float32 ``[rows]``: of the token, among those that could be drawn.

    Raises
    ------
    RuntimeError
        For shapes, dtypes or devices that do not fit.

    References
    ----------
    A. Holtzman et al., "The Curious Case of Neural Text Degeneration", 2019, arXiv:1904.09751 (top_p).
    M. Nguyen et al., "Turning Up the Heat: Min-p Sampling", 2024, arXiv:2407.01082.
    N. Keskar et al., "CTRL", 2019, arXiv:1909.05858 (repetition penalty).

    Examples
    --------
    >>> token, log_probability = torch_aule.functional.sample(logits, temperature=0.7, top_k=50, top_p=0.9)
    """

    def number(value):
        return _option(value, torch.float32, logits.device)

    return torch.ops.aule.sample(
        logits,
        number(temperature),
        _option(top_k, torch.int32, logits.device),
        number(top_p),
        number(min_p),
        counts,
        number(repetition_penalty),
        number(presence_penalty),
        number(frequency_penalty),
        generator,
    )
