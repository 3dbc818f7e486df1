//! Protocols whose messages are datagrams: one request or answer each.

use lineside_time::Nanoseconds;

use super::{Answer, Named, Request};
use crate::application::End;

/// A request in a datagram, by numbers from which its bytes follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Numbered {
    /// Its number within the run, and its flow.
    pub request: Request,
    /// Its number within its flow, from 0.
    pub number: u64,
}

/// What an answer shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Heard {
    /// Of the number of its request within the flow, the low [bits](DatagramClient::NUMBER_BITS).
    pub number: u64,
    /// What it says.
    pub answer: Answer,
}

/// The client's side of a protocol of datagrams.
pub trait DatagramClient: Named {
    /// So many bits of a request's number come back with its answer; a request is not sent while
    /// another one of its flow that has the same ones waits for an answer.
    const NUMBER_BITS: u32;

    /// Whether requests are never answered: each is over when it has left.
    fn is_one_way(&self) -> bool {
        false
    }

    /// How many bytes a request has.
    fn len(&mut self, message: Numbered) -> usize;

    /// Writes a request, which leaves at `leaves_ns`.
    fn write(&mut self, message: Numbered, leaves_ns: Nanoseconds, bytes: &mut [u8]);

    /// Reads what came to a flow; `None`: it is no answer.
    fn read(&mut self, flow: u32, bytes: &[u8]) -> Option<Heard>;

    /// Whether an answer that shows this request's number is one to it.
    fn is_answer_to(&mut self, _message: Numbered, _bytes: &[u8]) -> bool {
        true
    }

    /// Which of its [operations](Named::operations) a request is.
    fn operation_number(&self, _request: Request) -> u8 {
        0
    }
}

/// The server's side of a protocol of datagrams.
pub trait DatagramServer {
    /// A datagram came, from the other end to ours, at `at`. Its answer is appended to `answer`,
    /// if it has one; returns whether it was a request.
    fn read(&mut self, ends: [End; 2], at: Nanoseconds, bytes: &[u8], answer: &mut Vec<u8>)
    -> bool;
}
