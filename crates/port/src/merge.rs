use lineside_frame::Burst;

use crate::{Facts, Port, PortError, Received};

/// Frames that are asked of an input at once: enough to spread the cost of a call, few enough that
/// inputs with sparse frames pin little.
const QUEUE_LEN_MAX: usize = 64;

/// Several inputs as one: the frame with the earliest stamp comes next, of equal ones that of the
/// lower input. Within an input the order stays, so stamps that run backwards there do so here too;
/// a frame without a stamp goes at once.
///
/// Each frame gets its [`ordinal`](lineside_frame::Descriptor::ordinal). If an input fails, what the
/// others hold comes at the calls after the error.
pub struct Merge {
    inputs: Vec<Input>,
    ordinal: u64,
}

struct Input {
    port: Box<dyn Port>,
    /// Frames to come, the next one last.
    queue: Burst,
    ended: bool,
}

impl Merge {
    /// Merges `ports`; with one of them it only numbers its frames.
    pub fn new(ports: Vec<Box<dyn Port>>) -> Self {
        let inputs = ports
            .into_iter()
            .map(|port| Input {
                port,
                queue: Burst::new(),
                ended: false,
            })
            .collect();
        Self { inputs, ordinal: 0 }
    }

    /// Makes sure that every input which has not ended has its next frame; if one has none for now,
    /// says why.
    fn refill(&mut self, max: usize) -> Result<Option<Received>, PortError> {
        for input in &mut self.inputs {
            if input.ended || !input.queue.is_empty() {
                continue;
            }
            let received = input.port.receive(&mut input.queue, max);
            match received.inspect_err(|_| input.ended = true)? {
                Received::Frames(_) => input.queue.reverse(),
                Received::End => input.ended = true,
                waiting => return Ok(Some(waiting)),
            }
        }
        Ok(None)
    }

    /// The input whose turn it is, and the key up to which it stays so.
    fn first_and_second(&self) -> Option<(usize, (i64, usize))> {
        let mut first = None;
        let mut second = (i64::MAX, usize::MAX);
        for (index, input) in self.inputs.iter().enumerate() {
            let Some(stamp_ns) = input.next_stamp_ns() else {
                continue;
            };
            let key = (stamp_ns, index);
            match first {
                Some(earliest) if earliest < key => second = second.min(key),
                _ => {
                    second = first.unwrap_or(second);
                    first = Some(key);
                }
            }
        }
        first.map(|(_, index)| (index, second))
    }
}

impl Input {
    fn next_stamp_ns(&self) -> Option<i64> {
        let frame = self.queue.last()?;
        Some(frame.descriptor().stamp_ns.unwrap_or(i64::MIN))
    }
}

impl Port for Merge {
    fn receive(&mut self, burst: &mut Burst, max: usize) -> Result<Received, PortError> {
        if let [input] = &mut self.inputs[..] {
            let before = burst.len();
            let received = input.port.receive(burst, max);
            for frame in &mut burst[before..] {
                self.ordinal += 1;
                frame.descriptor_mut().ordinal = self.ordinal;
            }
            return received;
        }
        let mut count = 0;
        while count < max {
            // What is merged goes out before an input is asked that might wait.
            if count > 0
                && self
                    .inputs
                    .iter()
                    .any(|input| !input.ended && input.queue.is_empty())
            {
                break;
            }
            if let Some(waiting) = self.refill(QUEUE_LEN_MAX)? {
                return Ok(waiting);
            }
            let Some((index, second)) = self.first_and_second() else {
                return Ok(if count > 0 {
                    Received::Frames(count)
                } else {
                    Received::End
                });
            };
            let input = &mut self.inputs[index];
            while count < max
                && input
                    .next_stamp_ns()
                    .is_some_and(|stamp| (stamp, index) < second)
            {
                let Some(mut frame) = input.queue.pop() else {
                    break;
                };
                self.ordinal += 1;
                frame.descriptor_mut().ordinal = self.ordinal;
                burst.push(frame);
                count += 1;
            }
        }
        Ok(Received::Frames(count))
    }

    fn transmit(&mut self, _burst: &mut Burst) -> Result<usize, PortError> {
        let names: Vec<_> = self
            .facts()
            .iter()
            .map(|facts| facts.name.as_str())
            .collect();
        Err(PortError::ReceivesOnly {
            name: names.join(", "),
        })
    }

    fn reclaim(&mut self) -> usize {
        self.inputs
            .iter_mut()
            .map(|input| input.port.reclaim())
            .sum()
    }

    fn facts(&self) -> Vec<&Facts> {
        self.inputs
            .iter()
            .flat_map(|input| input.port.facts())
            .collect()
    }
}
