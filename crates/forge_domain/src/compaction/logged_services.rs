//! The services of a compaction whose log is at hand.

use super::CompactionServices;
use crate::{
    ContextMessage, Conversation, MessageId, Model, ModelError, ModelId, ProviderService, SummaryTemplate,
    TokenCounter,
};

/// The services of a compaction, with the log whose view is compacted: strategies read there what earlier
/// compactions cleared.
pub struct LoggedServices<'a> {
    /// The services for everything else.
    pub services: &'a dyn CompactionServices,
    /// The log.
    pub log: &'a Conversation,
}

impl CompactionServices for LoggedServices<'_> {
    fn templates(&self) -> &dyn SummaryTemplate {
        self.services.templates()
    }

    fn providers(&self) -> &dyn ProviderService {
        self.services.providers()
    }

    fn counter(&self) -> &dyn TokenCounter {
        self.services.counter()
    }

    fn model(&self, id: &ModelId) -> Result<Model, ModelError> {
        self.services.model(id)
    }

    fn original(&self, id: MessageId) -> Option<ContextMessage> {
        // What a strategy finds out about it is dropped with the compaction: the log would keep it to its
        // end.
        self.log.message(id).map(ContextMessage::apart)
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::super::fixture::{Script, apply, conversation};
    use super::super::meter::Metered;
    use super::super::{ClearToolResults, SlidingWindow};
    use super::*;

    #[test]
    fn a_message_is_found_as_it_was_appended() {
        let script = Script::new(Vec::new());
        let mut log = conversation("suaaatRtRaatrtrtrtr");
        let (whole, appended) = (log.view(), log.messages().cloned().collect::<Vec<_>>());
        apply(&SlidingWindow::default(), "{ max_tokens: 3500 }", &mut log, &script).unwrap();
        let clear = "{ retention_window: 2, max_tokens: 500 }";
        apply(&ClearToolResults::default(), clear, &mut log, &script).unwrap();
        log.add_all("aa");
        let services = LoggedServices { services: &script, log: &log };
        let view = log.view();
        for message in log.messages() {
            let id = message.id().unwrap();
            assert_eq!(services.original(id).as_ref(), Some(message));
            // Messages of the view are taken from the view, all others from the log.
            assert_eq!(Metered::new(&services, &view).original(id).as_ref(), Some(message));
        }
        let made =
            view.messages().iter().find(|made| log.messages().all(|message| message.id() != made.id()));
        let made = made.expect("a stub");
        assert_eq!(services.original(made.id().unwrap()), None);
        // Without a log, only what the context holds is known.
        let id = appended[3].id().unwrap();
        assert_eq!(Metered::new(&script, &whole).original(id).as_ref(), Some(&appended[3]));
        assert_eq!(Metered::new(&script, &view).original(id), None);
    }

    #[test]
    fn a_log_keeps_nothing_that_was_found_out_about_an_original() {
        let (script, log) = (Script::new(Vec::new()), conversation("suaaatRtRaatr"));
        let services = LoggedServices { services: &script, log: &log };
        for message in log.messages() {
            let original = services.original(message.id().unwrap()).unwrap();
            assert_eq!(original.form(|_| "of a strategy"), &"of a strategy");
            assert_eq!(message.form(|_| "of the log"), &"of the log");
        }
    }
}
