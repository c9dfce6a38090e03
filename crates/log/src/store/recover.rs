//! Opening a log: its segments, their valid bytes, and whether acknowledged data is missing.
//!
//! Sealed segments are opened by their index files. A segment without a valid one is scanned: in
//! practice the newest, after a crash. In the newest, the bytes that the last mark declares synced
//! must be valid; damage behind them is an unfinished batch, and is cut.

use super::disk::{Disk, DiskError};
use super::end::{End, Notes};
use super::epochs::{Epoch, Epochs, EpochsFound};
use super::files::{Files, ReadError};
use super::format::{PARTITIONS_MAX, SegmentHead, segment_name, sequence_of};
use super::found::{Found, FoundLog};
use super::index::Index;
use super::index_file::IndexFile;
use super::memory_index::{Hole, Scan};
use super::mend::gone;
use super::walk::{Item, Walk};
use super::{
    Carry, Damage, OpenError, Recovered, SEGMENT_BYTES_MAX, SEGMENT_BYTES_MIN, Segment, Store,
    StoreSettings, unreadable, write,
};
use std::collections::{BTreeMap, VecDeque};

/// Findings during the opening.
#[derive(Default)]
pub(super) struct Findings {
    pub damages: Vec<Damage>,
    pub holes: Vec<Hole>,
    pub torn_bytes: u64,
    scanned_bytes: u64,
    /// The epoch in the newest segment's head, or in its copy in the index; None without segments,
    /// or if both are damaged.
    newest_epoch: Option<u64>,
    /// The unreadable ranges of files that were read without an index: first byte, end exclusive.
    pub unreadable: Vec<(String, Vec<(u64, u64)>)>,
    /// Segments to rewrite after the next one has recorded their end.
    pub replacements: Vec<(String, Vec<u8>)>,
}

/// The purpose of the opening.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Purpose {
    /// Serve the log.
    Serve,
    /// Inspect it: nothing is written.
    Inspect,
    /// Begin an epoch, because its end is lost.
    NewEpoch,
    /// Read all of it, regardless of its indexes, and abandon unreadable data.
    Repair,
}

impl StoreSettings {
    /// Clamps the segment size.
    pub(super) fn bounded(self) -> Result<StoreSettings, OpenError> {
        if !(1..=PARTITIONS_MAX).contains(&self.partitions_count) {
            return Err(OpenError::PartitionsCount(self.partitions_count));
        }
        let segment_bytes_max = SEGMENT_BYTES_MAX.min(self.bytes_max / 4);
        let segment_bytes = self.segment_bytes.min(segment_bytes_max);
        Ok(StoreSettings { segment_bytes: segment_bytes.max(SEGMENT_BYTES_MIN), ..self })
    }
}

impl<D: Disk> Store<D> {
    /// Opens or creates a log. Damage of acknowledged data does not fail it: the log begins a new
    /// epoch, and the readable data is served.
    ///
    /// After a crash it writes the last batch again. Without room for that in a new segment, the
    /// batch is written over itself; the log opens, can be read, and is unavailable
    /// ([`Store::is_available`]) until a new segment has room. A new log, or one that begins an
    /// epoch, does not open without room.
    pub fn open(
        disk: D,
        settings: StoreSettings,
        now_ms: u64,
    ) -> Result<(Store<D>, Recovered), OpenError> {
        let (store, findings, is_new) = Store::open_for(disk, settings, now_ms, Purpose::Serve)?;
        let recovered = store.recovered(findings, is_new);
        Ok((store, recovered))
    }

