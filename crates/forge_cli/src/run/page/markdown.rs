//! Markdown as HTML, in which nothing of the text is a tag, an address to follow or a picture to load.

use pulldown_cmark::{CodeBlockKind, Event, HeadingLevel, Options, Parser, Tag, TagEnd};

use super::escape::escape_html;

/// Returns `text` as HTML.
pub(super) fn markdown(text: &str) -> String {
    let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let mut html = String::new();
    let mut in_head = false;
    for event in Parser::new_ext(text, options) {
        match event {
            Event::Text(text) | Event::Html(text) | Event::InlineHtml(text) => html += &escape_html(&text),
            Event::Code(code) | Event::InlineMath(code) | Event::DisplayMath(code) => {
                html += &format!("<code>{}</code>", escape_html(&code));
            }
            Event::SoftBreak => html += "\n",
            Event::HardBreak => html += "<br>\n",
            Event::Rule => html += "<hr>\n",
            Event::FootnoteReference(name) => html += &escape_html(&format!("[^{name}]")),
            Event::TaskListMarker(is_done) => html += if is_done { "☑ " } else { "☐ " },
            Event::Start(tag) => {
                in_head |= matches!(tag, Tag::TableHead);
                html += &opening(&tag, in_head);
            }
            Event::End(tag) => {
                html += closing(tag, in_head);
                in_head &= tag != TagEnd::TableHead;
            }
        }
    }
    html
}

/// Returns what begins a part. An address is shown after its text, and followed by nobody by accident.
fn opening(tag: &Tag<'_>, in_head: bool) -> String {
    match tag {
        Tag::Paragraph => "<p>".to_owned(),
        Tag::Heading { level, .. } => format!("<p><b>{} ", "#".repeat(depth(*level))),
        Tag::BlockQuote(_) => "<blockquote>".to_owned(),
        Tag::CodeBlock(kind) => {
            let language = match kind {
                CodeBlockKind::Fenced(language) if !language.is_empty() => {
                    format!(" title=\"{}\"", escape_html(language))
                }
                _ => String::new(),
            };
            format!("<pre{language}><code>")
        }
        Tag::List(Some(start)) => format!("<ol start=\"{start}\">\n"),
        Tag::List(None) => "<ul>\n".to_owned(),
        Tag::Item => "<li>".to_owned(),
        Tag::Table(_) => "<table>\n".to_owned(),
        Tag::TableHead | Tag::TableRow => "<tr>".to_owned(),
        Tag::TableCell if in_head => "<th>".to_owned(),
        Tag::TableCell => "<td>".to_owned(),
        Tag::Emphasis => "<em>".to_owned(),
        Tag::Strong => "<strong>".to_owned(),
        Tag::Strikethrough => "<s>".to_owned(),
        Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. } => {
            format!("<span class=\"url\">({})</span> ", escape_html(dest_url))
        }
        _ => String::new(),
    }
}

const fn closing(tag: TagEnd, in_head: bool) -> &'static str {
    match tag {
        TagEnd::Paragraph => "</p>\n",
        TagEnd::Heading(_) => "</b></p>\n",
        TagEnd::BlockQuote(_) => "</blockquote>\n",
        TagEnd::CodeBlock => "</code></pre>\n",
        TagEnd::List(true) => "</ol>\n",
        TagEnd::List(false) => "</ul>\n",
        TagEnd::Item => "</li>\n",
        TagEnd::Table => "</table>\n",
        TagEnd::TableHead | TagEnd::TableRow => "</tr>\n",
        TagEnd::TableCell if in_head => "</th>",
        TagEnd::TableCell => "</td>",
        TagEnd::Emphasis => "</em>",
        TagEnd::Strong => "</strong>",
        TagEnd::Strikethrough => "</s>",
        _ => "",
    }
}

const fn depth(level: HeadingLevel) -> usize {
    level as usize
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn text_is_never_a_tag() {
        for (text, expected) in [
            ("a *b* `c<`", "<p>a <em>b</em> <code>c&lt;</code></p>\n"),
            ("<script>alert(1)</script>", "&lt;script&gt;alert(1)&lt;/script&gt;"),
            ("x <img src=y onerror=z>", "<p>x &lt;img src=y onerror=z&gt;</p>\n"),
            ("[a](javascript:alert(1))", "<p><span class=\"url\">(javascript:alert(1))</span> a</p>\n"),
            ("![a](http://x/\"y)", "<p><span class=\"url\">(http://x/&quot;y)</span> a</p>\n"),
            ("```a\"b\n</code>\n```", "<pre title=\"a&quot;b\"><code>&lt;/code&gt;\n</code></pre>\n"),
            ("# T\n\n1. x", "<p><b># T</b></p>\n<ol start=\"1\">\n<li>x</li>\n</ol>\n"),
            ("|a|\n|-|\n|<b>|", "<table>\n<tr><th>a</th></tr>\n<tr><td>&lt;b&gt;</td></tr>\n</table>\n"),
            ("a\u{202e}b", "<p>a\\u{202e}b</p>\n"),
        ] {
            assert_eq!(markdown(text), expected, "{text}");
        }
    }
}
