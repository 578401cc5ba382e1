"""What ComfyUI does with custom nodes and with attention: its loader, its checks of a node, and a model's clone."""

import copy
import functools
import importlib.util


def load_custom_node(folder):
    """The classes and display names of a folder of custom_nodes."""
    spec = importlib.util.spec_from_file_location(folder.name, folder / "__init__.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.NODE_CLASS_MAPPINGS, module.NODE_DISPLAY_NAME_MAPPINGS


def run_node(node_class, **inputs):
    """Checks inputs against INPUT_TYPES and outputs against RETURN_TYPES, fills in defaults, and calls FUNCTION."""
    assert isinstance(node_class.CATEGORY, str) and isinstance(node_class.RETURN_TYPES, tuple)
    assert node_class.RETURN_TYPES or node_class.OUTPUT_NODE
    known = {}
    for kind in ("required", "optional"):
        for name, (_, *options) in node_class.INPUT_TYPES().get(kind, {}).items():
            known[name] = options[0].get("default") if options else None
    assert set(inputs) <= set(known), (inputs, known)
    outputs = getattr(node_class(), node_class.FUNCTION)(**{**known, **inputs})
    assert isinstance(outputs, tuple) and len(outputs) == len(node_class.RETURN_TYPES)
    return outputs


class ModelPatcher:
    def __init__(self):
        self.model_options = {"transformer_options": {}}

    def clone(self):
        clone = ModelPatcher()
        clone.model_options = copy.copy(self.model_options)
        return clone


def wrap_attn(function):
    """An override in transformer_options is called with the function and its arguments."""

    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        override = (kwargs.get("transformer_options") or {}).get("optimized_attention_override")
        return function(*args, **kwargs) if override is None else override(function, *args, **kwargs)

    return wrapper
