//! Any bytes as a session.
#![no_main]

use forge_domain::{Body, openai_breaches};
use forge_transcript::{Draft, Format, read, read_as};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some((first, rest)) = bytes.split_first() else { return };
    // Some of the time the format is said, so that not everything has to look like one.
    let sessions = match Format::all().nth(usize::from(*first)) {
        Some(format) => read_as(format, rest, "fuzz"),
        None => read(bytes, "fuzz"),
    };
    let bytes = if Format::all().nth(usize::from(*first)).is_some() { rest } else { bytes };
    let sessions = match sessions {
        Ok(sessions) => sessions,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    for (nth, session) in sessions.iter().enumerate() {
        // Looking behind the agent's own compactions.
        Draft::messages_of(&session.clone().before_compaction());
        let draft = Draft::open(session, nth);
        let messages: Vec<_> = draft.messages().collect();
        let is_exchange = |rule: &forge_domain::Rule| *rule != forge_domain::Rule::Empty;
        let broken: Vec<_> =
            openai_breaches(&messages).into_iter().filter(|breach| is_exchange(&breach.rule)).collect();
        assert!(broken.is_empty(), "{broken:?}");
        let recording = session.recording();
        assert!(recording.messages.iter().all(|message| match &message.body {
            Body::Assistant { calls, .. } => calls.iter().all(|call| call.arguments.starts_with('{')),
            _ => true,
        }));
        if draft.repairs().is_empty() {
            assert_eq!(draft.rewrite(bytes, &[], draft.format()).unwrap(), bytes);
        }
        for to in Format::all() {
            // What cannot be said there is refused in words.
            if let Err(error) = draft.rewrite(bytes, &[], to) {
                assert!(!error.to_string().is_empty());
            }
        }
    }
});
