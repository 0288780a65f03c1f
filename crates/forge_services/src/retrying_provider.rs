//! A provider that asks another one again if that may help.

use std::collections::HashSet;
use std::fmt;
use std::future::ready;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use backon::{BackoffBuilder, ExponentialBuilder};
use forge_domain::{
    ChatCompletionMessage, ChatStream, ModelId, ModelInfo, Pause, Prompt, Provider, ProviderError, Retry,
};
use futures::{StreamExt, stream};

/// The number of retries, and their waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Attempts after the first one.
    pub retries: usize,
    /// The same for a server that has not been reached yet: hardly one will be, whose address is wrong.
    pub retries_of_unreached: usize,
    /// The same for a reply without which the caller can go on.
    pub retries_of_dispensable: usize,
    /// The wait before the second attempt, without jitter, which at most doubles it; each later one is twice
    /// as long.
    pub first_wait: Duration,
    /// No wait of our own is longer. A server that asks for more than [`Self::longest_asked`] is not asked
    /// again.
    pub longest_wait: Duration,
    /// The longest wait that a server may ask for.
    pub longest_asked: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            // One and a half to three minutes: a server that loads a model, or that starts again.
            retries: 8,
            retries_of_unreached: 4,
            retries_of_dispensable: 3,
            first_wait: Duration::from_millis(500),
            longest_wait: Duration::from_secs(30),
            longest_asked: Duration::from_secs(120),
        }
    }
}

/// An attempt that failed and is made again.
#[derive(Debug)]
pub struct Retrying<'a> {
    /// The retry that comes now, counted from one.
    pub n: usize,
    /// The most retries.
    pub of: usize,
    /// The wait before it.
    pub wait: Duration,
    /// The reason the last attempt failed; `None` if a reply broke off, which its reader reports and counts.
    pub error: Option<&'a ProviderError>,
}

impl fmt::Display for Retrying<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { n, of, wait, error } = self;
        let seconds = wait.as_secs_f64();
        match error {
            Some(error) => write!(f, "{error}; trying again in {seconds:.1} s ({n} of {of})"),
            None => write!(f, "the last reply broke off; asking again in {seconds:.1} s"),
        }
    }
}

/// An observer that is called for every retry, before its wait.
pub type RetryWatcher = Arc<dyn Fn(&Retrying<'_>) + Send + Sync>;

/// A provider that repeats a request if it may yet succeed. A reply of which a piece was passed on is not
/// started again: its reader decides, and the next request waits. Dropping the call ends it, during a wait as
/// well.
#[derive(Clone)]
pub struct RetryingProvider {
    inner: Arc<dyn Provider>,
    policy: RetryPolicy,
    pause: Arc<dyn Pause>,
    watcher: RetryWatcher,
    /// The seed of the next call's jitter.
    seed: Arc<AtomicU64>,
    /// True once the server answered anything.
    is_reached: Arc<AtomicBool>,
    /// True once it began a reply, so that it speaks the protocol.
    has_replied: Arc<AtomicBool>,
    /// The models whose last request failed for good: their next ones are not waited for as long.
    failing: Arc<Mutex<HashSet<ModelId>>>,
    /// The number of replies in a row that broke off.
    n_broken: Arc<AtomicU32>,
}

impl RetryingProvider {
    /// Wraps `inner`. Waits vary by `seed`, so that those who were refused together do not come back
    /// together.
    pub fn new(
        inner: Arc<dyn Provider>,
        policy: RetryPolicy,
        pause: Arc<dyn Pause>,
        seed: u64,
        watcher: RetryWatcher,
    ) -> Self {
        Self {
            inner,
            policy,
            pause,
            watcher,
            seed: Arc::new(AtomicU64::new(seed)),
            is_reached: Arc::default(),
            has_replied: Arc::default(),
            failing: Arc::default(),
            n_broken: Arc::default(),
        }
    }

    /// Returns the models that fail. A panic elsewhere leaves them as they are.
    fn failing(&self) -> MutexGuard<'_, HashSet<ModelId>> {
        self.failing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn attempts(&self, most: usize) -> Attempts<'_> {
        let seed = self.seed.fetch_add(1, Ordering::Relaxed);
        let waits = ExponentialBuilder::new()
            .with_min_delay(self.policy.first_wait)
            .with_max_delay(self.policy.longest_wait)
            .with_factor(2.0)
            .with_max_times(self.policy.retries)
            .with_jitter()
            .with_jitter_seed(seed);
        Attempts { provider: self, waits: Box::new(waits.build()), n: 0, most }
    }

    /// Waits if the last replies broke off: the longer, the more of them.
    async fn wait_after_broken(&self) {
        let n_broken = self.n_broken.load(Ordering::Relaxed);
        if n_broken > 0 && self.policy.retries > 0 {
            let wait = self.policy.first_wait.saturating_mul(1 << n_broken.min(MOST_DOUBLINGS));
            let wait = wait.min(self.policy.longest_wait);
            let of = self.policy.retries;
            (self.watcher)(&Retrying { n: of.min(n_broken as usize), of, wait, error: None });
            self.pause.pause(wait).await;
        }
    }

    /// Counts the replies in a row that break off.
    fn watched(&self, pieces: ChatStream) -> ChatStream {
        let n_broken = Arc::clone(&self.n_broken);
        let mut is_over = false;
        let noted = pieces.map(Some).chain(stream::iter([None])).filter_map(move |piece| {
            let is_whole = |piece: &ChatCompletionMessage| piece.finish_reason.is_some();
            match &piece {
                _ if is_over => {}
                Some(Ok(piece)) if !is_whole(piece) => {}
                Some(Ok(_) | Err(ProviderError::UnreadableCall { .. })) => {
                    n_broken.store(0, Ordering::Relaxed);
                    is_over = true;
                }
                Some(Err(_)) | None => {
                    n_broken.fetch_add(1, Ordering::Relaxed);
                    is_over = true;
                }
            }
            ready(piece)
        });
        noted.boxed()
    }
}

