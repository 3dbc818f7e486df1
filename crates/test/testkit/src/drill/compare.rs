//! What a script expects beside what left.

use lineside_wire::TcpFlags;

use super::packet::{Left, content};
use super::parser::flags_text;
use super::script::{Segment, TcpOption};

/// From the wire's numbers to those of a script.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Bases {
    /// Of the stack's sequence numbers.
    pub(super) local: u32,
    /// Of the peer's.
    pub(super) remote: u32,
    /// A timestamp of the stack: as the script has it, and on the wire.
    pub(super) stamp: Option<(u32, u32)>,
    /// A timestamp may be off by this many ticks; `None`: it is not compared.
    pub(super) ticks_off_max: Option<u32>,
}

/// A segment in the numbers of the script, as it writes them.
pub(super) fn text(left: &Left, bases: &Bases) -> String {
    let start = left.sequence.wrapping_sub(bases.local);
    let len = left.payload.len() as u32;
    let flags = flags_text(left.flags);
    let mut text = format!("{flags} {start}:{}({len})", start.wrapping_add(len));
    if left.flags.contains(TcpFlags::ACK) {
        text += &format!(" ack {}", left.ack.wrapping_sub(bases.remote));
    }
    text += &format!(" win {}", left.window);
    if left.ecn != 0 {
        text = format!("[codepoint {}] {text}", left.ecn);
    }
    let options = options(left, bases);
    let options: Vec<_> = options.iter().map(option_text).collect();
    if !options.is_empty() {
        text += &format!(" <{}>", options.join(","));
    }
    text
}

fn option_text(option: &TcpOption) -> String {
    match option {
        TcpOption::Mss(mss) => format!("mss {mss}"),
        TcpOption::NoOperation => "nop".into(),
        TcpOption::EndOfList => "eol".into(),
        TcpOption::WindowScale(scale) => format!("wscale {scale}"),
        TcpOption::SackPermitted => "sackOK".into(),
        TcpOption::Sack(blocks) => {
            let blocks = blocks.iter().map(|(start, end)| format!(" {start}:{end}"));
            format!("sack{}", blocks.collect::<String>())
        }
        TcpOption::Timestamps { value, echo } => format!("TS val {value} ecr {echo}"),
        TcpOption::Raw(bytes) => format!("raw {bytes:02x?}"),
    }
}

/// The options in the script's numbers.
fn options(left: &Left, bases: &Bases) -> Vec<TcpOption> {
    let mut options = left.options.clone();
    for option in &mut options {
        match option {
            TcpOption::Sack(blocks) => {
                for (start, end) in blocks {
                    *start = start.wrapping_sub(bases.remote);
                    *end = end.wrapping_sub(bases.remote);
                }
            }
            TcpOption::Timestamps { value, .. } => {
                let (script, live) = bases.stamp.unwrap_or_default();
                *value = value.wrapping_sub(live).wrapping_add(script);
            }
            _ => {}
        }
    }
    options
}

/// What differs between a segment that is expected and one that left; `None`: nothing.
/// `is_foreign`: PSH is not compared.
pub(super) fn difference(
    expected: &Segment,
    left: &Left,
    bases: &Bases,
    is_foreign: bool,
) -> Option<String> {
    let start = left.sequence.wrapping_sub(bases.local);
    let len = left.payload.len() as u32;
    let has_ack = left.flags.contains(TcpFlags::ACK);
    let ack = has_ack.then(|| left.ack.wrapping_sub(bases.remote));
    let fields = [
        ("the sequence number", expected.start, Some(start)),
        ("the payload's length", Some(expected.len), Some(len)),
        (
            "the window",
            expected.window.map(u32::from),
            Some(left.window.into()),
        ),
        (
            "the urgent pointer",
            expected.urgent.map(u32::from),
            Some(left.urgent.into()),
        ),
        (
            "the codepoint",
            expected.ecn.map(u32::from),
            Some(left.ecn.into()),
        ),
    ];
    let ignored = if is_foreign { TcpFlags::PSH.0 } else { 0 };
    if (expected.flags.0 ^ left.flags.0) & !ignored != 0 {
        return Some("the flags differ".into());
    }
    if expected.ack != ack {
        return Some("the acknowledgement differs".into());
    }
    for (name, wanted, found) in fields {
        if wanted.is_some() && wanted != found {
            return Some(format!("{name} differs"));
        }
    }
    if let Some(wanted) = &expected.options
        && !are_met(wanted, options(left, bases), bases)
    {
        return Some("the options differ".into());
    }
    let first = start.wrapping_add(u32::from(left.flags.contains(TcpFlags::SYN)));
    let mut numbered = left.payload.iter().zip(0..);
    let wrong = numbered.find(|&(&byte, at)| byte != content(first.wrapping_add(at)));
    wrong.map(|(_, at)| format!("byte {at} of the payload is not that of the stream"))
}

/// Whether options are those that are wanted, whatever their order.
fn are_met(wanted: &[TcpOption], mut found: Vec<TcpOption>, bases: &Bases) -> bool {
    let is_padding =
        |option: &TcpOption| matches!(option, TcpOption::NoOperation | TcpOption::EndOfList);
    for option in wanted.iter().filter(|option| !is_padding(option)) {
        let Some(at) = found.iter().position(|each| is_met(option, each, bases)) else {
            return false;
        };
        found.remove(at);
    }
    found.is_empty()
}

fn is_met(wanted: &TcpOption, found: &TcpOption, bases: &Bases) -> bool {
    let (
        TcpOption::Timestamps { value, echo },
        TcpOption::Timestamps {
            value: left,
            echo: back,
        },
    ) = (wanted, found)
    else {
        return wanted == found;
    };
    let off = value.wrapping_sub(*left).cast_signed().unsigned_abs();
    let is_near = bases.ticks_off_max.is_none_or(|most| off <= most);
    echo == back && is_near
}
