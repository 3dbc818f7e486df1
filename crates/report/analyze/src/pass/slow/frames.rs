//! Where an operation's frames lie, and the command that shows them.

use lineside_trace::Manifest;
use serde::Serialize;

/// The frames that completed a call and its reply.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Frames {
    /// The number of the frame that completed the call, within its input, as tshark counts.
    pub call_frame: Option<i64>,
    /// The number of the frame that completed the reply.
    pub reply_frame: Option<i64>,
    /// The input of `call_frame`: its place in the list `inputs` of `trace.json`, from 0.
    pub call_input: Option<i32>,
    /// The input of `reply_frame`.
    pub reply_input: Option<i32>,
}

impl Frames {
    /// The command with which tshark shows them. `None` if they lie in no file.
    pub fn tshark(&self, manifest: Option<&Manifest>) -> Option<String> {
        let file = |input: Option<i32>| {
            let input = manifest?.inputs.get(usize::try_from(input?).ok()?)?;
            (input.live.is_none() && input.name != "-").then(|| quoted(&input.name))
        };
        let show = |file: &str, frames: &[i64]| {
            let numbers = frames.iter().map(i64::to_string).collect::<Vec<_>>();
            let filter = match numbers.as_slice() {
                [one] => format!("frame.number=={one}"),
                several => format!("frame.number in {{{}}}", several.join(",")),
            };
            format!("tshark -r {file} -Y '{filter}'")
        };
        let call = file(self.call_input).zip(self.call_frame);
        let reply = file(self.reply_input).zip(self.reply_frame);
        match (call, reply) {
            (Some((file, call)), Some((other, reply))) if file == other && call != reply => {
                Some(show(&file, &[call, reply]))
            }
            (Some((file, call)), Some((other, _))) if file == other => Some(show(&file, &[call])),
            (Some((file, call)), Some((other, reply))) => Some(format!(
                "{}; {}",
                show(&file, &[call]),
                show(&other, &[reply])
            )),
            (one, other) => one.or(other).map(|(file, frame)| show(&file, &[frame])),
        }
    }

    /// `1041-1077`, or `0:1041-1:980` where a trace has several inputs.
    pub fn text(&self, has_inputs: bool) -> String {
        let one = |input: Option<i32>, frame: Option<i64>| match (input, frame) {
            (Some(input), Some(frame)) if has_inputs => format!("{input}:{frame}"),
            (_, Some(frame)) => frame.to_string(),
            _ => "?".to_owned(),
        };
        format!(
            "{}-{}",
            one(self.call_input, self.call_frame),
            one(self.reply_input, self.reply_frame)
        )
    }
}

/// A name as a shell reads it.
fn quoted(name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:,@%=".contains(c);
    if name.chars().all(is_plain) && !name.starts_with('-') && !name.is_empty() {
        return name.to_owned();
    }
    // A name that begins with a dash would be a flag.
    let name = match name.starts_with('-') {
        true => format!("./{name}"),
        false => name.to_owned(),
    };
    format!("'{}'", name.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use lineside_trace::InputFacts;

    use super::*;

    #[test]
    fn the_command_names_the_file_and_its_frames() {
        let mut manifest = Manifest::default();
        for name in ["a b.pcap", "eth.pcapng"] {
            manifest.inputs.push(InputFacts {
                name: name.to_owned(),
                ..InputFacts::default()
            });
        }
        let frames = |call, reply, inputs: [i32; 2]| Frames {
            call_frame: call,
            reply_frame: reply,
            call_input: Some(inputs[0]),
            reply_input: Some(inputs[1]),
        };
        let shown = |frames: Frames| frames.tshark(Some(&manifest)).expect("a command");
        assert_eq!(
            shown(frames(Some(3), Some(9), [0, 0])),
            "tshark -r 'a b.pcap' -Y 'frame.number in {3,9}'"
        );
        assert_eq!(
            shown(frames(Some(3), Some(9), [0, 1])),
            "tshark -r 'a b.pcap' -Y 'frame.number==3'; tshark -r eth.pcapng -Y 'frame.number==9'"
        );
        assert_eq!(
            shown(frames(None, Some(9), [0, 1])),
            "tshark -r eth.pcapng -Y 'frame.number==9'"
        );
        assert_eq!(
            frames(Some(3), Some(9), [7, 7]).tshark(Some(&manifest)),
            None
        );
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted("-r"), "'./-r'");
    }
}
