//! The table of error codes in `docs/c-abi.md` is the library's own.
#![allow(missing_docs)]

mod support;

use dsh_session_core::Code;
use std::fmt::Write as _;
use std::fs;

const PAGE: &str = "docs/c-abi.md";
const BEGIN: &str = "<!-- codes: generated, DSH_UPDATE=1 rewrites -->\n";
const END: &str = "<!-- end of codes -->";

fn table() -> String {
    let mut text =
        String::from("| Code | Number | What it means | What to do |\n| --- | --- | --- | --- |\n");
    for code in Code::ALL {
        let (name, number) = (code.name(), code.number());
        let _ = writeln!(text, "| `DSH_E_{name}` | -{number} | {} | {} |", code.meaning(), code.advice());
    }
    text
}

#[test]
fn the_table_of_codes_is_generated() {
    let page = fs::read_to_string(support::root().join(PAGE)).unwrap();
    let (before, rest) = page.split_once(BEGIN).expect("the page has the beginning of the table");
    let (_, after) = rest.split_once(END).expect("the page has the end of the table");
    support::expect_file(PAGE, &format!("{before}{BEGIN}{}{END}{after}", table()));
}
