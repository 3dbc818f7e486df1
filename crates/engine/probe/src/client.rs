//! The end that asks: which stage comes next, and how the server is.
//!
//! Not here: the socket and the clock, and what is sent in a stage (`stages`).

use lineside_time::{Nanoseconds, Random};

use crate::findings::{Findings, Loaded};
use crate::message::{Foreign, Head, LEN_MIN, Message};
use crate::plan::TrainPlan;
use crate::settings::Settings;
use crate::stages::{Core, Direction, EchoPlan, EchoStage, Load, SizeStage, TrainStage};
use crate::train::Fit;
use crate::ways::spread;

/// Echoes of a stage: their list, the least part of what a server remembers.
pub const ECHOES_MAX: u32 = 65_536;

/// Why there are no findings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProbeError {
    /// An ICMP error came back.
    #[error("the port is closed there: start 'lineside probe --serve' at that end")]
    Closed,
    /// Nothing came back.
    #[error(
        "nothing answers there: start 'lineside probe --serve' at that end, and let UDP pass its \
        firewall; --icmp and --tcp PORT need no server"
    )]
    Silent,
    /// The very same came back.
    #[error(
        "what answers there returns what it gets, an echo service, and is no 'lineside probe \
        --serve': name that one's port with --port"
    )]
    EchoService,
    /// Something else came back.
    #[error(
        "what answers there is another program, and no 'lineside probe --serve': name that one's \
        port with --port"
    )]
    Foreign,
    /// The server has another version.
    #[error(
        "the server there speaks version {0} of the protocol, and this is version {own}: use the \
        same lineside at both ends", own = crate::message::VERSION
    )]
    Version(u8),
    /// The server has enough to do.
    #[error("the server there is busy with other probes: try again later, or raise its --sessions")]
    Full,
    /// The server stopped answering before anything was measured.
    #[error("the server answered at first, and then no more: was it stopped?")]
    Gone,
    /// The budget was too small.
    #[error("the budget is too small for an echo: raise --budget")]
    Budget,
}

/// The state of a probe.
#[derive(Debug)]
pub struct Client {
    core: Core,
    stage: Stage,
    next: Next,
    plans: [Option<TrainPlan>; 2],
    findings: Findings,
    outcome: Option<Result<(), ProbeError>>,
}

#[derive(Debug)]
enum Stage {
    /// A question that begins a session, and when it is asked again.
    Greeting(Greeting),
    Size(SizeStage),
    Echo(Box<EchoStage>),
    Train(Box<TrainStage>),
    /// The path becomes empty again, and its bucket full.
    Rest(Nanoseconds),
    /// So many farewells were sent: one may be lost.
    Farewell(u32),
}

#[derive(Debug, Clone, Copy)]
struct Greeting {
    has_cookie: bool,
    tries: u32,
    asked_ns: Nanoseconds,
    due_ns: Nanoseconds,
}

/// What is next when a stage is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    Size(Direction),
    Echo,
    Train(Direction),
    Load(Direction),
    Farewell,
}

/// Greetings: 0.25, 0.5, 1 and 2 s after each other.
const GREETINGS: u32 = 4;
const GREETING_NS: i64 = 250_000_000;
/// Of the budget, so much is for echoes at most.
const ECHO_SHARE: f64 = 0.4;
/// Of what is left then, so much is for the trains of each way; the rest is for a load each way and
/// for lists of what came.
const TRAIN_SHARE: f64 = 0.34;
const LOAD_SHARE: f64 = 0.1;
/// A load is faster than the path by so much, so that a queue forms.
const LOAD_FACTOR: f64 = 1.25;
const LOAD_NS_MAX: f64 = 2e9;
/// Echoes during a load.
const LOADED_ECHOES: i64 = 40;

impl Client {
    /// A probe that begins now.
    pub fn new(settings: Settings, now: Nanoseconds) -> Self {
        let mut random = Random::new(settings.seed);
        Self {
            core: Core {
                settings,
                session: random.bits(),
                stage: 0,
                trip_ns: 0,
                sent_bytes: 0,
                received_bytes: 0,
                random,
            },
            stage: Stage::Greeting(Greeting {
                has_cookie: false,
                tries: 0,
                asked_ns: now,
                due_ns: now,
            }),
            next: Next::Size(Direction::Out),
            plans: [None, None],
            findings: Findings::default(),
            outcome: None,
        }
    }

