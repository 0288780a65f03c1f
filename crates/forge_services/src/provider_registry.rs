//! The providers of a workflow by name: each prompt is sent to the one that its model names.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use forge_domain::{
    ChatStream, ModelInfo, ModelRef, Prompt, Provider, ProviderError, ProviderId, ProviderService,
};

/// A registry that routes by name.
#[derive(Clone)]
pub struct ProviderRegistry {
    providers: BTreeMap<ProviderId, Arc<dyn Provider>>,
}

impl ProviderRegistry {
    /// Creates a registry of `providers`.
    pub const fn new(providers: BTreeMap<ProviderId, Arc<dyn Provider>>) -> Self {
        Self { providers }
    }

    fn find(&self, id: &ProviderId) -> Result<&dyn Provider, ProviderError> {
        self.providers.get(id).map(AsRef::as_ref).ok_or_else(|| ProviderError::UnknownProvider {
            provider: id.to_string(),
            known: match self.providers.is_empty() {
                true => "(none)".to_owned(),
                false => self.providers.keys().map(ProviderId::as_str).collect::<Vec<_>>().join(", "),
            },
        })
    }
}

#[async_trait]
impl ProviderService for ProviderRegistry {
    async fn chat(&self, prompt: Prompt) -> Result<ChatStream, ProviderError> {
        self.find(&prompt.options().model.provider)?.chat(prompt).await
    }

    async fn models(&self, provider: &ProviderId) -> Result<Vec<ModelInfo>, ProviderError> {
        self.find(provider)?.models().await
    }

    async fn model_info(&self, model: &ModelRef) -> Result<Option<ModelInfo>, ProviderError> {
        self.find(&model.provider)?.model_info(&model.model).await
    }

    fn check(&self, provider: &ProviderId) -> Result<(), ProviderError> {
        self.find(provider)?.check()
    }
}

#[cfg(test)]
mod tests {
    use forge_domain::{
        Budget, ChatCompletionMessage, ChatOptions, Conversation, ModelId, ModelLimits, TokenCounter, Tokens,
    };
    use futures::executor::block_on;
    use futures::{StreamExt, stream};
    use pretty_assertions::assert_eq;

    use super::*;

    /// A provider that replies with its own name.
    struct Named(&'static str);

    #[async_trait]
    impl Provider for Named {
        async fn chat(&self, prompt: Prompt) -> Result<ChatStream, ProviderError> {
            let text = format!("{} answers for {}", self.0, prompt.options().model.model);
            let piece = ChatCompletionMessage { content: Some(text), ..ChatCompletionMessage::default() };
            Ok(Box::pin(stream::iter([Ok(piece)])))
        }

        async fn models(&self) -> Result<Vec<ModelInfo>, ProviderError> {
            let id = ModelId::new(format!("{}-model", self.0)).unwrap();
            Ok(vec![ModelInfo { window: Some(Tokens::new(7)), ..ModelInfo::new(id) }])
        }
    }

    struct Nothing;
    impl TokenCounter for Nothing {
        fn count(&self, _text: &str) -> Tokens {
            Tokens::ZERO
        }
    }

    fn registry(names: &[&'static str]) -> ProviderRegistry {
        let named = |name: &&'static str| (provider(name), Arc::new(Named(name)) as Arc<dyn Provider>);
        ProviderRegistry::new(names.iter().map(named).collect())
    }

    fn provider(name: &str) -> ProviderId {
        ProviderId::new(name).unwrap()
    }

    fn prompt(name: &str) -> Prompt {
        let model = ModelRef { provider: provider(name), model: ModelId::new("m").unwrap() };
        let limits = ModelLimits { window: Tokens::new(1_000), max_output: None };
        Budget::new(limits, ChatOptions::new(model), Vec::new(), &Nothing)
            .admit(Conversation::new().view())
            .unwrap()
    }

    #[test]
    fn a_prompt_goes_to_the_provider_that_its_model_names() {
        let registry = registry(&["local", "openai"]);
        for (name, expected) in [("local", "local answers for m"), ("openai", "openai answers for m")] {
            let mut reply = block_on(registry.chat(prompt(name))).unwrap();
            let actual = block_on(reply.next()).unwrap().unwrap().content.unwrap();
            assert_eq!(actual, expected);
        }
        let actual = block_on(registry.models(&provider("local"))).unwrap();
        let expected = vec![ModelInfo {
            window: Some(Tokens::new(7)),
            ..ModelInfo::new(ModelId::new("local-model").unwrap())
        }];
        assert_eq!(actual, expected);
    }

    #[test]
    fn an_unknown_provider_is_answered_with_the_known_ones() {
        for (names, expected) in [
            (&["local", "openai"][..], "there is no provider `nope` (expected one of local, openai)"),
            (&[], "there is no provider `nope` (expected one of (none))"),
        ] {
            let registry = registry(names);
            let chat = block_on(registry.chat(prompt("nope"))).map(drop).unwrap_err().to_string();
            let models = block_on(registry.models(&provider("nope"))).unwrap_err().to_string();
            assert_eq!((chat.as_str(), models.as_str()), (expected, expected));
        }
    }
}
