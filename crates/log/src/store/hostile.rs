//! A disk in memory that keeps only synced data: for tests and the simulator.
//!
//! After [`HostileDisk::crash`] a file has the content of its last successful sync, plus any part
//! of later writes, in sectors of 512 bytes; of the names created, changed or removed since the
//! last sync of the directory, a prefix has taken effect. A failed sync keeps an unknown part of
//! its data, which no later sync repairs, although reads return all of it: as Linux does. A seed
//! determines everything.

use super::disk::{Disk, DiskError};
use super::end::{End, NAMES};
use super::format::SegmentHead;
use super::recover::find_end;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;
use stdx::prng::Prng;

const SECTOR_BYTES: usize = 512;
/// The system's error number for injected faults: input/output error.
const EIO: i32 = 5;

/// A handle to the disk; clones are handles to the same.
#[derive(Clone, Debug)]
pub struct HostileDisk {
    state: Rc<RefCell<State>>,
}

/// An open file.
#[derive(Debug)]
pub struct HostileFile {
    inode: u64,
    /// The disk's life when the file was opened: a dead process writes nothing.
    life: u64,
}

#[derive(Debug)]
struct State {
    prng: Prng,
    inodes: BTreeMap<u64, Inode>,
    /// The names in the running system.
    names: BTreeMap<String, u64>,
    /// The names that are certainly on disk.
    durable_names: BTreeMap<String, u64>,
    /// The changes of names since then, in order.
    unsynced_names: Vec<NameChange>,
    next_inode: u64,
    life: u64,
    capacity: Option<u64>,
    copies: bool,
    failing_writes: u32,
    write_error: DiskError,
    failing_syncs: u32,
    failing_reads: u32,
    fails_removes: bool,
    syncs: u64,
    /// The number of calls until the disk stops responding.
    calls_left: Option<u32>,
    /// The disk has refused a call after its stop.
    has_stopped: bool,
}

#[derive(Clone, Debug)]
enum NameChange {
    Made(String, u64),
    Removed(String),
    Renamed(String, String),
}

#[derive(Clone, Debug, Default)]
struct Inode {
    /// The content that reads return.
    bytes: Vec<u8>,
    /// The content that is certainly on disk.
    durable: Vec<u8>,
    /// The sectors written since, ascending, and whether the length has changed.
    unsynced: std::collections::BTreeSet<usize>,
    /// The ranges that no read returns.
    broken: Vec<Range<u64>>,
}

/// The bytes of a log's newest segment that were provably synced: damage within them is detected;
/// damage behind them looks like an unfinished batch.
pub fn proven_bytes(segment: &[u8]) -> usize {
    match SegmentHead::decode(segment) {
        Ok(head) => find_end(segment, &head, 0).0 as usize,
        Err(_) => 0,
    }
}

impl HostileDisk {
    /// Creates an empty disk without faults.
    pub fn new(seed: u64) -> HostileDisk {
        let state = State {
            prng: Prng::new(seed),
            inodes: BTreeMap::new(),
            names: BTreeMap::new(),
            durable_names: BTreeMap::new(),
            unsynced_names: Vec::new(),
            next_inode: 1,
            life: 0,
            capacity: None,
            copies: false,
            failing_writes: 0,
            write_error: DiskError::NoSpace,
            failing_syncs: 0,
            failing_reads: 0,
            fails_removes: false,
            syncs: 0,
            calls_left: None,
            has_stopped: false,
        };
        HostileDisk { state: Rc::new(RefCell::new(state)) }
    }

    /// Simulates a power failure: unsynced data survives in part or not at all. Open files are
    /// dead.
    pub fn crash(&self) {
        let mut state = self.state.borrow_mut();
        let state = &mut *state;
        state.life += 1;
        let kept = state.prng.below(state.unsynced_names.len() as u64 + 1) as usize;
        for change in state.unsynced_names.drain(..).take(kept) {
            change.apply(&mut state.durable_names);
        }
        state.names.clone_from(&state.durable_names);
        let names = &state.names;
        state.inodes.retain(|inode, _| names.values().any(|named| named == inode));
        for inode in state.inodes.values_mut() {
            inode.lose(&mut state.prng);
        }
        state.stop_faults();
    }

