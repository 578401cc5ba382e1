"""The names of :mod:`torch_aule.validation`, under a verb: ``torch_aule.validate.compare(model, x)``."""

from torch_aule.validation import *  # noqa: F403
from torch_aule.validation import __all__ as __all__
