//! Words that people write: a configuration file, and each word that a flag takes.

use lineside_path::settings::StepWords;

/// The first byte chooses; the rest is the text.
pub(crate) fn run(data: &[u8]) {
    let Some((&choice, text)) = data.split_first() else {
        return;
    };
    let Ok(text) = std::str::from_utf8(text) else {
        return;
    };
    match choice % 6 {
        0 => {
            let read = lineside_cli::check_configuration(text);
            assert!(read.is_ok() || read.is_err_and(|why| !why.is_empty()));
        }
        1 => drop(StepWords::read(text).map(|words| words.note())),
        2 => {
            if let Ok(service) = lineside_forward::settings::service(text) {
                assert!(service.nodes.len() <= text.len());
            }
        }
        3 => {
            let _ = lineside_words::parse_duration(text);
            let _ = lineside_words::parse_size(text);
        }
        4 => drop(text.parse::<lineside_analyze::Assert>()),
        _ => {
            let moment = text.parse::<lineside_analyze::Moment>();
            drop(moment);
        }
    }
}
