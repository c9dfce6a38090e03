//! The stores under comparison. Each makes a batch durable before it returns.

use crate::{PARTITIONS, Record};
use anyhow::Context;
use disk::FileDisk;
use log::store::{Append, Disk, Store, StoreSettings};
use std::fs::File;
use std::path::Path;
use stdx::hash::Seed;

/// Something that keeps records.
pub trait Contender {
    /// Makes all of them durable.
    fn append(&mut self, batch: &[Record]) -> anyhow::Result<()>;
}

/// Bytes of a file of the log.
const SEGMENT_BYTES: u64 = 64 << 20;

/// One `write` and one `fdatasync`, in files as the log has them.
pub struct Bare {
    disk: FileDisk,
    file: File,
    buffer: Vec<u8>,
    position: u64,
    files: u64,
}

impl Bare {
    pub fn open(folder: &Path) -> anyhow::Result<Bare> {
        let mut disk = FileDisk::open(folder)?;
        let file = disk.create("0")?;
        Ok(Bare { disk, file, buffer: Vec::new(), position: 0, files: 1 })
    }
}

impl Contender for Bare {
    fn append(&mut self, batch: &[Record]) -> anyhow::Result<()> {
        self.buffer.clear();
        for record in batch {
            self.buffer.extend_from_slice(&record.bytes);
        }
        if self.position + self.buffer.len() as u64 > SEGMENT_BYTES {
            self.file = self.disk.create(&self.files.to_string())?;
            (self.position, self.files) = (0, self.files + 1);
        }
        self.disk.write_at(&mut self.file, self.position, &self.buffer)?;
        self.position += self.buffer.len() as u64;
        Ok(self.disk.sync(&mut self.file)?)
    }
}

/// Ours.
pub struct Crore(Store<FileDisk>);

impl Crore {
    pub fn open(folder: &Path) -> anyhow::Result<Crore> {
        let settings = StoreSettings {
            partitions_count: PARTITIONS,
            segment_bytes: SEGMENT_BYTES,
            bytes_max: 8 << 30,
            age_max_ms: 0,
            new_epoch: 1,
            hash_seed: Seed(1, 2),
        };
        Ok(Crore(Store::open(FileDisk::open(folder)?, settings, 1)?.0))
    }
}

impl Contender for Crore {
    fn append(&mut self, batch: &[Record]) -> anyhow::Result<()> {
        let appends: Vec<Append<'_>> = batch
            .iter()
            .map(|record| Append {
                partition: record.partition,
                topic: record.topic.as_bytes(),
                record: &record.bytes,
            })
            .collect();
        self.0.append(&appends, 1)?;
        Ok(())
    }
}

/// An LSM tree.
pub struct Fjall {
    database: fjall::Database,
    keyspace: fjall::Keyspace,
}

impl Fjall {
    pub fn open(folder: &Path) -> anyhow::Result<Fjall> {
        let database = fjall::Database::builder(folder).open()?;
        let keyspace = database.keyspace("log", fjall::KeyspaceCreateOptions::default)?;
        Ok(Fjall { database, keyspace })
    }
}

impl Contender for Fjall {
    fn append(&mut self, batch: &[Record]) -> anyhow::Result<()> {
        let mut write = self.database.batch().durability(Some(fjall::PersistMode::SyncData));
        for record in batch {
            write.insert(&self.keyspace, key(record), &record.bytes[..]);
        }
        write.commit().context("fjall")
    }
}

/// A B-tree with copy on write.
pub struct Redb(redb::Database);

const TABLE: redb::TableDefinition<&[u8], &[u8]> = redb::TableDefinition::new("log");

impl Redb {
    pub fn open(folder: &Path) -> anyhow::Result<Redb> {
        Ok(Redb(redb::Database::create(folder.join("log.redb"))?))
    }
}

impl Contender for Redb {
    fn append(&mut self, batch: &[Record]) -> anyhow::Result<()> {
        let write = self.0.begin_write()?;
        {
            let mut table = write.open_table(TABLE)?;
            for record in batch {
                table.insert(&key(record)[..], &record.bytes[..])?;
            }
        }
        write.commit().context("redb")
    }
}

fn key(record: &Record) -> [u8; 12] {
    let mut key = [0; 12];
    key[..4].copy_from_slice(&record.partition.to_be_bytes());
    key[4..].copy_from_slice(&record.offset.to_be_bytes());
    key
}
