//! Usage: files, pairs of client and file, clients and users, each in a map of bounded size, and
//! the seconds in which attributes were asked for in a storm.

use std::hint::black_box;

use hashbrown::HashMap;
use hashbrown::hash_map::Entry;

use crate::limits::USERS_MAX;
use crate::model::THRESHOLDS;
use crate::read::columns::Word;
use crate::read::places::Places;

/// Clients, and pairs of client and file, with storms that are distinguished.
const STORMS_MAX: usize = 65_536;

/// Which way data goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    Read = 0,
    Write = 1,
}

/// What a `file_id` stands for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Class {
    /// Nothing shows it.
    #[default]
    Unknown,
    File,
    Directory,
    /// A link, a device and the like.
    Other,
}

impl Class {
    /// By a type as the tables have it.
    pub(crate) fn of_type(file_type: &str) -> Self {
        match file_type {
            "REG" => Self::File,
            "DIR" => Self::Directory,
            _ => Self::Other,
        }
    }

    /// Of what an NFS operation can succeed on.
    pub(crate) fn of_operation(operation: &str) -> Self {
        match operation {
            "READ" | "WRITE" | "COMMIT" => Self::File,
            "LOOKUP" | "READDIR" | "READDIRPLUS" | "CREATE" | "MKDIR" | "SYMLINK" | "MKNOD"
            | "REMOVE" | "RMDIR" | "RENAME" => Self::Directory,
            "READLINK" => Self::Other,
            _ => Self::Unknown,
        }
    }
}

/// What one operation adds to its file, client and user.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Share {
    pub(crate) failed: bool,
    pub(crate) way: Option<Way>,
    /// That READ and WRITE moved; 0 of others.
    pub(crate) bytes: u64,
    /// Of a GETATTR: the second of its time, since the Unix epoch.
    pub(crate) getattr_second: Option<u32>,
}

impl Share {
    /// Where its bytes count: a place in any case, so that nothing has to be decided.
    #[inline]
    fn place(&self) -> usize {
        usize::from(self.way == Some(Way::Write))
    }
}

/// What was done with a file, by a client or for a user. Laid out as it stands here.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub(crate) struct Use {
    pub(crate) operations: u64,
    /// That READ and WRITE moved. Between the two counts: side by side they would be added as one
    /// vector, which waits until both numbers have been stored.
    pub(crate) bytes: [u64; 2],
    pub(crate) failed: u64,
}

impl Use {
    #[inline]
    pub(crate) fn add(&mut self, share: Share) {
        self.operations += 1;
        self.failed += u64::from(share.failed);
        self.bytes[share.place()] += share.bytes;
    }

    pub(crate) fn merge(&mut self, other: Self) {
        self.operations += other.operations;
        self.failed += other.failed;
        self.bytes[0] += other.bytes[0];
        self.bytes[1] += other.bytes[1];
    }
}

/// A server: what it was asked for, and how long its clients waited.
#[derive(Clone, Copy, Default)]
pub(crate) struct Server {
    pub(crate) used: Use,
    pub(crate) waited_ns: u64,
}

impl Server {
    /// What came after `before`, of sums.
    pub(crate) fn without(self, before: Self) -> Self {
        let [read, written] = self.used.bytes;
        Self {
            used: Use {
                operations: self.used.operations - before.used.operations,
                bytes: [read - before.used.bytes[0], written - before.used.bytes[1]],
                failed: self.used.failed - before.used.failed,
            },
            waited_ns: self.waited_ns - before.waited_ns,
        }
    }
}

/// An operation of a client with a file.
pub(crate) struct FileUse {
    pub(crate) file_id: i64,
    pub(crate) client: Word,
    /// What the operation shows the file to be.
    pub(crate) class: Class,
    pub(crate) share: Share,
}

impl FileUse {
    fn storm(&self, getattrs: &mut Seconds, storms: &mut Storms) {
        if let Some(second) = self.share.getattr_second {
            let calls = getattrs.add(second);
            storms.note(self.client, Some(self.file_id), second, calls);
        }
    }
}

/// What was done with a file, and where the last READ and WRITE ended: one cache line, since
/// operations come to files in any order.
#[derive(Clone)]
#[repr(align(64))]
struct File {
    operations: u64,
    bytes: [u64; 2],
    /// [`File::NOWHERE`] before the first one.
    ends: [u64; 2],
    getattrs: Seconds,
    /// Beyond 2^32 it stays.
    failed: u32,
    /// The one client so far, [`File::UNUSED`] or [`File::SHARED`]: what was done with the file is
    /// what that client did with it. Of several, each has a pair.
    sole: Word,
}

