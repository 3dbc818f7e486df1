//! What `ctl` and `explain` ask a forwarder, and what it answers; the envelope is that of
//! `link::request`.

use std::net::SocketAddr;

use lineside_balancer::{Change, NodeSettings, PortSettings, Service, ServiceName};
use lineside_forward::Asking;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::keys::Section;
use super::words::{end, node, transport, weight};
use crate::config::read_keys;

/// A request to a forwarder.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum ForwardRequest {
    /// To change a node of a service: `add`, `remove`, `drain` or `weight`, and its words.
    Node { action: String, words: Vec<String> },
    /// To take all services anew: the section `[forward]` as JSON.
    Reload { forward: Value },
    /// To which node a connection goes, and why: the client and the service.
    Flow {
        client: SocketAddr,
        service: SocketAddr,
    },
}

/// What a forwarder answers.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ForwardDone {
    /// A sentence of what was done.
    Changed(String),
    /// Which node and why: a text, and the same as JSON.
    Explained { text: String, explanation: Value },
    /// What was counted so far.
    Counted(Value),
}

/// What requests are answered from, beside the loop.
pub(crate) struct Known {
    pub(crate) keys: Section,
    pub(crate) ports: Vec<PortSettings>,
    pub(crate) services: Vec<Service>,
}

impl Known {
    /// Does what is asked. The error is why nothing has changed.
    pub(crate) fn on_request(
        &mut self,
        request: ForwardRequest,
        asking: &Asking,
    ) -> Result<ForwardDone, String> {
        match request {
            ForwardRequest::Node { action, words } => {
                let change = self.node_change(&action, &words)?;
                asking.change(change).map(ForwardDone::Changed)
            }
            ForwardRequest::Reload { forward } => self.reload(&forward, asking),
            ForwardRequest::Flow { client, service } => {
                let explanation = asking.explain(client, service)?;
                Ok(ForwardDone::Explained {
                    text: explanation.to_string(),
                    explanation: serde_json::to_value(&explanation)
                        .map_err(|error| error.to_string())?,
                })
            }
        }
    }

    /// `NODE [weight N] [at [tcp|udp] SERVICE]`.
    fn node_change(&self, action: &str, words: &[String]) -> Result<Change, String> {
        let words = words.join(" ");
        let (words, service) = match words.split_once(" at ") {
            Some((words, service)) => (words.to_owned(), Some(service.to_owned())),
            None => (words, None),
        };
        let service = self.service(service.as_deref())?;
        if action == "weight" {
            let (node, word) = words.split_once(' ').ok_or("weight: write NODE WEIGHT")?;
            return Ok(Change::Weight {
                service,
                node: end(node)?,
                weight: weight(word.trim())?,
            });
        }
        let NodeSettings {
            address: node,
            weight,
        } = node(&words)?;
        match action {
            "add" => Ok(Change::Add {
                service,
                node: NodeSettings {
                    address: node,
                    weight,
                },
            }),
            "remove" => Ok(Change::Remove { service, node }),
            "drain" => Ok(Change::Drain { service, node }),
            _ => Err(format!("unknown action '{action}'")),
        }
    }

    /// The service of these words; without any, the only one.
    fn service(&self, words: Option<&str>) -> Result<ServiceName, String> {
        let list = || {
            let names = self
                .services
                .iter()
                .map(|service| name_of(service).to_string());
            names.collect::<Vec<_>>().join(", ")
        };
        let Some(words) = words else {
            return match &self.services[..] {
                [only] => Ok(name_of(only)),
                _ => Err(format!("name the service with 'at': there are {}", list())),
            };
        };
        let (word, address) = words
            .trim()
            .split_once(' ')
            .unwrap_or_else(|| ("tcp", words.trim()));
        let id = ServiceName {
            transport: transport(word)?,
            address: end(address.trim())?,
        };
        match self.services.iter().any(|service| name_of(service) == id) {
            true => Ok(id),
            false => Err(format!("there is no service {id}: there are {}", list())),
        }
    }

    /// Takes the settings of a file anew; those of the ports stay.
    fn reload(&mut self, section: &Value, asking: &Asking) -> Result<ForwardDone, String> {
        let given: Section = read_keys(section, "forward")?;
        let keys = Section {
            service: given.service,
            nat: given.nat,
            route: given.route,
            timeout: given.timeout,
            ..self.keys.clone()
        };
        let settings = keys
            .settings(self.ports.clone())
            .map_err(|error| error.to_string())?;
        let services = settings.services.clone();
        let done = asking.change(Change::Replace(Box::new(settings)))?;
        self.keys = keys;
        self.services = services;
        Ok(ForwardDone::Changed(done))
    }
}

/// The section of a file, for a reload.
pub(crate) fn reload_of(
    path: &std::path::Path,
) -> Result<ForwardRequest, crate::config::ConfigError> {
    let keys: Section = crate::config::from_file(path, "forward")?;
    let mut forward = serde_json::Map::new();
    crate::config::Keys::write(&keys, &mut forward);
    forward.retain(|_, value| !value.is_null());
    Ok(ForwardRequest::Reload {
        forward: Value::Object(forward),
    })
}

fn name_of(service: &Service) -> ServiceName {
    ServiceName {
        transport: service.transport,
        address: service.address,
    }
}
