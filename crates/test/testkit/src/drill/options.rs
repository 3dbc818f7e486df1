//! The options of a segment: as a script writes them, and as bytes.

use lineside_wire::SeqNumber;
use lineside_wire::tcp::{self, OPTIONS_LEN_MAX, SackBlocks};

use super::Fault;
use super::scanner::Scanner;
use super::script::TcpOption;

/// What follows `<`; `None` of `<...>`.
pub(super) fn tcp_options(scanner: &mut Scanner<'_>) -> Result<Option<Vec<TcpOption>>, Fault> {
    if scanner.takes("...")? {
        scanner.expect(">")?;
        return Ok(None);
    }
    let mut all = Vec::new();
    if scanner.takes(">")? {
        return Ok(Some(all));
    }
    loop {
        all.push(tcp_option(scanner)?);
        if scanner.takes(">")? {
            break;
        }
        scanner.expect(",")?;
    }
    let len = bytes(&all, Offsets::default()).len();
    match len <= OPTIONS_LEN_MAX {
        true => Ok(Some(all)),
        false => Err(scanner.fault(format!("{len} bytes of options: a header has room for 40"))),
    }
}

fn tcp_option(scanner: &mut Scanner<'_>) -> Result<TcpOption, Fault> {
    let word = scanner.word()?;
    Ok(match word {
        "mss" => TcpOption::Mss(scanner.number()?),
        "nop" => TcpOption::NoOperation,
        "eol" => TcpOption::EndOfList,
        "wscale" => TcpOption::WindowScale(scanner.number()?),
        "sackOK" => TcpOption::SackPermitted,
        "sack" => TcpOption::Sack(blocks(scanner)?),
        "TS" => {
            let mut numbers = [0; 2];
            for (number, name) in numbers.iter_mut().zip(["val", "ecr"]) {
                scanner.expect(name)?;
                *number = scanner.number()?;
            }
            let [value, echo] = numbers;
            TcpOption::Timestamps { value, echo }
        }
        "raw" => TcpOption::Raw(hex(scanner)?),
        _ => {
            return Err(scanner.fault(format!(
                "no option `{word}`: mss, nop, eol, wscale, sackOK, sack, TS are known, and raw HEX"
            )));
        }
    })
}

fn blocks(scanner: &mut Scanner<'_>) -> Result<Vec<(u32, u32)>, Fault> {
    let mut blocks = Vec::new();
    loop {
        let start = scanner.number()?;
        scanner.expect(":")?;
        blocks.push((start, scanner.number()?));
        scanner.skip_space()?;
        if !scanner.peek().is_some_and(|letter| letter.is_ascii_digit()) {
            break;
        }
    }
    match blocks.len() <= SackBlocks::MAX {
        true => Ok(blocks),
        false => Err(scanner.fault("a header has room for four blocks")),
    }
}

fn hex(scanner: &mut Scanner<'_>) -> Result<Vec<u8>, Fault> {
    let digits = scanner.word()?;
    let pairs = digits.as_bytes().chunks(2);
    let bytes: Option<Vec<u8>> = pairs
        .map(|pair| {
            let pair = str::from_utf8(pair).ok().filter(|pair| pair.len() == 2)?;
            u8::from_str_radix(pair, 16).ok()
        })
        .collect();
    bytes.ok_or_else(|| scanner.fault(format!("`{digits}` is not bytes in hexadecimal digits")))
}

/// From a script's numbers to the wire's.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Offsets {
    /// Of what the peer acknowledges selectively.
    pub(super) ack: u32,
    /// Of the timestamps of the sender and of those that it echoes.
    pub(super) value: u32,
    pub(super) echo: u32,
}

/// The options as they stand in a header, not padded.
pub(super) fn bytes(options: &[TcpOption], offsets: Offsets) -> Vec<u8> {
    let mut all = Vec::new();
    for option in options {
        let blocks: Vec<[u8; 8]>;
        let known = match option {
            TcpOption::NoOperation => {
                all.push(1);
                continue;
            }
            TcpOption::EndOfList => {
                all.push(0);
                continue;
            }
            TcpOption::Raw(raw) => {
                all.extend(raw);
                continue;
            }
            TcpOption::Mss(mss) => tcp::TcpOption::Mss(*mss),
            TcpOption::WindowScale(scale) => tcp::TcpOption::WindowScale(*scale),
            TcpOption::SackPermitted => tcp::TcpOption::SackPermitted,
            TcpOption::Sack(pairs) => {
                let number = |number: u32| SeqNumber(number.wrapping_add(offsets.ack));
                blocks = { pairs.iter() }
                    .map(|&(start, end)| SackBlocks::block(number(start), number(end)))
                    .collect();
                tcp::TcpOption::Sack(SackBlocks::new(&blocks))
            }
            TcpOption::Timestamps { value, echo } => tcp::TcpOption::Timestamps {
                value: value.wrapping_add(offsets.value),
                // No echo is none: RFC 7323, 3.2.
                echo: if *echo == 0 {
                    0
                } else {
                    echo.wrapping_add(offsets.echo)
                },
            },
        };
        let at = all.len();
        all.resize(at + known.len(), 0);
        known.emit(&mut all[at..]);
    }
    all
}
