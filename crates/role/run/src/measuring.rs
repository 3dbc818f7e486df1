//! Monitors of a run, whose rows go into the tables of its folder.

use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::time::Duration;

use lineside_account::{Budget, Lease};
use lineside_frame::{Descriptor, FrameRef, LinkType};
use lineside_measure::monitor::{
    Bin, FlowFacts, HEAD_LEN, Head, Label, MonitorError, Monitors, Place, Report, Summary, Window,
    Words,
};
use lineside_port::Facts;
use lineside_rows::{
    MonitorBinRow, MonitorEventRow, MonitorFlowRow, MonitorWindowRow, RecordSink, RowRef, Table,
    Text, Word,
};
use lineside_store::{PartQueue, Removed, Retention, RunFolder};
use lineside_time::Nanoseconds;
use lineside_trace::{Summaries, TraceEncoder};
use lineside_wire::dissect;

use crate::drop_in::DropIns;
use crate::{DropInReport, DropInSettings, Pace, PartRotation, Parts, bound_encoder, on_disk};

/// Monitors and their tables.
pub struct Measuring {
    monitors: Monitors,
    rows: Rows,
    queue: PartQueue,
    /// The number of the place of each interface of each input.
    places: Vec<Vec<Option<u16>>>,
    failure: Option<String>,
    /// Looks of others at what was found so far.
    looks: Option<Receiver<SyncSender<Vec<Summary>>>>,
    /// Where drop-ins are started, once they may be.
    waiting: Option<Waiting>,
    drop_ins: Option<DropIns>,
    switches: Option<Receiver<MonitorSwitch>>,
}

/// A monitor measures from an instant on, or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MonitorSwitch {
    /// Its number, from 0, in the order in which monitors were asked for.
    pub monitor: usize,
    /// The first stamp for which it holds.
    pub at_ns: Nanoseconds,
    /// Whether it measures.
    pub is_on: bool,
}

/// Asks monitors, which another thread has, what they have found so far.
pub struct Looks(Sender<SyncSender<Vec<Summary>>>);

impl Looks {
    /// What they have found; `None` if they do not answer within `patience`, or are over.
    pub fn look(&self, patience: Duration) -> Option<Vec<Summary>> {
        let (answer, answered) = sync_channel(1);
        self.0.send(answer).ok()?;
        answered.recv_timeout(patience).ok()
    }
}

/// Drop-ins that are not started yet.
struct Waiting {
    settings: DropInSettings,
    pace: Pace,
    folder: RunFolder,
    trace_id: String,
    budget: Budget,
}

/// Frames, and rows, between two looks at the memory that rows take.
const LOOKS: u64 = 4096;

impl Measuring {
    /// Monitors for these words, with tables in `folder`, whose parts end by the frames' time as
    /// `rotation` says.
    pub fn new(
        asked: &[Words],
        folder: &RunFolder,
        trace_id: &str,
        rotation: &PartRotation,
        budget: &Budget,
    ) -> Self {
        let mut monitors = Monitors::new(budget);
        asked.iter().for_each(|words| monitors.ask(words));
        let rotation = PartRotation {
            by_clock: false,
            // The writer of the other tables sees to older runs.
            retention: Retention {
                runs: false,
                ..rotation.retention
            },
            ..*rotation
        };
        let config = rotation.encoder(Table::MONITORS, trace_id);
        let writer = rotation.writer(folder, trace_id, budget);
        let queue = writer.queue();
        let encoder = TraceEncoder::new(&config, Parts(writer));
        Self {
            monitors,
            rows: Rows {
                encoder,
                memory: budget.lease(0),
                count: 0,
                bin: MonitorBinRow::default(),
                window: MonitorWindowRow::default(),
                flow: MonitorFlowRow::default(),
            },
            queue,
            places: Vec::new(),
            failure: None,
            looks: None,
            waiting: None,
            drop_ins: None,
            switches: None,
        }
    }

    /// Monitors are switched by what comes from here, each before the frames of its instant come.
    pub fn with_switches(mut self, switches: Receiver<MonitorSwitch>) -> Self {
        self.switches = Some(switches);
        self
    }

    /// A monitor measures from an instant on, or not.
    pub fn switch(&mut self, switch: MonitorSwitch) {
        let MonitorSwitch {
            monitor,
            at_ns,
            is_on,
        } = switch;
        self.monitors.switch(monitor, at_ns, is_on);
    }

