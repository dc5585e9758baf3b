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
PYTHON_WHEEL := $(VENV)/bin/maturin build --quiet --release --locked -m $(PYTHON_CRATE) -o dist

wheel: $(PYTHON_TOOLS)
	rm -rf dist
	$(PYTHON_WHEEL) --features abi3-py310
	@# Made with an older Python the other one would be no wheel for later ones.
	@if $(VENV)/bin/python -c "import sys; sys.exit(sys.version_info < (3, 11))"; then $(PYTHON_WHEEL) --features abi3-py311; \
		else echo "SKIPPED: the wheel for Python 3.11 and later needs one of them to be built"; fi
	$(VENV)/bin/maturin sdist -m $(PYTHON_CRATE) -o dist
	CARGO_TARGET_DIR=$(abspath target) $(VENV)/bin/python tests/python/try_distributions.py dist
