//! `lineside table from-...`: round trips of a real network, as a distribution or over time.

use std::fmt::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::bail;
use lineside_account::Budget;
use lineside_analyze::Trace;
use lineside_flow::{RoundTrips, Towards};
use lineside_frame::{Burst, Frame};
use lineside_host::{Ping, Sandbox};
use lineside_link::{DELIVERY_BYTES, Deliveries, PathFile};
use lineside_probe::Sample;
use lineside_rows::Table;
use lineside_run::{Consumer, Moment, Step, receive_all};
use lineside_words::grouped;

use super::flags::{Source, Way};
use crate::inputs::open;
use crate::trips::{Pace as ProbePace, resolve, round_trips_of_ping, round_trips_of_tcp};

/// A measured network.
#[derive(Debug, Default)]
pub(crate) struct Measured {
    /// In the order of their times.
    pub(crate) samples: Vec<Sample>,
    /// Each frame of the requested direction: its time and its bytes.
    pub(crate) frames: Vec<(i64, u32)>,
    /// Remarks for the user, a sentence each.
    pub(crate) remarks: Vec<String>,
}

/// Samples and frames that are kept at most: some 500 MB.
const KEPT_MAX: usize = 20_000_000;

/// A network that is measured by probes, with what is opened before the sandbox.
pub(crate) enum Network {
    Ping(Ping, ProbePace),
    Tcp(SocketAddr, ProbePace),
}

impl Network {
    /// `None` for other sources.
    pub(crate) fn open(from: &Source) -> anyhow::Result<Option<Self>> {
        Ok(match from {
            Source::FromPing { host, pace } => {
                let to = resolve(&format!("{host}:0"), host, ADVICE)?;
                Some(Self::Ping(Ping::new(to.ip())?, pace.of_probes()))
            }
            Source::FromTcp { host, pace } => {
                let to = resolve(host, host, ADVICE)?;
                Some(Self::Tcp(to, pace.of_probes()))
            }
            _ => None,
        })
    }

    /// What measuring it takes.
    pub(crate) fn sandbox(&self) -> Sandbox {
        match self {
            Self::Ping(..) => Sandbox::new(),
            Self::Tcp(to, _) => Sandbox::new().may_connect(to.port()),
        }
    }

    fn round_trips(self) -> anyhow::Result<Vec<Sample>> {
        match self {
            Self::Ping(ping, pace) => round_trips_of_ping(ping, pace),
            Self::Tcp(to, pace) => round_trips_of_tcp(to, pace),
        }
    }
}

impl Measured {
    /// Measures.
    pub(crate) fn of(from: &Source, network: Option<Network>) -> anyhow::Result<Self> {
        let mut measured = match (network, from) {
            (Some(network), _) => Self::of_probes(network.round_trips()?),
            (None, Source::FromCapture { files, towards }) => Self::of_capture(files, *towards)?,
            (None, Source::FromTrace { trace }) => Self::of_trace(trace)?,
            (None, _) => unreachable!("a path file is not measured here"),
        };
        measured.samples.sort_by_key(|sample| sample.at_ns);
        if measured
            .samples
            .iter()
            .all(|sample| sample.took_ns.is_none())
        {
            bail!(
                "no round trip was seen: {}",
                match from {
                    Source::FromCapture { .. } =>
                        "are there TCP connections in it, in both directions?",
                    Source::FromTrace { .. } => "does it have calls with replies?",
                    _ => "nothing answers there",
                }
            );
        }
        Ok(measured)
    }

    fn of_capture(files: &[PathBuf], towards: Way) -> anyhow::Result<Self> {
        let budget = Budget::new(256 << 20);
        let mut port = open(files, &budget)?;
        let mut tripping = Tripping {
            trips: RoundTrips::new(&budget),
            finder: lineside_path::DirectionFinder::new(None),
            measured: Self::default(),
            left_out: 0,
            towards,
        };
        let errors = receive_all(
            &mut port,
            &mut tripping,
            u64::MAX,
            |_, _, moment| match moment {
                Moment::Failure => Step::Stop,
                Moment::Burst | Moment::Last => Step::Continue,
            },
        );
        if let Some(error) = errors.into_iter().next() {
            return Err(error.into());
        }
        let Tripping {
            trips,
            mut measured,
            left_out,
            ..
        } = tripping;
        if left_out > 0 {
            measured.remarks.push(format!(
                "{} frames after the first {} were left out",
                grouped(left_out),
                grouped(KEPT_MAX as u64)
            ));
        }
        if trips.unfollowed() > 0 {
            measured.remarks.push(format!(
                "{} segments belong to more connections than are tracked",
                grouped(trips.unfollowed())
            ));
        }
        Ok(measured)
    }

