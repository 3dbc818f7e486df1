//! Calls before a run, one after the other.

use std::net::SocketAddr;

use lineside_host::RunClock;
use lineside_nfs_client::{
    Answer, Client, ClientError, Config, Connection, Credential, Event, Request, Results, Service,
    Transport,
};
use lineside_time::Clock;

use crate::error::RerunError;
use crate::lines::{Heard, LineIndex, Lines};
use crate::url::Url;

/// A client that asks, and waits for each answer.
pub(crate) struct Asking<'a> {
    clock: &'a RunClock,
    lines: Lines<'a, RunClock>,
    client: Client,
    credential: Credential,
    known: Vec<(LineIndex, Connection, Service)>,
    to: SocketAddr,
    timeout_ns: i64,
    /// Where MOUNT is.
    pub(crate) mount_port: Option<u16>,
}

impl<'a> Asking<'a> {
    /// A client that the server knows, and that has mounted what `config` has.
    pub(crate) fn new(
        clock: &'a RunClock,
        url: &Url,
        config: Config,
        timeout_ns: i64,
    ) -> Result<Self, RerunError> {
        let credential = config.credential.clone();
        let mut asking = Self {
            clock,
            lines: Lines::new(clock, None)?,
            client: Client::new(config),
            credential,
            known: Vec::new(),
            to: SocketAddr::new(url.server, url.port),
            timeout_ns,
            mount_port: None,
        };
        asking.client.start(clock.now());
        let until = clock.now().saturating_add(timeout_ns);
        while !asking.client.is_ready() {
            asking.turn(until, "mounting", &mut |_| {})?;
        }
        Ok(asking)
    }

    /// The handle of what was mounted.
    pub(crate) fn root(&self) -> Vec<u8> {
        self.client.root().to_vec()
    }

