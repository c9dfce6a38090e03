//! The memory of this process as the kernel counts it, in parts: structures that report their own
//! bytes, free memory of the allocator, stacks, the binary, and a remainder.
//!
//! Invariant: the parts add up to the proportional set size, because the last of them,
//! `unaccounted`, is the difference. A small remainder shows that the other parts are right; tests
//! compare them with the growth of a process.

use net::system::heap;
use rustix::param::page_size;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use stdx::memory::Components;

/// Proportional set sizes of the mappings of a process, in bytes, by kind.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Mappings {
    /// Files: the binary and its libraries, with their private copies of written data.
    pub files: u64,
    /// Stacks of threads.
    pub stacks: u64,
    /// Memory with a descriptor: segments of logs.
    pub shared: u64,
    /// Everything else: the allocator's.
    pub anonymous: u64,
}

/// A mapping from which the allocator serves: addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Arena {
    start: u64,
    end: u64,
}

/// Memory of the process beyond the components that report themselves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rest {
    /// The proportional set size.
    pub total: u64,
    /// The binary and its libraries.
    pub binary: u64,
    /// Stacks of threads.
    pub stacks: u64,
    /// Given back to the allocator and not to the system; without what it has never handed out,
    /// which costs nothing.
    pub allocator_free: u64,
    /// The remainder; negative if structures report more than the kernel counts.
    pub unaccounted: i64,
}

impl Mappings {
    /// All together: the proportional set size.
    pub fn total(&self) -> u64 {
        self.files + self.stacks + self.shared + self.anonymous
    }

    /// Reads the text of `/proc/<pid>/smaps`; gives the arenas of the allocator, too.
    fn parse(text: &str) -> (Mappings, Vec<Arena>) {
        let mut mappings = Mappings::default();
        let mut arenas = Vec::new();
        let mut kind = Kind::Anonymous;
        // Where a guard page ended: the stack of a thread begins there.
        let mut guard_end = 0;
        for line in text.lines() {
            if let Some(head) = Head::parse(line) {
                kind = head.kind(guard_end);
                if head.is_guard() {
                    guard_end = head.end;
                }
                if head.is_arena() {
                    let Head { start, end, .. } = head;
                    arenas.push(Arena { start, end });
                }
            } else if let Some(kibibytes) = line.strip_prefix("Pss:") {
                let kibibytes = kibibytes.trim().trim_end_matches(" kB").trim();
                let bytes = kibibytes.parse::<u64>().unwrap_or(0) << 10;
                *match kind {
                    Kind::File => &mut mappings.files,
                    Kind::Stack => &mut mappings.stacks,
                    Kind::Shared => &mut mappings.shared,
                    Kind::Anonymous => &mut mappings.anonymous,
                } += bytes;
            }
        }
        (mappings, arenas)
    }
}

impl Arena {
    /// Bytes at its end that were never written: the allocator counts them as free.
    fn untouched_bytes(self, pages: &File) -> u64 {
        let page_bytes = page_size() as u64;
        let mut untouched = 0;
        let mut end = self.end / page_bytes;
        let start = self.start / page_bytes;
        let mut entries = [0; PAGES_LOOKED_AT * 8];
        while end > start {
            let count = (end - start).min(PAGES_LOOKED_AT as u64);
            let entries = &mut entries[..count as usize * 8];
            if pages.read_exact_at(entries, (end - count) * 8).is_err() {
                break;
            }
            let entries = entries.chunks_exact(8).rev();
            let absent = entries.take_while(|entry| entry[7] & PAGE_IS_THERE == 0).count() as u64;
            untouched += absent * page_bytes;
            if absent < count {
                break;
            }
            end -= count;
        }
        untouched
    }
}

/// Bits in the last byte of an entry of `/proc/<pid>/pagemap`: present, or swapped out.
const PAGE_IS_THERE: u8 = 0b1100_0000;
/// Entries read at once.
const PAGES_LOOKED_AT: usize = 64;

/// Takes the rest apart, given what structures say of themselves.
pub fn rest(components: &Components) -> Option<Rest> {
    let text = fs::read_to_string("/proc/self/smaps").ok()?;
    let (mappings, arenas) = Mappings::parse(&text);
    drop(text);
    let heap_free = heap::state().map_or(0, |heap| heap.free_bytes);
    let untouched = File::open("/proc/self/pagemap").map_or(0, |pages| {
        let each = arenas.iter().map(|arena| arena.untouched_bytes(&pages));
        each.sum()
    });
    let allocator_free = heap_free.saturating_sub(untouched);
    let total = mappings.total();
    let known = components.total() + mappings.files + mappings.stacks + allocator_free;
    Some(Rest {
        total,
        binary: mappings.files,
        stacks: mappings.stacks,
        allocator_free,
        unaccounted: total as i64 - known as i64,
    })
}

