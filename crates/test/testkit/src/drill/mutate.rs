//! Scripts with one expectation changed: a runner that is strict fails each of them.

use lineside_time::Random;
use lineside_wire::TcpFlags;

use super::script::{Action, Body, Call, Script, Segment, TcpOption, Time, Value};

/// More than any tolerance of a script.
const SHIFT_NS: i64 = 200_000_000;

/// The script with one expected field changed, and what was done to it; `None`: it expects nothing.
pub fn mutated(script: &Script, seed: u64) -> Option<(Script, String)> {
    let mut random = Random::new(seed);
    let mut changed = script.clone();
    let places: Vec<usize> = { script.events.iter().enumerate() }
        .filter(|(_, event)| match &event.action {
            Action::Out(_) => true,
            Action::Call(call) => call.result != Value::Any,
            _ => false,
        })
        .map(|(place, _)| place)
        .collect();
    if places.is_empty() {
        return None;
    }
    let event = &mut changed.events[places[random.below(places.len() as u64) as usize]];
    let what = match &mut event.action {
        Action::Call(call) => change_call(call, &mut random),
        Action::Out(packet) => {
            let shifts = !matches!(event.time, Time::Any) && random.below(8) == 0;
            match (&mut packet.body, shifts) {
                (_, true) => shift(&mut event.time),
                (Body::Segment(segment), _) => change_segment(segment, &mut random),
                (Body::Error(_), _) => return None,
            }
        }
        _ => return None,
    };
    let line = event.line;
    Some((changed, format!("line {line}: {what}")))
}

fn shift(time: &mut Time) -> String {
    match time {
        Time::At(at) | Time::After(at) => *at += SHIFT_NS,
        Time::Between { from, to, .. } => {
            let width = *to - *from;
            (*from, *to) = (*to + SHIFT_NS, *to + SHIFT_NS + width);
        }
        Time::Any => {}
    }
    "the time".into()
}

fn change_call(call: &mut Call, random: &mut Random) -> String {
    let is_get = call.name == "getsockopt";
    if is_get
        && random.chance(0.5)
        && let Some(Value::List(values)) = call.arguments.get_mut(3)
        && let Some(value) = values.first_mut()
    {
        *value = match value {
            Value::Number(number) => Value::Number(number.wrapping_add(1)),
            _ => Value::Word("EXDEV".into()),
        };
        return "the option's value".into();
    }
    if let Some(errno) = &mut call.errno {
        *errno = "EXDEV".into();
        return "the error".into();
    }
    if let Value::Number(number) = &mut call.result {
        *number = number.wrapping_add(1);
    }
    "the returned value".into()
}

fn change_segment(segment: &mut Segment, random: &mut Random) -> String {
    loop {
        let delta = 1 + random.below(3) as u32;
        match random.below(6) {
            0 => {
                const FLAGS: [TcpFlags; 5] = [
                    TcpFlags::FIN,
                    TcpFlags::SYN,
                    TcpFlags::RST,
                    TcpFlags::PSH,
                    TcpFlags::ACK,
                ];
                let flag = FLAGS[random.below(5) as usize];
                segment.flags.0 ^= flag.0;
                return "a flag".into();
            }
            1 if segment.start.is_some() => {
                segment.start = segment.start.map(|start| start.wrapping_add(delta));
                return "the sequence number".into();
            }
            2 if segment.ack.is_some() => {
                segment.ack = segment.ack.map(|ack| ack.wrapping_add(delta));
                return "the acknowledgement".into();
            }
            3 if segment.window.is_some() => {
                let window = segment.window.unwrap_or_default();
                segment.window = Some(window.wrapping_sub(delta as u16));
                return "the window".into();
            }
            4 => {
                segment.len += delta;
                return "the length".into();
            }
            5 => match segment.options.as_mut() {
                None => {}
                Some(options) => return change_options(options, random),
            },
            _ => {}
        }
    }
}

fn change_options(options: &mut Vec<TcpOption>, random: &mut Random) -> String {
    let real =
        |option: &TcpOption| !matches!(option, TcpOption::NoOperation | TcpOption::EndOfList);
    let places: Vec<usize> = (0..options.len())
        .filter(|&place| real(&options[place]))
        .collect();
    if places.is_empty() {
        options.push(TcpOption::SackPermitted);
        return "an option that is not there".into();
    }
    let place = places[random.below(places.len() as u64) as usize];
    match &mut options[place] {
        TcpOption::Mss(mss) => *mss ^= 1,
        TcpOption::WindowScale(scale) => *scale ^= 1,
        TcpOption::Sack(blocks) => blocks[0].1 ^= 1,
        // The first value of all says how the clock stands: what is echoed is compared always.
        TcpOption::Timestamps { echo, .. } => *echo ^= 1,
        _ => {
            options.remove(place);
            return "an option".into();
        }
    }
    "an option's value".into()
}
