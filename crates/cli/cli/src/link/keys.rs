//! The settings of an emulated link, as flags and keys.

use lineside_link::words::LinkWords;

use crate::config::{key, keys};

keys! {
    /// Words of a link's settings: for both directions, or for one if they begin with `out:` or
    /// `in:`; with `match EXPR:` after that, for the frames that match.
    pub(crate) struct LinkKeys {
        delay: Vec<String> = key("Delay each way: 40ms adds 80 ms to a round trip; '100us 10us 25% \
        distribution normal order reorder'; one way alone: 'out: 40ms', 'in: 40ms'")
            .long("delay").value("WORDS").hyphens().or_one()
            .example("10ms");
        rate: Vec<String> = key("Limit the rate: '1gbit', '10mbit burst 15k overhead ethernet drop', \
        'trace FILE' (mahimahi's)")
            .long("rate").value("WORDS").hyphens().or_one()
            .example("100mbit");
        loss: Vec<String> = key("Drop frames: '0.1%', 'gemodel 1% 10%', 'burst 50ms every \
        10s', 'every 100', 'frames 3,17', 'segment 3 times 2'")
            .long("loss").value("WORDS").hyphens().or_one()
            .example("1%");
        duplicate: Vec<String> = key("Duplicate frames: '1%'")
            .long("duplicate").value("WORDS").hyphens().or_one()
            .example("1%");
        corrupt: Vec<String> = key("Flip a bit of frames: '0.1%'")
            .long("corrupt").value("WORDS").hyphens().or_one()
            .example("0.1%");
        reorder: Vec<String> = key("Let frames skip the delay, and overtake others: '25% 50%'")
            .long("reorder").value("WORDS").hyphens().or_one()
            .example("25%");
        path: Vec<String> = key("Read delay, loss and rate over time from a path file, in place \
        of those flags")
            .long("path").value("FILE").or_one();
        limit: Vec<String> = key("Queue limit: frames ('1000') or bytes ('64kb'); by default it \
        follows from rate and delay")
            .long("limit").value("WORDS").hyphens().or_one()
            .example("64kb");
        link: Vec<String> = key("State of the link: 'up', 'down', 'down carrier', 'flap 10s 1s'")
            .long("link").value("WORDS").or_one()
            .example("up");
    }
}

impl LinkKeys {
    /// The words as the link reads them.
    pub(crate) fn words(&self) -> LinkWords {
        let Self {
            delay,
            rate,
            loss,
            duplicate,
            corrupt,
            reorder,
            path,
            limit,
            link,
        } = self.clone();
        LinkWords {
            delay,
            rate,
            loss,
            duplicate,
            corrupt,
            reorder,
            path,
            limit,
            link,
        }
    }
}
