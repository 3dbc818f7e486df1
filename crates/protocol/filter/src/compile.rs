//! From [`Node`]s to a program: first tests with the offsets of a link type, then instructions with
//! jumps.

use std::ops::Range;

use crate::assemble::{Assembler, Test};
use crate::error::FilterError;
use crate::program::{
    Instruction, MEMORY_WORDS, PROGRAM_LEN_MAX, Program, VLAN_TAG, VLAN_TAG_PRESENT, code,
    instruction,
};
use crate::syntax::{Arithmetic, Direction, Node, Operator, Primitive, Protocol, Relation};

/// Where the outer VLAN tag of a frame is that has one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tags {
    /// Among its bytes.
    InPlace,
    /// The kernel takes it out of most frames before a filter sees them, and knows it beside them.
    Apart,
}

/// The word of scratch memory in which a program counts the bytes of the outer tag, if those are
/// among the frame's: what lies behind is so far from where it is without.
const MOVED: u32 = MEMORY_WORDS as u32 - 1;

pub(crate) fn compile(
    expression: &str,
    root: Option<&Node>,
    link_type: u16,
    tags: Tags,
) -> Result<Program, FilterError> {
    let refused = |place, what: String| FilterError::new(expression, place, what);
    let everywhere = 0..expression.len();
    let Some(layout) = Layout::of(link_type) else {
        let what = format!("frames of link type {link_type} cannot be filtered");
        return Err(refused(everywhere, what));
    };
    let mut compiler = Compiler {
        link_type,
        layout,
        tags,
        expression,
    };
    let test = match root {
        Some(node) => compiler.node(node)?,
        None => Test::Always(true),
    };
    let too_long = || {
        refused(
            everywhere.clone(),
            format!("the filter needs more than {PROGRAM_LEN_MAX} instructions: make it shorter"),
        )
    };
    let nothing_moved = [instruction(code::LD_IMM, 0), instruction(code::ST, MOVED)];
    let first = match compiler.layout.moves {
        true => &nothing_moved[..],
        false => &[],
    };
    let instructions = Assembler::assemble(first, &test).ok_or_else(too_long)?;
    Ok(Program::new(instructions).expect("what the assembler writes passes the check"))
}

/// Where a link type has what filters look at.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Layout {
    /// How the frame says what its network header is.
    kind: KindOf,
    /// Where that header begins: moves behind each tag.
    network: u32,
    /// Both are this many bytes further as the word [`MOVED`] says.
    moves: bool,
}

#[derive(Debug, Clone, Copy)]
enum KindOf {
    /// An EtherType at this offset: moves behind each tag.
    EtherType(u32),
    /// An address family in the first four bytes, in either byte order.
    Family,
    /// The first four bits.
    Version,
    /// All are of this protocol.
    Fixed(Protocol),
}

impl Layout {
    pub(crate) fn of(link_type: u16) -> Option<Self> {
        let (kind, network) = match link_type {
            1 => (KindOf::EtherType(12), 14),
            113 => (KindOf::EtherType(14), 16),
            276 => (KindOf::EtherType(0), 20),
            0 | 108 => (KindOf::Family, 4),
            12 | 14 | 101 => (KindOf::Version, 0),
            228 => (KindOf::Fixed(Protocol::Ip), 0),
            229 => (KindOf::Fixed(Protocol::Ip6), 0),
            _ => return None,
        };
        Some(Self {
            kind,
            network,
            moves: false,
        })
    }
}

/// Bytes of a VLAN tag.
const TAG_LEN: u32 = 4;

const BYTE: u8 = 1;
const HALF: u8 = 2;
const WORD: u8 = 4;

fn absolute(size: u8, offset: u32) -> Instruction {
    let size = match size {
        BYTE => code::B,
        HALF => code::H,
        _ => 0,
    };
    instruction(code::LD | code::ABS | size, offset)
}

