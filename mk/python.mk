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

# Two wheels (3.10, which has no buffers in its stable interface; 3.11 and later) and a source distribution. All three are tried: in fresh
# environments, the wheels without a compiler, the sources outside of this tree. What cargo has built of other crates is used again.
PYTHON_WHEELS := abi3-py310 abi3-py311

wheel: $(PYTHON_TOOLS)
	rm -rf dist
	for python in $(PYTHON_WHEELS); do \
		$(VENV)/bin/maturin build --quiet --release --locked -m $(PYTHON_CRATE) --features $$python -o dist; \
	done
	$(VENV)/bin/maturin sdist -m $(PYTHON_CRATE) -o dist
	CARGO_TARGET_DIR=$(abspath target) $(VENV)/bin/python tests/python/try_distributions.py dist
