//! Long runs against a server with faults of every kind. The run of 1,500 iterations is an example of its own.

use std::sync::Arc;

use forge_domain::{CheckpointFilter, CheckpointStore, ProviderKind};
use forge_infra::{SqliteCheckpointStore, SqlitePlace};
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
    let kinds = [
        ProviderKind::OpenAiChat,
        ProviderKind::Responses,
        ProviderKind::Anthropic,
        ProviderKind::Ollama,
        ProviderKind::Gemini,
    ];
    for kind in kinds {
        let server = ScriptedServer::start(endurance.script());
        let folder = tempfile::tempdir().unwrap();
        let place = SqlitePlace::new(folder.path().join("runs.db"));
        let store: Arc<dyn CheckpointStore> = Arc::new(SqliteCheckpointStore::open(&place).await.unwrap());
        let endured = endurance.run(kind, &server.base_url(), Arc::clone(&store), |_, _| {}).await;
        assert_eq!(endured.losses(&endurance), Vec::<String>::new(), "{kind:?} {:?}", endured.seen);
        assert_eq!(server.requests().len(), endurance.script().len(), "{kind:?}");
        let saved = store
            .list(&CheckpointFilter { limit: Some(1), ..CheckpointFilter::default() })
            .await
            .unwrap()
            .remove(0);
        let saved = store.load(saved.key).await.unwrap().snapshot.conversation;
        assert_eq!(saved.entries(), endured.conversation.entries(), "{kind:?}");
        let report = endured.outcome.unwrap();
        assert!(report.outcomes.len() > 3, "{kind:?}: {} compactions", report.outcomes.len());
    }
}
