//! The one pass over `operations`: sums, histograms, and maps of bounded size.

use hashbrown::HashMap;
use lineside_measure::Times;

use crate::limits::{FILES_MAX, KINDS_MAX, PAIRS_MAX};
use crate::model::{Quantiles, SizeClass, THRESHOLDS, Totals};
use crate::pass::usage::{Class, Client, FileUse, Files, Server, Share, Storms, Use, Users, Way};
use crate::read::batch::Batch;
use crate::read::columns::{Lexicon, Word};
use crate::read::lexica::Lexica;
use crate::read::places::Steps;
use crate::read::waits::Wait;

/// Kinds of failures (operation, status), each with a count for each step.
pub(crate) const ERRORS_MAX: usize = 1_024;
/// Rows that are added before what they do with files is: so many uses fit into a cache.
const CHUNK_ROWS: usize = 1_024;
/// Steps over time: as many as a page is wide enough to show.
pub(crate) const STEPS_MAX: u64 = 240;

/// Program, version, operation.
type KindKey = (Word, Option<i32>, Word);

/// Whether an operation asks for attributes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Getattr {
    No,
    Call,
    /// In an NFSv4 compound most come along with what the client really wants.
    InCompound,
}

/// One kind of operation.
pub(crate) struct Kind {
    pub(crate) program: Word,
    pub(crate) version: Option<i32>,
    pub(crate) operation: Word,
    way: Option<Way>,
    getattr: Getattr,
    class: Class,
    pub(crate) operations: u64,
    pub(crate) failed: u64,
    pub(crate) unanswered: u64,
    pub(crate) repeated: u64,
    pub(crate) retransmissions: u64,
    pub(crate) moved_bytes: u64,
    /// Server time, transfer of the call, transfer of the reply.
    pub(crate) times: [Times; 3],
    /// The least server time that is a bound.
    pub(crate) bound_min_ns: Option<u64>,
    /// Times of the batch that are in no histogram yet. All histograms together are larger than a
    /// cache, and each alone is not: it takes its times at once. Those of more than 4 s, of which
    /// there are few, do not wait.
    waiting: [Vec<u32>; 3],
}

impl Kind {
    /// Adds the wait of a call without a reply. Returns its time.
    #[cold]
    fn add_wait(&mut self, wait: &Wait) -> u64 {
        let ns = wait.server_ns();
        self.times[0].add(ns);
        if wait.is_bound {
            self.bound_min_ns = Some(self.bound_min_ns.unwrap_or(ns).min(ns));
        }
        ns
    }

    /// The figures of its server time.
    pub(crate) fn server_time(&self) -> Quantiles {
        Quantiles {
            bound_min_ns: self.bound_min_ns,
            ..quantiles(&self.times[0])
        }
    }
}

/// The figures of a report from recorded times.
pub(crate) fn quantiles(times: &Times) -> Quantiles {
    Quantiles {
        operations: times.count(),
        min_ns: times.min_ns(),
        mean_ns: times.mean_ns(),
        p50_ns: times.quantile_ns(0.5),
        p90_ns: times.quantile_ns(0.9),
        p99_ns: times.quantile_ns(0.99),
        p999_ns: times.quantile_ns(0.999),
        max_ns: times.max_ns(),
        bound_min_ns: None,
    }
}

/// One step over time.
pub(crate) struct Step {
    /// READ, WRITE, everything else.
    pub(crate) operations: [u64; 3],
    /// That READ and WRITE moved.
    pub(crate) bytes: [u64; 2],
    pub(crate) failed: u64,
    pub(crate) unanswered: u64,
    pub(crate) server_time: Times,
}

/// The outcome of one operation.
struct Outcome {
    /// The place of its kind.
    kind: usize,
    way: Option<Way>,
    /// Of its failure.
    status: Option<Word>,
    reply_missing: bool,
    executed: bool,
    /// It is the first chosen one of its call.
    is_call: bool,
    time: Option<i64>,
    step: Option<usize>,
    /// Bytes that it moved.
    moved: u64,
}

