//! The calls of bpf(2) that an XDP program needs: a map of sockets, the program, its attachment.
//!
//! Descriptors that the kernel returns are owned and closed on exec. Each structure is the
//! beginning of the kernel's `union bpf_attr` for one command; the kernel takes missing members as
//! zero.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use super::program::Instruction;

const MAP_CREATE: libc::c_int = 0;
const MAP_UPDATE: libc::c_int = 2;
const PROGRAM_LOAD: libc::c_int = 5;
const LINK_CREATE: libc::c_int = 28;

/// `BPF_MAP_TYPE_XSKMAP`: queue number to AF_XDP socket.
const SOCKETS: u32 = 17;
/// `BPF_PROG_TYPE_XDP`.
const PROGRAM_XDP: u32 = 6;
/// `BPF_XDP`: the attach type.
const ATTACH_XDP: u32 = 37;

/// Bytes for the verifier's reasons.
const REASONS_BYTES: usize = 1 << 16;

/// The name of map and program, as the system's tools show it.
const NAME: [u8; 16] = *b"crore\0\0\0\0\0\0\0\0\0\0\0";

#[repr(C)]
struct MapCreate {
    kind: u32,
    key_bytes: u32,
    value_bytes: u32,
    entries_max: u32,
    flags: u32,
    inner: u32,
    node: u32,
    name: [u8; 16],
}

#[repr(C)]
struct MapUpdate {
    map: u32,
    padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}

#[repr(C)]
struct ProgramLoad {
    kind: u32,
    instructions_count: u32,
    instructions: u64,
    license: u64,
    reasons_level: u32,
    reasons_bytes: u32,
    reasons: u64,
    kernel_version: u32,
    flags: u32,
    name: [u8; 16],
    interface: u32,
    attach_kind: u32,
}

#[repr(C)]
struct LinkCreate {
    program: u32,
    interface: u32,
    attach_kind: u32,
    flags: u32,
}

/// Creates a map from queue numbers below `queues_max` to AF_XDP sockets.
pub(super) fn create_map(queues_max: u32) -> io::Result<OwnedFd> {
    let attributes = MapCreate {
        kind: SOCKETS,
        key_bytes: 4,
        value_bytes: 4,
        entries_max: queues_max,
        flags: 0,
        inner: 0,
        node: 0,
        name: NAME,
    };
    // SAFETY: BPF_MAP_CREATE reads the structure, which contains no pointers, and returns a
    // descriptor.
    let number = unsafe { bpf(MAP_CREATE, &attributes)? };
    // SAFETY: the kernel has just opened it, and no other value owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Enters the socket of a queue into a map. The entry ends with the socket.
pub(super) fn set_socket(
    map: BorrowedFd<'_>,
    queue: u32,
    socket: BorrowedFd<'_>,
) -> io::Result<()> {
    let socket = socket.as_raw_fd() as u32;
    let attributes = MapUpdate {
        map: map.as_raw_fd() as u32,
        padding: 0,
        key: (&raw const queue) as u64,
        value: (&raw const socket) as u64,
        flags: 0,
    };
    // SAFETY: the map has keys and values of 4 bytes; both pointers are good for the call, which
    // only reads there.
    unsafe { bpf(MAP_UPDATE, &attributes)? };
    Ok(())
}

/// Loads an XDP program. If the verifier refuses it, the error has the end of its reasons.
pub(super) fn load(instructions: &[Instruction]) -> io::Result<OwnedFd> {
    let first = match load_with(instructions, &mut []) {
        // Not for lack of rights, which is EPERM.
        Err(error) if error.raw_os_error() != Some(libc::EPERM) => error,
        result => return result,
    };
    // Once more, for the reasons alone.
    let mut reasons = vec![0; REASONS_BYTES];
    let _ = load_with(instructions, &mut reasons)?;
    let length = reasons.iter().position(|&byte| byte == 0).unwrap_or(reasons.len());
    let text = String::from_utf8_lossy(&reasons[..length]);
    let lines: Vec<&str> = text.lines().collect();
    let end = lines[lines.len().saturating_sub(4)..].join("; ");
    Err(io::Error::new(io::ErrorKind::InvalidData, format!("{first} ({end})")))
}

/// Attaches a program to an interface. The attachment ends with the last copy of the returned
/// descriptor. `flags` has the mode, as in `IFLA_XDP_FLAGS`.
pub(super) fn attach(program: BorrowedFd<'_>, interface: u32, flags: u32) -> io::Result<OwnedFd> {
    let attributes = LinkCreate {
        program: program.as_raw_fd() as u32,
        interface,
        attach_kind: ATTACH_XDP,
        flags,
    };
    // SAFETY: BPF_LINK_CREATE reads the structure, which contains no pointers, and returns a
    // descriptor.
    let number = unsafe { bpf(LINK_CREATE, &attributes)? };
    // SAFETY: the kernel has just opened it, and no other value owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

fn load_with(instructions: &[Instruction], reasons: &mut [u8]) -> io::Result<OwnedFd> {
    let license = c"Apache-2.0";
    let attributes = ProgramLoad {
        kind: PROGRAM_XDP,
        instructions_count: instructions.len() as u32,
        instructions: instructions.as_ptr() as u64,
        license: license.as_ptr() as u64,
        reasons_level: u32::from(!reasons.is_empty()),
        reasons_bytes: reasons.len() as u32,
        reasons: if reasons.is_empty() { 0 } else { reasons.as_mut_ptr() as u64 },
        kernel_version: 0,
        flags: 0,
        name: NAME,
        interface: 0,
        attach_kind: ATTACH_XDP,
    };
    // SAFETY: the instructions have the kernel's layout and the given number, the license ends with
    // a zero, and the kernel writes at most the given number of bytes into `reasons`, which is
    // borrowed mutably. All of them outlive the call.
    let number = unsafe { bpf(PROGRAM_LOAD, &attributes)? };
    // SAFETY: the kernel has just opened it, and no other value owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// One call of bpf(2).
///
/// # Safety
/// The structure must be that of the command, and its pointers good for what the command does.
unsafe fn bpf<T>(command: libc::c_int, attributes: &T) -> io::Result<libc::c_int> {
    // SAFETY: the caller answers for the contents; the size is that of the structure.
    let result = unsafe {
        libc::syscall(libc::SYS_bpf, command, &raw const *attributes, size_of::<T>() as u32)
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(result as libc::c_int)
}

/// Runs of a program over a frame, for tests.
#[cfg(test)]
pub(super) mod trial {
    use super::*;

    const PROGRAM_TEST_RUN: libc::c_int = 10;

    #[repr(C)]
    struct TestRun {
        program: u32,
        verdict: u32,
        in_bytes: u32,
        out_bytes: u32,
        frame: u64,
        out: u64,
        repeat: u32,
        duration: u32,
    }

    /// The verdict of the program about a frame that came to queue 0.
    pub fn run(program: BorrowedFd<'_>, frame: &[u8]) -> io::Result<u32> {
        let mut attributes = TestRun {
            program: program.as_raw_fd() as u32,
            verdict: u32::MAX,
            in_bytes: frame.len() as u32,
            out_bytes: 0,
            frame: frame.as_ptr() as u64,
            out: 0,
            repeat: 1,
            duration: 0,
        };
        // SAFETY: the kernel reads the frame's bytes, writes no frame (`out` is zero), and writes
        // members of the structure; both outlive the call.
        let result = unsafe {
            libc::syscall(
                libc::SYS_bpf,
                PROGRAM_TEST_RUN,
                &raw mut attributes,
                size_of::<TestRun>() as u32,
            )
        };
        if result < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(attributes.verdict)
    }
}
