//! Which parts a run's tables have, which of them are to become one, and which go. Nothing is done
//! here: files are written, put in place and removed by whoever asks.
//!
//! ```text
//!  a part a second ──► one a minute ──► one for each time or size of a final part
//!  level 0             level 1          level 2
//! ```

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::time::Duration;

/// Where final parts end.
#[derive(Debug, Clone, Copy)]
pub struct FinalParts {
    /// Where this time ends: at multiples of it since the Unix epoch. `None`: by the limits below.
    pub time_ns: Option<NonZeroU64>,
    /// At most this many bytes, those of the parts that it is made of.
    pub bytes_max: u64,
    /// At most this many rows, of a table.
    pub rows_max: fn(&str) -> u64,
}

/// What is kept of a run: all of it if neither is given.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// Rows of this time.
    pub time: Option<Duration>,
    /// So many bytes, of all tables together.
    pub bytes: Option<u64>,
    /// Both over all runs of the folder that the run's own is in.
    pub runs: bool,
}

impl Retention {
    /// Whether anything ever goes.
    pub fn is_limited(&self) -> bool {
        self.time.is_some() || self.bytes.is_some()
    }
}

/// What a table has on the disk.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct TableTotals {
    /// Rows of its parts.
    pub rows: u64,
    /// Its parts.
    pub parts: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// What went because of [`Retention`].
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Removed {
    /// Rows, parts and bytes, of all tables.
    pub totals: TableTotals,
    /// All rows that were complete after this time are there, nanoseconds since the Unix epoch;
    /// `None`: nothing went.
    pub kept_since_ns: Option<i64>,
}

impl Removed {
    /// Adds what went of other tables of the same run.
    pub fn add(&mut self, other: Self) {
        self.totals.rows += other.totals.rows;
        self.totals.parts += other.totals.parts;
        self.totals.bytes += other.totals.bytes;
        self.kept_since_ns = self.kept_since_ns.max(other.kept_since_ns);
    }
}

/// A complete part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Shelved {
    pub(crate) file: String,
    pub(crate) rows: u64,
    pub(crate) bytes: u64,
    /// The end of the window that its rows came in, by the trace's time.
    pub(crate) window_ns: i64,
    /// When it was written, by a clock that nobody sets.
    pub(crate) written_ns: u64,
}

/// Parts that are to become one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Job {
    pub(crate) table: String,
    pub(crate) files: Vec<String>,
    /// The name of the one: no other part ever had it.
    pub(crate) file: String,
    level: Level,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    Second,
    Minute,
    Final,
}

#[derive(Debug, Default)]
struct Table {
    parts: Vec<(Level, Shelved)>,
    /// It has a part that cannot be read, so that it stays as it is.
    is_left: bool,
}

/// The parts of a run.
#[derive(Debug)]
pub(crate) struct Shelf {
    tables: BTreeMap<String, Table>,
    finals: Option<FinalParts>,
    retention: Retention,
    removed: Removed,
    /// The latest window of all tables.
    window_ns: i64,
}

const MINUTE_NS: i64 = 60_000_000_000;

/// A part of this share of a final one is final: to merge it would save next to nothing.
const LARGE_SHARE: u64 = 4;

impl Shelf {
    pub(crate) fn new(finals: Option<FinalParts>, retention: Retention) -> Self {
        Self {
            tables: BTreeMap::new(),
            finals,
            retention,
            removed: Removed::default(),
            window_ns: i64::MIN,
        }
    }

    /// A part was written.
    pub(crate) fn add(&mut self, table: &str, part: Shelved) {
        self.window_ns = self.window_ns.max(part.window_ns);
        let is_large = self.finals.is_none_or(|finals| {
            part.rows >= (finals.rows_max)(table) / LARGE_SHARE
                || part.bytes >= finals.bytes_max / LARGE_SHARE
        });
        let level = match is_large {
            true => Level::Final,
            false => Level::Second,
        };
        let table = self.tables.entry(table.to_owned()).or_default();
        table.parts.push((level, part));
    }

