//! What a protocol over streams is to the generator: a client that makes requests and finds their
//! answers, and a server.

use std::borrow::Cow;

use lineside_rows::OperationRow;
use lineside_time::Nanoseconds;
use serde::{Deserialize, Serialize};

/// The bytes that came are no answer: the connection is of no use any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Broken;

/// The requests of a connection that wait for an answer.
pub trait Outstanding {
    /// The oldest of them.
    fn oldest(&mut self) -> Option<Request>;

    /// The one with this number, as far as 32 bits show it.
    fn request(&mut self, number: u32) -> Option<Request>;

    /// An answer is over. Without a request that it answers, the bytes are [`Broken`].
    fn answered(&mut self, answer: Answer) -> Result<(), Broken>;
}

/// What an answer says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Answer {
    /// The protocol's own status: of HTTP its code, of NFS `nfsstat3`.
    pub status: u32,
    /// Whether the status reports success.
    pub is_success: bool,
    /// Bytes of its content: a body, a value, data that were read, or that it says were written.
    pub content_bytes: u64,
    /// The server ends the connection after it.
    pub closes: bool,
    /// Which of the outstanding requests it answers: the number that [`Client::write`] was given,
    /// as far as 32 bits show it; `None` for the oldest one.
    pub request: Option<u32>,
    /// Which of the protocol's [operations](Named::operations) it answers.
    pub operation: u8,
}

/// A request of a client, by numbers from which its bytes follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// Its number within the run.
    pub ordinal: u64,
    /// The slot of its connection.
    pub slot: u32,
}

/// What a client calls its requests and their answers.
pub trait Named {
    /// What a request is called in `operations`: `GET`.
    fn operation(&self, request: Request) -> &'static str;

    /// The operations that have times of their own; empty: there is one kind.
    fn operations(&self) -> &'static [&'static str] {
        &[]
    }

    /// What a status is called in `operations`.
    fn status(&self, status: u32) -> Cow<'static, str> {
        status.to_string().into()
    }

    /// Sets what else the row of a request has, whose answer had this status: what it asks, and
    /// of which file.
    fn describe(&self, request: Request, status: Option<u32>, row: &mut OperationRow) {
        let _ = (request, status, row);
    }
}

/// The client's side of a protocol over a byte stream.
pub trait Client: Named {
    /// What is kept of an answer that is not over; the default before the first and after each.
    type Reader: Default;

    /// Whether the peer's TCP answers: a request is over when all its bytes are acknowledged.
    const IS_ACKNOWLEDGED: bool = false;

    /// Whether the server sends without being asked: bytes may come before the request that they
    /// answer, and are read all the same. The reader stays with the connection.
    const IS_UNASKED: bool = false;

    /// Appends a request. The same request has the same bytes whenever it is asked for: they are
    /// written again for a retransmission.
    fn write(&mut self, request: Request, out: &mut Vec<u8>);

    /// The length of a request that [`fill`](Self::fill) writes by parts, so that it never lies in
    /// memory whole; `None`: [`write`](Self::write) has it.
    fn len(&mut self, _request: Request) -> Option<u64> {
        None
    }

    /// Writes the part of such a request from `offset` on.
    fn fill(&mut self, _request: Request, _offset: u64, _bytes: &mut [u8]) {}

    /// Reads all that has come, and reports each answer that ends in it.
    fn read(
        &mut self,
        reader: &mut Self::Reader,
        bytes: &[u8],
        outstanding: &mut impl Outstanding,
    ) -> Result<(), Broken>;

    /// Bytes that came and are of no answer that is over, where that can be
    /// [before a request](Self::IS_UNASKED).
    fn came(&self, _reader: &Self::Reader) -> u64 {
        0
    }

    /// The peer has no more data: an answer may be over by that.
    fn end(
        &mut self,
        _reader: &mut Self::Reader,
        _outstanding: &mut impl Outstanding,
    ) -> Result<(), Broken> {
        Ok(())
    }

    /// A connection is over: what its reader holds elsewhere goes back.
    fn release(&mut self, _reader: Self::Reader) {}
}

/// What a server answers is taken from here, a piece at a time.
pub trait Answers<C> {
    /// Bytes that are kept until the client acknowledges them.
    fn bytes(&mut self, bytes: &[u8]);
    /// `len` bytes of a content that [`Server::content`] writes whenever it is asked, so that
    /// nothing is kept.
    fn content(&mut self, content: C, len: u64);
    /// The connection ends after what was answered so far.
    fn close(&mut self);
    /// A request was read: for the count.
    fn request(&mut self);
}

/// The server's side of a protocol over a byte stream.
pub trait Server {
    /// What is kept of a request that is not over.
    type Reader: Default;
    /// Names a content whose bytes follow from it.
    type Content: Copy;

    /// The time of what comes next.
    fn pass(&mut self, _now: Nanoseconds) {}

    /// Whether it says something when a connection opens.
    const GREETS: bool = false;

    /// Says it.
    fn greet(&mut self, _reader: &mut Self::Reader, _answers: &mut impl Answers<Self::Content>) {}

    /// Whether no request is unfinished: nothing of the reader need be kept.
    fn rests(&self, reader: &Self::Reader) -> bool;

    /// Takes all bytes, and answers the requests that end in them.
    fn read(
        &mut self,
        reader: &mut Self::Reader,
        bytes: &[u8],
        answers: &mut impl Answers<Self::Content>,
    );

    /// A connection is over: what its reader holds elsewhere goes back.
    fn release(&mut self, _reader: Self::Reader) {}

    /// Writes a part of a content.
    fn content(&self, content: Self::Content, offset: u64, bytes: &mut [u8]);
}
