"""Tables of positions: rotary angles and their scalings for long contexts, polar positions, and slopes of ALiBi.

Tables are computed in float64 on the host and then stored in the dtype that is asked for.
"""

from __future__ import annotations

import math

import torch

__all__ = [
    "alibi_slopes",
    "apply_pope",
    "linear_rope_frequencies",
    "ntk_rope_frequencies",
    "precompute_pope_frequencies",
    "precompute_rope_frequencies",
    "yarn_rope_frequencies",
]


def _check(name: str, seq_len: int, head_dim: int, base: float, scale: float = 1.0, even: bool = True) -> None:
    if seq_len < 0:
        raise ValueError(f"{name}: expected seq_len of at least 0, but got {seq_len}")
    if head_dim < 1 or (even and head_dim % 2 != 0):
        raise ValueError(f"{name}: expected {'an even' if even else 'a positive'} head_dim, but got {head_dim}")
    if not (math.isfinite(base) and base > 1):
        raise ValueError(f"{name}: expected base above 1, but got {base}")
    if not (math.isfinite(scale) and scale > 0):
        raise ValueError(f"{name}: expected scale above 0, but got {scale}")


def _frequencies(head_dim: int, base: float) -> torch.Tensor:
    """``base ** (-2 j / head_dim)`` for each pair ``j``, in radians for each position."""
    return base ** (-torch.arange(0, head_dim, 2, dtype=torch.float64, device="cpu") / head_dim)


def _tables(seq_len: int, frequencies: torch.Tensor, device, dtype: torch.dtype, factor: float = 1.0):
    angles = torch.outer(torch.arange(seq_len, dtype=torch.float64, device="cpu"), frequencies)
    device = torch.get_default_device() if device is None else device
    return tuple((factor * t).to(dtype).to(device) for t in (angles.cos(), angles.sin()))


def precompute_rope_frequencies(
    seq_len: int, head_dim: int, base: float = 10000.0, device=None, dtype: torch.dtype = torch.float32
) -> tuple[torch.Tensor, torch.Tensor]:
    """Cosines and sines of rotary position embedding (RoPE).

    Pair ``j`` of position ``t`` turns by ``t * base ** (-2 j / head_dim)`` radians.

    Parameters
    ----------
    seq_len : int
        Positions, from 0 on.
    head_dim : int
        Even; the tables have half as many columns.
    base : float, default 10000.0
        Above 1.
    device : torch.device or str, optional
        Of the tables; the default device if it is not given.
    dtype : torch.dtype, default torch.float32
        Of the tables.

    Returns
    -------
    cos, sin : torch.Tensor
        ``[seq_len, head_dim / 2]``.

    Raises
    ------
    ValueError
        For a number out of its range.

    References
    ----------
    J. Su, Y. Lu, S. Pan, A. Murtadha, B. Wen, Y. Liu, "RoFormer: Enhanced Transformer with Rotary Position Embedding",
    2021, arXiv:2104.09864.
    """
    _check("precompute_rope_frequencies", seq_len, head_dim, base)
    return _tables(seq_len, _frequencies(head_dim, base), device, dtype)


