//! Networks whose connections can be handed over: the sockets, and what the layers above them know.
//!
//! On an I/O thread, between two turns. Layers are handed over from the sockets up; each says
//! nothing of connections that it passes through. Invariant: the bytes hold keys of TLS, so whoever
//! has them wipes them.

use crate::proxied::{self, Proxied};
use net::Net;
use net::kernel::Kernel;
use stdx::handing::{Input, Layout};
use tls::Tls;

/// A network whose connections can be handed over.
pub(crate) trait Passing: Net {
    /// The sockets.
    fn kernel(&mut self) -> &mut Kernel;

    /// Begins nothing that cannot be handed over, until [`Passing::release`].
    fn hold(&mut self) {}

    /// How much has begun that cannot be handed over, and comes to its end.
    fn begun_count(&self) -> usize {
        0
    }

    /// Begins everything again.
    fn release(&mut self) {}

    /// Appends what the layers know.
    fn give_layers(&mut self, _: &mut Vec<u8>) {}

    /// Takes that. None if it is of other layers.
    fn take_layers(&mut self, _: &mut Input<'_>) -> Option<()> {
        Some(())
    }
}

/// Says what the layers hand over.
pub(crate) fn layout(layout: &mut Layout) {
    proxied::layout(layout);
    tls::layout(layout);
}

impl Passing for Kernel {
    fn kernel(&mut self) -> &mut Kernel {
        self
    }
}

impl<P: Passing> Passing for Tls<P> {
    fn kernel(&mut self) -> &mut Kernel {
        self.net_mut().kernel()
    }

    fn hold(&mut self) {
        self.hold_handshakes();
    }

    fn begun_count(&self) -> usize {
        self.handshakes_count()
    }

    fn release(&mut self) {
        self.release_handshakes();
    }

    fn give_layers(&mut self, out: &mut Vec<u8>) {
        self.net_mut().give_layers(out);
        self.hand_over(out);
    }

    fn take_layers(&mut self, input: &mut Input<'_>) -> Option<()> {
        self.net_mut().take_layers(input)?;
        self.take_over(input)
    }
}

impl<P: Passing> Passing for Proxied<P> {
    fn kernel(&mut self) -> &mut Kernel {
        self.net_mut().kernel()
    }

    fn give_layers(&mut self, out: &mut Vec<u8>) {
        self.net_mut().give_layers(out);
        self.hand_over(out);
    }

    fn take_layers(&mut self, input: &mut Input<'_>) -> Option<()> {
        self.net_mut().take_layers(input)?;
        self.take_over(input)
    }
}
