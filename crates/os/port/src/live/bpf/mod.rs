//! bpf(2): maps, programs and links, each a descriptor that the kernel frees when it is closed.
//!
//! Layouts: `union bpf_attr` in `linux/bpf.h`. A kernel that knows more fields takes those that are
//! missing here as zero.

use std::ffi::CStr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use rustix::io::Errno;

pub(in crate::live) mod assembler;
pub(in crate::live) mod translation;

use assembler::Instruction;

/// Kinds of maps.
const MAP_TYPE_HASH: u32 = 1;
pub(in crate::live) const MAP_TYPE_ARRAY: u32 = 2;
pub(in crate::live) const MAP_TYPE_XSKMAP: u32 = 17;
/// An array that mmap(2) shows.
pub(in crate::live) const MAP_FLAG_MMAPABLE: u32 = 1 << 10;

/// Where a link puts its program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::live) enum Mode {
    /// Into the driver, before there is a socket buffer.
    Native,
    /// Into the kernel's common receive path: any driver, slower.
    Generic,
}

/// Makes a map of `entries_max` entries under keys of four bytes.
pub(in crate::live) fn create_map(
    kind: u32,
    value_len: u32,
    entries_max: u32,
    flags: u32,
) -> Result<OwnedFd, Errno> {
    create(kind, 4, value_len, entries_max, flags)
}

fn create(
    kind: u32,
    key_len: u32,
    value_len: u32,
    entries_max: u32,
    flags: u32,
) -> Result<OwnedFd, Errno> {
    #[repr(C)]
    struct Attributes {
        map_type: u32,
        key_size: u32,
        value_size: u32,
        max_entries: u32,
        map_flags: u32,
    }
    let attributes = Attributes {
        map_type: kind,
        key_size: key_len,
        value_size: value_len,
        max_entries: entries_max,
        map_flags: flags,
    };
    // SAFETY: MAP_CREATE reads the fields given, none of which is a pointer, and returns a new
    // descriptor.
    unsafe {
        let descriptor = bpf(MAP_CREATE, &attributes)?;
        Ok(OwnedFd::from_raw_fd(descriptor))
    }
}

/// Sets entry `key` of a map whose values are descriptors.
pub(in crate::live) fn set_descriptor(
    map: BorrowedFd<'_>,
    key: u32,
    value: BorrowedFd<'_>,
) -> Result<(), Errno> {
    let value = value.as_raw_fd() as u32;
    let attributes = Element {
        map_fd: map.as_raw_fd() as u32,
        padding: 0,
        key: expose(&key),
        value: expose(&value),
        flags: 0,
    };
    // SAFETY: `key` and `value` live through the call and have the sizes that every map of
    // descriptors has: four bytes.
    unsafe { bpf(MAP_UPDATE_ELEM, &attributes) }.map(drop)
}

/// Clears entry `key`; that it is clear already is no error.
pub(in crate::live) fn clear(map: BorrowedFd<'_>, key: u32) -> Result<(), Errno> {
    let attributes = Element {
        map_fd: map.as_raw_fd() as u32,
        padding: 0,
        key: expose(&key),
        value: 0,
        flags: 0,
    };
    // SAFETY: `key` lives through the call and has the four bytes of every key here.
    match unsafe { bpf(MAP_DELETE_ELEM, &attributes) } {
        Ok(_) | Err(Errno::NOENT) => Ok(()),
        Err(errno) => Err(errno),
    }
}

/// A hash table in the kernel from keys of this many bytes to numbers. Programs look numbers up in
/// it. It needs no privilege once it is made.
pub(in crate::live) struct NumberTable<const KEY_LEN: usize> {
    map: OwnedFd,
}

impl<const KEY_LEN: usize> NumberTable<KEY_LEN> {
    /// A table with memory for `entries_max` entries.
    pub(in crate::live) fn new(entries_max: u32) -> Result<Self, Errno> {
        let map = create(MAP_TYPE_HASH, KEY_LEN as u32, 4, entries_max, 0)?;
        Ok(Self { map })
    }

    /// Enters a key that is not there yet: EEXIST if it is, E2BIG if the table is full.
    pub(in crate::live) fn insert(&self, key: &[u8; KEY_LEN], number: u32) -> Result<(), Errno> {
        const NO_EXIST: u64 = 1;
        let attributes = self.element(key, expose(&number), NO_EXIST);
        // SAFETY: key and value live through the call and have the sizes that the map was made
        // with.
        unsafe { bpf(MAP_UPDATE_ELEM, &attributes) }.map(drop)
    }

