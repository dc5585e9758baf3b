//! The disks that a power failure may leave.
//!
//! What POSIX promises, and so what every image keeps: the bytes of a file as of its last successful sync, unless a
//! change touched them since; the names of a directory as of its last sync, unless a change touched them since; a
//! rename within one directory is there or not, never half. Everything else is open, and each of these choices is
//! made independently of all others:
//!
//! - unsynced bytes: all there, none, cut anywhere, zeros from somewhere, zeros before bytes that are there (a
//!   *hole*, [`CrashImage::has_hole`]); after an unsynced cut also the older bytes;
//! - each unsynced change of a name: happened or not, in any order; a file moved between two directories of which only
//!   the new one reached the disk has both names;
//! - bytes that a failed sync did not write: there or zeros, even after later syncs.
//!
//! A sync of a file makes none of its names durable, and a sync of a directory no content, as POSIX has it; most file
//! systems give more. Not modelled: several runs of zeros in one file, sectors that lie, damage of what was synced, a cut that a failed sync left in
//! doubt, the times of files (a changed file has other times than before, no more).

mod content_choices;
mod replay;

use self::content_choices::{FileChoice, FileOutcome};
use self::replay::{NameOutcome, PendingName, Replay};
use super::memory::state::State;
use super::{Journal, MemoryStorage, SplitMix64};
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

/// A disk after a crash.
pub struct CrashImage {
    /// The machine, started again: no open files, no locks, only the process that runs the test, begun anew.
    pub storage: MemoryStorage,
    /// Whether unsynced bytes survived behind others that did not: the case in which a log may also be refused as
    /// corrupt (`design.md` 9).
    pub has_hole: bool,
    /// How many effects had happened.
    pub effects: usize,
    /// The highest mark among them: what the caller had been told.
    pub acknowledged: Option<u64>,
    files: Vec<(u64, FileOutcome)>,
    outcomes: Vec<NameOutcome>,
    names: Arc<[PendingName]>,
}

impl fmt::Debug for CrashImage {
    /// The choices that made it, to find the reason of a failure.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.names.iter().map(PendingName::effect).zip(&self.outcomes).collect();
        formatter
            .debug_struct("CrashImage")
            .field("effects", &self.effects)
            .field("acknowledged", &self.acknowledged)
            .field("has_hole", &self.has_hole)
            .field("files", &self.files)
            .field("names", &names)
            .finish_non_exhaustive()
    }
}

/// All crash images of a journal.
pub struct CrashImages<'a> {
    journal: &'a Journal,
    random: SplitMix64,
    template: State,
    /// The replay of the first so many effects: campaigns go forward, so each effect is replayed once.
    replayed: (usize, Replay),
}

impl<'a> CrashImages<'a> {
    /// The images of `journal`; `seed` decides what [`sample`](Self::sample) draws.
    #[must_use]
    pub fn new(journal: &'a Journal, seed: u64) -> Self {
        let template = journal.machine.after_restart();
        let replay = Replay::new(&journal.initial);
        CrashImages { journal, random: SplitMix64::new(seed), template, replayed: (0, replay) }
    }

    /// The crash after `effects` effects; after all of them if there are fewer.
    pub fn point(&mut self, effects: usize) -> CrashPoint {
        let effects = effects.min(self.journal.len());
        if self.replayed.0 > effects {
            self.replayed = (0, Replay::new(&self.journal.initial));
        }
        let (done, replay) = &mut self.replayed;
        for effect in self.journal.effects().iter().take(effects).skip(*done) {
            replay.apply(effect);
        }
        *done = effects;
        let mut replay = replay.clone();
        replay.forget_unreachable();
        CrashPoint {
            effects,
            acknowledged: self.journal.highest_mark(effects),
            names: replay.names.as_slice().into(),
            template: self.template.clone(),
            replay,
        }
    }

    /// The corner images of the crash after `effects` effects; see [`CrashPoint::corners`].
    pub fn at(&mut self, effects: usize) -> Vec<CrashImage> {
        self.point(effects).corners()
    }

    /// A random image of a random crash. For many images of one crash, [`CrashPoint::sample`] is faster.
    pub fn sample(&mut self) -> CrashImage {
        let effects = self.random.below(self.journal.len() as u64 + 1) as usize;
        let point = self.point(effects);
        point.sample(&mut self.random)
    }
}

/// A crash at one moment.
pub struct CrashPoint {
    effects: usize,
    acknowledged: Option<u64>,
    replay: Replay,
    names: Arc<[PendingName]>,
    template: State,
}

