//! Several inputs as one, by the stamps of their frames. The inputs read and decompress by
//! themselves; here is only which comes next and how long to wait.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use lineside_frame::Burst;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::{
    CaptureReader, Facts, FolderFile, Live, LivePort, Port, PortError, Receive, Received, Tail,
};

/// Frames that are asked of an input at once where several are open: enough to spread the cost of a
/// call, few enough that inputs with sparse frames pin little.
const QUEUE_LEN_MAX: usize = 64;

/// Frames that are asked of all inputs together: those of very many get shorter queues. A guess:
/// 512 KiB of handles.
const QUEUED_MAX: usize = 8192;
/// Frames that are asked of an input however many there are.
const QUEUE_LEN_MIN: usize = 8;

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
///
/// An input that waits for its turn, or that has ended, costs memory and no time: of n inputs the
/// next one is found in O(log n) steps.
///
/// ```text
///  not begun ──► waiting, by stamp ──► hungry ──► ended
///                       ▲                │ receive
///                       └── has frames ──┘
/// ```
pub struct Merge {
    inputs: Vec<MergeInput>,
    ordinal: u64,
    /// Inputs with a next frame, or not begun, each once, by the stamp of that frame.
    waiting: BinaryHeap<Reverse<Turn>>,
    /// Inputs that have no next frame and have not ended, in their order.
    hungry: Vec<usize>,
    /// Inputs that have begun and not ended, in their order.
    open: Vec<usize>,
    /// Of those that have ended.
    ended: Totals,
}

/// When an input's turn is: the time of what comes next from it, and its place.
type Turn = (i64, usize);

/// Sums over all inputs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// Of [`Facts::bytes`].
    pub bytes: u64,
    /// Of [`Facts::lapses`].
    pub lapses: u64,
}

impl Totals {
    fn add(&mut self, port: &Source) {
        for facts in port.port().facts() {
            self.bytes += facts.bytes;
            self.lapses += facts.lapses;
        }
    }
}

/// The longest wait for live inputs: short enough that their caller can look after signals.
const WAIT_MAX: Duration = Duration::from_millis(100);

/// The wait while frames of one input are held up by another of which it is not known that it stays
/// quiet.
const WAIT_HELD_UP: Duration = Duration::from_millis(1);

/// With nothing to do, the merge lets frames gather for this long before it looks again: waking up
/// for each costs several times what a frame does. A ring of the usual size holds more than 5 ms of
/// frames at any rate.
const GATHER: Duration = Duration::from_millis(2);

/// Later than any turn.
const NEVER: Turn = (i64::MAX, usize::MAX);

/// An input of a [`Merge`]: a file, a file of a folder, or a live port.
pub struct MergeInput {
    port: Source,
    /// Frames to come, the next one last.
    queue: Burst,
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

    fn port(&self) -> &dyn Port {
        match self {
            Self::File(port) => &**port,
            Self::Live(port) => &**port,
        }
    }
}

