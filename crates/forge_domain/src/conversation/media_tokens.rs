//! The cost of an image, by the rules that providers publish and the size in its own bytes.

use imagesize::ImageSize;
use serde_json::Value;

use crate::Tokens;

/// The cost of a part of unknown kind and size; also the least for any image.
pub(crate) const MEDIA_TOKENS: Tokens = Tokens::new(85);

/// Estimates the tokens of a part that is not text, by the family of providers whose form it has.
///
/// OpenAI (`image_url`): 85 and 170 for each tile of 512 pixels, after it is made to fit 2,048 × 2,048 with a
/// shorter side of at most 768; `detail: low` is 85. Anthropic (`image`): a token for 750 pixels, after it is
/// made to fit 1,568 × 1,568. Gemini (`inlineData`): 258, for each tile of 768 pixels if it is larger than
/// 384 × 384. With `detail: high`, which images have that Forge attached to a message, it is the most of all
/// of these: such an image may be sent to any provider. The size is known if the image is included as PNG,
/// GIF, JPEG or WebP; if there is only its address, and for sounds and files, it is 85.
pub(crate) fn media_tokens(part: &Value) -> Tokens {
    let text = |pointer: &str| part.pointer(pointer).and_then(Value::as_str);
    let low = text("/image_url/detail").or_else(|| text("/detail")) == Some("low");
    let url = text("/image_url/url").or_else(|| text("/image_url")).filter(|_| !low);
    let tokens = if let Some((_, data)) = url.and_then(|url| url.split_once(";base64,")) {
        let is_high = text("/image_url/detail") == Some("high");
        size_of(data).map(if is_high { dearest_tokens } else { openai_tokens })
    } else if let Some(data) = text("/source/data") {
        size_of(data).map(anthropic_tokens)
    } else {
        let data = text("/inlineData/data").or_else(|| text("/inline_data/data"));
        data.and_then(size_of).map(gemini_tokens)
    };
    tokens.map_or(MEDIA_TOKENS, |tokens| Tokens::new(tokens).max(MEDIA_TOKENS))
}

/// A width and height in pixels.
type Size = (u64, u64);

fn openai_tokens(size: Size) -> u64 {
    let (width, height) = within(size, 2_048);
    let shorter = width.min(height);
    let scaled = |side: u64| if shorter > 768 { side * 768 / shorter } else { side };
    85 + 170 * scaled(width).div_ceil(512) * scaled(height).div_ceil(512)
}

fn anthropic_tokens(size: Size) -> u64 {
    let (width, height) = within(size, 1_568);
    (width * height).div_ceil(750)
}

fn gemini_tokens((width, height): Size) -> u64 {
    let tiles = if width <= 384 && height <= 384 { 1 } else { width.div_ceil(768) * height.div_ceil(768) };
    258 * tiles
}

/// Returns the most that any of them would charge.
fn dearest_tokens(size: Size) -> u64 {
    openai_tokens(size).max(anthropic_tokens(size)).max(gemini_tokens(size))
}

/// Returns the size once the longer side is at most `most`, in the same proportions.
fn within((width, height): Size, most: u64) -> Size {
    let longer = width.max(height);
    if longer <= most { (width, height) } else { (width * most / longer, height * most / longer) }
}

/// The bytes of an image that are searched: a camera's notes may come before the size.
const LOOKED_AT: usize = 128 * 1024;

/// Returns the size that an image in base64 contains.
fn size_of(base64: &str) -> Option<Size> {
    let bytes = decode(base64.as_bytes().get(..LOOKED_AT).unwrap_or(base64.as_bytes()));
    let ImageSize { width, height } = imagesize::blob_size(&bytes).ok()?;
    // Above these 14 bits stands a scale for those who show the image.
    let mask = if bytes.get(12..16) == Some(b"VP8 ") { 0x3fff } else { usize::MAX };
    let size = ((width & mask) as u64, (height & mask) as u64);
    // No provider accepts larger ones, and a larger claim is not an image's.
    (1..=1 << 16).contains(&size.0).then_some(size).filter(|size| (1..=1 << 16).contains(&size.1))
}

