//! A device that loses, repeats and delays frames by a seed: for tests against other stacks, where
//! the kernel has no such device.

use std::collections::VecDeque;
use std::io;
use std::os::fd::BorrowedFd;

use stdx::prng::Prng;

use crate::device::{Device, FRAME_BYTES};

/// Probabilities of faults of a frame.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rates {
    /// The frame is lost.
    pub loss: f64,
    /// The frame comes twice.
    pub repetition: f64,
    /// The frame comes behind the next one.
    pub reordering: f64,
    /// A bit of the frame changes.
    pub damage: f64,
}

/// A device with faults in both directions.
#[derive(Debug)]
pub struct Lossy<D> {
    device: D,
    rates: Rates,
    prng: Prng,
    /// The frame that is written now.
    place: Vec<u8>,
    /// Frames that wait for room below.
    waiting: VecDeque<Vec<u8>>,
    held_in: Option<Vec<u8>>,
    held_out: Option<Vec<u8>>,
}

impl<D: Device> Lossy<D> {
    /// Puts faults in front of a device.
    pub fn new(device: D, rates: Rates, seed: u64) -> Lossy<D> {
        Lossy {
            device,
            rates,
            prng: Prng::new(seed),
            place: vec![0; FRAME_BYTES],
            waiting: VecDeque::new(),
            held_in: None,
            held_out: None,
        }
    }

    fn send_waiting(&mut self) {
        while let Some(frame) = self.waiting.pop_front() {
            let Some(place) = self.device.next_frame() else {
                self.waiting.push_front(frame);
                return;
            };
            place[..frame.len()].copy_from_slice(&frame);
            self.device.queue(frame.len());
        }
    }
}

/// Lets a frame suffer, and gives the rest of it to `each`.
fn suffer(
    rates: Rates,
    prng: &mut Prng,
    held: &mut Option<Vec<u8>>,
    frame: &[u8],
    each: &mut dyn FnMut(&[u8]),
) {
    if prng.chance(rates.loss) {
        return;
    }
    let mut frame = frame.to_vec();
    if prng.chance(rates.damage) {
        let bit = prng.below(frame.len() as u64 * 8) as usize;
        frame[bit / 8] ^= 1 << (bit % 8);
    }
    if prng.chance(rates.repetition) {
        each(&frame);
    }
    if held.is_none() && prng.chance(rates.reordering) {
        *held = Some(frame);
        return;
    }
    each(&frame);
    if let Some(late) = held.take() {
        each(&late);
    }
}

impl<D: Device> Device for Lossy<D> {
    fn receive(&mut self, frames_max: usize, each: &mut dyn FnMut(&[u8])) -> io::Result<usize> {
        let Lossy { device, rates, prng, held_in, .. } = self;
        device.receive(frames_max, &mut |frame| suffer(*rates, prng, held_in, frame, each))
    }

    fn next_frame(&mut self) -> Option<&mut [u8]> {
        self.waiting.is_empty().then_some(&mut self.place[..])
    }

    fn queue(&mut self, length: usize) {
        let Lossy { rates, prng, held_out, place, waiting, .. } = self;
        let mut each = |frame: &[u8]| waiting.push_back(frame.to_vec());
        suffer(*rates, prng, held_out, &place[..length], &mut each);
        self.send_waiting();
    }

    fn flush(&mut self) -> io::Result<()> {
        self.device.flush()?;
        self.send_waiting();
        self.device.flush()
    }

    fn unsent(&mut self) -> usize {
        self.device.unsent() + self.waiting.len()
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.device.descriptor()
    }

    fn link_header_bytes(&self) -> usize {
        self.device.link_header_bytes()
    }
}
