//! Which known word was meant.

/// The known word that is most like a text, of several the last one; `none` where no word is known.
pub fn nearest<'a>(text: &str, known: impl IntoIterator<Item = &'a str>) -> &'a str {
    let likeness = |known: &str| strsim::jaro_winkler(known, text);
    let known = known.into_iter();
    let nearest = known.max_by(|one, other| likeness(one).total_cmp(&likeness(other)));
    nearest.unwrap_or("none")
}

/// How many letters were added, left out, changed or exchanged between two words.
pub fn distance(one: &str, other: &str) -> usize {
    strsim::damerau_levenshtein(one, other)
}
