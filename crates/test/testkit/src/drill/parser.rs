//! The script language: events, times, calls and their arguments. Options of segments are in
//! [`options`](super::options).

use lineside_wire::TcpFlags;

use super::Fault;
use super::options::tcp_options;
use super::scanner::Scanner;
use super::script::{Action, Body, Call, Event, Packet, PathError, Script, Segment, Time, Value};

const CONDITIONS: [&str; 4] = ["#ifdef", "#ifndef", "#else", "#endif"];
/// Values in values; deeper ones are no script's.
const DEPTH_MAX: u32 = 16;

/// Reads a script. `defined` is what its `#ifdef` lines know.
pub fn parse(text: &str, defined: &[&str]) -> Result<Script, Fault> {
    let text = without_conditions(text, defined)?;
    let mut scanner = Scanner::new(&text);
    let mut script = Script {
        options: Vec::new(),
        events: Vec::new(),
    };
    loop {
        scanner.skip_space()?;
        if scanner.rest().is_empty() {
            return Ok(script);
        }
        if scanner.rest().starts_with("--") {
            script.options.push(option(&mut scanner)?);
        } else {
            script.events.push(event(&mut scanner)?);
        }
    }
}

/// Blanks what `#ifdef`, `#ifndef`, `#else` and `#endif` leave out, and themselves.
fn without_conditions(text: &str, defined: &[&str]) -> Result<String, Fault> {
    let mut kept = String::with_capacity(text.len());
    let mut conditions: Vec<bool> = Vec::new();
    for (line, number) in text.lines().zip(1..) {
        let mut words = line.split_whitespace();
        let word = words.next().filter(|word| CONDITIONS.contains(word));
        let is_defined = words.next().is_some_and(|name| defined.contains(&name));
        match word {
            None => {
                if conditions.iter().all(|&holds| holds) {
                    kept.push_str(line);
                }
            }
            Some("#ifdef") => conditions.push(is_defined),
            Some("#ifndef") => conditions.push(!is_defined),
            Some("#else") if !conditions.is_empty() => {
                let last = conditions.pop().unwrap_or_default();
                conditions.push(!last);
            }
            Some("#endif") if !conditions.is_empty() => {
                conditions.pop();
            }
            Some(word) => {
                let what = format!("`{word}` without its #ifdef");
                return Err(Fault::new(number, what));
            }
        }
        kept.push('\n');
    }
    match conditions.is_empty() {
        true => Ok(kept),
        false => Err(Fault::new(text.lines().count() as u32, "#endif is missing")),
    }
}

/// `--name=value`
fn option(scanner: &mut Scanner<'_>) -> Result<(u32, String, String), Fault> {
    let line = scanner.line;
    scanner.expect("--")?;
    let name = scanner.word()?.to_owned();
    let mut value = String::new();
    if scanner.peek() == Some('=') {
        scanner.skip(1);
        scanner
            .take_while(|letter| !letter.is_whitespace())
            .clone_into(&mut value);
    }
    Ok((line, name, value))
}

fn event(scanner: &mut Scanner<'_>) -> Result<Event, Fault> {
    let (time, until) = time(scanner)?;
    scanner.skip_space()?;
    let line = scanner.line;
    let action = match scanner.peek() {
        Some('`') => Action::Command(scanner.quoted('`')?.trim().to_owned()),
        Some('<') => {
            scanner.skip(1);
            Action::In(packet(scanner)?)
        }
        Some('>') => {
            scanner.skip(1);
            Action::Out(packet(scanner)?)
        }
        Some('%') => Action::State(state(scanner)?),
        _ => Action::Call(call(scanner, until)?),
    };
    if until.is_some() && !matches!(action, Action::Call(_)) {
        return Err(Fault::new(line, "only a call has an end: START...END"));
    }
    Ok(Event { line, time, action })
}

/// `%{ assert tcpi_state == TCPI_ESTABLISHED }%`
fn state(scanner: &mut Scanner<'_>) -> Result<String, Fault> {
    let rest = scanner.rest();
    let end = rest.find("}%");
    let end = end.ok_or_else(|| scanner.fault("%{ without its end"))?;
    let words: Vec<_> = rest[..end].split_whitespace().collect();
    let ["%{", "assert", "tcpi_state", "==", state] = words[..] else {
        return Err(scanner.fault("code in %{ }% is not run, but `assert tcpi_state == NAME`"));
    };
    scanner.skip(end + 2);
    Ok(state.to_owned())
}

