//! Whether the models hold, and whether they notice the loss of each rule.

mod roster;
mod small;
mod synchronisation;
