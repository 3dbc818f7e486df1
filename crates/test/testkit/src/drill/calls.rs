//! The calls of a script, on sockets.

use std::collections::VecDeque;

use super::Fault;
use super::script::{Call, Value};
use super::sockets::{Role, World};

/// What a call came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcome {
    Done(i64),
    Failed(&'static str),
    /// It is to be tried again when something has happened.
    Blocks,
    /// It returned another value through its arguments than the script says.
    Differs(String),
}

use Outcome::{Blocks, Differs, Done, Failed};

const KNOWN: &str = "socket, bind, listen, accept, connect, read, recv, write, send, shutdown, \
                     close, fcntl, ioctl, poll, getsockopt and setsockopt are known";
const O_RDWR: i64 = 2;
const O_NONBLOCK: i64 = 0o4000;

/// Performs a call, or says that it is not known.
pub(super) fn perform(world: &mut World, call: &Call, line: u32) -> Result<Outcome, Fault> {
    let at = |index: usize| call.arguments.get(index).unwrap_or(&Value::Any);
    let number = |index: usize| match at(index) {
        Value::Number(number) => Ok(*number),
        other => Err(Fault::new(line, format!("{other:?} is to be a number"))),
    };
    let wanted = match call.result {
        Value::Number(wanted) => wanted,
        _ => 0,
    };
    if call.name == "socket" {
        return Ok(Done(world.open_socket(Role::Fresh, wanted)));
    }
    if call.name == "poll" {
        return poll(world, at(0), number(2)?, line);
    }
    let fd = number(0)?;
    if !world.sockets.contains_key(&fd) {
        return Ok(Failed("EBADF"));
    }
    let has_buffer = !matches!(at(1), Value::Word(word) if word == "NULL");
    let flags = |index: usize| words(at(index));
    Ok(match call.name.as_str() {
        "bind" => bind(world, fd, port_of(at(1))),
        "listen" => listen(world, fd),
        "accept" | "accept4" => accept(world, fd, wanted),
        "connect" => connect(world, fd, port_of(at(1))),
        "read" | "recv" | "write" | "send" | "recvfrom" | "sendto" if !has_buffer => {
            Failed("EFAULT")
        }
        "read" => read(world, fd, number(2)?, &[]),
        "recv" | "recvfrom" => read(world, fd, number(2)?, &flags(3)),
        "write" => write(world, fd, number(2)?, &[]),
        "send" | "sendto" => write(world, fd, number(2)?, &flags(3)),
        "sendmsg" => write(world, fd, message_len(at(1)), &flags(2)),
        "recvmsg" => read(world, fd, message_len(at(1)), &flags(2)),
        "shutdown" => shutdown(world, fd, &words(at(1)).concat()),
        "close" => close(world, fd),
        "fcntl" => fcntl(world, fd, &words(at(1)).concat(), at(2)),
        "ioctl" => ioctl(world, fd, &words(at(1)).concat(), at(2)),
        "getsockopt" => getsockopt(world, fd, &words(at(2)).concat(), at(3), line)?,
        "setsockopt" => setsockopt(world, fd, &words(at(2)).concat(), at(3), line)?,
        name => return Err(Fault::new(line, format!("no call {name}: {KNOWN}"))),
    })
}

/// The words of a value: `A | B`.
fn words(value: &Value) -> Vec<String> {
    match value {
        Value::Word(word) => vec![word.clone()],
        Value::Either(all) => all.iter().flat_map(words).collect(),
        _ => Vec::new(),
    }
}

fn has(flags: &[String], name: &str) -> bool {
    flags.iter().any(|flag| flag == name)
}

/// `{sa_family = AF_INET, sin_port = htons(8080), ...}`
fn port_of(value: &Value) -> Option<u16> {
    let Value::Fields(fields) = value else {
        return None;
    };
    let (_, port) = fields.iter().find(|(name, _)| name == "sin_port")?;
    match port {
        Value::Of(_, values) => match values.first()? {
            Value::Number(port) => u16::try_from(*port).ok(),
            _ => None,
        },
        _ => None,
    }
}

