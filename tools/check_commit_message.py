"""Git's commit-msg hook: a subject of at most 72 characters, and a body that says why unless files only move.

    python3 tools/check_commit_message.py FILE     as pre-commit calls it, with the file of the message
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

MAX_SUBJECT = 72


def faults(message: str, changes: list[str]) -> list[str]:
    """What is wrong with a message, given `git diff --name-status` of what is committed. Empty where nothing is."""
    lines = [line.rstrip() for line in message.splitlines() if not line.startswith("#")]
    subject, body = (lines[0] if lines else ""), [line for line in lines[1:] if line]
    if subject.startswith(("Merge ", "Revert ", "fixup! ", "squash! ")):
        return []
    found = []
    if not subject:
        found.append("there is no subject")
    if len(subject) > MAX_SUBJECT:
        found.append(f"the subject has {len(subject)} characters, {MAX_SUBJECT} are allowed")
    if len(lines) > 1 and lines[1]:
        found.append("the line after the subject is not empty")
    is_move = any(change.startswith("R") for change in changes) and all(change[:1] in "RM" for change in changes)
    if not body and not is_move:
        found.append("there is no body that says why")
    return found


def main() -> int:
    command = ["git", "diff", "--cached", "--name-status", "--find-renames"]
    changes = subprocess.run(command, capture_output=True, text=True).stdout.splitlines()
    found = faults(Path(sys.argv[1]).read_text(), changes)
    for fault in found:
        print(fault, file=sys.stderr)
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
