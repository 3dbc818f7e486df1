//! The part of the XDP program that forwards frames of decided flows itself.
//!
//! ```text
//!  frame that is ours ─► plain TCP or UDP, whole, to be rewritten?  no ─┐
//!                             │ yes                                     │ outcomes[cpu][why] += 1
//!                        key ─► keys ─► slots                        no ┤
//!                             │ found, ours by its address, fits out    ▼
//!                        rewrite, count, bpf_redirect              goes up
//! ```
//!
//! Checksums are brought up to date by what changed (RFC 1624, eqn. 3), never summed: the driver
//! sees only the front of a long frame. A sum of 16-bit words in the machine's byte order is that
//! of the network's with its bytes swapped (RFC 1071, 2), so that nothing is swapped here.

use std::os::fd::BorrowedFd;

use lineside_wire::ethernet::{self, ether_type};
use lineside_wire::{PROTOCOL_TCP, PROTOCOL_UDP, ipv4, ipv6, tcp, udp};

use crate::live::bpf::assembler::{Assembler, Label, Register};

use super::outcomes::{OUTCOMES_LEN, Outcome};
use super::slot;

use Register::{R0, R1, R2, R3, R5, R6, R7, R8, R9, R10};

/// The maps that the program uses.
pub(in crate::live) struct FlowMaps<'a> {
    /// One number: whether all frames go up.
    pub(super) control: BorrowedFd<'a>,
    /// From a flow's key to the number of its slot.
    pub(super) keys: BorrowedFd<'a>,
    /// What to do with frames of a flow, and its counters.
    pub(super) slots: BorrowedFd<'a>,
    /// For each core the frames of each outcome.
    pub(super) outcomes: BorrowedFd<'a>,
}

// struct xdp_md and enum bpf_func_id of linux/bpf.h.
const DATA: i16 = 0;
const DATA_END: i16 = 4;
const INGRESS_INTERFACE: i16 = 12;
const GET_SMP_PROCESSOR_ID: i32 = 8;
const REDIRECT: i32 = 23;
const KTIME_GET_COARSE_NS: i32 = 160;
const XDP_GET_BUFF_LEN: i32 = 188;

/// On the stack: the key of the frame's flow, the frame's length, a key of an array.
const KEY: i16 = -48;
const LEN: i16 = -56;
const NUMBER: i16 = -64;

const PACKET: i16 = ethernet::HEADER_LEN as i16;

/// The kinds of packets that are forwarded: where their headers have what.
#[derive(Clone, Copy)]
struct Shape {
    is_v4: bool,
    is_tcp: bool,
}

impl Shape {
    fn address_words(self) -> i16 {
        if self.is_v4 { 1 } else { 4 }
    }

    /// Where the source address is; the destination follows.
    fn addresses(self) -> i16 {
        PACKET
            + match self.is_v4 {
                true => ipv4::field::SOURCE as i16,
                false => ipv6::field::SOURCE as i16,
            }
    }

    fn transport(self) -> i16 {
        PACKET
            + match self.is_v4 {
                true => ipv4::HEADER_LEN as i16,
                false => ipv6::HEADER_LEN as i16,
            }
    }

    fn transport_len(self) -> i32 {
        match self.is_tcp {
            true => tcp::HEADER_LEN as i32,
            false => udp::HEADER_LEN as i32,
        }
    }

    fn checksum(self) -> i16 {
        self.transport()
            + match self.is_tcp {
                true => tcp::field::CHECKSUM as i16,
                false => udp::field::CHECKSUM as i16,
            }
    }

    /// Where the time to live or hop limit is.
    fn hops(self) -> i16 {
        PACKET
            + match self.is_v4 {
                true => ipv4::field::TTL as i16,
                false => ipv6::field::HOP_LIMIT as i16,
            }
    }

    fn protocol(self) -> u8 {
        if self.is_tcp {
            PROTOCOL_TCP
        } else {
            PROTOCOL_UDP
        }
    }

    /// The second word of a key.
    fn kind(self) -> u32 {
        super::key::kind(self.is_v4, self.protocol())
    }
}

/// Where frames go that are not forwarded, by why.
struct Ways([Label; Outcome::ALL.len()]);

impl Ways {
    fn of(&self, outcome: Outcome) -> Label {
        self.0[outcome as usize]
    }
}

