# Long runs of the tests of durability, in release. Each prints what it did and the seed to repeat it with.
#
#   make crash                        about a million images of what a power failure may leave
#   make crash DSH_CRASH_IMAGES=20000000 DSH_SEED=7
#   make kill                         5,000 killed writers with readers beside them, 5,000 turns of eight processes that fight for a session
#   make fuzz                         each fuzz target for 20 minutes; what libFuzzer finds is kept in fuzz/libfuzzer
#   make fuzz DSH_FUZZ_TARGETS=files DSH_FUZZ_SECONDS=60 DSH_SEED=7

DSH_CRASH_IMAGES ?= 1000000
DSH_KILL_ROUNDS ?= 5000
DSH_FIGHT_ROUNDS ?= 5000
DSH_FUZZ_SECONDS ?= 1200
DSH_FUZZ_TARGETS ?= frames rows headers files calls
DSH_SEED ?= 1

CAMPAIGN = cargo test --release --package dsh-session-core

.PHONY: crash kill fuzz

crash:
	DSH_CRASH_IMAGES=$(DSH_CRASH_IMAGES) DSH_SEED=$(DSH_SEED) $(CAMPAIGN) --test crash_images -- --nocapture

kill:
	DSH_KILL_ROUNDS=$(DSH_KILL_ROUNDS) DSH_FIGHT_ROUNDS=$(DSH_FIGHT_ROUNDS) DSH_SEED=$(DSH_SEED) \
		$(CAMPAIGN) --test processes -- --nocapture

fuzz:
	DSH_FUZZ_SECONDS=$(DSH_FUZZ_SECONDS) DSH_FUZZ_TARGETS="$(DSH_FUZZ_TARGETS)" DSH_SEED=$(DSH_SEED) fuzz/run
