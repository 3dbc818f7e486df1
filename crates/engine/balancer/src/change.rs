//! Changes while it runs. Each is checked whole before anything of it is done.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use lineside_time::Nanoseconds;
use thiserror::Error;

use crate::effects::Effects;
use crate::nat::Nat;
use crate::settings::{
    NAT_ADDRESSES_MAX, NODES_MAX, NodeSettings, Service, Settings, SettingsError, Transport,
};

/// A change.
#[derive(Debug, Clone)]
pub enum Change {
    /// A node more.
    Add {
        /// Of which service.
        service: ServiceName,
        /// The node.
        node: NodeSettings,
    },
    /// A node less. Its connections are reset or stay, as for one that is lost.
    Remove {
        /// Of which service.
        service: ServiceName,
        /// The node.
        node: SocketAddr,
    },
    /// A node keeps its connections and gets no new ones, until its weight is set.
    Drain {
        /// Of which service.
        service: ServiceName,
        /// The node.
        node: SocketAddr,
    },
    /// A node's weight; one that drains takes connections again.
    Weight {
        /// Of which service.
        service: ServiceName,
        /// The node.
        node: SocketAddr,
        /// The weight.
        weight: u32,
    },
    /// All settings. Connections of nodes that stay stay, too; ports, seed and the most connections
    /// must be the same.
    Replace(Box<Settings>),
}

/// What a service is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServiceName {
    /// Its protocol.
    pub transport: Transport,
    /// Its address.
    pub address: SocketAddr,
}

impl fmt::Display for ServiceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.transport.name(), self.address)
    }
}

/// Why a change is refused. Nothing has changed then.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ChangeError {
    /// No such service.
    #[error("there is no service {0}")]
    NoService(ServiceName),
    /// No such node.
    #[error("service {0} has no node {1}")]
    NoNode(ServiceName, SocketAddr),
    /// What would be is not possible.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// What cannot change while it runs.
    #[error("{0} cannot change while it runs: start it again")]
    Fixed(&'static str),
}

impl Nat {
    /// Makes a change, and says in a sentence what it did.
    pub fn apply(
        &mut self,
        now: Nanoseconds,
        change: &Change,
        out: &mut Effects,
    ) -> Result<String, ChangeError> {
        match change {
            Change::Add { service, node } => self.add(now, *service, *node, out),
            Change::Remove { service, node } => self.remove(now, *service, *node, out),
            Change::Drain { service, node } => self.drain(*service, *node),
            Change::Weight {
                service,
                node,
                weight,
            } => self.set_weight(*service, *node, *weight),
            Change::Replace(settings) => self.replace(now, settings, out),
        }
    }

    /// The settings after a change to a service's; checked.
    fn changed(
        &self,
        name: ServiceName,
        change: impl FnOnce(&mut Service) -> Result<(), ChangeError>,
    ) -> Result<Settings, ChangeError> {
        let mut settings = self.settings.clone();
        let is_it = |service: &&mut Service| {
            (service.transport, service.address) == (name.transport, name.address)
        };
        let service = settings.services.iter_mut().find(is_it);
        change(service.ok_or(ChangeError::NoService(name))?)?;
        settings.check()?;
        Ok(settings)
    }

    fn number_of(&self, name: ServiceName) -> Result<u16, ChangeError> {
        let number = self.pool.service_of(name.transport, name.address);
        number.ok_or(ChangeError::NoService(name))
    }

    fn node_number(&self, name: ServiceName, node: SocketAddr) -> Result<(u16, u16), ChangeError> {
        let service = self.number_of(name)?;
        let number = self.pool.node_of(service, node);
        Ok((service, number.ok_or(ChangeError::NoNode(name, node))?))
    }

    fn add(
        &mut self,
        now: Nanoseconds,
        name: ServiceName,
        node: NodeSettings,
        out: &mut Effects,
    ) -> Result<String, ChangeError> {
        let settings = self.changed(name, |service| {
            service.nodes.push(node);
            Ok(())
        })?;
        self.take_over(now, settings, out)?;
        let NodeSettings { address, weight } = node;
        Ok(format!(
            "service {name} has node {address} with weight {weight}"
        ))
    }