impl Outcome {
    fn failed(&self) -> bool {
        self.status.is_some()
    }
}

/// A READ or WRITE with a place.
struct Access {
    operation_id: i64,
    /// Its place among the uses of files that are not added yet, then the file's; `None` where
    /// there was no room for that.
    file: Option<u32>,
    way: Way,
    offset: u64,
    end: u64,
    is_small: bool,
}

/// What is known of READ or WRITE.
pub(crate) struct Flow {
    pub(crate) operations: u64,
    pub(crate) sequential: u64,
    pub(crate) random: u64,
    pub(crate) first: u64,
    pub(crate) small_sequential: u64,
    pub(crate) random_misaligned: u64,
    pub(crate) placed: u64,
    pub(crate) aligned_512: u64,
    pub(crate) aligned_4096: u64,
    /// By the logarithm of the size, rounded up; size 0 is in class 0, size 1 in class 1.
    sizes: [(u64, u64); 66],
}

impl Default for Flow {
    fn default() -> Self {
        Self {
            operations: 0,
            sequential: 0,
            random: 0,
            first: 0,
            small_sequential: 0,
            random_misaligned: 0,
            placed: 0,
            aligned_512: 0,
            aligned_4096: 0,
            sizes: [(0, 0); 66],
        }
    }
}

impl Flow {
    pub(crate) fn sizes(&self) -> Vec<SizeClass> {
        let classes = self.sizes.iter().enumerate();
        let used = classes.filter(|(_, (operations, _))| *operations > 0);
        used.map(|(class, &(operations, moved_bytes))| SizeClass {
            size_max_bytes: match class {
                0 => 0,
                class => 1u64.checked_shl(class as u32 - 1).unwrap_or(u64::MAX),
            },
            operations,
            moved_bytes,
        })
        .collect()
    }
}

/// Failures of a kind with a status.
pub(crate) struct Failures {
    pub(crate) kind: usize,
    pub(crate) status: Word,
    pub(crate) count: u64,
    pub(crate) first_ns: Option<i64>,
    pub(crate) last_ns: Option<i64>,
    pub(crate) steps: Vec<u64>,
}

/// Everything that the pass collects.
pub(crate) struct Aggregate {
    pub(crate) totals: Totals,
    /// The compound whose rows pass.
    rpc_id: Option<i64>,
    pub(crate) start_ns: i64,
    pub(crate) step_ns: u64,
    step_of: Steps,
    pub(crate) steps: Vec<Step>,
    pub(crate) kinds: Vec<Kind>,
    kind_places: HashMap<KindKey, usize>,
    /// The last kind of each word of an operation: most words are of one kind.
    recent: Vec<Option<(KindKey, usize)>>,
    pub(crate) failures: Vec<Failures>,
    failure_places: HashMap<(usize, Word), usize>,
    pub(crate) failures_not_listed: u64,
    pub(crate) files: Files,
    clients: Vec<Client>,
    servers: Vec<Server>,
    pub(crate) users: Users,
    pub(crate) storms: Storms,
    pub(crate) flows: [Flow; 2],
    /// Of some rows.
    uses: Vec<FileUse>,
    places: Vec<Option<u32>>,
    /// Of the batch.
    accesses: Vec<Access>,
    /// Rows of the batch that failed, each with its status.
    pub(crate) failed: Vec<(usize, Word)>,
}

