"""``python -m torch_aule.build_shaders``: compiles the shaders of a source checkout; see ``glsl/compile.py``."""

from __future__ import annotations

import pathlib
import subprocess
import sys


def main(arguments: list[str] | None = None) -> int:
    """Run the shader compiler.

    Parameters
    ----------
    arguments : list of str, optional
        Of the command line; those of this process by default. Without any, ``--out build/gen`` of the checkout.

    Returns
    -------
    int
        Its exit status; 2 if this is no source checkout, as in an installed wheel, whose shaders are compiled already.
    """
    package = pathlib.Path(__file__).resolve().parent.parent
    root, script = package.parent, package / "glsl" / "compile.py"
    if not (root / "shaders").is_dir():
        print(f"there is no {root / 'shaders'}: shaders are compiled from a source checkout only", file=sys.stderr)
        return 2
    given = sys.argv[1:] if arguments is None else arguments
    return subprocess.run([sys.executable, str(script), *(given or ["--out", str(root / "build" / "gen")])]).returncode


if __name__ == "__main__":
    sys.exit(main())
