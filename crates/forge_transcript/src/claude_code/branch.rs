//! Which records of a Claude Code session are on its active branch.
//!
//! The file is a tree: rewinding or retrying leaves the old branch in place. The active one ends in the last
//! record; from there the parents lead to the root.

use std::collections::{HashMap, HashSet};

use super::queue::Heard;
use crate::id_digest::IdDigest;

/// A record's place in the tree. There may be a million of them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Node {
    /// The kind of the record.
    pub(super) kind: Kind,
    /// Its id.
    pub(super) uuid: Option<IdDigest>,
    /// The record that it follows.
    pub(super) parent: Parent,
    /// True if a sub-agent made it.
    pub(super) is_sidechain: bool,
    /// The id of the provider's reply that it is a piece of.
    pub(super) reply: Option<IdDigest>,
    /// True if it contains tool results.
    pub(super) has_results: bool,
}

/// A kind of record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// User text, or tool results.
    User,
    /// A piece of the model's reply.
    Assistant,
    /// An attachment that the agent adds itself, which the model sees.
    Attachment,
    /// Words that the user typed while the agent worked. They are a message if the model saw them.
    Queued,
    /// A report of what runs meanwhile, such as a hook. It is no message.
    Progress,
    /// No message.
    Other,
}

impl Kind {
    const fn is_message(self) -> bool {
        !matches!(self, Self::Queued | Self::Progress | Self::Other)
    }
}

/// The record before a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Parent {
    /// None: it is the first.
    Root,
    /// The record of that id.
    Named(IdDigest),
    /// It has one, but does not say which.
    Unknown,
}

/// Returns for each record whether it is a message of the active branch.
///
/// It includes the other pieces of its replies, and the results of its calls: parallel calls make side arms
/// that no later record names as its parents. If a record's parent was dropped from the file, the nearest
/// earlier message replaces it. Of records with the same id only the first counts. A file of sub-agent
/// records alone is the session of that sub-agent.
pub(super) fn active_branch(nodes: &[Node]) -> Branch {
    let tree = Tree::of(nodes);
    let mut active = vec![false; nodes.len()];
    let mut next = (0..nodes.len()).rev().find(|place| tree.is_message[*place]);
    while let Some(place) = next {
        active[place] = true;
        // A branch that comes back to itself ends there.
        next = tree.before(place).filter(|before| !active[*before]);
    }
    while tree.spread(&mut active) {}
    let late = tree.late(&active);
    let messages = || active.iter().zip(&tree.is_message).zip(nodes);
    let is_left = |((active, is_message), node): &((&bool, &bool), &Node)| {
        **is_message && !**active && node.kind != Kind::Attachment
    };
    Branch {
        late,
        n_left: messages().filter(is_left).count(),
        active: messages().map(|((active, is_message), _)| *active && *is_message).collect(),
    }
}

/// The active branch of a session.
pub(super) struct Branch {
    /// True for each record that is a message of it.
    pub(super) active: Vec<bool>,
    /// The number of the session's messages that are on other branches.
    pub(super) n_left: usize,
    /// The records that are written before what they follow: for each the record behind which it is read,
    /// and its distance from that in the tree.
    late: HashMap<usize, (usize, usize)>,
}

impl Branch {
    /// Adds words that the user typed during a turn, if that is on the branch.
    pub(super) fn hear(&mut self, heard: Heard, nodes: &[Node]) {
        let is_message = |place: &usize| nodes[*place].kind.is_message() && !nodes[*place].is_sidechain;
        let Some(before) = (0..heard.behind).rev().find(is_message).filter(|before| self.active[*before])
        else {
            return;
        };
        // The reply that is just written and the results of its calls come first.
        let is_rest = |place: &usize| {
            let node = &nodes[*place];
            node.has_results || (node.reply.is_some() && node.reply == nodes[before].reply)
        };
        let later = (heard.behind + 1..nodes.len()).filter(|place| self.active[*place]);
        let behind = later.take_while(is_rest).last().unwrap_or(heard.behind);
        self.active[heard.record] = true;
        self.late.insert(heard.record, (behind, 1));
    }

