//! What the user knows better than the content says (`--decode-as`).

use std::ops::RangeInclusive;

use lineside_flow::Transport;
use lineside_rpc::message::is_registered;
use lineside_wire::{DeclaredTunnel, Endpoint};

/// Rules about ports and programs; of several that fit, the last one counts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DecodeAs {
    /// What passes through ports of either end.
    pub ports: Vec<(Transport, RangeInclusive<u16>, PortRule)>,
    /// Tunnels at ports of UDP that are not theirs, for the whole process.
    pub tunnels: Vec<(RangeInclusive<u16>, DeclaredTunnel)>,
    /// Calls of the first program mean what those of the second do; 0 stands for none.
    pub programs: Vec<(u32, u32)>,
}

/// What a port carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PortRule {
    /// RPC, also of programs that no registry names, and also behind something else.
    Rpc,
    /// No RPC, whatever it looks like.
    None,
}

impl DecodeAs {
    /// Whether there are calls whose number only a rule makes that of a program.
    pub(crate) fn names_unregistered(&self) -> bool {
        let mut programs = self.programs.iter();
        programs.any(|&(from, _)| !is_registered(from))
    }

    pub(crate) fn port(&self, transport: Transport, ends: &[Endpoint; 2]) -> Option<PortRule> {
        let fits = |(of, ports, _): &&(Transport, RangeInclusive<u16>, PortRule)| {
            *of == transport && ends.iter().any(|end| ports.contains(&end.port))
        };
        self.ports.iter().rev().find(fits).map(|&(.., rule)| rule)
    }

    /// The program that a call of `program` means.
    #[inline]
    pub(crate) fn program(&self, program: u32) -> Option<u32> {
        let mut rules = self.programs.iter().rev();
        rules.find(|&&(from, _)| from == program).map(|&(_, to)| to)
    }
}