impl Aggregate {
    /// For operations between two times, both inclusive.
    pub(crate) fn new(span: Option<(i64, i64)>) -> Self {
        let (start_ns, step_ns, steps) = steps(span);
        let step = || Step {
            operations: [0; 3],
            bytes: [0; 2],
            failed: 0,
            unanswered: 0,
            server_time: Times::growing(2),
        };
        Self {
            totals: Totals::default(),
            rpc_id: None,
            start_ns,
            step_ns,
            step_of: Steps::new(start_ns, step_ns),
            steps: (0..steps).map(|_| step()).collect(),
            kinds: Vec::new(),
            kind_places: HashMap::new(),
            recent: Vec::new(),
            failures: Vec::new(),
            failure_places: HashMap::new(),
            failures_not_listed: 0,
            files: Files::new(FILES_MAX, PAIRS_MAX),
            clients: Vec::new(),
            servers: Vec::new(),
            users: Users::new(),
            storms: Storms::default(),
            flows: Default::default(),
            uses: Vec::new(),
            places: Vec::new(),
            accesses: Vec::new(),
            failed: Vec::new(),
        }
    }

    /// Clients; [`Lexicon::OTHER`] are those for which there was no room.
    pub(crate) fn clients(&self) -> impl Iterator<Item = (Word, &Client)> {
        let clients = self.clients.iter().enumerate();
        clients
            .filter(|(_, client)| client.used.operations > 0)
            .map(|(word, client)| (word as Word, client))
    }

    /// Servers, likewise.
    pub(crate) fn servers(&self) -> impl Iterator<Item = (Word, &Server)> {
        (0..)
            .zip(&self.servers)
            .filter(|(_, server)| server.used.operations > 0)
    }

    /// Adds the chosen rows of a batch.
    pub(crate) fn add(&mut self, batch: &Batch<'_>, rows: &[usize], lexica: &mut Lexica) {
        self.clients.resize(lexica.clients.len(), Client::default());
        self.servers.resize(lexica.servers.len(), Server::default());
        self.failed.clear();
        let is_one_server = batch.server.is_same();
        let server = |row| batch.server.get(row);
        for rows in rows.chunks(CHUNK_ROWS) {
            let followed = self.accesses.len();
            if is_one_server {
                self.add_rows_of_server(batch, rows, lexica);
            } else {
                for rows in rows.chunk_by(|&one, &other| server(one) == server(other)) {
                    self.add_rows_of_server(batch, rows, lexica);
                }
            }
            self.add_uses(followed);
        }
        self.follow();
        for kind in &mut self.kinds {
            for (times, waiting) in kind.times.iter_mut().zip(&mut kind.waiting) {
                times.add_all(waiting);
                waiting.clear();
            }
        }
    }

    /// Adds rows of one server: what they add to all is that server's. Most traces have one.
    fn add_rows_of_server(&mut self, batch: &Batch<'_>, rows: &[usize], lexica: &mut Lexica) {
        let Some(&first) = rows.first() else {
            return;
        };
        let before = self.answered();
        for &row in rows {
            self.add_row(batch, row, lexica);
        }
        let added = self.answered().without(before);
        if let Some(server) = self.servers.get_mut(batch.server.get(first) as usize) {
            server.used.merge(added.used);
            server.waited_ns = server.waited_ns.saturating_add(added.waited_ns);
        }
    }

    /// What all servers did so far.
    fn answered(&self) -> Server {
        let totals = &self.totals;
        let used = Use {
            operations: totals.operations,
            bytes: [totals.read_bytes, totals.written_bytes],
            failed: totals.failed,
        };
        Server {
            used,
            waited_ns: totals.waited_ns,
        }
    }

    #[inline]
    fn add_row(&mut self, batch: &Batch<'_>, row: usize, lexica: &mut Lexica) {
        let outcome = self.outcome(batch, row, lexica);
        self.add_to_totals(batch, row, &outcome);
        let (asks_only, server_time) = self.add_to_kind(batch, row, &outcome, lexica);
        self.add_to_step(&outcome, server_time);
        if let Some(status) = outcome.status {
            self.failed.push((row, status));
            self.fail(outcome.kind, status, outcome.time, outcome.step);
        }
        self.add_use(batch, row, &outcome, asks_only);
    }

