//! The bytes of requests: whole, from where they were written last, or by parts.

use super::Client;
use crate::protocol::{Client as Protocol, Request};

impl<P: Protocol> Client<P> {
    /// The bytes of a request: how many.
    pub(super) fn len(&mut self, request: Request) -> u64 {
        if let Some(len) = self.protocol.len(request) {
            return len;
        }
        self.write(request);
        self.written.len() as u64
    }

    fn write(&mut self, request: Request) {
        if self.written_for != Some(request) {
            self.written.clear();
            self.protocol.write(request, &mut self.written);
            self.written_for = Some(request);
        }
    }

    /// Writes the part of a request from `offset` on.
    pub(super) fn fill_part(&mut self, request: Request, offset: u64, part: &mut [u8]) {
        if self.protocol.len(request).is_some() {
            return self.protocol.fill(request, offset, part);
        }
        self.write(request);
        part.copy_from_slice(&self.written[offset as usize..][..part.len()]);
    }
}
