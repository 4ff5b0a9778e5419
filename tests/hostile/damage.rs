//! Random damage: to bytes, and to the files of a tree.
//!
//! Places are fractions of a length, so that a case shrinks towards the start of the first file.

use super::inputs::Tree;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use std::ops::Range;

/// What numbers in a text become. Readers may hold a name for each class or feature up to limits of their own (2^20);
/// the claims here are far below that, or beyond it.
pub const NUMBERS: [&str; 20] = [
    "",
    "-1",
    "0",
    "1",
    "7",
    "255",
    "65536",
    "1048575",
    "2147483648",
    "4294967294",
    "4294967296",
    "1152921504606846976",
    "9223372036854775807",
    "18446744073709551616",
    "-9223372036854775808",
    "1e39",
    "nan",
    "-inf",
    "0.5",
    "99999999999999999999999999999999999999999999",
];

/// One accident.
#[derive(Clone, Debug)]
enum Damage {
    Flip(Index, u8),
    Truncate(Index),
    /// A slice again, at another place.
    Duplicate(Index, Index, Index),
    Remove(Index, usize),
    Insert(Index, Vec<u8>),
    /// A run of digits becomes something else.
    Number(Index, &'static str),
    Replace(Vec<u8>),
}

fn damage() -> impl Strategy<Value = Damage> {
    let index = any::<Index>;
    let noise = |most| prop::collection::vec(any::<u8>(), 0..most);
    prop_oneof![
        4 => (index(), 1..=u8::MAX).prop_map(|(at, mask)| Damage::Flip(at, mask)),
        2 => index().prop_map(Damage::Truncate),
        2 => (index(), index(), index()).prop_map(|(from, to, at)| Damage::Duplicate(from, to, at)),
        2 => (index(), 1..20usize).prop_map(|(at, length)| Damage::Remove(at, length)),
        2 => (index(), noise(40)).prop_map(|(at, bytes)| Damage::Insert(at, bytes)),
        // Long enough that quoting it whole would make a message nobody reads.
        1 => (index(), select(&b"a\n,0[\" "[..])).prop_map(|(at, byte)| Damage::Insert(at, vec![byte; 3000])),
        6 => (index(), select(&NUMBERS[..])).prop_map(|(which, number)| Damage::Number(which, number)),
        1 => noise(400).prop_map(Damage::Replace),
    ]
}

impl Damage {
    fn apply(&self, bytes: &mut Vec<u8>) {
        let place = |index: &Index| index.index(bytes.len() + 1);
        match self {
            Damage::Flip(at, mask) => {
                let at = place(at);
                bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= mask);
            }
            Damage::Truncate(at) => bytes.truncate(place(at)),
            Damage::Duplicate(from, to, at) => {
                let (from, to, at) = (place(from), place(to), place(at));
                let slice = bytes[from.min(to)..from.max(to)].to_vec();
                bytes.splice(at..at, slice);
            }
            Damage::Remove(at, length) => {
                let at = place(at);
                bytes.drain(at..(at + length).min(bytes.len()));
            }
            Damage::Insert(at, inserted) => {
                let at = place(at);
                bytes.splice(at..at, inserted.iter().copied());
            }
            Damage::Number(which, number) => {
                let numbers = numbers(bytes);
                if !numbers.is_empty() {
                    bytes.splice(numbers[which.index(numbers.len())].clone(), number.bytes());
                }
            }
            Damage::Replace(other) => bytes.clone_from(other),
        }
    }
}

fn numbers(bytes: &[u8]) -> Vec<Range<usize>> {
    let starts =
        (0..bytes.len()).filter(|&at| bytes[at].is_ascii_digit() && (at == 0 || !bytes[at - 1].is_ascii_digit()));
    let end = |start: usize| bytes[start..].iter().take_while(|byte| byte.is_ascii_digit()).count() + start;
    starts.map(|start| start..end(start)).collect()
}

/// Damage to one file.
#[derive(Clone, Debug)]
pub struct Blow(Vec<Damage>);

pub fn blow() -> impl Strategy<Value = Blow> {
    prop::collection::vec(damage(), 1..4).prop_map(Blow)
}

impl Blow {
    pub fn strike(&self, bytes: &mut Vec<u8>) {
        self.0.iter().for_each(|damage| damage.apply(bytes));
    }
}

/// Damage to a tree: to its files, or to which file is which.
#[derive(Clone, Debug)]
pub enum Ruin {
    Damaged(Vec<(Index, Blow)>),
    Swapped(Index, Index),
    Missing(Index),
}

pub fn ruin() -> impl Strategy<Value = Ruin> {
    prop_oneof![
        10 => prop::collection::vec((any::<Index>(), blow()), 1..3).prop_map(Ruin::Damaged),
        1 => (any::<Index>(), any::<Index>()).prop_map(|(a, b)| Ruin::Swapped(a, b)),
        1 => any::<Index>().prop_map(Ruin::Missing),
    ]
}

impl Ruin {
    pub fn strike(&self, tree: &mut Tree) {
        let files = tree.len();
        match self {
            Ruin::Damaged(blows) => {
                blows.iter().for_each(|(file, blow)| blow.strike(&mut tree[file.index(files)].1));
            }
            Ruin::Swapped(a, b) => {
                let (a, b) = (a.index(files), b.index(files));
                let first = std::mem::take(&mut tree[a].1);
                let second = std::mem::replace(&mut tree[b].1, first);
                // Of one file swapped with itself nothing would be left.
                if a != b {
                    tree[a].1 = second;
                }
            }
            Ruin::Missing(file) => {
                tree.remove(file.index(files));
            }
        }
    }
}
