//! Hand-over of a shard between two of its turns, as in a live upgrade: its state becomes bytes,
//! the reactor is dropped, and another one is created from the bytes.
//!
//! A hand-over must have no visible effect: a world with hand-overs has the same hash as one
//! without.

use super::World;
use node::reactor::Reactor;
use stdx::handing::Input;

/// The probability of a hand-over after a turn, if there are any.
const CHANCE: f64 = 0.01;

impl World {
    /// Hands a shard over sometimes, in worlds with hand-overs.
    pub(super) fn hand_over(&mut self, shard: usize) {
        let wants = |random: &mut stdx::prng::Prng| random.chance(CHANCE);
        if !self.upgrades.as_mut().is_some_and(wants) {
            return;
        }
        self.reached.hand_overs += 1;
        let mut state = Vec::new();
        let former = &self.reactors[shard];
        former.hand_over(&mut state);
        if let Some(home) = former.home() {
            self.memories[shard].keep(home.chunks());
        }
        // The next reactor counts them again.
        let users = former.edge().counted_users();
        users.for_each(|user| self.users.leave(&user.user));
        let mut input = Input::new(&state);
        let next = Reactor::take_over(self.parts(shard), &mut input);
        match next {
            Ok(next) if input.left() == 0 => {
                let mut again = Vec::new();
                next.hand_over(&mut again);
                // Tables are encoded in arbitrary order.
                if again.len() != state.len() {
                    let text = format!(
                        "edge {shard}: the restored state differs from the handed-over state"
                    );
                    self.oracle.fail(None, text);
                }
                self.reactors[shard] = next;
            }
            Ok(_) => {
                let text = format!("edge {shard}: {} bytes too many", input.left());
                self.oracle.fail(None, text);
            }
            Err(error) => self.oracle.fail(None, format!("edge {shard}: {error}")),
        }
    }
}
