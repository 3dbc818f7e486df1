//! How far a TCP connection is, by the segments that pass. Nothing is held back but resets that
//! their receiver would not believe.

use lineside_wire::{SeqNumber, TcpFlags, TcpHeader, tcp};

use crate::table::{Connection, Direction, State, flag};

/// Numbers this far behind the last one sent still belong to the connection: the largest window is
/// 2^30 (RFC 7323, 2.3), those that are used are below 2^24.
const BEHIND_MAX: u32 = 1 << 24;

/// So much a node may have sent before its answer is acknowledged.
const UNSEEN_MAX: u32 = 1 << 16;

/// What a segment means for its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Followed {
    /// The connection is in this state now.
    State(State),
    /// A reset that its receiver does not expect.
    WrongReset,
    /// A SYN for a new connection in place of one that is over.
    Anew,
}

/// Follows a segment; all but the state is written into the connection.
pub(crate) fn follow(
    connection: &mut Connection,
    direction: Direction,
    tcp: &TcpHeader,
    options: &[u8],
) -> Followed {
    let flags = tcp.flags;
    if flags.contains(TcpFlags::RST) {
        return on_reset(connection, direction, tcp);
    }
    let (ours, theirs) = (direction.index(), direction.reversed().index());
    if flags.opens() {
        if direction == Direction::ToNode
            && !flags.contains(TcpFlags::ACK)
            && connection.state == State::Closed
        {
            return Followed::Anew;
        }
        if connection.state.is_half_open() {
            let segment = tcp::TcpOptions::new(options);
            let scale = segment.flatten().find_map(|option| match option {
                tcp::TcpOption::WindowScale(scale) => Some(scale.min(14)),
                _ => None,
            });
            connection.set_scale(direction, scale.unwrap_or(0));
        }
    }
    let end = end_of(tcp);
    let is_first = match connection.state {
        State::Asked => direction == Direction::ToClient || flags.opens(),
        // What the driver forwarded meanwhile is not known.
        _ => connection.flags & flag::BYPASSED != 0,
    };
    if is_first || end.is_after(SeqNumber(connection.next[ours])) {
        connection.next[ours] = end.0;
    }
    if flags.contains(TcpFlags::ACK) {
        // The window of a SYN is never scaled: RFC 7323, 2.2.
        let scale = match flags.contains(TcpFlags::SYN) {
            true => 0,
            false => connection.scale(direction),
        };
        let edge = tcp.acknowledgement + (u32::from(tcp.window) << scale);
        if is_first || edge.is_after(SeqNumber(connection.edge[theirs])) {
            connection.edge[theirs] = edge.0;
        }
    }
    if flags.contains(TcpFlags::FIN) {
        connection.set(flag::FIN, direction, true);
    }
    Followed::State(next_state(connection, direction, tcp))
}

fn next_state(connection: &Connection, direction: Direction, tcp: &TcpHeader) -> State {
    let flags = tcp.flags;
    // A forged sender does not see the node's number, and makes no connection that lasts.
    let acknowledges = || {
        let next = SeqNumber(connection.next[direction.reversed().index()]);
        flags.contains(TcpFlags::ACK) && next.bytes_from(tcp.acknowledgement) <= UNSEEN_MAX
    };
    let fins = Direction::BOTH.map(|direction| connection.has(flag::FIN, direction));
    match connection.state {
        State::Asked if direction == Direction::ToClient && flags.opens() => State::Answered,
        State::Answered if direction == Direction::ToNode && !flags.opens() && acknowledges() => {
            State::Established
        }
        // Its numbers were not seen, and so any reset is taken for the connection's end. A node
        // that still sends has not believed it.
        State::Closed
            if direction == Direction::ToClient
                && connection.flags & flag::BYPASSED != 0
                && fins != [true; 2]
                && !flags.opens() =>
        {
            State::Established
        }
        State::Established | State::Closing if fins == [true; 2] => State::Closed,
        State::Established if fins != [false; 2] => State::Closing,
        state => state,
    }
}

/// RFC 5961, 3.2: a reset closes when its number is exactly the next one; one within the window is
/// passed on, so that its receiver asks whether it is meant; others are dropped.
fn on_reset(connection: &mut Connection, direction: Direction, tcp: &TcpHeader) -> Followed {
    let ours = direction.index();
    let next = SeqNumber(connection.next[ours]);
    // A refusal: the node's answer to a SYN has no number of its own.
    let refuses = connection.state == State::Asked
        && direction == Direction::ToClient
        && tcp.acknowledgement.0 == connection.next[direction.reversed().index()];
    if refuses || tcp.sequence == next || connection.flags & flag::BYPASSED != 0 {
        return Followed::State(State::Closed);
    }
    let behind = next.bytes_from(tcp.sequence) <= BEHIND_MAX;
    let edge = SeqNumber(connection.edge[ours]);
    let ahead = tcp.sequence.is_after(next) && !tcp.sequence.is_after(edge);
    match behind || ahead {
        true => Followed::State(connection.state),
        false => Followed::WrongReset,
    }
}

/// The sequence number after a segment.
pub(crate) fn end_of(tcp: &TcpHeader) -> SeqNumber {
    let count = |flag| u32::from(tcp.flags.contains(flag));
    tcp.sequence + tcp.payload_len as u32 + count(TcpFlags::SYN) + count(TcpFlags::FIN)
}
