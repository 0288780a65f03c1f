//! A compaction without an agent, as `docs/library.md` shows it.

use std::sync::Arc;

use forge_domain::compaction::{ContextCompactor, LoggedServices};
use forge_domain::{
    Budget, ChatOptions, Compact, ContextMessage, Conversation, Message, ModelId, ModelLimits, ModelRef,
    ProviderId, Tokens,
};
use forge_services::{NoModels, O200kCounter};

#[test]
fn a_compaction_by_hand() -> Result<(), Box<dyn std::error::Error>> {
    // Strategies that ask no model only count.
    let services = NoModels::new(Arc::new(O200kCounter));
    let mut conversation = Conversation::new();
    let mut add = |message: Message| conversation.append(ContextMessage::count(message, &O200kCounter));
    add(Message::system("Be brief."));
    add(Message::user("Describe every part."));
    for n in 0..80 {
        add(Message::assistant(format!("Part {n}: {}", "it is as it should be, ".repeat(4))));
    }

    // The room of a prompt, and the limits of a `compact` block in it.
    let model = ModelRef { provider: ProviderId::new("mine")?, model: ModelId::new("small")? };
    let limits = ModelLimits { window: Tokens::new(1_500), max_output: Some(Tokens::new(200)) };
    let budget = Budget::new(limits, ChatOptions::new(model), Vec::new(), &O200kCounter);
    let settings = Compact::default().resolve(&budget)?;
    assert!(conversation.view().size().tokens > budget.room());

    // The log is among the services: strategies read there what earlier compactions cleared.
    let logged = LoggedServices { services: &services, log: &conversation };
    let compactor = ContextCompactor::new();
    let fit = compactor.fit(&settings, conversation.view(), &budget, &logged);
    let fitted = futures::executor::block_on(fit).result?;
    if let Some(compacted) = &fitted.compacted {
        conversation.record(compacted)?;
    }
    assert_eq!(conversation.n_compactions(), 1);
    assert!(conversation.view().size().tokens <= budget.room());
    assert_eq!(conversation.messages().count(), 82, "the log keeps everything");
    Ok(())
}
