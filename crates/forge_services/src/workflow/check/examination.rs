//! All that is wrong with a workflow, not only what is met first.

use std::collections::BTreeMap;

use forge_domain::Workflow;

use super::super::layers::{merge_layers, misplaced_keys};
use super::super::{Finding, Flags, Layers, Source, WorkflowError, reader};
use super::secrets::secrets_in;

/// The faults of the layers themselves, and the workflow that the rest of them forms.
#[derive(Clone, Debug)]
pub struct Examination {
    /// The workflow without what was refused.
    pub workflow: Workflow,
    /// All that is wrong, in the order of the layers and in them in the order of their lines.
    pub faults: Vec<WorkflowError>,
    /// The paths of what was refused, and is missing from the workflow.
    refused: Vec<String>,
}

/// Reads all layers, past what is wrong in them.
pub fn examine(layers: &Layers) -> Examination {
    let mut faults = Vec::new();
    let mut read = |source: &Source| {
        let (workflow, found) = reader::read_on(source);
        faults.extend(found);
        Ok(workflow)
    };
    let workflow = match merge_layers(layers, &mut read) {
        Ok(workflow) => workflow,
        Err(fault) => {
            // What the environment and the command line say cannot be passed over in part.
            let files = Layers { environment: BTreeMap::new(), flags: Flags::default(), ..layers.clone() };
            let mut examined = examine(&files);
            examined.faults.push(fault);
            return examined;
        }
    };
    let refused = faults.iter().map(|fault| fault.path.to_string()).collect();
    for secret in layers.files().flat_map(secrets_in) {
        // A key that is none is told already, and its hint leads to the variable.
        if !faults.iter().any(|fault| is_about_the_same(fault, &secret)) {
            faults.push(secret);
        }
    }
    let misplaced = misplaced_keys(layers, &workflow).unwrap_or_default();
    faults.extend(layers.point_at_all(&misplaced));
    in_order(&mut faults, layers);
    Examination { workflow, faults, refused }
}

/// Returns the secrets in the project's file, each as the fault that [`examine`] reports.
pub fn project_secrets(layers: &Layers) -> Vec<WorkflowError> {
    layers.project.iter().flat_map(secrets_in).collect()
}

impl Examination {
    /// Adds `findings` about the workflow, but for those that only say that something is missing which was
    /// refused.
    #[must_use]
    pub fn with_findings(mut self, findings: impl IntoIterator<Item = Finding>, layers: &Layers) -> Self {
        let is_told = |finding: &Finding| {
            self.refused
                .iter()
                .any(|refused| is_within(refused, &finding.path) || is_within(&finding.path, refused))
        };
        let news: Vec<_> = findings.into_iter().filter(|finding| !is_told(finding)).collect();
        self.faults.extend(layers.point_at_all(&news));
        in_order(&mut self.faults, layers);
        self
    }
}

fn is_about_the_same(fault: &WorkflowError, other: &WorkflowError) -> bool {
    fault.source_name == other.source_name && (fault.path == other.path || fault.position == other.position)
}

