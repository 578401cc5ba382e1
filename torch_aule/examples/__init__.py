"""Programs that show the device at work."""


def __getattr__(name: str):
    if name == "run_progressive_optimization_demo":
        from torch_aule.examples.progressive import run_progressive_optimization_demo

        return run_progressive_optimization_demo
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
