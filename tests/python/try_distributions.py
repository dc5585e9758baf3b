"""Tries the distributions in a folder: the wheels where there is no compiler, the source distribution where there is one.

    python tests/python/try_distributions.py dist

A wheel is installed in a fresh environment without an index, so it can have no dependencies, and runs the Python of the README and the
command line. Which wheel it is, pip says; the one for the oldest Python is tried on this one as well. The source distribution is unpacked
and built outside of the repository, with nothing from it but cargo's cache of other crates, and its wheel is tried in the same way.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import venv
import zipfile
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "bindings" / "python"
README = PACKAGE / "README.md"
# What must travel with every copy of the library.
LICENSES = {name: (PACKAGE / name).read_bytes() for name in ("LICENSE", "THIRD-PARTY-NOTICES.md")}
OLDEST, NEWER = "cp310", "cp311"
HAS_BUFFERS = "import dsh_session as d; print(bytes(memoryview(d.Event.from_row({'type': 'a', 'seq': 0, 'time': 1, 'data': 1})))[:8])"


def python_of(readme: Path) -> str:
    """The Python of a README, one script."""
    blocks = re.findall(r"^```python\n(.*?)^```", readme.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    assert blocks
    return "\n".join(blocks)


def check_licenses(held: dict[str, bytes], where: str) -> None:
    """What the distribution holds is, by name, the licence and the notices of this tree."""
    for name, text in LICENSES.items():
        found = [member for member in held if Path(member).name == name and held[member] == text]
        assert found, f"{where} holds no {name} of this tree: {sorted(held)}"


def check_wheel(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        held = {name: archive.read(name) for name in archive.namelist() if ".dist-info/" in name}
    check_licenses(held, wheel.name)
    (metadata,) = (text for name, text in held.items() if name.endswith("/METADATA"))
    assert b"Requires-Dist" not in metadata and b"Requires-Python: >=3.10" in metadata


def try_wheel(wheel: Path, folder: Path, buffers: bool, index: Path | None = None) -> None:
    """Installs a wheel in an environment of its own, by name from `index` where there is one, and uses it as the README says."""
    environment = folder / "environment"
    venv.create(environment, with_pip=True)
    python = environment / "bin" / "python"
    # No compiler, no cargo, nothing but the environment.
    bare = {"PATH": str(environment / "bin"), "HOME": str(folder)}

    def run(*command: str | os.PathLike[str]) -> str:
        done = subprocess.run(command, cwd=folder, env=bare, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    if index is None:
        run(python, "-m", "pip", "install", "--quiet", "--no-index", wheel)
    else:
        said = run(python, "-m", "pip", "install", "--no-index", "--find-links", index, "--only-binary", ":all:", "dsh-session")
        assert wheel.name in said, said
    run(python, "-W", "error", "-c", python_of(README))
    listed = run(environment / "bin" / "dsh-session", "--root", "sessions", "--json", "list")
    # Every session that the README recorded has a folder of its own.
    assert listed.count('"header"') == len(list((folder / "sessions").glob("*/*"))) > 1, listed
    assert run(python, "-m", "dsh_session", "--root", "sessions", "--json", "list") == listed
    asked = subprocess.run([python, "-c", HAS_BUFFERS], env=bare, capture_output=True, text=True, check=False)
    if buffers:
        assert asked.stdout == "b'{\"type\":'\n", asked.stderr
    else:
        assert asked.returncode == 1 and "TypeError" in asked.stderr, asked.stderr


def build_elsewhere(source: Path, folder: Path) -> Path:
    """Unpacks the source distribution and builds a wheel of it, with the tools of this environment."""
    shutil.unpack_archive(source, folder / "sources")
    (unpacked,) = (folder / "sources").iterdir()
    check_licenses({path.name: path.read_bytes() for path in unpacked.iterdir() if path.is_file()}, source.name)
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps", "--no-build-isolation"]
    tools = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    subprocess.run([*build, unpacked, "-w", folder / "wheels"], cwd=folder, env=tools, check=True)
    (wheel,) = (folder / "wheels").glob("*.whl")
    return wheel


def main() -> None:
    dist = Path(sys.argv[1]).resolve()
    wheels = {wheel.name.split("-")[2]: wheel for wheel in dist.glob("*-abi3-*.whl")}
    (source,) = dist.glob("*.tar.gz")
    has_buffers = sys.version_info >= (3, 11)
    # `make wheel` says it where the newer one cannot be built.
    assert set(wheels) == ({OLDEST, NEWER} if has_buffers else {OLDEST}), wheels
    for wheel in wheels.values():
        check_wheel(wheel)
    with tempfile.TemporaryDirectory() as folder:
        chosen = wheels[NEWER if has_buffers else OLDEST]
        try_wheel(chosen, Path(folder), buffers=has_buffers, index=dist)
        print(f"{chosen.name} works: pip chooses it, no compiler is needed", flush=True)
    if has_buffers:
        with tempfile.TemporaryDirectory() as folder:
            try_wheel(wheels[OLDEST], Path(folder), buffers=False)
            print(f"{wheels[OLDEST].name} works, without buffers", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        built = build_elsewhere(source, Path(folder))
        check_wheel(built)
        try_wheel(built, Path(folder), buffers=has_buffers)
        print(f"{source.name} works: built outside of the tree", flush=True)


if __name__ == "__main__":
    main()
