//! Every image keeps what POSIX promises, and small journals give exactly the images counted by hand.

use super::super::{Effect, RecordingStorage};
use super::*;
use crate::storage::{OpenHow, Storage, StorageFile};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

type Tree = Vec<(PathBuf, Option<Vec<u8>>)>;

fn at(path: &str) -> &Path {
    Path::new(path)
}

/// The different trees that may be found now, each written in one line: `/d /d/f=abc`.
///
/// Sorted as text, in which a zero byte is `\x00`.
fn trees_now(storage: &RecordingStorage) -> Vec<String> {
    let journal = storage.journal();
    let mut images = CrashImages::new(&journal, 0);
    let trees: BTreeSet<String> =
        images.point(journal.len()).exhaustive().map(|image| line(&image.storage.tree())).collect();
    trees.into_iter().collect()
}

fn line(tree: &Tree) -> String {
    let entry = |(path, content): &(PathBuf, Option<Vec<u8>>)| match content {
        Some(content) => format!("{}={}", path.display(), content.escape_ascii()),
        None => path.display().to_string(),
    };
    tree.iter().map(entry).collect::<Vec<_>>().join(" ")
}

/// A recorder whose disk holds these files, durable; directories are made as needed.
fn recorder(files: &[(&str, &str)]) -> RecordingStorage {
    let memory = MemoryStorage::default();
    for (path, content) in files {
        let parent = at(path).parent().expect("a parent");
        if memory.metadata(parent).is_err() {
            memory.create_directory(parent).expect("directory");
        }
        memory.write_file(at(path), content.as_bytes()).expect("file");
    }
    RecordingStorage::new(&memory)
}

fn open(storage: &RecordingStorage, path: &str) -> Arc<dyn StorageFile> {
    storage.open(at(path), OpenHow::Append).expect("file")
}

#[test]
fn an_unsynced_append_survives_in_every_way_and_no_other() {
    let storage = recorder(&[("/log", "ab")]);
    let file = open(&storage, "/log");
    file.append(b"cd").expect("append");
    let expected = [
        r"/log=ab",
        r"/log=ab\x00",
        r"/log=ab\x00\x00",
        r"/log=ab\x00d",
        "/log=abc",
        r"/log=abc\x00",
        "/log=abcd",
    ];
    assert_eq!(trees_now(&storage), expected);
    let journal = storage.journal();
    for image in CrashImages::new(&journal, 0).point(1).exhaustive() {
        assert_eq!(image.has_hole, line(&image.storage.tree()) == r"/log=ab\x00d", "{image:?}");
    }
    file.sync().expect("sync");
    assert_eq!(trees_now(&storage), ["/log=abcd"]);
}

#[test]
fn an_unsynced_cut_may_not_have_happened_or_leave_older_bytes_behind_new_ones() {
    let storage = recorder(&[("/log", "abcd")]);
    let file = open(&storage, "/log");
    file.truncate(2).expect("cut");
    assert_eq!(trees_now(&storage), ["/log=ab", r"/log=ab\x00\x00", "/log=abcd"]);
    file.append(b"X").expect("append");
    assert_eq!(
        trees_now(&storage),
        [
            "/log=ab",
            "/log=abX",
            r"/log=abX\x00",
            "/log=abXd",
            r"/log=ab\x00",
            r"/log=ab\x00\x00",
            "/log=abcd"
        ]
    );
    file.sync().expect("sync");
    assert_eq!(trees_now(&storage), ["/log=abX"]);
}

