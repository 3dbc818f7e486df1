use lineside_port::{Facts, LiveFacts};
use lineside_trace::{InputFacts, LiveInput};

/// Inputs as `trace.json` and `info` describe them.
pub fn inputs_facts(facts: &[&Facts]) -> Vec<InputFacts> {
    facts.iter().copied().map(input_facts).collect()
}

/// One input as `trace.json` and `info` describe it.
pub fn input_facts(facts: &Facts) -> InputFacts {
    let link_types = facts.link_types.iter();
    let live = { facts.live.iter() }.filter_map(|live| live.speed_bps);
    let described = { facts.interfaces.iter() }.filter_map(|interface| interface.speed_bps);
    InputFacts {
        name: facts.name.clone(),
        format: match facts.compression {
            Some(compression) => format!("{}, {compression}", facts.format),
            None => facts.format.clone(),
        },
        link_types: link_types.map(|link_type| link_type.0).collect(),
        frames: facts.frames,
        bytes: facts.bytes,
        speed_bps: live.chain(described).max(),
        warnings: facts.warnings.clone(),
        live: facts.live.as_ref().map(live_input),
    }
}

fn live_input(live: &LiveFacts) -> LiveInput {
    LiveInput {
        method: live.method.to_string(),
        reason: live.reason.clone(),
        queue: live.queue,
        mtu_bytes: live.mtu,
        arrived: live.arrived,
        filtered: live.filtered,
        dropped_interface: live.dropped_interface,
        dropped_ring: live.dropped_ring,
        dropped_pool: live.dropped_pool,
        unread: live.unread,
        clock_steps: live.clock_steps,
    }
}
