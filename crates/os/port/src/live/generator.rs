//! A capture's frames sent by the kernel itself: several times as many a second as a socket can,
//! for `bench/live`.
//!
//! ```text
//!  bpf(2): the kernel runs the program on a page again and again   (BPF_F_TEST_XDP_LIVE_FRAMES)
//!     due?  no ─► XDP_DROP
//!      │ yes
//!     next frame of the map into the page, its client's address shifted by the loop ─► redirect out of the interface
//! ```
//!
//! * Each pass through the frames is of other clients: its addresses are shifted and the checksums
//!   with them, so that nothing under test sees the same connection twice.
//! * What the interface's driver then drops is not known here: count what arrives at its other end.
//! * The other end must take frames from a driver: it has an XDP program, if only one that passes
//!   all ([`pass_all`]).

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr;
use std::time::Duration;

use lineside_wire::ethernet::{self, ether_type};
use lineside_wire::{PROTOCOL_TCP, ipv4, tcp};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};

use super::Interface;
use super::bpf;
use super::bpf::assembler::{
    Assembler, Instruction, Label,
    Register::{R0, R1, R2, R3, R4, R5, R6, R7, R8, R9, R10},
};
use super::mapping::Mapping;

/// Why frames cannot be sent so.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GeneratorError {
    /// One is too long for a page with the kernel's own data.
    #[error(
        "frame {number} has {len} bytes: from {FRAME_LEN_MIN} to {FRAME_LEN_MAX} can be sent so"
    )]
    Length {
        /// Its number, from 1.
        number: usize,
        /// Its bytes.
        len: usize,
    },
    /// There is none.
    #[error("there is no frame to send")]
    Nothing,
    /// The kernel refused.
    #[error("cannot {action}: {cause}{log}")]
    Kernel {
        /// What it was to do.
        action: &'static str,
        /// Its error.
        cause: std::io::Error,
        /// The log of the verifier.
        log: String,
    },
}

/// Frames in the kernel, and the program that sends them.
pub struct Generator {
    program: OwnedFd,
    state: Mapping,
    first_frame: Vec<u8>,
    // The program holds what it uses; these are for as long as there is none.
    _maps: [OwnedFd; 2],
}

/// What left.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Departures {
    /// Frames.
    pub frames: u64,
    /// Their bytes.
    pub bytes: u64,
    /// From the first to the last of them, in nanoseconds.
    pub span_ns: u64,
}

impl Generator {
    /// Puts `frames` into the kernel, to be sent out of `interface` every `interval_ns` (0: as fast
    /// as it goes), from the first to the last and again. Who falls behind by more than a
    /// millisecond leaves it at that.
    pub fn new(
        interface: &Interface,
        frames: &[Vec<u8>],
        interval_ns: u32,
    ) -> Result<Self, GeneratorError> {
        let Some(longest) = frames.iter().map(Vec::len).max() else {
            return Err(GeneratorError::Nothing);
        };
        let make = |errno: Errno| refused("make a BPF map of the frames", errno.into());
        let count = u32::try_from(frames.len()).map_err(|_| make(Errno::TOOBIG))?;
        let templates = bpf::create_map(
            bpf::MAP_TYPE_ARRAY,
            TEMPLATE_LEN as u32,
            count,
            bpf::MAP_FLAG_MMAPABLE,
        )
        .map_err(make)?;
        let state =
            bpf::create_map(bpf::MAP_TYPE_ARRAY, 64, 1, bpf::MAP_FLAG_MMAPABLE).map_err(make)?;
        let map = |map: &OwnedFd, len| {
            let access = ProtFlags::READ | ProtFlags::WRITE;
            Mapping::of(map.as_fd(), 0, len, access, MapFlags::SHARED).map_err(make)
        };
        let memory = map(&templates, frames.len() * TEMPLATE_LEN)?;
        for (index, frame) in frames.iter().enumerate() {
            if !(FRAME_LEN_MIN..=FRAME_LEN_MAX).contains(&frame.len()) {
                return Err(GeneratorError::Length {
                    number: index + 1,
                    len: frame.len(),
                });
            }
            let mut template = Vec::with_capacity(FRAME_AT + frame.len());
            template.extend_from_slice(&(frame.len() as u32).to_ne_bytes());
            template.extend_from_slice(&client_at(frame).to_ne_bytes());
            template.extend_from_slice(frame);
            let to = memory.at(index * TEMPLATE_LEN, template.len());
            // SAFETY: this many bytes are mapped there (checked by `at`), and no program uses them
            // yet.
            unsafe { ptr::copy_nonoverlapping(template.as_ptr(), to.as_ptr(), template.len()) };
        }
        let instructions = send(&Parameters {
            templates: templates.as_fd(),
            state: state.as_fd(),
            count,
            longest,
            interval_ns,
            interface: interface.index,
        });
        let program = load(&instructions)?;
        let mut first_frame = frames[0].clone();
        first_frame.resize(longest, 0);
        Ok(Self {
            program,
            state: map(&state, STATE_LEN)?,
            first_frame,
            _maps: [templates, state],
        })
    }

