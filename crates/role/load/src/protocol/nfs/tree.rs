//! The files of an export that requests are about, and their handles.

use std::ops::Range;

use lineside_words::WordError;
use lineside_workload::Keys;

/// Files and directories with their handles, as a preparation found or made them. Workers share it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tree {
    /// Handles and names, one behind the other.
    bytes: Vec<u8>,
    root: Range<u32>,
    directories: Vec<Range<u32>>,
    files: Vec<File>,
    file_bytes: u64,
    read_max: u32,
    write_max: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct File {
    handle: Range<u32>,
    name: Range<u32>,
    directory: u32,
    size: u64,
}

/// Bytes of a READ or WRITE, unless the server says otherwise.
pub(super) const TRANSFER_MAX: u32 = 1 << 20;

impl Tree {
    /// A tree without files.
    pub fn new(root: &[u8]) -> Self {
        let mut tree = Self {
            bytes: Vec::new(),
            root: 0..0,
            directories: Vec::new(),
            files: Vec::new(),
            file_bytes: 0,
            read_max: TRANSFER_MAX,
            write_max: TRANSFER_MAX,
        };
        tree.root = tree.keep(root);
        tree
    }

    fn keep(&mut self, bytes: &[u8]) -> Range<u32> {
        let start = self.bytes.len() as u32;
        self.bytes.extend_from_slice(bytes);
        start..self.bytes.len() as u32
    }

    fn kept(&self, range: &Range<u32>) -> &[u8] {
        &self.bytes[range.start as usize..range.end as usize]
    }

    /// Adds a directory; its number.
    pub fn add_directory(&mut self, handle: &[u8]) -> u32 {
        let handle = self.keep(handle);
        self.directories.push(handle);
        self.directories.len() as u32 - 1
    }

    /// Adds a file of `size` bytes in a directory.
    pub fn add_file(&mut self, directory: u32, name: &[u8], handle: &[u8], size: u64) {
        let (handle, name) = (self.keep(handle), self.keep(name));
        self.file_bytes += size;
        self.files.push(File {
            handle,
            name,
            directory,
            size,
        });
    }

    /// The most bytes that the server takes in a READ and in a WRITE: FSINFO's `rtmax` and `wtmax`.
    /// Above 1 MiB, 1 MiB counts.
    pub fn set_transfer_max(&mut self, read: u32, write: u32) {
        self.read_max = read.clamp(1, TRANSFER_MAX);
        self.write_max = write.clamp(1, TRANSFER_MAX);
    }

    pub(super) fn read_max(&self) -> u32 {
        self.read_max
    }

    pub(super) fn write_max(&self) -> u32 {
        self.write_max
    }

    /// How many files there are.
    pub fn files(&self) -> usize {
        self.files.len()
    }

    /// How many directories there are.
    pub fn directories(&self) -> usize {
        self.directories.len()
    }

    /// Keys over all files, by the words of [`Keys`] that stand before `over`: `zipf 0.99`.
    pub fn keys(&self, order: &str) -> Result<Keys, WordError> {
        format!("{order} over {}", self.files().max(1)).parse()
    }

    pub(super) fn mean_bytes(&self) -> f64 {
        self.file_bytes as f64 / self.files.len().max(1) as f64
    }

    /// Bytes of a file.
    pub fn size(&self, file: usize) -> u64 {
        self.files.get(file).map_or(0, |file| file.size)
    }

    /// The handle of the export's root.
    pub fn root(&self) -> &[u8] {
        self.kept(&self.root)
    }

    /// A file's handle; without files the root's.
    pub fn handle(&self, file: usize) -> &[u8] {
        self.files
            .get(file)
            .map_or_else(|| self.root(), |file| self.kept(&file.handle))
    }

    /// A file's name.
    pub fn name(&self, file: usize) -> &[u8] {
        self.files
            .get(file)
            .map_or(b".", |file| self.kept(&file.name))
    }

    /// The handle of a file's directory.
    pub fn directory(&self, file: usize) -> &[u8] {
        let directory = self.files.get(file).map(|file| file.directory as usize);
        let directory = directory.and_then(|number| self.directories.get(number));
        directory.map_or_else(|| self.root(), |handle| self.kept(handle))
    }
}