    #[inline(always)]
    fn outcome(&mut self, batch: &Batch<'_>, row: usize, lexica: &mut Lexica) -> Outcome {
        let kind = self.kind(batch, row, lexica);
        let time = batch.time(row);
        let rpc_id = batch.rpc_id.get(row);
        let is_call = rpc_id.is_none() || rpc_id != self.rpc_id;
        self.rpc_id = rpc_id;
        Outcome {
            kind,
            is_call,
            way: self.kinds[kind].way,
            status: lexica.failure(batch.status.get(row), batch.rpc_status.get(row)),
            reply_missing: batch.reply_missing.get(row),
            executed: !batch.not_executed.get(row),
            time,
            step: time.and_then(|time| self.step_of.at(time)),
            moved: batch
                .transferred
                .get(row)
                .map_or(0, |bytes| u64::try_from(bytes).unwrap_or(0)),
        }
    }

    #[inline(always)]
    fn add_to_totals(&mut self, batch: &Batch<'_>, row: usize, outcome: &Outcome) {
        let totals = &mut self.totals;
        totals.operations += 1;
        totals.calls += u64::from(outcome.is_call);
        totals.failed += u64::from(outcome.failed());
        totals.unanswered += u64::from(outcome.reply_missing);
        totals.without_call += u64::from(batch.call_missing.get(row));
        totals.incomplete += u64::from(batch.incomplete.iter().any(|flag| flag.get(row)));
        totals.repeated += u64::from(batch.repeat.get(row));
        totals.retransmissions += batch.retransmissions.get(row);
        totals.duplicate_replies += batch.duplicate_replies.get(row);
        match outcome.time {
            Some(time) => {
                totals.first_ns = Some(totals.first_ns.map_or(time, |first| first.min(time)));
                totals.last_ns = Some(totals.last_ns.map_or(time, |last| last.max(time)));
            }
            None => totals.without_time += 1,
        }
        if let Some(way) = outcome.way {
            let is_told =
                batch.transferred.get(row).is_some() || outcome.failed() || outcome.reply_missing;
            totals.without_amount += u64::from(!is_told && outcome.executed);
            match way {
                Way::Read => totals.read_bytes += outcome.moved,
                Way::Write => totals.written_bytes += outcome.moved,
            }
        }
    }

    /// Whether the operation only asks for attributes, and its server time.
    #[inline(always)]
    fn add_to_kind(
        &mut self,
        batch: &Batch<'_>,
        row: usize,
        outcome: &Outcome,
        lexica: &Lexica,
    ) -> (bool, Option<u64>) {
        let kind = &mut self.kinds[outcome.kind];
        let asks_only = match kind.getattr {
            Getattr::No => false,
            Getattr::Call => true,
            Getattr::InCompound => batch.is_alone(row, lexica),
        };
        kind.operations += 1;
        kind.failed += u64::from(outcome.failed());
        kind.unanswered += u64::from(outcome.reply_missing);
        kind.repeated += u64::from(batch.repeat.get(row));
        kind.retransmissions += batch.retransmissions.get(row);
        kind.moved_bytes += outcome.moved;
        if !outcome.executed {
            return (asks_only, None);
        }
        let [call, call_end, reply, reply_end] = [
            batch.call_time_ns.get(row),
            batch.call_end_ns.get(row),
            batch.reply_time_ns.get(row),
            batch.reply_end_ns.get(row),
        ];
        let spans = [(call_end, reply), (call, call_end), (reply, reply_end)];
        let mut server_time = None;
        for (place, (from, to)) in spans.into_iter().enumerate() {
            let (Some(from), Some(to)) = (from, to) else {
                continue;
            };
            match to.checked_sub(from).and_then(|ns| u64::try_from(ns).ok()) {
                Some(ns) => {
                    match u32::try_from(ns) {
                        Ok(short) => kind.waiting[place].push(short),
                        Err(_) => kind.times[place].add(ns),
                    }
                    if place == 0 {
                        server_time = Some(ns);
                    }
                }
                None => self.totals.negative_times += 1,
            }
        }
        if outcome.is_call
            && let (Some(call), Some(end)) = (call, reply_end)
        {
            self.totals.waited_ns += u64::try_from(end.saturating_sub(call)).unwrap_or(0);
        }
        let wait = batch.wait(row).filter(|wait| wait.is_hang());
        let server_time = wait.map_or(server_time, |wait| {
            if outcome.is_call {
                self.totals.waited_ns = self.totals.waited_ns.saturating_add(wait.ns());
            }
            Some(kind.add_wait(wait))
        });
        (asks_only, server_time)
    }

