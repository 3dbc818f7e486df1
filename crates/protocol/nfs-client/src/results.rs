//! What a reply says, as it lies in its message.

use lineside_frame::Cursor;
use lineside_nfs::v4::{self, Segment};
use lineside_rpc::xdr::{Name, Xdr};

use crate::header::{Broken, Refusal};

/// A reply.
#[derive(Debug, Clone, Copy)]
pub struct Reply<'a> {
    /// That of its call; `None` if no call waits for it: the call timed out, or this datagram is a
    /// second answer.
    pub tag: Option<u64>,
    /// That of its call.
    pub xid: u32,
    /// How the call was answered. Of a compound the results of SEQUENCE are part.
    pub answer: Answer<'a>,
}

/// How a call was answered.
#[derive(Debug, Clone, Copy)]
pub enum Answer<'a> {
    /// It was executed.
    Results(Results<'a>),
    /// It was not.
    Refused(Refusal),
}

/// The results of a call, to be read by its procedure.
#[derive(Debug, Clone, Copy)]
pub struct Results<'a> {
    message: &'a [u8],
    cursor: Cursor<'a>,
}

/// Operations in an answer: above what servers allow in a call.
const OPERATIONS_MAX: u32 = 4_096;
/// Segments of a READ_PLUS.
const SEGMENTS_MAX: u32 = 1 << 16;

impl<'a> Results<'a> {
    pub(crate) fn new(message: &'a [u8], cursor: Cursor<'a>) -> Self {
        Self { message, cursor }
    }

    /// At the first byte of the results; positions are those of [`message`](Self::message).
    pub fn cursor(&self) -> Cursor<'a> {
        self.cursor
    }

    /// The whole reply.
    pub fn message(&self) -> &'a [u8] {
        self.message
    }

    /// Bytes of data at the cursor's place, such as those of a READ of NFSv3.
    pub fn data(&self, cursor: &Cursor<'a>, len: u32) -> Result<&'a [u8], Broken> {
        let rest = self.message.get(cursor.position()..).ok_or(Broken)?;
        rest.get(..len as usize).ok_or(Broken)
    }

    /// The results of a compound.
    pub fn compound(&self) -> Result<Compound<'a>, Broken> {
        let mut cursor = self.cursor;
        let header = v4::ReplyHeader::decode(&mut cursor);
        let (Some(status), Some(tag), Some(count)) =
            (header.status, header.tag, header.operation_count)
        else {
            return Err(Broken);
        };
        if cursor.fault().is_some() || count > OPERATIONS_MAX {
            return Err(Broken);
        }
        Ok(Compound {
            status,
            tag,
            results: Self {
                message: self.message,
                cursor,
            },
            left: count,
        })
    }
}

/// The results of a compound, one after the other; those of SEQUENCE too.
#[derive(Debug, Clone, Copy)]
pub struct Compound<'a> {
    /// That of the last operation.
    pub status: v4::Status,
    /// As the call had it.
    pub tag: Name<'a>,
    results: Results<'a>,
    left: u32,
}

impl<'a> Compound<'a> {
    fn read(&mut self) -> Result<(v4::Reply<'a>, &'a [u8]), Broken> {
        let Results { message, cursor } = &mut self.results;
        let reply = v4::Reply::decode(cursor);
        let start = cursor.position();
        let mut end = start;
        if let Some(len) = reply.data_len() {
            end += len as usize;
            v4::skip_data(cursor, len).ok_or(Broken)?;
        }
        for _ in 0..reply.segment_count().unwrap_or(0).min(SEGMENTS_MAX) {
            let segment = Segment::decode(cursor);
            if let Some(len) = segment.data_len() {
                v4::skip_data(cursor, len).ok_or(Broken)?;
            }
            if cursor.fault().is_some() {
                return Err(Broken);
            }
            end = cursor.position();
        }
        if cursor.fault().is_some() {
            return Err(Broken);
        }
        Ok((reply, message.get(start..end).ok_or(Broken)?))
    }
}

impl<'a> Iterator for Compound<'a> {
    /// An operation's results, with the data of READ, or the segments of READ_PLUS as they lie.
    type Item = Result<(v4::Reply<'a>, &'a [u8]), Broken>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let read = self.read();
        if read.is_err() {
            self.left = 0;
        }
        Some(read)
    }
}
