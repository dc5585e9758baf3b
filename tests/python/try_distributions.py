"""Tries the distributions in a folder: the wheel where there is no compiler, the source distribution where there is one.

    python tests/python/try_distributions.py dist

The wheel is installed in a fresh environment without an index, so it can have no dependencies, and runs the Python of the README and the
command line. The source distribution is built outside of the repository, and its wheel is tried in the same way.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

README = Path(__file__).parents[2] / "bindings" / "python" / "README.md"


def readme_python() -> str:
    """The Python of the README, one script."""
    blocks = re.findall(r"^```python\n(.*?)^```", README.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    assert len(blocks) >= 4
    return "\n".join(blocks)


def try_wheel(wheel: Path, folder: Path) -> None:
    """Installs the wheel in an environment of its own and uses it as the README says."""
    environment = folder / "environment"
    venv.create(environment, with_pip=True)
    python = environment / "bin" / "python"
    # No compiler, no cargo, nothing but the environment.
    bare = {"PATH": str(environment / "bin"), "HOME": str(folder)}

    def run(*command: str | os.PathLike[str]) -> str:
        done = subprocess.run(command, cwd=folder, env=bare, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    run(python, "-m", "pip", "install", "--quiet", "--no-index", wheel)
    run(python, "-W", "error", "-c", readme_python())
    listed = run(environment / "bin" / "dsh-session", "--root", "sessions", "--json", "list")
    assert listed.count('"header"') == 3, listed
    assert run(python, "-m", "dsh_session", "--root", "sessions", "--json", "list") == listed


def main() -> None:
    dist = Path(sys.argv[1]).resolve()
    (wheel,) = dist.glob("*.whl")
    (source,) = dist.glob("*.tar.gz")
    assert "-cp310-abi3-" in wheel.name, wheel.name
    with tempfile.TemporaryDirectory() as folder:
        try_wheel(wheel, Path(folder))
    with tempfile.TemporaryDirectory() as folder:
        build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps"]
        subprocess.run([*build, source, "-w", "wheels"], cwd=folder, check=True)
        (built,) = (Path(folder) / "wheels").glob("*.whl")
        try_wheel(built, Path(folder))
    print(f"{wheel.name} and {source.name} work")


if __name__ == "__main__":
    main()