#[test]
fn a_name_survives_by_the_sync_of_its_directory_not_of_its_file() {
    let storage = recorder(&[("/d/keep", "")]);
    let file = storage.open(at("/d/t"), OpenHow::CreateNew).expect("file");
    file.append(b"a").expect("append");
    file.sync().expect("sync");
    assert_eq!(trees_now(&storage), ["/d /d/keep=", "/d /d/keep= /d/t=a"]);
    storage.hard_link(at("/d/t"), at("/d/f")).expect("link");
    let both = ["/d /d/f=a /d/keep=", "/d /d/f=a /d/keep= /d/t=a", "/d /d/keep=", "/d /d/keep= /d/t=a"];
    assert_eq!(trees_now(&storage), both);
    storage.sync_directory(at("/")).expect("the wrong directory");
    assert_eq!(trees_now(&storage), both);
    storage.sync_directory(at("/d")).expect("sync");
    assert_eq!(trees_now(&storage), ["/d /d/f=a /d/keep= /d/t=a"]);
    storage.remove_file(at("/d/t")).expect("removed");
    assert_eq!(trees_now(&storage), ["/d /d/f=a /d/keep=", "/d /d/f=a /d/keep= /d/t=a"]);
}

#[test]
fn the_sync_of_a_directory_saves_no_content() {
    let storage = recorder(&[]);
    storage.open(at("/f"), OpenHow::CreateNew).expect("file").append(b"a").expect("append");
    storage.sync_directory(at("/")).expect("sync");
    assert_eq!(trees_now(&storage), ["/f=", r"/f=\x00", "/f=a"]);
}

#[test]
fn what_is_in_a_directory_is_lost_with_its_name() {
    let storage = recorder(&[]);
    storage.create_directory(at("/d")).expect("directory");
    storage.open(at("/d/f"), OpenHow::CreateNew).expect("file");
    storage.sync_directory(at("/d")).expect("sync");
    assert_eq!(trees_now(&storage), ["", "/d /d/f="]);
    storage.sync_directory(at("/")).expect("sync");
    assert_eq!(trees_now(&storage), ["/d /d/f="]);
}

#[test]
fn a_rename_within_a_directory_is_old_or_new() {
    let storage = recorder(&[("/new", "1"), ("/old", "2")]);
    storage.rename(at("/new"), at("/old")).expect("rename");
    assert_eq!(trees_now(&storage), ["/new=1 /old=2", "/old=1"]);
    storage.sync_directory(at("/")).expect("sync");
    assert_eq!(trees_now(&storage), ["/old=1"]);
}

#[test]
fn a_file_moved_between_directories_is_never_lost() {
    let (old, both, new) = ("/a /a/x=1 /b /b/y=", "/a /a/x=1 /b /b/x=1 /b/y=", "/a /b /b/x=1 /b/y=");
    for (synced, expected) in [
        (&[][..], &[old, both, new][..]),
        (&["/b"], &[both, new]),
        (&["/a"], &[new]),
        (&["/a", "/b"], &[new]),
        (&["/b", "/a"], &[new]),
    ] {
        let storage = recorder(&[("/a/x", "1"), ("/b/y", "")]);
        storage.rename(at("/a/x"), at("/b/x")).expect("rename");
        for directory in synced {
            storage.sync_directory(at(directory)).expect("sync");
        }
        let expected: BTreeSet<_> = expected.iter().map(|tree| (*tree).to_owned()).collect();
        assert_eq!(BTreeSet::from_iter(trees_now(&storage)), expected, "{synced:?}");
    }
}

#[test]
fn bytes_of_a_failed_sync_stay_in_doubt_until_they_are_written_again() {
    let storage = recorder(&[("/log", "a")]);
    let file = open(&storage, "/log");
    file.append(b"b").expect("append");
    storage.fail_next_syncs(1);
    file.sync().expect_err("a dying disk");
    assert_eq!(storage.memory().read_file(at("/log")).expect("content"), b"ab");
    file.append(b"c").expect("append");
    file.sync().expect("says nothing of the lost bytes");
    assert_eq!(trees_now(&storage), [r"/log=a\x00c", "/log=abc"]);
    file.truncate(1).expect("cut");
    file.append(b"bc").expect("again");
    file.sync().expect("sync");
    assert_eq!(trees_now(&storage), ["/log=abc"]);
}