    /// Writes the next datagram to send now; false if there is none.
    pub fn transmit(&mut self, now: Nanoseconds, out: &mut Vec<u8>) -> bool {
        while self.outcome.is_none() {
            if self.is_over(now) {
                self.go_on(now);
                continue;
            }
            let core = &mut self.core;
            let is_sent = match &mut self.stage {
                Stage::Greeting(greeting) => match greeting.transmit(now, core, out) {
                    Ok(is_sent) => is_sent,
                    Err(error) => {
                        self.outcome = Some(Err(error));
                        false
                    }
                },
                Stage::Size(stage) => stage.transmit(now, core, out),
                Stage::Echo(stage) => stage.transmit(now, core, out),
                Stage::Train(stage) => stage.transmit(now, core, out),
                Stage::Rest(_) => false,
                Stage::Farewell(sent) => {
                    *sent += 1;
                    core.emit(now, *sent, Message::Bye, LEN_MIN, out)
                }
            };
            if is_sent || !self.is_over(now) {
                return is_sent;
            }
        }
        false
    }

    fn is_over(&self, now: Nanoseconds) -> bool {
        match &self.stage {
            Stage::Greeting(_) => false,
            Stage::Size(stage) => stage.is_over,
            Stage::Echo(stage) => stage.is_over,
            Stage::Train(stage) => stage.is_over,
            Stage::Rest(until_ns) => now >= *until_ns,
            Stage::Farewell(sent) => *sent >= 2,
        }
    }

    /// When to call [`transmit`](Self::transmit) again if nothing comes; `None`: it is over.
    pub fn next_deadline(&self) -> Option<Nanoseconds> {
        if self.outcome.is_some() {
            return None;
        }
        Some(match &self.stage {
            Stage::Greeting(greeting) => greeting.due_ns,
            Stage::Size(stage) => stage.due_ns(),
            Stage::Echo(stage) => stage.due_ns(),
            Stage::Train(stage) => stage.due_ns(),
            Stage::Rest(until_ns) => *until_ns,
            Stage::Farewell(_) => Nanoseconds::MIN,
        })
    }

    /// The findings, or why there are none; `None` while it goes on.
    pub fn outcome(&mut self) -> Option<Result<Findings, ProbeError>> {
        let outcome = self.outcome?;
        Some(outcome.map(|()| std::mem::take(&mut self.findings)))
    }

    /// The system says that what was sent last is longer than the path takes.
    pub fn on_too_long(&mut self, now: Nanoseconds) {
        if let Stage::Size(stage) = &mut self.stage {
            stage.on_too_long(now);
        }
    }

    /// The system says that nobody listens at that port.
    pub fn on_closed(&mut self) {
        if let Stage::Greeting(_) = self.stage {
            self.outcome = Some(Err(ProbeError::Closed));
        }
    }

    /// A datagram came at that time.
    pub fn on_datagram(&mut self, at_ns: Nanoseconds, datagram: &[u8]) {
        let parsed = Message::parse(datagram);
        if let Stage::Greeting(greeting) = self.stage {
            match greeting.answer(at_ns, parsed, &mut self.core) {
                Ok(None) => {}
                Ok(Some(true)) => self.go_on(at_ns),
                Ok(Some(false)) => {
                    self.stage = Stage::Greeting(Greeting {
                        has_cookie: true,
                        tries: 0,
                        asked_ns: at_ns,
                        due_ns: at_ns,
                    });
                }
                Err(error) => self.outcome = Some(Err(error)),
            }
            return;
        }
        let Ok((head, message)) = parsed else { return };
        if head.stage != self.core.stage || head.session != self.core.session {
            return;
        }
        match &mut self.stage {
            Stage::Size(stage) => {
                stage.on_message(at_ns, head, message, datagram.len(), &self.core);
            }
            Stage::Echo(stage) => stage.on_message(at_ns, head, message),
            Stage::Train(stage) => stage.on_message(at_ns, head, message, &self.core),
            Stage::Greeting(_) | Stage::Rest(_) | Stage::Farewell(_) => {}
        }
    }

    /// The stage is over: its findings are kept, and the next one begins.
    fn go_on(&mut self, now: Nanoseconds) {
        let rest = Stage::Rest(now);
        match std::mem::replace(&mut self.stage, rest) {
            Stage::Greeting(_) | Stage::Rest(_) => {}
            Stage::Size(stage) => {
                let way = self.findings.way(stage.direction);
                way.mtu_bytes = Some(stage.passes);
                self.next = match stage.direction {
                    Direction::Out => Next::Size(Direction::Back),
                    Direction::Back => Next::Echo,
                };
            }
            Stage::Echo(stage) => self.on_echoes(*stage),
            Stage::Train(stage) => self.on_train(now, *stage),
            Stage::Farewell(_) => {
                self.findings.sent_bytes = self.core.sent_bytes;
                self.findings.received_bytes = self.core.received_bytes;
                self.findings.budget_bytes = self.core.settings.budget_bytes;
                self.outcome = Some(Ok(()));
                return;
            }
        }
        if self.outcome.is_some() {
            return;
        }
        // A path that rests does so until then.
        if !matches!(self.stage, Stage::Rest(until_ns) if until_ns > now) {
            self.begin(now);
        }
    }