    /// Simulates the death of the process, not of the system: written data stays, synced or not.
    /// Open files are dead.
    pub fn kill(&self) {
        let mut state = self.state.borrow_mut();
        state.life += 1;
        state.stop_faults();
    }

    /// Makes the next `count` writes and creations fail; part of a write may remain.
    pub fn fail_writes(&self, count: u32, error: DiskError) {
        let mut state = self.state.borrow_mut();
        (state.failing_writes, state.write_error) = (count, error);
    }

    /// Makes the next `count` syncs fail, of files and of the directory.
    pub fn fail_syncs(&self, count: u32) {
        self.state.borrow_mut().failing_syncs = count;
    }

    /// Makes the next `count` reads fail.
    pub fn fail_reads(&self, count: u32) {
        self.state.borrow_mut().failing_reads = count;
    }

    /// Makes every read of these bytes of a file fail from now on, also after a crash. False if
    /// there is no such file. A new file of that name is not affected.
    pub fn break_bytes(&self, name: &str, bytes: Range<u64>) -> bool {
        let mut state = self.state.borrow_mut();
        let inode = state.names.get(name).copied();
        let inode = inode.and_then(|inode| state.inodes.get_mut(&inode));
        inode.map(|inode| inode.broken.push(bytes)).is_some()
    }

    /// Whether any named file has unreadable bytes.
    pub fn is_broken(&self) -> bool {
        let state = self.state.borrow();
        let mut inodes = state.names.values().filter_map(|inode| state.inodes.get(inode));
        inodes.any(|inode| !inode.broken.is_empty())
    }

    /// Makes every removal of a file fail, or ends that.
    pub fn fail_removes(&self, fails: bool) {
        self.state.borrow_mut().fails_removes = fails;
    }

    /// Makes every call fail after `calls` more calls, until [`HostileDisk::crash`] or
    /// [`HostileDisk::kill`]: the machine or the process stops in the middle of its work.
    pub fn stop_after(&self, calls: u32) {
        self.state.borrow_mut().calls_left = Some(calls);
    }

    /// Whether the disk refused a call because of [`HostileDisk::stop_after`].
    pub fn has_stopped(&self) -> bool {
        self.state.borrow().has_stopped
    }

    /// Ends all faults except the capacity; open files continue to work.
    pub fn stop_faults(&self) {
        self.state.borrow_mut().stop_faults();
    }