    #[inline(always)]
    fn add_to_step(&mut self, outcome: &Outcome, server_time: Option<u64>) {
        let Some(step) = outcome.step.and_then(|at| self.steps.get_mut(at)) else {
            return;
        };
        step.operations[outcome.way.map_or(2, |way| way as usize)] += 1;
        step.failed += u64::from(outcome.failed());
        step.unanswered += u64::from(outcome.reply_missing);
        if let Some(way) = outcome.way {
            step.bytes[way as usize] += outcome.moved;
        }
        if let Some(ns) = server_time {
            step.server_time.add(ns);
        }
    }

    /// By whom an operation was asked for, and of which file.
    #[inline(always)]
    fn add_use(&mut self, batch: &Batch<'_>, row: usize, outcome: &Outcome, asks_only: bool) {
        let Outcome { way, moved, .. } = *outcome;
        let failed = outcome.failed();
        let share = Share {
            failed,
            way,
            bytes: way.map_or(0, |_| moved),
            getattr_second: outcome
                .time
                .filter(|_| asks_only)
                .and_then(|time| u32::try_from(time.div_euclid(1_000_000_000)).ok()),
        };
        let client = batch.client.get(row);
        if let Some(used) = self.clients.get_mut(client as usize) {
            used.add(client, share, &mut self.storms);
        }
        match batch.user_id.get(row) {
            Some(user_id) => self.users.add(user_id, share),
            None => self.totals.without_user += 1,
        }
        let class = match failed || outcome.reply_missing {
            true => Class::Unknown,
            false => self.kinds[outcome.kind].class,
        };
        let file = batch.file_id.get(row).map(|file_id| {
            self.uses.push(FileUse {
                file_id,
                client,
                class,
                share,
            });
            self.uses.len() as u32 - 1
        });
        if let Some(way) = way {
            let size = batch.count.get(row).map(|bits| bits as u64);
            let transferred = batch.transferred.get(row).map(|_| moved);
            self.place(batch, row, way, file, size, transferred);
        }
    }

    /// Where a READ or WRITE lies, and how large it is.
    fn place(
        &mut self,
        batch: &Batch<'_>,
        row: usize,
        way: Way,
        file: Option<u32>,
        size: Option<u64>,
        transferred: Option<u64>,
    ) {
        let flow = &mut self.flows[way as usize];
        flow.operations += 1;
        if let Some(size) = size.or(transferred) {
            let class = match size {
                0 => 0,
                size => (u64::BITS - (size - 1).leading_zeros()) as usize + 1,
            };
            let (operations, bytes) = &mut flow.sizes[class];
            *operations += 1;
            *bytes += transferred.unwrap_or(0);
        }
        let Some(offset) = batch.offset.get(row).map(|bits| bits as u64) else {
            return;
        };
        if let Some(size) = size {
            flow.placed += 1;
            let ends = offset | offset.wrapping_add(size);
            let aligned = [512, 4_096].map(|unit| u64::from(ends.is_multiple_of(unit)));
            flow.aligned_512 += aligned[0];
            flow.aligned_4096 += aligned[1];
            if let Some(client) = self.clients.get_mut(batch.client.get(row) as usize) {
                client.placed += 1;
                client.aligned[0] += aligned[0];
                client.aligned[1] += aligned[1];
            }
        }
        if let (Some(_), Some(operation_id), Some(moved)) =
            (file, batch.operation_id.get(row), transferred.or(size))
        {
            let end = offset.wrapping_add(moved);
            let asked = size.or(transferred);
            self.accesses.push(Access {
                operation_id,
                file,
                way,
                offset,
                end,
                is_small: asked.is_some_and(|bytes| bytes <= THRESHOLDS.small_size_max_bytes),
            });
        }
    }