def linear_rope_frequencies(
    seq_len: int,
    head_dim: int,
    base: float = 10000.0,
    scale: float = 1.0,
    device=None,
    dtype: torch.dtype = torch.float32,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Tables of RoPE with positions divided by `scale` (position interpolation).

    Parameters
    ----------
    seq_len : int
        Positions, from 0 on.
    head_dim : int
        Even; the tables have half as many columns.
    base : float, default 10000.0
        Above 1.
    scale : float, default 1.0
        How many times longer than the context of the training the context is.
    device : torch.device or str, optional
        Of the tables; the default device if it is not given.
    dtype : torch.dtype, default torch.float32
        Of the tables.

    Returns
    -------
    cos, sin : torch.Tensor
        ``[seq_len, head_dim / 2]``.

    Raises
    ------
    ValueError
        For a number out of its range.

    References
    ----------
    S. Chen, S. Wong, L. Chen, Y. Tian, "Extending Context Window of Large Language Models via Positional
    Interpolation", 2023, arXiv:2306.15595.
    """
    _check("linear_rope_frequencies", seq_len, head_dim, base, scale)
    return _tables(seq_len, _frequencies(head_dim, base) / scale, device, dtype)


def ntk_rope_frequencies(
    seq_len: int,
    head_dim: int,
    base: float = 10000.0,
    scale: float = 1.0,
    device=None,
    dtype: torch.dtype = torch.float32,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Tables of RoPE with the base ``base * scale ** (head_dim / (head_dim - 2))`` (NTK-aware scaling).

    The fastest pair keeps its frequency, and the slowest one turns `scale` times slower.

    Parameters
    ----------
    seq_len : int
        Positions, from 0 on.
    head_dim : int
        Even, at least 4; the tables have half as many columns.
    base : float, default 10000.0
        Above 1.
    scale : float, default 1.0
        How many times longer than the context of the training the context is.
    device : torch.device or str, optional
        Of the tables; the default device if it is not given.
    dtype : torch.dtype, default torch.float32
        Of the tables.

    Returns
    -------
    cos, sin : torch.Tensor
        ``[seq_len, head_dim / 2]``.

    Raises
    ------
    ValueError
        For a number out of its range.

    References
    ----------
    B. Peng, J. Quesnelle, H. Fan, E. Shippole, "YaRN: Efficient Context Window Extension of Large Language Models",
    2023, arXiv:2309.00071, section 3.1.
    """
    _check("ntk_rope_frequencies", seq_len, head_dim, base, scale)
    if head_dim < 4:
        raise ValueError(f"ntk_rope_frequencies: expected head_dim of at least 4, but got {head_dim}")
    return _tables(seq_len, _frequencies(head_dim, base * scale ** (head_dim / (head_dim - 2))), device, dtype)


def yarn_rope_frequencies(
    seq_len: int,
    head_dim: int,
    base: float = 10000.0,
    scale: float = 1.0,
    original_max_len: int = 4096,
    beta_fast: float = 32.0,
    beta_slow: float = 1.0,
    mscale: float = 0.1,
    device=None,
    dtype: torch.dtype = torch.float32,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Tables of RoPE scaled by YaRN, times its temperature ``mscale * log(scale) + 1``.

    Pairs that turn more than `beta_fast` times within `original_max_len` keep their frequency, pairs that turn less
    than `beta_slow` times have it divided by `scale`, and those between are blended linearly over their index. The ends
    of that ramp are rounded outwards to whole indices, as in the authors' code. Since queries and keys both carry the
    temperature, scores carry its square.

    Parameters
    ----------
    seq_len : int
        Positions, from 0 on.
    head_dim : int
        Even; the tables have half as many columns.
    base : float, default 10000.0
        Above 1.
    scale : float, default 1.0
        How many times longer than `original_max_len` the context is; up to 1 nothing is scaled.
    original_max_len : int, default 4096
        Context of the training, in positions.
    beta_fast, beta_slow : float, default 32.0 and 1.0
        Turns within `original_max_len`, ``beta_fast >= beta_slow > 0``.
    mscale : float, default 0.1
        How fast the temperature grows.
    device : torch.device or str, optional
        Of the tables; the default device if it is not given.
    dtype : torch.dtype, default torch.float32
        Of the tables.

    Returns
    -------
    cos, sin : torch.Tensor
        ``[seq_len, head_dim / 2]``.

    Raises
    ------
    ValueError
        For a number out of its range.

    References
    ----------
    B. Peng, J. Quesnelle, H. Fan, E. Shippole, "YaRN: Efficient Context Window Extension of Large Language Models",
    2023, arXiv:2309.00071.
    """
    name = "yarn_rope_frequencies"
    _check(name, seq_len, head_dim, base, scale)
    if original_max_len < 1:
        raise ValueError(f"{name}: expected original_max_len of at least 1, but got {original_max_len}")
    if not beta_fast >= beta_slow > 0:
        raise ValueError(f"{name}: expected beta_fast >= beta_slow > 0, but got {beta_fast} and {beta_slow}")
    frequencies = _frequencies(head_dim, base)
    if scale <= 1:
        return _tables(seq_len, frequencies, device, dtype)

    def pair_of(turns: float) -> float:
        """The index, not whole, of the pair that makes that number of turns in the context of the training."""
        return head_dim * math.log(original_max_len / (2 * math.pi * turns)) / (2 * math.log(base))

    first = max(math.floor(pair_of(beta_fast)), 0)
    last = float(min(math.ceil(pair_of(beta_slow)), head_dim - 1))
    if last == first:
        last += 0.001  # a step
    pairs = torch.arange(head_dim // 2, dtype=torch.float64, device="cpu")
    interpolated = ((pairs - first) / (last - first)).clamp(0, 1)
    blended = frequencies * (1 - interpolated) + frequencies / scale * interpolated
    return _tables(seq_len, blended, device, dtype, mscale * math.log(scale) + 1)


def precompute_pope_frequencies(
    seq_len: int, head_dim: int, base: float = 10000.0, device=None, dtype: torch.dtype = torch.float32
) -> tuple[torch.Tensor, torch.Tensor]:
    """Cosines and sines of polar coordinate position embedding (PoPE), for :func:`apply_pope`.

    Each element has a frequency of its own, where RoPE has one for each pair: element ``c`` of position ``t`` has the
    phase ``t * base ** (-c / head_dim)`` radians.

    Parameters
    ----------
    seq_len : int
        Positions, from 0 on.
    head_dim : int
        Columns of the tables.
    base : float, default 10000.0
        Above 1.
    device : torch.device or str, optional
        Of the tables; the default device if it is not given.
    dtype : torch.dtype, default torch.float32
        Of the tables.

    Returns
    -------
    cos, sin : torch.Tensor
        ``[seq_len, head_dim]``.

    Raises
    ------
    ValueError
        For a number out of its range.

    References
    ----------
    A. Gopalakrishnan, R. Csordas, J. Schmidhuber, M. C. Mozer, "Decoupling the 'What' and 'Where' With Polar Coordinate
    Positional Embeddings", 2025, arXiv:2509.10534.
    """
    _check("precompute_pope_frequencies", seq_len, head_dim, base, even=False)
    frequencies = base ** (-torch.arange(head_dim, dtype=torch.float64, device="cpu") / head_dim)
    return _tables(seq_len, frequencies, device, dtype)


def apply_pope(
    x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, phase: torch.Tensor | None = None
) -> torch.Tensor:
    """Queries or keys as polar coordinates: the magnitude ``softplus(x)`` at the phase of the position.

    The score of two results is ``sum_c softplus(q_c) softplus(k_c) cos((s - t) theta_c + phase_c)`` for a query at
    ``t`` and a key at ``s``. Results are twice as wide as `x`, so give attention ``scale=head_dim ** -0.5``.
    Differentiable in `x` and `phase`.

    Parameters
    ----------
    x : torch.Tensor
        ``[..., tokens, head_dim]``, floating.
    cos, sin : torch.Tensor
        ``[rows, head_dim]`` of :func:`precompute_pope_frequencies`, with at least as many rows as tokens.
    phase : torch.Tensor, optional
        Radians, added to the phases; broadcasts to `x`, such as ``[heads, 1, head_dim]``. For keys only: what the paper
        learns, between ``-2 pi`` and 0.

    Returns
    -------
    torch.Tensor
        ``[..., tokens, 2 * head_dim]`` in the dtype of `x`.

    Raises
    ------
    ValueError
        If the tables do not fit.

    References
    ----------
    A. Gopalakrishnan, R. Csordas, J. Schmidhuber, M. C. Mozer, "Decoupling the 'What' and 'Where' With Polar Coordinate
    Positional Embeddings", 2025, arXiv:2509.10534.
    """
    for name, table in (("cos", cos), ("sin", sin)):
        if table.dim() != 2 or table.size(0) < x.size(-2) or table.size(1) != x.size(-1):
            raise ValueError(
                f"apply_pope: expected {name} of shape [at least {x.size(-2)}, {x.size(-1)}], but got "
                f"{list(table.shape)}"
            )
    wide = torch.promote_types(x.dtype, torch.float32)
    cos, sin = (table[: x.size(-2)].to(wide) for table in (cos, sin))
    if phase is not None:
        turn = phase.to(wide)
        cos, sin = cos * turn.cos() - sin * turn.sin(), sin * turn.cos() + cos * turn.sin()
    magnitude = torch.nn.functional.softplus(x.to(wide))
    return torch.cat((magnitude * cos, magnitude * sin), -1).to(x.dtype)


def alibi_slopes(num_heads: int, device=None) -> torch.Tensor:
    """Slopes of attention with linear biases (ALiBi), for ``alibi_slopes`` of the attention functions.

    A power of two of heads has the slopes ``2 ** (-8 i / num_heads)`` for ``i`` from 1 on. Another number has those of
    the power of two below it, and then every second one of the power above.

    Parameters
    ----------
    num_heads : int
        Query heads.
    device : torch.device or str, optional
        Of the slopes; the default device if it is not given.

    Returns
    -------
    torch.Tensor
        float32 ``[num_heads]``: what a score loses for each position between query and key.

    Raises
    ------
    ValueError
        For less than one head.

    References
    ----------
    O. Press, N. A. Smith, M. Lewis, "Train Short, Test Long: Attention with Linear Biases Enables Input Length
    Extrapolation", 2022, arXiv:2108.12409.
    """
    if num_heads < 1:
        raise ValueError(f"alibi_slopes: expected num_heads of at least 1, but got {num_heads}")
    below = 1 << (num_heads.bit_length() - 1)

    def of_power(heads: int) -> list[float]:
        return [2.0 ** (-8 * i / heads) for i in range(1, heads + 1)]

    slopes = of_power(below) + of_power(2 * below)[::2][: num_heads - below]
    return torch.tensor(slopes, dtype=torch.float32, device="cpu").to(
        torch.get_default_device() if device is None else device
    )
