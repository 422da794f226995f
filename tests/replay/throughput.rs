//! Units of work and the critical path against what workloads printed.
