# The Python package: build and install into .venv, test, wheels. Included by the Makefile of the root.

VENV ?= .venv
PYTHON ?= python3
PYTHON_CRATE := bindings/python/Cargo.toml
PYTHON_TOOLS := $(VENV)/.tools-installed

.PHONY: python-tools python-install python-test python-errors wheel

$(PYTHON_TOOLS): tests/python/requirements.txt
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check -r $<
	touch $@

python-tools: $(PYTHON_TOOLS)

# Editable: Python files are used from where they stand, the native module is built beside them.
python-install: $(PYTHON_TOOLS)
	VIRTUAL_ENV=$(abspath $(VENV)) $(VENV)/bin/maturin develop --quiet --release -m $(PYTHON_CRATE)

python-test: python-install
	$(VENV)/bin/python -m pytest -q tests/python

# The exception classes, from the library's own table of codes.
python-errors: python-install
	$(VENV)/bin/python bindings/python/generate_errors.py

# One abi3 wheel for every Python from 3.10 on, and a source distribution; both are tried in fresh environments.
wheel: $(PYTHON_TOOLS)
	rm -rf dist
	$(VENV)/bin/maturin build --quiet --release -m $(PYTHON_CRATE) -o dist
	$(VENV)/bin/maturin sdist -m $(PYTHON_CRATE) -o dist
	$(PYTHON) tests/python/try_distributions.py dist