/// The wait after broken replies is not doubled more often.
const MOST_DOUBLINGS: u32 = 6;

/// The attempts of one call.
struct Attempts<'a> {
    provider: &'a RetryingProvider,
    waits: Box<dyn Iterator<Item = Duration> + Send>,
    n: usize,
    most: usize,
}

impl Attempts<'_> {
    /// Waits until the next attempt is due; returns the error if there is none.
    async fn after(&mut self, error: ProviderError) -> Result<(), ProviderError> {
        let RetryingProvider { policy, pause, watcher, is_reached, .. } = self.provider;
        is_reached.fetch_or(!matches!(error, ProviderError::Network { .. }), Ordering::Relaxed);
        let of = self.most.min(match (&error, is_reached.load(Ordering::Relaxed)) {
            // It took minutes.
            (ProviderError::OverLimit { .. }, _) => 1,
            // The server is well, and the model would write the same again: the caller tells it.
            (ProviderError::UnreadableCall { .. }, _) => 0,
            (_, true) => policy.retries,
            (_, false) => policy.retries.min(policy.retries_of_unreached),
        });
        let Some(wait) = self.wait(&error).filter(|_| self.n < of) else { return Err(error) };
        self.n += 1;
        watcher(&Retrying { n: self.n, of, wait, error: Some(&error) });
        pause.pause(wait).await;
        Ok(())
    }

    fn wait(&mut self, error: &ProviderError) -> Option<Duration> {
        // A proxy may show a page while the server starts again.
        let is_page = matches!(error, ProviderError::WrongProtocol { .. });
        match error.retry() {
            Retry::Never if is_page && self.provider.has_replied.load(Ordering::Relaxed) => self.waits.next(),
            Retry::Never => None,
            Retry::Soon => self.waits.next(),
            Retry::After(asked) if asked > self.provider.policy.longest_asked => None,
            Retry::After(asked) => self.waits.next().map(|wait| wait.max(asked)),
        }
    }
}

