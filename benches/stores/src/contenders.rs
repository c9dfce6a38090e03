//! What is compared: each makes a batch durable before it returns.

use crate::{PARTITIONS, Record};
use anyhow::Context;
use disk::FileDisk;
use log::store::{Append, Store, StoreSettings};
use std::fs::File;
use std::io::Write;
use std::path::Path;
use stdx::hash::Seed;

/// Something that keeps records.
pub trait Contender {
    /// Makes all of them durable.
    fn append(&mut self, batch: &[Record]) -> anyhow::Result<()>;
}

/// One `write` and one `fdatasync`.
pub struct Bare {
    file: File,
    buffer: Vec<u8>,
}

impl Bare {
    pub fn open(folder: &Path) -> anyhow::Result<Bare> {
        Ok(Bare {
            file: File::create(folder.join("bare"))?,
            buffer: Vec::new(),
        })
    }
}

impl Contender for Bare {
    fn append(&mut self, batch: &[Record]) -> anyhow::Result<()> {
        self.buffer.clear();
        for record in batch {
            self.buffer.extend_from_slice(&record.bytes);
        }
        self.file.write_all(&self.buffer)?;
        Ok(self.file.sync_data()?)
    }
}

/// Ours.
pub struct Crore(Store<FileDisk>);

impl Crore {
    pub fn open(folder: &Path) -> anyhow::Result<Crore> {
        let disk = FileDisk::open(folder).map_err(|error| anyhow::anyhow!("{error}"))?;
        let settings = StoreSettings {
            partitions_count: PARTITIONS,
            segment_bytes: 64 << 20,
            bytes_max: 8 << 30,
            age_max_ms: 0,
            new_epoch: 1,
            hash_seed: Seed(1, 2),
        };
        let (store, _) =
            Store::open(disk, settings, 1).map_err(|error| anyhow::anyhow!("{error}"))?;
        Ok(Crore(store))
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
        self.0
            .append(&appends, 1)
            .map_err(|error| anyhow::anyhow!("{error}"))
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
        let mut write = self
            .database
            .batch()
            .durability(Some(fjall::PersistMode::SyncData));
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