#[test]
fn the_corners_are_both_extremes_and_each_single_choice_made_otherwise() {
    let storage = recorder(&[("/d/keep", "")]);
    storage.hard_link(at("/d/keep"), at("/d/a")).expect("link");
    storage.hard_link(at("/d/keep"), at("/d/b")).expect("link");
    storage.hard_link(at("/d/keep"), at("/d/c")).expect("link");
    let journal = storage.journal();
    let mut images = CrashImages::new(&journal, 0);
    // Of the 8 combinations all: 2 extremes, 3 next to each.
    assert_eq!((images.at(3).len(), images.point(3).exhaustive_count()), (8, 8));
    storage.hard_link(at("/d/keep"), at("/d/d")).expect("link");
    let journal = storage.journal();
    let mut images = CrashImages::new(&journal, 0);
    assert_eq!((images.at(4).len(), images.point(4).exhaustive_count()), (10, 16));
    assert_eq!(images.at(4)[0].storage.tree(), storage.memory().tree());
    assert_eq!((images.at(0).len(), images.at(99).len()), (1, 10));
}

#[test]
fn a_crash_point_knows_what_was_acknowledged_before_it() {
    let storage = recorder(&[("/log", "")]);
    let file = open(&storage, "/log");
    for number in [3, 7] {
        file.append(b"x").expect("append");
        file.sync().expect("sync");
        storage.mark(number);
    }
    let journal = storage.journal();
    assert_eq!(journal.effects()[2], Effect::Mark(3));
    let mut images = CrashImages::new(&journal, 0);
    let marks: Vec<_> = (0..=journal.len()).map(|count| images.at(count)[0].acknowledged).collect();
    assert_eq!(marks, [None, None, None, Some(3), Some(3), Some(3), Some(7)]);
}

#[test]
fn a_machine_starts_again_without_files_and_locks_and_as_another_process() {
    let storage = recorder(&[("/lock", "")]);
    let file = open(&storage, "/lock");
    assert!(file.try_lock().expect("lock"));
    storage.memory().set_space_limit_bytes(Some(0));
    let me = storage.current_process().expect("process");
    let journal = storage.journal();
    let image = CrashImages::new(&journal, 0).sample();
    assert_eq!((image.storage.open_files(), image.storage.held_locks()), (0, 0));
    assert!(image.storage.open(at("/lock"), OpenHow::Lock).expect("lock").try_lock().expect("free"));
    let again = image.storage.process(me.id).expect("process").expect("alive");
    assert!(again.id == me.id && again.began != me.began);
    // The image is a disk of its own.
    image.storage.write_file(at("/lock"), b"1").expect("space");
    assert_eq!(storage.memory().read_file(at("/lock")).expect("content"), b"");
}

/// What a plain reading of POSIX promises, kept apart from the replay.
#[derive(Clone, Debug, Default)]
struct Promises {
    /// The file under each name now.
    names: BTreeMap<String, u64>,
    /// Names that are certain to refer to this file, or to none.
    certain: BTreeMap<String, Option<u64>>,
    contents: BTreeMap<u64, Vec<u8>>,
    /// Bytes that are certain to be there.
    safe: BTreeMap<u64, Vec<u8>>,
}

impl Promises {
    fn check(&self, image: &CrashImage, seed: u64) {
        for (name, inode) in &self.certain {
            let content = image.storage.read_file(&at("/").join(name));
            match inode {
                None => assert!(content.is_err(), "seed {seed}: {name} is back: {image:?}"),
                Some(inode) => {
                    let content = content.expect("a synced name");
                    assert!(content.starts_with(&self.safe[inode]), "seed {seed}: {name} lost: {image:?}");
                }
            }
        }
    }

    fn tree(&self) -> Tree {
        let entry = |(name, inode): (&String, &u64)| (at("/").join(name), Some(self.contents[inode].clone()));
        self.names.iter().map(entry).collect()
    }
}

