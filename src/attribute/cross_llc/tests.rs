//! Planted costs are found again, and none where none was planted.