impl FlowMaps<'_> {
    /// Forwards frames of flows that are in the table; what comes after this in the program gets
    /// all others, as they came. R6 is the context.
    pub(in crate::live) fn forward(&self, program: &mut Assembler) {
        let ways = Ways(Outcome::ALL.map(|_| program.label()));
        let (v6, up) = (program.label(), program.label());
        program
            .load_word(R8, R6, DATA)
            .load_word(R9, R6, DATA_END)
            .copy(R1, R8)
            .add(
                R1,
                (PACKET as usize + ipv4::HEADER_LEN + udp::HEADER_LEN) as i32,
            )
            .jump_greater(R1, R9, ways.of(Outcome::Malformed))
            .load_map_value(R1, self.control)
            .load_word(R1, R1, 0)
            .jump_not_equal(R1, 0, ways.of(Outcome::Paused))
            .copy(R1, R6)
            .call(XDP_GET_BUFF_LEN)
            .store_double_word(R10, LEN, R0)
            .load_half_word(R1, R8, ethernet::field::ETHER_TYPE as i16)
            .jump_equal(R1, network(ether_type::IPV6), v6)
            .jump_not_equal(
                R1,
                network(ether_type::IPV4),
                ways.of(Outcome::OtherProtocol),
            );
        self.v4(program, &ways);
        program.here(v6);
        self.v6(program, &ways);
        for outcome in Outcome::ALL {
            // The verifier takes no instructions that are never reached.
            if outcome == Outcome::Forwarded {
                continue;
            }
            program
                .here(ways.of(outcome))
                .load(R9, outcome.offset().into())
                .jump_always(up);
        }
        program.here(up);
        self.count(program, None);
    }

    fn v4(&self, program: &mut Assembler, ways: &Ways) {
        /// Its offset, and whether more follow (RFC 791, 3.1).
        const FRAGMENT: u16 = 0x3fff;
        let hops = program.label();
        let at = |field: usize| PACKET + field as i16;
        program
            .load_byte(R1, R8, PACKET)
            .jump_not_equal(
                R1,
                ipv4::VERSION_LEN_PLAIN.into(),
                ways.of(Outcome::Options),
            )
            .load_half_word(R1, R8, at(ipv4::field::FRAGMENT))
            .and(R1, network(FRAGMENT))
            .jump_not_equal(R1, 0, ways.of(Outcome::Fragment))
            .load_byte(R1, R8, at(ipv4::field::TTL))
            .jump_greater_than(R1, 1, hops)
            .jump_always(ways.of(Outcome::TimeToLive))
            // R7: the length of the transport header and its payload.
            .here(hops)
            .load_half_word(R7, R8, at(ipv4::field::TOTAL_LEN))
            .swap_from_network(R7, 16)
            .add(R7, -(ipv4::HEADER_LEN as i32))
            .load_byte(R5, R8, at(ipv4::field::PROTOCOL));
        self.of_family(program, ways, true);
    }

    fn v6(&self, program: &mut Assembler, ways: &Ways) {
        let hops = program.label();
        let at = |field: usize| PACKET + field as i16;
        program
            .copy(R1, R8)
            .add(R1, (at(ipv6::HEADER_LEN) as usize + udp::HEADER_LEN) as i32)
            .jump_greater(R1, R9, ways.of(Outcome::Malformed))
            .load_byte(R1, R8, at(ipv6::field::HOP_LIMIT))
            .jump_greater_than(R1, 1, hops)
            .jump_always(ways.of(Outcome::TimeToLive))
            .here(hops)
            .load_half_word(R7, R8, at(ipv6::field::PAYLOAD_LEN))
            .swap_from_network(R7, 16)
            .load_byte(R5, R8, at(ipv6::field::NEXT_HEADER));
        self.of_family(program, ways, false);
    }

    /// R5 is the protocol, R7 the length of what has it.
    fn of_family(&self, program: &mut Assembler, ways: &Ways, is_v4: bool) {
        let of_tcp = program.label();
        let [tcp, udp] = [true, false].map(|is_tcp| Shape { is_v4, is_tcp });
        program
            .jump_equal(R5, PROTOCOL_TCP.into(), of_tcp)
            .jump_not_equal(R5, PROTOCOL_UDP.into(), ways.of(Outcome::OtherProtocol));
        self.of_shape(program, ways, udp);
        program.here(of_tcp);
        self.of_shape(program, ways, tcp);
    }

    fn of_shape(&self, program: &mut Assembler, ways: &Ways, shape: Shape) {
        is_whole(program, ways, shape);
        key(program, shape);
        is_complete(program, ways, shape);
        self.find(program, ways);
        rewrite(program, shape);
        update_checksums(program, shape);
        self.send(program);
    }

    /// R7: the slot of the flow; R9: the frame's length.
    fn find(&self, program: &mut Assembler, ways: &Ways) {
        let address = slot::HERE;
        program
            .look_up(self.keys, KEY, ways.of(Outcome::NoFlow))
            .load_word(R1, R0, 0)
            .store_word(R10, NUMBER, R1)
            .look_up(self.slots, NUMBER, ways.of(Outcome::NoFlow))
            .copy(R7, R0)
            .load_word(R1, R8, 0)
            .load_word(R2, R7, address)
            .jump_different(R1, R2, ways.of(Outcome::OtherAddress))
            .load_half_word(R1, R8, 4)
            .load_half_word(R2, R7, address + 4)
            .jump_different(R1, R2, ways.of(Outcome::OtherAddress))
            .load_double_word(R9, R10, LEN)
            .load_half_word(R1, R7, slot::LEN_MAX)
            .jump_greater(R9, R1, ways.of(Outcome::TooLong));
    }

    /// Counts, and ends the program with the way out.
    fn send(&self, program: &mut Assembler) {
        program
            .load(R1, 1)
            .copy(R2, R7)
            .add(R2, slot::FRAMES.into())
            .atomic_add(R2, R1)
            .add(R2, (slot::BYTES - slot::FRAMES).into())
            .atomic_add(R2, R9)
            .call(KTIME_GET_COARSE_NS)
            .store_double_word(R7, slot::LATEST_NS, R0);
        self.count(program, Some(Outcome::Forwarded));
        program
            .load_word(R1, R7, slot::OUT)
            .load(R2, 0)
            .call(REDIRECT)
            .exit();
    }

    /// Counts an outcome, or the one whose offset R9 is. A core runs one program at a time.
    fn count(&self, program: &mut Assembler, outcome: Option<Outcome>) {
        let counted = program.label();
        program
            .call(GET_SMP_PROCESSOR_ID)
            .store_word(R10, NUMBER, R0)
            .look_up(self.outcomes, NUMBER, counted);
        match outcome {
            Some(outcome) => program.add(R0, outcome.offset().into()),
            // The verifier wants to see that it lies within.
            None => program
                .and(R9, OUTCOMES_LEN as i32 - 8)
                .add_register(R0, R9),
        };
        program
            .load_double_word(R1, R0, 0)
            .add(R1, 1)
            .store_double_word(R0, 0, R1)
            .here(counted);
    }
}

