//! Which kinds of clients there are, and how many of each a world gets.

use crate::client::Client;
use crate::native::NativeClient;
use crate::plan::Plan;
use stdx::prng::Prng;

/// A client of any kind.
pub fn draw(id: usize, plan: &Plan, random: &mut Prng) -> Box<dyn Client> {
    Box::new(NativeClient::new(id, plan, random))
}
