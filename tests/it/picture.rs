//! The picture of a terminal's screen, as SVG.

use std::fmt::Write as _;

use vt100::{Cell, Color, Screen};

/// The width of a character and the height of a line, in pixels.
const CELL: (f32, f32) = (8.4, 18.0);
/// The margin around the screen.
const MARGIN: f32 = 12.0;
/// The sixteen colours of a terminal.
const COLOURS: [&str; 16] = [
    "#1e2227", "#e06c75", "#8cc265", "#d9a441", "#5aa9e6", "#c678dd", "#4fb8c4", "#d5d9e0", "#8a919c",
    "#ff7b86", "#a5e075", "#f0c060", "#79bdf2", "#de8ef0", "#6fd3de", "#ffffff",
];
const PAPER: &str = "#16191d";
const INK: &str = "#d5d9e0";

/// The look of a run of characters.
#[derive(Clone, PartialEq)]
struct Look {
    ink: String,
    paper: Option<String>,
    is_bold: bool,
    is_dim: bool,
    is_italic: bool,
}

/// Draws the screen as it is now; rows below the last text are left out.
pub(crate) fn svg(screen: &Screen, title: &str) -> String {
    let columns = screen.size().1.get();
    let n_rows = screen.contents().trim_end().lines().count().max(1);
    let (width, height) = (f32::from(columns) * CELL.0 + 2.0 * MARGIN, n_rows as f32 * CELL.1 + 2.0 * MARGIN);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" role=\"img\" \
         font-family=\"ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace\" font-size=\"14\">\n\
         <title>{}</title>\n<rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"{PAPER}\"/>\n",
        escaped(title)
    );
    for row in 0..n_rows as u16 {
        let mut column = 0;
        while column < columns {
            let (look, start, mut text) = (look_at(screen.cell(row, column)), column, String::new());
            while column < columns && look_at(screen.cell(row, column)) == look {
                if let Some(cell) = screen.cell(row, column).filter(|cell| !cell.is_wide_continuation()) {
                    text += if cell.has_contents() { cell.contents() } else { " " };
                }
                column += 1;
            }
            draw(&mut svg, &look, (row, start, column), &text);
        }
    }
    svg + "</svg>\n"
}

/// Draws a run of characters: its row, and its columns.
fn draw(svg: &mut String, look: &Look, (row, start, end): (u16, u16, u16), text: &str) {
    let (x, y) = (MARGIN + f32::from(start) * CELL.0, MARGIN + f32::from(row) * CELL.1);
    let width = f32::from(end - start) * CELL.0;
    if let Some(paper) = &look.paper {
        let _ = writeln!(
            svg,
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{}\" fill=\"{paper}\"/>",
            CELL.1
        );
    }
    let before = (text.len() - text.trim_start().len()) as f32;
    let after = (text.len() - text.trim_end().len()) as f32;
    let text = text.trim();
    if text.is_empty() {
        return;
    }
    let x = x + before * CELL.0;
    // The width is set, since fonts differ.
    let length = width - (before + after) * CELL.0;
    let weight = if look.is_bold { " font-weight=\"bold\"" } else { "" };
    let slant = if look.is_italic { " font-style=\"italic\"" } else { "" };
    let dim = if look.is_dim { " opacity=\"0.6\"" } else { "" };
    let (ink, y) = (&look.ink, y + 13.5);
    let _ = writeln!(
        svg,
        "<text x=\"{x:.1}\" y=\"{y:.1}\" textLength=\"{length:.1}\" lengthAdjust=\"spacingAndGlyphs\" \
         xml:space=\"preserve\" fill=\"{ink}\"{weight}{slant}{dim}>{}</text>",
        escaped(text)
    );
}

fn look_at(cell: Option<&Cell>) -> Look {
    let Some(cell) = cell else {
        return Look { ink: INK.into(), paper: None, is_bold: false, is_dim: false, is_italic: false };
    };
    let (ink, paper) = (colour(cell.fgcolor()), colour(cell.bgcolor()));
    let (ink, paper) = if cell.inverse() {
        (paper.unwrap_or_else(|| PAPER.into()), Some(ink.unwrap_or_else(|| INK.into())))
    } else {
        (ink.unwrap_or_else(|| INK.into()), paper)
    };
    Look { ink, paper, is_bold: cell.bold(), is_dim: cell.dim(), is_italic: cell.italic() }
}

fn colour(colour: Color) -> Option<String> {
    match colour {
        Color::Default => None,
        Color::Idx(n) if n < 16 => Some(COLOURS[usize::from(n)].to_owned()),
        Color::Idx(n) if n >= 232 => {
            let level = 8 + 10 * (u32::from(n) - 232);
            Some(format!("#{level:02x}{level:02x}{level:02x}"))
        }
        Color::Idx(n) => {
            let level = |n: u32| if n == 0 { 0 } else { 55 + 40 * n };
            let n = u32::from(n) - 16;
            Some(format!("#{:02x}{:02x}{:02x}", level(n / 36), level(n / 6 % 6), level(n % 6)))
        }
        Color::Rgb(red, green, blue) => Some(format!("#{red:02x}{green:02x}{blue:02x}")),
    }
}

/// Escapes text for XML.
pub(crate) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