impl File {
    const NOWHERE: u64 = u64::MAX;
    const UNUSED: Word = Word::MAX;
    const SHARED: Word = Word::MAX - 1;

    fn new() -> Self {
        Self {
            operations: 0,
            bytes: [0; 2],
            ends: [Self::NOWHERE; 2],
            getattrs: Seconds::default(),
            failed: 0,
            sole: Self::UNUSED,
        }
    }

    #[inline]
    fn add(&mut self, share: Share) {
        self.operations += 1;
        self.failed = self.failed.saturating_add(share.failed.into());
        self.bytes[share.place()] += share.bytes;
    }

    fn used(&self) -> Use {
        Use {
            operations: self.operations,
            failed: self.failed.into(),
            bytes: self.bytes,
        }
    }
}

#[derive(Clone, Copy, Default)]
struct Pair {
    used: Use,
    getattrs: Seconds,
}

/// Pairs by the number of their client and the place of their file.
struct Pairs {
    places: Places,
    pairs: Vec<(u64, Pair)>,
    pairs_max: usize,
}

impl Pairs {
    /// The place of a pair, if there is room for it.
    #[inline]
    fn place(&mut self, key: u64) -> Option<u32> {
        self.places.get(key).or_else(|| self.add(key))
    }

    /// Likewise of one that is new.
    #[inline(never)]
    fn add(&mut self, key: u64) -> Option<u32> {
        if self.pairs.len() >= self.pairs_max {
            return None;
        }
        self.pairs.push((key, Pair::default()));
        Some(self.places.add(key))
    }
}

/// Files, and pairs of client and file.
pub(crate) struct Files {
    files: Vec<File>,
    /// Of each file.
    ids: Vec<i64>,
    classes: Vec<Class>,
    places: Places,
    files_max: usize,
    pairs: Pairs,
    /// Of the operations that are being added, those of pairs: their place among them, the pair's
    /// key.
    paired: Vec<(u32, u64)>,
    pair_places: Vec<Option<u32>>,
    /// What belongs to files for which there was no room.
    pub(crate) files_not_tracked: Use,
    /// What belongs to pairs for which there was no room.
    pub(crate) pairs_not_tracked: Use,
}

impl Files {
    pub(crate) fn new(files_max: usize, pairs_max: usize) -> Self {
        Self {
            files: Vec::new(),
            ids: Vec::new(),
            classes: Vec::new(),
            places: Places::new(),
            files_max,
            pairs: Pairs {
                places: Places::new(),
                pairs: Vec::new(),
                pairs_max,
            },
            paired: Vec::new(),
            pair_places: Vec::new(),
            files_not_tracked: Use::default(),
            pairs_not_tracked: Use::default(),
        }
    }

    /// Adds operations of clients with files; `places` gets the places of the files, where there is
    /// room for them.
    ///
    /// What is looked up lies all over the memory. Each step is a loop of its own, after one that
    /// only loads what it needs: a processor waits for many such places at once as long as nothing
    /// depends on what is there.
    pub(crate) fn add(
        &mut self,
        uses: &[FileUse],
        storms: &mut Storms,
        places: &mut Vec<Option<u32>>,
    ) {
        let ids = uses.iter().map(|each| each.file_id.cast_unsigned());
        black_box(ids.fold(0, |sum, id| sum ^ self.places.touch(id)));
        places.clear();
        places.extend(uses.iter().map(|each| self.place(each.file_id)));
        let known = places.iter().flatten();
        black_box(known.fold(0, |sum, &place| sum ^ self.files[place as usize].operations));
        let mut paired = std::mem::take(&mut self.paired);
        for (used, (each, &place)) in (0u32..).zip(uses.iter().zip(&*places)) {
            let Some(place) = place else {
                self.files_not_tracked.add(each.share);
                self.pairs_not_tracked.add(each.share);
                continue;
            };
            let class = &mut self.classes[place as usize];
            if *class == Class::Unknown {
                *class = each.class;
            }
            let file = &mut self.files[place as usize];
            if file.sole != each.client {
                match file.sole {
                    File::UNUSED => file.sole = each.client,
                    File::SHARED => {}
                    first => {
                        file.sole = File::SHARED;
                        let pair = Pair {
                            used: file.used(),
                            getattrs: file.getattrs,
                        };
                        let key = pair_key(first, place);
                        match self.pairs.add(key) {
                            Some(at) => self.pairs.pairs[at as usize].1 = pair,
                            None => self.pairs_not_tracked.merge(pair.used),
                        }
                    }
                }
            }
            file.add(each.share);
            match file.sole {
                File::SHARED => paired.push((used, pair_key(each.client, place))),
                _ => each.storm(&mut file.getattrs, storms),
            }
        }
        self.add_paired(uses, &paired, storms);
        paired.clear();
        self.paired = paired;
    }

