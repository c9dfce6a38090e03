//! Sockets beside the descriptor table: registered with an io_uring instance, and closed as
//! descriptors.
//!
//! The descriptor limit counts entries of a table, not open files. A registered socket is held by
//! its instance and needs no entry; epoll still reports it, since a watched file lives as
//! long as the file. An instance takes as many files as the limit allows descriptors, and a thread
//! may have many instances: so few threads hold what would need as many tables as the limit goes
//! into it. Reads and writes are the same operations in the same order, submitted and completed in
//! one system call each, which costs a little more than the plain call; so the table is filled
//! first.
//!
//! Invariants: an instance has at most one operation at a time, and the call that submits it sees
//! it completed, so that the kernel holds no buffer when a function returns. Rare operations
//! (options, shutdown) use a descriptor that is created for them.

use std::io::{self, IoSlice};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use io_uring::{IoUring, opcode, squeue, types};
use rustix::io::Errno;

/// Maximum number of files of one instance; a lower descriptor limit applies.
const FILES_MAX: u32 = 16_384;
/// Maximum number of instances of a thread. Each needs a descriptor.
pub(super) const INSTANCES_MAX: u32 = 64;
/// Operations of an instance at a time.
const ENTRIES: u32 = 1;

/// The registered sockets of one thread. A place is a number from 0.
pub(super) struct Registered {
    instances: Vec<IoUring>,
    /// Files of each instance.
    files: u32,
    /// Maximum number of places; 0 if the kernel or a sandbox does not allow them.
    max: u32,
    /// Places from here on were never taken.
    next: u32,
    released: Vec<u32>,
}

impl Registered {
    /// Room for up to `max` sockets, if this system allows any.
    pub(super) fn new(max: u32, descriptors_max: u32) -> Registered {
        let files = FILES_MAX.min(descriptors_max);
        let is_allowed = max > 0 && files > 0 && is_allowed();
        Registered {
            instances: Vec::new(),
            files,
            max: if is_allowed { max.min(room(descriptors_max)) } else { 0 },
            next: 0,
            released: Vec::new(),
        }
    }

    /// Maximum number of places.
    pub(super) fn max(&self) -> u32 {
        self.max
    }

    /// Holds the socket from now on; closing its descriptor has no effect.
    ///
    /// # Errors
    /// `EMFILE` if there is no place, otherwise the kernel's error, most often for lack of memory.
    pub(super) fn hold(&mut self, socket: BorrowedFd<'_>) -> Result<u32, Errno> {
        let place = match self.released.pop() {
            Some(place) => place,
            None if self.next < self.max => {
                self.next += 1;
                self.next - 1
            }
            None => return Err(Errno::MFILE),
        };
        if let Err(error) = self.update(place, socket.as_raw_fd()) {
            self.released.push(place);
            return Err(Errno::from_io_error(&error).unwrap_or(Errno::NOMEM));
        }
        Ok(place)
    }

    /// Releases the socket; it is closed unless a descriptor holds it.
    pub(super) fn release(&mut self, place: u32) {
        let released = self.update(place, -1);
        debug_assert!(released.is_ok(), "a place that was taken: {released:?}");
        self.released.push(place);
    }

    fn update(&mut self, place: u32, descriptor: i32) -> io::Result<()> {
        let (instance, file) = self.at(place);
        while self.instances.len() <= instance {
            let new = IoUring::new(ENTRIES)?;
            new.submitter().register_files_sparse(self.files)?;
            self.instances.push(new);
        }
        let submitter = self.instances[instance].submitter();
        match submitter.register_files_update(file, &[descriptor])? {
            1 => Ok(()),
            _ => Err(io::ErrorKind::OutOfMemory.into()),
        }
    }

    /// `recv(2)` without waiting.
    pub(super) fn recv(&mut self, place: u32, buffer: &mut [u8]) -> Result<usize, Errno> {
        let (instance, file) = self.at(place);
        let len = u32::try_from(buffer.len()).unwrap_or(u32::MAX);
        let operation = opcode::Recv::new(types::Fixed(file), buffer.as_mut_ptr(), len)
            .flags(libc::MSG_DONTWAIT)
            .build();
        // SAFETY: the buffer is borrowed for as long as the call takes.
        unsafe { self.complete(instance, &operation) }.map(|count| count as usize)
    }