    /// Gives heads to these programs too, from [`start`](Self::start) on.
    pub fn with_drop_ins(
        mut self,
        settings: &DropInSettings,
        pace: Pace,
        folder: &RunFolder,
        trace_id: &str,
        budget: &Budget,
    ) -> Self {
        self.waiting = (!settings.programs.is_empty()).then(|| Waiting {
            settings: settings.clone(),
            pace,
            folder: folder.clone(),
            trace_id: trace_id.to_owned(),
            budget: budget.clone(),
        });
        self
    }

    /// Begins the tables and starts the drop-ins. To be called once privileges are dropped: from
    /// now on there are threads of theirs.
    pub fn start(&mut self) {
        self.rows.encoder.begin();
        if let Some(Waiting {
            settings,
            pace,
            folder,
            trace_id,
            budget,
        }) = self.waiting.take()
        {
            let drop_ins = DropIns::start(&settings, pace, &folder, &trace_id, &budget);
            self.drop_ins = Some(drop_ins);
        }
    }

    /// Where others ask what was found so far: they are answered by [`answer`](Self::answer).
    pub fn looks(&mut self) -> Looks {
        let (sender, receiver) = channel();
        self.looks = Some(receiver);
        Looks(sender)
    }

    /// Answers a look, if there is one: to be called after each burst, and where none comes.
    #[inline]
    pub fn answer(&self) {
        let asked = self.looks.as_ref().and_then(|looks| looks.try_recv().ok());
        if let Some(answer) = asked {
            // Whoever asked may have gone meanwhile.
            let _ = answer.send(self.monitors.summaries());
        }
    }

    /// The monitors.
    pub fn monitors(&self) -> &Monitors {
        &self.monitors
    }

    /// These monitors do not measure until they are switched on.
    pub fn stop(&mut self, monitors: &[usize]) {
        for &monitor in monitors {
            self.switch(MonitorSwitch {
                monitor,
                at_ns: i64::MIN,
                is_on: false,
            });
        }
    }

    /// Frames of `input`, which are Ethernet's, are seen at `place`.
    pub fn set_place(&mut self, input: u16, place: &Place) -> Result<(), MonitorError> {
        self.monitors.check(&place.port, LinkType::ETHERNET.0)?;
        let number = self.monitors.place(place)?;
        self.note_place(usize::from(input), 0, number);
        Ok(())
    }

    /// The number of a place, for [`on_frame_at`](Self::on_frame_at).
    pub fn place(&mut self, place: &Place) -> Result<u16, MonitorError> {
        self.monitors.place(place)
    }

    /// A frame was seen at a place, at `time_ns`.
    pub fn on_frame_at(&mut self, place: u16, time_ns: Option<Nanoseconds>, frame: &FrameRef) {
        if self.failure.is_none() {
            let measured = self.measure(frame, place, time_ns);
            self.failure = measured.err().map(|error| error.to_string());
        }
    }

