//! Damage by the million: as `damage`, drawn by a generator that costs nothing, the same for the same seed.

use crate::hostile::damage::NUMBERS;

/// A generator of random numbers (splitmix64).
pub struct Dice(pub u64);

impl Dice {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    /// Below `most`, which may be 0.
    pub fn below(&mut self, most: usize) -> usize {
        if most == 0 { 0 } else { (self.next() % most as u64) as usize }
    }

    /// One to three accidents.
    pub fn strike(&mut self, bytes: &mut Vec<u8>) {
        for _ in 0..1 + self.below(3) {
            self.strike_once(bytes);
        }
    }

    fn strike_once(&mut self, bytes: &mut Vec<u8>) {
        let length = bytes.len();
        let at = self.below(length + 1);
        match self.below(12) {
            0..=3 => {
                let mask = 1 + self.below(255) as u8;
                bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= mask);
            }
            4 => bytes.truncate(at),
            5 => {
                let to = (at + self.below(64)).min(length);
                let (slice, place) = (bytes[at..to].to_vec(), self.below(length + 1));
                bytes.splice(place..place, slice);
            }
            6 => {
                let to = (at + 1 + self.below(20)).min(length);
                bytes.drain(at..to);
            }
            7 => {
                let noise: Vec<u8> = (0..self.below(16)).map(|_| self.next() as u8).collect();
                bytes.splice(at..at, noise);
            }
            8 => {
                let byte = b"a\n,0[\" {"[self.below(8)];
                bytes.splice(at..at, vec![byte; 1 + self.below(300)]);
            }
            _ => {
                // The number that follows, if any, becomes another.
                let Some(start) = (at..length).find(|&at| bytes[at].is_ascii_digit()) else { return };
                let end = (start..length).find(|&at| !bytes[at].is_ascii_digit()).unwrap_or(length);
                let number = NUMBERS[self.below(NUMBERS.len())];
                bytes.splice(start..end, number.bytes());
            }
        }
    }
}
