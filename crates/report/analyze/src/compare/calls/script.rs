//! The shortest script that makes one sequence of another (Myers, "An O(ND) Difference Algorithm
//! and Its Variations", 1986): which elements of both stay.

/// Elements, at most, that only one of both has: of more the ends alone are compared. The steps
/// that are kept grow with the square: 4 MiB.
const DIFFERENCES_MAX: usize = 1_024;

/// The places of the elements that stay, in both, in order; and whether they are all.
pub(super) fn common(a: &[u64], b: &[u64]) -> (Vec<(usize, usize)>, bool) {
    let head = a.iter().zip(b).take_while(|(a, b)| a == b).count();
    let (rest_a, rest_b) = (&a[head..], &b[head..]);
    let both = rest_a.iter().rev().zip(rest_b.iter().rev());
    let tail = both.take_while(|(a, b)| a == b).count();
    let (rest_a, rest_b) = (
        &rest_a[..rest_a.len() - tail],
        &rest_b[..rest_b.len() - tail],
    );
    let mut stay: Vec<(usize, usize)> = (0..head).map(|at| (at, at)).collect();
    let middle = steps(rest_a, rest_b);
    let is_whole = middle.is_some();
    stay.extend({ middle.unwrap_or_default().into_iter() }.map(|(x, y)| (head + x, head + y)));
    let ends = (0..tail).map(|at| (a.len() - tail + at, b.len() - tail + at));
    stay.extend(ends);
    (stay, is_whole)
}

/// `None`: there are too many differences.
fn steps(a: &[u64], b: &[u64]) -> Option<Vec<(usize, usize)>> {
    if a.is_empty() || b.is_empty() {
        return Some(Vec::new());
    }
    let most = (a.len() + b.len()).min(DIFFERENCES_MAX);
    // Of each diagonal, from -most to most, how far along `a` the script has come.
    let mut far = vec![0_usize; 2 * most + 3];
    let mut all = Vec::new();
    for cost in 0..=most {
        for diagonal in (0..=cost).map(|step| most + 1 + 2 * step - cost) {
            let is_down = diagonal == most + 1 - cost
                || diagonal != most + 1 + cost && far[diagonal - 1] < far[diagonal + 1];
            let mut x = match (cost, is_down) {
                (0, _) => 0,
                (_, true) => far[diagonal + 1],
                (_, false) => far[diagonal - 1] + 1,
            };
            // y = x - (diagonal - (most + 1))
            let mut y = x + most + 1 - diagonal;
            while x < a.len() && y < b.len() && a[x] == b[y] {
                (x, y) = (x + 1, y + 1);
            }
            far[diagonal] = x;
            if x >= a.len() && y >= b.len() {
                all.push(far[most + 1 - cost..=most + 1 + cost].to_vec());
                return Some(back(&all, a.len(), b.len()));
            }
        }
        all.push(far[most + 1 - cost..=most + 1 + cost].to_vec());
    }
    None
}

/// Goes back along the steps: `all[cost]` has the diagonals from -cost to cost.
fn back(all: &[Vec<usize>], mut x: usize, mut y: usize) -> Vec<(usize, usize)> {
    let mut stay = Vec::new();
    for cost in (1..all.len()).rev() {
        let before = &all[cost - 1];
        let diagonal = x as isize - y as isize;
        let far = |diagonal: isize| {
            let at = diagonal + (cost as isize - 1);
            let at = usize::try_from(at).ok()?;
            before.get(at).copied()
        };
        let (left, right) = (far(diagonal - 1), far(diagonal + 1));
        let is_down = diagonal == -(cost as isize) || diagonal != cost as isize && left < right;
        let (from, diagonal) = match is_down {
            true => (right.unwrap_or(0), diagonal + 1),
            false => (left.unwrap_or(0), diagonal - 1),
        };
        let from_y = from.wrapping_add_signed(-diagonal);
        let begin = if is_down { from } else { from + 1 };
        while x > begin {
            (x, y) = (x - 1, y - 1);
            stay.push((x, y));
        }
        (x, y) = (from, from_y);
    }
    while x > 0 && y > 0 {
        (x, y) = (x - 1, y - 1);
        stay.push((x, y));
    }
    stay.reverse();
    stay
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The length of the longest common subsequence, by the table.
    fn longest(a: &[u64], b: &[u64]) -> usize {
        let mut row = vec![0; b.len() + 1];
        for x in a {
            let mut corner = 0;
            for (at, y) in b.iter().enumerate() {
                let above = row[at + 1];
                row[at + 1] = if x == y {
                    corner + 1
                } else {
                    above.max(row[at])
                };
                corner = above;
            }
        }
        row[b.len()]
    }

    proptest! {
        #[test]
        fn what_stays_is_a_longest_common_subsequence(
            a in prop::collection::vec(0_u64..4, 0..40),
            b in prop::collection::vec(0_u64..4, 0..40),
        ) {
            let (stay, is_whole) = common(&a, &b);
            prop_assert!(is_whole);
            prop_assert!(stay.iter().all(|&(x, y)| a[x] == b[y]));
            prop_assert!(stay.is_sorted_by(|one, two| one.0 < two.0 && one.1 < two.1));
            prop_assert_eq!(stay.len(), longest(&a, &b));
        }
    }

    #[test]
    fn many_differences_leave_the_ends() {
        let a: Vec<u64> = (0..5_000).collect();
        let mut b: Vec<u64> = (0..5_000).map(|at| at + 10_000).collect();
        (b[0], b[4_999]) = (0, 4_999);
        assert_eq!(common(&a, &b), (vec![(0, 0), (4_999, 4_999)], false));
    }
}