    fn begin(&mut self, now: Nanoseconds) {
        self.core.stage += 1;
        self.stage = match self.next {
            Next::Size(direction) => Stage::Size(SizeStage::new(now, direction, &self.core)),
            Next::Echo => {
                let plan = self.echo_plan();
                Stage::Echo(Box::new(EchoStage::new(now, plan, None)))
            }
            Next::Train(direction) => match self.train(now, direction) {
                Some(train) => train,
                None => {
                    self.next = match direction {
                        Direction::Out => Next::Train(Direction::Back),
                        Direction::Back => Next::Load(Direction::Out),
                    };
                    return self.begin(now);
                }
            },
            Next::Load(direction) => {
                self.next = match direction {
                    Direction::Out => Next::Load(Direction::Back),
                    Direction::Back => Next::Farewell,
                };
                match self.load(now, direction) {
                    Some(stage) => stage,
                    None => return self.begin(now),
                }
            }
            Next::Farewell => Stage::Farewell(0),
        };
    }

    /// Datagrams of the longest packets that pass both ways, of Ethernet at most.
    fn long_len(&self) -> u32 {
        let ways = [&self.findings.out, &self.findings.back];
        let passes = ways.into_iter().filter_map(|way| way.mtu_bytes).min();
        passes.unwrap_or(1500).min(1500) - self.core.settings.ip_header_bytes
    }

    fn echo_plan(&mut self) -> EchoPlan {
        let settings = self.core.settings;
        let lens = [LEN_MIN as u32, self.long_len()];
        // Seven short ones and a long one, both ways.
        let eight =
            14 * (lens[0] + settings.ip_header_bytes) + 2 * (lens[1] + settings.ip_header_bytes);
        let bytes = self.core.left_bytes() as f64 * ECHO_SHARE;
        let affordable = (bytes * 8.0 / f64::from(eight)) as u32;
        let count = settings.count.min(affordable).min(ECHOES_MAX);
        if count < settings.count {
            self.findings.remarks.push(format!(
                "{count} echoes of {} that were asked for: raise --budget, 0.4 of which is for them",
                settings.count
            ));
        }
        EchoPlan {
            count,
            interval_ns: settings.interval_ns as i64,
            lens,
            patience_ns: settings.patience_ns as i64,
        }
    }

    fn train(&mut self, now: Nanoseconds, direction: Direction) -> Option<Stage> {
        let left = self.core.left_bytes();
        let len = self.long_len();
        let packet_bytes = len + self.core.settings.ip_header_bytes;
        // The second way has the same part of what there was.
        let share = match direction {
            Direction::Out => TRAIN_SHARE,
            Direction::Back => TRAIN_SHARE / (1.0 - TRAIN_SHARE),
        };
        let frame_bytes = len + self.core.settings.frame_header_bytes();
        let new = || TrainPlan::new((left as f64 * share) as u64, frame_bytes);
        let plan = self.plans[direction as usize].get_or_insert_with(new);
        let shape = plan.next(packet_bytes)?;
        let train = TrainStage::new(now, direction, shape, len);
        Some(Stage::Train(Box::new(train)))
    }

    fn on_train(&mut self, now: Nanoseconds, stage: TrainStage) {
        let direction = stage.direction;
        if stage.has_failed() && !self.core.is_spent() {
            let what = "the server stopped answering before the rate was known: was it stopped?";
            self.findings.remarks.push(what.to_owned());
            self.next = Next::Farewell;
            return;
        }
        let (mut passed, sent) = stage.into_passed(&self.core);
        let fit = Fit::of(&mut passed);
        let bytes: f64 = passed.iter().map(|packet| f64::from(packet.bytes)).sum();
        let way = self.findings.way(direction);
        way.train_packets += u64::from(sent);
        way.train_packets_lost += u64::from(sent).saturating_sub(passed.len() as u64);
        if let Some(plan) = &mut self.plans[direction as usize] {
            plan.on_fit(fit);
            way.fits = plan.fits();
        }
        // What was taken from a bucket is there again after this time.
        let refill_ns = match fit {
            Fit::Limited {
                bits_per_second, ..
            } => (bytes * 8e9 / bits_per_second) as i64,
            Fit::Free { .. } | Fit::Unclear => 0,
        };
        self.stage = Stage::Rest(now + refill_ns.clamp(20_000_000, 2_000_000_000));
    }

