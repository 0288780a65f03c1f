#![allow(missing_docs, clippy::all)]
use forge_domain::{Message, Role};
fn main() {
    let mut show = false;
    for path in std::env::args().skip(1) {
        if path == "--show" {
            show = true;
            continue;
        }
        let Ok(bytes) = std::fs::read(&path) else { continue };
        let sessions = match forge_transcript::read(&bytes, &path) {
            Ok(s) => s,
            Err(_) => continue,
        };
        for s in sessions {
            let (mut person, mut harness, mut mixed, mut made) = (0, 0, 0, 0);
            for r in s.records.iter() {
                let ms = r.messages();
                let users: Vec<&Message> = ms.iter().filter(|m| m.role() == Role::User).collect();
                if users.is_empty() {
                    continue;
                }
                let p = users.iter().any(|m| m.starts_turn());
                let h = users.iter().any(|m| m.note_by().is_some());
                let kind = match (p, h) {
                    (true, true) => {
                        mixed += 1;
                        "MIXED"
                    }
                    (true, false) => {
                        person += 1;
                        "person"
                    }
                    (false, true) => {
                        harness += 1;
                        "harness"
                    }
                    _ => {
                        made += 1;
                        "compacted"
                    }
                };
                if show {
                    for m in users {
                        let who = if m.starts_turn() {
                            "P"
                        } else if m.is_compacted {
                            "C"
                        } else {
                            "h"
                        };
                        let t: String = m.to_text().chars().take(130).collect();
                        println!("  {kind:9} {who} {:?}", t);
                    }
                }
            }
            println!("{}\t{}\t{person}\t{harness}\t{mixed}\t{made}\t{}", s.format.id(), path, s.id);
        }
    }
}
