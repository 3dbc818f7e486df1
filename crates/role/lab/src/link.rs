//! Links between nodes, and the words of their settings.

use std::collections::BTreeMap;
use std::path::Path;

use lineside_link::Setting;
use lineside_link::words::LinkWords;
use lineside_path::PORTS_MAX;
use lineside_path::settings::{LinkSpec, Ways};
use lineside_words::nearest;

use crate::LabError;
use crate::keys::{Keys, Text};
use crate::node::Node;
use crate::words::{check_name, filled};

/// A link between two nodes, or a switch of more.
#[derive(Debug, Clone)]
pub struct Link {
    /// Its name, and that of its interfaces.
    pub name: String,
    /// The numbers of its nodes.
    pub between: Vec<usize>,
    /// Their names.
    names: Vec<String>,
    /// Whether what passes it is captured into the trace of each run.
    pub has_tap: bool,
    /// The words of its settings.
    words: LinkWords,
    /// Where it stands in the file.
    pub(crate) at: usize,
}

impl Link {
    /// The words of a setting, as they stand in the file.
    pub(crate) fn texts(&self, setting: Setting) -> &[String] {
        self.words.of(setting)
    }

    /// Its settings at a point, and the files that they name, beside that of the lab. A switch's
    /// ports are its nodes.
    pub(crate) fn spec(
        &self,
        values: &BTreeMap<String, String>,
        home: &Path,
    ) -> Result<LinkSpec, String> {
        let mut words = LinkWords::default();
        for setting in Setting::ALL {
            for text in self.words.of(setting) {
                words.add(setting, filled(text, values));
            }
        }
        let ports = (self.names.len() > 2).then_some(&self.names[..]);
        let ways = Ways::between(ports).map_err(|error| error.to_string())?;
        LinkSpec::read_in(home, &words, ways).map_err(|error| error.to_string())
    }
}

pub(crate) fn links(
    keys: &Keys<'_>,
    text: Text<'_>,
    nodes: &[Node],
) -> Result<Vec<Link>, LabError> {
    let mut links = Vec::new();
    for (name, table) in keys.tables("link")? {
        links.push(link(name, table, nodes)?);
    }
    if links.is_empty() && nodes.iter().all(|node| node.host.is_none()) {
        let what = "nodes are joined by links: link.NAME = { between = [\"ONE\", \"OTHER\"] }";
        return Err(keys.missing("link", what));
    }
    if let Some(other) = { links.iter() }.filter(|link: &&Link| link.has_tap).nth(1) {
        let why = format!(
            "link.{}: another link has tap: one has, whose frames are a trace",
            other.name
        );
        return Err(text.wrong(other.at, why));
    }
    let ports: usize = links.iter().map(|link| link.between.len()).sum();
    let has_switch = links.iter().any(|link| link.between.len() > 2);
    if has_switch && links.len() > 1 || ports > PORTS_MAX {
        let why = format!(
            "link: a lab has one switch of up to {PORTS_MAX} nodes, or up to {} links of two",
            PORTS_MAX / 2
        );
        return Err(text.wrong(keys.place("link"), why));
    }
    Ok(links)
}

fn link(name: String, table: Keys<'_>, nodes: &[Node]) -> Result<Link, LabError> {
    if let Err(why) = check_name(&name) {
        return Err(table.wrong("", &why));
    }
    let settings = Setting::ALL.map(Setting::name);
    let table = table.only(&[&["between", "tap"], &settings[..]].concat())?;
    let ends = table.texts("between")?;
    let what = "the nodes that it joins: between = [\"client\", \"server\"]";
    let (ends, _) = ends.ok_or_else(|| table.missing("between", what))?;
    let place = |end: &String| {
        let place = nodes.iter().position(|node| node.name == *end);
        let known = nodes.iter().map(|node| node.name.as_str());
        place.ok_or_else(|| {
            let nearest = nearest(end, known);
            table.wrong(
                "between",
                &format!("no node '{end}'; the nearest one is {nearest}"),
            )
        })
    };
    let between = ends.iter().map(place).collect::<Result<Vec<_>, _>>()?;
    let is_twice = (1..between.len()).any(|at| between[..at].contains(&between[at]));
    let far = between.iter().find(|node| nodes[**node].host.is_some());
    if let Some(far) = far {
        let name = &nodes[*far].name;
        let why = format!("{name} has a host, whose network is the real one: it has no link");
        return Err(table.wrong("between", &why));
    }
    if between.len() < 2 || is_twice || between.len() > PORTS_MAX {
        let why = format!("name 2 to {PORTS_MAX} different nodes");
        return Err(table.wrong("between", &why));
    }
    let mut words = LinkWords::default();
    for setting in Setting::ALL {
        let texts = table.texts(setting.name())?;
        let texts = texts.map(|(texts, _)| texts).unwrap_or_default();
        texts.into_iter().for_each(|text| words.add(setting, text));
    }
    Ok(Link {
        at: table.place(""),
        has_tap: table.truth("tap")?.unwrap_or_default(),
        name,
        between,
        names: ends,
        words,
    })
}
