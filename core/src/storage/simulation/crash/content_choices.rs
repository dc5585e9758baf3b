//! What a crash may leave of a file's unsynced changes.
//!
//! A file system writes content and size in no promised order. After a crash, a file may have any size it had since
//! its last sync, or one in between, and each unsynced byte may be there, be zero (the block was allocated but not
//! written), or, after a cut, be the older one (the block was not freed). Bytes that no change touched are there.

use super::super::SplitMix64;
use super::super::content::Content;
use super::replay::PendingFile;

/// Up to how many unsynced bytes every possible run of zeros is listed: their number grows with the third power.
const EXHAUSTIVE_ZEROS_BYTES_MAX: u64 = 16;

/// One way a file may have survived.
#[derive(Clone, Debug)]
pub(super) struct FileChoice {
    pub(super) content: Content,
    /// Whether unsynced bytes survived behind others that did not.
    pub(super) has_hole: bool,
    pub(super) outcome: FileOutcome,
}

/// The way, for messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileOutcome {
    Everything,
    Lost,
    /// The first so many changes survived.
    Changes(usize),
    /// Cut inside the change with this number.
    Cut(usize, u64),
    /// Zeros from here to this end.
    Zeros(u64, u64),
    /// Zeros between, bytes behind.
    Hole(u64, u64),
    /// Bytes up to here, then the older ones that a cut should have removed.
    Older(u64),
    /// The bytes that a failed sync did not write are zeros.
    DoubtfulLost,
}

impl FileChoice {
    fn new(content: Content, outcome: FileOutcome) -> Self {
        FileChoice { content, has_hole: false, outcome }
    }
}

/// The cases that matter most: everything first, nothing second (if they differ), then one of each kind.
pub(super) fn corners(file: &PendingFile) -> Vec<FileChoice> {
    let mut choices = ends(file);
    for (number, (begin, end)) in growths(file) {
        let cuts = [begin + 1, begin + (end - begin) / 2, end - 1];
        push_cuts(file, number, cuts.into_iter().filter(|cut| (begin + 1..end).contains(cut)), &mut choices);
    }
    let (floor, live) = (file.untouched_size(), file.live().size());
    let middle = floor + live.saturating_sub(floor) / 2;
    let mut zeros = vec![floor, middle, live.saturating_sub(1)];
    zeros.dedup();
    push_zeros(file, zeros.into_iter().filter(|from| (floor..live).contains(from)), &mut choices);
    let mut holes = vec![(floor, middle), (middle, live.saturating_sub(1))];
    holes.extend(growths(file).into_iter().map(|(_, range)| range));
    holes.dedup();
    push_holes(file, holes, &mut choices);
    push_older(file, [floor, middle, live], &mut choices);
    choices
}

/// Every cut, with nothing or zeros up to the full size behind; while the unsynced bytes are few, also every run of
/// zeros in a file of every size.
pub(super) fn exhaustive(file: &PendingFile) -> Vec<FileChoice> {
    let mut choices = ends(file);
    for (number, (begin, end)) in growths(file) {
        push_cuts(file, number, begin + 1..end, &mut choices);
    }
    let (floor, live) = (file.untouched_size(), file.live());
    push_zeros(file, floor..live.size(), &mut choices);
    if live.size().saturating_sub(floor) <= EXHAUSTIVE_ZEROS_BYTES_MAX {
        for size in floor..=live.size() {
            let content = prefix(live, size);
            let ends = |from| (from + 1..=size).map(move |to| (from, to));
            let runs = (floor..size).flat_map(ends).filter(|(_, to)| *to < live.size());
            choices.extend(runs.map(|(from, to)| zeroed(&content, from, to)));
        }
    }
    push_older(file, floor..=live.size(), &mut choices);
    choices
}

/// Any possible outcome.
pub(super) fn random(file: &PendingFile, random: &mut SplitMix64) -> FileChoice {
    let (floor, live) = (file.untouched_size(), file.live());
    let between =
        |random: &mut SplitMix64, from: u64, to: u64| from + random.below(to.saturating_sub(from) + 1);
    let mut choice = match random.below(6) {
        0 => FileChoice::new(live.clone(), FileOutcome::Everything),
        1 => {
            let number = random.below(file.versions.len() as u64) as usize;
            let content = file.versions.get(number).unwrap_or(live).clone();
            FileChoice::new(content, FileOutcome::Changes(number))
        }
        2 => {
            let cut = between(random, floor, live.size());
            FileChoice::new(prefix(live, cut), FileOutcome::Cut(file.versions.len() - 1, cut))
        }
        3 | 4 => {
            let from = between(random, floor, live.size());
            let to = between(random, from, live.size());
            let size = if random.once_in(2) { to } else { between(random, to, live.size()) };
            zeroed(&prefix(live, size), from, to)
        }
        _ => {
            let cut = between(random, floor, live.size());
            older(file, cut, random.once_in(2))
                .unwrap_or_else(|| FileChoice::new(live.clone(), FileOutcome::Everything))
        }
    };
    for range in &file.doubtful {
        if random.once_in(2) {
            choice = lose(&choice, range);
        }
    }
    choice
}