/// One random call on one of three names; the promises after it.
fn random_call(storage: &RecordingStorage, random: &mut SplitMix64, promises: &mut Promises) {
    let name = |random: &mut SplitMix64| format!("f{}", random.below(3));
    let (one, two) = (name(random), name(random));
    let (one_path, two_path) = (at("/").join(&one), at("/").join(&two));
    let inode = promises.names.get(&one).copied();
    match (random.below(8), inode) {
        (0, _) => {
            storage.sync_directory(at("/")).expect("sync");
            let now = |name: &str| promises.names.get(name).copied();
            promises.certain = ["f0", "f1", "f2"].map(|name| (name.to_owned(), now(name))).into();
        }
        (_, None) => {
            let file = storage.open(&one_path, OpenHow::CreateNew).expect("file");
            let inode = file.metadata().expect("metadata").inode;
            promises.names.insert(one.clone(), inode);
            promises.certain.remove(&one);
            promises.contents.insert(inode, Vec::new());
            promises.safe.insert(inode, Vec::new());
        }
        (1, Some(inode)) => {
            storage.rename(&one_path, &two_path).expect("rename");
            if promises.names.get(&two) != Some(&inode) {
                promises.names.remove(&one);
                promises.names.insert(two.clone(), inode);
                promises.certain.retain(|name, _| *name != one && *name != two);
            }
        }
        (2, Some(_)) => {
            storage.remove_file(&one_path).expect("removed");
            promises.names.remove(&one);
            promises.certain.remove(&one);
        }
        (3, Some(inode)) if one != two && !promises.names.contains_key(&two) => {
            storage.hard_link(&one_path, &two_path).expect("link");
            promises.names.insert(two.clone(), inode);
            promises.certain.remove(&two);
        }
        (4, Some(inode)) => {
            let content = promises.contents.entry(inode).or_default();
            let size = random.below(content.len() as u64 + 1) as usize;
            open(storage, one_path.to_str().expect("text")).truncate(size as u64).expect("cut");
            content.truncate(size);
            promises.safe.entry(inode).or_default().truncate(size);
        }
        (5, Some(inode)) => {
            open(storage, one_path.to_str().expect("text")).sync().expect("sync");
            promises.safe.insert(inode, promises.contents[&inode].clone());
        }
        (_, Some(inode)) => {
            let bytes: Vec<u8> = (0..=random.below(3)).map(|_| b'a' + random.below(26) as u8).collect();
            open(storage, one_path.to_str().expect("text")).append(&bytes).expect("append");
            promises.contents.entry(inode).or_default().extend(bytes);
        }
    }
}

#[test]
fn every_image_keeps_what_was_synced_and_one_of_them_is_the_live_disk() {
    for seed in 0..60 {
        let mut random = SplitMix64::new(seed);
        let storage = recorder(&[]);
        let mut promises = Promises::default();
        let mut after = vec![promises.clone()];
        for _ in 0..25 {
            random_call(&storage, &mut random, &mut promises);
            // A rename onto another name of the same file has no effect.
            after.resize_with(storage.journal().len() + 1, Promises::default);
            *after.last_mut().expect("never empty") = promises.clone();
        }
        let journal = storage.journal();
        let mut images = CrashImages::new(&journal, seed);
        for (effects, promises) in after.iter().enumerate() {
            let point = images.point(effects);
            let corners = point.corners();
            assert_eq!(corners[0].storage.tree(), promises.tree(), "seed {seed} after {effects}");
            assert!(!corners[0].has_hole);
            for image in corners {
                promises.check(&image, seed);
            }
            for _ in 0..20 {
                promises.check(&point.sample(&mut random), seed);
            }
        }
    }
}

