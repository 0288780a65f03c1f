//! Several tool services as one.

use std::sync::Arc;

use async_trait::async_trait;
use forge_domain::{
    CallScope, FileChange, Reach, ToolCall, ToolDefinition, ToolName, ToolResult, ToolService,
    ToolsUnavailable, UnknownToolError,
};

/// The tools of several services: built-in ones, those of MCP servers. The first that knows a name has it.
pub struct JoinedTools(Vec<Arc<dyn ToolService>>);

impl JoinedTools {
    /// Combines the tools of `services`.
    pub fn new(services: impl IntoIterator<Item = Arc<dyn ToolService>>) -> Self {
        Self(services.into_iter().collect())
    }
}

#[async_trait]
impl ToolService for JoinedTools {
    fn definitions(&self, names: &[ToolName]) -> Result<Vec<ToolDefinition>, UnknownToolError> {
        let mut definitions = Vec::new();
        for name in names {
            let mut known = Vec::new();
            let found = self.0.iter().find_map(|service| {
                let error = match service.definitions(std::slice::from_ref(name)) {
                    Ok(found) => return Some(found),
                    Err(error) => error,
                };
                known.push(error.known);
                None
            });
            known.retain(|known| !known.is_empty());
            let unknown = || UnknownToolError { name: name.clone(), known: known.join(", ") };
            definitions.extend(found.ok_or_else(unknown)?);
        }
        Ok(definitions)
    }

    async fn reach(&self, call: &ToolCall) -> Reach {
        let name = std::slice::from_ref(&call.name);
        match self.0.iter().find(|service| service.definitions(name).is_ok()) {
            Some(service) => service.reach(call).await,
            None => Reach::free(),
        }
    }

    async fn preview(&self, call: &ToolCall) -> Option<FileChange> {
        let name = std::slice::from_ref(&call.name);
        let service = self.0.iter().find(|service| service.definitions(name).is_ok())?;
        service.preview(call).await
    }

    async fn call(&self, call: &ToolCall) -> ToolResult {
        self.call_within(call, &CallScope::unlimited()).await
    }

    async fn call_within(&self, call: &ToolCall, scope: &CallScope) -> ToolResult {
        let name = std::slice::from_ref(&call.name);
        match self.0.iter().find(|service| service.definitions(name).is_ok()) {
            Some(service) => service.call_within(call, scope).await,
            None => {
                let unknown = self.definitions(name).err().map(|unknown| unknown.to_string());
                ToolResult::error(call, unknown.unwrap_or_default())
            }
        }
    }

    async fn prepare(&self, names: &[ToolName]) -> Result<u64, ToolsUnavailable> {
        let mut revision = 0;
        for service in &self.0 {
            revision += service.prepare(names).await?;
        }
        Ok(revision)
    }

    async fn resource(&self, server: &str, uri: &str) -> Option<Result<String, String>> {
        for service in &self.0 {
            if let Some(resource) = service.resource(server, uri).await {
                return Some(resource);
            }
        }
        None
    }

    async fn prompt(&self, server: &str, name: &str, arguments: &str) -> Option<Result<String, String>> {
        for service in &self.0 {
            if let Some(prompt) = service.prompt(server, name, arguments).await {
                return Some(prompt);
            }
        }
        None
    }

    async fn close(&self) {
        for service in &self.0 {
            service.close().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    /// A service with these tools, which answer with its first.
    struct Some_(&'static [&'static str]);

    #[async_trait]
    impl ToolService for Some_ {
        fn definitions(&self, names: &[ToolName]) -> Result<Vec<ToolDefinition>, UnknownToolError> {
            let find = |name: &ToolName| match self.0.contains(&name.as_str()) {
                true => Ok(ToolDefinition {
                    name: name.clone(),
                    description: self.0[0].to_owned(),
                    parameters: json!({}),
                }),
                false => Err(UnknownToolError { name: name.clone(), known: self.0.join(", ") }),
            };
            names.iter().map(find).collect()
        }

        async fn call(&self, call: &ToolCall) -> ToolResult {
            ToolResult::answer(call, self.0[0])
        }

        async fn prepare(&self, _: &[ToolName]) -> Result<u64, ToolsUnavailable> {
            Ok(self.0.len() as u64)
        }
    }

    #[test]
    fn a_tool_is_found_where_it_is() {
        let joined = JoinedTools::new([
            Arc::new(Some_(&["a", "b"])) as Arc<dyn ToolService>,
            Arc::new(Some_(&["c", "a"])),
        ]);
        let name = |name: &str| ToolName::new(name).unwrap();
        let found = joined.definitions(&[name("c"), name("a")]).unwrap();
        let found: Vec<_> =
            found.iter().map(|tool| (tool.name.as_str(), tool.description.as_str())).collect();
        assert_eq!(found, [("c", "c"), ("a", "a")]);
        let call = |tool: &str| ToolCall { id: "1".into(), name: name(tool), arguments: String::new() };
        for (tool, expected) in
            [("a", Ok("a")), ("c", Ok("c")), ("d", Err("there is no tool `d` (expected one of a, b, c, a)"))]
        {
            let actual = joined.call(&call(tool)).now_or_never().unwrap();
            let expected = match expected {
                Ok(text) => ToolResult::answer(&call(tool), text),
                Err(text) => ToolResult::error(&call(tool), text),
            };
            assert_eq!(actual, expected);
        }
        assert_eq!(joined.prepare(&[]).now_or_never().unwrap().ok(), Some(4));
    }
}