    /// Opens a log for writing. Returns whether it is new.
    pub(super) fn open_for(
        disk: D,
        settings: StoreSettings,
        now_ms: u64,
        purpose: Purpose,
    ) -> Result<(Store<D>, Findings, bool), OpenError> {
        let settings = settings.bounded()?;
        let mut files = Files::new(disk);
        // An interrupted start may have renamed a segment without a sync of the directory; its
        // content is trusted below.
        files.disk.sync_directory()?;
        let found = FoundLog::find(&mut files, purpose)?;
        check_partitions(&found.segments, settings.partitions_count)?;
        let (mut store, mut findings) = load(files, settings, &found, purpose)?;
        let is_new = store.settle(&mut findings, now_ms, purpose)?;
        if store.carry.as_ref().is_some_and(|carry| carry.is_damaged || store.lost.is_some()) {
            // The new segment cannot begin with the batch if it declares its predecessor lost, or
            // if later starts have to find the batch's damage.
            store.settle_in_place()?;
            store.is_available = true;
        }
        // A carried batch becomes visible only once it is durable. And the newest head names the
        // present epoch, so that after a loss of the file of epochs an older one never counts as
        // the last.
        let newest = store.segments.back().map(|last| last.head.epoch);
        let wants_head = is_new || newest != Some(store.epochs.present());
        if wants_head || store.carry.is_some() {
            match store.begin_segment(now_ms) {
                Err(DiskError::NoSpace) if !wants_head => store.settle_in_place()?,
                begun => begun?,
            }
        }
        store.replace_unreadable(&mut findings)?;
        store.tidy()?;
        Ok((store, findings, is_new))
    }

    /// Opens a log for inspection. Nothing is written: damage is reported and begins no epoch.
    pub fn inspect(disk: D) -> Result<(Store<D>, Recovered), OpenError> {
        let mut files = Files::new(disk);
        let found = FoundLog::find(&mut files, Purpose::Inspect)?;
        let settings = found.settings(&mut files, 0)?;
        check_partitions(&found.segments, settings.partitions_count)?;
        let (mut store, mut findings) = load(files, settings, &found, Purpose::Inspect)?;
        store.settle(&mut findings, 0, Purpose::Inspect)?;
        let recovered = store.recovered(findings, false);
        Ok((store, recovered))
    }

    /// Determines the epoch; begins one if acknowledged data may be missing. Returns whether the
    /// log is new.
    pub(super) fn settle(
        &mut self,
        findings: &mut Findings,
        now_ms: u64,
        purpose: Purpose,
    ) -> Result<bool, OpenError> {
        let is_empty = self.segments.is_empty();
        let partitions_count = self.settings.partitions_count as usize;
        let epochs_of = |epoch: Option<u64>| Epochs {
            list: Vec::from_iter(epoch.map(|epoch| Epoch {
                epoch,
                started_ms: now_ms,
                starts: vec![1; partitions_count],
            })),
            damages: Vec::new(),
        };
        let newest = findings.newest_epoch;
        let found = self.read_epochs(findings, purpose)?;
        let noted = self.notes.end.segment;
        // An interrupted first start has begun no segment. Its epoch is not used, because no client
        // has received it.
        let is_unused = |epochs: &Epochs| epochs.list.len() == 1 && epochs.damages.is_empty();
        let is_unbegun = match &found {
            EpochsFound::Missing => true,
            EpochsFound::Whole(epochs) => noted == 0 && is_unused(epochs),
            _ => false,
        };
        if is_unbegun && is_empty && !self.is_read_only {
            if noted > 0 {
                findings.damages.push(gone(noted));
            }
            self.epochs = epochs_of(Some(self.settings.new_epoch));
            self.epochs.write(&mut self.files)?;
            return Ok(true);
        }
        self.find_lost_end(findings, purpose);
        let is_in = |epochs: &Epochs| match newest {
            Some(newest) => epochs.list.iter().any(|epoch| epoch.epoch == newest),
            None => !is_empty,
        };
        let mut is_lost = true;
        self.epochs = match found {
            EpochsFound::Version { version, flags } => {
                let name = "epochs".to_owned();
                return Err(OpenError::Version { name, version, flags });
            }
            EpochsFound::Whole(epochs) => {
                is_lost = !is_in(&epochs);
                epochs
            }
            // Positions of the last epoch stay valid. Earlier epochs are unknown, and so are all if
            // the head that names the last one is damaged too.
            _ => epochs_of(newest),
        };
        if is_lost {
            findings.damages.push(gone(0))
        } else {
            findings.damages.retain(|damage| !self.epochs.accounts_for(damage))
        }
        if findings.damages.is_empty() || self.is_read_only {
            return Ok(false);
        }
        self.begin_next_epoch(findings, now_ms)?;
        Ok(is_empty)
    }

