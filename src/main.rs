//! The `aac` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    aac::cli::run(std::env::args_os())
}