    /// A frame came out of an input. `facts` has those of an input, whose interfaces are places.
    #[inline]
    pub fn on_frame<'a>(
        &mut self,
        frame: &FrameRef,
        facts: impl FnOnce(usize) -> Option<&'a Facts>,
    ) {
        if self.failure.is_some() {
            return;
        }
        while let Some(switch) = { &self.switches }
            .as_ref()
            .and_then(|come| come.try_recv().ok())
        {
            self.switch(switch);
        }
        let descriptor = frame.descriptor();
        let known = self.places.get(usize::from(descriptor.input));
        let known = known.and_then(|input| *input.get(usize::from(descriptor.interface))?);
        let known = match known {
            Some(place) => Ok(place),
            None => self.find_place(descriptor, facts(descriptor.input.into())),
        };
        let time_ns = descriptor.stamp_ns;
        let measured = known.and_then(|place| self.measure(frame, place, time_ns));
        self.failure = measured.err().map(|error| error.to_string());
    }

    fn measure(
        &mut self,
        frame: &FrameRef,
        place: u16,
        time_ns: Option<Nanoseconds>,
    ) -> Result<(), MonitorError> {
        let (descriptor, bytes) = (frame.descriptor(), frame.bytes());
        if let Some(time_ns) = time_ns {
            self.rows.encoder.on_time(time_ns);
        }
        let head = Head {
            time_ns,
            place,
            link_type: descriptor.link_type.0,
            wire_len: descriptor.wire_len.max(bytes.len() as u32),
            bytes: &bytes[..bytes.len().min(HEAD_LEN)],
        };
        if let Some(drop_ins) = &mut self.drop_ins {
            let headers = dissect(head.link_type, bytes, head.wire_len as usize);
            let seen = (time_ns, place);
            drop_ins.on_frame(seen, head.wire_len, &headers, bytes, || {
                names(&self.monitors)
            });
        }
        self.monitors.on_head(&head, &mut self.rows)?;
        if self.monitors.heads().is_multiple_of(LOOKS) {
            self.rows.bound();
        }
        Ok(())
    }

    /// The place of an interface whose first frame comes.
    #[cold]
    fn find_place(
        &mut self,
        descriptor: &Descriptor,
        facts: Option<&Facts>,
    ) -> Result<u16, MonitorError> {
        let input = usize::from(descriptor.input);
        let interface = usize::from(descriptor.interface);
        let name = facts.and_then(|facts| match facts.interfaces.get(interface) {
            Some(interface) => interface.name.clone(),
            None => None,
        });
        let name = name.or_else(|| facts.map(|facts| facts.name.clone()));
        let number = self
            .monitors
            .place(&Place::named(&name.unwrap_or_default()))?;
        self.note_place(input, interface, number);
        Ok(number)
    }

    fn note_place(&mut self, input: usize, interface: usize, number: u16) {
        if self.places.len() <= input {
            self.places.resize_with(input + 1, Vec::new);
        }
        let places = &mut self.places[input];
        // Of interfaces that nobody described, the first one stands for all.
        if places.len() <= interface {
            places.resize(interface + 1, None);
        }
        places[interface] = Some(number);
    }

    /// Notes what happened.
    pub fn note(
        &mut self,
        time_ns: Option<Nanoseconds>,
        event: &'static str,
        frames: Option<u64>,
        text: &str,
    ) {
        let mut row = MonitorEventRow {
            time_ns,
            event: Some(event),
            frames: frames.map(u64::cast_signed),
            ..MonitorEventRow::default()
        };
        if !text.is_empty() {
            row.text.set(text.as_bytes());
        }
        self.rows.encoder.row(RowRef::MonitorEvents(&row));
    }

    /// What their tables have on the disk so far, and what of them is not kept.
    pub fn written(&self) -> (Summaries, Removed) {
        let (mut summaries, written) = (self.rows.encoder.summaries(), self.queue.on_disk());
        on_disk(&mut summaries, &written);
        (summaries, written.removed)
    }

    /// Why the monitors measure no more.
    pub fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// A warning for each monitor that measured nowhere.
    fn warnings(&self) -> Vec<String> {
        let places: Vec<_> = self.monitors.places().map(Place::name).collect();
        let without = self.monitors.without_place().into_iter();
        let warning = |monitor: &str| match places.is_empty() {
            true => format!("monitor '{monitor}' saw nothing: no frame came"),
            false => format!(
                "monitor '{monitor}' measured nowhere: frames passed at {}",
                places.join(", ")
            ),
        };
        without.map(warning).collect()
    }

    /// Ends the drop-ins, which may take some seconds, and the tables.
    pub fn end(mut self) -> Ending {
        let places = names(&self.monitors);
        let drop_ins = self.drop_ins.take();
        let drop_ins = drop_ins.map_or_else(DropInReport::default, |each| each.end(&places));
        let queue = self.queue.clone();
        Ending {
            warnings: { drop_ins.warnings.iter().cloned() }
                .chain(self.warnings())
                .collect(),
            drop_ins,
            tables: self.finish(),
            removed: queue.on_disk().removed,
        }
    }

    /// All that monitors found goes into the tables, which end.
    fn finish(mut self) -> Result<Summaries, String> {
        if let Some((first_ns, last_ns)) = self.monitors.span() {
            self.note(Some(first_ns), "begin", None, "");
            self.note(Some(last_ns), "end", Some(self.monitors.heads()), "");
        }
        self.monitors.report(&mut self.rows);
        if let Some(failure) = self.failure {
            return Err(failure);
        }
        let finished = self.rows.encoder.finish();
        let (output, mut summaries) = finished.map_err(|error| error.to_string())?;
        let written = output.0.finish().map_err(|error| error.to_string())?;
        on_disk(&mut summaries, &written);
        Ok(summaries)
    }
}