#[async_trait]
impl Provider for RetryingProvider {
    async fn chat(&self, prompt: Prompt) -> Result<ChatStream, ProviderError> {
        self.wait_after_broken().await;
        let model = prompt.options().model.model.clone();
        let most = match self.failing().contains(&model) {
            true => 1,
            false if prompt.options().is_dispensable => self.policy.retries_of_dispensable,
            false => usize::MAX,
        };
        let mut attempts = self.attempts(most);
        loop {
            match begin_reply(&*self.inner, prompt.clone()).await {
                Ok(stream) => {
                    self.is_reached.store(true, Ordering::Relaxed);
                    self.has_replied.store(true, Ordering::Relaxed);
                    self.failing().remove(&model);
                    return Ok(self.watched(stream));
                }
                Err(error) => {
                    let is_well = matches!(error, ProviderError::UnreadableCall { .. });
                    let failed = attempts.after(error).await;
                    if failed.is_err() && !is_well {
                        self.failing().insert(model.clone());
                    }
                    failed?;
                }
            }
        }
    }

    async fn models(&self) -> Result<Vec<ModelInfo>, ProviderError> {
        let mut attempts = self.attempts(usize::MAX);
        loop {
            match self.inner.models().await {
                Ok(models) => return Ok(models),
                Err(error) => attempts.after(error).await?,
            }
        }
    }

    /// Asks once: no one waits for optional information.
    async fn model_info(&self, id: &ModelId) -> Result<Option<ModelInfo>, ProviderError> {
        self.inner.model_info(id).await
    }

    fn check(&self) -> Result<(), ProviderError> {
        self.inner.check()
    }
}

/// Returns a reply whose first piece with content has arrived.
async fn begin_reply(provider: &dyn Provider, prompt: Prompt) -> Result<ChatStream, ProviderError> {
    let mut pieces = provider.chat(prompt).await?;
    let mut silent = Vec::new();
    while let Some(piece) = pieces.next().await {
        let piece = piece?;
        let is_silent = says_nothing(&piece);
        silent.push(Ok(piece));
        if !is_silent {
            break;
        }
    }
    Ok(stream::iter(silent).chain(pieces).boxed())
}

fn says_nothing(piece: &ChatCompletionMessage) -> bool {
    piece.content.is_none()
        && piece.reasoning.is_none()
        && piece.tool_calls.is_empty()
        && piece.finish_reason.is_none()
}

#[cfg(test)]
mod tests {
    use forge_domain::{
        Budget, ChatOptions, Conversation, FinishReason, ModelLimits, ModelRef, ProviderId, ReplyParts,
        TokenCounter, Tokens,
    };
    use futures::executor::block_on;
    use pretty_assertions::assert_eq;

    use super::*;

    struct Nothing;
    impl TokenCounter for Nothing {
        fn count(&self, _text: &str) -> Tokens {
            Tokens::ZERO
        }
    }

    fn prompt() -> Prompt {
        prompt_that(false)
    }

    fn prompt_that(is_dispensable: bool) -> Prompt {
        let provider = ProviderId::new("p").unwrap();
        let model = ModelRef { provider, model: ModelId::new("m").unwrap() };
        let limits = ModelLimits { window: Tokens::new(1_000), max_output: None };
        let options = ChatOptions { is_dispensable, ..ChatOptions::new(model) };
        let budget = Budget::new(limits, options, Vec::new(), &Nothing);
        budget.admit(Conversation::new().view()).unwrap()
    }

    type Answer = Result<Vec<Result<ChatCompletionMessage, ProviderError>>, ProviderError>;

    /// A provider that gives its answers in order.
    struct Scripted(Mutex<Vec<Answer>>);

    #[async_trait]
    impl Provider for Scripted {
        async fn chat(&self, _prompt: Prompt) -> Result<ChatStream, ProviderError> {
            let answer = self.0.lock().unwrap().remove(0);
            answer.map(|pieces| stream::iter(pieces).boxed())
        }

        async fn models(&self) -> Result<Vec<ModelInfo>, ProviderError> {
            self.0.lock().unwrap().remove(0).map(|_| Vec::new())
        }
    }

    /// A clock that waits no time and records the waits.
    #[derive(Default)]
    struct Noted(Mutex<Vec<f64>>);

    #[async_trait]
    impl Pause for Noted {
        async fn pause(&self, how_long: Duration) {
            self.0.lock().unwrap().push(how_long.as_secs_f64());
        }
    }

