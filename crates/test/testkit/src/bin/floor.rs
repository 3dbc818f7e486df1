//! `floor FILE`: the least that reading a capture with checksums can cost, for `bench/`. Walks the
//! records of a little-endian Ethernet pcap in one reused buffer and takes XXH3 of each 512 bytes
//! of TCP payload, as they lie in their frames. It understands nothing.
#![forbid(unsafe_code)]

use std::fs::File;
use std::io::Read;

use anyhow::Context;
use lineside_wire::{ethernet, ipv4, tcp};
use twox_hash::XxHash3_64;

fn main() -> anyhow::Result<()> {
    let path = std::env::args().nth(1).context("usage: floor FILE")?;
    let mut file = File::open(&path).with_context(|| path.clone())?;
    let mut buffer = vec![0; 1 << 20];
    file.read_exact(&mut buffer[..24])?;
    let (mut filled, mut at) = (0, 0);
    let (mut frames, mut blocks, mut mixed) = (0u64, 0u64, 0u64);
    loop {
        // A record that straddles the end moves to the front.
        buffer.copy_within(at..filled, 0);
        filled -= at;
        at = 0;
        let got = file.read(&mut buffer[filled..])?;
        if got == 0 {
            break;
        }
        filled += got;
        while let Some(header) = buffer[..filled].get(at..at + 16) {
            let len = u32::from_le_bytes([header[8], header[9], header[10], header[11]]) as usize;
            let Some(frame) = buffer[..filled].get(at + 16..at + 16 + len) else {
                break;
            };
            frames += 1;
            if let Some(payload) = payload(frame) {
                for block in payload.chunks_exact(512) {
                    mixed ^= XxHash3_64::oneshot(block);
                    blocks += 1;
                }
            }
            at += 16 + len;
        }
    }
    println!("{frames} frames, {blocks} blocks, {mixed:016x}");
    Ok(())
}

/// The payload of TCP over IPv4 over Ethernet.
fn payload(frame: &[u8]) -> Option<&[u8]> {
    let packet = frame.get(ethernet::HEADER_LEN..)?;
    let header = packet.first_chunk::<{ ipv4::HEADER_LEN }>()?;
    let segment = packet.get(ipv4::Packet::new_unchecked(header).header_len()..)?;
    let header = segment.first_chunk::<{ tcp::HEADER_LEN }>()?;
    segment.get(tcp::Segment::new_unchecked(header).header_len()..)
}