    /// Begins an epoch that the log has never had; positions before the found holes stay valid.
    fn begin_next_epoch(&mut self, findings: &Findings, now_ms: u64) -> Result<(), DiskError> {
        let mut starts: Vec<u64> = if self.segments.is_empty() {
            vec![1; self.settings.partitions_count as usize]
        } else {
            self.heads.iter().map(|head| head + 1).collect()
        };
        for hole in &findings.holes {
            let start = &mut starts[hole.partition as usize];
            *start = hole.from.min(*start);
        }
        let known: Vec<u64> = self.epochs.list.iter().map(|epoch| epoch.epoch).collect();
        let mut epoch = self.settings.new_epoch;
        while known.contains(&epoch) {
            epoch = epoch.wrapping_add(1); // the caller's epoch is not new, but a new one is guaranteed
        }
        let begun = Epoch { epoch, started_ms: now_ms, starts };
        self.epochs.begin(begun, &findings.damages);
        self.epochs.write(&mut self.files)
    }

    /// Removes files that do not belong to the log and writes rebuilt indexes.
    pub(super) fn tidy(&mut self) -> Result<(), DiskError> {
        for name in self.files.disk.list()? {
            let of = |ending| sequence_of(&name, ending);
            let is_of_chain = |sequence: u64| {
                self.segments
                    .binary_search_by_key(&sequence, |segment| segment.head.sequence)
                    .is_ok()
            };
            let sequence = of(".log").or_else(|| of(".idx"));
            if of(".new").is_some() || sequence.is_some_and(|sequence| !is_of_chain(sequence)) {
                self.remove_or_remember(name);
            }
        }
        for place in 0..self.segments.len() {
            self.segments[place].is_unsettled = false;
            if place + 1 < self.segments.len() {
                let _ = self.write_index(place); // it stays in memory
            }
        }
        Ok(())
    }

    pub(super) fn recovered(&self, findings: Findings, is_new: bool) -> Recovered {
        Recovered {
            epoch: self.epochs.present(),
            older: self.epochs.older(),
            heads: self.heads.clone(),
            floors: self.floors(),
            damaged_through: self.damaged_through(),
            torn_bytes: findings.torn_bytes,
            damages: findings.damages,
            scanned_bytes: findings.scanned_bytes,
            segments_count: self.segments.len() as u64,
            is_new,
        }
    }

    fn damaged_through(&self) -> Vec<u64> {
        let mut ends = vec![0; self.heads.len()];
        for segment in &self.segments {
            for hole in segment.index.holes() {
                if let Some(end) = ends.get_mut(hole.partition as usize) {
                    *end = hole.through.max(*end);
                }
            }
        }
        ends
    }