    /// Sends for a time, or until a signal comes, on the core of the calling thread. Takes the
    /// process's SIGALRM.
    pub fn run(&self, time: Duration) -> Result<Departures, GeneratorError> {
        let alarm = Alarm::set(time).map_err(|cause| refused("set a timer", cause))?;
        self.repeat(u32::MAX)?;
        drop(alarm);
        Ok(self.departures())
    }

    /// Sends this many frames, on the core of the calling thread; what it returns counts from the
    /// beginning of the first burst.
    pub fn run_burst(&self, frames: u32) -> Result<Departures, GeneratorError> {
        self.repeat(frames)?;
        Ok(self.departures())
    }

    fn repeat(&self, times: u32) -> Result<(), GeneratorError> {
        bpf::run_xdp(self.program.as_fd(), &self.first_frame, times).map_err(|errno| {
            let action = "have the kernel send frames (Linux 5.18 can)";
            refused(action, errno.into())
        })
    }

    fn departures(&self) -> Departures {
        let read = |field: i16| {
            let at = self.state.at(field as usize, 8).as_ptr();
            // SAFETY: the eight bytes lie in the mapping (checked by `at`), aligned, and the
            // program that writes them has stopped.
            unsafe { at.cast::<u64>().read_volatile() }
        };
        Departures {
            frames: read(FRAMES),
            bytes: read(BYTES),
            span_ns: read(LATEST_NS).saturating_sub(read(FIRST_NS)),
        }
    }
}

/// Puts a program on an interface that passes all frames on, as long as what is returned is open: a
/// veth then takes frames that another driver or program hands it.
pub fn pass_all(interface: &Interface) -> Result<OwnedFd, GeneratorError> {
    let mut program = Assembler::default();
    program.load(R0, XDP_PASS).exit();
    let program = load(&program.finish())?;
    bpf::link_xdp(program.as_fd(), interface.index, bpf::Mode::Native)
        .map_err(|errno| refused("attach an XDP program", errno.into()))
}

/// Puts a program on an interface that drops all frames but ARP, as long as what is returned is
/// open: the cheapest end for frames, which the interface still counts.
pub fn drop_all(interface: &Interface) -> Result<OwnedFd, GeneratorError> {
    let program = load(&drop_all_but_arp())?;
    bpf::link_xdp(program.as_fd(), interface.index, bpf::Mode::Native)
        .map_err(|errno| refused("attach an XDP program", errno.into()))
}

fn drop_all_but_arp() -> Vec<Instruction> {
    let mut program = Assembler::default();
    let end = program.label();
    program
        .load_word(R2, R1, 0)
        .load_word(R3, R1, 4)
        .load(R0, XDP_DROP)
        .copy(R4, R2)
        .add(R4, ethernet::HEADER_LEN as i32)
        .jump_greater(R4, R3, end)
        .load_half_word(R4, R2, 12)
        .swap_from_network(R4, 16)
        .jump_not_equal(R4, i32::from(ether_type::ARP), end)
        .load(R0, XDP_PASS)
        .here(end)
        .exit();
    program.finish()
}

fn refused(action: &'static str, cause: std::io::Error) -> GeneratorError {
    GeneratorError::Kernel {
        action,
        cause,
        log: String::new(),
    }
}

fn load(instructions: &[Instruction]) -> Result<OwnedFd, GeneratorError> {
    bpf::load(
        bpf::Kind::Xdp,
        c"lineside_send",
        c"MIT OR Apache-2.0",
        instructions,
    )
    .map_err(|(errno, log)| GeneratorError::Kernel {
        action: "load an XDP program",
        cause: errno.into(),
        log: format!(": {log}"),
    })
}

/// A template: the frame's length, where its client's address is or 0, the frame.
const TEMPLATE_LEN: usize = 2048;
const FRAME_AT: usize = 8;
/// The shortest frame that the kernel lets a program cut to.
const FRAME_LEN_MIN: usize = 14;
/// The longest frame of a template.
const FRAME_LEN_MAX: usize = TEMPLATE_LEN - FRAME_AT;

/// Fields of the state, of eight bytes each.
const FRAMES: i16 = 0;
const BYTES: i16 = 8;
const FIRST_NS: i16 = 16;
const LATEST_NS: i16 = 24;
const DUE_NS: i16 = 32;
const INDEX: i16 = 40;
const LOOP: i16 = 48;
const STATE_LEN: usize = 64;