/// What monitors and drop-ins came to.
pub struct Ending {
    /// What a user should know, that of drop-ins included.
    pub warnings: Vec<String>,
    /// What came of drop-ins.
    pub drop_ins: DropInReport,
    /// What the tables of monitors hold; the error is why they measured no more.
    pub tables: Result<Summaries, String>,
    /// What of them is not kept.
    pub removed: Removed,
}

/// Ports and points of places, by their numbers.
fn names(monitors: &Monitors) -> Vec<(String, &'static str)> {
    let places = monitors.places();
    places
        .map(|place| (place.port.clone(), place.point.name()))
        .collect()
}

/// What monitors find, as rows of the tables.
struct Rows {
    encoder: TraceEncoder<Parts>,
    /// What the encoder holds.
    memory: Option<Lease>,
    /// Rows so far.
    count: u64,
    bin: MonitorBinRow,
    window: MonitorWindowRow,
    flow: MonitorFlowRow,
}

/// The cells that all rows of monitors have.
fn put_label(monitor: &mut Text, port: &mut Text, label: Label<'_>) -> Option<&'static str> {
    monitor.set(label.monitor.as_bytes());
    port.set(label.place.port.as_bytes());
    Some(label.place.point.name())
}

/// A value of a bin; what lies beyond the type counts as its end.
fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

impl Rows {
    /// A row was put. Monitors of many places have many at their end, where no frame comes.
    fn on_row(&mut self) {
        self.count += 1;
        if self.count.is_multiple_of(LOOKS) {
            self.bound();
        }
    }

    fn bound(&mut self) {
        bound_encoder(&mut self.encoder, &mut self.memory);
    }
}

impl Report for Rows {
    fn bin(&mut self, label: Label<'_>, bin: Bin) {
        let row = &mut self.bin;
        row.point = put_label(&mut row.monitor, &mut row.port, label);
        row.metric = Some(bin.metric);
        row.flow_id = bin.flow_id;
        row.bin_from = signed(bin.from);
        row.bin_to = signed(bin.to);
        row.count = signed(bin.count);
        self.encoder.row(RowRef::MonitorBins(row));
        self.on_row();
    }

    fn window(&mut self, label: Label<'_>, window: Window) {
        let row = &mut self.window;
        row.point = put_label(&mut row.monitor, &mut row.port, label);
        row.flow_id = window.flow_id;
        row.time_ns = Some(window.start_ns);
        row.window_ns = window.window_ns;
        row.packets = signed(window.packets);
        row.bytes = signed(window.bytes);
        self.encoder.row(RowRef::MonitorWindows(row));
        self.on_row();
    }

    fn flow(&mut self, label: Label<'_>, flow: &FlowFacts) {
        let row = &mut self.flow;
        row.clear();
        row.point = put_label(&mut row.monitor, &mut row.port, label);
        row.flow_id = Some(flow.flow_id);
        if let Some(key) = flow.key {
            row.source_address = Some(key.source);
            row.destination_address = Some(key.destination);
            row.source_port = key.ports.map(|(source, _)| source.into());
            row.destination_port = key.ports.map(|(_, destination)| destination.into());
            row.transport = match key.protocol {
                lineside_wire::PROTOCOL_TCP => Word::Known("tcp"),
                lineside_wire::PROTOCOL_UDP => Word::Known("udp"),
                other => Word::Number(other.into()),
            };
            row.payload_bytes = key.ports.map(|_| signed(flow.payload_bytes));
        }
        row.first_ns = flow.first_ns;
        row.last_ns = flow.last_ns;
        row.packets = signed(flow.packets);
        row.bytes = signed(flow.bytes);
        if let Some(tcp) = &flow.tcp {
            row.retransmitted_bytes = Some(signed(tcp.retransmitted_bytes));
            row.reordered_packets = Some(signed(tcp.reordered_packets));
            row.reordering_extent_max = tcp.reordering_max.map(|(extent, _)| signed(extent));
            row.n_reordering_max = tcp.reordering_max.map(|(_, n)| signed(n));
            row.tcp_window_scale = tcp.window_scale.map(i32::from);
            row.tcp_window_min_bytes = tcp.windows.map(|(least, _)| signed(least));
            row.tcp_window_max_bytes = tcp.windows.map(|(_, most)| signed(most));
            row.completion_ns = tcp.completion_ns.map(signed);
            row.flow_end = tcp.end.map(|is_fin| if is_fin { "fin" } else { "rst" });
        }
        self.encoder.row(RowRef::MonitorFlows(row));
        self.on_row();
    }
}
