//! The certificate for the terminal.

use lineside_path::{Certificate, DirectionFinder};
use lineside_words::grouped;

pub(super) fn side_warnings(finder: &DirectionFinder) -> Vec<String> {
    let mut warnings = Vec::new();
    if finder.unaddressed() > 0 {
        warnings.push(format!(
            "{} frames are neither IP nor ARP: they went outbound",
            grouped(finder.unaddressed())
        ));
    }
    if finder.unremembered() > 0 {
        warnings.push(format!(
            "{} frames belong to more pairs of addresses than the table holds: name the first side \
            with --inside",
            grouped(finder.unremembered())
        ));
    }
    warnings
}

/// The certificate for the terminal.
pub(super) fn lines(certificate: &Certificate) -> String {
    lineside_render::link_certificate(certificate, certificate.in_order())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use lineside_account::Budget;
    use lineside_frame::{Descriptor, Frame};
    use lineside_link::words::LinkWords;
    use lineside_path::settings::{LinkSpec, Ways};
    use lineside_path::{Departures, Direction};

    use super::*;

    #[test]
    fn drops_are_reported_with_their_settings() {
        let words = |link: &str| LinkWords {
            link: Some(vec![link.to_owned()]),
            ..LinkWords::default()
        };
        let spec = LinkSpec::read(&words("up"), Ways::default(), &[]).expect("valid words");
        let budget = Budget::new(64 << 20);
        let path = spec.path(1, &budget).expect("valid words");
        let mut path = path.expect("it fits");
        let mut out = Departures::default();
        for (now, link) in (0..).zip(["down", "flap 1s 1s", "up"]) {
            let changed = spec.changed(&words(link), BTreeMap::new());
            let settings = changed.expect("valid words").patches();
            path.apply(now, &settings, &mut out).expect("memory");
            let mut burst = vec![Frame::copied(&[0; 60], Descriptor::default())];
            path.on_burst(now, Direction::Outbound, &mut burst, &mut out);
        }
        let text = lines(&path.certificate(lineside_path::VIRTUAL));
        let line = "1 dropped: link down: down\n";
        assert!(text.contains(line), "{text}");
    }
}
