//! What can go wrong at a port, each with a message that names the thing, the place and a remedy.
//! Malformed packets are no errors: they are data.

use std::fmt;
use std::io;

use lineside_frame::LinkType;
use lineside_host::TunError;
use rustix::io::Errno;

/// Why a port cannot go on. The message has what, where, and a remedy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PortError {
    /// The file cannot be opened or made.
    #[error("cannot open '{name}': {cause}{}", way_out(cause))]
    Open {
        /// The file.
        name: String,
        /// The error of the operating system.
        cause: io::Error,
    },
    /// A file of that name is there.
    #[error("'{name}' exists already: name another file, or replace it with --force")]
    Exists {
        /// The file.
        name: String,
    },
    /// It is a folder.
    #[error("'{name}' is a folder: name the capture files in it")]
    Folder {
        /// The folder.
        name: String,
    },
    /// In a folder: a FIFO, a device or a socket.
    #[error("'{name}' is not a file: name it by itself if frames come from it")]
    NoFile {
        /// What it is called.
        name: String,
    },
    /// It is a folder in which nothing can be read.
    #[error("no file in '{name}' is a capture: name a folder with pcap or pcapng files")]
    NoCaptures {
        /// The folder.
        name: String,
    },
    /// A file that grows is read as it is.
    #[error("'{name}' is compressed, and cannot be followed while it grows: leave out --follow")]
    NotFollowed {
        /// The file.
        name: String,
    },
    /// There is nothing in it.
    #[error("'{name}' is empty: not even a capture file's header is there")]
    Empty {
        /// The file.
        name: String,
    },
    /// It is no capture file.
    #[error("'{name}' is neither pcap nor pcapng: it begins with {begins}{looks}")]
    Foreign {
        /// The file.
        name: String,
        /// Its first bytes in hexadecimal.
        begins: String,
        /// What it may be instead, with the way out; may be empty.
        looks: String,
    },
    /// It ends before its first record could begin.
    #[error("'{name}' ends after {len} bytes, within its file header: no frame is in it")]
    HeaderCut {
        /// The file.
        name: String,
        /// Its length.
        len: u64,
    },
    /// The operating system fails to read on.
    #[error("cannot read {place}: {cause}")]
    Read {
        /// Where.
        place: Place,
        /// The error of the operating system.
        cause: io::Error,
    },
    /// The compressed data contradict themselves.
    #[error(
        "cannot decompress {place}: {cause}; the frames before it were read ('{tool}' shows more)"
    )]
    Decompress {
        /// Where.
        place: Place,
        /// The error of the decompressor.
        cause: io::Error,
        /// A command that checks the file.
        tool: &'static str,
    },
    /// A record contradicts itself.
    #[error(
        "{place} is damaged: {what}; the {frames} frames before it were read, \
         nothing behind it can be trusted"
    )]
    Damaged {
        /// Where the record begins.
        place: Place,
        /// The contradiction.
        what: String,
        /// Frames before it.
        frames: u64,
    },
    /// The budget has no room for what reading takes.
    #[error("no memory for '{name}': it takes {needed_bytes} bytes; raise --memory")]
    Memory {
        /// The file.
        name: String,
        /// What was to be drawn on the budget.
        needed_bytes: usize,
    },
    /// The operating system fails to write on.
    #[error("cannot write {place}: {cause}{}", way_out(cause))]
    Write {
        /// Where.
        place: Place,
        /// The error of the operating system.
        cause: io::Error,
    },
    /// The thread that writes cannot be started.
    #[error("cannot start the thread that writes '{name}': {cause}")]
    Thread {
        /// The file.
        name: String,
        /// The error of the operating system.
        cause: io::Error,
    },
    /// An earlier error ended it.
    #[error("'{name}' is no longer written since an earlier error")]
    Ended {
        /// The file.
        name: String,
    },
    /// The name asks for what is not written.
    #[error("cannot write '{name}': {why}")]
    Unwritable {
        /// The file.
        name: String,
        /// Why, and the way out.
        why: String,
    },
    /// A pcap file holds frames of one link type only.
    #[error(
        "'{name}' holds frames of link type {holds}, this one is of {given}: \
         write one file for each, or name it .pcapng"
    )]
    MixedLinkTypes {
        /// The file.
        name: String,
        /// What its header states.
        holds: u16,
        /// What was to be written.
        given: u16,
    },
    /// A filter asks for what the frames do not have.
    #[error("'{name}', frame {frame}: {why}")]
    Unfilterable {
        /// The file.
        name: String,
        /// The first such frame's number.
        frame: u64,
        /// What it lacks, with a mark below the word of the filter.
        why: String,
    },
    /// A place of a path is to be read that the input does not have.
    #[error("the input has no port '{name}': it has frames at the ports {ports}")]
    NoSuchPlace {
        /// The name that was given.
        name: String,
        /// The names that there are.
        ports: String,
    },
    /// The kernel does not list its interfaces.
    #[error("cannot list the network interfaces: {cause}")]
    Interfaces {
        /// The error of the operating system.
        cause: io::Error,
    },
    /// There is no such interface.
    #[error("there is no interface '{name}' in this network namespace: {hint}")]
    NoInterface {
        /// The name.
        name: String,
        /// The nearest name, or all.
        hint: String,
    },
    /// It is switched off.
    #[error("'{name}' is down, so nothing passes it: 'ip link set {name} up' switches it on")]
    InterfaceDown {
        /// The interface.
        name: String,
    },
    /// Nothing is at its other end.
    #[error(
        "'{name}' has no carrier, so nothing leaves it: switch its other end on \
         ('ip link set PEER up' at a veth), or plug the cable in"
    )]
    NoCarrier {
        /// The interface.
        name: String,
    },
    /// It vanished while it was used.
    #[error(
        "'{name}' is gone: it was removed, or moved to another namespace; \
         the {frames} frames received before are complete"
    )]
    InterfaceGone {
        /// The interface.
        name: String,
        /// Frames before.
        frames: u64,
    },
    /// Its frames begin in a way that is not known here.
    #[error("'{name}' is neither Ethernet nor plain IP: its frames cannot be read")]
    UnknownHardware {
        /// The interface.
        name: String,
    },
    /// A right is missing.
    #[error("no right to {what}: it takes {}", capabilities.join(", "))]
    Privilege {
        /// What was tried.
        what: String,
        /// The capabilities that it takes, as setcap(8) spells them.
        capabilities: &'static [&'static str],
    },
    /// The operating system refuses something about an interface.
    #[error("cannot {action} '{name}': {cause}")]
    Interface {
        /// The interface.
        name: String,
        /// What was tried.
        action: &'static str,
        /// The error of the operating system.
        cause: io::Error,
    },
    /// A frame begins differently.
    #[error(
        "'{name}' carries frames of link type {holds}, frame {number} is of {given}: it cannot be \
        sent there"
    )]
    WrongLinkType {
        /// The interface.
        name: String,
        /// What the interface carries.
        holds: u16,
        /// What was to be sent.
        given: u16,
        /// The frame's number.
        number: u64,
    },
    /// Frames cannot be shared with the host as asked.
    #[error("cannot take some frames of '{name}' alone: {why}")]
    Steering {
        /// The interface.
        name: String,
        /// Why, and the way out.
        why: String,
    },
    /// AF_XDP cannot be had there.
    #[error("cannot {action} '{name}' by AF_XDP: {cause}; {remedy}")]
    Xdp {
        /// The interface.
        name: String,
        /// What was tried.
        action: &'static str,
        /// The error of the operating system.
        cause: io::Error,
        /// What that means, and the way out.
        remedy: String,
    },
    /// The kernel makes no table of flows.
    #[error("cannot make the driver's table of flows: {cause}")]
    FlowTable {
        /// The error of the operating system.
        cause: io::Error,
    },
    /// There is no device for an end of a link.
    #[error("cannot make the devices of the link: {tun}; nor by a veth pair: {veth}")]
    LinkEnd {
        /// Why there is no TAP device.
        tun: TunError,
        /// Why there is no veth pair.
        veth: Box<Self>,
    },
    /// A frame does not fit.
    #[error(
        "'{name}' carries network packets of at most {mtu} bytes, frame {number} has {len} in all: \
         raise it ('ip link set {name} mtu {needed}'), at the other end too"
    )]
    TooLong {
        /// The interface.
        name: String,
        /// Its longest packet.
        mtu: u32,
        /// The frame's number.
        number: u64,
        /// The frame's length.
        len: usize,
        /// That of the packet in it.
        needed: usize,
    },
    /// As many files as may be are open already.
    #[error(
        "cannot open '{name}': {files_max} files that overlap in time are open, as many as \
         'ulimit -n' leaves: raise it, or merge some of them first ('lineside capture FILE... -w')"
    )]
    TooManyOpen {
        /// The file.
        name: String,
        /// How many are.
        files_max: usize,
    },
    /// The operating system fails to wait for frames.
    #[error("cannot wait for frames of {name}: {cause}")]
    Wait {
        /// The ports.
        name: String,
        /// The error of the operating system.
        cause: io::Error,
    },
}

/// An offset in a capture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The file.
    pub name: String,
    /// Bytes before the place.
    pub offset: u64,
    /// The offset counts decompressed bytes.
    pub decompressed: bool,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}' at offset {}", self.name, self.offset)?;
        if self.decompressed {
            write!(f, " of the decompressed data")?;
        }
        Ok(())
    }
}

fn way_out(cause: &io::Error) -> &'static str {
    match cause.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "; what lies before is complete: free some space, or write elsewhere"
        }
        _ if Errno::from_io_error(cause) == Some(Errno::MFILE) => {
            "; raise how many files may be open at once, such as by 'ulimit -n 4096'"
        }
        _ => "",
    }
}

impl PortError {
    pub(crate) fn mixed(name: &str, holds: LinkType, given: LinkType) -> Self {
        Self::MixedLinkTypes {
            name: name.to_owned(),
            holds: holds.0,
            given: given.0,
        }
    }
}
