//! What a group in memory cannot be seen to do from outside; the rest is in `tests/it/`.
