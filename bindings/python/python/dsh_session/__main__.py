"""The command line: ``dsh-session`` and ``python -m dsh_session``."""

from __future__ import annotations

import sys

from ._native import run_command_line


def main() -> int:
    """Runs the command line with the arguments of this process; gives its exit code."""
    return run_command_line(["dsh-session", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
