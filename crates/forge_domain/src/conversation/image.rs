//! Images that a user attaches to a message, or that a tool shows.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use imagesize::{ImageSize, ImageType};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{Body, Content, Message, Part};

/// The most bytes of an image: in base64 they are 5 MiB, the most that Anthropic accepts of one.
pub const MOST_IMAGE_BYTES: usize = 5 * 1_024 * 1_024 / 4 * 3;
/// The most pixels of a side, which is the most that Anthropic accepts.
const MOST_PIXELS: usize = 8_000;
/// The most images that a user can attach to one message.
pub const MOST_IMAGES: usize = 20;
/// The longest name of an image that a model is shown, in characters.
const LONGEST_NAME: usize = 100;

/// An image, small enough for every provider.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Image {
    /// The name of its file, as the user or the model wrote it.
    name: String,
    /// Its media type, such as `image/png`.
    media_type: String,
    width: usize,
    height: usize,
    /// Its bytes, in base64.
    data: String,
}

/// The reason why bytes are not an image that can be sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImageError {
    /// It is not in a format that models read.
    #[error("`{name}` is not an image that models read (expected PNG, JPEG, GIF or WebP)")]
    Format {
        /// The name of the file.
        name: String,
    },
    /// It has too many bytes.
    #[error(
        "the image `{name}` is too large: {} MiB (expected at most {} MiB); make it smaller",
        mib(*n_bytes),
        mib(MOST_IMAGE_BYTES as u64)
    )]
    Bytes {
        /// The name of the file.
        name: String,
        /// Its bytes.
        n_bytes: u64,
    },
    /// It has too many pixels.
    #[error(
        "the image `{name}` is too large: {width} × {height} pixels (expected at most {MOST_PIXELS} a side); \
         make it smaller"
    )]
    Pixels {
        /// The name of the file.
        name: String,
        /// Its width.
        width: usize,
        /// Its height.
        height: usize,
    },
}

