//! Readers for the trace formats Linux schedulers are debugged with: from bytes to typed events, topology
//! facts and metadata. No analysis happens here.
//!
//! Every format follows its own description: event fields come from the `format` text a trace carries, sizes
//! and byte order from its header. A size that a file merely claims never decides an allocation. What is
//! damaged but recoverable becomes a [`fault::Fault`] that travels beside the data.
#![deny(unsafe_code)]

pub mod bytes;
pub mod decode;
pub mod error;
pub mod event;
pub mod fault;
pub mod format;
pub mod glance;
pub mod kernel_config;
pub mod machine_record;
pub mod map;
pub mod perfdata;
mod plausible;
pub mod print_fmt;
pub mod symbols;
pub mod topology;
pub mod trace;
pub mod tracedat;
pub mod watch;