    /// Opens one segment of the chain, by its index or by a scan. `next` is the head of the next
    /// segment.
    fn load_segment(
        &mut self,
        head: SegmentHead,
        is_head_whole: bool,
        next: Option<&SegmentHead>,
        is_newest: bool,
        (purpose, findings): (Purpose, &mut Findings),
    ) -> Result<(), OpenError> {
        let sequence = head.sequence;
        let name = segment_name(sequence);
        let noted_bytes = self.notes.end.bytes_of(sequence);
        let valid_bytes = next
            .filter(|next| next.previous == sequence)
            .map(|next| next.previous_bytes.min(u32::MAX.into()));
        // A repair does not trust the content of an index.
        if purpose != Purpose::Repair && self.load_indexed(&head, is_head_whole, valid_bytes)? {
            return Ok(());
        }
        let (bytes, lacks_through) = match purpose {
            Purpose::Repair => {
                let known = Some(&head).filter(|_| is_head_whole);
                self.read_to_repair(&name, valid_bytes, known, findings)?
            }
            _ => {
                let bytes_max = valid_bytes.unwrap_or(u32::MAX.into());
                (self.read_to_scan(&name, bytes_max)?, 0)
            }
        };
        findings.scanned_bytes += bytes.len() as u64;
        let mut scan = Scan::new(&head.heads, self.settings.hash_seed);
        if !is_head_whole {
            scan.damage(0, head.bytes());
        }
        let next_heads = next.map(|next| &next.heads[..]);
        let end = match valid_bytes {
            Some(valid_bytes) => {
                scan.take(&bytes, sequence, head.bytes());
                if (bytes.len() as u64) < valid_bytes {
                    scan.damage(bytes.len() as u64, valid_bytes);
                }
                scan.finish(next_heads);
                valid_bytes
            }
            None => {
                // If the next segment is lost, it may have begun with a copy of this one's last
                // batch.
                scan.limits = next_heads.unwrap_or_default().to_vec();
                let (proven, end) = find_end(&bytes, &head, noted_bytes.max(lacks_through));
                findings.torn_bytes += (bytes.len() as u64).saturating_sub(end);
                scan.take(&bytes[..(proven as usize).min(bytes.len())], sequence, head.bytes());
                if (bytes.len() as u64) < proven {
                    scan.damage(bytes.len() as u64, proven);
                }
                let before = (is_newest && end > proven).then(|| scan.clone());
                scan.take(&bytes[..(end as usize).min(bytes.len())], sequence, proven);
                scan.finish(next_heads);
                self.carry = before.map(|before| carry_of(before, &scan, &bytes, (proven, end)));
                end
            }
        };
        self.push_scanned(head, end, scan, findings);
        if !is_newest {
            let _ = self.write_index(self.segments.len() - 1); // it stays in memory
        }
        Ok(())
    }

    /// Adds a scanned segment to the chain, and its damage to the findings.
    fn push_scanned(
        &mut self,
        head: SegmentHead,
        valid_bytes: u64,
        scan: Scan,
        findings: &mut Findings,
    ) {
        let is_damaged = !scan.damages.is_empty();
        let damage_of = |(from, through): &(u64, u64)| Damage {
            segment: head.sequence,
            from: *from,
            through: *through,
        };
        findings.damages.extend(scan.damages.iter().map(damage_of));
        findings.holes.extend_from_slice(&scan.index.holes);
        self.heads.clone_from(&scan.lasts);
        self.segments.push_back(Segment {
            head,
            valid_bytes,
            index: Index::Memory(Box::new(scan.index)),
            is_unsettled: is_damaged,
            wants_synced_index: true, // unknown
        });
    }

    /// Opens a segment by its index. False if the index is missing, invalid, or contradicts the
    /// other files; then the segment must be scanned.
    fn load_indexed(
        &mut self,
        head: &SegmentHead,
        is_head_whole: bool,
        valid_bytes: Option<u64>,
    ) -> Result<bool, OpenError> {
        let noted_bytes = self.notes.end.bytes_of(head.sequence);
        let file_bytes = self.files.len(&segment_name(head.sequence))?;
        match IndexFile::open(&mut self.files, head.sequence) {
            Ok((index, indexed))
                if (!is_head_whole || indexed == *head)
                    && noted_bytes <= index.valid_bytes
                    && indexed.heads.len() == head.heads.len()
                    && valid_bytes.is_none_or(|bytes| bytes == index.valid_bytes)
                    && (head.bytes()..=file_bytes).contains(&index.valid_bytes) =>
            {
                self.segments.push_back(Segment {
                    head: indexed,
                    valid_bytes: index.valid_bytes,
                    index: Index::File(index),
                    is_unsettled: false,
                    wants_synced_index: true, // unknown
                });
                Ok(true)
            }
            Ok(_) | Err(ReadError::Index(_)) | Err(ReadError::Disk(DiskError::NotFound)) => {
                Ok(false)
            }
            Err(ReadError::Disk(error)) => Err(error.into()),
        }
    }