/// Offsets in an Ethernet frame of IPv4 without options and TCP.
const IP: usize = ethernet::HEADER_LEN;
const TCP: usize = IP + ipv4::HEADER_LEN;
const IP_CHECKSUM: i16 = (IP + ipv4::field::CHECKSUM) as i16;
const SOURCE: i16 = (IP + ipv4::field::SOURCE) as i16;
const DESTINATION: i16 = (IP + ipv4::field::DESTINATION) as i16;
const TCP_CHECKSUM: i16 = (TCP + tcp::field::CHECKSUM) as i16;
const HEADERS_LEN: usize = TCP + tcp::HEADER_LEN;

/// Where the client's address is: of the two ends the one whose port is not 2049, or else is the
/// higher one. 0 where there are no such headers; such a frame stays as it is.
fn client_at(frame: &[u8]) -> u32 {
    let Some(headers) = frame.first_chunk::<HEADERS_LEN>() else {
        return 0;
    };
    let packet = ipv4::Packet::new_unchecked(&headers[IP..TCP]);
    let is_ipv4 = ethernet::Frame::new_unchecked(headers).ether_type() == ether_type::IPV4
        && packet.is_plain();
    let is_first = packet.fragment_offset() == 0;
    if !(is_ipv4 && packet.protocol() == PROTOCOL_TCP && is_first) {
        return 0;
    }
    let segment = tcp::Segment::new_unchecked(&headers[TCP..]);
    let rank = |port| (port != 2049, port);
    let is_source = rank(segment.source_port()) > rank(segment.destination_port());
    (if is_source { SOURCE } else { DESTINATION }) as u32
}

struct Parameters<'a> {
    templates: BorrowedFd<'a>,
    state: BorrowedFd<'a>,
    count: u32,
    longest: usize,
    interval_ns: u32,
    interface: u32,
}

const XDP_DROP: i32 = 1;
const XDP_PASS: i32 = 2;

// struct xdp_md and enum bpf_func_id of linux/bpf.h.
const DATA: i16 = 0;
const DATA_END: i16 = 4;
const KTIME_GET_NS: i32 = 5;
const REDIRECT: i32 = 23;
const XDP_ADJUST_TAIL: i32 = 65;
const XDP_STORE_BYTES: i32 = 190;
/// On the stack: a key, and the time.
const KEY: i16 = -4;
const NOW: i16 = -16;

/// R6: the context; R7: the state; R8: the template; R9: the loop.
fn send(parameters: &Parameters<'_>) -> Vec<Instruction> {
    let mut program = Assembler::default();
    let (drop, redirect) = (program.label(), program.label());
    program
        .copy(R6, R1)
        .load(R1, 0)
        .store_word(R10, KEY, R1)
        .look_up(parameters.state, KEY, drop)
        .copy(R7, R0)
        .call(KTIME_GET_NS)
        .store_double_word(R10, NOW, R0);
    if parameters.interval_ns > 0 {
        pace(&mut program, parameters.interval_ns, drop);
    }
    take_template(&mut program, parameters, drop);
    for client_at in [SOURCE, DESTINATION] {
        change_client(&mut program, client_at, redirect);
    }
    program.here(redirect);
    count(&mut program);
    program
        .load(R1, parameters.interface as i32)
        .load(R2, 0)
        .call(REDIRECT)
        .exit()
        .here(drop)
        .load(R0, XDP_DROP)
        .exit();
    program.finish()
}

/// Lets a frame pass when one is due. R0: the time.
fn pace(program: &mut Assembler, interval_ns: u32, drop: Label) {
    let in_time = program.label();
    program
        .load_double_word(R1, R7, DUE_NS)
        .jump_greater(R1, R0, drop)
        // More than a millisecond late: as if this one had been due a millisecond ago.
        .copy(R2, R0)
        .add(R2, -1_000_000)
        .jump_greater(R1, R2, in_time)
        .copy(R1, R2)
        .here(in_time)
        .add(R1, interval_ns as i32)
        .store_double_word(R7, DUE_NS, R1);
}

