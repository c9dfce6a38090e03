//! Many small lists of `u32` in one pool: subscribers of a topic, frames of an outbox.
//!
//! Most lists have no value or one and cost only their 8-byte handle; longer ones are chains of
//! 64-byte blocks (14 values each); above [`SPILL_LEN`] a list becomes one array, so that a topic
//! with a million subscribers can lose them one by one in constant time each.
//!
//! There are two ways of use. Do not mix them on one list:
//! - a queue, or a set in which order matters: `push`, `pop_front`, `remove`. Values keep their
//!   order; `remove` searches, at most [`SPILL_LEN`] values in a chain but the whole list in an
//!   array.
//! - a set whose members know their position: `push` (the position is the length before), and
//!   [`ListPool::swap_remove_at`], which moves the last value into the hole and returns it, so that
//!   the caller stores its new position. In a disconnect storm each removal is O(1) in an array,
//!   and a walk over at most [`SPILL_LEN`] / 14 blocks in a chain.
//!
//! A [`List`] owns its blocks in the pool: `clear` it before dropping it, or they leak.

use crate::handing::Hand;
use crate::memory::vector_bytes;
use crate::slab::Slab;
use std::collections::VecDeque;
use std::num::NonZeroU8;

/// The maximum length of a chain. Longer lists are arrays. They become chains again at a quarter of
/// it, so that a length that oscillates around the bound does not copy each time.
pub const SPILL_LEN: usize = 64;
/// The maximum number of values in one list.
pub const LIST_LEN_MAX: usize = (u32::MAX >> 1) as usize;

const BLOCK_LEN: usize = 14;
const CHAIN_AGAIN_LEN: usize = SPILL_LEN / 4;

/// Handle of one list in a pool: 8 bytes. Use it only with the pool that it grew in.
#[derive(Debug, Default, PartialEq, Eq, Hand)]
pub struct List {
    /// The length, shifted by one; the lowest bit is set if the values are in an array.
    len_and_spilled: u32,
    /// Unused for length 0. The value for length 1. The last block of a chain. The index of an
    /// array.
    place: u32,
}

const _: () = assert!(size_of::<List>() == 8 && Slab::<Block>::ENTRY_BYTES == 64);

/// The blocks and arrays of many lists. Owned by one shard. Memory: 64 bytes per block, 40 bytes
/// and up to 8 per value for an array; freed blocks are reused, arrays shrink as they empty.
#[derive(Debug, Default, Hand)]
pub struct ListPool {
    blocks: Slab<Block>,
    arrays: Slab<VecDeque<u32>>,
}

/// One block of a chain. The chain is a ring: the last block links to the first, so that one handle
/// reaches both ends.
#[derive(Debug, Hand)]
struct Block {
    values: [u32; BLOCK_LEN],
    next: u32,
    start: u8,
    /// The number of values. An empty block is freed at once, so the slab can use 0 as its niche.
    count: NonZeroU8,
}

impl List {
    /// Creates an empty list.
    pub const fn new() -> List {
        List { len_and_spilled: 0, place: 0 }
    }

    /// The number of values.
    pub fn len(&self) -> usize {
        (self.len_and_spilled >> 1) as usize
    }

    /// Whether the list has no value.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The value of a list of one, which lies in the handle.
    fn only(&self) -> Option<u32> {
        (self.len_and_spilled == 1 << 1).then_some(self.place)
    }

    fn is_array(&self) -> bool {
        self.len_and_spilled & 1 == 1
    }

    fn set_len(&mut self, len: usize) {
        debug_assert!(len <= LIST_LEN_MAX);
        self.len_and_spilled = (len as u32) << 1 | (self.len_and_spilled & 1);
    }

    fn one(value: u32) -> List {
        List { len_and_spilled: 1 << 1, place: value }
    }
}

impl ListPool {
    /// Creates a pool without lists; allocates nothing.
    pub const fn new() -> ListPool {
        ListPool { blocks: Slab::new(), arrays: Slab::new() }
    }

    /// Adds a value at the end.
    ///
    /// # Panics
    /// With more than [`LIST_LEN_MAX`] values. Owners have their own, far lower bound.
    #[inline]
    pub fn push(&mut self, list: &mut List, value: u32) {
        if list.is_empty() {
            *list = List::one(value);
        } else {
            self.push_behind(list, value);
        }
    }