fn indexed(size: u8, offset: u32) -> Instruction {
    let code = absolute(size, 0).code;
    instruction(code & !code::ABS | code::IND, offset)
}

fn equals(offset: u32, size: u8, value: u32) -> Test {
    compare(vec![absolute(size, offset)], code::JEQ, value)
}

fn masked(mut load: Vec<Instruction>, value: u32, mask: u32) -> Test {
    if mask != u32::MAX {
        load.push(instruction(code::ALU | code::AND, mask));
    }
    compare(load, code::JEQ, value)
}

fn compare(code: Vec<Instruction>, jump: u16, k: u32) -> Test {
    Test::Compare { code, jump, k }
}

/// `at` says where the sender's stands, and where the receiver's.
fn directed(direction: Direction, at: (u32, u32), test: impl Fn(u32) -> Test) -> Test {
    match direction {
        Direction::Source => test(at.0),
        Direction::Destination => test(at.1),
        Direction::Either => Test::Any(vec![test(at.0), test(at.1)]),
        Direction::Both => Test::All(vec![test(at.0), test(at.1)]),
    }
}

/// Counts the bytes of a tag as moving what is behind them; always true.
fn moved() -> Test {
    let code = vec![
        instruction(code::LD_IMM, TAG_LEN),
        instruction(code::ST, MOVED),
    ];
    compare(code, code::JEQ, TAG_LEN)
}

struct Compiler<'a> {
    link_type: u16,
    layout: Layout,
    tags: Tags,
    expression: &'a str,
}