    /// The parts that are to become one next. With `is_last` no part will come after them.
    pub(crate) fn next_merge(&mut self, is_last: bool) -> Option<Job> {
        let finals = self.finals?;
        for level in [Level::Second, Level::Minute] {
            for (name, table) in &mut self.tables {
                if table.is_left {
                    continue;
                }
                let now_ns = if is_last { i64::MAX } else { self.window_ns };
                if let Some(job) = table.next_merge(name, level, &finals, now_ns) {
                    return Some(job);
                }
            }
        }
        None
    }

    /// Whether all parts of a job are still kept.
    pub(crate) fn has(&self, job: &Job) -> bool {
        let table = self.tables.get(&job.table);
        let parts = || table.into_iter().flat_map(|table| &table.parts);
        let has = |file: &String| parts().any(|(_, part)| part.file == *file);
        job.files.iter().all(has)
    }

    /// A job was done: `part` is in place of the others.
    pub(crate) fn merged(&mut self, job: &Job, rows: u64, bytes: u64) {
        let Some(table) = self.tables.get_mut(&job.table) else {
            return;
        };
        let is_of = |part: &Shelved| job.files.contains(&part.file);
        let Some(at) = table.parts.iter().position(|(_, part)| is_of(part)) else {
            return;
        };
        let of = table.parts.iter().filter(|(_, part)| is_of(part));
        let ends = |(_, part): &(Level, Shelved)| (part.window_ns, part.written_ns);
        let (windows, written): (Vec<_>, Vec<_>) = of.map(ends).unzip();
        let part = Shelved {
            file: job.file.clone(),
            rows,
            bytes,
            window_ns: windows.into_iter().max().unwrap_or_default(),
            written_ns: written.into_iter().max().unwrap_or_default(),
        };
        table.parts[at] = (job.level, part);
        table.parts.retain(|(_, part)| !is_of(part));
    }

    /// The parts of a job's table stay as they are from now on.
    pub(crate) fn leave(&mut self, job: &Job) {
        if let Some(table) = self.tables.get_mut(&job.table) {
            table.is_left = true;
        }
    }

    /// Bytes of all tables.
    pub(crate) fn bytes(&self) -> u64 {
        self.totals().map(|(_, totals)| totals.bytes).sum()
    }

    /// The next part to remove: the oldest of all tables, if its time is over or there are too many
    /// bytes with `older_bytes` that others have; with `makes_room` also if neither is so. A
    /// table's last part stays.
    pub(crate) fn next_removal(
        &mut self,
        now_ns: u64,
        older_bytes: u64,
        makes_room: bool,
    ) -> Option<(String, String)> {
        let bytes = self.bytes() + older_bytes;
        let tables = self.tables.iter_mut();
        let oldest = tables
            .filter(|(_, table)| table.parts.len() > 1)
            .flat_map(|(name, table)| {
                let age = |(at, (_, part)): (usize, &(Level, Shelved))| (part.written_ns, at);
                let least = table.parts.iter().enumerate().map(age).min()?;
                Some((least, name, &mut table.parts))
            })
            .min_by_key(|(least, ..)| least.0);
        let ((written_ns, at), name, parts) = oldest?;
        let age = Duration::from_nanos(now_ns.saturating_sub(written_ns));
        let is_old = self.retention.time.is_some_and(|time| age > time);
        let is_much = self.retention.bytes.is_some_and(|most| bytes > most);
        if !(is_old || is_much || makes_room && self.retention.is_limited()) {
            return None;
        }
        let (_, part) = parts.remove(at);
        let totals = &mut self.removed.totals;
        totals.rows += part.rows;
        totals.parts += 1;
        totals.bytes += part.bytes;
        let since = &mut self.removed.kept_since_ns;
        *since = (*since).max(Some(part.window_ns));
        Some((name.clone(), part.file))
    }

