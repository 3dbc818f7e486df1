//! Where a part is read from, and why it could not be read.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::compact::Damage;

/// Where a part is read from.
pub trait Source {
    /// Bytes in all.
    fn size(&self) -> io::Result<u64>;

    /// Fills `buffer` from an offset on.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()>;
}

impl Source for File {
    fn size(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.read_exact_at(buffer, offset)
    }
}

impl Source for Vec<u8> {
    fn size(&self) -> io::Result<u64> {
        Ok(self.as_slice().len() as u64)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let start = usize::try_from(offset).ok();
        let bytes = start.and_then(|start| self.get(start..)?.get(..buffer.len()));
        buffer.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}

/// Why a part could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The operating system reports an error.
    #[error("cannot be read: {0}")]
    Io(#[from] io::Error),
    /// It is not Parquet.
    #[error("not a readable Parquet file: {0}; capture again or take the part away")]
    Parquet(&'static str),
    /// It is damaged.
    #[error("damaged Parquet file: {0}; capture again or take the part away")]
    Damaged(&'static str),
    /// It has no such column.
    #[error("no column '{column}'; the part has {present}")]
    NoColumn {
        /// What was asked for.
        column: String,
        /// What there is.
        present: String,
    },
    /// A column is of a type that no trace has.
    #[error(
        "column '{column}' is of type {data_type}, which no trace has; was it written by another \
        tool?"
    )]
    Type {
        /// The column.
        column: String,
        /// Its type.
        data_type: String,
    },
    /// A column has another type than its table has.
    #[error("column '{column}' has another type than in a trace; was it written by another tool?")]
    Foreign {
        /// The column.
        column: String,
    },
    /// A column is encoded or compressed in a way that is not read.
    #[error(
        "column '{column}' is {how} by {by}, which no trace is; was it written by another tool? It \
        can be read if that tool compresses with zstd"
    )]
    Unsupported {
        /// The column.
        column: String,
        /// Encoded or compressed.
        how: &'static str,
        /// The encoding or codec.
        by: String,
    },
}

impl From<Damage> for ReadError {
    fn from(damage: Damage) -> Self {
        Self::Damaged(damage.0)
    }
}