    fn remove(
        &mut self,
        now: Nanoseconds,
        name: ServiceName,
        node: SocketAddr,
        out: &mut Effects,
    ) -> Result<String, ChangeError> {
        let (_, number) = self.node_number(name, node)?;
        let connections = self.pool.nodes[usize::from(number)].connections;
        let settings = self.changed(name, |service| {
            service.nodes.retain(|each| each.address != node);
            Ok(())
        })?;
        self.take_over(now, settings, out)?;
        let left = self.pool.nodes[usize::from(number)].connections;
        let gone = connections - left.min(connections);
        Ok(format!(
            "service {name} has no node {node} any more: {gone} connections were ended, {left} stay"
        ))
    }

    fn drain(&mut self, name: ServiceName, node: SocketAddr) -> Result<String, ChangeError> {
        let (service, number) = self.node_number(name, node)?;
        let slot = &mut self.pool.nodes[usize::from(number)];
        slot.is_draining = true;
        let connections = slot.connections - slot.closed;
        self.pool.refresh(service);
        Ok(format!(
            "node {node} of service {name} drains: {connections} connections stay"
        ))
    }

    fn set_weight(
        &mut self,
        name: ServiceName,
        node: SocketAddr,
        weight: u32,
    ) -> Result<String, ChangeError> {
        let (service, number) = self.node_number(name, node)?;
        self.settings = self.changed(name, |service| {
            let each = service.nodes.iter_mut().find(|each| each.address == node);
            each.ok_or(ChangeError::NoNode(name, node))?.weight = weight;
            Ok(())
        })?;
        let slot = &mut self.pool.nodes[usize::from(number)];
        let before = std::mem::replace(&mut slot.weight, weight);
        let drained = std::mem::take(&mut slot.is_draining);
        self.pool.refresh(service);
        let again = if drained {
            ", and takes connections again"
        } else {
            ""
        };
        Ok(format!(
            "node {node} of service {name} has weight {weight} instead of {before}{again}"
        ))
    }

    fn replace(
        &mut self,
        now: Nanoseconds,
        settings: &Settings,
        out: &mut Effects,
    ) -> Result<String, ChangeError> {
        settings.check()?;
        let ports = |settings: &Settings| -> Vec<_> {
            let ports = settings.ports.iter();
            ports
                .map(|port| (port.name.clone(), port.ethernet))
                .collect()
        };
        if ports(settings) != ports(&self.settings) {
            return Err(ChangeError::Fixed("ports"));
        }
        if settings.connections_max != self.settings.connections_max {
            return Err(ChangeError::Fixed("the most connections"));
        }
        if settings.seed != self.settings.seed {
            return Err(ChangeError::Fixed("the seed"));
        }
        if settings.splices() && self.splices.is_none() {
            return Err(ChangeError::Fixed("that no handshake is answered here"));
        }
        let done = self.take_over(now, settings.clone(), out)?;
        Ok(format!(
            "{} services: {} added, {} removed, {} kept; {} nodes added, {} removed",
            settings.services.len(),
            done.services_added,
            done.services_removed,
            settings.services.len() - done.services_added,
            done.nodes_added,
            done.nodes_removed,
        ))
    }

