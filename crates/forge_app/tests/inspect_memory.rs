//! An inspection keeps some tens of bytes of each message, however long the messages are.
//!
//! The allocator counts for the whole process, so this is the only test here.

use forge_app::Inspector;
use forge_domain::{Message, TokenCounter, Tokens, ToolCall, ToolName, ToolResult};
use peak_alloc::PeakAlloc;

#[global_allocator]
static HEAP: PeakAlloc = PeakAlloc;

/// The most bytes that are kept of a message.
const MOST: usize = 80;

struct Bytes;

impl TokenCounter for Bytes {
    fn count(&self, text: &str) -> Tokens {
        Tokens::new(text.len() as u64)
    }
}

#[test]
fn a_message_takes_a_few_bytes() {
    for (n_exchanges, n_bytes) in [(10_000, 100), (10_000, 2_000), (40_000, 100)] {
        let before = HEAP.current_usage();
        HEAP.reset_peak_usage();
        let mut inspector = Inspector::new(&Bytes);
        for n in 0..n_exchanges {
            let name = ToolName::new("read").unwrap();
            let call =
                ToolCall { id: format!("call_{n:08}"), name, arguments: format!("{{\"path\":\"{n}\"}}") };
            let result = ToolResult::answer(&call, format!("{n} {}", "x".repeat(n_bytes)));
            inspector.push(&Message::calling(vec![call]));
            inspector.push(&Message::tool(result));
        }
        let kept = HEAP.current_usage() - before;
        let (report, sizes) = inspector.finish(Tokens::ZERO);
        let taken = HEAP.peak_usage() - before;
        assert_eq!((report.messages, sizes.len()), (2 * n_exchanges, 2 * n_exchanges));
        assert_eq!((report.groups.exchanges, report.duplicates.len()), (n_exchanges, 0));
        assert!(kept < MOST * report.messages, "{kept} bytes of {} messages", report.messages);
        assert!(taken < 2 * MOST * report.messages, "{taken} bytes at most");
    }
}