    /// Adds operations of clients with files that several clients use, each with its pair.
    fn add_paired(&mut self, uses: &[FileUse], paired: &[(u32, u64)], storms: &mut Storms) {
        let keys = paired.iter().map(|(_, key)| *key);
        black_box(
            keys.clone()
                .fold(0, |sum, key| sum ^ self.pairs.places.touch(key)),
        );
        let mut places = std::mem::take(&mut self.pair_places);
        places.clear();
        places.extend(keys.map(|key| self.pairs.place(key)));
        let known = places.iter().flatten();
        black_box(known.fold(0, |sum, &at| sum ^ self.pairs.pairs[at as usize].0));
        for (&(used, _), &place) in paired.iter().zip(&places) {
            let each = &uses[used as usize];
            let Some(place) = place else {
                self.pairs_not_tracked.add(each.share);
                continue;
            };
            let pair = &mut self.pairs.pairs[place as usize].1;
            pair.used.add(each.share);
            each.storm(&mut pair.getattrs, storms);
        }
        self.pair_places = places;
    }

    /// Takes note of where a READ or WRITE ended; where the one before of that file did.
    pub(crate) fn follow(&mut self, place: u32, way: Way, end: u64) -> Option<u64> {
        let before = std::mem::replace(&mut self.files[place as usize].ends[way as usize], end);
        (before != File::NOWHERE).then_some(before)
    }

    /// Takes note of what a file is by its attributes, which show more than its operations.
    pub(crate) fn classify(&mut self, id: i64, class: Class) {
        if let Some(place) = self.places.get(id.cast_unsigned()) {
            self.classes[place as usize] = class;
        }
    }

    /// Files of some classes with their use, in the order of their first operation.
    pub(crate) fn files(&self, classes: &[Class]) -> impl Iterator<Item = (i64, Use)> {
        let files = self.files.iter().zip(&self.ids).zip(&self.classes);
        let those = files.filter(|(_, class)| classes.contains(class));
        those.map(|((file, id), _)| (*id, file.used()))
    }

    /// Pairs of client and file with their use, in no order. Directories and the like have none.
    pub(crate) fn pairs(&self) -> impl Iterator<Item = ((Word, i64), Use)> {
        let is_file = |place: u32| self.classes[place as usize] == Class::File;
        let id = |place: u32| self.ids[place as usize];
        let all = (0u32..).zip(&self.files);
        let sole = all.filter(move |(place, _)| is_file(*place));
        let sole = sole.filter(|(_, file)| !matches!(file.sole, File::UNUSED | File::SHARED));
        let sole = sole.map(move |(place, file)| ((file.sole, id(place)), file.used()));
        let shared = { self.pairs.pairs.iter() }
            .map(|(key, pair)| ((key >> 32) as Word, *key as u32, pair.used))
            .filter(move |(_, place, _)| is_file(*place))
            .map(move |(client, place, used)| ((client, id(place)), used));
        sole.chain(shared)
    }

    #[inline]
    fn place(&mut self, id: i64) -> Option<u32> {
        self.places
            .get(id.cast_unsigned())
            .or_else(|| self.new_place(id))
    }

    #[inline(never)]
    fn new_place(&mut self, id: i64) -> Option<u32> {
        if self.files.len() >= self.files_max {
            return None;
        }
        self.files.push(File::new());
        self.ids.push(id);
        self.classes.push(Class::Unknown);
        Some(self.places.add(id.cast_unsigned()))
    }
}

fn pair_key(client: Word, place: u32) -> u64 {
    u64::from(client) << 32 | u64::from(place)
}

/// A client.
#[derive(Clone, Copy, Default)]
pub(crate) struct Client {
    pub(crate) used: Use,
    /// READs and WRITEs with a place, and those of them that begin and end at multiples of 512 and
    /// 4096 bytes.
    pub(crate) placed: u64,
    pub(crate) aligned: [u64; 2],
    getattrs: Seconds,
}