    fn busy(retry_after: Option<u64>) -> ProviderError {
        let retry_after = retry_after.map(Duration::from_secs);
        ProviderError::Overloaded { status: 529, retry_after, message: "busy".into() }
    }

    fn page() -> ProviderError {
        ProviderError::WrongProtocol { url: "http://h".into(), what: "a page".into() }
    }

    fn piece(text: &str) -> ChatCompletionMessage {
        ChatCompletionMessage { content: Some(text.into()), ..ChatCompletionMessage::default() }
    }

    fn hi() -> Answer {
        let end = ChatCompletionMessage { finish_reason: Some(FinishReason::Stop), ..Default::default() };
        Ok(vec![Ok(ChatCompletionMessage::default()), Ok(piece("hi")), Ok(end)])
    }

    /// Returns the outcome of a call, the waits, and what the watcher was told.
    fn call(script: Vec<Answer>) -> (Result<String, String>, Vec<f64>, Vec<String>) {
        let (pause, told) = (Arc::new(Noted::default()), Arc::new(Mutex::new(Vec::new())));
        let noted = Arc::clone(&told);
        let provider = RetryingProvider::new(
            Arc::new(Scripted(Mutex::new(script))),
            RetryPolicy { retries: 3, retries_of_unreached: 2, ..RetryPolicy::default() },
            Arc::clone(&pause) as Arc<dyn Pause>,
            7,
            Arc::new(move |retrying| noted.lock().unwrap().push(retrying.to_string())),
        );
        let outcome = block_on(async {
            let mut stream = provider.chat(prompt()).await?;
            let mut parts = ReplyParts::default();
            while let Some(piece) = stream.next().await {
                parts.push(piece?);
            }
            parts.finish()
        });
        let waited = pause.0.lock().unwrap().clone();
        let told = told.lock().unwrap().clone();
        (outcome.map(|reply| reply.message.to_text()).map_err(|error| error.to_string()), waited, told)
    }

    #[test]
    fn what_may_pass_is_tried_again_with_growing_waits() {
        let broken = || Ok(vec![Ok(ChatCompletionMessage::default()), Err(ProviderError::Truncated)]);
        let (outcome, waited, told) = call(vec![Err(busy(None)), broken(), Err(busy(None)), hi()]);
        assert_eq!(outcome, Ok("hi".to_owned()));
        for (wait, [least, most]) in waited.iter().zip([[0.5, 1.0], [1.0, 2.0], [2.0, 4.0]]) {
            assert!((least..=most).contains(wait), "{waited:?}");
        }
        assert!(told[0].starts_with("the provider is unavailable (status 529): busy; trying again in "));
        assert!(told[2].ends_with(" s (3 of 3)"), "{told:?}");
    }

    #[test]
    fn attempts_are_bounded_and_the_last_error_is_told() {
        let (outcome, waited, _) = call((0..5).map(|_| Err(busy(None))).collect());
        assert_eq!(outcome, Err("the provider is unavailable (status 529): busy".to_owned()));
        assert_eq!(waited.len(), 3);
    }

    #[test]
    fn the_servers_wish_is_kept_within_reason() {
        let (outcome, waited, _) = call(vec![Err(busy(Some(60))), hi()]);
        assert_eq!((outcome, waited), (Ok("hi".to_owned()), vec![60.0]));
        let (outcome, waited, _) = call(vec![Err(busy(Some(3_600))), hi()]);
        assert!(outcome.is_err());
        assert_eq!(waited, Vec::<f64>::new());
    }

    #[test]
    fn what_cannot_help_is_not_tried() {
        let refused = ProviderError::InvalidRequest { status: 400, message: "no".into() };
        let unread = ProviderError::UnreadableCall { status: 500, message: "no".into() };
        for script in [
            vec![Err(refused)],
            vec![Err(unread)],
            vec![Err(page())],
            // The reader has seen a part of it.
            vec![Ok(vec![Ok(piece("ha")), Err(ProviderError::Truncated)])],
        ] {
            let (outcome, waited, told) = call(script);
            assert!(outcome.is_err());
            assert_eq!((waited.len(), told.len()), (0, 0));
        }
    }