    /// Takes checked settings over; what is refused is refused before anything changes.
    fn take_over(
        &mut self,
        now: Nanoseconds,
        settings: Settings,
        out: &mut Effects,
    ) -> Result<Done, ChangeError> {
        self.check_numbers(&settings)?;
        let bytes = Self::fixed_bytes(&settings);
        if !self.lease.resize(bytes.max(self.lease.bytes())) {
            let error = SettingsError::Budget(settings.connections_max, bytes);
            return Err(error.into());
        }
        let mut done = Done::default();
        let before: Vec<IpAddr> = self.pool.addresses().collect();
        self.pool.set_nat(&settings.nat);
        self.pool.set_routes(&settings.routes);
        self.remove_services(now, &settings, &mut done, out);
        for service in &settings.services {
            match self.pool.service_of(service.transport, service.address) {
                Some(number) => self.merge(now, number, service, &mut done, out),
                None => {
                    let number = self.pool.add_service(service, Some(now));
                    done.services_added += 1;
                    done.nodes_added += service.nodes.len();
                    for node in self.pool.services[usize::from(number)].nodes.clone() {
                        self.begin_checks(now, node);
                    }
                }
            }
        }
        self.settings = settings;
        let services = self.spliced_services();
        if let Some(splices) = &mut self.splices {
            splices.set_services(services);
        }
        self.lease.resize(bytes);
        let mut new: Vec<IpAddr> = self.pool.addresses().collect();
        new.sort();
        new.dedup();
        new.retain(|address| !before.contains(address));
        new.into_iter()
            .for_each(|address| self.announce(address, out));
        Ok(done)
    }

    /// Whether there are numbers for what is new beside those that connections still name.
    fn check_numbers(&self, settings: &Settings) -> Result<(), SettingsError> {
        let nodes = settings.services.iter().map(|service| service.nodes.len());
        let new = settings.nat.iter().filter(|&&address| {
            let mut known = self.pool.nat.iter();
            !known.any(|nat| nat.address == address)
        });
        let too_many = |what, max| Err(SettingsError::TooMany { what, max });
        // A number is 16 bits, and that of a NAT address 8, one of which is none.
        if self.pool.nodes.len() + nodes.sum::<usize>() > usize::from(u16::MAX) {
            return too_many("nodes, with those that still have connections,", NODES_MAX);
        }
        if self.pool.nat.len() + new.count() > NAT_ADDRESSES_MAX {
            return too_many("NAT addresses, with those of before,", NAT_ADDRESSES_MAX);
        }
        Ok(())
    }

    fn remove_services(
        &mut self,
        now: Nanoseconds,
        settings: &Settings,
        done: &mut Done,
        out: &mut Effects,
    ) {
        for number in 0..self.pool.services.len() as u16 {
            let slot = &self.pool.services[usize::from(number)];
            let name = (slot.settings.transport, slot.settings.address);
            let mut kept = settings.services.iter();
            if slot.is_removed || kept.any(|each| (each.transport, each.address) == name) {
                continue;
            }
            for node in slot.nodes.clone() {
                self.remove_node(now, node, out);
                done.nodes_removed += 1;
            }
            self.pool.remove_service(number);
            done.services_removed += 1;
        }
    }

    /// A service that stays: its nodes that stay keep what they have.
    fn merge(
        &mut self,
        now: Nanoseconds,
        number: u16,
        service: &Service,
        done: &mut Done,
        out: &mut Effects,
    ) {
        let stays = |address| service.nodes.iter().any(|node| node.address == address);
        let slot = &mut self.pool.services[usize::from(number)];
        slot.settings = service.clone();
        slot.set_choice();
        for node in slot.nodes.clone() {
            if !stays(self.pool.nodes[usize::from(node)].address) {
                self.remove_node(now, node, out);
                done.nodes_removed += 1;
            }
        }
        for node in &service.nodes {
            match self.pool.node_of(number, node.address) {
                Some(known) => {
                    self.pool.nodes[usize::from(known)].weight = node.weight;
                    self.end_checks(known);
                    if service.health.is_none() {
                        self.pool.nodes[usize::from(known)].is_up = true;
                    }
                    self.begin_checks(now, known);
                }
                None => {
                    let node = self.pool.add_node(number, *node, Some(now));
                    self.begin_checks(now, node);
                    done.nodes_added += 1;
                }
            }
        }
        self.pool.refresh(number);
    }

    fn remove_node(&mut self, now: Nanoseconds, node: u16, out: &mut Effects) {
        self.end_checks(node);
        self.on_node_lost(now, node, out);
        self.pool.remove_node(node);
    }
}

/// What was done.
#[derive(Debug, Default)]
struct Done {
    services_added: usize,
    services_removed: usize,
    nodes_added: usize,
    nodes_removed: usize,
}
