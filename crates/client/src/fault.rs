//! Planted faults: mistakes that clients make, to prove that the scenarios notice them.
//!
//! Place: beside the code that each one breaks. Without the feature `scenarios` no fault can be
//! planted, and [`is`] is a constant.

/// A mistake that can be planted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// A message is complete whatever its `prev` says.
    IgnoresPrev,
    /// Settled messages are handed on again.
    KeepsDuplicates,
    /// A gap is counted, and not shown.
    SwallowsGaps,
    /// The end of a replay hides a gap that is due.
    ForgetsDueGap,
    /// The cursor moves before the due gap has arrived.
    StoresUnprovedCursor,
    /// A resumed topic begins by its own start.
    ForgetsCursor,
    /// Aliases of the last connection stay.
    KeepsAliases,
    /// A message with an address goes to every filter that matches.
    IgnoresAddress,
    /// A final end of a subscription is taken for a temporary one.
    RepeatsFinal,
    /// HELLO brings the ticket without the newer cursors.
    SendsStaleTicket,
    /// An expired ticket is presented.
    KeepsExpiredTicket,
    /// A refused ticket leaves its subscriptions unrequested.
    TrustsTicket,
    /// The wait before an attempt is the whole bound.
    NoJitter,
    /// A connection counts as a success at once.
    ForgetsAttempts,
    /// The client returns after every close code.
    IgnoresCloseCode,
    /// A silent server is never given up.
    TrustsSilence,
    /// PONG has a token of its own.
    AnswersAnyPing,
    /// The client leaves before its answers have arrived.
    LeavesAtOnce,
    /// The client returns at once after a go-away.
    ReturnsEarly,
    /// A plain publication is repeated.
    RepeatsPlain,
    /// A repeated publication has a new producer.
    RepeatsUnderNewId,
    /// Repeated publications come in the reverse order.
    RepeatsBackwards,
    /// A fenced producer still publishes.
    IgnoresFence,
    /// Two renewals are on their way.
    RenewsTwice,
    /// HELLO has the first token for ever.
    KeepsFirstToken,
}

#[cfg(feature = "scenarios")]
impl Fault {
    /// Every fault.
    pub const ALL: [Fault; 25] = [
        Fault::IgnoresPrev,
        Fault::KeepsDuplicates,
        Fault::SwallowsGaps,
        Fault::ForgetsDueGap,
        Fault::StoresUnprovedCursor,
        Fault::ForgetsCursor,
        Fault::KeepsAliases,
        Fault::IgnoresAddress,
        Fault::RepeatsFinal,
        Fault::SendsStaleTicket,
        Fault::KeepsExpiredTicket,
        Fault::TrustsTicket,
        Fault::NoJitter,
        Fault::ForgetsAttempts,
        Fault::IgnoresCloseCode,
        Fault::TrustsSilence,
        Fault::AnswersAnyPing,
        Fault::LeavesAtOnce,
        Fault::ReturnsEarly,
        Fault::RepeatsPlain,
        Fault::RepeatsUnderNewId,
        Fault::RepeatsBackwards,
        Fault::IgnoresFence,
        Fault::RenewsTwice,
        Fault::KeepsFirstToken,
    ];
}

#[cfg(feature = "scenarios")]
thread_local! {
    static PLANTED: std::cell::Cell<Option<Fault>> = const { std::cell::Cell::new(None) };
}

/// Plants a fault in this thread, or removes it.
#[cfg(feature = "scenarios")]
pub fn plant(fault: Option<Fault>) {
    PLANTED.set(fault);
}

/// Whether this fault is planted.
#[cfg(feature = "scenarios")]
pub(crate) fn is(fault: Fault) -> bool {
    PLANTED.get() == Some(fault)
}

/// Whether this fault is planted: never without the feature.
#[cfg(not(feature = "scenarios"))]
pub(crate) const fn is(_: Fault) -> bool {
    false
}
