//! Several inputs as one, by the stamps of their frames. The inputs read and decompress by
//! themselves; here is only which comes next and how long to wait.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use lineside_frame::Burst;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::{
    CaptureReader, Facts, FolderFile, Followed, Live, LivePort, Port, PortError, Receive, Received,
};

/// Frames that are asked of an input at once: enough to spread the cost of a call, few enough that
/// inputs with sparse frames pin little.
const QUEUE_LEN_MAX: usize = 64;

/// Several inputs as one: the frame with the earliest stamp comes next, of equal ones that of the
/// lower input. Within an input the order stays, so stamps that run backwards there do so here too;
/// a frame without a stamp goes at once.
///
/// A live input that has nothing does not stop the others: their frames go out up to the time until
/// which it is known to be quiet. When none has anything, `receive` waits until one wakes, at most
/// a tenth of a second.
///
/// A file of a folder is opened when the others have come as far as its first frame.
///
/// Each frame gets its [`input`](lineside_frame::Descriptor::input) and its
/// [`ordinal`](lineside_frame::Descriptor::ordinal). If an input fails, what the
/// others hold comes at the calls after the error.
pub struct Merge {
    inputs: Vec<MergeInput>,
    ordinal: u64,
}

/// The longest wait for live inputs: short enough that their caller can look after signals.
const WAIT_MAX: Duration = Duration::from_millis(100);

/// The wait while frames of one input are held up by another of which it is not known that it stays
/// quiet.
const WAIT_HELD_UP: Duration = Duration::from_millis(1);

/// With nothing to do, the merge lets frames gather for so long before it looks again: waking up
/// for each costs several times what a frame does. A ring of the usual size holds more than 5 ms of
/// frames at any rate.
const GATHER: Duration = Duration::from_millis(2);

/// An input of a [`Merge`]: a file, a file of a folder, or a live port.
pub struct MergeInput {
    port: Source,
    /// Frames to come, the next one last.
    queue: Burst,
    ended: bool,
    /// A live input without a next frame: those to come have arrived after this.
    quiet_until_ns: Option<i64>,
    /// Of a file that is not open yet, the stamp of its first frame: until others have come as far,
    /// it is not opened.
    begins_ns: Option<i64>,
}

enum Source {
    File(Box<dyn Receive>),
    Live(Box<dyn Live>),
}

impl Source {
    fn receive(&mut self) -> &mut dyn Receive {
        match self {
            Self::File(port) => &mut **port,
            Self::Live(port) => &mut **port,
        }
    }

    fn facts(&self) -> Vec<&Facts> {
        match self {
            Self::File(port) => port.facts(),
            Self::Live(port) => port.facts(),
        }
    }
}

impl MergeInput {
    fn new(port: Source, begins_ns: Option<i64>) -> Self {
        Self {
            port,
            queue: Burst::new(),
            ended: false,
            quiet_until_ns: None,
            begins_ns,
        }
    }

    fn live(&self) -> Option<&dyn Live> {
        match &self.port {
            Source::File(_) => None,
            Source::Live(port) => Some(&**port),
        }
    }

    fn live_mut(&mut self) -> Option<&mut dyn Live> {
        match &mut self.port {
            Source::File(_) => None,
            Source::Live(port) => Some(&mut **port),
        }
    }
}

impl From<CaptureReader> for MergeInput {
    fn from(file: CaptureReader) -> Self {
        Self::new(Source::File(Box::new(file)), None)
    }
}

impl From<FolderFile> for MergeInput {
    fn from(file: FolderFile) -> Self {
        let begins_ns = Some(file.begins_ns());
        Self::new(Source::File(Box::new(file)), begins_ns)
    }
}

impl From<Followed> for MergeInput {
    fn from(file: Followed) -> Self {
        Self::new(Source::File(Box::new(file)), None)
    }
}

impl From<Box<dyn LivePort>> for MergeInput {
    fn from(port: Box<dyn LivePort>) -> Self {
        Self::new(Source::Live(port), None)
    }
}

impl From<Box<dyn Live>> for MergeInput {
    fn from(port: Box<dyn Live>) -> Self {
        Self::new(Source::Live(port), None)
    }
}

impl Merge {
    /// Merges `inputs`; with one of them it only numbers its frames.
    pub fn new<I: Into<MergeInput>>(inputs: impl IntoIterator<Item = I>) -> Self {
        Self {
            inputs: inputs.into_iter().map(Into::into).collect(),
            ordinal: 0,
        }
    }