    /// Adds uses of files, of which the accesses from a place on are.
    fn add_uses(&mut self, followed: usize) {
        let Self {
            files,
            uses,
            storms,
            places,
            ..
        } = self;
        files.add(uses, storms, places);
        uses.clear();
        for access in &mut self.accesses[followed..] {
            access.file = access.file.and_then(|used| places[used as usize]);
        }
    }

    /// Follows the batch's accesses in the order of their calls: rows come in the order of replies,
    /// which a server may give in any.
    fn follow(&mut self) {
        let mut accesses = std::mem::take(&mut self.accesses);
        accesses.sort_unstable_by_key(|access| access.operation_id);
        for access in accesses.drain(..) {
            let Some(file) = access.file else {
                continue;
            };
            let flow = &mut self.flows[access.way as usize];
            match self.files.follow(file, access.way, access.end) {
                None => flow.first += 1,
                Some(end) if end == access.offset => {
                    flow.sequential += 1;
                    flow.small_sequential += u64::from(access.is_small);
                }
                Some(_) => {
                    flow.random += 1;
                    flow.random_misaligned += u64::from(!access.offset.is_multiple_of(4_096));
                }
            }
        }
        self.accesses = accesses;
    }

    fn kind(&mut self, batch: &Batch<'_>, row: usize, lexica: &Lexica) -> usize {
        let key = (
            batch.program.get(row),
            batch.version.get(row),
            batch.operation.get(row),
        );
        let word = key.2 as usize;
        if let Some(&Some((last, at))) = self.recent.get(word)
            && last == key
        {
            return at;
        }
        let at = match self.kind_places.get(&key) {
            Some(&at) => at,
            // The last place is for kinds for which there is no room.
            None if self.kinds.len() + 1 >= KINDS_MAX => {
                let other = (Lexicon::OTHER, None, Lexicon::OTHER);
                match self.kind_places.get(&other) {
                    Some(&at) => at,
                    None => self.new_kind(other, lexica),
                }
            }
            None => self.new_kind(key, lexica),
        };
        if word >= self.recent.len() {
            self.recent.resize(word + 1, None);
        }
        self.recent[word] = Some((key, at));
        at
    }

    fn new_kind(&mut self, key: KindKey, lexica: &Lexica) -> usize {
        let (program, version, operation) = key;
        let name = (lexica.words.text(program), lexica.words.text(operation));
        let way = match name {
            ("nfs", "READ") => Some(Way::Read),
            ("nfs", "WRITE") => Some(Way::Write),
            _ => None,
        };
        self.kinds.push(Kind {
            program,
            version,
            operation,
            way,
            getattr: match name {
                ("nfs", "GETATTR") if version >= Some(4) => Getattr::InCompound,
                ("nfs", "GETATTR") => Getattr::Call,
                _ => Getattr::No,
            },
            class: match name {
                ("nfs", operation) => Class::of_operation(operation),
                _ => Class::Unknown,
            },
            operations: 0,
            failed: 0,
            unanswered: 0,
            repeated: 0,
            retransmissions: 0,
            moved_bytes: 0,
            times: [Times::growing(3), Times::growing(3), Times::growing(3)],
            bound_min_ns: None,
            waiting: Default::default(),
        });
        self.kind_places.insert(key, self.kinds.len() - 1);
        self.kinds.len() - 1
    }

