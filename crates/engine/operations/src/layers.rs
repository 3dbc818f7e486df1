use std::fmt::Display;

use lineside_rows::{ConnectionRow, Text};
use lineside_wire::Layers;

/// Sets the columns of the tags and tunnels around the first frame of a connection.
pub(crate) fn set_layers(layers: &Layers, row: &mut ConnectionRow) {
    append(&mut row.vlan_ids, layers.tags());
    let names = layers.tunnels().map(|tunnel| tunnel.kind.name());
    append(&mut row.encapsulation, names);
    if layers.tunnels().any(|tunnel| tunnel.id.is_some()) {
        let ids = layers.tunnels().map(|tunnel| tunnel.id);
        let ids = ids.map(|id| id.map_or(String::new(), |id| id.to_string()));
        append(&mut row.tunnel_ids, ids);
    }
    if let Some((source, destination)) = layers.outer() {
        row.outer_source_address = Some(source);
        row.outer_destination_address = Some(destination);
    }
}

fn append<T: Display>(text: &mut Text, words: impl IntoIterator<Item = T>) {
    for (place, word) in words.into_iter().enumerate() {
        let separator = if place > 0 { "," } else { "" };
        text.append(format!("{separator}{word}").as_bytes());
    }
}
