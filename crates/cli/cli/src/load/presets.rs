//! `--preset`: loads that others have measured or agreed on. A flag, or a key of a file, goes
//! before what a preset says.

use super::flags::Section;
use crate::config::ConfigError;

/// Atikoglu et al., Workload analysis of a large-scale key-value store (SIGMETRICS 2012), table 5:
/// sizes of keys are generalised extreme values (location 30.7984, scale 8.20449, shape 0.078688),
/// here the middles of 20 equal shares.
const ETC_KEYS: &str = "table 21:5%, 23:5%, 25:5%, 26:5%, 28:5%, 29:5%, 30:5%, 31:5%, 32:5%, \
    33:5%, 34:5%, 36:5%, 37:5%, 39:5%, 41:5%, 43:5%, 45:5%, 49:5%, 54:5%, 66:5%";
/// Values are generalised Pareto of scale 214.476 and shape 0.348238, whose mean is this.
const ETC_VALUES: &str = "generalized-pareto mean 329 shape 0.348238 max 1MB";
/// Gaps have the shape 0.154971; at their own scale there are 52,700 a second.
const ETC_ARRIVALS: &str = "generalized-pareto shape 0.154971";
/// 30 GETs for a SET: the same, section 3.1.
const ETC_GETS: &str = "96.77%";
/// 3GPP TR 37.868, table 6.1.1, traffic model 1: 30,000 devices come within 60 s.
const IOT_RATE: &str = "500 for 60s";
/// RFC 9411, section 7.3.3.1: ten transactions of each connection.
const WEB_REQUESTS_EACH: u32 = 10;
/// Flow sizes of a search cluster, from the measurements behind figure 4 of Alizadeh et al., Data
/// center TCP (SIGCOMM 2010), in the rounding with which simulations pass them on
/// (`WebSearch_distribution.txt` of HPCC, SIGCOMM 2019; `CDF_search` of pFabric has packets of
/// 1,460 bytes). The mean is 1.71 MB.
const DATACENTRE_SIZES: &str = "cdf 0:0%, 10kB:15%, 20kB:20%, 30kB:30%, 50kB:40%, 80kB:53%, \
    200kB:60%, 1MB:70%, 2MB:80%, 5MB:90%, 10MB:97%, 30MB:100%";
/// Half of a link of 1 Gbit/s.
const DATACENTRE_RATE: &str = "36.5";

impl Section {
    /// What the preset says, if there is one.
    pub(super) fn of_preset(&self) -> Self {
        let arrivals = |words: &str| self.rate.is_some().then(|| words.to_owned());
        match self.preset.as_deref() {
            Some("etc") => Self {
                key_size: Some(ETC_KEYS.to_owned()),
                value_size: Some(ETC_VALUES.to_owned()),
                get_ratio: Some(ETC_GETS.to_owned()),
                arrivals: arrivals(ETC_ARRIVALS),
                ..Self::default()
            },
            Some("iot") => Self {
                rate: Some(IOT_RATE.to_owned()),
                arrivals: Some("poisson".to_owned()),
                arrivals_of: Some("connections".to_owned()),
                connections: Some(1_000),
                ..Self::default()
            },
            Some("datacentre") => Self {
                rate: Some(DATACENTRE_RATE.to_owned()),
                arrivals: Some("poisson".to_owned()),
                arrivals_of: Some("connections".to_owned()),
                connections: Some(1_000),
                ..Self::default()
            },
            Some("web") => Self {
                requests_per_connection: Some(WEB_REQUESTS_EACH),
                arrivals: arrivals("poisson"),
                ..Self::default()
            },
            _ => Self::default(),
        }
    }

    /// The sizes of bulk data that a preset has; a URL goes before it.
    pub(super) fn preset_sizes(&self) -> Option<&'static str> {
        (self.preset.as_deref() == Some("datacentre")).then_some(DATACENTRE_SIZES)
    }

    /// A preset of another protocol says nothing here.
    pub(super) fn preset_must_fit(&self, protocol: &str) -> Result<(), ConfigError> {
        let of = match self.preset.as_deref() {
            Some("etc") => &["memcached"][..],
            Some("iot") => &["http", "echo", "memcached"],
            Some("web") => &["http"],
            Some("datacentre") => &["sink"],
            _ => return Ok(()),
        };
        match of.contains(&protocol) {
            true => Ok(()),
            false => Err(ConfigError::new(format!(
                "--preset {} is for {}, and this is {protocol}: leave it out",
                self.preset.as_deref().unwrap_or_default(),
                of.join(", ")
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::settings::Requests;

    fn resolved(preset: &str, url: &str) -> Section {
        let keys = Section {
            url: Some(vec![url.to_owned()]),
            preset: Some(preset.to_owned()),
            ..Section::default()
        };
        keys.resolved(None).expect("valid")
    }

    #[test]
    fn a_preset_stands_below_flags_and_above_defaults() {
        let iot = resolved("iot", "http://127.0.0.1/");
        assert_eq!(iot.connections, Some(1_000));
        let given = Section {
            connections: Some(7),
            preset: Some("iot".to_owned()),
            ..Section::default()
        };
        let given = given.resolved(None).expect("valid");
        assert_eq!((given.connections, given.pipeline), (Some(7), Some(1)));
    }

    #[test]
    fn every_preset_can_be_prepared_and_fits_its_protocols() {
        let all = ["etc", "iot", "web", "datacentre"];
        assert_eq!(super::super::flags::PRESETS, all);
        for (preset, url) in [
            ("etc", "memcached://127.0.0.1"),
            ("iot", "http://127.0.0.1/"),
            ("web", "http://127.0.0.1/"),
            ("datacentre", "sink://127.0.0.1"),
        ] {
            let mut keys = resolved(preset, url);
            keys.prepare().expect(preset);
            keys.rate = Some("100".to_owned());
            keys.resolved(None).expect(preset).prepare().expect(preset);
        }
        let wrong = resolved("etc", "http://127.0.0.1/");
        let Err(error) = wrong.prepare() else {
            panic!("keys of HTTP");
        };
        assert!(error.to_string().contains("is for memcached"), "{error}");
    }

    /// The mean of the table by its own straight lines, in bytes.
    #[test]
    fn flows_of_a_datacentre_have_their_published_mean() {
        let prepared = resolved("datacentre", "sink://127.0.0.1")
            .prepare()
            .expect("valid");
        let Requests::Sink(sizes) = &prepared.requests else {
            panic!("no bulk data");
        };
        assert_eq!((sizes.mean(), sizes.max()), (Some(1_711_250.0), 30_000_000));
        let given = resolved("datacentre", "sink://127.0.0.1?bytes=7")
            .prepare()
            .expect("valid");
        assert!(matches!(&given.requests, Requests::Sink(sizes) if sizes.max() == 7));
    }
}
