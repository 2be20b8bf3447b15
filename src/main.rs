//! The `aac` command.
fn main() {}
