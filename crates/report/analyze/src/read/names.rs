//! Paths of files, joined from the table `files`.

use hashbrown::{HashMap, HashSet};
use lineside_rows::Table;

use crate::read::columns::{Integers, Texts};
use crate::read::trace::Trace;

/// Directories above a file that are looked at; a chain that is longer is a circle.
const DEPTH_MAX: usize = 64;

/// A name and where it was seen.
#[derive(Debug)]
struct Fact {
    run: usize,
    operation_id: i64,
    parent: Option<i64>,
    name: String,
}

/// Paths of files, by `file_id`.
#[derive(Debug, Default)]
pub(crate) struct Paths(HashMap<i64, Option<Fact>>);

impl Paths {
    /// Looks up the names of `files` and of the directories above them: the newest fact holds.
    ///
    /// One pass over the table for each level of directories, so that memory follows what is asked,
    /// not the table.
    pub(crate) fn of(trace: &mut Trace, files: impl IntoIterator<Item = i64>) -> Self {
        let mut known = HashMap::new();
        let mut wanted: HashSet<i64> = files.into_iter().collect();
        for _ in 0..DEPTH_MAX {
            if wanted.is_empty() {
                break;
            }
            let mut found: HashMap<i64, Fact> = HashMap::new();
            let columns = ["file_id", "operation_id", "parent_file_id", "name"];
            // Ids say which fact is newer within a run.
            for run in 0..trace.run_count() {
                trace.batches_of(run, Table::Files, &columns, |batch| {
                    let [file_id, operation_id, parent, name] = batch else {
                        return Ok(());
                    };
                    let file_id = Integers::of("file_id", file_id)?;
                    let operation_id = Integers::of("operation_id", operation_id)?;
                    let parent = Integers::of("parent_file_id", parent)?;
                    let rows = name.len();
                    let name = Texts::of("name", name)?;
                    for row in 0..rows {
                        let (Some(file), Some(operation_id)) =
                            (file_id.get(row), operation_id.get(row))
                        else {
                            continue;
                        };
                        if !wanted.contains(&file) {
                            continue;
                        }
                        // READDIRPLUS lists a directory in itself, and the one above: neither is a
                        // name.
                        let Some(name) = name.get(row).filter(|name| !matches!(*name, "." | ".."))
                        else {
                            continue;
                        };
                        let old = found.get(&file).map(|fact| (fact.run, fact.operation_id));
                        if old.is_none_or(|old| old <= (run, operation_id)) {
                            let parent = parent.get(row);
                            found.insert(
                                file,
                                Fact {
                                    run,
                                    operation_id,
                                    parent,
                                    name: name.to_owned(),
                                },
                            );
                        }
                    }
                    Ok(())
                });
            }
            let mut above = HashSet::new();
            for file in wanted.drain() {
                let fact = found.remove(&file);
                above.extend(fact.as_ref().and_then(|fact| fact.parent));
                known.insert(file, fact);
            }
            wanted.extend(above.into_iter().filter(|file| !known.contains_key(file)));
        }
        Self(known)
    }

    /// The directory in which a file lies.
    pub(crate) fn directory(&self, file_id: i64) -> Option<i64> {
        self.0.get(&file_id)?.as_ref()?.parent
    }

    /// The path of a file as far as it is known: `…/` stands for what is above it where neither a
    /// MOUNT nor a directory shows that.
    pub(crate) fn path(&self, file_id: i64) -> Option<String> {
        let fact = self.0.get(&file_id)?.as_ref()?;
        let mut path = fact.name.clone();
        let mut parent = fact.parent;
        for _ in 0..DEPTH_MAX {
            // Only a MOUNT names where a path begins; other names have a directory, seen or not.
            let Some(id) = parent.filter(|_| !path.starts_with('/')) else {
                break;
            };
            let Some(Some(fact)) = self.0.get(&id) else {
                break;
            };
            path = format!("{}/{path}", fact.name.trim_end_matches('/'));
            parent = fact.parent;
        }
        match path.starts_with('/') {
            true => Some(path),
            false => Some(format!("…/{path}")),
        }
    }
}

/// How much an operation says of what its compound is for.
pub(crate) fn weight(operation: &str) -> u8 {
    match operation {
        "READ" | "WRITE" | "COMMIT" | "COPY" | "CLONE" => 5,
        "LOOKUP" | "LOOKUPP" | "READLINK" => 3,
        "GETATTR" | "ACCESS" => 2,
        "SEQUENCE" | "CB_SEQUENCE" | "PUTFH" | "PUTROOTFH" | "PUTPUBFH" | "SAVEFH"
        | "RESTOREFH" | "GETFH" | "VERIFY" | "NVERIFY" => 1,
        _ => 4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_whose_beginning_is_not_known_says_so() {
        let fact = |parent, name: &str| {
            Some(Fact {
                run: 0,
                operation_id: 1,
                parent,
                name: name.to_owned(),
            })
        };
        let facts = [
            (1, fact(None, "/export")),
            (2, fact(Some(1), "mounted")),
            (3, fact(None, "home")),
            (4, fact(Some(3), "of-nfs4")),
            (5, None),
            (6, fact(Some(5), "unseen")),
            (7, fact(Some(7), "circle")),
        ];
        let paths = Paths(facts.into_iter().collect());
        assert_eq!(paths.path(1).as_deref(), Some("/export"));
        assert_eq!(paths.path(2).as_deref(), Some("/export/mounted"));
        assert_eq!(paths.path(3).as_deref(), Some("…/home"));
        assert_eq!(paths.path(4).as_deref(), Some("…/home/of-nfs4"));
        assert_eq!(paths.path(5), None);
        assert_eq!(paths.path(6).as_deref(), Some("…/unseen"));
        let circle = paths.path(7).expect("a name");
        assert!(circle.starts_with("…/circle/circle"), "{circle}");
    }
}
