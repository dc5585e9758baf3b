# Line and branch coverage of the core by its own tests and the fuzz bodies; fails where a room of files, formats and events is below its aim.
# What is not covered: build/coverage/missing.txt. Aims and exceptions: docs/reliability.md.
#
# It needs cargo-llvm-cov (cargo install cargo-llvm-cov --locked) and the LLVM tools: those of the toolchain (rustup component add
# llvm-tools), or any llvm-cov and llvm-profdata from 19 on, such as Debian's package llvm-19.

.PHONY: coverage

coverage:
	DSH_SEED=$(DSH_SEED) mk/coverage