    /// Determines the greatest offset of each partition up to the end of the last loaded segment.
    fn find_heads(&mut self) -> Result<(), OpenError> {
        let Some(last) = self.segments.back() else {
            return Ok(());
        };
        let Index::File(_) = &last.index else {
            return Ok(()); // the scan has set them
        };
        let (place, sequence) = (self.segments.len() - 1, last.head.sequence);
        let heads = self.repairing(|store| {
            let segment = &store.segments[place];
            let mut heads = segment.head.heads.clone();
            for (partition, head) in heads.iter_mut().enumerate() {
                let records = segment.index.records(&mut store.files, partition as u32)?;
                if let Some(last) = records.count.checked_sub(1) {
                    *head = segment.index.entry(&mut store.files, &records, last)?.offset;
                }
            }
            for hole in segment.index.holes() {
                let head = heads.get_mut(hole.partition as usize);
                let head = head.ok_or(ReadError::Index(sequence))?;
                *head = hole.through.max(*head);
            }
            Ok(heads)
        });
        self.heads = heads.map_err(|error| match error {
            super::StoreError::Disk(error) => OpenError::Disk(error),
            _ => OpenError::Disk(DiskError::Io(0)),
        })?;
        Ok(())
    }
}

pub(super) fn check_partitions(
    found: &BTreeMap<u64, Found>,
    configured: u32,
) -> Result<(), OpenError> {
    let counts = found.values().filter_map(|found| found.head.as_ref());
    for head in counts {
        let found = head.heads.len() as u32;
        if found != configured {
            return Err(OpenError::Partitions { found, configured });
        }
    }
    Ok(())
}

/// The chain, oldest first: each segment, and the missing one before it.
fn chain(found: &BTreeMap<u64, Found>) -> Vec<(u64, Option<u64>)> {
    let mut chain = Vec::new();
    let mut current = found.keys().next_back().copied();
    while let Some(sequence) = current {
        let lower = |below: u64| found.range(..below).next_back().map(|(lower, _)| *lower);
        let previous = match found.get(&sequence).and_then(|found| found.head.as_ref()) {
            Some(head) => head.previous,
            None => lower(sequence).unwrap_or(0),
        };
        let is_found = previous < sequence && found.contains_key(&previous);
        let next = if is_found { Some(previous) } else { lower(previous.min(sequence)) };
        // The predecessor of the oldest was dropped; one in the middle has been lost.
        let missing = next.filter(|_| !is_found).map(|_| previous);
        chain.push((sequence, missing));
        current = next;
    }
    chain.reverse();
    chain
}

pub(super) fn load<D: Disk>(
    files: Files<D>,
    settings: StoreSettings,
    found: &FoundLog,
    purpose: Purpose,
) -> Result<(Store<D>, Findings), OpenError> {
    let FoundLog { segments: found, end } = found;
    let mut findings = Findings::default();
    let is_read_only = purpose == Purpose::Inspect;
    let mut store = empty_store(files, settings, *end, is_read_only);
    for name in store.files.disk.list()? {
        let of = |ending| sequence_of(&name, ending);
        let sequence = of(".log").or_else(|| of(".idx")).or_else(|| of(".new"));
        store.next_sequence = store.next_sequence.max(sequence.map_or(1, |last| last + 1));
    }
    let chain = chain(found);
    let newest = chain.last().and_then(|(newest, _)| found.get(newest));
    findings.newest_epoch = newest.and_then(|newest| newest.head.as_ref()).map(|head| head.epoch);
    for (place, (sequence, missing)) in chain.iter().enumerate() {
        let head_of = |sequence: &u64| found.get(sequence)?.head.as_ref();
        let is_head_whole = found.get(sequence).is_some_and(|found| found.is_whole);
        let next = chain.get(place + 1);
        let head = head_of(sequence).cloned().unwrap_or_else(|| SegmentHead {
            sequence: *sequence,
            epoch: store.segments.back().map_or(0, |last| last.head.epoch),
            created_ms: 0,
            previous: store.segments.back().map_or(0, |last| last.head.sequence),
            // An index may contain a copy of this head.
            previous_bytes: store.segments.back().map_or(0, |last| last.valid_bytes),
            begun_bytes: 0,
            heads: store.heads.clone(),
        });
        let mut lost = Vec::new();
        if let Some(missing) = missing {
            findings.damages.push(gone(*missing));
            lost = holes_between(&store.heads, &head.heads);
        }
        let next_head = next.and_then(|(next, _)| head_of(next));
        store.load_segment(
            head,
            is_head_whole,
            next_head,
            next.is_none(),
            (purpose, &mut findings),
        )?;
        findings.holes.extend_from_slice(&lost);
        // The index of the segment may have the heads.
        if let Some(segment) = store.segments.back_mut()
            && !segment.index.holes().starts_with(&lost)
        {
            segment.index.add_holes(&lost);
        }
        // The newest segment continues with this index after its last batch was carried away.
        if next.is_none()
            && let Some(carry) = &mut store.carry
        {
            carry.index.holes.extend_from_slice(&lost);
        }
        match next_head.filter(|next| next.previous == *sequence) {
            Some(next) => store.heads.clone_from(&next.heads),
            None => store.find_heads()?,
        }
    }
    Ok((store, findings))
}

