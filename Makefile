# Targets for people: build, demo, test, bench, crash, clean; also install, wheel, lint, kill, fuzz, coverage.
# A fresh machine needs cargo, a C and a C++ compiler, make and Python 3.10 or later; the rest goes into .venv.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := build

PYTHON ?= python3
VENV := .venv
CARGO ?= cargo

-include mk/*.mk

.PHONY: build demo test bench bench-core crash clean lint rust-test

build: python-install
	$(CARGO) build --release --workspace
	@# The name that programs linked against the library look for.
	@ln -sf libdsh_session.so target/release/libdsh_session.so.1

lint:
	@if $(CARGO) fmt --version >/dev/null 2>&1; then $(CARGO) fmt --all --check; else echo "SKIPPED: rustfmt is not installed"; fi
	@if $(CARGO) clippy --version >/dev/null 2>&1; then $(CARGO) clippy --workspace --all-targets -- -D warnings; else echo "SKIPPED: clippy is not installed"; fi
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --quiet

# cmake comes from .venv, koffi from npm where there is one; what is not there is skipped aloud.
rust-test: python-tools
	@if command -v npm >/dev/null; then (cd examples/node && npm install --silent --no-audit --no-fund) || echo "SKIPPED: koffi could not be installed"; fi
	@# What is installed is looked at beside what the tests are built with.
	$(CARGO) build --release --quiet -p dsh-session-ffi
	PATH="$(CURDIR)/$(VENV)/bin:$$PATH" $(CARGO) test --workspace

test: lint rust-test python-test wheel

bench: bench-core bench-borders

bench-core:
	$(CARGO) bench -p dsh-session-core --bench ratios
	$(CARGO) bench -p dsh-session-core --bench session

demo: build
	@mkdir -p build
	@$(CC) -std=c99 -Wall -Wextra -Iinclude -o build/demo-read demo/read.c -Ltarget/release -ldsh_session -Wl,-rpath,$(CURDIR)/target/release
	@$(VENV)/bin/python demo/demo.py

clean:
	rm -rf target $(VENV) build dist