    /// The number of a key.
    pub(in crate::live) fn find(&self, key: &[u8; KEY_LEN]) -> Result<Option<u32>, Errno> {
        let mut number = 0_u32;
        let to = (&raw mut number).expose_provenance() as u64;
        let attributes = self.element(key, to, 0);
        // SAFETY: as above; the kernel writes the four bytes of a value.
        match unsafe { bpf(MAP_LOOKUP_ELEM, &attributes) } {
            Ok(_) => Ok(Some(number)),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(errno),
        }
    }

    /// Removes a key that is there.
    pub(in crate::live) fn remove(&self, key: &[u8; KEY_LEN]) -> Result<(), Errno> {
        let attributes = self.element(key, 0, 0);
        // SAFETY: the key lives through the call and has the size that the map was made with.
        unsafe { bpf(MAP_DELETE_ELEM, &attributes) }.map(drop)
    }

    fn element(&self, key: &[u8; KEY_LEN], value: u64, flags: u64) -> Element {
        Element {
            map_fd: self.map.as_raw_fd() as u32,
            padding: 0,
            key: expose(key),
            value,
            flags,
        }
    }
}

impl<const KEY_LEN: usize> AsFd for NumberTable<KEY_LEN> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.map.as_fd()
    }
}

/// What a program is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::live) enum Kind {
    /// For frames at a driver, also of several buffers.
    Xdp,
    /// For what a socket lets in.
    SocketFilter,
}

/// The part of `union bpf_attr` that loads a program.
#[repr(C)]
struct LoadAttributes {
    prog_type: u32,
    insn_cnt: u32,
    insns: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log_buf: u64,
    kern_version: u32,
    prog_flags: u32,
    prog_name: [u8; 16],
    prog_ifindex: u32,
    expected_attach_type: u32,
}

/// Loads a program. On refusal, the log of the verifier.
pub(in crate::live) fn load(
    kind: Kind,
    name: &CStr,
    license: &CStr,
    instructions: &[Instruction],
) -> Result<OwnedFd, (Errno, String)> {
    const PROG_TYPE_SOCKET_FILTER: u32 = 1;
    const PROG_TYPE_XDP: u32 = 6;
    const F_XDP_HAS_FRAGS: u32 = 1 << 5;
    let (prog_type, prog_flags, expected_attach_type) = match kind {
        Kind::Xdp => (PROG_TYPE_XDP, F_XDP_HAS_FRAGS, ATTACH_XDP),
        Kind::SocketFilter => (PROG_TYPE_SOCKET_FILTER, 0, 0),
    };
    let mut prog_name = [0; 16];
    for (to, from) in prog_name[..15].iter_mut().zip(name.to_bytes()) {
        *to = *from;
    }
    let mut attributes = LoadAttributes {
        prog_type,
        insn_cnt: instructions.len() as u32,
        insns: instructions.as_ptr().expose_provenance() as u64,
        license: license.as_ptr().expose_provenance() as u64,
        log_level: 0,
        log_size: 0,
        log_buf: 0,
        kern_version: 0,
        prog_flags,
        prog_name,
        prog_ifindex: 0,
        expected_attach_type,
    };
    let refused = match try_load(&attributes) {
        Ok(program) => return Ok(program),
        Err(errno) => errno,
    };
    // Once more, for the verifier's words: with a log in the first try, a log that is too short
    // would itself be a failure.
    let mut log = vec![0u8; 64 * 1024];
    attributes.log_level = 1;
    attributes.log_size = log.len() as u32;
    attributes.log_buf = log.as_mut_ptr().expose_provenance() as u64;
    if let Ok(program) = try_load(&attributes) {
        return Ok(program);
    }
    let end = log.iter().position(|byte| *byte == 0).unwrap_or(log.len());
    Err((
        refused,
        String::from_utf8_lossy(&log[..end]).trim().to_owned(),
    ))
}

/// Loads a program whose pointers lead to what outlives the call: its instructions, its license,
/// and a log of `log_size` bytes.
fn try_load(attributes: &LoadAttributes) -> Result<OwnedFd, Errno> {
    // The verifier gives up when the thread has a signal to handle, and a long program takes it
    // milliseconds.
    const TRIES: u32 = 10;
    let mut tries = 0;
    loop {
        tries += 1;
        // SAFETY: instructions and license live through the call, and so does the log, to which
        // the kernel writes at most `log_size` bytes.
        match unsafe { bpf(PROG_LOAD, attributes) } {
            // SAFETY: PROG_LOAD returned a new descriptor.
            Ok(descriptor) => return Ok(unsafe { OwnedFd::from_raw_fd(descriptor) }),
            Err(Errno::AGAIN) if tries < TRIES => {}
            Err(errno) => return Err(errno),
        }
    }
}

