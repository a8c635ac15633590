//! In what the variants of MinZyzzyva differ: how their views begin.

use core::marker::PhantomData;
use pentarchy_core::counter::Counter;
use pentarchy_core::protocol::Value;

/// Which rules for views: the variants of MinZyzzyva.
pub trait Views: Value {
    /// The protocol's name.
    const NAME: &'static str;
    /// Whether a view begins as soon as its primary says so, and what it took over is final then.
    const OPENS_ALONE: bool;
    /// What its devices count.
    const COUNTER: Counter;
}

/// Views begin as those of MinBFT here.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Repaired {}

impl Views for Repaired {
    const NAME: &'static str = "minzyzzyva";
    const OPENS_ALONE: bool = false;
    const COUNTER: Counter = Counter::Usig;
}

/// Views begin as printed in 2010, which is not safe. For the museum.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Printed {}

impl Views for Printed {
    const NAME: &'static str = "minzyzzyva-2010";
    const OPENS_ALONE: bool = true;
    const COUNTER: Counter = Counter::Unbound;
}

/// What is ordered is executed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Ordered<W: Views>(PhantomData<W>);
