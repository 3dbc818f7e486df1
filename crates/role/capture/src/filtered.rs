//! A port behind a filter. The expression is compiled by `lineside-filter`; a filter in the kernel
//! is the port's own.

use lineside_account::{Counter, Counters};
use lineside_filter::{Filter, Program};
use lineside_frame::{Burst, FrameRef, LinkType};
use lineside_port::{PortError, Receive, Received, Wrapper};

/// A port of which only the frames that match a filter come out, as far as the snap length.
///
/// A frame that does not match has the outcome `filtered` and leaves no other trace: its stamp is
/// not part of the run's time, so the rows are those of a capture that never held it. Numbers are
/// those of the input all the same.
///
/// Frames of a link type that filters do not know are let through, to be counted as such. If the
/// filter asks for what a known link type does not have, its first frame ends the port with an
/// error.
pub struct Filtered<P> {
    port: P,
    filter: Option<Filter>,
    /// For each link type met so far; `None` lets all pass.
    programs: Vec<(LinkType, Option<Program>)>,
    is_live: bool,
    snap_len: Option<usize>,
    counters: Counters,
    has_failed: bool,
}

impl<P: Receive> Filtered<P> {
    /// Puts `filter` behind `port`; without one, all frames come out.
    pub fn new(port: P, filter: Option<Filter>) -> Self {
        Self {
            port,
            filter,
            programs: Vec::new(),
            is_live: false,
            snap_len: None,
            counters: Counters::new(),
            has_failed: false,
        }
    }

    /// The frames arrive at interfaces: those match that the kernel would let through to a packet
    /// socket, which sees the outer VLAN tag beside a frame.
    pub fn live(self, is_live: bool) -> Self {
        Self { is_live, ..self }
    }

    /// Keeps this many bytes of each frame; 0: all.
    pub fn cut_at(self, snap_len: u32) -> Self {
        let snap_len = (snap_len > 0).then_some(snap_len as usize);
        Self { snap_len, ..self }
    }

    /// What was counted of the frames that did not come out, whom nobody else sees.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Whether the frame passes. Fails with the reason if its link type lacks what the filter asks
    /// for.
    fn passes(&mut self, filter: &Filter, frame: &FrameRef) -> Result<bool, String> {
        if frame.descriptor().has_passed {
            return Ok(true);
        }
        let link_type = frame.descriptor().link_type;
        let place = match self
            .programs
            .iter()
            .position(|(each, _)| *each == link_type)
        {
            Some(place) => place,
            None => {
                let program = if Filter::knows(link_type.0) {
                    let program = match self.is_live {
                        true => filter.compile_live(link_type.0),
                        false => filter.compile(link_type.0),
                    };
                    Some(program.map_err(|error| error.to_string())?)
                } else {
                    None
                };
                self.programs.push((link_type, program));
                self.programs.len() - 1
            }
        };
        let Some(program) = &self.programs[place].1 else {
            return Ok(true);
        };
        let (bytes, wire_len) = (frame.bytes(), frame.descriptor().wire_len);
        Ok(match self.is_live && link_type == LinkType::ETHERNET {
            true => program.matches_arriving(bytes, wire_len),
            false => program.matches(bytes, wire_len),
        })
    }

    fn count(&mut self, frame: &FrameRef) {
        self.counters.count(Counter::FramesFiltered);
        count_unread(&mut self.counters, frame);
        // Live, one tag hides nothing.
        let is_tagged = !self.is_live
            && frame.descriptor().link_type == LinkType::ETHERNET
            && lineside_wire::ethernet::is_tagged(frame.bytes());
        self.counters
            .add(Counter::FramesFilteredTagged, is_tagged.into());
    }

    /// Takes the frames from `start` on that do not match out of `burst`; returns how many are left
    /// of them.
    fn filter(
        &mut self,
        filter: &Filter,
        burst: &mut Burst,
        start: usize,
    ) -> Result<usize, PortError> {
        let mut kept = start;
        for at in start..burst.len() {
            match self.passes(filter, &burst[at]) {
                Ok(true) => {
                    burst.swap(kept, at);
                    kept += 1;
                }
                Ok(false) => self.count(&burst[at]),
                Err(why) => {
                    self.has_failed = true;
                    let descriptor = *burst[at].descriptor();
                    burst.truncate(kept);
                    let facts = self.port.facts();
                    let name = facts.get(usize::from(descriptor.input));
                    return Err(PortError::Unfilterable {
                        name: name.map_or_else(String::new, |facts| facts.name.clone()),
                        frame: descriptor.number,
                        why,
                    });
                }
            }
        }
        burst.truncate(kept);
        Ok(kept - start)
    }
}

/// Counts what is counted of each frame, of one that does not come out; its outcome is the
/// caller's.
pub(crate) fn count_unread(counters: &mut Counters, frame: &FrameRef) {
    let descriptor = frame.descriptor();
    let is_cut = frame.bytes().len() < descriptor.wire_len as usize;
    counters.count(Counter::FramesReceived);
    counters.add(Counter::FrameBytes, descriptor.wire_len.into());
    counters.add(Counter::FramesCut, is_cut.into());
    counters.add(Counter::StampsMissing, descriptor.stamp_ns.is_none().into());
}

impl<P: Receive> Wrapper for Filtered<P> {
    type Port = P;

    fn port(&self) -> &P {
        &self.port
    }

    fn port_mut(&mut self) -> &mut P {
        &mut self.port
    }