/// Returns bytes as MiB with one or two decimals.
fn mib(n_bytes: u64) -> String {
    let mib = n_bytes as f64 / (1_024.0 * 1_024.0);
    let text = format!("{mib:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

impl Image {
    /// Reads the bytes of an image file. Its format is found by its first bytes, not by its name.
    ///
    /// # Errors
    /// [`ImageError`] if it is not an image, or if it is too large for a provider.
    pub fn read(name: impl Into<String>, bytes: &[u8]) -> Result<Self, ImageError> {
        let name = name.into();
        let Some(media_type) = image_type(bytes) else { return Err(ImageError::Format { name }) };
        if bytes.len() > MOST_IMAGE_BYTES {
            return Err(ImageError::Bytes { name, n_bytes: bytes.len() as u64 });
        }
        let Ok(ImageSize { width, height }) = imagesize::blob_size(bytes) else {
            return Err(ImageError::Format { name });
        };
        if width == 0 || height == 0 {
            return Err(ImageError::Format { name });
        }
        if width.max(height) > MOST_PIXELS {
            return Err(ImageError::Pixels { name, width, height });
        }
        let data = STANDARD.encode(bytes);
        Ok(Self { name, media_type: media_type.to_owned(), width, height, data })
    }

    /// Reads an image whose bytes are written in base64.
    ///
    /// # Errors
    /// [`ImageError`] as of [`Self::read`]; text that is not base64 is not an image.
    pub fn read_base64(name: impl Into<String>, data: &str) -> Result<Self, ImageError> {
        let name = name.into();
        match STANDARD.decode(data) {
            Ok(bytes) => Self::read(name, &bytes),
            Err(_) => Err(ImageError::Format { name }),
        }
    }

    /// Returns the parts of a content that show it: its name and size in words, and the image.
    pub fn parts(&self) -> [Part; 2] {
        // The name is a text of others: it can end neither its line nor the brackets.
        let is_odd = |c: char| c.is_control() || matches!(c, '[' | ']' | '\u{2028}' | '\u{2029}');
        let name: String =
            self.name.chars().take(LONGEST_NAME).map(|c| if is_odd(c) { '_' } else { c }).collect();
        let words = format!("[image {name}, {} × {} pixels]", self.width, self.height);
        let url = format!("data:{};base64,{}", self.media_type, self.data);
        // The form that every codec converts. `high` is what servers take it for, and says that it counts as
        // much as any of them would charge.
        let media = json!({"type": "image_url", "image_url": {"url": url, "detail": "high"}});
        [Part::Text(words), Part::Media(media)]
    }
}

/// Returns the media type of an image that models read, by its first bytes.
pub fn image_type(bytes: &[u8]) -> Option<&'static str> {
    match imagesize::image_type(bytes).ok()? {
        ImageType::Png => Some("image/png"),
        ImageType::Jpeg => Some("image/jpeg"),
        ImageType::Gif => Some("image/gif"),
        ImageType::Webp => Some("image/webp"),
        _ => None,
    }
}

/// Checks whether a part that is not text is an image, in any protocol's form.
pub fn is_image(part: &Value) -> bool {
    let inline = part.get("inlineData").or_else(|| part.get("inline_data"));
    let media_type = inline.and_then(|inline| inline.get("mimeType").or_else(|| inline.get("mime_type")));
    match part.get("type").and_then(Value::as_str) {
        Some(kind) => matches!(kind, "image_url" | "image" | "input_image"),
        None => media_type.and_then(Value::as_str).is_some_and(|kind| kind.starts_with("image/")),
    }
}

impl Content {
    /// Checks whether an image is among its parts.
    pub fn has_images(&self) -> bool {
        match self {
            Self::Text(_) => false,
            Self::Parts(parts) => parts.iter().any(|part| matches!(part, Part::Media(raw) if is_image(raw))),
        }
    }

    /// Returns it with `words` in place of each image.
    #[must_use]
    pub fn without_images(&self, words: &str) -> Self {
        let Self::Parts(parts) = self else { return self.clone() };
        let part = |part: &Part| match part {
            Part::Media(raw) if is_image(raw) => Part::Text(words.to_owned()),
            part => part.clone(),
        };
        Self::Parts(parts.iter().map(part).collect())
    }
}

impl Message {
    /// Creates a user message with `images` after its text.
    pub fn showing(text: impl Into<String>, images: &[Image]) -> Self {
        let text = text.into();
        if images.is_empty() {
            return Self::user(text);
        }
        let said = (!text.trim().is_empty()).then_some(Part::Text(text));
        Self::user(Content::Parts(said.into_iter().chain(images.iter().flat_map(Image::parts)).collect()))
    }

    /// Checks whether an image is in it: of the user's, or of a tool's.
    pub fn has_images(&self) -> bool {
        match &self.body {
            Body::User(content) => content.has_images(),
            Body::Tool(result) => result.content.has_images(),
            Body::System(_) | Body::Assistant { .. } => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    /// Returns the first bytes of a PNG of that size.
    fn png(width: u32, height: u32) -> Vec<u8> {
        let mut bytes = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".to_vec();
        bytes.extend(width.to_be_bytes());
        bytes.extend(height.to_be_bytes());
        bytes
    }

    #[test]
    fn an_image_that_no_provider_accepts_is_refused() {
        let mut large = png(10, 10);
        large.resize(MOST_IMAGE_BYTES + 1, 0);
        let mut just_right = large.clone();
        just_right.pop();
        for (bytes, expected) in [
            (png(800, 600), Ok("[image a.png, 800 × 600 pixels]")),
            (just_right, Ok("[image a.png, 10 × 10 pixels]")),
            (
                large,
                Err("the image `a.png` is too large: 3.75 MiB (expected at most 3.75 MiB); make it smaller"),
            ),
            (
                png(8_001, 5),
                Err(
                    "the image `a.png` is too large: 8001 × 5 pixels (expected at most 8000 a side); make it smaller",
                ),
            ),
            (
                b"%PDF-1.7 and more text".to_vec(),
                Err("`a.png` is not an image that models read (expected PNG, JPEG, GIF or WebP)"),
            ),
            (
                b"\x89PNG\r\n\x1a\n".to_vec(),
                Err("`a.png` is not an image that models read (expected PNG, JPEG, GIF or WebP)"),
            ),
            (png(0, 5), Err("`a.png` is not an image that models read (expected PNG, JPEG, GIF or WebP)")),
            (Vec::new(), Err("`a.png` is not an image that models read (expected PNG, JPEG, GIF or WebP)")),
        ] {
            let actual = Image::read("a.png", &bytes).map(|image| image.parts());
            let actual = actual.as_ref().map(|[words, _]| words.clone()).map_err(ToString::to_string);
            let expected = expected.map(|words| Part::Text(words.to_owned())).map_err(str::to_owned);
            assert_eq!(actual, expected);
        }
    }

    #[test]
    fn images_stand_after_the_text_and_words_can_take_their_place() {
        let image = Image::read("a]\nb.png", &png(2, 3)).unwrap();
        let message = Message::showing("What is this?", std::slice::from_ref(&image));
        assert_eq!(message.to_text(), "What is this?\n[image a__b.png, 2 × 3 pixels]");
        assert!(message.has_images());
        let bare = message.content().unwrap().without_images("[gone]");
        assert_eq!(bare.to_text(), "What is this?\n[image a__b.png, 2 × 3 pixels]\n[gone]");
        assert!(!bare.has_images());
        assert_eq!(Message::showing(" ", &[image]).to_text(), "[image a__b.png, 2 × 3 pixels]");
        assert_eq!(Message::showing("hi", &[]), Message::user("hi"));
    }

    #[test]
    fn an_image_is_one_in_every_protocol() {
        for (part, expected) in [
            (json!({"type": "image_url", "image_url": {"url": "u"}}), true),
            (json!({"type": "image", "source": {}}), true),
            (json!({"type": "input_image", "image_url": "u"}), true),
            (json!({"inlineData": {"mimeType": "image/png", "data": ""}}), true),
            (json!({"inlineData": {"mimeType": "audio/wav", "data": ""}}), false),
            (json!({"type": "input_audio"}), false),
            (json!({"type": "document", "source": {}}), false),
            (json!(null), false),
        ] {
            assert_eq!(is_image(&part), expected, "{part}");
        }
    }
}
