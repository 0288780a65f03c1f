//! Bounds on templates: how deep they nest, how many steps they take and how much they write. A few lines of
//! nested `{{#each}}` would otherwise run for hours, and a deep nest end the process.

use std::cell::Cell;
use std::io;

use handlebars::template::TemplateElement;
use handlebars::{
    Context, Handlebars, Helper, HelperResult, Output, RenderContext, RenderError, RenderErrorReason,
    Renderable, Template,
};

/// Deepest nest of blocks, and of subexpressions in one expression.
const MOST_DEPTH: usize = 100;
/// Most `{{else}}` in one template: each `{{else if}}` nests in the one before.
const MOST_ELSE: usize = 1_000;
/// Most bodies of blocks that are entered in one rendering.
pub(crate) const MOST_STEPS: usize = 2_000_000;
/// Most bytes that a template writes beyond what its data hold.
pub(crate) const MOST_BYTES: usize = 64 << 20;
/// The helper that counts a step; a name that no one would write.
const STEP: &str = "__forge_step";

thread_local! {
    /// The steps of the rendering that this thread is at: helpers have no other place to count in.
    static STEPS: Cell<usize> = const { Cell::new(0) };
}

/// Adds what [`render`] needs to `registry`.
pub(crate) fn register(registry: &mut Handlebars<'_>) {
    registry.register_helper(STEP, Box::new(count_step));
}

fn count_step<'reg, 'rc>(
    _: &Helper<'rc>,
    _: &'reg Handlebars<'reg>,
    _: &'rc Context,
    _: &mut RenderContext<'reg, 'rc>,
    _: &mut dyn Output,
) -> HelperResult {
    let steps = STEPS.get() + 1;
    STEPS.set(steps);
    if steps <= MOST_STEPS {
        return Ok(());
    }
    let what = format!("its blocks run more than {MOST_STEPS} times: nest fewer `{{{{#each}}}}`");
    Err(RenderErrorReason::Other(what).into())
}

/// Returns the reason why `text` is nested too deeply to be parsed, with its line and column.
pub(crate) fn depth_fault(text: &str) -> Option<(usize, usize, String)> {
    let (mut blocks, mut n_else, mut at) = (0_usize, 0, 0);
    while let Some(found) = text[at..].find("{{") {
        let open = at + found;
        let inside = text[open..].trim_start_matches('{').trim_start_matches('~').trim_start();
        let end = text[open..].find("}}").map_or(text.len(), |end| open + end);
        match inside.as_bytes().first() {
            Some(b'#') => blocks += 1,
            Some(b'/') => blocks = blocks.saturating_sub(1),
            _ => n_else += usize::from(inside.starts_with("else")),
        }
        let parentheses = text[open..end].bytes().filter(|byte| matches!(byte, b'(' | b'[')).count();
        let fault = if blocks > MOST_DEPTH {
            Some(format!("blocks are nested more than {MOST_DEPTH} deep"))
        } else if parentheses > MOST_DEPTH {
            Some(format!("more than {MOST_DEPTH} parentheses are nested in one expression"))
        } else {
            (n_else > MOST_ELSE).then(|| format!("there are more than {MOST_ELSE} `{{{{else}}}}`"))
        };
        if let Some(what) = fault {
            let line = text[..open].matches('\n').count() + 1;
            let column = text[..open].rsplit('\n').next().unwrap_or_default().chars().count() + 1;
            return Some((line, column, what));
        }
        at = (open + 2).max(end.min(text.len()));
    }
    None
}

/// Renders `template` within the bounds; `most_bytes` is what it may write.
pub(crate) fn render(
    registry: &Handlebars<'_>,
    mut template: Template,
    data: &serde_json::Value,
    most_bytes: usize,
) -> Result<String, RenderError> {
    let step = Template::compile(&format!("{{{{{STEP}}}}}"))?.elements.into_iter().next();
    if let Some(step) = step {
        count_steps(&mut template, &step);
    }
    STEPS.set(0);
    let context = Context::wraps(data)?;
    let mut out = BoundedOutput { text: String::new(), most_bytes };
    template.render(registry, &context, &mut RenderContext::new(None), &mut out)?;
    Ok(out.text)
}

/// Puts `step` into the body of each block.
fn count_steps(template: &mut Template, step: &TemplateElement) {
    for element in &mut template.elements {
        let bodies = match element {
            TemplateElement::HelperBlock(block)
            | TemplateElement::Expression(block)
            | TemplateElement::HtmlExpression(block) => [block.template.as_mut(), block.inverse.as_mut()],
            TemplateElement::DecoratorBlock(block)
            | TemplateElement::PartialBlock(block)
            | TemplateElement::DecoratorExpression(block)
            | TemplateElement::PartialExpression(block) => [block.template.as_mut(), None],
            // Texts and comments have no body.
            _ => continue,
        };
        for body in bodies.into_iter().flatten() {
            count_steps(body, step);
            // At the end, so that the places of the others in errors stay what they are.
            body.elements.push(step.clone());
        }
    }
}

/// A text that grows up to a bound.
struct BoundedOutput {
    text: String,
    most_bytes: usize,
}

impl Output for BoundedOutput {
    fn write(&mut self, segment: &str) -> io::Result<()> {
        if self.text.len() + segment.len() > self.most_bytes {
            let most = self.most_bytes >> 20;
            return Err(io::Error::other(format!("its output exceeds {most} MiB: repeat less in it")));
        }
        self.text.push_str(segment);
        Ok(())
    }
}

/// Checks whether an inline partial names a partial: it could name itself, and never end.
pub(crate) fn has_nested_partial(template: &Template) -> bool {
    any_element(template, &|element| match element {
        TemplateElement::DecoratorBlock(block) => block.template.as_ref().is_some_and(|body| {
            any_element(body, &|element| {
                matches!(element, TemplateElement::PartialExpression(_) | TemplateElement::PartialBlock(_))
            })
        }),
        _ => false,
    })
}

fn any_element(template: &Template, holds: &dyn Fn(&TemplateElement) -> bool) -> bool {
    template.elements.iter().any(|element| {
        let bodies = match element {
            TemplateElement::HelperBlock(block) => [block.template.as_ref(), block.inverse.as_ref()],
            TemplateElement::DecoratorBlock(block) | TemplateElement::PartialBlock(block) => {
                [block.template.as_ref(), None]
            }
            _ => [None, None],
        };
        holds(element) || bodies.into_iter().flatten().any(|body| any_element(body, holds))
    })
}