    fn pass(&mut self, burst: &mut Burst, max: usize) -> Result<Received, PortError> {
        if self.has_failed {
            return Ok(Received::End);
        }
        let start = burst.len();
        let mut received = self.port.receive(burst, max);
        if let Some(filter) = self.filter.take() {
            let kept = self.filter(&filter, burst, start);
            self.filter = Some(filter);
            received = match (received, kept?) {
                (Ok(Received::Frames(_)), kept) => Ok(Received::Frames(kept)),
                (other, _) => other,
            };
        }
        if let Some(len) = self.snap_len {
            burst[start..]
                .iter_mut()
                .for_each(|frame| frame.truncate(len));
        }
        received
    }
}

#[cfg(test)]
mod tests {
    use lineside_frame::{Descriptor, Frame};
    use lineside_testkit::memory::{Ends, Memory};
    use lineside_wire::build::FrameBuilder;

    use super::*;

    /// Gives its frames two at a time.
    struct Frames(Vec<Frame>);

    impl Ends for Frames {
        fn take(&mut self, burst: &mut Burst, max: usize) -> Result<Received, PortError> {
            let count = max.min(2).min(self.0.len());
            burst.extend(self.0.drain(..count));
            Ok(if count == 0 {
                Received::End
            } else {
                Received::Frames(count)
            })
        }
    }

    fn frame(number: u64, link_type: u16, port: u16) -> Frame {
        let builder = FrameBuilder::new([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
        let bytes = builder.with_link_type(link_type).udp(700, port, b"data");
        let descriptor = Descriptor {
            number,
            wire_len: bytes.len() as u32 + 1,
            link_type: LinkType(link_type),
            ..Descriptor::default()
        };
        Frame::copied(&bytes, descriptor)
    }

    /// The numbers that come out, and the error if there is one.
    fn through(frames: Vec<Frame>, expression: &str) -> (Vec<u64>, Option<PortError>, Counters) {
        let filter = Filter::parse(expression).expect("is right");
        let mut port = Filtered::new(Memory(Frames(frames)), Some(filter));
        let mut burst = Burst::new();
        let mut failure = None;
        loop {
            match port.receive(&mut burst, 256) {
                Ok(Received::End) => break,
                Ok(_) => {}
                Err(error) => failure = Some(error),
            }
        }
        let numbers = burst
            .iter()
            .map(|frame| frame.descriptor().number)
            .collect();
        (numbers, failure, port.counters().clone())
    }

    #[test]
    fn frames_that_do_not_match_are_counted_and_dropped() {
        let frames = [111, 2049, 2049, 111, 111, 111, 2049];
        let frames = (1..)
            .zip(frames)
            .map(|(number, port)| frame(number, 1, port));
        let (numbers, failure, counters) = through(frames.collect(), "port 2049");
        assert!(failure.is_none());
        assert_eq!(numbers, [2, 3, 7]);
        assert_eq!(counters.value(Counter::FramesFiltered), 4);
        assert_eq!(counters.value(Counter::FramesReceived), 4);
        assert_eq!(counters.value(Counter::FramesCut), 4);
        assert_eq!(counters.value(Counter::StampsMissing), 4);
        assert_eq!(
            counters.value(Counter::FrameBytes),
            4 * (14 + 20 + 8 + 4 + 1)
        );
        assert_eq!(counters.broken_identity(), None);
    }

    #[test]
    fn each_link_type_has_its_program_and_an_unknown_one_passes() {
        let frames = vec![
            frame(1, 1, 111),
            frame(2, 147, 111),
            frame(3, 101, 2049),
            frame(4, 101, 111),
        ];
        let (numbers, failure, _) = through(frames, "port 2049");
        assert!(failure.is_none());
        assert_eq!(numbers, [2, 3]);
    }

    #[test]
    fn live_a_tag_hides_nothing_and_what_passed_is_not_asked_again() {
        let tagged = |number, has_passed| {
            let plain = frame(number, 1, 2049);
            let mut bytes = plain.bytes().to_vec();
            bytes.splice(12..12, [0x81, 0, 0, 7]);
            let descriptor = Descriptor {
                has_passed,
                ..*plain.descriptor()
            };
            Frame::copied(&bytes, descriptor)
        };
        let left = |expression: &str, is_live| {
            let frames = Memory(Frames(vec![tagged(1, false), tagged(2, true)]));
            let filter = Filter::parse(expression).expect("is right");
            let mut port = Filtered::new(frames, Some(filter)).live(is_live).cut_at(20);
            let mut burst = Burst::new();
            let received = port.receive(&mut burst, 256).expect("no failure");
            assert!(burst.iter().all(|frame| frame.bytes().len() == 20));
            assert!(burst.iter().all(|frame| frame.descriptor().wire_len > 20));
            received
        };
        assert_eq!(left("udp port 2049", true), Received::Frames(2));
        assert_eq!(left("udp port 2049", false), Received::Frames(1));
        assert_eq!(left("vlan 8", true), Received::Frames(1));
    }

    #[test]
    fn a_filter_that_does_not_fit_a_link_type_ends_the_port() {
        let frames = vec![frame(1, 1, 111), frame(2, 101, 2049), frame(3, 1, 111)];
        let (numbers, failure, _) = through(frames, "ether src 2:0:0:0:0:1");
        let failure = failure.expect("raw IP has no Ethernet header").to_string();
        assert!(
            failure.contains("frame 2") && failure.contains("^^^"),
            "{failure}"
        );
        assert_eq!(numbers, [1]);
    }
}