    fn load(&mut self, now: Nanoseconds, direction: Direction) -> Option<Stage> {
        if direction == Direction::Out {
            self.findings.conclude(self.long_len(), &self.core.settings);
        }
        let len = self.long_len();
        let packet = f64::from(len + self.core.settings.ip_header_bytes);
        let frame = f64::from(len + self.core.settings.frame_header_bytes());
        let rate = self.findings.way(direction).rate?;
        let gap_ns = frame * 8e9 / (rate.bits_per_second as f64 * LOAD_FACTOR);
        let bytes = self.core.settings.budget_bytes as f64 * LOAD_SHARE;
        // Echoes and answers beside it have some of what is left.
        let bytes = bytes.min(self.core.left_bytes() as f64 * 0.4);
        let count = (bytes / packet).min(LOAD_NS_MAX / gap_ns) as u32;
        if rate.is_at_least || count < 16 {
            return None;
        }
        let plan = EchoPlan {
            count: LOADED_ECHOES as u32,
            interval_ns: (gap_ns * f64::from(count)) as i64 / LOADED_ECHOES,
            lens: [LEN_MIN as u32; 2],
            patience_ns: self.core.settings.patience_ns as i64,
        };
        let load = Load {
            direction,
            count,
            len,
            gap_ns: gap_ns as i64,
            sent: 0,
            due_ns: now,
        };
        Some(Stage::Echo(Box::new(EchoStage::new(now, plan, Some(load)))))
    }

    fn on_echoes(&mut self, stage: EchoStage) {
        let has_failed = stage.collect.has_failed;
        if let Some(load) = stage.load() {
            let rate = f64::from(load.len + self.core.settings.frame_header_bytes()) * 8e9;
            let echoes = stage.into_echoes();
            let trips = echoes.answered();
            self.findings.way(load.direction).loaded = Some(Loaded {
                bits_per_second: (rate / load.gap_ns as f64) as u64,
                packets: load.count.into(),
                echoes: trips.len() as u64,
                lost: trips.iter().filter(|trip| trip.took_ns.is_none()).count() as u64,
                round_trips: spread(&trips, |_| true),
            });
            return;
        }
        let echoes = stage.into_echoes();
        if echoes.sent.is_empty() {
            self.outcome = Some(Err(ProbeError::Budget));
            return;
        }
        if has_failed {
            let error = if self.core.is_spent() {
                ProbeError::Budget
            } else {
                ProbeError::Gone
            };
            self.outcome = Some(Err(error));
            return;
        }
        self.findings.on_ways(echoes.ways());
        self.next = Next::Train(Direction::Out);
    }
}

impl Greeting {
    fn transmit(
        &mut self,
        now: Nanoseconds,
        core: &mut Core,
        out: &mut Vec<u8>,
    ) -> Result<bool, ProbeError> {
        if now < self.due_ns {
            return Ok(false);
        }
        if self.tries >= GREETINGS {
            return Err(if self.has_cookie {
                ProbeError::Gone
            } else {
                ProbeError::Silent
            });
        }
        self.asked_ns = now;
        self.due_ns = now + (GREETING_NS << self.tries);
        self.tries += 1;
        let message = match self.has_cookie {
            true => Message::Begin {
                download_bytes_max: core.settings.budget_bytes,
            },
            false => Message::Hello,
        };
        let is_sent = core.emit(now, self.tries, message, LEN_MIN, out);
        if is_sent {
            Ok(true)
        } else {
            Err(ProbeError::Budget)
        }
    }

    /// Whether the session exists; `None` if the answer does not report it.
    fn answer(
        self,
        at_ns: Nanoseconds,
        parsed: Result<(Head, Message<'_>), Foreign>,
        core: &mut Core,
    ) -> Result<Option<bool>, ProbeError> {
        let (head, message) = match parsed {
            Ok(parsed) => parsed,
            Err(Foreign::Version(version)) => return Err(ProbeError::Version(version)),
            Err(_) => return Err(ProbeError::Foreign),
        };
        if let Message::OtherVersion { version } = message {
            return Err(ProbeError::Version(version));
        }
        if head.session != core.session {
            return Ok(None);
        }
        core.trip_ns = (at_ns - self.asked_ns).max(0);
        match message {
            Message::Hello | Message::Begin { .. } => Err(ProbeError::EchoService),
            Message::Full => Err(ProbeError::Full),
            Message::Welcome { cookie } if !self.has_cookie => {
                core.session = cookie;
                Ok(Some(false))
            }
            Message::Begun { .. } if self.has_cookie => Ok(Some(true)),
            _ => Ok(None),
        }
    }
}