    fn fail(&mut self, kind: usize, status: Word, time: Option<i64>, step: Option<usize>) {
        let at = match self.failure_places.get(&(kind, status)) {
            Some(&at) => at,
            None if self.failures.len() >= ERRORS_MAX => {
                self.failures_not_listed += 1;
                return;
            }
            None => {
                self.failures.push(Failures {
                    kind,
                    status,
                    count: 0,
                    first_ns: None,
                    last_ns: None,
                    steps: vec![0; self.steps.len()],
                });
                self.failure_places
                    .insert((kind, status), self.failures.len() - 1);
                self.failures.len() - 1
            }
        };
        let failures = &mut self.failures[at];
        failures.count += 1;
        if let Some(time) = time {
            failures.first_ns = Some(failures.first_ns.map_or(time, |first| first.min(time)));
            failures.last_ns = Some(failures.last_ns.map_or(time, |last| last.max(time)));
        }
        if let Some(count) = step.and_then(|step| failures.steps.get_mut(step)) {
            *count += 1;
        }
    }
}

/// Begin, length and number of the steps for a span of time: lengths are 1, 2 or 5 times a power of
/// ten of nanoseconds, or whole minutes, hours and days, as people divide time.
fn steps(span: Option<(i64, i64)>) -> (i64, u64, u64) {
    let Some((first, last)) = span else {
        return (0, 1_000_000_000, 0);
    };
    let length = last.abs_diff(first);
    const MINUTE: u64 = 60_000_000_000;
    let decimal = (0..11).flat_map(|power| [1, 2, 5].map(|digit| digit * 10u64.pow(power)));
    let seconds = decimal
        .filter(|&step| (1_000..=MINUTE / 2).contains(&step))
        .chain([MINUTE / 2]);
    let longer = [
        1, 2, 5, 10, 30, 60, 120, 360, 720, 1_440, 2_880, 10_080, 43_200, 525_600,
    ]
    .map(|minutes| minutes * MINUTE);
    let step = seconds
        .chain(longer)
        .find(|step| length / step + 2 <= STEPS_MAX)
        .unwrap_or(length / (STEPS_MAX - 2) + 1);
    // Steps begin at multiples of their length since the epoch, so that reports of one day agree.
    let start = first.saturating_sub(first.rem_euclid(i64::try_from(step).unwrap_or(i64::MAX)));
    (start, step, last.abs_diff(start) / step + 1)
}

#[cfg(test)]
mod tests {
    use lineside_time::Random;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn steps_cover_the_span_and_are_few(first: i64, length in prop_oneof![0..1_000_000i64, 0..i64::MAX]) {
            let last = first.saturating_add(length);
            let (start, step, count) = steps(Some((first, last)));
            prop_assert!(count <= STEPS_MAX, "{count} steps");
            prop_assert!(start <= first);
            prop_assert_eq!(last.abs_diff(start) / step, count - 1);
        }
    }

    #[test]
    fn quantiles_lie_within_the_stated_error() {
        let mut random = Random::new(7);
        let mut values: Vec<u64> = (0..100_000)
            .map(|_| {
                let top = 1u64 << random.below(40);
                top + random.below(top)
            })
            .collect();
        let mut durations = Times::growing(3);
        values.iter().for_each(|&ns| durations.add(ns));
        values.sort_unstable();
        for share in [0.5, 0.9, 0.99, 0.999] {
            let exact = values[(share * values.len() as f64).ceil() as usize - 1];
            let approximate = durations.quantile_ns(share).expect("there are values");
            assert!(
                approximate.abs_diff(exact) as f64 <= exact as f64 * 0.001,
                "{share}: {approximate}, not {exact}"
            );
        }
        let quantiles = quantiles(&durations);
        assert_eq!(quantiles.min_ns, values.first().copied());
        assert_eq!(quantiles.max_ns, values.last().copied());
    }

    #[test]
    fn sizes_are_classed_by_powers_of_two() {
        let mut flow = Flow::default();
        for class in [0, 1, 13, 65] {
            flow.sizes[class].0 = 1;
        }
        let largest: Vec<_> = flow
            .sizes()
            .iter()
            .map(|class| class.size_max_bytes)
            .collect();
        assert_eq!(largest, [0, 1, 4_096, u64::MAX]);
    }
}
