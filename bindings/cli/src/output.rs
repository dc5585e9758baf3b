//! Standard output: buffered, written as the command goes on, and a quiet end where nobody reads it any more.

use crate::failure::Failure;
use std::io::{self, StdoutLock, Write};

/// Bytes collected before they are written; a row that is longer goes out as it comes.
const BUFFER_BYTES: usize = 64 * 1024;

/// Lines to standard output.
#[derive(Debug)]
pub(crate) struct Output {
    stdout: io::BufWriter<StdoutLock<'static>>,
}

impl Output {
    pub(crate) fn new() -> Output {
        // `StdoutLock` buffers by lines; the buffer in front of it makes one write of many lines.
        Output { stdout: io::BufWriter::with_capacity(BUFFER_BYTES, io::stdout().lock()) }
    }

    /// Prints a line for a person: what would move a terminal's cursor or turn its text around is shown, not sent.
    pub(crate) fn text(&mut self, text: &str) -> Result<(), Failure> {
        self.line(&visible(text))
    }

    /// Prints a line of data, byte for byte.
    pub(crate) fn line(&mut self, text: &str) -> Result<(), Failure> {
        self.stdout.write_all(text.as_bytes()).and_then(|()| self.stdout.write_all(b"\n")).map_err(refused)
    }

    /// Sends what was printed on its way.
    pub(crate) fn flush(&mut self) -> Result<(), Failure> {
        self.stdout.flush().map_err(refused)
    }
}

fn refused(error: io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::BrokenPipe => Failure::NobodyReads,
        _ => Failure::Stream("write to standard output", error),
    }
}

/// The text with control characters and the marks that change the direction of writing as escapes (`\u{1b}`): ids, paths and names come
/// from files that anybody may have written.
pub(crate) fn visible(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        let changes_direction =
            matches!(character, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        if character.is_control() || changes_direction {
            out.extend(character.escape_unicode());
        } else {
            out.push(character);
        }
    }
    out
}

/// Rows of cells made [`visible`], each column as wide as its widest cell (counted in characters), the last one as it comes.
pub(crate) fn table(rows: &[Vec<String>]) -> Vec<String> {
    let rows: Vec<Vec<String>> =
        rows.iter().map(|row| row.iter().map(|cell| visible(cell)).collect()).collect();
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell: &String| cell.chars().count()).max()
    };
    let widths: Vec<_> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    let line = |row: &Vec<String>| {
        let mut line = String::new();
        for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let is_last = column + 1 == row.len();
            line.push_str(cell);
            if !is_last {
                let gap = width - cell.chars().count() + 2;
                line.extend(std::iter::repeat_n(' ', gap));
            }
        }
        line
    };
    rows.iter().map(line).collect()
}

/// Bytes for a person.
pub(crate) fn bytes_text(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

/// Unix milliseconds as `2025-10-09 08:53:20Z`, for a person.
pub(crate) fn time_text(time_ms: i64) -> String {
    let seconds = time_ms.div_euclid(1000);
    let (days, of_day) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let (year, month, day) = civil_date(days);
    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}Z")
}

/// The date of a day counted from 1970-01-01, in the Gregorian calendar carried back and forth for ever.
///
/// Years are counted from March, so that the leap day is the last of its year; 146,097 days make 400 years.
fn civil_date(days: i64) -> (i64, i64, i64) {
    let from_march_0000 = days + 719_468;
    let era = from_march_0000.div_euclid(146_097);
    let day_of_era = from_march_0000.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::{bytes_text, table, time_text, visible};

    #[test]
    fn what_would_reach_a_terminal_as_a_command_is_shown_instead() {
        assert_eq!(visible("a\u{1b}[2J\n\u{9b}b\u{202e}c\u{7f}"), r"a\u{1b}[2J\u{a}\u{9b}b\u{202e}c\u{7f}");
        assert_eq!(visible("日本 é 👍 \\"), "日本 é 👍 \\");
        assert_eq!(
            table(&[vec!["\t".to_owned(), "x".to_owned()], vec!["12345".to_owned(), "y".to_owned()]]),
            [r"\u{9}  x", "12345  y"]
        );
    }

    #[test]
    fn times_are_those_of_the_calendar_before_and_after_1970() {
        assert_eq!(time_text(0), "1970-01-01 00:00:00Z");
        assert_eq!(time_text(-1), "1969-12-31 23:59:59Z");
        assert_eq!(time_text(951_782_400_000), "2000-02-29 00:00:00Z");
        assert_eq!(time_text(1_760_000_000_000), "2025-10-09 08:53:20Z");
        assert_eq!(time_text(4_107_542_400_000), "2100-03-01 00:00:00Z");
    }

    #[test]
    fn sizes_change_their_unit_at_1024() {
        assert_eq!(bytes_text(1023), "1023 B");
        assert_eq!(bytes_text(1024), "1.0 KiB");
        assert_eq!(bytes_text(1 << 30), "1.0 GiB");
    }

    #[test]
    fn columns_begin_below_each_other() {
        let rows = [vec!["a".to_owned(), "bb".to_owned()], vec!["ccc".to_owned(), "d".to_owned()]];
        assert_eq!(table(&rows), ["a    bb", "ccc  d"]);
    }
}
