"""The way of a call of FlexAttention in a graph: our kernels, or the dense form where they have none."""

from __future__ import annotations

import logging

from torch._inductor.exc import LoweringException
from torch._inductor.subgraph_lowering import SubgraphLoweringException

from torch_aule.compile.flex.backward import lower_backward
from torch_aule.compile.flex.dense import lower_dense
from torch_aule.compile.flex.forward import lower_forward

__all__ = ["lower_call"]

_log = logging.getLogger(__name__)
_KERNELS = {"forward": lower_forward, "backward": lower_backward}


def lower_call(name: str, *args) -> tuple:
    """Lower the operator `forward` or `backward`.

    Parameters
    ----------
    name : str
        Of the operator.
    *args
        Its arguments, as Inductor's lowering gets them.

    Returns
    -------
    tuple
        The operator's results.
    """
    try:
        return _KERNELS[name](*args)
    except (NotImplementedError, LoweringException, SubgraphLoweringException) as reason:
        _log.info("flex_attention %s on aule takes the dense form: %s", name, reason)
        return lower_dense(name, args)
