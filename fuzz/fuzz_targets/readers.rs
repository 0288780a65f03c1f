//! Any bytes as a session.
#![no_main]

use forge_domain::{Body, openai_breaches};
use forge_transcript::{Draft, Format, read, read_as, stream};
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
    // Read message by message, a file says the same.
    let mut seen = Vec::new();
    let mut open = || Ok(Box::new(std::io::Cursor::new(bytes.to_vec())) as Box<dyn std::io::Read>);
    let streamed = stream(&mut open, "fuzz", &mut |message| seen.push(message.clone()));
    if let (Ok(Some(streamed)), [session]) = (streamed, sessions.as_slice())
        && streamed.format == session.format
    {
        assert_eq!(seen, Draft::messages_of(session));
        assert_eq!(streamed.calls, session.calls());
    }
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
