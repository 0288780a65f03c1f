//! Long runs against a server with faults of every kind. The run of 1,000 iterations is an example of its own.

use forge_domain::ProviderKind;
use forge_tests::ScriptedServer;
use forge_tests::endurance::Endurance;
use pretty_assertions::assert_eq;

#[tokio::test]
async fn nothing_is_lost_whatever_the_server_does() {
    // Every fifth iteration, so that each kind of fault comes at least once.
    let endurance = Endurance {
        iterations: 100,
        percent_faulty: 20,
        window: 12_000,
        first_words: 400,
        first_times: 3,
        words: 120,
    };
    assert!(endurance.n_faults() >= 16, "{}", endurance.n_faults());
    for kind in [ProviderKind::Openai, ProviderKind::Anthropic, ProviderKind::Ollama] {
        let server = ScriptedServer::start(endurance.script());
        let endured = endurance.run(kind, &server.base_url(), |_, _| {}).await;
        assert_eq!(endured.losses(&endurance), Vec::<String>::new(), "{kind:?} {:?}", endured.seen);
        assert_eq!(server.requests().len(), endurance.script().len(), "{kind:?}");
        let report = endured.outcome.unwrap();
        assert!(report.outcomes.len() > 3, "{kind:?}: {} compactions", report.outcomes.len());
    }
}