impl Compiler<'_> {
    fn refused(&self, place: &Range<usize>, what: String) -> FilterError {
        FilterError::new(self.expression, place.clone(), what)
    }

    /// A load of what lies behind the addresses of the link header.
    fn behind(&self, size: u8, offset: u32) -> Vec<Instruction> {
        match self.layout.moves {
            true => vec![instruction(code::LDX_MEM, MOVED), indexed(size, offset)],
            false => vec![absolute(size, offset)],
        }
    }

    fn equals(&self, offset: u32, size: u8, value: u32) -> Test {
        compare(self.behind(size, offset), code::JEQ, value)
    }

    /// X = the length of the IPv4 header, and how far it is moved.
    fn header_len(&self) -> Vec<Instruction> {
        let network = self.layout.network;
        if !self.layout.moves {
            return vec![instruction(code::LDX_MSH, network)];
        }
        let mut code = self.behind(BYTE, network);
        code.extend([
            instruction(code::ALU | code::AND, 0x0f),
            instruction(code::ALU | code::LSH, 2),
            instruction(code::ALU | code::ADD | code::X, 0),
            instruction(code::TAX, 0),
        ]);
        code
    }

    /// In the order of the text, since `vlan` moves what stands behind it there.
    fn node(&mut self, node: &Node) -> Result<Test, FilterError> {
        let mut all = |nodes: &[Node]| -> Result<Vec<Test>, FilterError> {
            nodes.iter().map(|node| self.node(node)).collect()
        };
        Ok(match node {
            Node::Not(inner) => self.node(inner)?.not(),
            Node::All(nodes) => Test::All(all(nodes)?),
            Node::Any(nodes) => Test::Any(all(nodes)?),
            Node::Primitive(primitive, place) => self.primitive(primitive, place)?,
        })
    }

    fn primitive(
        &mut self,
        primitive: &Primitive,
        place: &Range<usize>,
    ) -> Result<Test, FilterError> {
        let network = self.layout.network;
        Ok(match *primitive {
            Primitive::Protocol(protocol) => self.protocol(protocol),
            Primitive::Address4 {
                header,
                direction,
                address,
                mask,
            } => self.address4(header, direction, address, mask),
            Primitive::Address6 {
                direction,
                address,
                mask,
            } => self.address6(direction, address, mask),
            Primitive::EtherAddress { direction, address } => {
                self.needs_ethernet(place)?;
                let [first, second, rest @ ..] = address;
                directed(direction, (6, 0), |offset| {
                    Test::All(vec![
                        equals(offset + 2, WORD, u32::from_be_bytes(rest)),
                        equals(offset, HALF, u16::from_be_bytes([first, second]).into()),
                    ])
                })
            }
            Primitive::EtherMulticast => {
                self.needs_ethernet(place)?;
                compare(vec![absolute(BYTE, 0)], code::JSET, 1)
            }
            Primitive::IpMulticast => Test::All(vec![
                self.protocol(Protocol::Ip),
                compare(self.behind(BYTE, network + 16), code::JGE, 224),
            ]),
            Primitive::Ip6Multicast => Test::All(vec![
                self.protocol(Protocol::Ip6),
                self.equals(network + 24, BYTE, 255),
            ]),
            Primitive::Ports {
                transport,
                direction,
                low,
                high,
            } => self.ports(transport, direction, low.into(), high.into()),
            Primitive::IpProtocol { header, number } => match header {
                Some(Protocol::Ip) => self.behind_ip(number),
                Some(_) => self.behind_ip6(number),
                None => Test::Any(vec![self.behind_ip(number), self.behind_ip6(number)]),
            },
            Primitive::EtherType(ether_type) => self.ether_type(ether_type),
            Primitive::Vlan(id) => self.vlan(id, place)?,
            Primitive::Relation {
                ref left,
                relation,
                ref right,
            } => self.relation(left, relation, right, place)?,
        })
    }

    fn address4(
        &self,
        header: Option<Protocol>,
        direction: Direction,
        address: u32,
        mask: u32,
    ) -> Test {
        let network = self.layout.network;
        let of = |protocol, at| {
            let test = |offset| masked(self.behind(WORD, network + offset), address, mask);
            Test::All(vec![self.protocol(protocol), directed(direction, at, test)])
        };
        // RFC 826: the protocol addresses stand behind hardware addresses of 6 bytes.
        let (ip, arp) = ((12, 16), (14, 24));
        match header {
            Some(Protocol::Ip) => of(Protocol::Ip, ip),
            Some(other) => of(other, arp),
            None => Test::Any(vec![
                of(Protocol::Ip, ip),
                of(Protocol::Arp, arp),
                of(Protocol::Rarp, arp),
            ]),
        }
    }

    fn address6(&self, direction: Direction, address: u128, mask: u128) -> Test {
        let word = |of: u128, index: u32| (of >> (96 - 32 * index)) as u32;
        let test = |offset| {
            let words = (0..4).map(|index| {
                let load = self.behind(WORD, self.layout.network + offset + 4 * index);
                masked(load, word(address, index), word(mask, index))
            });
            Test::All(words.collect())
        };
        Test::All(vec![
            self.protocol(Protocol::Ip6),
            directed(direction, (8, 24), test),
        ])
    }

    fn needs_ethernet(&self, place: &Range<usize>) -> Result<(), FilterError> {
        if self.link_type == 1 {
            return Ok(());
        }
        let what = format!(
            "frames of link type {} have no Ethernet header",
            self.link_type
        );
        Err(self.refused(place, what))
    }

    fn protocol(&self, protocol: Protocol) -> Test {
        if let Some(ether_type) = protocol.ether_type() {
            return self.ether_type(ether_type);
        }
        let number = protocol.number().unwrap_or_default();
        match protocol.behind() {
            (true, true) => Test::Any(vec![self.behind_ip(number), self.behind_ip6(number)]),
            (true, false) => self.behind_ip(number),
            (false, true) => self.behind_ip6(number),
            (false, false) => Test::Always(true),
        }
    }

    fn ether_type(&self, ether_type: u16) -> Test {
        let is_ip = ether_type == 0x0800;
        let is_ip6 = ether_type == 0x86dd;
        match self.layout.kind {
            KindOf::EtherType(offset) => self.equals(offset, HALF, ether_type.into()),
            KindOf::Version if is_ip => masked(vec![absolute(BYTE, 0)], 0x40, 0xf0),
            KindOf::Version if is_ip6 => masked(vec![absolute(BYTE, 0)], 0x60, 0xf0),
            KindOf::Fixed(protocol) => Test::Always(protocol.ether_type() == Some(ether_type)),
            KindOf::Family if is_ip || is_ip6 => {
                // The numbers of Linux; NetBSD and OpenBSD; FreeBSD; macOS.
                let families: &[u32] = if is_ip { &[2] } else { &[10, 24, 28, 30] };
                let both_orders = families.iter().flat_map(|&each| [each, each.swap_bytes()]);
                Test::Any(both_orders.map(|each| equals(0, WORD, each)).collect())
            }
            KindOf::Version | KindOf::Family => Test::Always(false),
        }
    }

    fn behind_ip(&self, number: u8) -> Test {
        Test::All(vec![
            self.protocol(Protocol::Ip),
            self.equals(self.layout.network + 9, BYTE, number.into()),
        ])
    }

    /// Right behind the IPv6 header, or behind a fragment header that is right behind it.
    fn behind_ip6(&self, number: u8) -> Test {
        let network = self.layout.network;
        Test::All(vec![
            self.protocol(Protocol::Ip6),
            Test::Any(vec![
                self.equals(network + 6, BYTE, number.into()),
                Test::All(vec![
                    self.equals(network + 6, BYTE, 44),
                    self.equals(network + 40, BYTE, number.into()),
                ]),
            ]),
        ])
    }

    /// An IPv4 packet that is no later fragment.
    fn first_fragment(&self) -> Test {
        let code = self.behind(HALF, self.layout.network + 6);
        compare(code, code::JSET, 0x1fff).not()
    }

    fn ports(
        &self,
        transport: Option<Protocol>,
        direction: Direction,
        low: u32,
        high: u32,
    ) -> Test {
        let network = self.layout.network;
        let within = |load: &[Instruction]| {
            if low == high {
                return compare(load.to_vec(), code::JEQ, low);
            }
            Test::All(vec![
                compare(load.to_vec(), code::JGE, low),
                compare(load.to_vec(), code::JGT, high).not(),
            ])
        };
        let transports: &[Protocol] = match &transport {
            Some(one) => std::slice::from_ref(one),
            None => &[Protocol::Tcp, Protocol::Udp, Protocol::Sctp],
        };
        let one_of = |offset| {
            let numbers = transports.iter().filter_map(|each| each.number());
            Test::Any(
                numbers
                    .map(|number| self.equals(offset, BYTE, number.into()))
                    .collect(),
            )
        };
        let ip6 = Test::All(vec![
            self.protocol(Protocol::Ip6),
            one_of(network + 6),
            directed(direction, (40, 42), |offset| {
                within(&self.behind(HALF, network + offset))
            }),
        ]);
        let ip = Test::All(vec![
            self.protocol(Protocol::Ip),
            one_of(network + 9),
            self.first_fragment(),
            directed(direction, (0, 2), |offset| {
                let mut load = self.header_len();
                load.push(indexed(HALF, network + offset));
                within(&load)
            }),
        ]);
        Test::Any(vec![ip6, ip])
    }

    fn vlan(&mut self, id: Option<u16>, place: &Range<usize>) -> Result<Test, FilterError> {
        if !matches!(self.layout.kind, KindOf::EtherType(_)) {
            let what = format!("frames of link type {} have no VLAN tags", self.link_type);
            return Err(self.refused(place, what));
        }
        let network = self.layout.network;
        let of_kind = || [0x8100, 0x88a8, 0x9100].map(|kind| self.ether_type(kind));
        let has_id = |load, id: u16| masked(load, id.into(), 0x0fff);
        if self.tags == Tags::Apart && self.link_type == 1 && !self.layout.moves {
            // As libpcap's program: a tag among the bytes moves what is behind it, whether it is
            // one or not, as soon as it is looked for there.
            let is_apart = || {
                let load = instruction(code::LD_ABS_W, VLAN_TAG_PRESENT);
                compare(vec![load], code::JEQ, 1)
            };
            let mut tests = vec![Test::Any(vec![
                is_apart(),
                Test::All(vec![moved(), Test::Any(of_kind().into())]),
            ])];
            tests.extend(id.map(|id| {
                let apart = has_id(vec![instruction(code::LD_ABS_W, VLAN_TAG)], id);
                let in_place = has_id(vec![absolute(HALF, network)], id);
                Test::Any(vec![
                    Test::All(vec![is_apart(), apart]),
                    Test::All(vec![is_apart().not(), in_place]),
                ])
            }));
            self.layout.moves = true;
            return Ok(Test::All(tests));
        }
        let mut tests = vec![Test::Any(of_kind().into())];
        tests.extend(id.map(|id| has_id(self.behind(HALF, network), id)));
        // Behind the tag's identifier stands the next type, and then the next header.
        self.layout.kind = KindOf::EtherType(network + 2);
        self.layout.network = network + 4;
        Ok(Test::All(tests))
    }

    /// What must hold for the loads comes first, then the loads.
    fn relation(
        &self,
        left: &Arithmetic,
        relation: Relation,
        right: &Arithmetic,
        place: &Range<usize>,
    ) -> Result<Test, FilterError> {
        let mut tests = Vec::new();
        self.conditions(left, &mut tests);
        self.conditions(right, &mut tests);
        let mut code = Vec::new();
        let operand = match *right {
            Arithmetic::Number(number) => self.compute(left, 0, &mut code).map(|()| Some(number)),
            _ => self.pair(left, right, 0, &mut code).map(|()| None),
        };
        let Some(operand) = operand else {
            let words = self.words();
            let what = format!("too many parts: the machine remembers {words} numbers");
            return Err(self.refused(place, what));
        };
        let (jump, is_negated) = match relation {
            Relation::Equal => (code::JEQ, false),
            Relation::NotEqual => (code::JEQ, true),
            Relation::Greater => (code::JGT, false),
            Relation::LessOrEqual => (code::JGT, true),
            Relation::GreaterOrEqual => (code::JGE, false),
            Relation::Less => (code::JGE, true),
        };
        let with = if operand.is_none() { code::X } else { 0 };
        let comparison = compare(code, jump | with, operand.unwrap_or(0));
        tests.push(if is_negated {
            comparison.not()
        } else {
            comparison
        });
        Ok(Test::All(tests))
    }

    /// Which headers must be there for the loads to mean something.
    fn conditions(&self, arithmetic: &Arithmetic, tests: &mut Vec<Test>) {
        match arithmetic {
            Arithmetic::Number(_) | Arithmetic::Length => {}
            Arithmetic::Negate(inner) => self.conditions(inner, tests),
            // The conditions of the right operand are forgotten: libpcap's `gen_arth` does so, and
            // what a filter means is what it means to tcpdump.
            Arithmetic::Binary(_, left, _) => self.conditions(left, tests),
            Arithmetic::Load {
                protocol, index, ..
            } => match protocol {
                // As in libpcap, from the first byte of the link header, whichever that is.
                Protocol::Ether => self.conditions(index, tests),
                Protocol::Ip | Protocol::Ip6 | Protocol::Arp | Protocol::Rarp => {
                    self.conditions(index, tests);
                    tests.push(self.protocol(*protocol));
                }
                Protocol::Icmp6 => {
                    tests.push(self.protocol(Protocol::Ip6));
                    self.conditions(index, tests);
                    tests.push(self.equals(self.layout.network + 6, BYTE, 58));
                }
                _ => {
                    tests.push(self.protocol(Protocol::Ip));
                    self.conditions(index, tests);
                    tests.push(self.protocol(*protocol));
                    tests.push(self.first_fragment());
                }
            },
        }
    }

    /// Computes into A, with words of scratch memory from `free` on; `None` if they do not suffice.
    fn compute(
        &self,
        arithmetic: &Arithmetic,
        free: usize,
        code: &mut Vec<Instruction>,
    ) -> Option<()> {
        match arithmetic {
            Arithmetic::Number(number) => code.push(instruction(code::LD_IMM, *number)),
            Arithmetic::Length => code.push(instruction(code::LD_LEN, 0)),
            Arithmetic::Negate(inner) => {
                self.compute(inner, free, code)?;
                code.push(instruction(code::NEG, 0));
            }
            Arithmetic::Binary(operator, left, right) => {
                let operation = code::ALU
                    | match operator {
                        Operator::Add => code::ADD,
                        Operator::Subtract => code::SUB,
                        Operator::Multiply => code::MUL,
                        Operator::Divide => code::DIV,
                        Operator::Modulo => code::MOD,
                        Operator::And => code::AND,
                        Operator::Or => code::OR,
                        Operator::Xor => code::XOR,
                        Operator::ShiftLeft => code::LSH,
                        Operator::ShiftRight => code::RSH,
                    };
                if let Arithmetic::Number(number) = **right {
                    self.compute(left, free, code)?;
                    code.push(instruction(operation, number));
                } else {
                    self.pair(left, right, free, code)?;
                    code.push(instruction(operation | code::X, 0));
                }
            }
            Arithmetic::Load {
                protocol,
                index,
                size,
            } => self.load(*protocol, index, *size, free, code)?,
        }
        Some(())
    }

    /// Words of scratch memory that numbers may have.
    fn words(&self) -> usize {
        MEMORY_WORDS - usize::from(self.tags == Tags::Apart)
    }

    fn word(&self, number: usize) -> Option<u32> {
        u32::try_from(number).ok().filter(|_| number < self.words())
    }

    /// Computes `left` into A and `right` into X.
    fn pair(
        &self,
        left: &Arithmetic,
        right: &Arithmetic,
        free: usize,
        code: &mut Vec<Instruction>,
    ) -> Option<()> {
        let word = self.word(free)?;
        self.compute(right, free, code)?;
        code.push(instruction(code::ST, word));
        self.compute(left, free + 1, code)?;
        code.push(instruction(code::LDX_MEM, word));
        Some(())
    }

    fn load(
        &self,
        protocol: Protocol,
        index: &Arithmetic,
        size: u8,
        free: usize,
        code: &mut Vec<Instruction>,
    ) -> Option<()> {
        let network = self.layout.network;
        let (base, is_behind_ip) = match protocol {
            Protocol::Ether => (0, false),
            Protocol::Ip | Protocol::Ip6 | Protocol::Arp | Protocol::Rarp => (network, false),
            Protocol::Icmp6 => (network + 40, false),
            _ => (network, true),
        };
        let moves = self.layout.moves && protocol != Protocol::Ether;
        match *index {
            Arithmetic::Number(number) if is_behind_ip => {
                code.extend(self.header_len());
                code.push(indexed(size, base + number));
            }
            Arithmetic::Number(number) if moves => code.extend(self.behind(size, base + number)),
            Arithmetic::Number(number) => code.push(absolute(size, base + number)),
            _ => {
                self.compute(index, free, code)?;
                let add = instruction(code::ALU | code::ADD | code::X, 0);
                if is_behind_ip {
                    let word = self.word(free)?;
                    code.push(instruction(code::ST, word));
                    code.extend(self.header_len());
                    code.extend([instruction(code::LD_MEM, word), add]);
                } else if moves {
                    code.extend([instruction(code::LDX_MEM, MOVED), add]);
                }
                code.extend([instruction(code::TAX, 0), indexed(size, base)]);
            }
        }
        Some(())
    }
}
