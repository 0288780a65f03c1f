//! Checks of the rules for calls. A rule that never applies leaves a call free that it seems to deny, so it
//! is refused, unless it may be about something that only a run shows.

use forge_domain::{
    ForeignRule, MCP_SEPARATOR, Permission, PermissionRule, Permissions, RuleLayer, SECRETS, ToolName,
    Workflow, is_star_match,
};
use forge_services::workflow::Finding;

use super::unknown_tool;
use crate::{RECALL, Services};

/// The tool whose patterns are commands.
const SHELL: &str = "shell";

/// Returns the permission rules that can never apply: those of unknown tools, and those that deny or ask in
/// vain; each as a key below `path`.
pub fn unknown_permissions(path: &str, rules: Option<&Permissions>, services: &Services) -> Vec<Finding> {
    let Some(permissions) = rules else { return Vec::new() };
    let rules = permissions.rules();
    let names = permissions.tools().filter(|tool| *tool != SECRETS && *tool != RECALL);
    let mut found: Vec<Finding> =
        names.filter_map(|tool| unknown_name(path, tool, &rules, services)).collect();
    let guards = rules.iter().filter(|rule| rule.permission > Permission::Allow);
    found.extend(guards.filter_map(|rule| about_colon(path, rule)));
    found.extend(overruled(path, &rules));
    found
}

/// Returns the permission rules of a workflow that are probably about nothing.
pub(crate) fn idle_permissions(workflow: &Workflow) -> Vec<Finding> {
    let of_agents = workflow
        .agents
        .iter()
        .map(|agent| (format!("agents.{}.permissions", agent.id), agent.permissions.as_ref()));
    let all = std::iter::once(("permissions".to_owned(), workflow.permissions.as_ref())).chain(of_agents);
    let mut found = Vec::new();
    for (path, permissions) in all {
        let Some(permissions) = permissions else { continue };
        for rule in permissions.rules() {
            // One that denies or asks in vain is refused.
            if rule.permission == Permission::Allow {
                found.extend(about_colon(&path, &rule));
            }
            found.extend(about_no_server(&path, &rule, workflow));
        }
    }
    found
}

