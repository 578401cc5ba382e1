"""Types of GGUF files (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md) and the formats that serve them."""

from __future__ import annotations

from types import MappingProxyType

__all__ = ["FORMAT_OF_TYPE"]

FORMAT_OF_TYPE = MappingProxyType({
    2: "q4_0",
    3: "q4_1",
    6: "q5_0",
    7: "q5_1",
    8: "q8_0",
    10: "q2_k",
    11: "q3_k",
    12: "q4_k",
    13: "q5_k",
    14: "q6_k",
    20: "iq4_nl",
    23: "iq4_xs",
    39: "mxfp4",
})  # fmt: skip
"""The name of the format in :data:`torch_aule.quantized.FORMATS` for each ``ggml_type`` that the device reads."""
