//! Capture files: readers of pcap and pcapng, whatever the bytes are and however they come.

use lineside_account::Budget;
use lineside_frame::{Burst, Descriptor, Frame, Range};
use lineside_port::{CaptureReader, PoolConfig, Port, PortError, Receive, Received};

use super::{Bytes, Pieces};

/// Bytes of a decompressed file that are read: a bomb is no fault, only slow.
const READ_MAX: usize = 8 << 20;

pub(crate) fn run(data: &[u8]) {
    let mut bytes = Bytes(data);
    let choice = bytes.last();
    let (at_once, cause) = read(bytes.0, usize::MAX, 256);
    let (slowly, cause_slowly) = read(
        bytes.0,
        1 + usize::from(choice),
        1 + usize::from(choice % 7),
    );
    if [&cause, &cause_slowly].contains(&&Some("Decompress".to_owned())) {
        // How much a decompressor returns before it finds a fault depends on how it is given its
        // input.
        return;
    }
    assert_eq!(
        cause, cause_slowly,
        "a fault depends on how the file is read"
    );
    assert_eq!(at_once, slowly, "frames depend on how the file is read");
}

type Frames = Vec<(Descriptor, Vec<u8>)>;

fn read(bytes: &[u8], len_max: usize, burst_max: usize) -> (Frames, Option<String>) {
    let budget = Budget::new(64 << 20);
    let outcome = {
        let pool = PoolConfig::new(budget.clone(), 1 << 20);
        let source = Pieces {
            bytes: bytes.to_vec(),
            read: 0,
            len_max,
        };
        match CaptureReader::new(Box::new(source), "-", &pool) {
            Ok(reader) => frames(reader, bytes.len(), burst_max),
            Err(error) => (Vec::new(), Some(kind(&error))),
        }
    };
    assert_eq!(budget.used_bytes(), 0);
    outcome
}

fn frames(
    mut reader: CaptureReader,
    file_len: usize,
    burst_max: usize,
) -> (Frames, Option<String>) {
    let (mut frames, mut len, mut cause) = (Vec::new(), 0, None);
    let mut burst = Burst::new();
    let mut held: Vec<Range> = Vec::new();
    let (mut spilled, mut last_number) = (false, 0);
    loop {
        match reader.receive(&mut burst, burst_max) {
            Ok(Received::Frames(count)) => {
                assert!((1..=burst_max).contains(&count) && count == burst.len());
            }
            Ok(Received::End) => break,
            Ok(Received::PoolEmpty) => {
                assert!(!spilled, "the pool stays empty although nothing is held");
                held.clear();
                spilled = true;
                continue;
            }
            Ok(Received::Interrupted | Received::Idle { .. }) => {
                unreachable!("the source is memory")
            }
            Err(error) => {
                assert!(cause.is_none(), "{error} after the end");
                cause = Some(kind(&error));
            }
        }
        spilled = false;
        for frame in burst.drain(..).map(Frame::share) {
            let descriptor = *frame.descriptor();
            // Numbers are Wireshark's, which has some for blocks that are no frames.
            assert!(descriptor.number > last_number);
            last_number = descriptor.number;
            assert!(descriptor.wire_len as usize >= frame.bytes().len());
            len += frame.bytes().len();
            frames.push((descriptor, frame.bytes().to_vec()));
            held.push(Range::bound(&frame, 0, frame.bytes().len()));
        }
        if len > READ_MAX {
            return (Vec::new(), Some("much".to_owned()));
        }
    }
    assert!(reader.facts()[0].compression.is_some() || len <= file_len);
    assert_eq!(reader.facts()[0].frames, frames.len() as u64);
    (frames, cause)
}

/// The kind of an error, without the place: what is read before a fault may differ.
fn kind(error: &PortError) -> String {
    match error {
        PortError::Damaged { place, what, .. } => format!("{place} {what}"),
        other => {
            let text = format!("{other:?}");
            text.split([' ', '{']).next().unwrap_or_default().to_owned()
        }
    }
}