/// Checks whether `path` is `outer` or below it.
fn is_within(path: &str, outer: &str) -> bool {
    path.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

fn in_order(faults: &mut Vec<WorkflowError>, layers: &Layers) {
    let files: Vec<&str> = layers.files().map(|source| source.name.as_str()).collect();
    let rank = |fault: &WorkflowError| files.iter().position(|name| *name == &*fault.source_name);
    faults.sort_by_key(|fault| (rank(fault).unwrap_or(files.len()), fault.position));
    faults.dedup();
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn check(yaml: &str, expected: &[&str]) {
        let layers = Layers { project: Some(Source::new("f", yaml)), ..Layers::default() };
        let actual: Vec<_> = examine(&layers)
            .faults
            .iter()
            .map(|fault| {
                let text = fault.to_string();
                let mut lines = text.lines();
                let what = lines.next().unwrap_or_default();
                let place = lines.next().and_then(|line| line.strip_prefix("  --> ")).unwrap_or_default();
                format!("{place}: {what}")
            })
            .collect();
        assert_eq!(actual, expected, "{yaml}");
    }

    #[test]
    fn one_fault_does_not_hide_another() {
        check("agents: { a: { model: m } }\n", &[]);
        check(
            "counting: rough\nagents:\n  a: { modell: m, top_p: 7, max_turns: 0 }\n  b: { compact: { min_reduction: 3 } }\n",
            &[
                "f:1:11: counting: unknown counting `rough`",
                "f:3:8: agents.a.modell: unknown field `modell`",
                "f:3:26: agents.a.top_p: invalid top_p 7 (expected a number above 0 and at most 1)",
                "f:3:40: agents.a.max_turns: expected a whole number from 1, found `0`",
                "f:4:34: agents.b.compact.min_reduction: invalid percentage '3' (expected a whole number \
                 from 1% to 100%)",
            ],
        );
        check(
            "agents:\n  - id: a\n    tools: [x, '', y, '']\n  - model: m\n  - id: a\n    colour: red\n",
            &[
                "f:3:16: agents.a.tools[1]: a tool's name must not be empty",
                "f:3:23: agents.a.tools[3]: a tool's name must not be empty",
                "f:4:5: agents[1]: `id` is missing",
                "f:5:9: agents.a.id: there are two agents `a`",
                "f:6:5: agents.a.colour: unknown field `colour`",
            ],
        );
        check(
            "hooks:\n  pre_compact:\n    - { timeout: 1s }\n    - { command: '' }\n    - { command: a, timeout: 3 }\nagents: []\n",
            &[
                "f:3:7: hooks.pre_compact[0]: `command` is missing",
                "f:4:18: hooks.pre_compact[1].command: a command must not be empty",
                "f:5:30: hooks.pre_compact[2].timeout: invalid time limit '3' (expected a number with a \
                 unit, such as 10s or 2m, at most 10m)",
            ],
        );
        check(
            "agents:\n  a: &a { top_p: 9, max_turns: x }\n  b: { <<: *a, colour: 1 }\n",
            &[
                "f:2:18: agents.a.top_p: invalid top_p 9 (expected a number above 0 and at most 1)",
                "f:2:32: agents.a.max_turns: expected a whole number that is not negative, found `x`",
                "f:2:32: agents.b.max_turns: expected a whole number that is not negative, found something else",
                "f:3:6: agents.b.top_p: invalid top_p 9 (expected a number above 0 and at most 1)",
                "f:3:16: agents.b.colour: unknown field `colour`",
            ],
        );
        check(
            "agents:\n  a:\n    model: m\n    model: n\n    top_p: 3\n    top_p: 1\ncounting: x\n",
            &[
                "f:4:5: agents.a.model: duplicate key `model`",
                "f:5:12: agents.a.top_p: invalid top_p 3 (expected a number above 0 and at most 1)",
                "f:6:5: agents.a.top_p: duplicate key `top_p`",
                "f:7:11: counting: unknown counting `x`",
            ],
        );
        // After a syntax error nothing is known.
        check(
            "agents: { a: { top_p: 3 }, b: {model: b\n",
            &[
                "f:1:23: agents.a.top_p: invalid top_p 3 (expected a number above 0 and at most 1)",
                "f:1:31: agents.b: unclosed bracket '{'",
            ],
        );
        check("- 1\n", &["f:1:1: expected a mapping, found a list"]);
    }

    #[test]
    fn what_is_missing_because_it_was_refused_is_not_told_again() {
        let yaml = "agents: { a: { model: [] }, ab: {} }\n";
        let layers = Layers { project: Some(Source::new("f", yaml)), ..Layers::default() };
        let finding = |path: &str| Finding { path: path.to_owned(), what: "no model".to_owned(), hint: None };
        let actual = examine(&layers).with_findings([finding("agents.a"), finding("agents.ab")], &layers);
        let actual: Vec<_> = actual.faults.iter().map(|fault| (&*fault.path, &*fault.what)).collect();
        assert_eq!(
            actual,
            [
                ("agents.a.model", "expected a string, found a list"),
                (
                    "agents.ab",
                    "no \
             model"
                )
            ]
        );
    }

    #[test]
    fn a_flag_at_fault_does_not_hide_the_files() {
        let flags = Flags { model: Some(" ".to_owned()), ..Flags::default() };
        let layers = Layers { project: Some(Source::new("f", "colour: red\n")), flags, ..Layers::default() };
        let actual: Vec<_> = examine(&layers).faults.iter().map(|fault| fault.what.to_string()).collect();
        assert_eq!(actual, ["unknown field `colour`", "a model's id must not be empty"]);
    }
}