impl Client {
    pub(crate) fn add(&mut self, client: Word, share: Share, storms: &mut Storms) {
        self.used.add(share);
        if let Some(second) = share.getattr_second {
            let calls = self.getattrs.add(second);
            storms.note(client, None, second, calls);
        }
    }
}

/// Users by uid.
pub(crate) struct Users {
    places: Places,
    users: Vec<(i64, Use)>,
    /// What belongs to users for which there was no room.
    pub(crate) not_tracked: Use,
}

impl Users {
    pub(crate) fn new() -> Self {
        Self {
            places: Places::new(),
            users: Vec::new(),
            not_tracked: Use::default(),
        }
    }

    #[inline]
    pub(crate) fn add(&mut self, user_id: i64, share: Share) {
        let used = match self.places.get(user_id.cast_unsigned()) {
            Some(place) => &mut self.users[place as usize].1,
            None if self.users.len() >= USERS_MAX => &mut self.not_tracked,
            None => {
                self.places.add(user_id.cast_unsigned());
                self.users.push((user_id, Use::default()));
                &mut self.users.last_mut().expect("it was pushed").1
            }
        };
        used.add(share);
    }

    /// Users with their use, in the order of their first operation.
    pub(crate) fn users(&self) -> impl Iterator<Item = (i64, Use)> {
        self.users.iter().copied()
    }
}

/// How many GETATTRs came in the two newest seconds: rows come in the order of replies, so that one
/// second is not over when the next begins.
#[derive(Debug, Clone, Copy, Default)]
struct Seconds {
    newest: u32,
    before: u32,
    calls: u32,
    calls_before: u32,
}

impl Seconds {
    /// Adds a call; how many its second has so far. One that comes later than both seconds is left
    /// out.
    fn add(&mut self, second: u32) -> u32 {
        if second == self.newest {
            self.calls = self.calls.saturating_add(1);
            return self.calls;
        }
        if second > self.newest {
            (self.before, self.calls_before) = (self.newest, self.calls);
            (self.newest, self.calls) = (second, 1);
            return 1;
        }
        if second > self.before {
            (self.before, self.calls_before) = (second, 1);
            return 1;
        }
        if second == self.before {
            self.calls_before = self.calls_before.saturating_add(1);
            return self.calls_before;
        }
        0
    }
}

/// A storm: of one client, on one file or on all together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Storm {
    pub(crate) client: Word,
    pub(crate) file_id: Option<i64>,
    /// Seconds that reach the threshold, and calls in them.
    pub(crate) seconds: u64,
    pub(crate) calls: u64,
    /// The most calls in a second, and which that was.
    pub(crate) peak: u32,
    pub(crate) peak_second: u32,
}

/// Storms so far.
#[derive(Default)]
pub(crate) struct Storms {
    storms: HashMap<(Word, Option<i64>), Storm>,
    /// Seconds with a storm for which there was no room.
    pub(crate) seconds_not_tracked: u64,
}

impl Storms {
    /// Takes note that a second has `calls` so far. It is called for each of them, so a storm
    /// begins at the threshold exactly, and grows by one call from there on.
    fn note(&mut self, client: Word, file_id: Option<i64>, second: u32, calls: u32) {
        let threshold = match file_id {
            Some(_) => THRESHOLDS.getattr_storm_file_per_second,
            None => THRESHOLDS.getattr_storm_client_per_second,
        };
        if u64::from(calls) < threshold {
            return;
        }
        let begins = u64::from(calls) == threshold;
        let full = self.storms.len() >= STORMS_MAX;
        let storm = match self.storms.entry((client, file_id)) {
            Entry::Occupied(storm) => storm.into_mut(),
            Entry::Vacant(_) if full => {
                self.seconds_not_tracked += u64::from(begins);
                return;
            }
            Entry::Vacant(room) => room.insert(Storm {
                client,
                file_id,
                seconds: 0,
                calls: 0,
                peak: 0,
                peak_second: 0,
            }),
        };
        storm.seconds += u64::from(begins);
        storm.calls += if begins { threshold } else { 1 };
        if calls > storm.peak {
            (storm.peak, storm.peak_second) = (calls, second);
        }
    }

    /// How many.
    pub(crate) fn count(&self) -> u64 {
        self.storms.len() as u64
    }

