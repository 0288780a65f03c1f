//! The last line of the suite: how many checks were left out, and why.
#![allow(clippy::disallowed_methods, reason = "a test program looks at its arguments")]

fn main() -> std::io::Result<()> {
    // Programs that list tests find none here.
    if std::env::args().any(|argument| argument == "--list") {
        return Ok(());
    }
    println!("{}", skipped_tests::Notes::of_this_run().sum_up()?);
    Ok(())
}
