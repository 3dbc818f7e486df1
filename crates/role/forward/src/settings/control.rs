//! What a forwarder does with requests of `ctl` and `explain`.

use lineside_account::Budget;
use lineside_balancer::{Change, NodeSettings, PortSettings, Service, ServiceName, Settings};
use lineside_host::FolderError;
use lineside_run::control::Asking;
use lineside_run::request::{Answer, Done, ForwardDone, ForwardRequest, Request};
use lineside_store::RunFolder;
use serde_json::Value;

use super::ForwardWords;
use super::words::{end, node, transport, weight};
use crate::Controlled;
use crate::requests::{Asked, ChangeSender};

/// Reads the section of a file. The error is a sentence.
pub type ReadWords = fn(&Value) -> Result<ForwardWords, String>;

/// What requests are answered from, beside the loop.
struct Known {
    words: ForwardWords,
    ports: Vec<PortSettings>,
    services: Vec<Service>,
    read: ReadWords,
}

/// Listens in the run's folder, where requests draw on `budget`; to be called before privileges are
/// dropped. `read` is for files that replace the services of `words`.
pub fn listen(
    folder: &RunFolder,
    budget: &Budget,
    words: ForwardWords,
    settings: &Settings,
    read: ReadWords,
) -> Result<Controlled, FolderError> {
    Controlled::listen(folder, budget, responding(words, settings, read))
}

/// What a forwarder does with a request, with the help of its loop.
pub fn responding(
    words: ForwardWords,
    settings: &Settings,
    read: ReadWords,
) -> impl FnMut(Request, &Asking<Asked>) -> Answer + Send + use<> {
    let mut known = Known {
        // Later settings keep the seed that was drawn.
        words: ForwardWords {
            seed: Some(settings.seed),
            ..words
        },
        ports: settings.ports.clone(),
        services: settings.services.clone(),
        read,
    };
    move |request, asking| known.on_request(request, &ChangeSender(asking))
}

impl Known {
    /// Does what is asked. The error is why nothing has changed.
    fn on_request(&mut self, request: Request, asking: &ChangeSender<'_>) -> Answer {
        let done = match request {
            Request::Forward(ForwardRequest::Node { action, words }) => {
                let change = self.node_change(&action, &words)?;
                ForwardDone::Changed(asking.change(change)?)
            }
            Request::Forward(ForwardRequest::Reload { forward }) => {
                ForwardDone::Changed(self.reload(&forward, asking)?)
            }
            Request::Forward(ForwardRequest::Flow { client, service }) => {
                let explanation = asking.explain(client, service)?;
                ForwardDone::Explained {
                    text: explanation.to_string(),
                    explanation: serde_json::to_value(&explanation)
                        .map_err(|error| error.to_string())?,
                }
            }
            Request::Stats {} => ForwardDone::Counted(asking.stats()?),
            _ => {
                return Err(
                    "the run is a forwarder: it can be asked for stats, add, remove, drain, \
                      weight and reload"
                        .to_owned(),
                );
            }
        };
        Ok(Done::Forward(done))
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
    fn reload(&mut self, section: &Value, asking: &ChangeSender<'_>) -> Result<String, String> {
        let given = (self.read)(section)?;
        let words = ForwardWords {
            services: given.services,
            nat: given.nat,
            routes: given.routes,
            timeouts: given.timeouts,
            ..self.words.clone()
        };
        let settings = words
            .settings(self.ports.clone())
            .map_err(|error| error.to_string())?;
        let services = settings.services.clone();
        let done = asking.change(Change::Replace(Box::new(settings)))?;
        self.words = words;
        self.services = services;
        Ok(done)
    }
}

fn name_of(service: &Service) -> ServiceName {
    ServiceName {
        transport: service.transport,
        address: service.address,
    }
}
