//! The requests of a connection while its answers are read, and the account of each.

use lineside_time::Nanoseconds;

use super::exchanges::{Exchange, Exchanges};
use super::slots::Slots;
use crate::protocol::{Answer, Broken, Outstanding, Request};
use crate::results::{Cause, DEPARTURES_KEPT, Results, Row};
use crate::rows::Rows;

/// The requests of a connection while its answers are read.
pub(super) struct Waiting<'a, R> {
    pub(super) exchanges: &'a mut Exchanges<R>,
    pub(super) results: &'a mut Results,
    pub(super) rows: Option<&'a mut Rows>,
    pub(super) slots: &'a Slots,
    pub(super) active: u32,
    pub(super) at: Nanoseconds,
    pub(super) answers: u32,
    pub(super) closes: bool,
    /// The last answer, which is accounted for when what comes after it is known to be allowed.
    pub(super) last: Option<(Exchange, Answered)>,
}

impl<R: Default> Waiting<'_, R> {
    /// The last answer is over, or its request fails: by bytes after it that answer nothing.
    pub(super) fn settle(&mut self, outcome: Result<(), Cause>) {
        let Some((exchange, answered)) = self.last.take() else {
            return;
        };
        match outcome {
            Ok(()) => self.results.on_answer(&answered),
            Err(cause) => self.results.counts.failed[cause as usize] += 1,
        }
        if let Some(rows) = self.rows.as_mut()
            && rows.wants(exchange.request.ordinal)
        {
            let outcome = outcome.map(|()| (answered.answer, answered.at));
            rows.push(row(self.slots, &exchange, outcome));
        }
    }

    /// Bytes came: the first ones of the answer to the oldest request, if none came before.
    pub(super) fn on_first_byte(&mut self) {
        if let Some(place) = self.exchanges.unanswered(self.active, None) {
            let exchange = &mut self.exchanges.exchanges[place as usize];
            if exchange.first_ns == Nanoseconds::MIN {
                exchange.first_ns = self.at;
            }
        }
    }
}

impl<R: Default> Waiting<'_, R> {
    /// The peer's TCP has acknowledged more bytes: requests of which it has all are answered.
    pub(super) fn on_acknowledged(&mut self) -> Result<(), Broken> {
        while let Some(place) = self.exchanges.unanswered(self.active, None) {
            let exchange = &self.exchanges.exchanges[place as usize];
            if exchange.end() > self.exchanges.active[self.active as usize].acknowledged {
                break;
            }
            let answer = Answer {
                is_success: true,
                content_bytes: exchange.len,
                ..Answer::default()
            };
            self.answered(answer)?;
        }
        Ok(())
    }
}

impl<R: Default> Outstanding for Waiting<'_, R> {
    fn oldest(&mut self) -> Option<Request> {
        let place = self.exchanges.unanswered(self.active, None)?;
        Some(self.exchanges.exchanges[place as usize].request)
    }

    fn request(&mut self, number: u32) -> Option<Request> {
        let place = self.exchanges.unanswered(self.active, Some(number))?;
        Some(self.exchanges.exchanges[place as usize].request)
    }

    fn answered(&mut self, answer: Answer) -> Result<(), Broken> {
        let place = self.exchanges.unanswered(self.active, answer.request);
        let place = place.ok_or(Broken)?;
        let mut exchange = self.exchanges.answer(self.active, place);
        if exchange.first_ns == Nanoseconds::MIN {
            exchange.first_ns = self.at;
        }
        self.settle(Ok(()));
        let answered = Answered {
            answer,
            intended_ns: exchange.intended_ns,
            departed_ns: known(exchange.departed_ns),
            first_ns: exchange.first_ns,
            at: self.at,
        };
        self.last = Some((exchange, answered));
        self.answers += 1;
        self.closes |= answer.closes;
        self.on_first_byte();
        Ok(())
    }
}

/// A request that is answered.
pub(super) struct Answered {
    pub(super) answer: Answer,
    pub(super) intended_ns: Nanoseconds,
    pub(super) departed_ns: Option<Nanoseconds>,
    /// When the first byte of the answer came.
    pub(super) first_ns: Nanoseconds,
    /// When its last one did.
    pub(super) at: Nanoseconds,
}

impl Results {
    /// The first byte of a request has left.
    pub(super) fn on_departure(&mut self, intended_ns: Nanoseconds, sent_ns: Nanoseconds) {
        let late_ns = sent_ns - intended_ns;
        self.times.lateness.record(late_ns);
        self.times.late.record(late_ns);
        if self.departures.len() < DEPARTURES_KEPT {
            self.departures.push((intended_ns, sent_ns));
        }
    }

    /// A request is answered.
    pub(super) fn on_answer(&mut self, answered: &Answered) {
        let &Answered { answer, at, .. } = answered;
        let Self {
            counts,
            times,
            recent,
            ended_ns,
            ..
        } = self;
        *ended_ns = (*ended_ns).max(at);
        counts.answered += 1;
        counts.succeeded += u64::from(answer.is_success);
        counts.content_bytes += answer.content_bytes;
        counts.on_status(answer.status);
        let latency_ns = at - answered.intended_ns;
        times.latency.record(latency_ns);
        if let Some(operation) = times.operations.get_mut(usize::from(answer.operation)) {
            operation.record(latency_ns);
        }
        recent.latency.record(latency_ns);
        // A fast answer may come before the loop knows when its request left.
        let departed_ns = answered.departed_ns.unwrap_or(answered.intended_ns);
        times.service.record(at - departed_ns);
        recent.service.record(at - departed_ns);
        times.first_byte.record(answered.first_ns - departed_ns);
    }
}

fn known(at: Nanoseconds) -> Option<Nanoseconds> {
    (at != Nanoseconds::MIN).then_some(at)
}

/// The row of a request that is answered or has failed.
#[cold]
pub(super) fn row(
    slots: &Slots,
    exchange: &Exchange,
    outcome: Result<(Answer, Nanoseconds), Cause>,
) -> Row {
    let answer = outcome.ok();
    Row {
        ordinal: exchange.request.ordinal,
        slot: exchange.request.slot,
        intended_ns: exchange.intended_ns,
        departed_ns: known(exchange.departed_ns),
        first_ns: known(exchange.first_ns),
        end_ns: answer.map(|(_, at)| at),
        ends: slots.ends(exchange.request.slot),
        status: answer.map(|(answer, _)| answer.status),
        request_bytes: exchange.len,
        content_bytes: answer.map_or(0, |(answer, _)| answer.content_bytes),
        cause: outcome.err(),
    }
}
