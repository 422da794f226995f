//! A simulated machine with a scheduler of its own, which knows the truth of the traces that it writes.
