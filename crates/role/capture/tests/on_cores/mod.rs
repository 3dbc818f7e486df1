//! The path on several cores beside the path on one: rows and counters of both, compared.

use lineside_account::{Budget, Counter, Counters};
use lineside_actor::Schedule;
use lineside_capture::{Config, Cores, Done, Pipeline, Settle, Step};
use lineside_frame::{Burst, Descriptor, Frame, LinkType};
use lineside_port::{Facts, Port, PortError, Receive, Received};
use lineside_rows::CollectedRows;
use lineside_testkit::capture;

/// Frames in memory, each with its input; at times it says that its pool is empty.
#[derive(Clone)]
pub(crate) struct Memory<'a> {
    frames: Vec<(u16, &'a capture::Frame)>,
    next: usize,
    calls: usize,
}

impl<'a> Memory<'a> {
    pub(crate) fn new(frames: impl IntoIterator<Item = (u16, &'a capture::Frame)>) -> Self {
        Self {
            frames: frames.into_iter().collect(),
            next: 0,
            calls: 0,
        }
    }
}

impl Port for Memory<'_> {
    fn facts(&self) -> Vec<&Facts> {
        Vec::new()
    }
}

impl Receive for Memory<'_> {
    fn receive(&mut self, burst: &mut Burst, max: usize) -> Result<Received, PortError> {
        self.calls += 1;
        if self.calls.is_multiple_of(5) {
            return Ok(Received::PoolEmpty);
        }
        let end = self.frames.len().min(self.next + max.min(37));
        let range = self.next..end;
        for (index, (input, frame)) in range.clone().zip(&self.frames[range]) {
            let ordinal = index as u64 + 1;
            let descriptor = Descriptor {
                stamp_ns: frame.stamp_ns,
                wire_len: frame.wire_len,
                link_type: LinkType(frame.link_type),
                input: *input,
                number: ordinal,
                ordinal,
                ..Descriptor::default()
            };
            burst.push(Frame::copied(&frame.bytes, descriptor));
        }
        let count = end - std::mem::replace(&mut self.next, end);
        Ok(match count {
            0 => Received::End,
            count => Received::Frames(count),
        })
    }

    fn leave(&mut self, ahead: &mut Burst) {
        ahead.clear();
    }
}

/// Rows in an order that says nothing of when they were made. Rows with equal keys are of one
/// connection, whose order is part of the result.
fn sorted(mut rows: CollectedRows) -> CollectedRows {
    rows.operations.sort_by_key(|row| row.operation_id);
    rows.nfs.sort_by_key(|row| row.operation_id);
    rows.nfs4.sort_by_key(|row| row.operation_id);
    rows.services.sort_by_key(|row| row.operation_id);
    rows.checksums.sort_by_key(|row| row.operation_id);
    rows.connections.sort_by_key(|row| row.connection_id);
    rows.files.sort_by_key(|row| row.operation_id);
    rows.losses.sort_by_key(|row| row.connection_id);
    rows.packets.sort_by_key(|row| row.frame_id);
    rows
}

/// Counters that do not depend on when idle connections are swept: a call of one is outstanding or
/// expired by then.
pub(crate) fn steady(counters: &Counters) -> Vec<(&'static str, u64)> {
    let ends = [Counter::CallsExpired, Counter::CallsOutstanding];
    let apart = [ends[0], ends[1], Counter::RangesSpilled];
    let unanswered = ends.iter().map(|&end| counters.value(end)).sum();
    let others = counters
        .iter()
        .filter(|(counter, _)| !apart.contains(counter));
    let others = others.map(|(counter, value)| (counter.name(), value));
    others.chain([("unanswered", unanswered)]).collect()
}

pub(crate) fn alone(port: &mut Memory<'_>, config: Config) -> (CollectedRows, Counters) {
    let budget = Budget::new(256 << 20);
    let mut pipeline = Pipeline::new(config, &budget, CollectedRows::default());
    let go_on = |_: &mut Memory<'_>, _: &mut Pipeline<_>, _: bool| Step::Continue;
    lineside_capture::run(port, &mut pipeline, u64::MAX, go_on);
    let (rows, counters) = pipeline.finish();
    (sorted(rows), counters)
}

pub(crate) fn cores<S>(
    config: Config,
    pipelines: usize,
    schedule: Schedule,
    sinks: Vec<(String, S)>,
    settle: Settle<S>,
) -> Cores<S> {
    Cores {
        config,
        pipelines,
        system: lineside_actor::Config::new(schedule),
        reader_helps: true,
        sinks,
        settle,
    }
}

fn two() -> Vec<(String, CollectedRows)> {
    ["one", "two"]
        .map(|name| (name.to_owned(), CollectedRows::default()))
        .into()
}

pub(crate) fn on_cores(
    port: &mut impl Receive,
    config: Config,
    pipelines: usize,
    schedule: Schedule,
) -> (CollectedRows, Counters) {
    let budget = Budget::new(256 << 20);
    let cores = cores(config, pipelines, schedule, two(), |_, _| Ok(()));
    let done = cores.run(port, &budget, u64::MAX, |_, _, _| Step::Continue);
    let Done {
        sinks,
        counters,
        report,
        failure,
        ..
    } = done.expect("a system that can run");
    assert_eq!(failure, None);
    assert_eq!(budget.used_bytes(), 0, "everything is given back");
    assert_eq!(report.actors.len(), 2 * pipelines + 2);
    let [one, two] = sinks.try_into().expect("both sinks come back");
    assert_eq!(one, two, "each sink is given every row");
    (sorted(one), counters)
}

/// Compares every schedule with the single path, whose rows and counters it returns.
pub(crate) fn compare(
    what: &str,
    frames: &Memory<'_>,
    config: Config,
    schedules: &[(usize, Schedule)],
) -> (CollectedRows, Counters) {
    let (rows, counters) = alone(&mut frames.clone(), config.clone());
    for (pipelines, schedule) in schedules {
        let what = format!("{what}, {pipelines} pipelines, {schedule:?}");
        let (mine, mine_counters) = on_cores(
            &mut frames.clone(),
            config.clone(),
            *pipelines,
            schedule.clone(),
        );
        assert_eq!(mine.operations.len(), rows.operations.len(), "{what}");
        // Not `assert_eq`, which would print all rows.
        assert!(mine.operations == rows.operations, "{what}: operations");
        assert!(mine.nfs == rows.nfs, "{what}: nfs");
        assert!(mine.nfs4 == rows.nfs4, "{what}: nfs4");
        assert!(mine.services == rows.services, "{what}: services");
        assert!(mine.checksums == rows.checksums, "{what}: checksums");
        assert_eq!(mine.connections, rows.connections, "{what}");
        assert!(mine.files == rows.files, "{what}: files");
        assert_eq!(mine.losses, rows.losses, "{what}");
        assert!(mine.packets == rows.packets, "{what}: packets");
        let differing: Vec<_> = { steady(&mine_counters).into_iter().zip(steady(&counters)) }
            .filter(|(mine, theirs)| mine != theirs)
            .collect();
        assert_eq!(differing, [], "{what}");
        assert_eq!(mine_counters.broken_identity(), None, "{what}");
    }
    (rows, counters)
}