/// `1.5`, `+.1`, `*`, `1~2`, `+1~+2`, and the end of a call that blocks: `+0...0.2`.
fn time(scanner: &mut Scanner<'_>) -> Result<(Time, Option<i64>), Fault> {
    scanner.skip_space()?;
    if scanner.takes("*")? {
        return Ok((Time::Any, None));
    }
    let is_relative = scanner.takes("+")?;
    let begins_number = |letter: Option<char>| {
        letter.is_some_and(|letter| letter.is_ascii_digit() || letter == '.')
    };
    if !is_relative && !begins_number(scanner.peek()) {
        return Ok((Time::After(0), None));
    }
    let from = scanner.seconds()?;
    if scanner.takes("~")? {
        scanner.takes("+")?;
        let to = scanner.seconds()?;
        let time = Time::Between {
            is_relative,
            from,
            to,
        };
        return Ok((time, None));
    }
    let until = match scanner.takes("...")? {
        true => Some(scanner.seconds()?),
        false => None,
    };
    let time = match is_relative {
        true => Time::After(from),
        false => Time::At(from),
    };
    Ok((time, until))
}

fn packet(scanner: &mut Scanner<'_>) -> Result<Packet, Fault> {
    scanner.skip_space()?;
    let ecn = codepoint(scanner)?;
    scanner.skip_space()?;
    if scanner.rest().starts_with('(') {
        return Err(scanner.fault("of the IP header only `[ect0]` and the like are compared"));
    }
    let before = scanner.clone();
    if scanner.word()? == "icmp" {
        let body = Body::Error(path_error(scanner)?);
        return Ok(Packet { ports: None, body });
    }
    *scanner = before.clone();
    let mut ports = None;
    if scanner.peek().is_some_and(|letter| letter.is_ascii_digit()) {
        let source = scanner.number()?;
        scanner.expect(">")?;
        ports = Some([source, scanner.number()?]);
    }
    let body = Body::Segment(segment(scanner, ecn)?);
    Ok(Packet { ports, body })
}

const FLAGS: [(char, TcpFlags); 8] = [
    ('F', TcpFlags::FIN),
    ('S', TcpFlags::SYN),
    ('R', TcpFlags::RST),
    ('P', TcpFlags::PSH),
    ('.', TcpFlags::ACK),
    ('U', TcpFlags::URG),
    ('E', TcpFlags::ECE),
    ('W', TcpFlags::CWR),
];

/// The flags as a script writes them.
pub(super) fn flags_text(flags: TcpFlags) -> String {
    let set = FLAGS.iter().filter(|(_, flag)| flags.contains(*flag));
    let text: String = set.map(|(letter, _)| letter).collect();
    if text.is_empty() { "-".into() } else { text }
}

/// `[ect0]` before a segment: the codepoint of its IP header, RFC 3168, 5.
const CODEPOINTS: [(&str, u8); 4] = [("noecn", 0), ("ect1", 1), ("ect0", 2), ("ce", 3)];

fn codepoint(scanner: &mut Scanner<'_>) -> Result<Option<u8>, Fault> {
    if !scanner.takes("[")? {
        return Ok(None);
    }
    let word = scanner.word()?;
    let known = CODEPOINTS.iter().find(|(name, _)| *name == word);
    let what = || format!("no codepoint {word}: noecn, ect0, ect1 and ce are");
    let code = known.ok_or_else(|| scanner.fault(what()))?.1;
    scanner.expect("]")?;
    Ok(Some(code))
}

fn segment(scanner: &mut Scanner<'_>, ecn: Option<u8>) -> Result<Segment, Fault> {
    scanner.skip_space()?;
    let mut flags = TcpFlags::default();
    let letters = scanner.take_while(|letter| !letter.is_whitespace());
    for letter in letters.chars().filter(|&letter| letter != '-') {
        let known = FLAGS.iter().find(|(name, _)| *name == letter);
        let what = || format!("no flag {letter} in `{letters}`: F, S, R, P, ., U, E, W and - are");
        flags = flags | known.ok_or_else(|| scanner.fault(what()))?.1;
    }
    let (start, len) = match scanner.takes("...")? {
        true => {
            scanner.expect("(")?;
            let len = scanner.number()?;
            scanner.expect(")")?;
            (None, len)
        }
        false => {
            let (start, len) = range(scanner)?;
            (Some(start), len)
        }
    };
    let mut read = Segment {
        flags,
        start,
        len,
        ack: None,
        window: None,
        urgent: None,
        ecn,
        options: Some(Vec::new()),
    };
    loop {
        let before = scanner.clone();
        match scanner.word()? {
            "ack" => read.ack = Some(scanner.number()?),
            "win" if scanner.takes("*")? => read.window = None,
            "win" => read.window = Some(scanner.number()?),
            "urg" => read.urgent = Some(scanner.number()?),
            _ => {
                *scanner = before;
                break;
            }
        }
    }
    // Options stand in the same line: a `<` in the next one is another packet's.
    let line = scanner.line;
    let mut ahead = scanner.clone();
    if ahead.takes("<")? && ahead.line == line {
        *scanner = ahead;
        read.options = tcp_options(scanner)?;
    }
    if read.ack.is_none() && flags.contains(TcpFlags::ACK) {
        return Err(Fault::new(line, "`.` needs `ack N`"));
    }
    if read.len > u32::from(u16::MAX) {
        return Err(Fault::new(line, "no packet has so many bytes"));
    }
    Ok(read)
}

