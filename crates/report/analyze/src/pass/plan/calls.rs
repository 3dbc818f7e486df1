//! Calls of rows: the rows of a compound are one call.

use hashbrown::HashSet;
use lineside_plan::{Action, Event, Figures, Observed, Planner, Touch};

use super::left_out::{Aside, LeftOut, PlanOutput};
use super::openings::Opening;
use super::rows::{NONE, Row, Source};

use crate::read::columns::Lexicon;
use crate::read::compound::is_beside;

/// Directories that are known as such.
const DIRECTORIES_MAX: usize = 1 << 20;

/// What else came of the rows.
#[derive(Debug, Default)]
pub(super) struct Done {
    pub(super) left_out: LeftOut,
    pub(super) first_ns: Option<i64>,
    pub(super) last_ns: Option<i64>,
}

/// Takes rows in the order of their calls.
pub(super) struct Calls<'a, S> {
    planner: Planner<S>,
    pub(super) aside: &'a mut dyn Aside,
    /// The last first.
    openings: Vec<Opening>,
    /// The rows of the call that is put together.
    rows: Vec<Row>,
    touches: Vec<Touch>,
    directories: HashSet<i64>,
    /// How many words the sink knows.
    known: usize,
    pub(super) done: Done,
}

impl<'a, S: PlanOutput> Calls<'a, S> {
    pub(super) fn new(
        planner: Planner<S>,
        aside: &'a mut dyn Aside,
        (openings, not_seen): (Vec<Opening>, u64),
    ) -> Self {
        let mut done = Done::default();
        done.left_out.openings_not_seen = not_seen;
        Self {
            planner,
            aside,
            openings,
            rows: Vec::new(),
            touches: Vec::new(),
            directories: HashSet::new(),
            known: 0,
            done,
        }
    }

    pub(super) fn row(&mut self, row: &Row, words: &Lexicon) {
        let count = match row.source {
            Source::Call => None,
            Source::Repeat => Some(&mut self.done.left_out.repeats),
            Source::Callback => Some(&mut self.done.left_out.callbacks),
            Source::Other => Some(&mut self.done.left_out.other_protocols),
        };
        if let Some(count) = count {
            // Of a compound its first row.
            *count += u64::from(row.operation_id == row.rpc_id);
            return;
        }
        if self
            .rows
            .first()
            .is_some_and(|first| first.rpc_id != row.rpc_id)
        {
            self.end(words);
        }
        self.rows.push(*row);
    }

    pub(super) fn finish(mut self, words: &Lexicon) -> (Done, Figures, S) {
        self.end(words);
        let (figures, sink) = self.planner.finish();
        (self.done, figures, sink)
    }

    /// Gives the call to the planner, and the openings before it.
    fn end(&mut self, words: &Lexicon) {
        let Some(first) = self.rows.first().copied() else {
            return;
        };
        self.learn(words);
        while let Some(opening) = self.openings.pop_if(|opening| opening.ns <= first.call_ns) {
            let call = Observed {
                event: Event::Open,
                id: opening.connection,
                call_ns: opening.ns,
                reply_ns: Some(opening.ns),
                client: opening.client,
                server: opening.server,
                connection: opening.connection,
                ..Observed::default()
            };
            self.aside.call(&[]);
            self.planner.call(call, &[]);
        }
        self.touches.clear();
        let rows = std::mem::take(&mut self.rows);
        let mut operation = None;
        for row in &rows {
            let name = words.text(row.operation);
            let is_own = !is_beside(name) || operation.is_none();
            if is_own && operation.is_none_or(|(_, is_beside)| is_beside) {
                operation = Some((row.operation, is_beside(name)));
            }
            if !row.not_executed {
                self.touch(row, name);
            }
        }
        let name = operation.map_or("", |(word, _)| words.text(word));
        let is_timer = name == "RENEW" || name == "SEQUENCE" && rows.len() == 1;
        let call = Observed {
            event: if is_timer { Event::Timer } else { Event::Call },
            id: first.rpc_id,
            call_ns: first.call_ns,
            reply_ns: some(first.reply_ns),
            client: first.client,
            server: first.server,
            connection: first.connection,
            user: some(first.user),
            operation: operation.map_or(Lexicon::NONE, |(word, _)| word),
        };
        self.done.first_ns = self.done.first_ns.or(Some(first.call_ns));
        self.done.last_ns = Some(first.call_ns);
        self.aside.call(&rows);
        self.planner.call(call, &self.touches);
        self.rows = rows;
        self.rows.clear();
    }

    fn learn(&mut self, words: &Lexicon) {
        while self.known < words.len() {
            let text = words.text(self.known as u32);
            self.planner.sink_mut().text(self.known as u32, text);
            self.known += 1;
        }
    }

    /// What an operation touches.
    fn touch(&mut self, row: &Row, name: &str) {
        let action = match name {
            "READ" | "READ_PLUS" => Action::Read,
            "WRITE" => Action::Write,
            "COMMIT" => Action::Commit,
            "CLOSE" | "LOCKU" | "UNLOCK" => Action::Release,
            "LOOKUP" | "OPEN" | "MNT" => Action::Look,
            "CREATE" | "MKDIR" | "SYMLINK" | "MKNOD" | "REMOVE" | "RMDIR" | "RENAME" | "LINK" => {
                Action::Change
            }
            "SETATTR" | "ALLOCATE" | "DEALLOCATE" | "COPY" | "CLONE" => Action::Set,
            _ => Action::Use,
        };
        // They have the handle, which the operations after them use.
        if matches!(
            name,
            "PUTFH" | "SAVEFH" | "RESTOREFH" | "GETFH" | "PUTROOTFH"
        ) {
            return;
        }
        let is_named = matches!(action, Action::Look | Action::Change);
        let is_directory = row.is_directory || is_named || name.starts_with("READDIR");
        let file = some(row.file);
        if let Some(file) = file.filter(|_| is_directory && name != "LINK")
            && self.directories.len() < DIRECTORIES_MAX
        {
            self.directories.insert(file);
        }
        let is_known = |file: i64| self.directories.contains(&file);
        let range = match action {
            Action::Read | Action::Write => some(row.offset).map(|offset| {
                let offset = offset.cast_unsigned();
                (offset, offset.saturating_add(row.count.max(1).into()))
            }),
            Action::Set => Some((0, u64::MAX)),
            _ => None,
        };
        let is_session = name == "CREATE_SESSION";
        let made_state = match is_session {
            true => Some(row.state),
            false => Some(row.made_state).filter(|_| makes_state(name)),
        };
        let touch = Touch {
            action,
            file,
            made: some(row.made),
            name: Some(row.name).filter(|&name| name > 0 && is_named),
            range,
            is_directory: file.is_some_and(is_known),
            state: Some(row.state).filter(|&state| state > 0 && !is_session),
            made_state: made_state.filter(|&state| state > 0),
        };
        self.touches.push(touch);
        // RENAME changes a name in a second directory, too.
        if matches!(name, "RENAME" | "LINK") && row.name2 > 0 {
            self.touches.push(Touch {
                action: Action::Change,
                file: some(row.file2),
                name: Some(row.name2),
                is_directory: true,
                ..Touch::default()
            });
        }
    }
}

/// Operations whose reply has a state that others then use.
fn makes_state(name: &str) -> bool {
    matches!(
        name,
        "OPEN" | "LOCK" | "LAYOUTGET" | "GET_DIR_DELEGATION" | "COPY"
    )
}

fn some(value: i64) -> Option<i64> {
    (value != NONE).then_some(value)
}
