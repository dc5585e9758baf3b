"""What several tests use."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import dsh_session as dsh

# A handle that a test forgets is a mistake of the test; the tests about forgotten handles say so themselves.
pytestmark = pytest.mark.filterwarnings("error::ResourceWarning")

# A plugin record: it may stand anywhere in a session, as often as one likes.
NOTE = ("plugin:acme/note", {"turn": 1})

# How long a child process may take before it counts as hung. Far above what any of them needs, so that a slow machine passes.
HUNG_AFTER_S = 120


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "sessions"


@pytest.fixture(params=["files", "memory"])
def store(request: pytest.FixtureRequest, root: Path) -> Iterator[dsh.Store]:
    """A store of each kind: what tests ask of it is the contract of both."""
    with dsh.Store(root if request.param == "files" else None) as opened:
        yield opened


@pytest.fixture
def files(root: Path) -> Iterator[dsh.Store]:
    with dsh.Store(root) as opened:
        yield opened


@pytest.fixture
def run_python() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs a script in a process of its own."""

    def run(script: str, *arguments: object, options: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, *options, "-c", textwrap.dedent(script), *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, timeout=HUNG_AFTER_S, check=False)

    return run