/// The list of possible outcomes of each file and of each change of a name.
type Choices = (Vec<(u64, Vec<FileChoice>)>, Vec<&'static [NameOutcome]>);

impl CrashPoint {
    /// Everything unsynced survived; nothing did; and each of the two with one single choice made otherwise.
    #[must_use]
    pub fn corners(&self) -> Vec<CrashImage> {
        let choices = self.choices(content_choices::corners);
        let counts = counts(&choices);
        let files = choices.0.len();
        // Files list "everything" first and "nothing" second, names list the least survived first.
        let everything: Vec<usize> = counts
            .iter()
            .enumerate()
            .map(|(place, count)| if place < files { 0 } else { count - 1 })
            .collect();
        let nothing: Vec<usize> = counts
            .iter()
            .enumerate()
            .map(|(place, count)| usize::from(place < files && *count > 1))
            .collect();
        let mut seen = BTreeSet::new();
        let mut images = Vec::new();
        for base in [everything, nothing] {
            let flipped = counts.iter().enumerate().flat_map(|(place, count)| {
                let base = &base;
                (0..*count).map(move |choice| {
                    let mut picks = base.clone();
                    if let Some(pick) = picks.get_mut(place) {
                        *pick = choice;
                    }
                    picks
                })
            });
            for picks in std::iter::once(base.clone()).chain(flipped) {
                if seen.insert(picks.clone()) {
                    images.push(self.image_of(&choices, &picks));
                }
            }
        }
        images
    }

    /// How many images [`exhaustive`](Self::exhaustive) gives.
    #[must_use]
    pub fn exhaustive_count(&self) -> u128 {
        let counts = counts(&self.choices(content_choices::exhaustive));
        counts.iter().fold(1, |product: u128, count| product.saturating_mul(*count as u128))
    }

    /// Every combination of every choice, a few of them equal. With more than 16 unsynced bytes in a file, its holes
    /// and its zeros in a smaller file are left to [`sample`](Self::sample).
    pub fn exhaustive(&self) -> impl Iterator<Item = CrashImage> + '_ {
        let choices = self.choices(content_choices::exhaustive);
        let counts = counts(&choices);
        let mut next = Some(vec![0; counts.len()]);
        std::iter::from_fn(move || {
            let picks = next.take()?;
            next = following(&picks, &counts);
            Some(self.image_of(&choices, &picks))
        })
    }

    /// A random image.
    pub fn sample(&self, random: &mut SplitMix64) -> CrashImage {
        let files = self.replay.files.iter();
        let files = files.map(|(inode, file)| (*inode, content_choices::random(file, random))).collect();
        // All names alike now and then: with many of them, independent draws would never show it.
        let bias = random.below(4);
        let outcomes = self.replay.names.iter().map(|name| {
            let outcomes = name.outcomes();
            let outcome = match bias {
                0 => outcomes.first(),
                1 => outcomes.last(),
                _ => random.choose(outcomes),
            };
            outcome.copied().unwrap_or(NameOutcome::Done)
        });
        let outcomes = outcomes.collect();
        self.image(files, outcomes)
    }

    fn choices(&self, of_file: impl Fn(&replay::PendingFile) -> Vec<FileChoice>) -> Choices {
        let files = self.replay.files.iter().map(|(inode, file)| (*inode, of_file(file))).collect();
        (files, self.replay.names.iter().map(PendingName::outcomes).collect())
    }

    fn image_of(&self, choices: &Choices, picks: &[usize]) -> CrashImage {
        let (file_picks, name_picks) = picks.split_at(choices.0.len().min(picks.len()));
        let files = choices.0.iter().zip(file_picks);
        let files = files.filter_map(|((inode, of_file), pick)| Some((*inode, of_file.get(*pick)?.clone())));
        let outcomes = choices.1.iter().zip(name_picks);
        let outcomes =
            outcomes.map(|(of_name, pick)| of_name.get(*pick).copied().unwrap_or(NameOutcome::Done));
        self.image(files.collect(), outcomes.collect())
    }

    fn image(&self, files: Vec<(u64, FileChoice)>, outcomes: Vec<NameOutcome>) -> CrashImage {
        let has_hole = files.iter().any(|(_, choice)| choice.has_hole);
        let described = files.iter().map(|(inode, choice)| (*inode, choice.outcome)).collect();
        let contents = files.into_iter().map(|(inode, choice)| (inode, choice.content)).collect();
        let state = self.template.with_nodes(self.replay.disk(contents, &outcomes));
        CrashImage {
            storage: MemoryStorage::from_state(state),
            has_hole,
            effects: self.effects,
            acknowledged: self.acknowledged,
            files: described,
            outcomes,
            names: Arc::clone(&self.names),
        }
    }
}

fn counts(choices: &Choices) -> Vec<usize> {
    let files = choices.0.iter().map(|(_, of_file)| of_file.len());
    files.chain(choices.1.iter().map(|of_name| of_name.len())).collect()
}

/// The next combination, the first place running fastest; `None` after the last.
fn following(picks: &[usize], counts: &[usize]) -> Option<Vec<usize>> {
    let mut picks = picks.to_vec();
    for (pick, count) in picks.iter_mut().zip(counts) {
        *pick += 1;
        if *pick < *count {
            return Some(picks);
        }
        *pick = 0;
    }
    None
}

#[cfg(test)]
mod tests;