/// Returns the finding about a key that is the name of no tool.
fn unknown_name(
    path: &str,
    tool: &str,
    rules: &[PermissionRule<'_>],
    services: &Services,
) -> Option<Finding> {
    let path = format!("{path}.{tool}");
    let is_wild = tool.contains(['*', '?']);
    let (first, behind) = tool.split_once(MCP_SEPARATOR).unwrap_or((tool, ""));
    let is_odd = |c: char| matches!(c, '(' | ')' | ':') || (is_wild && c.is_whitespace());
    if first.contains(is_odd) {
        let strictest = rules.iter().filter(|rule| rule.tool == tool).map(|rule| rule.permission).max();
        let meant = ForeignRule::of_key(tool)
            .and_then(|rule| rule.yaml(strictest.unwrap_or(Permission::Deny)))
            .unwrap_or_else(|| {
                format!("a tool, and below it the pattern, such as `{SHELL}: {{ 'rm *': deny }}`")
            });
        let what = format!("`{tool}` is the name of no tool, so this rule would never apply");
        return Some(Finding { path, what, hint: Some(format!("write {meant}")) });
    }
    if first == "mcp" && !behind.is_empty() && !has_server(&services.workflow, first) {
        let what = format!("`{tool}` is about no tool: `mcp_servers` has no `{first}`");
        // Other agents name a server to mean all of its tools.
        let all = if behind.contains(MCP_SEPARATOR) { "" } else { "__*" };
        return Some(Finding { path, what, hint: Some(format!("write `{behind}{all}`, without `mcp__`")) });
    }
    let is_for_all = rules.iter().filter(|rule| rule.tool == tool).all(is_for_all_folders);
    if is_for_all && !behind.is_empty() && !has_server(&services.workflow, first) {
        return None;
    }
    // A tool with stars may be one of a server that another folder has.
    let before_star = tool.split(['*', '?']).next().unwrap_or_default();
    if is_wild && (before_star.is_empty() || tool.contains(MCP_SEPARATOR)) {
        return None;
    }
    let name = ToolName::new(tool).ok()?;
    let error = services.callable(std::slice::from_ref(&name)).err()?;
    if !is_wild {
        return Some(unknown_tool(path, &error));
    }
    let is_meant = |known: &str| rules.iter().any(|rule| rule.tool == tool && rule.is_about(known));
    let workflow = &services.workflow;
    let is_agent = workflow.agents.iter().any(|agent| is_meant(agent.id.as_str()));
    let is_server = workflow
        .mcp_servers
        .keys()
        .any(|id| format!("{}{MCP_SEPARATOR}", id.as_str()).starts_with(before_star));
    if error.known.split(", ").any(is_meant) || is_meant(RECALL) || is_agent || is_server {
        return None;
    }
    let mut finding = unknown_tool(path, &error);
    let of_server = || format!("for the tools of an MCP server `{before_star}`, write `{before_star}__*`");
    finding.hint.get_or_insert_with(of_server);
    Some(finding)
}

/// Checks whether a rule is the user's own or the administrator's, which may be about a server that another
/// folder has.
const fn is_for_all_folders(rule: &PermissionRule<'_>) -> bool {
    matches!(rule.layer, RuleLayer::System | RuleLayer::User)
}

/// Returns the finding about a rule for the tools of a server that is not there.
fn about_no_server(path: &str, rule: &PermissionRule<'_>, workflow: &Workflow) -> Option<Finding> {
    let (server, _) = rule.tool.split_once(MCP_SEPARATOR)?;
    // `mcp` before the name of a server is refused.
    let is_refused = server == "mcp";
    if is_refused || is_for_all_folders(rule) || !rule.tool.contains('*') || server.contains(['*', '?']) {
        return None;
    }
    let what = format!("`mcp_servers` has no `{server}`, so this is about no tool here");
    let path = format!("{path}.{}", rule.tool);
    (!has_server(workflow, server)).then_some(Finding { path, what, hint: None })
}

fn has_server(workflow: &Workflow, name: &str) -> bool {
    workflow.mcp_servers.keys().any(|id| id.as_str() == name)
}

/// Returns the finding about a pattern for commands that ends as another agent writes it.
fn about_colon(path: &str, rule: &PermissionRule<'_>) -> Option<Finding> {
    let pattern = rule.pattern.filter(|_| rule.tool == SHELL)?;
    let command = pattern.strip_suffix(":*").filter(|command| !command.is_empty())?;
    Some(Finding {
        path: format!("{path}.{SHELL}.{pattern}"),
        what: format!("`{pattern}` is only about commands with a colon there"),
        hint: Some(format!(
            "for `{command}` with any arguments, write '{command} *'; for such names, '{command}:?*'"
        )),
    })
}

/// Returns the findings about rules that deny or ask, and that a later one of the same file overrules whole.
fn overruled(path: &str, rules: &[PermissionRule<'_>]) -> Vec<Finding> {
    let mut found = Vec::new();
    for (at, rule) in rules.iter().enumerate() {
        // The last of those that are about all of it decides.
        let Some(later) = rules[at + 1..].iter().rev().find(|later| covers(later, rule)) else { continue };
        if later.permission < rule.permission {
            let key = rule.pattern.map_or_else(String::new, |pattern| format!(".{pattern}"));
            found.push(Finding {
                path: format!("{path}.{}{key}", rule.tool),
                what: format!("this never applies: the last matching rule wins, and that is {later}"),
                hint: Some("write the rule that is about more before those that are about less".to_owned()),
            });
        }
    }
    found
}

/// Checks whether `later` is about everything that `rule` is about.
fn covers(later: &PermissionRule<'_>, rule: &PermissionRule<'_>) -> bool {
    let is_of_more_tools =
        rule.tool != SECRETS && !later.tool.contains('?') && is_star_match(later.tool, rule.tool);
    let is_of_all = later.pattern.is_none_or(|pattern| pattern == "**" || Some(pattern) == rule.pattern);
    later.layer == rule.layer && is_of_all && (later.tool == rule.tool || is_of_more_tools)
}
