//! A shard is handed over between two of its turns, as a live upgrade does it: its state becomes
//! bytes, the reactor is dropped, and another one is made of the bytes.
//!
//! Nobody may notice anything: a world in which this happens has the same hash as without.

use super::World;
use node::reactor::Reactor;
use stdx::handing::Input;

/// Chance of a hand-over after a turn, where there are any.
const CHANCE: f64 = 0.01;

impl World {
    /// Now and then, in worlds that have it.
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
        // The next one counts them again.
        let users = former.edge().counted_users();
        users.for_each(|user| self.users.leave(&user.user));
        let mut input = Input::new(&state);
        let next = Reactor::take_over(self.parts(shard), &mut input);
        match next {
            Ok(next) if input.left() == 0 => {
                let mut again = Vec::new();
                next.hand_over(&mut again);
                // Tables are given in an order of their own.
                if again.len() != state.len() {
                    let text = format!("edge {shard}: what was handed over is not what came");
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
