//! Each fuzz target over its seeds and over inputs mutated from them: what `make fuzz` does for long, done shortly in every test run.
//!
//! `DSH_FUZZ_INPUTS` and `DSH_SEED` choose how many and which.

use dsh_session_core::storage::simulation::SplitMix64;
use fuzz_bodies::TARGETS;
use fuzz_bodies::mutation::mutated;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;

fn setting(name: &str, everyday: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name} must be a number, not `{text}`")),
        Err(_) => everyday,
    }
}

fn seeds(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds").join(target);
    let mut paths: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.iter().map(|path| std::fs::read(path).unwrap()).collect()
}

/// Runs the target; an input that it dies of is printed as it is written in Rust.
fn run(body: fuzz_bodies::Body, input: &[u8]) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| body(input))) {
        eprintln!("the input: b\"{}\"", input.escape_ascii());
        resume_unwind(panic);
    }
}

fn soak(target: &str, everyday: u64) {
    let (_, body) = TARGETS.iter().find(|(name, _)| *name == target).unwrap();
    let seeds = seeds(target);
    assert!(seeds.len() >= 20, "{target} has {} seeds", seeds.len());
    seeds.iter().for_each(|seed| run(*body, seed));
    let (inputs, seed) = (setting("DSH_FUZZ_INPUTS", everyday), setting("DSH_SEED", 1));
    println!("{target}: {} seeds, {inputs} mutated inputs, DSH_SEED={seed}", seeds.len());
    let mut random = SplitMix64::new(seed);
    for _ in 0..inputs {
        let input = random.choose(&seeds).unwrap();
        let other = random.choose(&seeds).unwrap();
        run(*body, &mutated(input, other, &mut random));
    }
}

#[test]
fn compressed_bytes_are_found_and_decoded_the_same_in_every_way() {
    soak("frames", 3000);
}

#[test]
fn a_row_is_json_where_serde_json_says_so_and_its_verdict_is_the_same_each_time() {
    soak("rows", 6000);
}

#[test]
fn an_accepted_header_is_read_back_and_names_only_harmless_folders() {
    soak("headers", 6000);
}

#[test]
fn a_file_of_any_bytes_is_read_the_same_in_every_way_and_an_append_keeps_what_was_readable() {
    soak("files", 3000);
}

#[test]
fn any_sequence_of_calls_of_the_c_library_ends_in_results_or_error_objects() {
    soak("calls", 3000);
}
