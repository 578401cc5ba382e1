"""As sentence_transformers.util.environment."""


def get_device_name() -> str:
    return "cpu"
