//! Directions of which the tap missed so much that acknowledgements alone show it.

use lineside_frame::{Cause, Descriptor};
use lineside_wire::Direction;

use crate::connection::Connection;
use crate::connection::segments::AHEAD_MAX;
use crate::context::Context;
use crate::sink::StreamSink;
use crate::stream::State;

/// Bytes that a direction lacks, and that are acknowledged, are given up from so many on, before
/// acknowledgements are too far ahead to be believed.
const PASSED_MAX: i64 = AHEAD_MAX / 2;

impl Connection {
    /// Gives up what the other end acknowledged and nothing came of, if that is much.
    pub(super) fn give_up_passed<S: StreamSink>(
        &mut self,
        direction: Direction,
        by: &Descriptor,
        context: &mut Context<'_, S>,
    ) {
        let stream = &self.streams[direction];
        let acked = stream.acked.unwrap_or(stream.next);
        let is_much = acked - stream.next > PASSED_MAX;
        if stream.state == State::Open && stream.held.is_empty() && is_much {
            self.give_up(direction, acked, Cause::NotSeen, by, context);
        }
    }
}