    /// The parts of each table.
    pub(crate) fn parts(&self) -> impl Iterator<Item = (&str, Vec<&str>)> {
        self.tables.iter().map(|(name, table)| {
            let files = table.parts.iter().map(|(_, part)| &*part.file);
            (&**name, files.collect())
        })
    }

    /// Whether a table has a part.
    pub(crate) fn has_parts(&self, table: &str) -> bool {
        let table = self.tables.get(table);
        table.is_some_and(|table| !table.parts.is_empty())
    }

    /// What each table has.
    pub(crate) fn totals(&self) -> impl Iterator<Item = (&str, TableTotals)> {
        self.tables.iter().map(|(name, table)| {
            let mut totals = TableTotals::default();
            for (_, part) in &table.parts {
                totals.rows += part.rows;
                totals.parts += 1;
                totals.bytes += part.bytes;
            }
            (name.as_str(), totals)
        })
    }

    /// What went so far.
    pub(crate) fn removed(&self) -> Removed {
        self.removed
    }
}

impl Table {
    /// The first parts of `level` whose time together is over at `now_ns`, or which are enough for
    /// a final part. They follow each other: where a part of another level lies between, what comes
    /// behind it stays behind it.
    fn next_merge(
        &mut self,
        name: &str,
        level: Level,
        finals: &FinalParts,
        now_ns: i64,
    ) -> Option<Job> {
        let (rows_max, final_ns) = ((finals.rows_max)(name), finals.final_ns());
        let group_ns = match level {
            Level::Second => MINUTE_NS.min(final_ns),
            _ => final_ns,
        };
        let group = |window_ns: i64| window_ns.saturating_sub(1).div_euclid(group_ns);
        let now = if now_ns == i64::MAX {
            i64::MAX
        } else {
            group(now_ns)
        };
        let of_level = |at: &usize| self.parts[*at].0 == level;
        let places: Vec<_> = (0..self.parts.len()).filter(of_level).collect();
        let first = group(self.parts[*places.first()?].1.window_ns);
        let (mut taken, mut rows, mut bytes) = (Vec::<usize>::new(), 0, 0);
        let (mut is_full, mut is_cut) = (false, false);
        for at in places {
            let part = &self.parts[at].1;
            is_cut = taken.last().is_some_and(|last| last + 1 != at);
            let is_much = rows + part.rows > rows_max || bytes + part.bytes > finals.bytes_max;
            is_full = is_much && !is_cut;
            if is_cut || is_full || group(part.window_ns) != first {
                break;
            }
            (rows, bytes) = (rows + part.rows, bytes + part.bytes);
            taken.push(at);
        }
        if !is_full && !is_cut && first >= now {
            return None;
        }
        let next = match level {
            Level::Second if !is_full && group_ns < final_ns && now_ns < i64::MAX => Level::Minute,
            _ => Level::Final,
        };
        if let [only] = taken[..] {
            self.parts[only].0 = next;
            return self.next_merge(name, level, finals, now_ns);
        }
        let files = taken.iter().map(|&at| self.parts[at].1.file.clone());
        let files: Vec<_> = files.collect();
        Some(Job {
            table: name.to_owned(),
            file: merged_name(&files)?,
            files,
            level: next,
        })
    }
}

impl FinalParts {
    fn final_ns(&self) -> i64 {
        let time_ns = self.time_ns.map(|time| time.get());
        time_ns.map_or(i64::MAX, |time| i64::try_from(time).unwrap_or(i64::MAX))
    }
}

/// The indexes of `part-000000.parquet`, or those from which to which `part-000000-000059.parquet`
/// was made; `None` if a name is not a part's.
pub(crate) fn part_indexes(name: &str) -> Option<(u64, u64)> {
    let indexes = name.strip_prefix("part-")?.strip_suffix(".parquet")?;
    let (first, last) = indexes.split_once('-').unwrap_or((indexes, indexes));
    let index = |text: &str| {
        let is_index = text.len() >= 6 && text.bytes().all(|byte| byte.is_ascii_digit());
        is_index.then(|| text.parse().ok()).flatten()
    };
    Some((index(first)?, index(last)?))
}