/// A store without segments.
fn empty_store<D: Disk>(
    files: Files<D>,
    settings: StoreSettings,
    end: End,
    is_read_only: bool,
) -> Store<D> {
    let heads = vec![0; settings.partitions_count as usize];
    Store {
        files,
        settings,
        is_read_only,
        epochs: Epochs { list: Vec::new(), damages: Vec::new() },
        segments: VecDeque::new(),
        active: None,
        carry: None,
        lost: None,
        heads,
        next_sequence: end.segment + 1,
        is_available: true,
        leftovers: Vec::new(),
        is_directory_dirty: false,
        sweep: super::expire::Sweep::default(),
        batch: write::Batch::default(),
        notes: Notes::new(end),
        unreadable: unreadable::Unreadable::default(),
        expiries_failed: 0,
        removals_failed: 0,
        lazy: None,
    }
}

/// The offsets between the heads before a missing segment and those behind it.
fn holes_between(before: &[u64], after: &[u64]) -> Vec<Hole> {
    let hole = |(partition, (before, after)): (usize, (&u64, &u64))| Hole {
        partition: partition as u32,
        from: before + 1,
        through: *after,
    };
    let heads = before.iter().zip(after).enumerate();
    heads.filter(|(_, (before, after))| before < after).map(hole).collect()
}

/// The synced bytes of the newest segment, and the end of its last complete batch. `noted_bytes` is
/// the bound recorded elsewhere.
pub(super) fn find_end(bytes: &[u8], head: &SegmentHead, noted_bytes: u64) -> (u64, u64) {
    let (start, sequence) = (head.bytes(), head.sequence);
    let mut proven = start.max(head.begun_bytes.into()).max(noted_bytes);
    let (mut end, mut last_damage) = (proven, 0);
    for (_, after, item) in Walk::new(bytes, sequence, start) {
        match item {
            Item::Mark(mark) => {
                proven = proven.max(mark.synced_through);
                let is_whole = mark.batch_start == proven && last_damage <= mark.batch_start;
                end = if is_whole { after } else { end.max(proven) };
            }
            Item::Damage => last_damage = after,
            _ => {}
        }
    }
    (proven, end.max(proven))
}

/// The last batch, and the segment without it.
fn carry_of(mut before: Scan, with: &Scan, bytes: &[u8], (from, through): (u64, u64)) -> Carry {
    let limits: Vec<u64> = (0..before.lasts.len())
        .map(|partition| {
            let count = before.index.partitions[partition].len();
            match with.index.partitions[partition].get(count) {
                Some(entry) => entry.offset - 1,
                None => with.lasts[partition],
            }
        })
        .collect();
    before.finish(Some(&limits));
    Carry {
        from,
        bytes: bytes[from as usize..through as usize].to_vec(),
        index: before.index,
        heads: before.lasts,
        is_damaged: with.damages.last().is_some_and(|(_, end)| *end > from),
    }
}