    /// Sets the maximum size of all files together; None: no bound.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.state.borrow_mut().capacity = bytes;
    }

    /// Makes overwrites need room like new data, as on copy-on-write file systems.
    pub fn copy_on_write(&self) {
        self.state.borrow_mut().copies = true;
    }

    /// Flips one bit of a file, on disk and in reads. False if the byte does not exist.
    pub fn flip_bit(&self, name: &str, byte: u64, bit: u8) -> bool {
        let mut state = self.state.borrow_mut();
        let inode = state.names.get(name).copied();
        let Some(inode) = inode.and_then(|inode| state.inodes.get_mut(&inode)) else {
            return false;
        };
        let mask = 1 << (bit % 8);
        if let Some(durable) = inode.durable.get_mut(byte as usize) {
            *durable ^= mask;
        }
        let shown = inode.bytes.get_mut(byte as usize);
        shown.map(|shown| *shown ^= mask).is_some()
    }

    /// Creates or replaces a file, durably.
    pub fn put(&self, name: &str, bytes: &[u8]) {
        let mut state = self.state.borrow_mut();
        let number = state.next_inode;
        state.next_inode += 1;
        let inode = Inode { bytes: bytes.to_vec(), durable: bytes.to_vec(), ..Inode::default() };
        state.inodes.insert(number, inode);
        state.names.insert(name.to_owned(), number);
        state.durable_names.insert(name.to_owned(), number);
    }

    /// Restores all files from a copy, durably, except those outside a log's directory.
    pub fn put_back(&self, copy: &BTreeMap<String, Vec<u8>>) {
        for name in self.names() {
            if name != super::WITNESS_NAME {
                self.erase(&name);
            }
        }
        for (name, bytes) in copy.iter().filter(|(name, _)| *name != super::WITNESS_NAME) {
            self.put(name, bytes);
        }
    }

    /// The end of the log by its readable `end` files, as it would survive any crash.
    pub fn noted_end(&self) -> End {
        self.end_in(&NAMES)
    }

    /// The end by the file outside the log's directory. Restoring a directory does not change it.
    pub fn witnessed_end(&self) -> End {
        self.end_in(&[super::WITNESS_NAME])
    }

    fn end_in(&self, names: &[&str]) -> End {
        let state = self.state.borrow();
        let ends = names.iter().filter_map(|name| {
            let inode = state.inodes.get(state.durable_names.get(*name)?)?;
            let is_given = inode.broken.is_empty();
            End::decode(&inode.durable).ok()?.filter(|_| is_given)
        });
        ends.max().unwrap_or_default()
    }

    /// Whether any segment of the log has a valid, readable head.
    pub fn has_head(&self) -> bool {
        let state = self.state.borrow();
        let mut segments = state.names.iter().filter_map(|(name, inode)| {
            let inode = state.inodes.get(inode)?;
            name.ends_with(".log").then_some(inode)
        });
        segments.any(|inode| {
            let head = SegmentHead::decode(&inode.bytes);
            let is_given = |head: SegmentHead| {
                let mut broken = inode.broken.iter();
                broken.all(|range| range.start >= head.bytes())
            };
            head.is_ok_and(is_given)
        })
    }

    /// Removes the files that record the log's end, durably.
    pub fn erase_noted_end(&self) {
        for name in NAMES {
            self.erase(name);
        }
    }

    /// All files, as reads return them.
    pub fn copy(&self) -> BTreeMap<String, Vec<u8>> {
        let files = self.names().into_iter();
        files.filter_map(|name| Some((name.clone(), self.bytes_of(&name)?))).collect()
    }

    /// Removes a file, durably. False if there is none.
    pub fn erase(&self, name: &str) -> bool {
        let mut state = self.state.borrow_mut();
        state.durable_names.remove(name);
        state.names.remove(name).is_some()
    }

    /// All names.
    pub fn names(&self) -> Vec<String> {
        self.state.borrow().names.keys().cloned().collect()
    }

    /// Whether a name refers to the same file after a crash.
    pub fn is_name_durable(&self, name: &str) -> bool {
        let state = self.state.borrow();
        state.names.contains_key(name) && state.names.get(name) == state.durable_names.get(name)
    }

    /// The content of a file, as reads return it.
    pub fn bytes_of(&self, name: &str) -> Option<Vec<u8>> {
        let state = self.state.borrow();
        let inode = state.names.get(name)?;
        state.inodes.get(inode).map(|inode| inode.bytes.clone())
    }

    /// The size of all files.
    pub fn bytes(&self) -> u64 {
        self.state.borrow().used()
    }

    /// The number of successful syncs of files.
    pub fn syncs(&self) -> u64 {
        self.state.borrow().syncs
    }
}

impl NameChange {
    fn apply(self, names: &mut BTreeMap<String, u64>) {
        match self {
            NameChange::Made(name, inode) => {
                names.insert(name, inode);
            }
            NameChange::Removed(name) => {
                names.remove(&name);
            }
            NameChange::Renamed(from, to) => {
                if let Some(inode) = names.remove(&from) {
                    names.insert(to, inode);
                }
            }
        }
    }
}

impl Inode {
    /// Drops unsynced data, except an arbitrary part.
    fn lose(&mut self, prng: &mut Prng) {
        let length = if self.bytes.len() != self.durable.len() && prng.chance(0.5) {
            self.bytes.len()
        } else {
            self.durable.len()
        };
        // Vary between nothing and everything, so that runs of sectors survive together too.
        let p = prng.below(5) as f64 / 4.0;
        self.keep_some(prng, p, length);
        self.bytes.clone_from(&self.durable);
        self.unsynced.clear();
    }