    /// `sendmsg(2)` without waiting and without signal.
    pub(super) fn send(&mut self, place: u32, parts: &[IoSlice<'_>]) -> Result<usize, Errno> {
        let (instance, file) = self.at(place);
        let flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
        if let [part] = parts {
            let len = u32::try_from(part.len()).unwrap_or(u32::MAX);
            let operation =
                opcode::Send::new(types::Fixed(file), part.as_ptr(), len).flags(flags).build();
            // SAFETY: the part is borrowed for as long as the call takes.
            return unsafe { self.complete(instance, &operation) }.map(|count| count as usize);
        }
        // SAFETY: all bytes zero are an empty message header.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        // IoSlice has the layout of iovec; the kernel only reads through it.
        message.msg_iov = parts.as_ptr().cast_mut().cast();
        message.msg_iovlen = parts.len() as _;
        let operation = opcode::SendMsg::new(types::Fixed(file), &raw const message)
            .flags(flags as u32)
            .build();
        // SAFETY: the header and the parts live for as long as the call takes.
        unsafe { self.complete(instance, &operation) }.map(|count| count as usize)
    }

    /// Creates a descriptor of the socket, for rare operations.
    ///
    /// # Errors
    /// The table has no room.
    pub(super) fn descriptor(&mut self, place: u32) -> io::Result<OwnedFd> {
        let (instance, file) = self.at(place);
        let operation = opcode::FixedFdInstall::new(types::Fixed(file), 0).build();
        // SAFETY: no memory is passed.
        let number = unsafe { self.complete(instance, &operation) }?;
        // SAFETY: the kernel has just made this descriptor for us.
        Ok(unsafe { OwnedFd::from_raw_fd(number) })
    }

    fn at(&self, place: u32) -> (usize, u32) {
        ((place / self.files) as usize, place % self.files)
    }

    /// Submits one operation and waits for its completion, which is immediate: no operation here
    /// waits.
    ///
    /// # Safety
    /// The memory of the operation must live until the call returns.
    unsafe fn complete(
        &mut self,
        instance: usize,
        operation: &squeue::Entry,
    ) -> Result<i32, Errno> {
        let instance = &mut self.instances[instance];
        // SAFETY: the caller keeps what it points to until the completion below.
        let pushed = unsafe { instance.submission().push(operation) };
        assert!(pushed.is_ok(), "one operation at a time");
        loop {
            match instance.submit_and_wait(1) {
                Ok(_) => {}
                // Not submitted or not completed yet. Returning now would leave our pointers with
                // the kernel.
                Err(error) if is_passing(&error) => std::thread::yield_now(),
                Err(error) => panic!("io_uring_enter of a good instance: {error}"),
            }
            if let Some(completion) = instance.completion().next() {
                let result = completion.result();
                return if result < 0 {
                    Err(Errno::from_raw_os_error(-result))
                } else {
                    Ok(result)
                };
            }
        }
    }
}

fn is_passing(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EINTR | libc::EAGAIN | libc::EBUSY | libc::ENOMEM))
}

/// Whether the kernel has the required features (Linux 6.8), and no sandbox forbids them.
pub(super) fn is_allowed() -> bool {
    let ask = || -> io::Result<bool> {
        let instance = IoUring::new(ENTRIES)?;
        let mut probe = io_uring::register::Probe::new();
        instance.submitter().register_probe(&mut probe)?;
        instance.submitter().register_files_sparse(1)?;
        Ok(probe.is_supported(opcode::FixedFdInstall::CODE))
    };
    ask().unwrap_or(false)
}

/// Maximum number of sockets of a thread beside its descriptor table with this limit, where they
/// are allowed.
pub(super) fn room(descriptors_max: u32) -> u32 {
    FILES_MAX.min(descriptors_max) * INSTANCES_MAX
}
