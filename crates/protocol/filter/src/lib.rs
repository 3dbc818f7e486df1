//! Filters in the syntax of pcap-filter(7), compiled to classic BPF and run on captured bytes.
//!
//! ```text
//!  'tcp port 2049' ─parse─► Filter ─compile(link type)─► Program ─matches─► does the frame pass?
//!                                                           └─ instructions: what the kernel takes
//! ```
//!
//! * The meaning is libpcap's, quirks included: `and` and `or` bind equally and to the left, `vlan`
//!   moves the offsets of everything behind it in the text, ports are those of unfragmented packets
//!   and first fragments only, and a frame that is too short for a load does not match, whatever
//!   `not` stands before it.
//! * Compiled once for each link type; the program is checked as the kernel checks it, and may be
//!   given to the kernel.
//! * Not here: names of hosts and networks (nothing is resolved), services but for a few names, and
//!   the words that [`FilterError`] names as not supported.
#![forbid(unsafe_code)]

mod assemble;
mod compile;
mod error;
mod lex;
mod parse;
mod program;
mod syntax;

pub use error::FilterError;
pub use program::{Instruction, Program, ProgramError};

use syntax::Node;

/// A parsed filter expression.
///
/// ```
/// use lineside_filter::Filter;
/// use lineside_wire::build::{FrameBuilder, TcpFields};
///
/// let filter = Filter::parse("tcp port 2049 and not host 10.0.0.9")?;
/// let program = filter.compile(1)?;
/// let frames = FrameBuilder::new([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
/// let frame = frames.tcp(&TcpFields { destination_port: 2049, ..TcpFields::default() }, b"");
/// assert!(program.matches(&frame, frame.len() as u32));
/// # Ok::<(), lineside_filter::FilterError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Filter {
    expression: String,
    /// `None`: the expression is empty, and everything matches.
    root: Option<Node>,
}

impl Filter {
    /// Parses an expression. An empty one matches every frame.
    pub fn parse(expression: &str) -> Result<Self, FilterError> {
        Ok(Self {
            expression: expression.to_owned(),
            root: parse::parse(expression)?,
        })
    }

    /// The expression as it was given.
    pub fn expression(&self) -> &str {
        &self.expression
    }

    /// Whether frames of this link type (a LINKTYPE_ value) can be filtered at all.
    pub fn knows(link_type: u16) -> bool {
        compile::Layout::of(link_type).is_some()
    }

    /// The program for frames of this link type. Fails if the expression asks for what such frames
    /// do not have, such as Ethernet addresses, or if the program would be longer than the kernel
    /// takes (4,096 instructions).
    pub fn compile(&self, link_type: u16) -> Result<Program, FilterError> {
        self.program(link_type, compile::Tags::InPlace)
    }

    /// The program for frames of an interface, as libpcap makes it for a live capture: for the
    /// kernel, which takes the outer VLAN tag out of a frame, and for
    /// [`matches_arriving`](Program::matches_arriving).
    ///
    /// It takes other frames than that for files does: without `vlan`, what an expression looks at
    /// is behind the tag, so that `tcp` takes tagged frames too.
    pub fn compile_live(&self, link_type: u16) -> Result<Program, FilterError> {
        self.program(link_type, compile::Tags::Apart)
    }

    fn program(&self, link_type: u16, tags: compile::Tags) -> Result<Program, FilterError> {
        compile::compile(&self.expression, self.root.as_ref(), link_type, tags)
    }
}
