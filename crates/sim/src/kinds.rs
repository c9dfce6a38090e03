//! The kinds of clients, and their numbers in a world.

use crate::client::Client;
use crate::http::HttpClient;
use crate::mqtt::MqttClient;
use crate::native::NativeClient;
use crate::plan::{Beside, Plan};
use crate::resumer::Resumer;
use stdx::prng::Prng;

/// Draws a client of any kind.
pub fn draw(id: usize, plan: &Plan, random: &mut Prng) -> Box<dyn Client> {
    match random.below(10) {
        0..=5 => Box::new(NativeClient::new(id, plan, random)),
        6 | 7 => Box::new(Resumer::new(id, plan, random)),
        _ => Box::new(HttpClient::new(id, plan, random)),
    }
}

/// Draws the additional clients, with numbers from `first`.
pub fn draw_beside(first: usize, plan: &Plan) -> Vec<Box<dyn Client>> {
    let mut random = Prng::new(plan.seed ^ 0xbe51_de00);
    let draw = |(id, kind): (usize, &Beside)| -> Box<dyn Client> {
        match kind {
            Beside::Stream => Box::new(HttpClient::covering(id, plan, &mut random)),
            Beside::Keys => Box::new(HttpClient::naming(id, plan, &mut random)),
            Beside::Entitled => Box::new(Resumer::entitled(id, plan, &mut random)),
            Beside::Session => Box::new(Resumer::covering(id, plan, &mut random)),
        }
    };
    (first..).zip(&plan.beside).map(draw).collect()
}

/// Draws the clients of MQTT, with numbers from `first`.
pub fn draw_mqtt(first: usize, plan: &Plan) -> Vec<Box<dyn Client>> {
    let mut random = Prng::new(plan.seed ^ 0x6d71_7474);
    let draw = |id| -> Box<dyn Client> { Box::new(MqttClient::new(id, plan, &mut random)) };
    (first..first + plan.mqtt_clients).map(draw).collect()
}

/// Draws the members of groups, with numbers from `first`.
pub fn draw_members(first: usize, plan: &Plan) -> Vec<Box<dyn Client>> {
    let mut random = Prng::new(plan.seed ^ 0x6d65_6d62);
    let draw = |(id, group): (usize, &usize)| -> Box<dyn Client> {
        Box::new(MqttClient::member(id, plan, &mut random, *group))
    };
    (first..).zip(&plan.groups.members).map(draw).collect()
}