    fn push_behind(&mut self, list: &mut List, value: u32) {
        let len = list.len();
        assert!(len < LIST_LEN_MAX, "a list has at most 2^31 - 1 values");
        match len {
            _ if list.is_array() => {
                self.arrays[list.place].push_back(value);
                list.set_len(len + 1);
            }
            SPILL_LEN.. => {
                let mut array = VecDeque::with_capacity(2 * SPILL_LEN);
                array.extend(self.iter(list));
                array.push_back(value);
                self.free_chain(list);
                *list = List {
                    len_and_spilled: (len as u32 + 1) << 1 | 1,
                    place: self.arrays.insert(array),
                };
            }
            _ => {
                if len == 1 {
                    list.place = self.first_block(list.place);
                }
                list.place = self.push_to_chain(list.place, value);
                list.set_len(len + 1);
            }
        }
    }

    /// Removes and returns the first value.
    #[inline]
    pub fn pop_front(&mut self, list: &mut List) -> Option<u32> {
        match list.only() {
            Some(value) => {
                *list = List::new();
                Some(value)
            }
            None => self.take_at(list, 0),
        }
    }

    /// Removes the first occurrence of a value; the others keep their order. Returns false if it is
    /// absent.
    pub fn remove(&mut self, list: &mut List, value: u32) -> bool {
        let position = self.iter(list).position(|other| other == value);
        position.is_some_and(|position| self.take_at(list, position).is_some())
    }

    /// Removes the value at a position and moves the last value there. Returns the moved value,
    /// whose new position the caller then stores; None if the removed value was the last one, or
    /// the position does not exist.
    pub fn swap_remove_at(&mut self, list: &mut List, position: usize) -> Option<u32> {
        let last = list.len().checked_sub(1)?;
        if position > last {
            return None;
        }
        let moved = self.take_at(list, last)?;
        if position == last {
            return None;
        }
        if list.is_array() {
            self.arrays[list.place][position] = moved;
        } else if list.len() == 1 {
            list.place = moved;
        } else {
            let (_, block, place) = self.find(list, position);
            self.blocks[block].values[place] = moved;
        }
        Some(moved)
    }

    /// The value at a position.
    pub fn get(&self, list: &List, position: usize) -> Option<u32> {
        match list.len() {
            len if position >= len => None,
            _ if list.is_array() => self.arrays[list.place].get(position).copied(),
            1 => Some(list.place),
            _ => {
                let (_, block, place) = self.find(list, position);
                Some(self.blocks[block].values[place])
            }
        }
    }

    /// The first value.
    #[inline]
    pub fn first(&self, list: &List) -> Option<u32> {
        match list.only() {
            Some(value) => Some(value),
            None => self.get(list, 0),
        }
    }

    /// All values in order.
    pub fn iter<'a>(&'a self, list: &'a List) -> Iter<'a> {
        let ahead: &[u32] = match list.len() {
            0 => &[],
            1 if !list.is_array() => std::slice::from_ref(&list.place),
            _ if list.is_array() => {
                let (front, back) = self.arrays[list.place].as_slices();
                return Iter { pool: self, ahead: front, then: Then::Values(back) };
            }
            _ => {
                let first = self.blocks[list.place].next;
                let then = Then::Blocks { done: first, last: list.place };
                return Iter { pool: self, ahead: self.blocks[first].live(), then };
            }
        };
        Iter { pool: self, ahead, then: Then::Values(&[]) }
    }

    /// Empties the list and frees its blocks. A walk over the blocks; O(1) for an array.
    pub fn clear(&mut self, list: &mut List) {
        if list.is_array() {
            self.arrays.remove(list.place);
        } else if list.len() > 1 {
            self.free_chain(list);
        }
        *list = List::new();
    }

    /// Allocated bytes of all lists, without their handles.
    pub fn allocated_bytes(&self) -> usize {
        let arrays: usize = self.arrays.iter().map(|(_, array)| array.capacity() * 4).sum();
        self.blocks.allocated_bytes() + self.arrays.allocated_bytes() + arrays
    }

    /// Bytes touched by all lists, without their handles. Visits every array, of which there are
    /// few: one for each list of over [`SPILL_LEN`] values.
    pub fn memory_bytes(&self) -> usize {
        let arrays: usize =
            self.arrays.iter().map(|(_, array)| vector_bytes::<u32>(array.capacity())).sum();
        self.blocks.memory_bytes() + self.arrays.memory_bytes() + arrays
    }