    #[test]
    fn a_server_that_was_never_reached_is_not_waited_for_as_long() {
        let unreached = || ProviderError::Network { url: "http://h".into(), source: "refused".into() };
        for (script, expected) in [
            ((0..9).map(|_| Err(unreached())).collect::<Vec<_>>(), 2),
            ([busy(None)].into_iter().chain((0..9).map(|_| unreached())).map(Err).collect(), 3),
        ] {
            let (outcome, waited, _) = call(script);
            assert!(outcome.is_err());
            assert_eq!(waited.len(), expected);
        }
    }

    #[test]
    fn a_model_that_failed_for_good_is_tried_once_more_until_it_answers() {
        let pause = Arc::new(Noted::default());
        let mut script: Vec<Answer> = (0..6).map(|_| Err(busy(None))).collect();
        script.extend([hi(), Err(busy(None)), Err(busy(None)), hi()]);
        let provider = RetryingProvider::new(
            Arc::new(Scripted(Mutex::new(script))),
            RetryPolicy { retries: 3, ..RetryPolicy::default() },
            Arc::clone(&pause) as Arc<dyn Pause>,
            7,
            Arc::new(|_| {}),
        );
        for (is_answered, n_waits) in [(false, 3), (false, 4), (true, 4), (true, 6)] {
            assert_eq!(block_on(provider.chat(prompt())).is_ok(), is_answered);
            assert_eq!(pause.0.lock().unwrap().len(), n_waits);
        }
    }

    #[test]
    fn a_page_of_a_server_that_replied_before_may_pass() {
        let pause = Arc::new(Noted::default());
        let provider = RetryingProvider::new(
            Arc::new(Scripted(Mutex::new(vec![hi(), Err(page()), hi()]))),
            RetryPolicy::default(),
            Arc::clone(&pause) as Arc<dyn Pause>,
            7,
            Arc::new(|_| {}),
        );
        for n_waits in [0, 1] {
            assert!(block_on(provider.chat(prompt())).is_ok());
            assert_eq!(pause.0.lock().unwrap().len(), n_waits);
        }
    }

    #[test]
    fn a_reply_that_the_caller_can_do_without_is_not_waited_for_long() {
        let pause = Arc::new(Noted::default());
        let provider = RetryingProvider::new(
            Arc::new(Scripted(Mutex::new((0..9).map(|_| Err(busy(None))).collect()))),
            RetryPolicy::default(),
            Arc::clone(&pause) as Arc<dyn Pause>,
            7,
            Arc::new(|_| {}),
        );
        assert!(block_on(provider.chat(prompt_that(true))).is_err());
        assert_eq!(pause.0.lock().unwrap().len(), RetryPolicy::default().retries_of_dispensable);
    }

    #[test]
    fn after_replies_that_broke_off_the_next_request_waits() {
        let broken = || Ok(vec![Ok(piece("ha")), Err(ProviderError::Truncated)]);
        let cut = || Ok(vec![Ok(piece("ha"))]);
        let (pause, told) = (Arc::new(Noted::default()), Arc::new(Mutex::new(Vec::new())));
        let noted = Arc::clone(&told);
        let provider = RetryingProvider::new(
            Arc::new(Scripted(Mutex::new(vec![broken(), cut(), hi(), hi()]))),
            RetryPolicy::default(),
            Arc::clone(&pause) as Arc<dyn Pause>,
            7,
            Arc::new(move |retrying| noted.lock().unwrap().push(retrying.to_string())),
        );
        for expected in [vec![], vec![1.0], vec![1.0, 2.0], vec![1.0, 2.0]] {
            let pieces = block_on(async { provider.chat(prompt()).await.unwrap().collect::<Vec<_>>().await });
            assert!(!pieces.is_empty());
            assert_eq!(*pause.0.lock().unwrap(), expected);
        }
        let expected = [1, 2].map(|n| format!("the last reply broke off; asking again in {n}.0 s"));
        assert_eq!(*told.lock().unwrap(), expected);
    }

    #[test]
    fn the_same_seed_waits_the_same_time() {
        let waits = || call(vec![Err(busy(None)), Err(busy(None)), hi()]).1;
        assert_eq!(waits(), waits());
    }
}
