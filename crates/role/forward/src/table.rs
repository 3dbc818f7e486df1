//! The table of connections on disk, so that the next process can take it over whatever happened to
//! this one.
//!
//! Two files take turns, so that one of them is whole at any instant:
//!
//! ```text
//!  | number, 0 while it is written | length | XXH3 of the table | the table |
//! ```

use std::cell::RefCell;
use std::fs::File;
use std::io::ErrorKind;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::path::Path;

use lineside_balancer::Nat;
use lineside_host::FolderError;
use lineside_store::{RunFolder, STATES};
use lineside_time::Nanoseconds;
use twox_hash::XxHash3_64;

/// The table is written so often, if that takes little time.
const KEEP_NS: Nanoseconds = 50_000_000;

/// And so seldom that it takes no more than a hundredth of the loop's time.
const SHARE: Nanoseconds = 100;

/// Bytes before the table.
const HEADER_LEN: usize = 24;

/// The files.
#[derive(Debug)]
pub struct TableFile {
    files: [File; 2],
    state: RefCell<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The number of the latest table.
    number: u64,
    due: Nanoseconds,
    /// Reused for each table.
    bytes: Vec<u8>,
    /// It was not to be written: a full disk, usually.
    failure: Option<String>,
}

impl TableFile {
    /// Opens the files in a run's folder; to be called before privileges are dropped. A table that
    /// is taken over stands in them at once, whatever ends this run before it writes its own.
    pub fn open(folder: &RunFolder, resumed: Option<&[u8]>) -> Result<Self, FolderError> {
        let (files, mut state) = (folder.open_states()?, State::default());
        if let Some(table) = resumed {
            state.begin();
            state.bytes.extend_from_slice(table);
            state.put(&files);
        }
        Ok(Self {
            files,
            state: RefCell::new(state),
        })
    }

    /// The files, for the user that remains.
    pub(crate) fn descriptors(&self) -> [BorrowedFd<'_>; 2] {
        [self.files[0].as_fd(), self.files[1].as_fd()]
    }

    /// Writes the table if it is time. `clock` gives the time, before and after.
    pub(crate) fn keep(&self, nat: &Nat, clock: impl Fn() -> Nanoseconds) {
        let began = clock();
        let state = &mut *self.state.borrow_mut();
        if began < state.due {
            return;
        }
        state.write(&self.files, nat, began);
        let now = clock();
        state.due = now + KEEP_NS.max((now - began) * SHARE);
    }

    /// Writes the table a last time; a sentence if it could not be written.
    pub(crate) fn end(&self, nat: &Nat, now: Nanoseconds) -> Option<String> {
        let state = &mut *self.state.borrow_mut();
        state.write(&self.files, nat, now);
        let why = state.failure.take()?;
        Some(format!(
            "the table of connections could not be written, and '--resume' has an earlier one: {why}"
        ))
    }
}

impl State {
    fn write(&mut self, files: &[File; 2], nat: &Nat, now: Nanoseconds) {
        self.begin();
        nat.save(now, &mut self.bytes);
        self.put(files);
    }

    /// Leaves room for the header.
    fn begin(&mut self) {
        self.bytes.clear();
        self.bytes.resize(HEADER_LEN, 0);
    }

    /// Writes the table that stands behind the header.
    fn put(&mut self, files: &[File; 2]) {
        let (header, table) = self.bytes.split_at_mut(HEADER_LEN);
        header[8..16].copy_from_slice(&(table.len() as u64).to_le_bytes());
        header[16..].copy_from_slice(&XxHash3_64::oneshot(table).to_le_bytes());
        let number = self.number + 1;
        let file = &files[(number % 2) as usize];
        let written = file
            .write_all_at(&self.bytes, 0)
            .and_then(|()| file.write_all_at(&number.to_le_bytes(), 0));
        // Otherwise the next try is at the same file: the other one is whole.
        if written.is_ok() {
            self.number = number;
        }
        self.failure = written.err().map(|error| error.to_string());
    }
}

/// Reads the latest whole table in the folder of a run. The error is a sentence.
pub fn read_table(run: &Path) -> Result<Vec<u8>, String> {
    let newest = STATES.iter().filter_map(|name| read_whole(&run.join(name)));
    let newest = newest.max_by_key(|(number, _)| *number);
    newest.map(|(_, table)| table).ok_or_else(|| {
        format!(
            "{}: no whole table of connections is there: name the folder of an earlier 'lineside \
             forward -o'",
            run.display()
        )
    })
}

/// Whether the folder of a run has no table, not even a damaged one: none was ever written whole.
pub fn has_no_table(run: &Path) -> bool {
    STATES
        .iter()
        .all(|name| match std::fs::read(run.join(name)) {
            Ok(bytes) => bytes.iter().take(8).all(|&byte| byte == 0),
            Err(error) => error.kind() == ErrorKind::NotFound,
        })
}

/// The number of a table and what it is; `None` if it is not whole.
fn read_whole(path: &Path) -> Option<(u64, Vec<u8>)> {
    let mut bytes = std::fs::read(path).ok()?;
    let word = |at: usize| {
        let word = bytes.get(at..at + 8)?;
        Some(u64::from_le_bytes(word.try_into().ok()?))
    };
    let (number, len, sum) = (word(0)?, word(8)?, word(16)?);
    let end = HEADER_LEN.checked_add(usize::try_from(len).ok()?)?;
    if number == 0 || bytes.len() < end {
        return None;
    }
    bytes.truncate(end);
    bytes.drain(..HEADER_LEN);
    (XxHash3_64::oneshot(&bytes) == sum).then_some((number, bytes))
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;

    use super::*;
    use crate::course::tests::nat;

    #[test]
    fn a_table_that_cannot_be_written_leaves_the_other_whole() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |number: usize| folder.path().join(STATES[number]);
        let open = |number| {
            let path = path(number);
            let file = OpenOptions::new().create(true).append(true).open(path);
            file.expect("a file")
        };
        // Nothing can be written into one of them, as on a full disk.
        drop((open(0), open(1)));
        let full = File::open(path(0)).expect("a file");
        let open = OpenOptions::new().write(true).open(path(1));
        let files = [full, open.expect("a file")];
        let (nat, mut state) = (nat(), State::default());
        state.write(&files, &nat, 1);
        assert_eq!(state.failure, None);
        for now in 2..5 {
            state.write(&files, &nat, now);
            assert!(state.failure.is_some());
            let (number, _) = read_whole(&path(1)).expect("it is whole");
            assert_eq!(number, 1);
        }
        assert!(read_table(folder.path()).is_ok());
    }

    #[test]
    fn a_table_that_is_taken_over_is_there_from_the_beginning() {
        let above = tempfile::tempdir().expect("a folder");
        let path = above.path().join("run");
        assert!(has_no_table(&path), "no folder");
        let folder = RunFolder::create(&path, None).expect("new");
        drop(TableFile::open(&folder, None).expect("files"));
        assert!(has_no_table(&path), "nothing is written yet");
        drop(TableFile::open(&folder, Some(b"what was before")).expect("files"));
        assert_eq!(read_table(&path).expect("whole"), b"what was before");
        assert!(!has_no_table(&path));
        // Damaged ones are not taken for none.
        for name in STATES {
            let mut bytes = std::fs::read(path.join(name)).expect("there");
            bytes.pop();
            std::fs::write(path.join(name), bytes).expect("written");
        }
        assert!(read_table(&path).is_err() && !has_no_table(&path));
    }
}
