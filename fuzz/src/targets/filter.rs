//! Filters: any expression is parsed, compiled and run, and any program is checked and run.

use lineside_filter::{Filter, Instruction, Program};

use super::Bytes;

/// The link types that are known, and one that is not.
const LINK_TYPES: [u16; 11] = [1, 113, 276, 0, 108, 12, 14, 101, 228, 229, 147];

/// An expression up to a 0, then a frame, then a byte of choices; or a program in words of 8 bytes,
/// and it as the frame.
pub(crate) fn run(data: &[u8]) {
    let mut bytes = Bytes(data);
    let choice = bytes.last();
    if choice & 0x80 != 0 {
        program(bytes.0);
        return;
    }
    let end = bytes.0.iter().position(|&byte| byte == 0);
    let expression = bytes.take(end.unwrap_or(bytes.0.len()));
    let frame = bytes.0.get(1..).unwrap_or_default();
    let Ok(expression) = std::str::from_utf8(expression) else {
        return;
    };
    let link_type = LINK_TYPES[usize::from(choice & 15) % LINK_TYPES.len()];
    let wire_len = frame.len() as u32 + u32::from(choice & 16);
    match Filter::parse(expression).and_then(|filter| filter.compile(link_type)) {
        Ok(program) => {
            let instructions = program.instructions().to_vec();
            assert_eq!(Program::new(instructions).as_ref(), Ok(&program));
            let opposite = Filter::parse(&format!("not ({expression})"));
            if program.matches(frame, wire_len)
                && let Ok(opposite) = opposite.and_then(|filter| filter.compile(link_type))
                && !expression.trim().is_empty()
            {
                assert!(
                    !opposite.matches(frame, wire_len),
                    "{expression} and its opposite"
                );
            }
        }
        Err(error) => {
            assert!(
                expression.get(error.place()).is_some(),
                "{expression}: {error:?}"
            );
            assert!(
                error.to_string().lines().count() == 3
                    && !error.place().contains(&expression.len())
            );
        }
    }
}

fn program(bytes: &[u8]) {
    let words = bytes.as_chunks::<8>().0;
    let instructions = words
        .iter()
        .map(|&[high, low, jump_true, jump_false, k @ ..]| Instruction {
            code: u16::from_be_bytes([high, low]),
            jump_true,
            jump_false,
            k: u32::from_be_bytes(k),
        });
    if let Ok(program) = Program::new(instructions.collect()) {
        program.matches(bytes, bytes.len() as u32);
    }
}