#[derive(Clone, Copy)]
enum Kind {
    File,
    Stack,
    Shared,
    Anonymous,
}

/// The first line of a mapping: `start-end rights offset device inode path`.
struct Head<'a> {
    start: u64,
    end: u64,
    rights: &'a str,
    path: &'a str,
}

/// The stack of a thread that the standard library starts, and room for what the system adds.
const STACK_BYTES_MAX: u64 = (2 << 20) + (64 << 10);
const GUARD_BYTES_MAX: u64 = 64 << 10;
/// Size of a heap of a thread of the C library, on 64 bits.
const ARENA_BYTES_MAX: u64 = 64 << 20;

impl<'a> Head<'a> {
    fn parse(line: &'a str) -> Option<Head<'a>> {
        let mut words = line.split_ascii_whitespace();
        let (start, end) = words.next()?.split_once('-')?;
        let rights = words.next()?;
        let path = words.nth(3).unwrap_or("");
        Some(Head {
            start: u64::from_str_radix(start, 16).ok()?,
            end: u64::from_str_radix(end, 16).ok()?,
            rights,
            path,
        })
    }

    /// The heap of the first thread, or one of those that the C library makes for others: these
    /// begin at multiples of their greatest size.
    fn is_arena(&self) -> bool {
        let is_private = self.path.is_empty() && self.rights == "rw-p";
        self.path == "[heap]" || (is_private && self.start.is_multiple_of(ARENA_BYTES_MAX))
    }

    fn is_guard(&self) -> bool {
        self.rights == "---p" && self.path.is_empty() && self.end - self.start <= GUARD_BYTES_MAX
    }

    fn kind(&self, guard_end: u64) -> Kind {
        let is_private = self.path.is_empty() && self.rights == "rw-p";
        match self.path {
            path if path.starts_with("/memfd:") => Kind::Shared,
            path if path.starts_with('/') => Kind::File,
            "[stack]" => Kind::Stack,
            _ if is_private
                && self.start == guard_end
                && self.end - self.start <= STACK_BYTES_MAX =>
            {
                Kind::Stack
            }
            _ => Kind::Anonymous,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMAPS: &str = "\
55d0c0000000-55d0c0100000 r-xp 00000000 fe:00 123 /usr/bin/crore\n\
Size:               1024 kB\nRss:                 900 kB\nPss:                 700 kB\nPss_Dirty:             0 kB\n\
55d0c2000000-55d0c2021000 rw-p 00000000 00:00 0 [heap]\nPss:                 132 kB\n\
7f0000000000-7f0000021000 rw-p 00000000 00:00 0 \nPss:                 100 kB\n\
7f0000021000-7f0004000000 ---p 00000000 00:00 0 \nPss:                   0 kB\n\
7f0010000000-7f0010001000 ---p 00000000 00:00 0 \nPss:                   0 kB\n\
7f0010001000-7f0010201000 rw-p 00000000 00:00 0 \nPss:                  24 kB\n\
7f0020000000-7f0020200000 rw-s 00000000 00:01 77 /memfd:log-segment (deleted)\nPss:                  64 kB\n\
7ffc00000000-7ffc00021000 rw-p 00000000 00:00 0 [stack]\nPss:                  16 kB\n";

    #[test]
    fn mappings_are_told_apart() {
        let (mappings, arenas) = Mappings::parse(SMAPS);
        assert_eq!(
            mappings,
            Mappings { files: 700 << 10, stacks: 40 << 10, shared: 64 << 10, anonymous: 232 << 10 }
        );
        assert_eq!(mappings.total(), 1_036 << 10);
        let starts: Vec<u64> = arenas.iter().map(|arena| arena.start).collect();
        assert_eq!(starts, [0x55d0_c200_0000, 0x7f00_0000_0000]);
    }

    #[test]
    fn this_process_has_a_stack_a_binary_and_a_heap() {
        let (started, is_started) = std::sync::mpsc::channel();
        let (end, is_end) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            started.send(()).unwrap();
            // Until the other end is dropped.
            let _ = is_end.recv();
        });
        is_started.recv().unwrap();
        let text = fs::read_to_string("/proc/self/smaps").unwrap();
        let (mappings, arenas) = Mappings::parse(&text);
        assert!(!arenas.is_empty());
        assert!(mappings.stacks >= 8 << 10, "{mappings:?}");
        assert!(mappings.files > 100_000 && mappings.anonymous > 10_000, "{mappings:?}");
        let rest = rest(&Components::new()).unwrap();
        let sum = rest.binary + rest.stacks + rest.allocator_free;
        assert_eq!(rest.total as i64 - sum as i64, rest.unaccounted);
        drop(end);
        thread.join().unwrap();
    }
}