    /// Storms, the highest peak first.
    pub(crate) fn storms(&self) -> Vec<Storm> {
        let mut storms: Vec<_> = self.storms.values().copied().collect();
        storms.sort_unstable_by_key(|storm| {
            (std::cmp::Reverse(storm.peak), storm.client, storm.file_id)
        });
        storms
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHARE: Share = Share {
        failed: false,
        way: Some(Way::Read),
        bytes: 10,
        getattr_second: None,
    };

    fn pairs(files: &Files) -> Vec<(Word, i64, u64)> {
        let mut pairs: Vec<_> = { files.pairs() }
            .map(|((client, file), used)| (client, file, used.operations))
            .collect();
        pairs.sort_unstable();
        pairs
    }

    fn uses(of: &[(i64, Word)]) -> Vec<FileUse> {
        let of = of.iter().map(|&(file_id, client)| FileUse {
            file_id,
            client,
            class: Class::File,
            share: SHARE,
        });
        of.collect()
    }

    #[test]
    fn a_file_that_a_second_client_uses_becomes_two_pairs() {
        let mut files = Files::new(10, 10);
        let mut storms = Storms::default();
        for of in [[(1, 5), (1, 5), (2, 5)], [(1, 6), (1, 5), (1, 6)]] {
            files.add(&uses(&of), &mut storms, &mut Vec::new());
        }
        assert_eq!(pairs(&files), [(5, 1, 3), (5, 2, 1), (6, 1, 2)]);
        let operations: Vec<_> = files
            .files(&[Class::File])
            .map(|(_, used)| used.operations)
            .collect();
        assert_eq!(operations, [5, 1]);
    }

    #[test]
    fn directories_are_no_files_and_have_no_pairs() {
        let mut files = Files::new(10, 10);
        let mut all = uses(&[(1, 5), (1, 6), (2, 5), (3, 5)]);
        all[2].class = Class::Directory;
        all[3].class = Class::Unknown;
        files.add(&all, &mut Storms::default(), &mut Vec::new());
        let ids = |files: &Files, class| {
            let ids: Vec<_> = files.files(&[class]).map(|(id, _)| id).collect();
            ids
        };
        assert_eq!(ids(&files, Class::Directory), [2]);
        assert_eq!(ids(&files, Class::Unknown), [3]);
        assert_eq!(pairs(&files), [(5, 1, 1), (6, 1, 1)]);
        // Attributes show more than operations.
        files.classify(3, Class::of_type("REG"));
        files.classify(1, Class::of_type("DIR"));
        assert_eq!(ids(&files, Class::File), [3]);
        assert_eq!(pairs(&files), [(5, 3, 1)]);
    }

    #[test]
    fn entries_beyond_a_bound_are_counted_together() {
        let mut files = Files::new(2, 1);
        let all = uses(&[(1, 5), (2, 5), (3, 5), (1, 6), (1, 6), (2, 7), (1, 5)]);
        let mut places = Vec::new();
        files.add(&all, &mut Storms::default(), &mut places);
        let (one, two) = (Some(0), Some(1));
        assert_eq!(places, [one, two, None, one, one, two, one]);
        assert_eq!(files.files_not_tracked.operations, 1);
        // There is room for client 5 and file 1 alone.
        assert_eq!(pairs(&files), [(5, 1, 2)]);
        assert_eq!(files.pairs_not_tracked.operations, 1 + 2 + 2);
    }

    #[test]
    fn a_storm_is_found_although_rows_come_out_of_order() {
        let mut client = Client::default();
        let mut storms = Storms::default();
        let threshold = u32::try_from(THRESHOLDS.getattr_storm_client_per_second).expect("small");
        let mut call = |second: u32| {
            let getattr_second = Some(second);
            let share = Share {
                getattr_second,
                ..SHARE
            };
            client.add(5, share, &mut storms);
        };
        // Second 7 has three more than the threshold, a part of them after second 8 began; second 8
        // has one too few.
        (0..threshold).for_each(|_| call(7));
        (0..threshold - 1).for_each(|_| call(8));
        (0..3).for_each(|_| call(7));
        call(6);
        let storm = Storm {
            client: 5,
            file_id: None,
            seconds: 1,
            calls: u64::from(threshold) + 3,
            peak: threshold + 3,
            peak_second: 7,
        };
        assert_eq!(storms.storms(), [storm]);
    }
}