/// Decodes base64 up to the first character that is not in its alphabet.
fn decode(base64: &[u8]) -> Vec<u8> {
    let value = |character: &u8| match character {
        b'A'..=b'Z' => Some(character - b'A'),
        b'a'..=b'z' => Some(character - b'a' + 26),
        b'0'..=b'9' => Some(character - b'0' + 52),
        b'+' | b'-' => Some(62),
        b'/' | b'_' => Some(63),
        _ => None,
    };
    let values: Vec<u8> = base64.iter().map_while(value).collect();
    let bytes = |four: &[u8]| {
        let bits = four.iter().fold(0_u32, |bits, six| bits << 6 | u32::from(*six)) << (6 * (4 - four.len()));
        bits.to_be_bytes().into_iter().skip(1).take(four.len() * 6 / 8)
    };
    values.chunks(4).flat_map(bytes).collect()
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    /// Returns the first bytes of a PNG of that size, in base64.
    fn png(width: u32, height: u32) -> String {
        let mut bytes = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".to_vec();
        bytes.extend(width.to_be_bytes());
        bytes.extend(height.to_be_bytes());
        encode(&bytes)
    }

    fn encode(bytes: &[u8]) -> String {
        const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let group = |three: &[u8]| {
            let bits = three.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte))
                << (8 * (3 - three.len()));
            (0..=three.len()).map(move |n| ALPHABET[(bits >> (18 - 6 * n) & 63) as usize] as char)
        };
        bytes.chunks(3).flat_map(group).collect()
    }

    #[test]
    fn an_image_costs_what_its_size_says() {
        let url = |data: &str| json!({"type": "image_url", "image_url": {"url": format!("data:image/png;base64,{data}")}});
        let block = |data: &str| json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}});
        let inline = |data: &str| json!({"inlineData": {"mimeType": "image/png", "data": data}});
        let mut low = url(&png(4_000, 4_000));
        low["image_url"]["detail"] = json!("low");
        let high = |data: &str| json!({"type": "image_url", "image_url": {"url": format!("data:image/png;base64,{data}"), "detail": "high"}});
        for (part, expected) in [
            // The examples that the providers' pages give.
            (url(&png(1_024, 1_024)), 765),
            (url(&png(2_048, 4_096)), 1_105),
            (low, 85),
            (high(&png(200, 200)), 258),
            (high(&png(1_024, 1_024)), 1_399),
            (high(&png(512, 1_024)), 700),
            (block(&png(200, 200)), 85),
            (block(&png(1_000, 1_000)), 1_334),
            (block(&png(1_092, 1_092)), 1_590),
            (inline(&png(384, 384)), 258),
            (inline(&png(960, 540)), 516),
            // Of no known size.
            (json!({"type": "image_url", "image_url": {"url": "https://example.test/a.png"}}), 85),
            (json!({"type": "image", "source": {"type": "url", "url": "https://example.test/a.png"}}), 85),
            (url("AA=="), 85),
            (url(""), 85),
            (url(&png(0, 5)), 85),
            (block(&png(u32::MAX, 5)), 85),
            (json!({"type": "input_audio", "input_audio": {"data": "AA"}}), 85),
            (json!(null), 85),
        ] {
            assert_eq!(media_tokens(&part).as_u64(), expected, "{part}");
        }
    }

    #[test]
    fn every_kind_of_image_tells_its_size() {
        let mut jpeg = vec![0xff, 0xd8, 0xff, 0xe1, 0x00, 0x06, 1, 2, 3, 4, 0xff, 0xc2, 0x00, 0x11, 8];
        jpeg.extend([0x01, 0x2c, 0x02, 0x80, 3]);
        let webp = |kind: &[u8], rest: &[u8]| [b"RIFF\0\0\0\0WEBP", kind, b"\0\0\0\0", rest].concat();
        for (bytes, expected) in [
            (jpeg, Some((640, 300))),
            (b"GIF89a\x80\x02\x2c\x01\0\0\0".to_vec(), Some((640, 300))),
            (webp(b"VP8 ", b"\0\0\0\x9d\x01\x2a\x80\x02\x2c\x01"), Some((640, 300))),
            (webp(b"VP8 ", b"\0\0\0\x9d\x01\x2a\x80\x42\x2c\x81"), Some((640, 300))),
            (webp(b"VP8X", &[0, 0, 0, 0, 0x7f, 2, 0, 0x2b, 1, 0]), Some((640, 300))),
            (webp(b"VP8L", &[0x2f, 0x7f, 0xc2, 0x4a, 0]), Some((640, 300))),
            (b"GIF89a".to_vec(), None),
            (vec![0xff, 0xd8, 0xff], None),
            (b"%PDF-1.7".to_vec(), None),
        ] {
            assert_eq!(size_of(&encode(&bytes)), expected, "{bytes:?}");
        }
    }
}
