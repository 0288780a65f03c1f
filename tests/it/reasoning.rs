//! Reasoning is sent in the view in which it was made, and nowhere else: runs against servers that bind it. The runs of
//! 1,000 iterations are an example of their own.

use forge_domain::ProviderKind;
use forge_tests::binding::{Behaviour, Thoughts};
use forge_tests::binding_run::BindingRun;

#[tokio::test]
#[expect(clippy::float_cmp, reason = "they are quotients of the same numbers")]
async fn no_thinking_is_refused_and_none_is_missed() {
    for kind in [ProviderKind::Anthropic, ProviderKind::Responses, ProviderKind::Gemini] {
        let behaviour = Behaviour { kind, thoughts: Thoughts::Bound, per_turn: 4 };
        let run = BindingRun { iterations: 64, window: 4_000, words: 160, behaviour };
        let bound = run.run().await;
        assert_eq!(bound.books.refusals, Vec::<String>::new(), "{kind:?}");
        assert_eq!((bound.books.missed, bound.books.unreadable, bound.stale), (0, 0, 0), "{kind:?}");
        let (kept, stripped) = (bound.books.kept, bound.books.stripped);
        assert!(kept > 40 && stripped > 10, "{kind:?}: {kept} {stripped}");
        assert!(bound.compactions >= 8, "{kind:?}: {}", bound.compactions);
        assert!(
            bound.undone >= 1 && bound.switches >= 1 && bound.lists >= 2 && bound.resumes >= 1,
            "{kind:?}"
        );
        let (with, without) = (bound.books.content.of_all(), bound.books.content_alone.of_all());
        println!("{kind:?}: content that a cache can have: {with:.3} with thinking, {without:.3} without");
        assert_eq!(with, without, "{kind:?}: what leaves costs nothing that was not lost already");
    }
}
