# What crossing a border costs: C and Python against Rust on one log in one run. Prints ratios with their aims.

.PHONY: bench-borders

bench-borders: python-install
	$(CARGO) build --quiet --release -p dsh-session-ffi
	$(CARGO) build --quiet --release -p dsh-session-core --example border_loops
	@mkdir -p build
	@ln -sf libdsh_session.so target/release/libdsh_session.so.1
	@$(CC) -std=c99 -O2 -Wall -Wextra -Werror -Iinclude -o build/bench-loops tests/bench/loops.c \
		-Ltarget/release -ldsh_session -Wl,-rpath,$(CURDIR)/target/release
	$(VENV)/bin/python tests/bench/borders.py target/release/examples/border_loops build/bench-loops
