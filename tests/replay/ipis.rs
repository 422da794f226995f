//! Interrupts between CPUs and TLB shootdowns, counted by another route.
