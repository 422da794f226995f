//! Causes that were planted in workloads: what the report says of them.
