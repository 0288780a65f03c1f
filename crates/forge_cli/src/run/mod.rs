//! A run, whether it is one task or a chat: its setup, its display, its checkpoints, and its end.

mod answer_schema;
mod attachments;
mod card_text;
mod checkpoint_cells;
pub(crate) mod checkpoints;
mod compaction_text;
mod console_watcher;
mod end;
mod explanation;
mod interruption;
mod json_watcher;
mod page;
mod plan;
mod preparation;
mod progress;
mod progress_view;
mod restoration;
mod runtime;
mod slice_terms;
pub(crate) mod status;
mod stream_json;
mod tool_line;
mod view;

pub(crate) use self::answer_schema::{Answer, AnswerSchema};
pub(crate) use self::attachments::{Attached, attach_files};
pub(crate) use self::card_text::{age, folder_text, short_cost, short_tokens, state_word, title_text};
pub(crate) use self::checkpoint_cells::{CHECKPOINT_COLUMNS, checkpoint_cells};
pub(crate) use self::checkpoints::shell_quote;
pub(crate) use self::compaction_text::{
    because, change, failed_attempts, shortened_requests, strategy_lines,
};
pub(crate) use self::console_watcher::{ConsoleWatcher, RESTARTED, usage_text};
pub(crate) use self::end::{release, write_break, write_report};
pub(crate) use self::explanation::{explain, explain_resume};
pub(crate) use self::interruption::{Interruption, interruption};
pub(crate) use self::json_watcher::JsonWatcher;
pub(crate) use self::page::{PageState, export_page, page_of_run};
pub(crate) use self::plan::{PLAN_APPROVAL, may_be_plan};
pub(crate) use self::preparation::{RunRequest, prepare, watch};
pub(crate) use self::progress::show_progress;
pub(crate) use self::progress_view::ProgressView;
pub(crate) use self::restoration::{refuse_unavailable, restore, select_here};
pub(crate) use self::runtime::{Runtime, block_on, runtime};
pub(crate) use self::slice_terms::SliceTerms;
pub(crate) use self::stream_json::StreamJsonWatcher;
pub(crate) use self::tool_line::call_text;
pub(crate) use self::view::{Break, RunStart, RunView, report_json, run_start, unrecorded_text};
