//! From tests to instructions with jumps: laid out in their order, with long jumps where short ones
//! do not reach.

use crate::program::{Instruction, PROGRAM_LEN_MAX, code, instruction};

/// What a frame is asked, in the order in which it is asked: a load that fails ends all.
pub(crate) enum Test {
    Always(bool),
    /// The code computes A (and X, if the comparison is with X).
    Compare {
        code: Vec<Instruction>,
        jump: u16,
        k: u32,
    },
    Not(Box<Self>),
    All(Vec<Self>),
    Any(Vec<Self>),
}

impl Test {
    pub(crate) fn not(self) -> Self {
        Self::Not(Box::new(self))
    }
}

/// Where a jump ends, before that is known.
type Label = usize;

enum Item {
    Plain(Instruction),
    /// A comparison; the flags say which ways are too long for its 8 bits, so that a long jump
    /// stands behind it.
    Branch {
        code: u16,
        k: u32,
        to: [Label; 2],
        is_long: [bool; 2],
    },
    Goto(Label),
    Here(Label),
}

impl Item {
    fn len(&self) -> usize {
        match self {
            Self::Plain(_) | Self::Goto(_) => 1,
            Self::Branch { is_long, .. } => 1 + is_long.iter().filter(|&&each| each).count(),
            Self::Here(_) => 0,
        }
    }
}

/// Lays tests out in their order, so that every jump leads forward.
#[derive(Default)]
pub(crate) struct Assembler {
    items: Vec<Item>,
    labels: usize,
}

impl Assembler {
    /// A program that executes `first`, then tests; `None` if it would be too long.
    pub(crate) fn assemble(first: &[Instruction], test: &Test) -> Option<Vec<Instruction>> {
        let mut assembler = Self::default();
        let first = first.iter().copied().map(Item::Plain);
        assembler.items.extend(first);
        let (taken, left) = (assembler.label(), assembler.label());
        assembler.test(test, taken, left);
        assembler.items.extend([
            Item::Here(taken),
            Item::Plain(instruction(code::RET_K, u32::MAX)),
            Item::Here(left),
            Item::Plain(instruction(code::RET_K, 0)),
        ]);
        let mut items = assembler.items;
        loop {
            let len: usize = items.iter().map(Item::len).sum();
            if len > PROGRAM_LEN_MAX {
                return None;
            }
            let places = places(&items, assembler.labels);
            if !lengthen(&mut items, &places) {
                return Some(resolve(&items, &places));
            }
        }
    }

    fn label(&mut self) -> Label {
        self.labels += 1;
        self.labels - 1
    }

    fn test(&mut self, test: &Test, on_true: Label, on_false: Label) {
        match test {
            Test::Always(truth) => {
                self.items
                    .push(Item::Goto(if *truth { on_true } else { on_false }));
            }
            Test::Compare { code, jump, k } => {
                self.items.extend(code.iter().copied().map(Item::Plain));
                self.items.push(Item::Branch {
                    code: *jump,
                    k: *k,
                    to: [on_true, on_false],
                    is_long: [false; 2],
                });
            }
            Test::Not(inner) => self.test(inner, on_false, on_true),
            Test::All(tests) | Test::Any(tests) => {
                let is_all = matches!(test, Test::All(_));
                let Some((last, others)) = tests.split_last() else {
                    return self.test(&Test::Always(is_all), on_true, on_false);
                };
                for each in others {
                    let next = self.label();
                    if is_all {
                        self.test(each, next, on_false);
                    } else {
                        self.test(each, on_true, next);
                    }
                    self.items.push(Item::Here(next));
                }
                self.test(last, on_true, on_false);
            }
        }
    }
}

/// The instruction at which each label stands.
fn places(items: &[Item], labels: usize) -> Vec<usize> {
    let mut places = vec![0; labels];
    let mut at = 0;
    for item in items {
        if let Item::Here(label) = *item {
            places[label] = at;
        }
        at += item.len();
    }
    places
}

/// Marks the ways that are too long as they stand; says whether there were any. A way that is
/// marked stays so, hence this comes to an end.
fn lengthen(items: &mut [Item], places: &[usize]) -> bool {
    let mut at = 0;
    let mut has_changed = false;
    for item in items {
        // Where things stand is known for the lengths before this pass.
        let len = item.len();
        if let Item::Branch { to, is_long, .. } = item {
            for (label, is_long) in to.iter().zip(is_long) {
                if !*is_long && places[*label] - (at + 1) > usize::from(u8::MAX) {
                    *is_long = true;
                    has_changed = true;
                }
            }
        }
        at += len;
    }
    has_changed
}

fn resolve(items: &[Item], places: &[usize]) -> Vec<Instruction> {
    let mut instructions = Vec::new();
    for item in items {
        let goto = |at: usize, label: Label| instruction(code::JA, (places[label] - at - 1) as u32);
        let at = instructions.len();
        match *item {
            Item::Plain(plain) => instructions.push(plain),
            Item::Goto(label) => instructions.push(goto(at, label)),
            Item::Here(_) => {}
            Item::Branch {
                code,
                k,
                to,
                is_long,
            } => {
                let mut long_at = at + 1;
                let mut long = Vec::new();
                let jumps = [0, 1].map(|way| {
                    let target = if is_long[way] {
                        long.push(goto(long_at, to[way]));
                        long_at += 1;
                        long_at - 1
                    } else {
                        places[to[way]]
                    };
                    (target - at - 1) as u8
                });
                instructions.push(Instruction {
                    code,
                    jump_true: jumps[0],
                    jump_false: jumps[1],
                    k,
                });
                instructions.extend(long);
            }
        }
    }
    instructions
}
