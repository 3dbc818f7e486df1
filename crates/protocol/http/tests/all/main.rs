//! Against code that is not ours: Python's `http.client` and `http.server`, and curl.

mod curl;
mod python;
