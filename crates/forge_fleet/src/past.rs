//! The state of a run as its history has it, without asking a worker: of one that is over.

use forge_app::{Answer, SliceOrder, SliceOutcome, Word};
use forge_domain::RunId;
use serde::de::DeserializeOwned;
use temporalio_common::protos::temporal::api::common::v1::Payloads;
use temporalio_common::protos::temporal::api::history::v1::history_event::Attributes;
use temporalio_common::protos::temporal::api::history::v1::{
    HistoryEvent, WorkflowExecutionSignaledEventAttributes,
};

use crate::state::{RunInput, RunResult};

/// The state of a run as its history has it.
#[derive(Debug)]
pub(crate) struct Past {
    /// The state, with the words that no slice has heard.
    pub(crate) at: RunInput,
    /// The reason why the run is over.
    pub(crate) why: Option<String>,
    /// The words given to the slice at work, which count as not heard until it reports.
    in_flight: Vec<Word>,
}

impl Past {
    /// Reads a history.
    pub(crate) fn of(run: &RunId, events: Vec<HistoryEvent>) -> Self {
        let mut past = Self { at: RunInput::new(run.clone()), why: None, in_flight: Vec::new() };
        for attributes in events.into_iter().filter_map(|event| event.attributes) {
            past.take(attributes);
        }
        past.give_back();
        past
    }

    fn take(&mut self, attributes: Attributes) {
        match attributes {
            Attributes::WorkflowExecutionStartedEventAttributes(started) => {
                if let Some(input) = read(started.input.as_ref()) {
                    self.at = input;
                }
            }
            Attributes::WorkflowExecutionSignaledEventAttributes(signal) => self.hear(&signal),
            Attributes::ActivityTaskScheduledEventAttributes(slice) => {
                // All signals before this event went with it.
                self.at.words.clear();
                let order = read::<SliceOrder>(slice.input.as_ref());
                self.in_flight = order.map(|order| order.words).unwrap_or_default();
            }
            Attributes::ActivityTaskCompletedEventAttributes(slice) => {
                self.in_flight.clear();
                if let Some(outcome) = read::<SliceOutcome>(slice.result.as_ref()) {
                    self.at.absorb(&outcome);
                }
            }
            Attributes::ActivityTaskFailedEventAttributes(_)
            | Attributes::ActivityTaskCanceledEventAttributes(_)
            | Attributes::ActivityTaskTimedOutEventAttributes(_) => self.give_back(),
            Attributes::WorkflowExecutionCompletedEventAttributes(end) => {
                self.why = read::<RunResult>(end.result.as_ref()).map(|result| result.why);
            }
            Attributes::WorkflowExecutionFailedEventAttributes(end) => {
                self.why = end.failure.map(|failure| failure.message);
            }
            Attributes::WorkflowExecutionTerminatedEventAttributes(end) => {
                let by = if end.reason.is_empty() { String::new() } else { format!(": {}", end.reason) };
                self.why = Some(format!("terminated{by}"));
            }
            Attributes::WorkflowExecutionCanceledEventAttributes(_) => self.why = Some("stopped".to_owned()),
            Attributes::WorkflowExecutionTimedOutEventAttributes(_) => {
                self.why = Some("timed out".to_owned());
            }
            _ => {}
        }
    }

    fn hear(&mut self, signal: &WorkflowExecutionSignaledEventAttributes) {
        match signal.signal_name.as_str() {
            "steer" => {
                if let Some(text) = read(signal.input.as_ref()) {
                    self.at.steer(text);
                }
            }
            "answer" => self.at.words.extend(read::<Answer>(signal.input.as_ref()).map(Word::Answer)),
            _ => {}
        }
    }

    fn give_back(&mut self) {
        let words = std::mem::take(&mut self.in_flight);
        self.at.give_back(words);
    }
}

/// Reads the first payload as the SDK's default converter writes it: JSON.
fn read<T: DeserializeOwned>(payloads: Option<&Payloads>) -> Option<T> {
    payloads?.payloads.first().and_then(|payload| serde_json::from_slice(&payload.data).ok())
}

#[cfg(test)]
mod tests {
    use forge_app::OutcomeEnd;
    use forge_domain::{CheckpointKey, Dollars, FencingToken};
    use serde::Serialize;
    use temporalio_common::protos::temporal::api::common::v1::Payload;
    use temporalio_common::protos::temporal::api::history::v1::*;

    use super::*;

    fn payloads(value: impl Serialize) -> Option<Payloads> {
        let payload = Payload { data: serde_json::to_vec(&value).unwrap(), ..Payload::default() };
        Some(Payloads { payloads: vec![payload] })
    }

    fn event(attributes: Attributes) -> HistoryEvent {
        HistoryEvent { attributes: Some(attributes), ..HistoryEvent::default() }
    }

    fn steer(text: &str) -> HistoryEvent {
        event(Attributes::WorkflowExecutionSignaledEventAttributes(
            WorkflowExecutionSignaledEventAttributes {
                signal_name: "steer".into(),
                input: payloads(text),
                ..Default::default()
            },
        ))
    }

    fn scheduled(words: Vec<Word>) -> HistoryEvent {
        let order = SliceOrder { run: run(), checkpoint: None, token: None, words };
        event(Attributes::ActivityTaskScheduledEventAttributes(ActivityTaskScheduledEventAttributes {
            input: payloads(order),
            ..Default::default()
        }))
    }

    fn said(number: u64, text: &str) -> Word {
        Word::Steer { number, text: text.into() }
    }

    fn run() -> RunId {
        RunId::new("r").unwrap()
    }

    #[test]
    fn words_of_a_slice_without_an_outcome_are_kept_with_their_numbers() {
        let outcome = SliceOutcome {
            end: OutcomeEnd::Paused,
            checkpoint: Some(CheckpointKey::new(9)),
            token: Some(FencingToken::new(2)),
            calls: 3,
            cost: Dollars::new(4.0).unwrap(),
        };
        let past = Past::of(
            &run(),
            vec![
                event(Attributes::WorkflowExecutionStartedEventAttributes(
                    WorkflowExecutionStartedEventAttributes {
                        input: payloads(RunInput::new(run())),
                        ..Default::default()
                    },
                )),
                steer("one"),
                scheduled(vec![said(1, "one")]),
                event(Attributes::ActivityTaskCompletedEventAttributes(
                    ActivityTaskCompletedEventAttributes { result: payloads(outcome), ..Default::default() },
                )),
                steer("two"),
                scheduled(vec![said(2, "two")]),
                steer("three"),
            ],
        );
        assert_eq!((past.at.checkpoint, past.at.calls), (Some(CheckpointKey::new(9)), 3));
        assert_eq!(past.at.words, [said(2, "two"), said(3, "three")]);
    }
}