/// The bytes of `{msg_iov(N)=[{..., LEN}, ...], ...}`.
fn message_len(message: &Value) -> i64 {
    let Value::Fields(fields) = message else {
        return 0;
    };
    let Some((_, Value::List(parts))) = fields.iter().find(|(name, _)| name == "msg_iov") else {
        return 0;
    };
    let len = |part: &Value| match part {
        Value::Fields(fields) => fields.last().and_then(|(_, len)| number_in(len)),
        _ => None,
    };
    parts.iter().filter_map(len).sum()
}

/// The first number of `[n]`.
fn number_in(value: &Value) -> Option<i64> {
    match value {
        Value::Number(number) => Some(*number),
        Value::List(values) => number_in(values.first()?),
        _ => None,
    }
}

impl World {
    fn stream(&self, fd: i64) -> Option<usize> {
        match self.sockets[&fd].role {
            Role::Stream(place) => Some(place),
            _ => None,
        }
    }

    fn socket(&mut self, fd: i64) -> &mut super::sockets::Socket {
        self.sockets.get_mut(&fd).expect("`perform` has looked")
    }
}

fn bind(world: &mut World, fd: i64, port: Option<u16>) -> Outcome {
    world.socket(fd).port = Some(port.unwrap_or(8080));
    Done(0)
}

fn listen(world: &mut World, fd: i64) -> Outcome {
    let socket = world.socket(fd);
    match socket.role {
        Role::Fresh => socket.role = Role::Listener(VecDeque::new()),
        Role::Listener(_) => return Done(0),
        Role::Stream(_) => return Failed("EINVAL"),
    }
    let port = *socket.port.get_or_insert(8080);
    match world.listen(port) {
        Ok(()) => Done(0),
        Err(_) => {
            world.socket(fd).role = Role::Fresh;
            Failed("EADDRINUSE")
        }
    }
}

fn accept(world: &mut World, fd: i64, wanted: i64) -> Outcome {
    let socket = world.socket(fd);
    let is_nonblocking = socket.is_nonblocking;
    let Role::Listener(queue) = &mut socket.role else {
        return Failed("EINVAL");
    };
    match queue.pop_front() {
        Some(place) => {
            let new = world.open_socket(Role::Stream(place), wanted);
            world.socket(new).is_reported = true;
            inherit(world, fd, place);
            Done(new)
        }
        None if is_nonblocking => Failed("EAGAIN"),
        None => Blocks,
    }
}

/// A connection takes over what its socket or listener was set to.
fn inherit(world: &mut World, fd: i64, place: usize) {
    let options = &world.sockets[&fd].options;
    if options
        .get("TCP_NODELAY")
        .is_some_and(|&number| number != 0)
    {
        world.set_delay(place, false);
    }
}

fn connect(world: &mut World, fd: i64, port: Option<u16>) -> Outcome {
    let socket = world.socket(fd);
    let (is_nonblocking, is_reported) = (socket.is_nonblocking, socket.is_reported);
    match socket.role {
        Role::Listener(_) => Failed("EISCONN"),
        Role::Fresh => match world.connect(fd, port.unwrap_or(8080)) {
            Err(lineside_tcp::Refused::InUse(_)) => Failed("EADDRINUSE"),
            Err(_) => Failed("ENETUNREACH"),
            Ok(place) => {
                world.socket(fd).role = Role::Stream(place);
                inherit(world, fd, place);
                if is_nonblocking {
                    Failed("EINPROGRESS")
                } else {
                    Blocks
                }
            }
        },
        Role::Stream(place) => {
            let connection = world.connection(place);
            let (is_open, is_over) = (connection.is_open, connection.is_over);
            let error = connection.error.take();
            if let Some(error) = error {
                return Failed(error);
            }
            match (is_open, is_reported) {
                (true, false) => {
                    world.socket(fd).is_reported = true;
                    Done(0)
                }
                (true, true) => Failed("EISCONN"),
                (false, _) if is_over => Failed("ECONNABORTED"),
                (false, _) if is_nonblocking => Failed("EALREADY"),
                (false, _) => Blocks,
            }
        }
    }
}

