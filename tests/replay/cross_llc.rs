//! What wakeups across LLCs cost, on traces where the truth is known.
