//! Simple case folding (`query.md` 3.5, rule 4).
//!
//! Every character is put in the place of the first one of those that differ from it in case only. Which member of such a set stands
//! for it does not matter, as both sides of a comparison are folded; the first is an ASCII capital for `k` and `s`, whose sets reach
//! beyond ASCII.

use super::case_fold_table::RUNS;

/// Characters whose first relative is as far away for all: every `step`-th one from `first` to `last`.
pub(super) struct Run {
    pub(super) first: u32,
    pub(super) last: u32,
    pub(super) step: u32,
    /// What is subtracted.
    pub(super) distance: u32,
}

/// The character that stands for all those that differ from this one in case only.
pub(super) fn fold(character: char) -> char {
    if character.is_ascii() {
        return character.to_ascii_uppercase();
    }
    let code = u32::from(character);
    let after = RUNS.partition_point(|run| run.first <= code);
    let Some(run) = after.checked_sub(1).and_then(|index| RUNS.get(index)) else { return character };
    if code > run.last || (code - run.first) % run.step != 0 {
        return character;
    }
    char::from_u32(code - run.distance).unwrap_or(character)
}

#[cfg(test)]
mod tests {
    use super::fold;
    use regex_syntax::hir::{ClassUnicode, ClassUnicodeRange};
    use std::fmt::Write;

    /// The first character of the set, by the tables of another implementation.
    fn first_relative(character: char) -> char {
        let mut class = ClassUnicode::new([ClassUnicodeRange::new(character, character)]);
        class.try_case_fold_simple().unwrap();
        class.ranges().first().unwrap().start()
    }

    fn all() -> impl Iterator<Item = char> {
        '\0'..=char::MAX
    }

    struct Found {
        first: u32,
        last: u32,
        step: Option<u32>,
        distance: u32,
    }

    /// The table: neighbours with the same distance in one line, also where every second character is one.
    fn table() -> String {
        let mut runs: Vec<Found> = Vec::new();
        for character in all().filter(|character| !character.is_ascii()) {
            let (code, distance) =
                (u32::from(character), u32::from(character) - u32::from(first_relative(character)));
            if distance == 0 {
                continue;
            }
            match runs.last_mut() {
                Some(run)
                    if run.distance == distance
                        && (1..=2).contains(&(code - run.last))
                        && run.step.is_none_or(|step| step == code - run.last) =>
                {
                    run.step = Some(code - run.last);
                    run.last = code;
                }
                _ => runs.push(Found { first: code, last: code, step: None, distance }),
            }
        }
        let mut text = String::from(
            "//! Simple case folding of Unicode 16, made by the test of `case_fold`; do not edit.\n\nuse super::case_fold::Run;\n\n\
             /// In order, none inside another.\n#[rustfmt::skip]\npub(super) static RUNS: &[Run] = &[\n",
        );
        for Found { first, last, step, distance } in runs {
            let step = step.unwrap_or(1);
            writeln!(
                text,
                "    Run {{ first: 0x{first:04X}, last: 0x{last:04X}, step: {step}, distance: {distance} }},"
            )
            .unwrap();
        }
        text + "];\n"
    }

    /// `DSH_UPDATE=1` writes the table anew.
    #[test]
    fn the_table_is_the_one_that_is_generated() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/query/case_fold_table.rs");
        let table = table();
        if std::env::var_os("DSH_UPDATE").is_some() {
            std::fs::write(path, &table).unwrap();
        }
        assert!(std::fs::read_to_string(path).unwrap() == table, "run this test with DSH_UPDATE=1");
    }

    #[test]
    fn every_character_folds_to_the_first_of_those_that_differ_in_case_only() {
        for character in all() {
            assert_eq!(fold(character), first_relative(character), "U+{:04X}", u32::from(character));
        }
    }
}