    fn of_trace(trace: &Path) -> anyhow::Result<Self> {
        let mut trace = Trace::open(trace)?;
        let mut measured = Self::default();
        trace.rows(
            Table::Operations,
            &["call_time_ns", "reply_time_ns"],
            |row| {
                if let (Some(call_ns), Some(reply_ns)) = (row[0].integer(), row[1].integer())
                    && measured.samples.len() < KEPT_MAX
                {
                    measured.samples.push(Sample {
                        at_ns: call_ns,
                        took_ns: Some(reply_ns.saturating_sub(call_ns).max(0)),
                        len: 0,
                    });
                }
            },
        );
        if let Some(warning) = trace.warnings.into_iter().next() {
            bail!("{warning}");
        }
        Ok(measured)
    }

    fn of_probes(samples: Vec<Sample>) -> Self {
        let mut measured = Self {
            samples,
            ..Self::default()
        };
        let lost = measured
            .samples
            .iter()
            .filter(|sample| sample.took_ns.is_none());
        let lost = lost.count();
        if lost > 0 {
            measured.remarks.push(format!(
                "{lost} of {} probes were not answered",
                measured.samples.len()
            ));
        }
        measured
    }

    /// The times of answered probes.
    pub(crate) fn times_ns(&self) -> Vec<i64> {
        self.samples
            .iter()
            .filter_map(|sample| sample.took_ns)
            .collect()
    }

    /// The network over time: of the samples in each `step`, half of the median round trip as the
    /// delay, and the share that was not answered. It begins anew at its end.
    pub(crate) fn path_file(&self, step_ns: u64) -> Result<PathFile, &'static str> {
        let half = |sample: &Sample| Sample {
            took_ns: sample.took_ns.map(|took_ns| took_ns / 2),
            ..*sample
        };
        let halves: Vec<_> = self.samples.iter().map(half).collect();
        lineside_probe::path_file(&halves, step_ns, 1, None)
    }

    /// The frames of the requested direction as a trace of mahimahi's: a line for each 1,500 bytes
    /// that had passed.
    pub(crate) fn deliveries(&self) -> Result<Deliveries, String> {
        let (mut text, mut bytes) = (String::new(), 0);
        let first_ns = self.frames.first().map_or(0, |&(at_ns, _)| at_ns);
        for &(at_ns, len) in &self.frames {
            bytes += u64::from(len);
            while bytes >= DELIVERY_BYTES {
                bytes -= DELIVERY_BYTES;
                let _ = writeln!(text, "{}", (at_ns - first_ns).max(0) / 1_000_000);
            }
        }
        Deliveries::read("measured", &text).map_err(|error| error.to_string())
    }
}

/// What to write where a name has no address.
const ADVICE: &str = "from-ping takes a name or an address, from-tcp HOST:PORT";

/// Finds round trips in the frames of a capture.
struct Tripping {
    trips: RoundTrips,
    finder: lineside_path::DirectionFinder,
    measured: Measured,
    /// Frames beyond the number that is kept.
    left_out: u64,
    towards: Way,
}

impl Consumer for Tripping {
    fn on_burst(&mut self, burst: &mut Burst) -> Step {
        for frame in burst.drain(..) {
            self.on_frame(&frame);
        }
        Step::Continue
    }
}

impl Tripping {
    fn on_frame(&mut self, frame: &Frame) {
        let descriptor = *frame.descriptor();
        let Some(at_ns) = descriptor.stamp_ns else {
            return;
        };
        if self.measured.frames.len() >= KEPT_MAX {
            self.left_out += 1;
            return;
        }
        let direction = self.finder.direction(frame);
        let to_server = direction == lineside_path::Direction::Outbound;
        if self.towards == Way::Both || (self.towards == Way::Server) == to_server {
            self.measured.frames.push((at_ns, descriptor.wire_len));
        }
        let (bytes, wire_len) = (frame.bytes(), descriptor.wire_len as usize);
        let trip = self
            .trips
            .on_frame(at_ns, descriptor.link_type.0, bytes, wire_len);
        let wanted = trip.filter(|trip| match self.towards {
            Way::Server => trip.towards == Towards::Server,
            Way::Client => trip.towards == Towards::Client,
            Way::Both => true,
        });
        self.measured.samples.extend(wanted.map(|trip| Sample {
            at_ns: trip.at_ns,
            took_ns: Some(trip.took_ns),
            len: 0,
        }));
    }
}
