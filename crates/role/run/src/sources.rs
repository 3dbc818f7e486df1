//! Capture files that are found with privileges and read without them, once or several times.
//!
//! ```text
//!  find ─► privileges dropped, sandbox ─► look ─► merge, merge, …
//! ```
//!
//! * Of several files only those are open whose time has come, if the user that this process
//!   becomes may open them. The others are opened at once, and stay open.
//! * Where more of these are than may be open, they need a [capability](Sources::capability).

use std::fs::{File, Metadata};
use std::io::Seek;
use std::path::{Path, PathBuf};

use lineside_account::Budget;
use lineside_host::{Capability, Descriptors, may_read, without_privileges};
use lineside_port::{CaptureReader, FolderFile, Merge, MergeInput, PoolConfig, list_held};

use crate::RunError;
use crate::inputs::{check, check_count, pool};

/// Files and folders that were named, none of which has been read.
pub struct Sources {
    inputs: Vec<Source>,
    capability: Option<Capability>,
}

enum Source {
    /// One alone, or what is no regular file: a pipe, a device, standard input.
    Open(String, File),
    File(Found),
    Folder(PathBuf, Vec<Found>),
}

/// A file, and what it was opened as if it stays open.
type Found = (PathBuf, Option<File>);

/// Files that were looked at: all that reading them again takes.
pub struct Looked {
    inputs: Vec<LookedAt>,
    pool: PoolConfig,
    /// Files of folders that cannot be read as captures, each with the reason.
    pub left_out: Vec<String>,
}

enum LookedAt {
    Open(String, File),
    File(Box<FolderFile>),
}

impl Sources {
    /// Finds what was named, and opens what nobody may open later. To be called before privileges
    /// are dropped, and before there is another thread.
    pub fn find(inputs: &[PathBuf]) -> Result<Self, RunError> {
        check(inputs)?;
        let find = |path: &PathBuf| source(path, inputs.len() > 1);
        let mut sources = Self {
            inputs: inputs.iter().map(find).collect::<Result<_, _>>()?,
            capability: None,
        };
        sources.hold_unreadable()?;
        Ok(sources)
    }

    /// What opening these files later takes, beside being named: none of those that would be left.
    pub fn capability(&self) -> Option<Capability> {
        self.capability
    }

    /// Files and folders that will be opened, for a sandbox.
    pub fn opened_later(&self) -> impl Iterator<Item = &Path> {
        self.inputs.iter().filter_map(|source| match source {
            Source::File((path, None)) => Some(path.as_path()),
            Source::Folder(path, files) => {
                { files.iter().any(|(_, file)| file.is_none()) }.then_some(path.as_path())
            }
            Source::Open(..) | Source::File(_) => None,
        })
    }

    /// Looks at the first frame of each file that is not read as it comes.
    pub fn look(self, budget: &Budget) -> Result<Looked, RunError> {
        let pool = pool(budget);
        let (mut inputs, mut left_out) = (Vec::with_capacity(self.inputs.len()), Vec::new());
        for source in self.inputs {
            match source {
                Source::Open(name, file) => inputs.push(LookedAt::Open(name, file)),
                Source::File((path, file)) => {
                    let file = FolderFile::look(&path, file, &pool)?;
                    inputs.push(LookedAt::File(Box::new(file)));
                }
                Source::Folder(folder, found) => {
                    let (files, more) = list_held(&folder, found.into_iter(), &pool)?;
                    inputs.extend(files.into_iter().map(Box::new).map(LookedAt::File));
                    left_out.extend(more);
                }
            }
        }
        check_count(inputs.len())?;
        Ok(Looked {
            inputs,
            pool,
            left_out,
        })
    }

    /// Opens the files that the user which this process becomes may not open.
    fn hold_unreadable(&mut self) -> Result<(), RunError> {
        let files = self.inputs.iter_mut().flat_map(|source| match source {
            Source::Open(..) => &mut [],
            Source::File(found) => std::slice::from_mut(found),
            Source::Folder(_, files) => files,
        });
        let unreadable = files.filter(|(path, _)| !may_read(path));
        let unreadable: Vec<_> = without_privileges(|| unreadable.collect())?;
        let descriptors = Descriptors::raise();
        let holds = unreadable.len() as u64 <= descriptors.room() / 2;
        for (path, held) in unreadable {
            // What is no regular file in a folder is left out, and opening a FIFO would wait.
            if !path.metadata().is_ok_and(|facts| facts.is_file()) {
                continue;
            }
            if holds || !may_read(path) {
                *held = Some(CaptureReader::open_file(path)?);
            } else {
                self.capability = Some(Capability::DacReadSearch);
            }
        }
        Ok(())
    }
}

/// What a path leads to.
fn source(path: &Path, is_one_of_several: bool) -> Result<Source, RunError> {
    let facts = path.metadata().ok().filter(|_| path.as_os_str() != "-");
    if facts.as_ref().is_some_and(Metadata::is_dir) {
        let files = lineside_port::paths(path)?.into_iter();
        let files = files.map(|path| (path, None)).collect();
        return Ok(Source::Folder(path.to_owned(), files));
    }
    if is_one_of_several && facts.is_some_and(|facts| facts.is_file()) {
        return Ok(Source::File((path.to_owned(), None)));
    }
    let file = CaptureReader::open_file(path)?;
    Ok(Source::Open(path.display().to_string(), file))
}

impl Looked {
    /// All files as one port, from their beginning; what is a pipe goes on where it is.
    pub fn merge(&self) -> Result<Merge, RunError> {
        let input = |input: &LookedAt| -> Result<MergeInput, RunError> {
            Ok(match input {
                LookedAt::File(file) => file.again().into(),
                LookedAt::Open(name, file) => {
                    CaptureReader::of_file(again(name, file)?, name, &self.pool)?.into()
                }
            })
        };
        let inputs = self.inputs.iter().map(input);
        Ok(Merge::new(inputs.collect::<Result<Vec<_>, _>>()?))
    }
}

fn again(name: &str, file: &File) -> Result<File, RunError> {
    let mut file = file.try_clone().map_err(|cause| {
        let name = name.to_owned();
        lineside_port::PortError::Open { name, cause }
    })?;
    if name != "-" {
        // A pipe cannot be rewound; the first time it is at its beginning anyway.
        let _ = file.rewind();
    }
    Ok(file)
}
