//! Reasoning is sent in the view in which it was made, and nowhere else: a run against a server that binds it. The run of
//! 1,000 iterations is an example of its own.

use forge_tests::binding::Behaviour;
use forge_tests::binding_run::BindingRun;

#[tokio::test]
#[expect(clippy::float_cmp, reason = "they are quotients of the same numbers")]
async fn no_thinking_is_refused_and_none_is_missed() {
    let behaviour = Behaviour { thinks: true, per_turn: 4 };
    let run = BindingRun { iterations: 64, window: 4_000, words: 160, behaviour };
    let bound = run.run().await;
    assert_eq!(bound.books.refusals, Vec::<String>::new(), "{bound:?}");
    assert_eq!((bound.books.missed, bound.books.unreadable, bound.stale), (0, 0, 0));
    assert!(bound.books.kept > 50 && bound.books.stripped > 10, "{:?}", bound.books.kept);
    assert!(bound.compactions >= 8, "{}", bound.compactions);
    assert!(bound.undone >= 1 && bound.switches >= 1 && bound.lists >= 2 && bound.resumes >= 1);
    let (with, without) = (bound.books.content.of_all(), bound.books.content_alone.of_all());
    println!("content that a cache can have: {with:.3} with thinking, {without:.3} without");
    assert_eq!(with, without, "what leaves costs nothing that was not lost already");
}
