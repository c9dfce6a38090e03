//! A small seeded generator: same seed, same numbers, on every machine. Not for secrets.
//!
//! The simulator, jitter and the benchmark's topics use it. The algorithm is xoshiro256++ (Blackman
//! and Vigna), its state filled from the seed by splitmix64, as its authors advise, so that close
//! seeds give unlike sequences.

/// A generator with 32 bytes of state. Period 2^256 - 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prng {
    state: [u64; 4],
}

impl Prng {
    /// Creates a generator that the seed determines completely.
    pub fn new(seed: u64) -> Prng {
        let mut mixer = seed;
        Prng { state: std::array::from_fn(|_| splitmix(&mut mixer)) }
    }

    /// Splits off a generator for one purpose: numbers drawn from one never shift those of another.
    pub fn fork(&mut self) -> Prng {
        Prng::new(self.next_u64())
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        let s = &mut self.state;
        let result = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let shifted = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= shifted;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// A number in `0..n`, every one equally likely; 0 if `n` is 0.
    pub fn below(&mut self, n: u64) -> u64 {
        // The high half of a 64 x 64 bit product is the number; products whose low half falls into
        // the remainder of 2^64 / n would favour some numbers and are drawn again.
        loop {
            let product = u128::from(self.next_u64()) * u128::from(n);
            let low = product as u64;
            if low >= n || low >= n.wrapping_neg() % n.max(1) {
                return (product >> 64) as u64;
            }
        }
    }

    /// A number in `from..=through`; `from` if the range is empty.
    pub fn between(&mut self, from: u64, through: u64) -> u64 {
        match through.saturating_sub(from).checked_add(1) {
            Some(count) => from + self.below(count),
            None => self.next_u64(),
        }
    }

    /// True with probability `p`; never if `p` is 0, less or not a number, always from 1 up.
    pub fn chance(&mut self, p: f64) -> bool {
        // 53 bits make every multiple of 2^-53 in 0..1 equally likely.
        ((self.next_u64() >> 11) as f64) * (1.0 / (1u64 << 53) as f64) < p
    }

    /// Fills the bytes with random ones.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        for part in bytes.chunks_mut(8) {
            part.copy_from_slice(&self.next_u64().to_le_bytes()[..part.len()]);
        }
    }

    /// Shuffles the items, every order equally likely.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last as u64 + 1) as usize);
        }
    }
}

fn splitmix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The published first outputs of splitmix64 for seed 1234567 and of xoshiro256++ for state 1,
    /// 2, 3, 4.
    #[test]
    fn the_generator_agrees_with_published_vectors() {
        let mut state = 1_234_567;
        let mixed: [u64; 3] = std::array::from_fn(|_| splitmix(&mut state));
        assert_eq!(mixed, [6457827717110365317, 3203168211198807973, 9817491932198370423]);
        let mut prng = Prng { state: [1, 2, 3, 4] };
        let drawn: [u64; 4] = std::array::from_fn(|_| prng.next_u64());
        assert_eq!(drawn, [41943041, 58720359, 3588806011781223, 3591011842654386]);
    }

    #[test]
    fn equal_seeds_give_equal_numbers() {
        let (mut one, mut two, mut other) = (Prng::new(5), Prng::new(5), Prng::new(6));
        let same = (0..100).all(|_| one.next_u64() == two.next_u64());
        assert!(same && one.next_u64() != other.next_u64());
        let mut fork = one.fork();
        assert_ne!(fork.next_u64(), one.next_u64());
    }

    #[test]
    fn numbers_stay_within_bounds_and_spread() {
        let mut prng = Prng::new(1);
        assert_eq!((prng.below(0), prng.below(1), prng.between(9, 3)), (0, 0, 9));
        let mut counts = [0u32; 7];
        for _ in 0..70_000 {
            counts[prng.below(7) as usize] += 1;
        }
        assert!(counts.iter().all(|count| (9_500..10_500).contains(count)), "{counts:?}");
        assert!((0..1_000).all(|_| (5..=6).contains(&prng.between(5, 6))));
        assert!((0..1_000).all(|_| prng.below(u64::MAX) < u64::MAX));
        prng.between(0, u64::MAX);
    }

    #[test]
    fn a_chance_has_its_probability() {
        let mut prng = Prng::new(2);
        let mut hits = |p: f64| (0..10_000).filter(|_| prng.chance(p)).count();
        assert_eq!((hits(0.0), hits(-1.0), hits(f64::NAN), hits(1.0)), (0, 0, 0, 10_000));
        assert!((2_300..2_700).contains(&hits(0.25)));
    }

    #[test]
    fn fill_reaches_every_byte() {
        let mut prng = Prng::new(3);
        for len in 0..40 {
            let mut seen = vec![0u8; len];
            for _ in 0..20 {
                let mut bytes = vec![0u8; len];
                prng.fill(&mut bytes);
                seen.iter_mut().zip(&bytes).for_each(|(seen, byte)| *seen |= byte);
            }
            assert!(seen.iter().all(|byte| *byte != 0));
        }
    }

    #[test]
    fn shuffle_keeps_the_items() {
        let mut items: Vec<u32> = (0..50).collect();
        Prng::new(4).shuffle(&mut items);
        assert!(!items.is_sorted());
        items.sort_unstable();
        assert!(items.iter().copied().eq(0..50));
    }
}