/// The name of the part that these become, in their order.
fn merged_name(files: &[String]) -> Option<String> {
    let first = part_indexes(files.first()?)?.0;
    let last = part_indexes(files.last()?)?.1;
    Some(format!("part-{first:06}-{last:06}.parquet"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_NS: i64 = 1_000_000_000;

    fn shelf(final_s: u64, retention: Retention) -> Shelf {
        let finals = FinalParts {
            time_ns: NonZeroU64::new(final_s * SECOND_NS as u64),
            bytes_max: 1_000_000,
            rows_max: |_| 100_000,
        };
        Shelf::new(Some(finals), retention)
    }

    fn part(index: u64, second: i64, rows: u64) -> Shelved {
        Shelved {
            file: format!("part-{index:06}.parquet"),
            rows,
            bytes: rows * 5,
            window_ns: (second + 1) * SECOND_NS,
            written_ns: (second as u64 + 1) * SECOND_NS as u64,
        }
    }

    /// Does every job that there is, and returns how many parts each took.
    fn merge_all(shelf: &mut Shelf, is_last: bool) -> Vec<(usize, String)> {
        let mut done = Vec::new();
        while let Some(job) = shelf.next_merge(is_last) {
            let of = |(_, part): &&(Level, Shelved)| job.files.contains(&part.file);
            let parts = &shelf.tables[&job.table].parts;
            let rows = parts.iter().filter(of).map(|(_, part)| part.rows).sum();
            shelf.merged(&job, rows, rows * 4);
            let parts = shelf.tables[&job.table].parts.iter();
            let indexes = parts.map(|(_, part)| part_indexes(&part.file).expect("a part"));
            indexes.fold(0, |next, (first, last)| {
                assert_eq!(first, next, "in their order, each once: {job:?}");
                last + 1
            });
            done.push((job.files.len(), job.file));
        }
        done
    }

    #[test]
    fn seconds_become_minutes_and_those_hours() {
        let mut shelf = shelf(3600, Retention::default());
        let mut jobs = Vec::new();
        for second in 0..7_300 {
            shelf.add("nfs", part(second, second as i64, 2));
            jobs.extend(merge_all(&mut shelf, false));
        }
        assert_eq!(jobs[0], (60, "part-000000-000059.parquet".to_owned()));
        assert_eq!(jobs.iter().filter(|(count, _)| *count == 60).count(), 123);
        let hours: Vec<_> = jobs
            .iter()
            .filter(|(_, file)| file == "part-000000-003599.parquet")
            .collect();
        assert_eq!(hours, [&(60, "part-000000-003599.parquet".to_owned())]);
        // Two hours, a minute, and 40 seconds.
        let (_, totals) = shelf.totals().next().expect("a table");
        assert_eq!((totals.rows, totals.parts), (14_600, 2 + 1 + 40));
        merge_all(&mut shelf, true);
        let (_, totals) = shelf.totals().next().expect("a table");
        assert_eq!((totals.rows, totals.parts), (14_600, 2 + 2));
    }

    #[test]
    fn no_name_is_ever_given_again() {
        let mut shelf = shelf(120, Retention::default());
        let mut names = std::collections::BTreeSet::new();
        for second in 0..1_000 {
            // Large ones come between small ones, and fill final parts early.
            let rows = [3, 7_000, 40_000, 12_000][second as usize * second as usize % 4];
            shelf.add("nfs", part(second, second as i64, rows));
            assert!(names.insert(format!("part-{second:06}.parquet")));
            for (_, file) in merge_all(&mut shelf, second == 999) {
                assert!(names.insert(file.clone()), "{file}");
            }
        }
        let parts = &shelf.tables["nfs"].parts;
        assert!(
            parts
                .iter()
                .all(|(level, part)| *level == Level::Final && part.rows <= 100_000)
        );
    }

    /// Minutes with more rows than a final part, with large parts between: the oldest would not go
    /// first if what lies on both sides of a part became one.
    #[test]
    fn parts_stay_in_their_order_whatever_is_merged() {
        for rates in [
            [4_000, 4_000, 1, 9],
            [3_000, 1, 30_000, 500],
            [1, 26_000, 7, 2],
        ] {
            let mut shelf = shelf(3600, Retention::default());
            let mut jobs = 0;
            for second in 0..1_200 {
                let rows = rates[second as usize / 50 % 4];
                shelf.add("nfs", part(second, second as i64, rows));
                jobs += merge_all(&mut shelf, second == 1_199).len();
            }
            assert!(jobs > 20);
        }
    }

    #[test]
    fn final_parts_end_by_time_also_if_it_is_short() {
        let mut shelf = shelf(10, Retention::default());
        for second in 0..35 {
            shelf.add("nfs", part(second, second as i64, 1));
        }
        let files: Vec<_> = merge_all(&mut shelf, true);
        let files: Vec<_> = files.iter().map(|(count, _)| *count).collect();
        assert_eq!(files, [10, 10, 10, 5]);
    }

    #[test]
    fn a_table_that_cannot_be_merged_is_left() {
        let mut shelf = shelf(3600, Retention::default());
        for second in 0..200 {
            shelf.add("nfs", part(second, second as i64, 1));
            shelf.add("files", part(second, second as i64, 1));
        }
        let job = shelf.next_merge(false).expect("a minute is over");
        assert_eq!(job.table, "files");
        shelf.leave(&job);
        assert!(merge_all(&mut shelf, true).len() > 2);
        let parts: Vec<_> = shelf.totals().map(|(_, totals)| totals.parts).collect();
        assert_eq!(parts[0], 200);
        assert!(parts[1] < 5);
    }

    #[test]
    fn the_oldest_go_of_all_tables_and_one_part_stays() {
        let retention = Retention {
            time: Some(Duration::from_secs(100)),
            bytes: Some(1_000),
            runs: false,
        };
        let mut shelf = shelf(3600, retention);
        for second in 0..50 {
            shelf.add("nfs", part(second, second as i64, 1));
            shelf.add("operations", part(second, second as i64, 1));
        }
        let remove = |shelf: &mut Shelf, second: u64, makes_room| {
            let now_ns = second * SECOND_NS as u64;
            std::iter::from_fn(|| shelf.next_removal(now_ns, 0, makes_room)).collect::<Vec<_>>()
        };
        assert_eq!(remove(&mut shelf, 101, false), []);
        let first = |table: &str| (table.to_owned(), "part-000000.parquet".to_owned());
        assert_eq!(
            remove(&mut shelf, 102, false),
            [first("nfs"), first("operations")]
        );
        assert_eq!(shelf.removed().kept_since_ns, Some(SECOND_NS));
        shelf.add("nfs", part(50, 50, 192));
        // 1,450 bytes.
        let much = remove(&mut shelf, 102, false);
        assert_eq!(much.len(), 90);
        assert_eq!(much[0].1, "part-000001.parquet");
        assert_eq!(
            remove(&mut shelf, 10_000, true).len(),
            7,
            "all but the last of each"
        );
        let kept: Vec<_> = shelf.totals().map(|(_, totals)| totals.parts).collect();
        assert_eq!(kept, [1, 1]);
        assert_eq!(shelf.removed().totals.parts, 99);
    }

    #[test]
    fn names_of_parts_are_read_and_others_are_not() {
        assert_eq!(part_indexes("part-000007.parquet"), Some((7, 7)));
        assert_eq!(
            part_indexes("part-000007-1234567.parquet"),
            Some((7, 1_234_567))
        );
        for name in [
            "part-7.parquet",
            "part-000007-.parquet",
            "part-000007-000008-000009.parquet",
            "part-000007.parquet.tmp",
            "xpart-000007.parquet",
            "part-+00007.parquet",
        ] {
            assert_eq!(part_indexes(name), None, "{name}");
        }
    }
}