    /// Removes the value at an existing position, keeping order; a list of one becomes its own
    /// handle again.
    fn take_at(&mut self, list: &mut List, position: usize) -> Option<u32> {
        let len = list.len();
        if position >= len {
            return None;
        }
        if list.is_array() {
            let array = &mut self.arrays[list.place];
            let value = array.remove(position);
            list.set_len(len - 1);
            if len - 1 <= CHAIN_AGAIN_LEN {
                self.chain_again(list);
            } else if array.capacity() / 4 > len {
                array.shrink_to(2 * len);
            }
            return value;
        }
        if len == 1 {
            return Some(std::mem::take(list).place);
        }
        let (before, block, place) = self.find(list, position);
        let value = self.take_from_block(list, before, block, place);
        list.set_len(len - 1);
        if len == 2 {
            let rest = self.blocks.remove(list.place);
            *list = List::one(rest.map_or(0, |block| block.live()[0]));
        }
        Some(value)
    }

    fn take_from_block(&mut self, list: &mut List, before: u32, index: u32, place: usize) -> u32 {
        let block = &mut self.blocks[index];
        let value = block.values[place];
        let (start, end) = (block.start as usize, block.start as usize + block.live().len());
        match NonZeroU8::new(block.count.get() - 1) {
            Some(count) => {
                block.count = count;
                if place == start {
                    block.start += 1;
                } else {
                    block.values.copy_within(place + 1..end, place);
                }
            }
            None => {
                let next = block.next;
                self.blocks.remove(index);
                self.blocks[before].next = next;
                if list.place == index {
                    list.place = before;
                }
            }
        }
        value
    }

    /// Finds a position in a chain: the block before, the block, the index in it.
    fn find(&self, list: &List, position: usize) -> (u32, u32, usize) {
        let mut before = list.place;
        let mut left = position;
        loop {
            let index = self.blocks[before].next;
            let block = &self.blocks[index];
            let count = block.live().len();
            if left < count {
                return (before, index, block.start as usize + left);
            }
            left -= count;
            before = index;
        }
    }

    /// Creates a chain of one block with one value.
    fn first_block(&mut self, value: u32) -> u32 {
        let mut values = [0; BLOCK_LEN];
        values[0] = value;
        let next = self.blocks.next_index();
        self.blocks.insert(Block { values, next, start: 0, count: NonZeroU8::MIN })
    }

    /// Appends to a chain. Returns the last block, which may be a new one.
    fn push_to_chain(&mut self, last: u32, value: u32) -> u32 {
        let block = &mut self.blocks[last];
        let count = block.live().len();
        if count < BLOCK_LEN {
            let start = block.start as usize;
            if start + count == BLOCK_LEN {
                block.values.copy_within(start.., 0);
                block.start = 0;
            }
            block.values[block.start as usize + count] = value;
            block.count = block.count.saturating_add(1);
            return last;
        }
        let first = block.next;
        let index = self.first_block(value);
        self.blocks[last].next = index;
        self.blocks[index].next = first;
        index
    }

    fn free_chain(&mut self, list: &List) {
        let mut index = self.blocks[list.place].next;
        loop {
            let next = self.blocks.remove(index).map(|block| block.next);
            match next {
                Some(next) if index != list.place => index = next,
                _ => return,
            }
        }
    }

    fn chain_again(&mut self, list: &mut List) {
        if let Some(array) = self.arrays.remove(list.place) {
            *list = List::new();
            array.into_iter().for_each(|value| self.push(list, value));
        }
    }
}

impl Block {
    fn live(&self) -> &[u32] {
        let start = self.start as usize;
        &self.values[start..start + self.count.get() as usize]
    }
}

/// Values of one list in order; see [`ListPool::iter`].
#[derive(Debug)]
pub struct Iter<'a> {
    pool: &'a ListPool,
    ahead: &'a [u32],
    then: Then<'a>,
}

#[derive(Debug)]
enum Then<'a> {
    Values(&'a [u32]),
    Blocks { done: u32, last: u32 },
}