    /// Returns the record behind which the one at `place` is read, if that is written later, and the distance
    /// from it.
    pub(super) fn behind(&self, place: usize) -> Option<(usize, usize)> {
        self.late.get(&place).copied()
    }

    /// Returns the records in the order in which they are read.
    pub(super) fn order(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.active.len()).collect();
        if !self.late.is_empty() {
            order.sort_by_key(|place| (self.late.get(place).copied().unwrap_or((*place, 0)), *place));
        }
        order
    }
}

struct Tree<'a> {
    nodes: &'a [Node],
    /// True for each record that is a message of this session.
    is_message: Vec<bool>,
    by_uuid: HashMap<IdDigest, usize>,
}

impl<'a> Tree<'a> {
    fn of(nodes: &'a [Node]) -> Self {
        let mut by_uuid = HashMap::new();
        let mut is_message = Vec::with_capacity(nodes.len());
        for (place, node) in nodes.iter().enumerate() {
            let first = node.uuid.is_none_or(|uuid| *by_uuid.entry(uuid).or_insert(place) == place);
            is_message.push(first && node.kind.is_message());
        }
        let is_main = |node: &Node| !node.is_sidechain && node.kind != Kind::Attachment;
        if nodes.iter().zip(&is_message).any(|(node, is_message)| *is_message && is_main(node)) {
            for (node, is_message) in nodes.iter().zip(&mut is_message) {
                *is_message &= !node.is_sidechain;
            }
        }
        Self { nodes, is_message, by_uuid }
    }

    /// Returns the record before the one at `place`.
    fn before(&self, place: usize) -> Option<usize> {
        match &self.nodes[place].parent {
            Parent::Root => None,
            Parent::Named(_) | Parent::Unknown => match self.parent(place) {
                Some(parent) => Some(self.latest_beside_progress(parent, place)),
                None => (0..place).rev().find(|earlier| self.is_message[*earlier]),
            },
        }
    }

    /// Returns the latest message before the record at `place`, whose parent is `parent`: that itself, unless
    /// it is progress. Some versions hang the next request on the last report of a hook, and the reports on
    /// the call that the hook was for, so that all that came after the call hangs on a side arm.
    fn latest_beside_progress(&self, parent: usize, place: usize) -> usize {
        let mut call = parent;
        let mut reports = HashSet::new();
        while self.nodes[call].kind == Kind::Progress
            && let Some(before) = self.parent(call).filter(|before| *before < call)
        {
            reports.insert(call);
            call = before;
        }
        if reports.is_empty() || !self.is_message[call] {
            return parent;
        }
        // What hangs on the same reports is another attempt at the request.
        let mut arm = HashSet::from([call]);
        let mut latest = call;
        for at in (call + 1..place).filter(|at| !reports.contains(at)) {
            if self.parent(at).is_some_and(|parent| arm.contains(&parent)) {
                arm.insert(at);
                latest = if self.is_message[at] { at } else { latest };
            }
        }
        latest
    }

    /// Returns the active messages that are written before their parent, as some versions do with what
    /// happens at once; see [`Branch::late`].
    fn late(&self, active: &[bool]) -> HashMap<usize, (usize, usize)> {
        let mut late: HashMap<usize, (usize, usize)> = HashMap::new();
        let is_message = |place: &usize| active[*place] && self.is_message[*place];
        for place in (0..active.len()).rev().filter(is_message) {
            if let Some(parent) = self.parent(place).filter(|parent| *parent > place) {
                let (at, distance) = late.get(&parent).copied().unwrap_or((parent, 0));
                late.insert(place, (at, distance + 1));
            }
        }
        late
    }

    /// Returns the parent that the record at `place` names, if it is in the file.
    fn parent(&self, place: usize) -> Option<usize> {
        match &self.nodes[place].parent {
            Parent::Named(uuid) => self.by_uuid.get(uuid).copied(),
            Parent::Root | Parent::Unknown => None,
        }
    }

