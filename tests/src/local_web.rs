//! A small web on loopback: pages, and a search among them that answers as SearXNG does.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use serde_json::{Value, json};

/// Most results of one search.
const MOST_RESULTS: usize = 10;

/// A page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// What a search is held against, and what it shows.
    pub title: String,
    /// The content type, such as `text/html`.
    pub kind: &'static str,
    /// All that stands on it.
    pub body: String,
}

/// A server on 127.0.0.1 with pages and a search. It stops when it is dropped.
#[derive(Debug)]
pub struct LocalWeb {
    address: SocketAddr,
    is_closing: Arc<AtomicBool>,
    listening: Option<JoinHandle<()>>,
}

impl LocalWeb {
    /// Serves the pages that `pages` makes for this web's origin, such as `http://127.0.0.1:4711`, by their paths.
    ///
    /// # Panics
    /// Where no port of loopback can be listened on.
    pub fn start(pages: impl FnOnce(&str) -> BTreeMap<String, Page>) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("loopback has a free port");
        let address = listener.local_addr().expect("what listens has an address");
        let origin = format!("http://{address}");
        let site = Arc::new(Site { pages: pages(&origin), origin });
        let is_closing = Arc::new(AtomicBool::new(false));
        let listening = std::thread::spawn({
            let is_closing = Arc::clone(&is_closing);
            move || listen(&listener, &site, &is_closing)
        });
        Self { address, is_closing, listening: Some(listening) }
    }

    /// Where it is, such as `http://127.0.0.1:4711`.
    pub fn origin(&self) -> String {
        format!("http://{}", self.address)
    }

    /// What `tool_settings.web_search.endpoint` is told.
    pub fn search_endpoint(&self) -> String {
        format!("{}/search?q={{query}}&format=json", self.origin())
    }
}

impl Drop for LocalWeb {
    fn drop(&mut self) {
        self.is_closing.store(true, Ordering::SeqCst);
        // A last connection wakes the listener up so that it sees the end.
        let _ = TcpStream::connect(self.address);
        if let Some(listening) = self.listening.take() {
            let _ = listening.join();
        }
    }
}

struct Site {
    origin: String,
    pages: BTreeMap<String, Page>,
}

fn listen(listener: &TcpListener, site: &Arc<Site>, is_closing: &AtomicBool) {
    for connection in listener.incoming() {
        if is_closing.load(Ordering::SeqCst) {
            return;
        }
        let Ok(connection) = connection else { continue };
        let site = Arc::clone(site);
        // A client that goes away in the middle is the client's affair.
        std::thread::spawn(move || drop(serve(&connection, &site)));
    }
}

fn serve(mut connection: &TcpStream, site: &Site) -> io::Result<()> {
    let mut head = BufReader::new(connection).lines();
    let line = head.next().transpose()?.unwrap_or_default();
    while head.next().transpose()?.is_some_and(|header| !header.is_empty()) {}
    let asked = line.split(' ').nth(1).unwrap_or_default();
    let found = match asked.strip_prefix("/search?q=") {
        Some(query) => {
            let query = decoded(query.split('&').next().unwrap_or_default());
            Some(("application/json", site.found(&query).to_string()))
        }
        None => site.pages.get(asked).map(|page| (page.kind, page.body.clone())),
    };
    let (status, kind, body) = match found {
        Some((kind, body)) => ("200 OK", kind, body),
        None => ("404 Not Found", "text/plain", format!("nothing is at {asked}")),
    };
    write!(
        connection,
        "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    )
}

impl Site {
    /// The pages whose titles have most of the words, as SearXNG tells them.
    fn found(&self, query: &str) -> Value {
        let wanted = words(query);
        let mut found: Vec<(usize, &String, &Page)> = self
            .pages
            .iter()
            .map(|(path, page)| (words(&page.title).intersection(&wanted).count(), path, page))
            .filter(|(n, ..)| *n > 0)
            .collect();
        found.sort_by_key(|(n, ..)| std::cmp::Reverse(*n));
        let best = found.first().map_or(0, |(n, ..)| *n);
        let results: Vec<Value> = found
            .into_iter()
            .filter(|(n, ..)| *n == best)
            .take(MOST_RESULTS)
            .map(|(_, path, page)| {
                json!({"title": page.title, "url": format!("{}{path}", self.origin), "content": "…"})
            })
            .collect();
        json!({ "query": query, "results": results })
    }
}

fn words(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words.map(str::to_lowercase).collect()
}

/// What an address says with its percent signs read.
fn decoded(text: &str) -> String {
    let bytes = text.as_bytes();
    let (mut read, mut at) = (Vec::new(), 0);
    while let Some(byte) = bytes.get(at) {
        let code = text.get(at + 1..at + 3).and_then(|code| u8::from_str_radix(code, 16).ok());
        match (byte, code) {
            (b'%', Some(code)) => {
                read.push(code);
                at += 3;
            }
            (byte, _) => {
                read.push(*byte);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&read).into_owned()
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn the_pages_with_most_of_the_words_are_found() {
        let page = |title: &str| Page { title: title.to_owned(), kind: "text/plain", body: String::new() };
        let pages =
            [("/a", "Tides at Karvo"), ("/b", "Karvo: a logbook of tides"), ("/c", "Tides elsewhere")];
        let pages = pages.into_iter().map(|(path, title)| (path.to_owned(), page(title))).collect();
        let site = Site { origin: "http://h".to_owned(), pages };
        let urls = |query: &str| -> Vec<String> {
            let found = site.found(&decoded(query));
            let results = found["results"].as_array().unwrap().iter();
            results.map(|result| result["url"].as_str().unwrap().to_owned()).collect()
        };
        assert_eq!(urls("tides%20of%20karvo"), ["http://h/b"]);
        assert_eq!(urls("KARVO"), ["http://h/a", "http://h/b"]);
        assert_eq!(urls("nothing"), Vec::<String>::new());
    }
}
