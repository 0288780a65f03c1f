//! Images that the user attaches to a message: by `--image FILE`, or by `@FILE` in the message.

use std::path::{Path, PathBuf};

use forge_domain::{Event, Image, ImageError, MOST_IMAGE_BYTES, MOST_IMAGES};

use crate::failure::Misconfigured;
use crate::mentions::mentions;
use crate::output::visible;
use crate::session_file::read_named;

/// The endings of files that `@` attaches. Other words with an `@` are text.
const ENDINGS: [&str; 5] = [".png", ".jpg", ".jpeg", ".gif", ".webp"];

/// Returns the event with the images of these files.
pub(crate) fn attach(event: Event, files: &[PathBuf]) -> anyhow::Result<Event> {
    if files.len() > MOST_IMAGES {
        let what = format!("there are {} images (expected at most {MOST_IMAGES})", files.len());
        return Err(Misconfigured(what).into());
    }
    let images = files.iter().map(|file| read(file)).collect::<Result<_, _>>()?;
    Ok(event.with_images(images))
}

/// Returns the event of a message of the chat, with the images that it mentions.
pub(crate) fn task(message: String) -> anyhow::Result<Event> {
    let mentioned = mentioned(&message);
    attach_with_mentioned(Event::task(message), &[], mentioned)
}

/// Returns the image files that a message mentions.
pub(crate) fn mentioned(message: &str) -> Vec<PathBuf> {
    image_names(message).iter().map(|name| home_path(name)).collect()
}

/// Returns the event with the images of the `given` files and of those that its message mentions.
pub(crate) fn attach_with_mentioned(
    event: Event,
    given: &[PathBuf],
    mentioned: Vec<PathBuf>,
) -> anyhow::Result<Event> {
    let more: Vec<PathBuf> = mentioned.into_iter().filter(|file| !given.contains(file)).collect();
    let attached = attach(event, &[given, &more].concat());
    if more.is_empty() {
        return attached;
    }
    attached.map_err(|error| {
        let way_out =
            "the message was not sent; to write the name without attaching the file, leave out the `@`";
        Misconfigured(format!("{error}\n  help: {way_out}")).into()
    })
}

/// Returns the message with a mention of each file at its end.
pub(crate) fn with_mentions(message: String, files: &[PathBuf]) -> String {
    let mention = |file: &PathBuf| format!(" @\"{}\"", file.display());
    message + &files.iter().map(mention).collect::<String>()
}

/// Checks whether a file is an image by the ending of its name.
pub(crate) fn is_image(name: &str) -> bool {
    let name = name.to_lowercase();
    ENDINGS.iter().any(|ending| name.len() > ending.len() && name.ends_with(ending))
}

/// Reads an image from a file.
fn read(path: &Path) -> Result<Image, Misconfigured> {
    let name = visible(&path.display().to_string());
    if let Ok(found) = std::fs::metadata(path) {
        // A pipe may never end.
        if !found.is_file() && !found.is_dir() {
            return Err(Misconfigured(format!("cannot read the image {name}: it is not a regular file")));
        }
        if found.is_file() && found.len() > MOST_IMAGE_BYTES as u64 {
            return Err(Misconfigured(ImageError::Bytes { name, n_bytes: found.len() }.to_string()));
        }
    }
    let bytes = read_named(path, "image", MOST_IMAGE_BYTES as u64 + 1)?;
    Image::read(name, &bytes).map_err(|error| Misconfigured(error.to_string()))
}

/// Returns the image files that a message mentions, each once.
fn image_names(message: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for name in mentions(message) {
        let name = name.trim_end_matches(['.', ':', '!', '?', ')', ']', '…']);
        if is_image(name) && !found.iter().any(|known| known == name) {
            found.push(name.to_owned());
        }
    }
    found
}

/// Returns the path, with the user's home folder in place of `~`.
fn home_path(name: &str) -> PathBuf {
    let home = std::env::var_os("HOME").map(PathBuf::from);
    match name.strip_prefix("~/").zip(home) {
        Some((rest, home)) => home.join(rest),
        None => PathBuf::from(name),
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn files_after_an_at_sign_are_found() {
        for (message, expected) in [
            ("What is in @shot.png?", &["shot.png"][..]),
            ("@a.PNG and (@b/c.jpeg), not @d.rs", &["a.PNG", "b/c.jpeg"]),
            ("see @\"my shot.webp\", @a.png @a.png", &["my shot.webp", "a.png"]),
            ("写 @图.gif。", &[]),
            ("写 @图.gif …", &["图.gif"]),
            ("mail me@home.png or @.png", &[]),
            ("@", &[]),
            ("@\"open.png", &["\"open.png"]),
            ("two\n@x.jpg!", &["x.jpg"]),
        ] {
            assert_eq!(image_names(message), expected, "{message}");
        }
        let files = [PathBuf::from("my shot.png")];
        let message = with_mentions("Look.".to_owned(), &files);
        assert_eq!(
            (message.as_str(), image_names(&message)),
            ("Look. @\"my shot.png\"", vec!["my shot.png".to_owned()])
        );
    }
}
