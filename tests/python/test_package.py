"""The package as a whole: its types, its documentation, its command line."""

from __future__ import annotations

import doctest
import inspect
import json
import subprocess
import sys
from pathlib import Path

import pytest

import dsh_session as dsh
from conftest import NOTE
from dsh_session import _base, _codes, _errors, _native, _records, aio
from try_distributions import README, python_of

REPOSITORY = Path(__file__).parents[2]
PACKAGE = REPOSITORY / "bindings" / "python"
MODULES = [dsh, aio, _base, _codes, _errors, _native, _records]


def checked(*command: str, folder: Path = PACKAGE) -> None:
    done = subprocess.run([sys.executable, "-m", *command], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_package_and_its_generator_pass_strict_typing() -> None:
    checked("mypy", "--strict", "python/dsh_session", "generate_errors.py")


def test_these_tests_pass_strict_typing_as_users_of_the_package() -> None:
    files = list(map(str, Path(__file__).parent.glob("*.py")))
    # With and without buffers.
    for version in ("3.10", "3.11"):
        checked("mypy", "--strict", "--python-executable", sys.executable, "--python-version", version, *files)


def test_the_stubs_say_what_the_native_module_is() -> None:
    allowed = Path(__file__).with_name("stubtest_allowed.txt")
    checked("mypy.stubtest", "dsh_session._native", "--allowlist", str(allowed), "--ignore-unused-allowlist")


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_the_examples_in_the_documentation_run(module: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert doctest.testmod(module).failed == 0  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", [dsh.Store, dsh.Event, dsh.Session, dsh.UploadExclusions, dsh.DeliveryFold], ids=lambda kind: kind.__name__)
def test_the_examples_of_native_classes_run(kind: type) -> None:
    finder, runner = doctest.DocTestFinder(recurse=False), doctest.DocTestRunner()
    (test,) = finder.find(kind, kind.__name__, module=False, globs=dict(vars(dsh)))
    assert test.examples and runner.run(test).failed == 0


def test_the_examples_of_native_methods_run() -> None:
    parser, runner = doctest.DocTestParser(), doctest.DocTestRunner()
    examples = [(name, inspect.getdoc(member) or "") for name, member in vars(dsh.Store).items() if not name.startswith("__")]
    tests = [parser.get_doctest(text, dict(vars(dsh)), name, None, 0) for name, text in examples]
    functions = (dsh.closers, dsh.fold, dsh.fold_surface, dsh.fork_seed, dsh.next_upload)
    tests += [parser.get_doctest(kind.__doc__ or "", dict(vars(dsh)), kind.__name__, None, 0) for kind in functions]
    assert sum(bool(test.examples) for test in tests) >= 15
    assert all(runner.run(test).failed == 0 for test in tests)


def test_everything_public_is_documented() -> None:
    for module in (dsh, aio):
        for name in module.__all__:
            thing = getattr(module, name)
            if not inspect.isclass(thing):
                continue
            assert thing.__doc__, name
            for word, member in vars(thing).items():
                if not word.startswith("_") and (callable(member) or isinstance(member, property)):
                    assert inspect.getdoc(getattr(thing, word)), f"{name}.{word}"


@pytest.mark.parametrize("readme", [README, README.parents[2] / "README.md"], ids=["package", "project"])
def test_the_readme_runs(readme: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-W", "error", "-c", python_of(readme)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("command", [[sys.executable, "-m", "dsh_session"], [str(Path(sys.executable).with_name("dsh-session"))]])
def test_the_command_line_is_the_one_of_the_library(root: Path, command: list[str]) -> None:
    with dsh.Store(root) as store, store.create(id="s1") as session:
        session.append(*NOTE)

    def run(*arguments: str, text: str = "") -> subprocess.CompletedProcess[str]:
        whole = [*command, "--root", str(root), "--json", *arguments]
        return subprocess.run(whole, input=text, capture_output=True, text=True, check=False)

    listed = run("list")
    assert listed.returncode == 0 and json.loads(listed.stdout)["header"]["id"] == "s1"
    shown = run("events", "s1")
    assert shown.returncode == 0 and json.loads(shown.stdout)["type"] == NOTE[0]
    appended = run("append", "s1", text=json.dumps({"type": NOTE[0], "data": 1}) + "\n")
    assert appended.returncode == 0, appended.stderr
    missing = run("events", "nobody")
    assert missing.returncode == 3 and json.loads(missing.stderr)["error"]["code"] == "SESSION_NOT_FOUND"
    assert run("no-such-command").returncode == 2
    with dsh.Store(root) as store:
        assert [event.data for event in store.events("s1")] == [NOTE[1], 1]


def test_the_version_is_the_one_of_the_distribution() -> None:
    from importlib.metadata import distribution

    installed = distribution("dsh-session")
    assert installed.version == dsh.__version__
    assert not installed.requires