    /// Keeps each unsynced sector with this probability.
    fn keep_some(&mut self, prng: &mut Prng, p: f64, length: usize) {
        self.durable.resize(length, 0);
        for sector in &self.unsynced {
            let start = sector * SECTOR_BYTES;
            let end = (start + SECTOR_BYTES).min(length).min(self.bytes.len());
            if start < end && prng.chance(p) {
                self.durable[start..end].copy_from_slice(&self.bytes[start..end]);
            }
        }
    }
}

impl State {
    fn stop_faults(&mut self) {
        (self.failing_writes, self.failing_syncs, self.failing_reads) = (0, 0, 0);
        (self.calls_left, self.has_stopped) = (None, false);
    }

    /// Counts a call. Fails once the disk has stopped.
    fn call(&mut self) -> Result<(), DiskError> {
        match &mut self.calls_left {
            Some(0) => {
                self.has_stopped = true;
                Err(DiskError::Io(EIO))
            }
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn used(&self) -> u64 {
        self.inodes.values().map(|inode| inode.bytes.len() as u64).sum()
    }

    fn inode(&mut self, file: &HostileFile) -> Result<&mut Inode, DiskError> {
        if file.life != self.life {
            return Err(DiskError::Io(EIO));
        }
        self.inodes.get_mut(&file.inode).ok_or(DiskError::NotFound)
    }

    /// Removes an inode without a name; a store does not read a file that it has removed.
    fn forget(&mut self, inode: u64) {
        let is_named = self.names.values().any(|named| *named == inode)
            || self.durable_names.values().any(|named| *named == inode)
            || !self.unsynced_names.is_empty();
        if !is_named {
            self.inodes.remove(&inode);
        }
    }

    fn fails(count: &mut u32) -> bool {
        let fails = *count > 0;
        *count = count.saturating_sub(1);
        fails
    }
}

impl Disk for HostileDisk {
    type File = HostileFile;

    fn create(&mut self, name: &str) -> Result<HostileFile, DiskError> {
        let mut state = self.state.borrow_mut();
        state.call()?;
        if state.names.contains_key(name) {
            return Err(DiskError::Exists);
        }
        let is_full = state.capacity.is_some_and(|capacity| state.used() >= capacity);
        if is_full {
            return Err(DiskError::NoSpace);
        }
        if State::fails(&mut state.failing_writes) {
            return Err(state.write_error);
        }
        let inode = state.next_inode;
        state.next_inode += 1;
        state.inodes.insert(inode, Inode::default());
        state.names.insert(name.to_owned(), inode);
        state.unsynced_names.push(NameChange::Made(name.to_owned(), inode));
        let life = state.life;
        Ok(HostileFile { inode, life })
    }

    fn open(&mut self, name: &str) -> Result<HostileFile, DiskError> {
        let mut state = self.state.borrow_mut();
        state.call()?;
        let inode = *state.names.get(name).ok_or(DiskError::NotFound)?;
        let life = state.life;
        Ok(HostileFile { inode, life })
    }

    fn reopen(&mut self, name: &str) -> Result<HostileFile, DiskError> {
        self.open(name)
    }

    fn list(&mut self) -> Result<Vec<String>, DiskError> {
        self.state.borrow_mut().call()?;
        Ok(self.names())
    }

    fn remove(&mut self, name: &str) -> Result<(), DiskError> {
        let mut state = self.state.borrow_mut();
        state.call()?;
        if state.fails_removes {
            return Err(DiskError::Io(EIO));
        }
        let inode = state.names.remove(name).ok_or(DiskError::NotFound)?;
        state.unsynced_names.push(NameChange::Removed(name.to_owned()));
        state.forget(inode);
        Ok(())
    }

    fn rename(&mut self, from: &str, to: &str) -> Result<(), DiskError> {
        let mut state = self.state.borrow_mut();
        state.call()?;
        let inode = state.names.remove(from).ok_or(DiskError::NotFound)?;
        state.names.insert(to.to_owned(), inode);
        let change = NameChange::Renamed(from.to_owned(), to.to_owned());
        state.unsynced_names.push(change);
        Ok(())
    }

    fn len(&mut self, file: &mut HostileFile) -> Result<u64, DiskError> {
        let mut state = self.state.borrow_mut();
        state.call()?;
        Ok(state.inode(file)?.bytes.len() as u64)
    }

    fn write_at(
        &mut self,
        file: &mut HostileFile,
        position: u64,
        bytes: &[u8],
    ) -> Result<(), DiskError> {
        let mut state = self.state.borrow_mut();
        state.call()?;
        let start = position as usize;
        let grown = if state.copies {
            bytes.len() as u64
        } else {
            (start + bytes.len()).saturating_sub(state.inode(file)?.bytes.len()) as u64
        };
        let mut result = Ok(());
        if state.capacity.is_some_and(|capacity| grown > 0 && state.used() + grown > capacity) {
            result = Err(DiskError::NoSpace);
        } else if State::fails(&mut state.failing_writes) {
            result = Err(state.write_error);
        }
        let written = match result {
            Ok(()) => bytes,
            Err(_) => &bytes[..state.prng.below(bytes.len() as u64 + 1) as usize],
        };
        let end = start + written.len();
        let inode = state.inode(file)?;
        if !written.is_empty() {
            let length = inode.bytes.len().max(end);
            inode.bytes.resize(length, 0);
            inode.bytes[start..end].copy_from_slice(written);
            inode.unsynced.extend(start / SECTOR_BYTES..=(end - 1) / SECTOR_BYTES);
        }
        result
    }

    fn read_at(
        &mut self,
        file: &mut HostileFile,
        position: u64,
        bytes: &mut [u8],
    ) -> Result<usize, DiskError> {
        let mut state = self.state.borrow_mut();
        state.call()?;
        if State::fails(&mut state.failing_reads) {
            return Err(DiskError::Io(EIO));
        }
        let inode = state.inode(file)?;
        let end = position + bytes.len() as u64;
        if inode.broken.iter().any(|it| it.start < end && position < it.end) {
            return Err(DiskError::Io(EIO));
        }
        let rest = inode.bytes.get(position as usize..).unwrap_or_default();
        let count = rest.len().min(bytes.len());
        bytes[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }

    fn sync(&mut self, file: &mut HostileFile) -> Result<(), DiskError> {
        let mut state = self.state.borrow_mut();
        state.call()?;
        let state = &mut *state;
        state.inode(file)?;
        let fails = State::fails(&mut state.failing_syncs);
        let Some(inode) = state.inodes.get_mut(&file.inode) else {
            return Err(DiskError::NotFound);
        };
        let (p, length) = if fails {
            (0.5, inode.durable.len().max(inode.bytes.len()))
        } else {
            (1.0, inode.bytes.len())
        };
        inode.keep_some(&mut state.prng, p, length);
        // After a failure too: the system then treats the pages as clean.
        inode.unsynced.clear();
        if fails {
            return Err(DiskError::Io(EIO));
        }
        state.syncs += 1;
        Ok(())
    }

    fn sync_directory(&mut self) -> Result<(), DiskError> {
        let mut state = self.state.borrow_mut();
        state.call()?;
        let state = &mut *state;
        if State::fails(&mut state.failing_syncs) {
            let kept = state.prng.below(state.unsynced_names.len() as u64 + 1) as usize;
            for change in state.unsynced_names.drain(..kept) {
                change.apply(&mut state.durable_names);
            }
            return Err(DiskError::Io(EIO));
        }
        for change in state.unsynced_names.drain(..) {
            change.apply(&mut state.durable_names);
        }
        let (names, durable) = (&state.names, &state.durable_names);
        state
            .inodes
            .retain(|inode, _| names.values().chain(durable.values()).any(|named| named == inode));
        Ok(())
    }
}
