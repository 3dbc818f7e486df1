//! What depends on network namespaces.

mod steering;