/// Everything and nothing, each with and without the bytes in doubt, and each number of changes between.
fn ends(file: &PendingFile) -> Vec<FileChoice> {
    let everything = FileChoice::new(file.live().clone(), FileOutcome::Everything);
    let without_doubtful =
        |choice: &FileChoice| file.doubtful.iter().fold(choice.clone(), |c, range| lose(&c, range));
    let mut choices = vec![everything.clone()];
    let is_changed = file.versions.len() > 1;
    if let Some(durable) = file.versions.first().filter(|_| is_changed) {
        let lost = FileChoice::new(durable.clone(), FileOutcome::Lost);
        if !file.doubtful.is_empty() {
            choices.push(without_doubtful(&lost));
        }
        choices.push(lost);
    }
    if !file.doubtful.is_empty() {
        choices.push(without_doubtful(&everything));
    }
    let between = file.versions.iter().enumerate().skip(1).take(file.versions.len().saturating_sub(2));
    choices.extend(
        between.map(|(number, content)| FileChoice::new(content.clone(), FileOutcome::Changes(number))),
    );
    choices
}

/// The changes that made the file longer: their number, and from which size to which.
fn growths(file: &PendingFile) -> Vec<(usize, (u64, u64))> {
    let pairs = file.versions.iter().zip(file.versions.iter().skip(1)).enumerate();
    pairs
        .map(|(number, (old, new))| (number + 1, (old.size(), new.size())))
        .filter(|(_, (o, n))| o < n)
        .collect()
}

fn push_cuts(
    file: &PendingFile,
    number: usize,
    cuts: impl Iterator<Item = u64>,
    choices: &mut Vec<FileChoice>,
) {
    if let Some(version) = file.versions.get(number) {
        choices.extend(cuts.map(|cut| FileChoice::new(prefix(version, cut), FileOutcome::Cut(number, cut))));
    }
}

fn push_zeros(file: &PendingFile, from: impl Iterator<Item = u64>, choices: &mut Vec<FileChoice>) {
    let live = file.live();
    let zeros =
        |from| FileChoice::new(live.with_zeros(from..live.size()), FileOutcome::Zeros(from, live.size()));
    choices.extend(from.map(zeros));
}

fn push_holes(
    file: &PendingFile,
    holes: impl IntoIterator<Item = (u64, u64)>,
    choices: &mut Vec<FileChoice>,
) {
    let (floor, live) = (file.untouched_size(), file.live());
    let holes = holes.into_iter().filter(|(from, to)| floor <= *from && from < to && *to < live.size());
    choices.extend(holes.map(|(from, to)| zeroed(live, from, to)));
}

fn push_older(file: &PendingFile, cuts: impl IntoIterator<Item = u64>, choices: &mut Vec<FileChoice>) {
    let both = |cut| [older(file, cut, false), older(file, cut, true)];
    choices.extend(cuts.into_iter().flat_map(both).flatten());
}

fn prefix(content: &Content, size: u64) -> Content {
    let mut content = content.clone();
    content.truncate(size);
    content
}

fn zeroed(content: &Content, from: u64, to: u64) -> FileChoice {
    let has_hole = from < to && to < content.size();
    let outcome = if has_hole { FileOutcome::Hole(from, to) } else { FileOutcome::Zeros(from, to) };
    FileChoice { content: content.with_zeros(from..to), has_hole, outcome }
}

/// The newest bytes up to `cut` in a file that still has its durable, larger size: blocks were written, the size was
/// not. Behind them the durable bytes, or zeros, with which a file system clears the rest of a block that it cuts.
/// `None` without an unsynced cut of durable bytes.
fn older(file: &PendingFile, cut: u64, is_cleared: bool) -> Option<FileChoice> {
    let (durable, live) = (file.versions.first()?, file.live());
    let floor = file.untouched_size();
    if !(floor..=live.size()).contains(&cut) || cut >= durable.size() || floor == durable.size() {
        return None;
    }
    let mut content = prefix(live, cut);
    if is_cleared {
        content.append_zeros(durable.size() - cut);
        return Some(FileChoice::new(content, FileOutcome::Zeros(cut, durable.size())));
    }
    // Without a new byte it is the durable content.
    content.append_part(durable, cut..durable.size());
    (cut > floor).then_some(FileChoice { content, has_hole: true, outcome: FileOutcome::Older(cut) })
}

fn lose(choice: &FileChoice, range: &std::ops::Range<u64>) -> FileChoice {
    FileChoice {
        content: choice.content.with_zeros(range.clone()),
        has_hole: choice.has_hole || range.end < choice.content.size(),
        outcome: FileOutcome::DoubtfulLost,
    }
}
