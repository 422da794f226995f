//! Processes and threads.
