//! crore
fn main() {}