/// All headers lie at the front of the frame, and the packet within it.
fn is_whole(program: &mut Assembler, ways: &Ways, shape: Shape) {
    const FIN_SYN_RST: i32 = 0x07;
    let len = program.label();
    let malformed = ways.of(Outcome::Malformed);
    let transport = shape.transport();
    program
        .copy(R1, R8)
        .add(R1, i32::from(transport) + shape.transport_len())
        .jump_greater(R1, R9, malformed)
        // Less than nothing, behind an IPv4 header: unsigned, that is much.
        .jump_greater_than(R7, u16::MAX.into(), malformed)
        .jump_greater_than(R7, shape.transport_len() - 1, len)
        .jump_always(malformed)
        .here(len)
        .copy(R1, R7)
        .add(R1, transport.into())
        .load_double_word(R2, R10, LEN)
        .jump_greater(R1, R2, malformed);
    if shape.is_tcp {
        program
            .load_byte(R1, R8, transport + tcp::field::FLAGS as i16)
            .and(R1, FIN_SYN_RST)
            .jump_not_equal(R1, 0, ways.of(Outcome::Flag));
    }
}

/// Puts the key on the stack; R1 becomes the sum of the pseudo-header.
fn key(program: &mut Assembler, shape: Shape) {
    let address_len = 4 * shape.address_words();
    program
        .load_word(R2, R6, INGRESS_INTERFACE)
        .store_word(R10, KEY + super::key::INTERFACE, R2)
        .load(R2, shape.kind() as i32)
        .store_word(R10, KEY + super::key::KIND, R2)
        .copy(R1, R7)
        .swap_from_network(R1, 16)
        .add(R1, network(shape.protocol().into()))
        .load(R3, 0);
    let addresses = [super::key::SOURCE, super::key::DESTINATION];
    for (from, to) in (shape.addresses()..)
        .step_by(address_len as usize)
        .zip(addresses)
    {
        for word in 0..4 {
            let to = KEY + to + 4 * word;
            if word >= shape.address_words() {
                program.store_word(R10, to, R3);
                continue;
            }
            program
                .load_word(R2, R8, from + 4 * word)
                .store_word(R10, to, R2)
                .add_register(R1, R2);
        }
    }
    program
        .load_word(R2, R8, shape.transport())
        .store_word(R10, KEY + super::key::PORTS, R2);
}

