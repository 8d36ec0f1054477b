//! The program `airampd`; all of it is in the library, where tests reach it.

fn main() -> std::process::ExitCode {
    airampd::run()
}