impl Iterator for Iter<'_> {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        loop {
            if let Some((value, rest)) = self.ahead.split_first() {
                self.ahead = rest;
                return Some(*value);
            }
            match &mut self.then {
                Then::Values([]) => return None,
                Then::Values(values) => self.ahead = std::mem::take(values),
                Then::Blocks { done, last } if done == last => return None,
                Then::Blocks { done, .. } => {
                    *done = self.pool.blocks[*done].next;
                    self.ahead = self.pool.blocks[*done].live();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prng::Prng;

    fn values(pool: &ListPool, list: &List) -> Vec<u32> {
        pool.iter(list).collect()
    }

    #[test]
    fn empty_and_single_lists_allocate_nothing() {
        let mut pool = ListPool::new();
        let mut list = List::new();
        assert!(values(&pool, &list).is_empty() && pool.pop_front(&mut list).is_none());
        assert!(pool.swap_remove_at(&mut list, 0).is_none() && !pool.remove(&mut list, 0));
        pool.push(&mut list, 7);
        assert_eq!((values(&pool, &list), pool.allocated_bytes()), (vec![7], 0));
        assert_eq!((pool.first(&list), pool.get(&list, 1)), (Some(7), None));
        assert!(pool.remove(&mut list, 7) && list == List::new());
    }

    /// Runs random operations on many lists in one pool, each compared with a Vec.
    #[test]
    fn lists_agree_with_vectors() {
        for seed in 0..8 {
            let mut prng = Prng::new(seed);
            let mut pool = ListPool::new();
            let mut lists: Vec<(List, Vec<u32>)> = (0..10).map(|_| Default::default()).collect();
            for step in 0..20_000u32 {
                // Long phases of growth and decline make the lists pass through all their forms.
                let grows = (step / 1_000) % 2 == 0;
                let which = prng.below(10) as usize;
                let (list, model) = &mut lists[which];
                if prng.chance(if grows { 0.8 } else { 0.2 }) {
                    pool.push(list, step);
                    model.push(step);
                } else {
                    let position = prng.below(model.len() as u64 + 1) as usize;
                    match prng.below(if which < 5 { 2 } else { 3 }) {
                        0 => {
                            let first = (!model.is_empty()).then(|| model.remove(0));
                            assert_eq!(pool.pop_front(list), first);
                        }
                        1 => {
                            let value = model.get(position).copied();
                            assert_eq!(
                                pool.remove(list, value.unwrap_or(u32::MAX)),
                                value.is_some()
                            );
                            model.retain(|other| Some(*other) != value);
                        }
                        _ => {
                            let moved =
                                model.last().copied().filter(|_| position + 1 < model.len());
                            assert_eq!(pool.swap_remove_at(list, position), moved);
                            if position < model.len() {
                                model.swap_remove(position);
                            }
                        }
                    }
                }
                assert_eq!(list.len(), model.len());
                let probe = prng.below(model.len() as u64 + 2) as usize;
                assert_eq!(pool.get(list, probe), model.get(probe).copied());
                if step % 16 == 0 {
                    assert_eq!(values(&pool, list), *model, "seed {seed} step {step}");
                }
            }
            for (list, model) in &mut lists {
                assert_eq!(values(&pool, list), *model);
                pool.clear(list);
                assert!(list.is_empty());
            }
            assert!(pool.blocks.is_empty() && pool.arrays.is_empty());
        }
    }

    /// A queue that stays short reuses its block forever.
    #[test]
    fn a_short_queue_uses_one_block() {
        let mut pool = ListPool::new();
        let mut list = List::new();
        (0..5).for_each(|value| pool.push(&mut list, value));
        for value in 5..10_000 {
            pool.push(&mut list, value);
            assert_eq!(pool.pop_front(&mut list), Some(value - 5));
        }
        assert_eq!(pool.blocks.places(), 1);
    }

    /// Disconnect storm: 200,000 members that know their positions all leave in random order.
    /// Quadratic work would take minutes.
    #[test]
    fn a_storm_of_removals_is_linear() {
        let members: u32 = if cfg!(miri) { 500 } else { 200_000 };
        let mut prng = Prng::new(1);
        let mut pool = ListPool::new();
        let mut list = List::new();
        let mut positions: Vec<usize> = (0..members as usize).collect();
        let mut leaving: Vec<u32> = (0..members).collect();
        leaving.iter().for_each(|member| pool.push(&mut list, *member));
        prng.shuffle(&mut leaving);
        for member in leaving {
            assert_eq!(pool.get(&list, positions[member as usize]), Some(member));
            if let Some(moved) = pool.swap_remove_at(&mut list, positions[member as usize]) {
                positions[moved as usize] = positions[member as usize];
            }
        }
        assert!(list.is_empty() && pool.blocks.is_empty() && pool.arrays.is_empty());
    }
}