fn read(world: &mut World, fd: i64, most: i64, flags: &[String]) -> Outcome {
    let is_nonblocking = world.sockets[&fd].is_nonblocking || has(flags, "MSG_DONTWAIT");
    let Some(place) = world.stream(fd) else {
        return Failed("ENOTCONN");
    };
    let connection = world.connection(place);
    let most = most.max(0) as u64;
    let is_all = has(flags, "MSG_WAITALL") && connection.unread < most;
    let can_grow = !connection.has_ended && !connection.is_over && !connection.is_read_shut;
    if connection.unread > 0 && !(is_all && can_grow) {
        let len = connection.unread.min(most);
        if !has(flags, "MSG_PEEK") {
            connection.unread -= len;
            world.offer(place);
        }
        return Done(len as i64);
    }
    if let Some(error) = connection.error.take() {
        return Failed(error);
    }
    match can_grow {
        false => Done(0),
        true if is_nonblocking => Failed("EAGAIN"),
        true => Blocks,
    }
}

fn write(world: &mut World, fd: i64, len: i64, flags: &[String]) -> Outcome {
    let socket = &world.sockets[&fd];
    let is_nonblocking = socket.is_nonblocking || has(flags, "MSG_DONTWAIT");
    let is_corked = socket.is_corked || has(flags, "MSG_MORE");
    let Some(place) = world.stream(fd) else {
        return Failed("EPIPE");
    };
    let connection = world.connection(place);
    if let Some(error) = connection.error.take() {
        return Failed(error);
    }
    if connection.is_shut || connection.is_over {
        return Failed("EPIPE");
    }
    if !connection.is_open {
        return if is_nonblocking {
            Failed("EAGAIN")
        } else {
            Blocks
        };
    }
    let queued = connection.written - connection.acknowledged;
    let room = u64::from(connection.send_bytes).saturating_sub(queued);
    let wanted = len.max(0) as u64 - connection.progress;
    let taken = wanted.min(room);
    connection.written += taken;
    connection.progress += taken;
    let (progress, is_whole) = (connection.progress, taken == wanted);
    world.push(place, is_corked);
    if !is_whole && !is_nonblocking {
        return Blocks;
    }
    world.connection(place).progress = 0;
    match progress {
        0 if len > 0 => Failed("EAGAIN"),
        progress => Done(progress as i64),
    }
}

fn shutdown(world: &mut World, fd: i64, how: &str) -> Outcome {
    let Some(place) = world.stream(fd) else {
        return Failed("ENOTCONN");
    };
    let connection = world.connection(place);
    if !connection.is_open || connection.is_over {
        return Failed("ENOTCONN");
    }
    let (reads, writes) = match how {
        "SHUT_RD" => (true, false),
        "SHUT_WR" => (false, true),
        "SHUT_RDWR" => (true, true),
        _ => return Failed("EINVAL"),
    };
    connection.is_read_shut |= reads;
    if writes && !connection.is_shut {
        world.shutdown(place);
    }
    Done(0)
}

fn close(world: &mut World, fd: i64) -> Outcome {
    let socket = world.sockets.remove(&fd).expect("`perform` has looked");
    match socket.role {
        Role::Fresh => {}
        Role::Stream(place) => world.close(place, socket.aborts),
        Role::Listener(queue) => {
            world.unlisten(socket.port.unwrap_or_default());
            // Nobody will ever take these.
            for place in queue {
                world.close(place, true);
            }
        }
    }
    Done(0)
}

fn fcntl(world: &mut World, fd: i64, what: &str, value: &Value) -> Outcome {
    let socket = world.socket(fd);
    match what {
        "F_GETFL" if socket.is_nonblocking => Done(O_RDWR | O_NONBLOCK),
        "F_GETFL" => Done(O_RDWR),
        "F_SETFL" => {
            socket.is_nonblocking = has(&words(value), "O_NONBLOCK");
            Done(0)
        }
        _ => Failed("EINVAL"),
    }
}

