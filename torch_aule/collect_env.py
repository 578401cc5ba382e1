"""``python -m torch_aule.collect_env``: PyTorch's own environment report with this backend's appended."""

from __future__ import annotations


def main() -> None:
    """Print both reports."""
    from torch.utils import collect_env

    import torch_aule

    print(collect_env.get_pretty_env_info())
    print()
    torch_aule.print_backend_info()


if __name__ == "__main__":
    main()
