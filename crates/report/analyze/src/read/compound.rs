//! Operations of a compound of NFSv4.

/// Whether it is not what a compound is made for.
pub(crate) fn is_beside(name: &str) -> bool {
    const BESIDE: [&str; 11] = [
        "SEQUENCE",
        "PUTFH",
        "PUTROOTFH",
        "PUTPUBFH",
        "SAVEFH",
        "RESTOREFH",
        "GETFH",
        "GETATTR",
        "VERIFY",
        "NVERIFY",
        "ACCESS",
    ];
    BESIDE.contains(&name)
}