impl MergeInput {
    fn new(port: Source, begins_ns: Option<i64>) -> Self {
        Self {
            port,
            queue: Burst::new(),
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

impl From<Tail> for MergeInput {
    fn from(file: Tail) -> Self {
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
        let inputs: Vec<MergeInput> = inputs.into_iter().map(Into::into).collect();
        let begins =
            |(index, input): (usize, &MergeInput)| Some(Reverse((input.begins_ns?, index)));
        let is_open = |&index: &usize| inputs[index].begins_ns.is_none();
        let open: Vec<_> = (0..inputs.len()).filter(is_open).collect();
        Self {
            waiting: inputs.iter().enumerate().filter_map(begins).collect(),
            hungry: open.clone(),
            open,
            inputs,
            ordinal: 0,
            ended: Totals::default(),
        }
    }

    /// Inputs that have begun and not ended.
    pub fn open_count(&self) -> usize {
        self.open.len()
    }

    /// What the inputs came to so far; costs no time for those that have ended or not begun.
    pub fn totals(&self) -> Totals {
        let mut totals = self.ended;
        if let [input] = &self.inputs[..] {
            totals.add(&input.port);
            return totals;
        }
        for &index in &self.open {
            totals.add(&self.inputs[index].port);
        }
        totals
    }

    /// Makes sure that every input which has not ended has its next frame, or is known to be quiet;
    /// if one has none for another reason, returns that reason.
    fn refill(&mut self, max: usize) -> Result<Option<Received>, PortError> {
        let (mut place, mut is_filtered) = (0, false);
        while let Some(&index) = self.hungry.get(place) {
            let input = &mut self.inputs[index];
            match input.port.receive().receive(&mut input.queue, max) {
                Ok(Received::Frames(_)) => {
                    input.queue.reverse();
                    input.quiet_until_ns = None;
                    match input.next_stamp_ns() {
                        Some(stamp_ns) => {
                            self.waiting.push(Reverse((stamp_ns, index)));
                            self.hungry.remove(place);
                        }
                        // How long it was quiet is not known before it is asked again.
                        None => {
                            is_filtered = true;
                            place += 1;
                        }
                    }
                }
                Ok(Received::Idle { until_ns }) => {
                    input.quiet_until_ns = Some(until_ns);
                    place += 1;
                }
                Ok(Received::End) => self.end(index),
                Ok(waiting) => return Ok(Some(waiting)),
                Err(error) => {
                    self.end(index);
                    return Err(error);
                }
            }
        }
        Ok(is_filtered.then_some(Received::Frames(0)))
    }

    /// Nothing more comes from an input, and it takes no more memory for frames.
    fn end(&mut self, index: usize) {
        let input = &mut self.inputs[index];
        input.queue = Burst::new();
        self.ended.add(&input.port);
        for list in [&mut self.hungry, &mut self.open] {
            if let Ok(place) = list.binary_search(&index) {
                list.remove(place);
            }
        }
    }

    /// Adds an input to those that are asked for frames.
    fn note_hungry(&mut self, index: usize) {
        if let Err(place) = self.hungry.binary_search(&index) {
            self.hungry.insert(place, index);
        }
    }

    /// An input whose turn has come is asked for its frames from now on.
    fn begin(&mut self, index: usize) {
        self.inputs[index].begins_ns = None;
        if let Err(place) = self.open.binary_search(&index) {
            self.open.insert(place, index);
        }
        self.note_hungry(index);
    }

    /// The turns of inputs that are quiet so far.
    fn quiet(&self) -> impl Iterator<Item = Turn> {
        let turn = |&index: &usize| Some((self.inputs[index].quiet_until_ns?, index));
        self.hungry.iter().filter_map(turn)
    }

    /// The input whose turn it is, and the key up to which it stays so.
    fn first_and_second(&mut self) -> Option<(usize, Turn)> {
        let quiet = self.quiet().min().unwrap_or(NEVER);
        let first = self.waiting.peek().map_or(NEVER, |turn| turn.0);
        if quiet <= first {
            // `second` does not matter: it has no frames.
            return (quiet < NEVER).then_some((quiet.1, NEVER));
        }
        self.waiting.pop();
        let second = self.waiting.peek().map_or(NEVER, |turn| turn.0);
        Some((first.1, second.min(quiet)))
    }

    /// Waits until an input without a next frame wakes.
    fn wait(&mut self) -> Result<Received, PortError> {
        let quiet = self.quiet().min();
        let waiting = self.waiting.peek().map(|turn| turn.0);
        let until_ns = quiet.into_iter().chain(waiting).min();
        let is_holding = { self.waiting.iter() }
            .any(|Reverse((_, index))| !self.inputs[*index].queue.is_empty());
        let wait = if is_holding { WAIT_HELD_UP } else { WAIT_MAX };
        let _ = poll(&mut [], Some(&timespec(GATHER)));
        let mut descriptors: Vec<BorrowedFd<'_>> = Vec::with_capacity(self.hungry.len());
        let idle = { self.hungry.iter() }.filter_map(|&index| self.inputs[index].live());
        idle.for_each(|port| port.wake_on(&mut descriptors));
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
            until_ns: until_ns.map_or(i64::MIN, |(until_ns, _)| until_ns),
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
            .flat_map(|input| input.port.port().facts())
            .collect()
    }

    fn facts_of(&self, input: usize) -> Option<&Facts> {
        // A port of several files is the last one.
        let index = input.min(self.inputs.len().checked_sub(1)?);
        self.inputs[index].port.port().facts_of(input - index)
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
            if count > 0 && !self.hungry.is_empty() {
                break;
            }
            let len = match self.open.len() {
                0 | 1 => max,
                open => (QUEUED_MAX / open).clamp(QUEUE_LEN_MIN, QUEUE_LEN_MAX),
            };
            if let Some(waiting) = self.refill(len)? {
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
            if input.queue.is_empty() {
                if input.begins_ns.is_some() {
                    self.begin(index);
                    continue;
                }
                return self.wait();
            }
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
            match input.next_stamp_ns() {
                Some(stamp_ns) => self.waiting.push(Reverse((stamp_ns, index))),
                None => self.note_hungry(index),
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
        self.waiting.clear();
        self.hungry.clear();
        self.open.clear();
        let mut ended = Totals::default();
        for input in &mut self.inputs {
            input.port.receive().leave(&mut input.queue);
            ended.add(&input.port);
        }
        if self.inputs.len() > 1 {
            self.ended = ended;
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