    /// Adds the pieces of replies and the results that belong to what is active; whether there were any.
    fn spread(&self, active: &mut [bool]) -> bool {
        let replies: HashSet<IdDigest> = (0..active.len())
            .filter(|place| active[*place] && self.nodes[*place].kind == Kind::Assistant)
            .filter_map(|place| self.nodes[place].reply)
            .collect();
        let mut grown = false;
        for place in 0..active.len() {
            let node = &self.nodes[place];
            let belongs = match node.kind {
                Kind::Assistant => node.reply.is_some_and(|reply| replies.contains(&reply)),
                Kind::User => node.has_results && self.parent(place).is_some_and(|parent| active[parent]),
                Kind::Attachment | Kind::Queued | Kind::Progress | Kind::Other => false,
            };
            if belongs && self.is_message[place] && !active[place] {
                active[place] = true;
                grown = true;
            }
        }
        grown
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    /// Parses a record from `kind:uuid<parent`: kinds are `u`ser, `r`esults, `a`ssistant, a`t`tachment,
    /// `p`rogress, `o`ther, in capitals on a side chain; `<-` is the root and `<?` no parent; a reply follows
    /// `/`.
    fn node(text: &str) -> Node {
        let (kind, rest) = text.split_once(':').unwrap();
        let (uuid, rest) = rest.split_once('<').unwrap();
        let (parent, reply) =
            rest.split_once('/').map_or((rest, None), |(parent, reply)| (parent, Some(reply)));
        Node {
            kind: match kind.to_lowercase().as_str() {
                "u" | "r" => Kind::User,
                "a" => Kind::Assistant,
                "t" => Kind::Attachment,
                "p" => Kind::Progress,
                _ => Kind::Other,
            },
            uuid: (!uuid.is_empty()).then(|| IdDigest::of(uuid)),
            parent: match parent {
                "-" => Parent::Root,
                "?" => Parent::Unknown,
                uuid => Parent::Named(IdDigest::of(uuid)),
            },
            is_sidechain: kind.chars().all(char::is_uppercase),
            reply: reply.map(IdDigest::of),
            has_results: kind.eq_ignore_ascii_case("r"),
        }
    }

    /// Compares the places of the active records among `text`, which is records with blanks between.
    fn check(text: &str, expected: &[usize]) {
        let nodes: Vec<Node> = text.split_whitespace().map(node).collect();
        let Branch { active, .. } = active_branch(&nodes);
        let actual: Vec<usize> = (0..nodes.len()).filter(|place| active[*place]).collect();
        assert_eq!(actual, expected, "{text}");
    }

    #[test]
    fn the_branch_of_the_last_message_is_active() {
        check("", &[]);
        check("o:1<-", &[]);
        check("u:1<- a:2<1 u:3<2", &[0, 1, 2]);
        // Rewound to 1.
        check("u:1<- a:2<1 u:3<2 a:4<1 u:5<4", &[0, 3, 4]);
        // Through records that are not messages, and past those after the last message.
        check("u:1<- o:2<1 a:3<2 o:4<3", &[0, 2]);
        check("u:1<- a:2<1 u:3<-", &[2]);
    }

    #[test]
    fn side_arms_of_a_reply_are_on_the_branch() {
        check("u:1<- a:2<1/m a:3<2/m r:4<2 r:5<3 a:6<5/n", &[0, 1, 2, 3, 4, 5]);
        // A piece that only the reply names, and the results after it.
        check("u:1<- a:2<1/m a:3<9/m r:4<3 r:5<2 a:6<5/n", &[0, 1, 2, 3, 4, 5]);
        // The user's text on an abandoned arm is not.
        check("u:1<- a:2<1/m u:3<2 r:4<2 a:5<4/n", &[0, 1, 3, 4]);
    }

    #[test]
    fn attachments_are_on_the_branch_that_they_hang_on() {
        check("u:1<- t:2<1 t:3<2 a:4<3", &[0, 1, 2, 3]);
        check("u:1<- t:2<1 a:3<2 u:4<1 a:5<4", &[0, 3, 4]);
        check("u:1<- a:2<1 t:3<2", &[0, 1, 2]);
        check("U:1<- t:2<1 A:3<2", &[0, 1, 2]);
    }

    #[test]
    fn what_comes_after_a_call_is_on_the_branch_whatever_hangs_on_its_progress() {
        check("u:1<- a:2<1 p:3<2 p:4<3 r:5<2 a:6<5 u:7<4 a:8<7", &[0, 1, 4, 5, 6, 7]);
        check(
            "u:1<- a:2<1 r:5<2 a:6<5 p:3<2 p:4<3 u:7<4 a:8<7 r:9<8 p:0<8 u:b<0",
            &[0, 1, 2, 3, 6, 7, 8, 10],
        );
        // Without a call, the reports are a part of the only chain.
        check("p:1<- p:2<1 u:3<2 a:4<3", &[2, 3]);
        check("u:1<- p:2<1 a:3<2 p:4<3 u:5<4", &[0, 2, 4]);
        // What was rewound before the request stays left out.
        check("u:1<- a:2<1 u:3<2 a:4<3 p:5<2 u:6<2 a:7<6", &[0, 1, 5, 6]);
        check("u:1<- a:2<1 p:3<2 u:4<3 a:5<4 u:6<3 a:7<6", &[0, 1, 5, 6]);
    }

    #[test]
    fn gaps_are_bridged_in_the_order_of_the_file() {
        check("u:1<- a:2<1 u:4<3 a:5<4", &[0, 1, 2, 3]);
        check("u:1<9 a:2<1", &[0, 1]);
        check("u:<? a:<? u:<?", &[0, 1, 2]);
        // A boundary that does not name the record that it continues.
        check("u:1<- a:2<1 o:3<? u:4<3", &[0, 1, 3]);
        // Cycles end.
        check("u:1<2 a:2<1", &[0, 1]);
    }

    #[test]
    fn a_record_is_read_behind_what_it_follows() {
        for (text, expected) in [
            ("u:1<- a:2<1 u:3<2", vec![0, 1, 2]),
            ("u:1<- r:3<2 a:2<1 a:4<3", vec![0, 2, 1, 3]),
            ("u:1<- a:2<1 t:4<3 r:3<2 a:5<4", vec![0, 1, 3, 2, 4]),
            ("u:1<- t:4<3 r:3<2 a:2<1 a:5<4", vec![0, 3, 2, 1, 4]),
            // What is on no branch stays where it is.
            ("u:1<- u:6<7 a:2<1 u:7<- u:3<2", vec![0, 1, 2, 3, 4]),
        ] {
            let nodes: Vec<Node> = text.split_whitespace().map(node).collect();
            assert_eq!(active_branch(&nodes).order(), expected, "{text}");
        }
    }

    #[test]
    fn messages_that_are_left_are_counted() {
        for (text, expected) in
            [("u:1<- a:2<1 u:3<2", 0), ("u:1<- a:2<1 t:5<2 u:3<2 a:4<1 U:6<1", 2), ("u:1<- a:2<1 u:3<-", 2)]
        {
            let nodes: Vec<Node> = text.split_whitespace().map(node).collect();
            assert_eq!(active_branch(&nodes).n_left, expected, "{text}");
        }
    }

    #[test]
    fn a_record_counts_once() {
        check("u:1<- a:2<1 u:1<- a:2<1 u:3<2", &[0, 1, 4]);
    }

    #[test]
    fn side_chains_are_left_out_unless_they_are_all_there_is() {
        check("u:1<- a:2<1 U:3<- A:4<3 R:5<4", &[0, 1]);
        check("u:1<- a:2<1 U:3<2 u:5<3", &[0, 1, 3]);
        check("U:1<- A:2<1", &[0, 1]);
    }
}
