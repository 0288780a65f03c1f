//! The web that is researched: stations, pages full of words, and on some of them a finding that is planted.

use std::collections::{BTreeMap, BTreeSet};

use forge_tests::Page;

/// What is researched.
pub(super) const STATIONS: [&str; 20] = [
    "Arnvik", "Belmora", "Caldry", "Dunhaven", "Estrel", "Fjorland", "Gantry", "Holmsey", "Iskern",
    "Jorvale", "Karvo", "Lundsay", "Mirefell", "Norhaug", "Ostrava", "Pellworm", "Quinnay", "Rostock",
    "Selkirk", "Tarnow",
];
/// The station one of whose pages is longer than what a tool's result may take.
pub(super) const LONGEST: usize = 6;

/// What is to be done, as a person says it.
pub(super) fn task() -> String {
    format!(
        "For each of these tide stations find out how high the highest water was and who built the gauge, each with its \
         source. Stations: {}.",
        STATIONS.join(", ")
    )
}

/// Where the findings of a station stand, and what they say.
fn findings(station: usize, origin: &str) -> [(&'static str, String); 2] {
    const FIRST: [&str; 5] = ["Ines", "Torvald", "Mbali", "Oskar", "Yuki"];
    const LAST: [&str; 4] = ["Okafor-Lund", "Brenninkmeyer", "Vasquez", "Haldorsen"];
    let name = STATIONS[station];
    let path = name.to_lowercase();
    // Numbers and names that nobody guesses from those before.
    let height = 2_000 + (station * 7_919 + 1_237) % 6_000;
    let builder = format!("{} {}", FIRST[station % 5], LAST[station * 3 % 4]);
    [
        (
            "annual-report",
            format!(
                "Finding: the highest water at {name} was {height} mm (source: {origin}/{path}/annual-report)"
            ),
        ),
        (
            "logbook",
            format!("Finding: the gauge at {name} was built by {builder} (source: {origin}/{path}/logbook)"),
        ),
    ]
}

/// Everything that a good report says.
pub(super) fn planted(origin: &str) -> BTreeSet<String> {
    (0..STATIONS.len()).flat_map(|station| findings(station, origin)).map(|(_, finding)| finding).collect()
}

/// Every page by its path.
pub(super) fn pages(origin: &str) -> BTreeMap<String, Page> {
    let mut pages = BTreeMap::new();
    for (station, name) in STATIONS.into_iter().enumerate() {
        let [report, logbook] = findings(station, origin);
        for (of, page, finding) in
            [(0, "annual-report", Some(report.1)), (1, "logbook", Some(logbook.1)), (2, "press", None)]
        {
            let path = format!("/{}/{page}", name.to_lowercase());
            let n_paragraphs = if station == LONGEST && of == 0 { 260 } else { 64 };
            let mut noise = Noise::new(station * 3 + of);
            let paragraphs: Vec<String> = (0..n_paragraphs).map(|_| noise.paragraph(name)).collect();
            let at = if station == LONGEST { n_paragraphs / 2 } else { n_paragraphs * (2 + station % 5) / 8 };
            let title = format!("{name} tide station: {}", page.replace('-', " "));
            let finding = finding.map(|line| (at, line));
            let (kind, body) = match of {
                1 => ("text/plain; charset=utf-8", plain(&title, &paragraphs, finding.as_ref())),
                _ => ("text/html; charset=utf-8", html(&title, &paragraphs, finding.as_ref())),
            };
            pages.insert(path, Page { title, kind, body });
        }
    }
    pages
}

fn plain(title: &str, paragraphs: &[String], finding: Option<&(usize, String)>) -> String {
    let mut text = format!("{title}\n\n");
    for (nth, paragraph) in paragraphs.iter().enumerate() {
        text += &format!("{paragraph}\n");
        if let Some((_, line)) = finding.filter(|(at, _)| *at == nth) {
            text += &format!("{line}\n");
        }
    }
    text
}

fn html(title: &str, paragraphs: &[String], finding: Option<&(usize, String)>) -> String {
    let mut text = format!("<!doctype html><html><head><title>{title}</title></head><body><h1>{title}</h1>");
    for (nth, paragraph) in paragraphs.iter().enumerate() {
        text += &format!("<p>{paragraph}</p>\n");
        if let Some((_, line)) = finding.filter(|(at, _)| *at == nth) {
            text += &format!("<ul><li>{line}</li><li>More of this next year.</li></ul>\n");
        }
    }
    text + "</body></html>"
}

/// Words that say nothing, the same for the same page: names, numbers, addresses, and now and then what a finding also has.
struct Noise(u64);

impl Noise {
    fn new(page: usize) -> Self {
        Self(0x9e37_79b9_7f4a_7c15 ^ (page as u64 + 1).wrapping_mul(0xbf58_476d_1ce4_e5b9))
    }

    fn below(&mut self, n: usize) -> usize {
        // Xorshift.
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % n
    }

    fn of<'w>(&mut self, words: &[&'w str]) -> &'w str {
        words[self.below(words.len())]
    }

    fn paragraph(&mut self, station: &str) -> String {
        (0..5).map(|_| self.sentence(station)).collect::<Vec<_>>().join(" ")
    }

    fn sentence(&mut self, station: &str) -> String {
        const WHO: [&str; 8] = [
            "the harbour master",
            "a visitor",
            "the keeper",
            "Captain Renholt",
            "the committee",
            "a fisherman",
            "Mrs. Adeyemi",
            "the cook",
        ];
        const DID: [&str; 8] =
            ["remembers", "painted", "doubts", "mended", "described", "counted", "ordered", "forgot"];
        const WHAT: [&str; 10] = [
            "the northern pier",
            "a crate of lamps",
            "the old tariff",
            "the ferry to Blackmoor",
            "three barges",
            "the winter of the long ice",
            "a letter from the ministry",
            "the second lighthouse",
            "the tide table",
            "the weather",
        ];
        let (who, did, what) = (self.of(&WHO), self.of(&DID), self.of(&WHAT));
        let (n, year) = (self.below(9_000) + 100, 1_890 + self.below(130));
        match self.below(14) {
            0 => format!("In {year} {who} {did} {what}, {n} of them."),
            1 => format!("Unconfirmed: the water at {station} is said to have reached {n} mm in {year}."),
            2 => format!("The source of the brook is {n} m inland."),
            3 => format!("See https://archive.example/{year}/{n} for {what}."),
            4 => format!("No data of {year} were kept, as {who} {did} {what}."),
            5 => format!("The findings of {year} were lost; {who} {did} {what}."),
            6 => format!("Ticket TS-{n} about {what} is open since {year}."),
            7 => format!("At some points {who} {did} {what}."),
            _ => {
                format!("Then {who} {did} {what} near {station}, and {} {} it.", self.of(&WHO), self.of(&DID))
            }
        }
    }
}