/// A sender that leaves the checksum to its adapter writes the sum of the pseudo-header there. R1
/// is that.
fn is_complete(program: &mut Assembler, ways: &Ways, shape: Shape) {
    let complete = program.label();
    fold(program, 3);
    program.load_half_word(R2, R8, shape.checksum());
    if !shape.is_tcp {
        // None at all, which only IPv4 allows.
        let without = match shape.is_v4 {
            true => complete,
            false => ways.of(Outcome::Malformed),
        };
        program.jump_equal(R2, 0, without);
    }
    program
        .jump_same(R1, R2, ways.of(Outcome::Partial))
        .here(complete);
}

/// Makes one's complement sum of 16 bits of the number in R1, by this many carries; R3 is lost.
fn fold(program: &mut Assembler, carries: usize) {
    for _ in 0..carries {
        program
            .copy(R3, R1)
            .shift_right(R3, 16)
            .and(R1, 0xffff)
            .add_register(R1, R3);
    }
}

/// Addresses, ports and hops. R7 is the slot.
fn rewrite(program: &mut Assembler, shape: Shape) {
    let (address_len, hops) = (4 * shape.address_words(), shape.hops());
    program
        .load_double_word(R1, R7, slot::ETHERNET)
        .store_double_word(R8, 0, R1)
        .load_word(R1, R7, slot::ETHERNET + 8)
        .store_word(R8, 8, R1);
    let news = [slot::NEW_SOURCE, slot::NEW_DESTINATION];
    for (to, from) in (shape.addresses()..)
        .step_by(address_len as usize)
        .zip(news)
    {
        if shape.is_v4 {
            program.load_word(R1, R7, from).store_word(R8, to, R1);
            continue;
        }
        for half in [0, 8] {
            program
                .load_double_word(R1, R7, from + half)
                .store_double_word(R8, to + half, R1);
        }
    }
    program
        .load_word(R1, R7, slot::NEW_PORTS)
        .store_word(R8, shape.transport(), R1)
        .load_byte(R1, R8, hops)
        .add(R1, -1)
        .store_byte(R8, hops, R1);
}

/// Brings the checksums up to date. R7 is the slot.
fn update_checksums(program: &mut Assembler, shape: Shape) {
    let (checksum, none) = (shape.checksum(), program.label());
    if shape.is_v4 {
        let of_header = PACKET + ipv4::field::CHECKSUM as i16;
        update(program, of_header, slot::HEADER_DIFFERENCE);
        program.store_half_word(R8, of_header, R1);
    }
    let is_optional = !shape.is_tcp && shape.is_v4;
    if is_optional {
        program
            .load_half_word(R1, R8, checksum)
            .jump_equal(R1, 0, none);
    }
    update(program, checksum, slot::DIFFERENCE);
    if !shape.is_tcp {
        // Zero stands for none (RFC 768).
        let some = program.label();
        program
            .jump_not_equal(R1, 0, some)
            .load(R1, 0xffff)
            .here(some);
    }
    program.store_half_word(R8, checksum, R1).here(none);
}

/// R1: the checksum at `at` of the frame with the difference at `difference` of the slot added.
fn update(program: &mut Assembler, at: i16, difference: i16) {
    program
        .load_half_word(R1, R8, at)
        .xor(R1, 0xffff)
        .load_half_word(R2, R7, difference)
        .add_register(R1, R2);
    fold(program, 2);
    program.xor(R1, 0xffff);
}

/// A number as it lies in a frame, loaded as the machine loads it.
fn network(number: u16) -> i32 {
    u16::from_ne_bytes(number.to_be_bytes()).into()
}