    /// Makes sure that every input which has not ended has its next frame, or is known to be quiet;
    /// if one has none for another reason, returns that reason.
    fn refill(&mut self, max: usize) -> Result<Option<Received>, PortError> {
        for input in &mut self.inputs {
            if !input.wants_frames() {
                continue;
            }
            let received = input.port.receive().receive(&mut input.queue, max);
            match received.inspect_err(|_| input.ended = true)? {
                Received::Frames(_) => {
                    input.queue.reverse();
                    input.quiet_until_ns = None;
                }
                Received::End => input.ended = true,
                Received::Idle { until_ns } => input.quiet_until_ns = Some(until_ns),
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
            let Some(time_ns) = input.time_ns() else {
                continue;
            };
            let key = (time_ns, index);
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

    /// Waits until an input without a next frame wakes.
    fn wait(&mut self) -> Result<Received, PortError> {
        let waiting = |input: &&MergeInput| input.wants_frames();
        let idle: Vec<_> = self.inputs.iter().filter(waiting).collect();
        let until_ns = self.inputs.iter().filter_map(MergeInput::time_ns).min();
        let is_holding = self.inputs.iter().any(|input| !input.queue.is_empty());
        let wait = if is_holding { WAIT_HELD_UP } else { WAIT_MAX };
        let _ = poll(&mut [], Some(&timespec(GATHER)));
        let mut descriptors: Vec<BorrowedFd<'_>> = Vec::with_capacity(idle.len());
        for port in idle.iter().filter_map(|input| input.live()) {
            port.wake_on(&mut descriptors);
        }
        let mut polled: Vec<_> = descriptors
            .iter()
            .map(|descriptor| PollFd::from_borrowed_fd(*descriptor, PollFlags::IN))
            .collect();
        match poll(&mut polled, Some(&timespec(wait))) {
            // A signal: time goes on all the same, however many of them come.
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(cause) => {
                let name = self.name();
                return Err(PortError::Wait {
                    name,
                    cause: cause.into(),
                });
            }
        }
        Ok(Received::Idle {
            until_ns: until_ns.unwrap_or(i64::MIN),
        })
    }

    fn name(&self) -> String {
        let facts = self.facts();
        let names: Vec<_> = facts.iter().map(|facts| facts.name.as_str()).collect();
        names.join(", ")
    }
}

impl MergeInput {
    fn next_stamp_ns(&self) -> Option<i64> {
        let frame = self.queue.last()?;
        Some(frame.descriptor().stamp_ns.unwrap_or(i64::MIN))
    }

    /// Nothing earlier comes from here; `None` if nothing comes at all.
    fn time_ns(&self) -> Option<i64> {
        let quiet = || self.quiet_until_ns.filter(|_| !self.ended);
        self.next_stamp_ns().or(self.begins_ns).or_else(quiet)
    }

    fn wants_frames(&self) -> bool {
        !self.ended && self.queue.is_empty() && self.begins_ns.is_none()
    }
}

fn timespec(time: Duration) -> Timespec {
    Timespec {
        tv_sec: 0,
        tv_nsec: time.subsec_nanos().into(),
    }
}

impl Port for Merge {
    fn facts(&self) -> Vec<&Facts> {
        self.inputs
            .iter()
            .flat_map(|input| input.port.facts())
            .collect()
    }
}

impl Receive for Merge {
    fn receive(&mut self, burst: &mut Burst, max: usize) -> Result<Received, PortError> {
        if let [input] = &mut self.inputs[..] {
            let before = burst.len();
            let received = input.port.receive().receive(burst, max);
            for frame in &mut burst[before..] {
                self.ordinal += 1;
                frame.descriptor_mut().ordinal = self.ordinal;
            }
            return match received {
                Ok(Received::Idle { until_ns }) => {
                    input.quiet_until_ns = Some(until_ns);
                    self.wait()
                }
                other => other,
            };
        }
        let mut count = 0;
        while count < max {
            // What is merged goes out before an input is asked that might wait.
            if count > 0 && self.inputs.iter().any(MergeInput::wants_frames) {
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
            if self.inputs[index].queue.is_empty() {
                if self.inputs[index].begins_ns.take().is_some() {
                    continue;
                }
                return self.wait();
            }
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
                let descriptor = frame.descriptor_mut();
                // A port of several files counts those itself, and is the last one.
                descriptor.input += index as u16;
                descriptor.ordinal = self.ordinal;
                burst.push(frame);
                count += 1;
            }
        }
        Ok(Received::Frames(count))
    }

    /// Frames that wait for their turn go back too.
    fn leave(&mut self, ahead: &mut Burst) {
        let last = self.inputs.len().saturating_sub(1);
        for mut frame in ahead.drain(..) {
            // A port of several files is the last one, and counts from its own place.
            let descriptor = frame.descriptor_mut();
            let index = usize::from(descriptor.input).min(last);
            descriptor.input -= index as u16;
            if let Some(input) = self.inputs.get_mut(index) {
                input.queue.push(frame);
            }
        }
        for input in &mut self.inputs {
            input.port.receive().leave(&mut input.queue);
            input.ended = true;
        }
    }
}

/// Of the inputs that are files there is nothing to wake on, to account or to shut.
impl Live for Merge {
    fn wake_on<'a>(&'a self, descriptors: &mut Vec<BorrowedFd<'a>>) {
        for port in self.inputs.iter().filter_map(MergeInput::live) {
            port.wake_on(descriptors);
        }
    }

    fn backlog(&self) -> f32 {
        let backlogs = self
            .inputs
            .iter()
            .filter_map(MergeInput::live)
            .map(Live::backlog);
        backlogs.fold(0.0, f32::max)
    }

    fn account(&mut self) {
        for port in self.inputs.iter_mut().filter_map(MergeInput::live_mut) {
            port.account();
        }
    }

    fn shut(&mut self) {
        for port in self.inputs.iter_mut().filter_map(MergeInput::live_mut) {
            port.shut();
        }
    }
}