/// `START:END(LEN)`: start and length.
fn range(scanner: &mut Scanner<'_>) -> Result<(u32, u32), Fault> {
    let start: u32 = scanner.number()?;
    scanner.expect(":")?;
    let end: u32 = scanner.number()?;
    scanner.expect("(")?;
    let len: u32 = scanner.number()?;
    scanner.expect(")")?;
    match end.wrapping_sub(start) == len {
        true => Ok((start, len)),
        false => Err(scanner.fault(format!("{start}:{end} are not {len} bytes"))),
    }
}

/// `icmp TYPE CODE mtu N [START:END(LEN)]`
fn path_error(scanner: &mut Scanner<'_>) -> Result<PathError, Fault> {
    let kind = scanner.word()?.to_owned();
    let (mut code, mut mtu) = (None, None);
    loop {
        match scanner.word()? {
            "" => break,
            "mtu" => mtu = Some(scanner.number()?),
            word => code = Some(word.to_owned()),
        }
    }
    scanner.expect("[")?;
    let echoed = range(scanner)?;
    scanner.expect("]")?;
    Ok(PathError {
        kind,
        code,
        mtu,
        echoed,
    })
}

fn call(scanner: &mut Scanner<'_>, until: Option<i64>) -> Result<Call, Fault> {
    let name = scanner.word()?.to_owned();
    if name.is_empty() {
        return Err(scanner.unexpected("a call, a packet or a command"));
    }
    scanner.expect("(")?;
    let arguments = values(scanner, ")", 0)?;
    scanner.expect("=")?;
    let result = value(scanner, 0)?;
    let mut errno = None;
    if result == Value::Number(-1) {
        let word = scanner.word()?;
        errno = (!word.is_empty()).then(|| word.to_owned());
    }
    scanner.skip_space()?;
    // What a person reads: (Operation now in progress).
    if scanner.rest().starts_with('(') {
        let rest = scanner.rest();
        let end = rest.find(')');
        scanner.skip(end.ok_or_else(|| scanner.fault("( without its end"))? + 1);
    }
    Ok(Call {
        name,
        arguments,
        result,
        errno,
        until,
    })
}

fn values(scanner: &mut Scanner<'_>, end: &str, depth: u32) -> Result<Vec<Value>, Fault> {
    let mut all = Vec::new();
    if scanner.takes(end)? {
        return Ok(all);
    }
    loop {
        all.push(value(scanner, depth)?);
        if scanner.takes(end)? {
            return Ok(all);
        }
        scanner.expect(",")?;
    }
}

fn value(scanner: &mut Scanner<'_>, depth: u32) -> Result<Value, Fault> {
    let first = single(scanner, depth)?;
    if !scanner.takes("|")? {
        return Ok(first);
    }
    let mut all = vec![first];
    loop {
        all.push(single(scanner, depth)?);
        if !scanner.takes("|")? {
            return Ok(Value::Either(all));
        }
    }
}

fn single(scanner: &mut Scanner<'_>, depth: u32) -> Result<Value, Fault> {
    if depth > DEPTH_MAX {
        return Err(scanner.fault("values in values in values: no call takes these"));
    }
    if scanner.takes("...")? {
        return Ok(Value::Any);
    }
    match scanner.peek() {
        Some('"') => Ok(Value::Text(scanner.quoted('"')?)),
        Some('[') => {
            scanner.skip(1);
            Ok(Value::List(values(scanner, "]", depth + 1)?))
        }
        Some('{') => {
            scanner.skip(1);
            fields(scanner, depth + 1)
        }
        Some('-') => {
            scanner.skip(1);
            let number: u32 = scanner.number()?;
            Ok(Value::Number(-i64::from(number)))
        }
        Some(letter) if letter.is_ascii_digit() => Ok(Value::Number(scanner.number()?)),
        _ => {
            let word = scanner.word()?.to_owned();
            if word.is_empty() {
                return Err(scanner.unexpected("a value"));
            }
            if scanner.rest().starts_with('(') {
                scanner.skip(1);
                return Ok(Value::Of(word, values(scanner, ")", depth + 1)?));
            }
            Ok(Value::Word(word))
        }
    }
}

/// `{name=value, name(SIZE)=value, value}`
fn fields(scanner: &mut Scanner<'_>, depth: u32) -> Result<Value, Fault> {
    let mut all = Vec::new();
    loop {
        let before = scanner.clone();
        let mut name = scanner.word()?.to_owned();
        if !name.is_empty() && scanner.takes("(")? {
            values(scanner, ")", depth)?;
        }
        if name.is_empty() || !scanner.takes("=")? && !scanner.takes(":")? {
            *scanner = before;
            name = String::new();
        }
        all.push((name, value(scanner, depth)?));
        if scanner.takes("}")? {
            return Ok(Value::Fields(all));
        }
        scanner.expect(",")?;
    }
}