fn ioctl(world: &mut World, fd: i64, what: &str, expected: &Value) -> Outcome {
    let Some(place) = world.stream(fd) else {
        return Failed("EINVAL");
    };
    let connection = world.connection(place);
    let found = match what {
        "SIOCINQ" | "FIONREAD" => connection.unread,
        "SIOCOUTQ" => connection.written - connection.acknowledged,
        _ => return Failed("ENOTTY"),
    };
    returned(expected, &Value::Number(found as i64), what)
}

/// Compares what a call writes to its argument.
fn returned(expected: &Value, found: &Value, what: &str) -> Outcome {
    let expected = match expected {
        Value::List(values) if values.len() == 1 => &values[0],
        other => other,
    };
    match expected == &Value::Any || expected == found {
        true => Done(0),
        false => Differs(format!("{what} is {found:?}, but {expected:?} is expected")),
    }
}

fn getsockopt(
    world: &mut World,
    fd: i64,
    name: &str,
    expected: &Value,
    line: u32,
) -> Result<Outcome, Fault> {
    let place = world.stream(fd);
    let socket = &world.sockets[&fd];
    let doubled = i64::from(world.settings.doubles_buffers) + 1;
    let found = match (name, place) {
        ("SO_ERROR", Some(place)) => match world.connection(place).error.take() {
            Some(error) => Value::Word(error.into()),
            None => Value::Number(0),
        },
        ("SO_ERROR", None) => Value::Number(0),
        ("SO_RCVBUF", None) => Value::Number(match socket.receive_bytes {
            Some(bytes) => i64::from(bytes) * doubled,
            None => world.settings.receive_bytes.into(),
        }),
        ("SO_RCVBUF", Some(place)) => {
            let asked = socket.receive_bytes.map(|bytes| i64::from(bytes) * doubled);
            Value::Number(asked.unwrap_or_else(|| world.buffer(place).into()))
        }
        ("SO_SNDBUF", _) => Value::Number(match socket.send_bytes {
            Some(bytes) => i64::from(bytes) * doubled,
            None => world.settings.send_bytes.into(),
        }),
        ("SO_ACCEPTCONN", _) => Value::Number(matches!(socket.role, Role::Listener(_)).into()),
        ("TCP_MAXSEG", Some(place)) => {
            let ports = world.connection(place).ports;
            Value::Number(world.segment_size(ports).unwrap_or(536).into())
        }
        (name, _) => match socket.options.get(name) {
            Some(value) => Value::Number(*value),
            None if SET.contains(&name) => Value::Number(0),
            None => return Err(Fault::new(line, format!("no option {name} to get"))),
        },
    };
    Ok(returned(expected, &found, name))
}

/// Whether a value is a word of a system's, as `[IP_PMTUDISC_DONT]`.
fn words_in(value: &Value) -> bool {
    matches!(value, Value::List(values) if matches!(values[..], [Value::Word(_)]))
}

/// Options that are kept, and that mean something here or nothing in virtual time.
const SET: [&str; 8] = [
    "SO_REUSEADDR",
    "SO_REUSEPORT",
    "SO_KEEPALIVE",
    "TCP_NODELAY",
    "TCP_CORK",
    "IP_TOS",
    "IP_MTU_DISCOVER",
    "SO_LINGER",
];