    /// Makes a call, and returns what `read` makes of its results.
    pub(crate) fn ask<T>(
        &mut self,
        doing: &str,
        request: Request<'_>,
        read: impl FnOnce(Results<'_>) -> Option<T>,
    ) -> Result<T, RerunError> {
        let now = self.clock.now();
        let line = self.known.iter().rev();
        let line = line
            .clone()
            .find(|(_, _, service)| *service == Service::Nfs);
        let Some(&(_, connection, _)) = line else {
            return Err(ClientError::NoConnection(Service::Nfs).into());
        };
        self.client
            .call(now, connection, 1, &self.credential, request)?;
        let until = now.saturating_add(self.timeout_ns);
        let (mut read, mut found) = (Some(read), None);
        while read.is_some() {
            self.turn(until, doing, &mut |answer| {
                found = match (answer, read.take()) {
                    (Answer::Results(results), Some(read)) => read(results).ok_or_else(String::new),
                    (Answer::Refused(refusal), _) => Err(refusal.name().to_owned()),
                    (Answer::Results(_), None) => Err(String::new()),
                }
                .into();
            })?;
        }
        let refused = |status: String| match status.is_empty() {
            true => RerunError::NoReply { to: self.to },
            false => RerunError::Refused {
                doing: doing.to_owned(),
                status,
                hint: "",
            },
        };
        found.unwrap_or_else(|| Err(String::new())).map_err(refused)
    }

    /// Does what the client asks for, and waits for what comes.
    fn turn(
        &mut self,
        until: i64,
        doing: &str,
        on_answer: &mut dyn FnMut(Answer<'_>),
    ) -> Result<(), RerunError> {
        while let Some(event) = self.client.poll() {
            match event {
                Event::Connect(service, port) => self.connect(service, port)?,
                Event::Failed(error) => return Err(error.into()),
                Event::Ready | Event::Lost(..) | Event::Closed => {}
            }
        }
        self.flush();
        let mut heard = Vec::new();
        self.lines.wait(WAIT_NS, &mut heard)?;
        for heard in heard {
            match heard {
                Heard::Bytes(line) => self.read(line, on_answer)?,
                Heard::Opened(_) => {}
                Heard::Closed(line, why) => self.closed(line, why)?,
            }
        }
        if self.clock.now() > until {
            return Err(RerunError::Timeout {
                to: self.to,
                doing: doing.to_owned(),
                seconds: (self.timeout_ns / 1_000_000_000) as u64,
            });
        }
        Ok(())
    }

    /// The server forgets this client, as far as it does so at once.
    pub(crate) fn farewell(mut self) {
        if self.client.client_id() == 0 {
            return;
        }
        self.client.finish(self.clock.now());
        let until = self.clock.now().saturating_add(self.timeout_ns);
        while self.client.outstanding() > 0 && self.turn(until, "leaving", &mut |_| {}).is_ok() {}
    }

    fn flush(&mut self) {
        for &(line, connection, _) in &self.known {
            let mut bytes = Vec::new();
            while self.client.transmit(connection, &mut bytes) {}
            self.lines.send(line, &bytes);
        }
    }

    fn read(
        &mut self,
        line: LineIndex,
        on_answer: &mut dyn FnMut(Answer<'_>),
    ) -> Result<(), RerunError> {
        let known = self.known.iter().find(|(known, ..)| *known == line);
        let Some(&(_, connection, _)) = known else {
            return Ok(());
        };
        match self.lines.take(line) {
            Ok(None) => Ok(()),
            Ok(Some((now, bytes))) => {
                let each = |reply: lineside_nfs_client::Reply<'_>| on_answer(reply.answer);
                let outcome = self.client.on_bytes(now, connection, bytes, each);
                outcome.map_err(|_| RerunError::NoReply { to: self.to })
            }
            Err(why) => self.closed(line, why),
        }
    }

    fn closed(&mut self, line: LineIndex, why: Option<std::io::Error>) -> Result<(), RerunError> {
        let known = self.known.iter().find(|(known, ..)| *known == line);
        match known {
            Some((_, _, service @ (Service::Nfs | Service::Mount))) => {
                Err(RerunError::NoConnection {
                    service: service.name(),
                    to: self.to,
                    why: why
                        .map_or_else(|| "the server closed it".to_owned(), |why| why.to_string()),
                })
            }
            // A port mapper may close its connection when it has answered.
            Some(&(_, connection, Service::Portmap)) => {
                self.client.closed(self.clock.now(), connection);
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn connect(&mut self, service: Service, port: u16) -> Result<(), RerunError> {
        if service == Service::Mount {
            self.mount_port = Some(port);
        }
        let to = SocketAddr::new(self.to.ip(), port);
        let failed = |why: String| RerunError::NoConnection {
            service: service.name(),
            to,
            why,
        };
        let until = self.clock.now().saturating_add(self.timeout_ns);
        let mut heard = Vec::new();
        let outcome = self.lines.connect(to, None);
        let outcome = outcome.map_err(|error| error.to_string()).and_then(|line| {
            loop {
                let waited = self.lines.wait(WAIT_NS, &mut heard);
                waited.map_err(|error| error.to_string())?;
                for heard in heard.drain(..) {
                    match heard {
                        Heard::Opened(at) if at == line => return Ok(line),
                        Heard::Closed(at, why) if at == line => {
                            return Err(why.map_or_else(String::new, |why| why.to_string()));
                        }
                        _ => {}
                    }
                }
                if self.clock.now() > until {
                    return Err("no answer".to_owned());
                }
            }
        });
        let now = self.clock.now();
        match outcome {
            Ok(line) => {
                let connection = self.client.opened(now, service, port, Transport::Stream);
                // The client makes no other connection to a port that serves both.
                let service = match port == self.to.port() {
                    true => Service::Nfs,
                    false => service,
                };
                self.known.push((line, connection, service));
                Ok(())
            }
            // Without a port mapper MOUNT may be where NFS is.
            Err(_) if service == Service::Portmap => {
                self.client.refused(now, service);
                Ok(())
            }
            Err(why) => Err(failed(why)),
        }
    }
}

/// Of one wait.
const WAIT_NS: u64 = 50_000_000;
