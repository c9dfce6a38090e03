//! Which kinds of clients there are, and how many of each a world gets.

use crate::client::Client;
use crate::http::HttpClient;
use crate::native::NativeClient;
use crate::plan::Plan;
use crate::resumer::Resumer;
use stdx::prng::Prng;

/// A client of any kind.
pub fn draw(id: usize, plan: &Plan, random: &mut Prng) -> Box<dyn Client> {
    match random.below(10) {
        0..=5 => Box::new(NativeClient::new(id, plan, random)),
        6 | 7 => Box::new(Resumer::new(id, plan, random)),
        _ => Box::new(HttpClient::new(id, plan, random)),
    }
}
