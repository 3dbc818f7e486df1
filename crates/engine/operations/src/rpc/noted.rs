//! What a pipeline leaves to the actors behind it: the checksums of file data, and the rows of
//! calls on the fast path, of which what that takes is noted.

use std::ops::Range;

use lineside_account::Counters;
use lineside_frame::{Cursor, Piece};
use lineside_rows::{RecordSink, Table};

use crate::fast_call::{FastCall, FastCaller, FastReply};
use crate::protocol::FastRows;
use crate::sums::Sums;

/// What was noted for other actors.
#[derive(Default)]
pub struct Deferred {
    pub sums: Sums,
    pub calls: NotedCalls,
}

/// Calls and their replies, in the order of the replies.
#[derive(Default)]
pub struct NotedCalls {
    calls: Vec<NotedCall>,
    /// Those who call, each where its calls begin or go on.
    callers: Vec<FastCaller>,
    /// The results as they came.
    bytes: Vec<u8>,
}

struct NotedCall {
    call: FastCall,
    reply: FastReply,
    caller: usize,
    results: Range<usize>,
}

impl NotedCalls {
    /// Notes a call whose results, `bytes`, can be read.
    #[inline]
    pub(super) fn note(
        &mut self,
        (call, caller): (&FastCall, &FastCaller),
        reply: &FastReply,
        bytes: &[u8],
    ) {
        let is_same = |last: &FastCaller| last.first_operation == caller.first_operation;
        if !self.callers.last().is_some_and(is_same) {
            self.callers.push(*caller);
        }
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        self.calls.push(NotedCall {
            call: *call,
            reply: *reply,
            caller: self.callers.len() - 1,
            results: start..self.bytes.len(),
        });
    }

    /// Gives their rows to `sink`, if it wants any.
    pub fn write_to(&self, sink: &mut impl RecordSink) {
        if !(sink.wants(Table::Operations) || sink.wants(Table::Nfs)) {
            return;
        }
        // What is counted was counted where the replies passed.
        let mut counters = Counters::new();
        for noted in &self.calls {
            let NotedCall { call, reply, .. } = noted;
            let pieces = [call.piece()];
            let arguments = call.procedure.decode_call(&pieces);
            let pieces = [Piece::bytes(&self.bytes[noted.results.clone()])];
            let results = call.procedure.decode_reply(&mut Cursor::new(&pieces));
            let caller = &self.callers[noted.caller];
            let (call, reply) = ((call, &arguments), (reply, &results));
            sink.operation(&mut FastRows::new(call, reply, caller, &mut counters));
        }
    }

    /// Empty again. Memory of at most `calls_max` calls is kept.
    pub fn clear(&mut self, calls_max: usize) {
        self.calls.clear();
        self.calls.shrink_to(calls_max);
        self.callers.clear();
        self.callers.shrink_to(calls_max);
        self.bytes.clear();
        self.bytes.shrink_to(RESULTS_BYTES * calls_max);
    }
}

/// Of the results of a usual call.
const RESULTS_BYTES: usize = 256;