fn setsockopt(
    world: &mut World,
    fd: i64,
    name: &str,
    value: &Value,
    line: u32,
) -> Result<Outcome, Fault> {
    let number = number_in(value);
    if name == "SO_LINGER" {
        let Value::Fields(fields) = value else {
            return Err(Fault::new(line, "SO_LINGER takes {onoff=N, linger=N}"));
        };
        let is = |name: &str, wanted: i64| {
            let found = fields.iter().find(|(each, _)| each == name);
            found.is_some_and(|(_, value)| (*value == Value::Number(0)) == (wanted == 0))
        };
        world.socket(fd).aborts = is("onoff", 1) && is("linger", 0);
        return Ok(Done(0));
    }
    let number = number.or_else(|| words_in(value).then_some(1));
    let Some(number) = number else {
        return Err(Fault::new(line, format!("{name} takes [N]")));
    };
    if name == "SO_KEEPALIVE" && number != 0 && world.settings.config.keep_alive_ns.is_none() {
        let what = "SO_KEEPALIVE needs its times: `sysctl -w net.ipv4.tcp_keepalive_time=N`";
        return Err(Fault::new(line, what));
    }
    let bytes = u32::try_from(number).unwrap_or_default();
    match name {
        "SO_RCVBUF" => world.socket(fd).receive_bytes = Some(bytes),
        "SO_SNDBUF" => world.socket(fd).send_bytes = Some(bytes),
        name if SET.contains(&name) => {}
        name => {
            let what = format!("no option {name} to set: {SET:?} are known, and buffers");
            return Err(Fault::new(line, what));
        }
    }
    world.socket(fd).options.insert(name.to_owned(), number);
    if let Some(place) = world.stream(fd) {
        match name {
            "SO_RCVBUF" => {
                world.connection(place).receive_bytes = bytes;
                world.offer(place);
            }
            "SO_SNDBUF" => world.connection(place).send_bytes = bytes,
            "TCP_CORK" => {
                world.socket(fd).is_corked = number != 0;
                world.push(place, number != 0);
            }
            // What a corked socket keeps back leaves, too.
            "TCP_NODELAY" => {
                world.push(place, number == 0 && world.sockets[&fd].is_corked);
                world.set_delay(place, number == 0);
            }
            _ => {}
        }
    }
    Ok(Done(0))
}

/// `poll([{fd=3, events=POLLIN, revents=POLLIN}], 1, TIMEOUT)`; it blocks, or its time is 0.
fn poll(world: &mut World, list: &Value, timeout: i64, line: u32) -> Result<Outcome, Fault> {
    let Value::List(entries) = list else {
        return Err(Fault::new(
            line,
            "poll takes [{fd=N, events=..., revents=...}]",
        ));
    };
    let mut ready = 0;
    let mut wrong = None;
    for entry in entries {
        let Value::Fields(fields) = entry else {
            return Err(Fault::new(
                line,
                "poll takes [{fd=N, events=..., revents=...}]",
            ));
        };
        let of = |name: &str| {
            let found = fields.iter().find(|(each, _)| each == name);
            found.map_or(&Value::Any, |(_, value)| value)
        };
        let fd = number_in(of("fd")).filter(|fd| world.sockets.contains_key(fd));
        let Some(fd) = fd else {
            return Ok(Failed("EBADF"));
        };
        let wanted = words(of("events"));
        let mut found = revents(world, fd);
        found.retain(|event| has(&wanted, event) || ["POLLERR", "POLLHUP"].contains(event));
        ready += i64::from(!found.is_empty());
        let expected = words(of("revents"));
        let is_met = found.len() == expected.len() && found.iter().all(|e| has(&expected, e));
        if !is_met {
            wrong = Some(format!(
                "poll finds {found:?}, but {expected:?} is expected"
            ));
        }
    }
    Ok(match wrong {
        _ if ready == 0 && timeout != 0 => Blocks,
        Some(wrong) => Differs(wrong),
        None => Done(ready),
    })
}

fn revents(world: &mut World, fd: i64) -> Vec<&'static str> {
    let place = match &world.sockets[&fd].role {
        Role::Fresh => return vec!["POLLHUP"],
        Role::Listener(queue) if queue.is_empty() => return Vec::new(),
        Role::Listener(_) => return vec!["POLLIN"],
        Role::Stream(place) => *place,
    };
    let connection = world.connection(place);
    let queued = connection.written - connection.acknowledged;
    let has_room = queued < connection.send_bytes.into();
    let ends = connection.has_ended || connection.is_over;
    let all = [
        ("POLLIN", connection.unread > 0 || ends),
        (
            "POLLOUT",
            connection.is_open && has_room || connection.is_over,
        ),
        ("POLLERR", connection.error.is_some()),
        ("POLLHUP", connection.is_over),
    ];
    all.into_iter()
        .filter(|&(_, is)| is)
        .map(|(name, _)| name)
        .collect()
}