#[test]
fn corners_and_samples_are_among_all_images() {
    for seed in 0..40 {
        let mut random = SplitMix64::new(seed);
        let storage = recorder(&[]);
        let mut promises = Promises::default();
        for _ in 0..8 {
            random_call(&storage, &mut random, &mut promises);
        }
        let journal = storage.journal();
        let mut images = CrashImages::new(&journal, seed);
        let point = images.point(journal.len());
        if point.exhaustive_count() > 20_000 {
            continue;
        }
        let key = |image: &CrashImage| (line(&image.storage.tree()), image.has_hole);
        let all: BTreeSet<_> = point.exhaustive().map(|image| key(&image)).collect();
        for image in point.corners().into_iter().chain((0..100).map(|_| point.sample(&mut random))) {
            assert!(all.contains(&key(&image)), "seed {seed}: {image:?}");
        }
    }
}

#[test]
fn an_appended_log_without_a_hole_is_a_prefix_then_zeros() {
    let storage = recorder(&[("/log", "")]);
    let file = open(&storage, "/log");
    let mut sent = Vec::new();
    for number in 0..20_u8 {
        let bytes = vec![number + 1; usize::from(number % 5) + 1];
        file.append(&bytes).expect("append");
        sent.extend(bytes);
        if number % 4 == 3 {
            file.sync().expect("sync");
        }
    }
    let journal = storage.journal();
    let mut images = CrashImages::new(&journal, 5);
    let mut holes = 0;
    for _ in 0..3000 {
        let image = images.sample();
        let content = image.storage.read_file(at("/log")).expect("content");
        let kept = content.iter().zip(&sent).take_while(|(one, two)| one == two).count();
        let is_prefix = content[kept..].iter().all(|byte| *byte == 0);
        assert!(is_prefix || image.has_hole, "{image:?}");
        holes += u32::from(image.has_hole);
    }
    assert!(holes > 100, "{holes}");
}

#[test]
fn a_seed_draws_the_same_images_again() {
    let storage = recorder(&[("/log", "")]);
    for _ in 0..10 {
        open(&storage, "/log").append(b"abcdefgh").expect("append");
    }
    let journal = storage.journal();
    let draw = |seed| {
        let mut images = CrashImages::new(&journal, seed);
        (0..50).map(|_| line(&images.sample().storage.tree())).collect::<Vec<_>>()
    };
    assert_eq!(draw(1), draw(1));
    assert_ne!(draw(1), draw(2));
}

/// A log like those of the library: 200 appends, a sync after each.
#[test]
#[ignore = "a measurement: prints how long an image takes"]
fn images_are_cheap() {
    let storage = recorder(&[("/d/log", "")]);
    let file = open(&storage, "/d/log");
    for _ in 0..200 {
        file.append(&[b'x'; 4000]).expect("append");
        file.sync().expect("sync");
    }
    let journal = storage.journal();
    let mut images = CrashImages::new(&journal, 1);
    let point = images.point(journal.len() - 1);
    let mut random = SplitMix64::new(1);
    let begin = std::time::Instant::now();
    let holes = (0..100_000).filter(|_| point.sample(&mut random).has_hole).count();
    println!("{:?} for each of 100,000 images, {holes} with holes", begin.elapsed() / 100_000);
}

#[test]
fn failures_and_a_second_crash_can_follow_the_first() {
    let storage = recorder(&[("/log", "a")]);
    open(&storage, "/log").append(b"b").expect("append");
    let journal = storage.journal();
    for image in CrashImages::new(&journal, 0).at(1) {
        let before = image.storage.read_file(at("/log")).expect("content");
        let again = RecordingStorage::new(&image.storage);
        let faulty = super::super::FaultyStorage::new(Arc::new(again.clone()));
        let file = faulty.open(at("/log"), OpenHow::Append).expect("file");
        file.append(b"c").expect("append");
        faulty.fail_call(3, super::super::Fault::error(5));
        file.sync().expect_err("before its effect");
        let trees = trees_now(&again);
        assert!(trees.contains(&line(&vec![(at("/log").to_owned(), Some(before))])), "{trees:?}");
        file.sync().expect("sync");
        assert_eq!(trees_now(&again), [line(&again.memory().tree())]);
    }
}