/// Puts a program on an interface for as long as the link is open.
pub(in crate::live) fn link_xdp(
    program: BorrowedFd<'_>,
    interface: u32,
    mode: Mode,
) -> Result<OwnedFd, Errno> {
    #[repr(C)]
    struct Attributes {
        prog_fd: u32,
        target_ifindex: u32,
        attach_type: u32,
        flags: u32,
    }
    let attributes = Attributes {
        prog_fd: program.as_raw_fd() as u32,
        target_ifindex: interface,
        attach_type: ATTACH_XDP,
        // XDP_FLAGS_DRV_MODE, XDP_FLAGS_SKB_MODE of linux/if_link.h.
        flags: match mode {
            Mode::Native => 1 << 2,
            Mode::Generic => 1 << 1,
        },
    };
    // SAFETY: LINK_CREATE reads the fields given, none of which is a pointer, and returns a new
    // descriptor.
    unsafe {
        let descriptor = bpf(LINK_CREATE, &attributes)?;
        Ok(OwnedFd::from_raw_fd(descriptor))
    }
}

/// Runs an XDP program again and again on frames that begin as `frame`, and has the kernel do with
/// each what the program returns (`BPF_F_TEST_XDP_LIVE_FRAMES`), until a signal arrives or
/// `repeat` times.
pub(in crate::live) fn run_xdp(
    program: BorrowedFd<'_>,
    frame: &[u8],
    repeat: u32,
) -> Result<(), Errno> {
    const LIVE_FRAMES: u32 = 1 << 1;
    #[repr(C)]
    struct Attributes {
        prog_fd: u32,
        retval: u32,
        data_size_in: u32,
        data_size_out: u32,
        data_in: u64,
        data_out: u64,
        repeat: u32,
        duration: u32,
        ctx_size_in: u32,
        ctx_size_out: u32,
        ctx_in: u64,
        ctx_out: u64,
        flags: u32,
        cpu: u32,
        batch_size: u32,
        padding: u32,
    }
    let mut attributes = Attributes {
        prog_fd: program.as_raw_fd() as u32,
        retval: 0,
        data_size_in: frame.len() as u32,
        data_size_out: 0,
        data_in: frame.as_ptr().expose_provenance() as u64,
        data_out: 0,
        repeat,
        duration: 0,
        ctx_size_in: 0,
        ctx_size_out: 0,
        ctx_in: 0,
        ctx_out: 0,
        flags: LIVE_FRAMES,
        cpu: 0,
        batch_size: 0,
        padding: 0,
    };
    // SAFETY: `frame` lives through the call, which only reads it; the kernel may write results
    // into the attributes.
    match unsafe { bpf(PROG_TEST_RUN, &raw mut attributes) } {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(errno) => Err(errno),
    }
}

/// Takes the program off at once, also while a process that was just forked holds a copy of the
/// link.
pub(in crate::live) fn detach(link: BorrowedFd<'_>) -> Result<(), Errno> {
    #[repr(C)]
    struct Attributes {
        link_fd: u32,
    }
    let attributes = Attributes {
        link_fd: link.as_raw_fd() as u32,
    };
    // SAFETY: LINK_DETACH reads one number.
    unsafe { bpf(LINK_DETACH, &attributes) }.map(drop)
}

/// What MAP_LOOKUP_ELEM, MAP_UPDATE_ELEM and MAP_DELETE_ELEM read.
#[repr(C)]
struct Element {
    map_fd: u32,
    padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}

/// The address of `value` as the kernel takes it.
fn expose<T>(value: &T) -> u64 {
    std::ptr::from_ref(value).expose_provenance() as u64
}

/// # Safety
/// What `attributes` point to is as `command` wants it, and lives through the call; so do the
/// attributes, which may be written if `command` does that.
unsafe fn bpf<T>(command: libc::c_long, attributes: *const T) -> Result<i32, Errno> {
    // SAFETY: the kernel reads `size_of::<T>()` bytes at `attributes`; the rest is the caller's
    // duty.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, attributes, size_of::<T>()) };
    if result < 0 {
        let error = std::io::Error::last_os_error();
        return Err(Errno::from_io_error(&error).unwrap_or(Errno::IO));
    }
    Ok(result as i32)
}

// Commands.
const MAP_CREATE: libc::c_long = 0;
const MAP_LOOKUP_ELEM: libc::c_long = 1;
const MAP_UPDATE_ELEM: libc::c_long = 2;
const MAP_DELETE_ELEM: libc::c_long = 3;
const PROG_LOAD: libc::c_long = 5;
const PROG_TEST_RUN: libc::c_long = 10;
const LINK_CREATE: libc::c_long = 28;
const LINK_DETACH: libc::c_long = 34;
/// `BPF_XDP` of `enum bpf_attach_type`.
const ATTACH_XDP: u32 = 37;