/// Makes the page the next template's frame.
fn take_template(program: &mut Assembler, parameters: &Parameters<'_>, drop: Label) {
    let is_next = program.label();
    program
        .load_double_word(R1, R7, INDEX)
        .load_double_word(R9, R7, LOOP)
        .store_word(R10, KEY, R1)
        .add(R1, 1)
        .jump_not_equal(R1, parameters.count as i32, is_next)
        .load(R1, 0)
        .copy(R2, R9)
        .add(R2, 1)
        .store_double_word(R7, LOOP, R2)
        .here(is_next)
        .store_double_word(R7, INDEX, R1)
        .look_up(parameters.templates, KEY, drop)
        .copy(R8, R0)
        // The page comes as long as the longest frame.
        .load_word(R2, R8, 0)
        .add(R2, -(parameters.longest as i32))
        .copy(R1, R6)
        .call(XDP_ADJUST_TAIL)
        .jump_not_equal(R0, 0, drop)
        .load_word(R4, R8, 0)
        // The verifier wants to see that the bytes lie in the template.
        .jump_equal(R4, 0, drop)
        .jump_greater_than(R4, FRAME_LEN_MAX as i32, drop)
        .copy(R1, R6)
        .load(R2, 0)
        .copy(R3, R8)
        .add(R3, FRAME_AT as i32)
        .call(XDP_STORE_BYTES)
        .jump_not_equal(R0, 0, drop);
}

/// If the client's address is at `client_at`, gives it the loop's number in addition.
fn change_client(program: &mut Assembler, client_at: i16, redirect: Label) {
    let other = program.label();
    program
        .load_word(R1, R8, 4)
        .jump_not_equal(R1, client_at.into(), other)
        .load_word(R2, R6, DATA)
        .load_word(R3, R6, DATA_END)
        .copy(R4, R2)
        .add(R4, HEADERS_LEN as i32)
        .jump_greater(R4, R3, redirect)
        // R1: the address's first half in its new form; R5: what its checksums grow by (RFC 1624).
        .load_half_word(R5, R2, client_at)
        .copy(R1, R5)
        .add_register(R1, R9)
        .and(R1, 0xffff)
        .store_half_word(R2, client_at, R1)
        .xor(R5, 0xffff)
        .add_register(R5, R1);
    for checksum_at in [IP_CHECKSUM, TCP_CHECKSUM] {
        program
            .load_half_word(R1, R2, checksum_at)
            .xor(R1, 0xffff)
            .add_register(R1, R5);
        for _ in 0..2 {
            program
                .copy(R3, R1)
                .shift_right(R3, 16)
                .and(R1, 0xffff)
                .add_register(R1, R3);
        }
        program.xor(R1, 0xffff).store_half_word(R2, checksum_at, R1);
    }
    program.here(other);
}

/// Counts the frame, with the times of the first and the latest one.
fn count(program: &mut Assembler) {
    let not_first = program.label();
    program
        .load_double_word(R2, R10, NOW)
        .store_double_word(R7, LATEST_NS, R2)
        .load_double_word(R1, R7, FRAMES)
        .jump_not_equal(R1, 0, not_first)
        .store_double_word(R7, FIRST_NS, R2)
        .here(not_first)
        .add(R1, 1)
        .store_double_word(R7, FRAMES, R1)
        .load_double_word(R1, R7, BYTES)
        .load_word(R2, R8, 0)
        .add_register(R1, R2)
        .store_double_word(R7, BYTES, R1);
}

/// Interrupts the thread that made it by SIGALRM, after a time and from then on ten times a second.
struct Alarm(libc::timer_t);

impl Alarm {
    fn set(time: Duration) -> std::io::Result<Self> {
        extern "C" fn nothing(_: libc::c_int) {}
        let as_timespec = |time: Duration| libc::timespec {
            tv_sec: time.as_secs() as i64,
            tv_nsec: i64::from(time.subsec_nanos()),
        };
        let times = libc::itimerspec {
            it_interval: as_timespec(Duration::from_millis(100)),
            it_value: as_timespec(time),
        };
        let check = |result| match result {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        };
        // SAFETY: the handler does nothing, which is safe at any moment; all structures are whole,
        // and zeros are a value of those that are not filled by hand.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = nothing as extern "C" fn(libc::c_int) as usize;
            check(libc::sigaction(
                libc::SIGALRM,
                &raw const action,
                ptr::null_mut(),
            ))?;
            let mut event: libc::sigevent = std::mem::zeroed();
            event.sigev_notify = libc::SIGEV_THREAD_ID;
            event.sigev_signo = libc::SIGALRM;
            event.sigev_notify_thread_id = libc::gettid();
            let mut timer: libc::timer_t = std::mem::zeroed();
            check(libc::timer_create(
                libc::CLOCK_MONOTONIC,
                &raw mut event,
                &raw mut timer,
            ))?;
            let alarm = Self(timer);
            check(libc::timer_settime(
                timer,
                0,
                &raw const times,
                ptr::null_mut(),
            ))?;
            Ok(alarm)
        }
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        // SAFETY: the timer was made by `set` and is deleted once.
        unsafe { libc::timer_delete(self.0) };
    }
}
