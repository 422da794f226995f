//! Interrupts between CPUs and TLB shootdowns: traces worked by hand, and real ones counted by another route.

mod by_hand;
mod raw;
mod real;
