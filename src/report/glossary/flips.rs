//! Words of wakee flips and of what `wake_wide()` makes of them.

use super::{Term, term};

/// Ways to count flips and to judge by them: a decay, and a rule.
pub const POLICIES: [Term; 7] = [
    term(
        "zero-old",
        "decay to 0, old rule",
        "flips start again from 0 after a second (3.12 to 3.15), judged by the rule of before 4.3",
    ),
    term(
        "zero-new",
        "decay to 0, new rule",
        "flips start again from 0 after a second (3.12 to 3.15), judged by the rule of 4.3 and later",
    ),
    term(
        "halve-old",
        "halved once, old rule",
        "flips are halved once after a second or more (3.16 and later), judged by the rule of before 4.3",
    ),
    term(
        "halve-new",
        "halved once, new rule",
        "flips are halved once after a second or more (3.16 and later), judged by the rule of 4.3 and later: what kernels \
         do since 4.3",
    ),
    term(
        "loop-old",
        "halved each second, old rule",
        "flips are halved for each second gone by (proposed in August 2014, never merged), judged by the rule of before \
         4.3",
    ),
    term(
        "loop-new",
        "halved each second, new rule",
        "flips are halved for each second gone by (proposed in August 2014, never merged), judged by the rule of 4.3 and \
         later",
    ),
    term(
        "kernel",
        "what the kernel does",
        "the decay and the rule of the kernel that was recorded",
    ),
];

/// What `wake_wide()` says of a wakeup.
pub const DECISIONS: [Term; 4] = [
    term(
        "wide",
        "wakee stays near its CPU",
        "wake_wide() says yes: the wakee is not pulled to the waker, it stays near its previous CPU",
    ),
    term(
        "affine",
        "waker's CPU is considered",
        "wake_wide() says no: wake_affine() may pull the wakee to the waker's CPU",
    ),
    term(
        "undecided",
        "both are possible",
        "both are possible by what is known of the counts",
    ),
    term(
        "warming-up",
        "not known since the start yet",
        "both are possible, and a count was never known to within 1 so far: what came before the trace is not known",
    ),
];

/// Parts that tasks play in waking each other.
pub const ROLES: [Term; 3] = [
    term(
        "1:N",
        "one waker, many wakees",
        "a waker of many wakees, between which it changes",
    ),
    term("N:1", "many wakers, one wakee", "a wakee of many wakers"),
    term(
        "ping-pong",
        "two that wake each other",
        "two tasks that wake mostly each other, in turn",
    ),
];
