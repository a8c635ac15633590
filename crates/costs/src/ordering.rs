//! The ordering of one replica alone: what each of its parts heard in a whole group is written down
//! once ([`crate::model::record`]), and told again to a fresh replica as often as is wanted, each
//! part in a thread of its own. Nothing is executed, and nothing leaves.
//!
//! What came over wires is told from the recording. What parts say to each other is not: they say
//! it again, through a [`Mailbox`], and the recording has no more of it than where in its order a
//! part took the next letter. Equal parts that hear the same in the same order say the same, so
//! what the others of the group answered then fits.

use crate::mailbox::{Mailbox, Stalled};
use crate::ordering_core::{OrderingCore, OrderingFront};
use crate::parts::Parts;
use pentarchy_core::Bytes;
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{ClientId, Millis, ReplicaId, Slot};
use pentarchy_core::ports::replica::{Input, Output, speculation};
use pentarchy_machine::pillar::{FromPillar, ToPillar};
use std::thread::{Scope, ScopedJoinHandle, scope};
use std::time::Duration;

/// Something that a part of a replica hears.
#[derive(Clone, Debug)]
pub enum Heard {
    /// From another replica: a message, decrypted.
    Replica(ReplicaId, Bytes),
    /// From a client.
    Client(ClientId, Bytes),
    /// All that had arrived was told.
    Round(Millis),
    /// The digest of the state after a slot.
    Checkpointed(Slot, Digest),
    /// What this pillar says next.
    Said(u8),
    /// What a pillar is told next.
    Told,
}

/// All that a replica heard, in the order of each of its parts.
pub struct Recording {
    /// The part with clients and execution.
    pub front: Vec<Heard>,
    /// The pillars, by number; none if the order is not split.
    pub pillar_cores: Vec<Vec<Heard>>,
    /// Requests that it had executed.
    pub requests: usize,
}

impl Heard {
    /// Tells the part with clients, unless it comes from another part.
    fn tell(&self, front: &mut OrderingFront) {
        match self {
            Self::Replica(peer, bytes) => front.on_peer(*peer, bytes),
            Self::Client(client, bytes) => front.on_client(*client, bytes),
            Self::Round(now) => front.on_round(*now),
            Self::Checkpointed(slot, state) => {
                front.tell(Input::Checkpointed { slot: *slot, state: *state });
            }
            Self::Said(_) | Self::Told => {}
        }
    }

    /// Tells a pillar, unless it comes from another part.
    pub(crate) fn tell_cell(&self, cell: &mut OrderingCore) {
        match self {
            Self::Replica(peer, bytes) => cell.on_peer(*peer, bytes),
            Self::Round(now) => cell.on_round(*now),
            Self::Client(..) | Self::Checkpointed(..) | Self::Said(_) | Self::Told => {}
        }
    }
}

/// A part of a replica, as a thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Thread {
    /// The one with clients and execution.
    Front,
    /// A pillar.
    Pillar(usize),
}

/// Between a pillar and the rest.
#[derive(Default)]
struct Mail {
    told: Mailbox<ToPillar>,
    said: Mailbox<FromPillar>,
}

/// Tells a fresh replica all of it, each part in a thread, in which `around` runs the work. Gives
/// the number of requests that it ordered.
///
/// # Errors
/// [`Stalled`] if a part waits for longer than `patience` for what another one says.
///
/// # Panics
/// With the part that has.
pub fn order(
    replica: Parts,
    recording: &Recording,
    patience: Duration,
    around: &(dyn Fn(Thread, &mut dyn FnMut()) + Sync),
) -> Result<usize, Stalled> {
    let Parts { mut front, pillar_cores } = replica;
    let mail: Vec<Mail> = pillar_cores.iter().map(|_| Mail::default()).collect();
    scope(|scope| {
        let pillar_cores =
            pillar_cores.into_iter().zip(&recording.pillar_cores).zip(&mail).enumerate();
        let of_pillar_cores: Vec<_> = pillar_cores
            .map(|(number, ((mut cell, heard), mail))| {
                spawn(scope, Thread::Pillar(number), around, move || {
                    cell_order(&mut cell, heard, (mail, patience)).map(|()| 0)
                })
            })
            .collect();
        let of_front = spawn(scope, Thread::Front, around, || {
            front_order(&mut front, &recording.front, (&mail, patience))
        });
        let join = |thread: ScopedJoinHandle<'_, _>| match thread.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        let pillar_cores: Vec<_> = of_pillar_cores.into_iter().map(join).collect();
        let ordered = join(of_front);
        pillar_cores.into_iter().try_for_each(|cell| cell.map(drop))?;
        ordered
    })
}

type Ordered = Result<usize, Stalled>;

fn spawn<'scope>(
    scope: &'scope Scope<'scope, '_>,
    thread: Thread,
    around: &'scope (dyn Fn(Thread, &mut dyn FnMut()) + Sync),
    mut work: impl FnMut() -> Ordered + Send + 'scope,
) -> ScopedJoinHandle<'scope, Ordered> {
    scope.spawn(move || {
        let mut result = Ok(0);
        around(thread, &mut || result = work());
        result
    })
}

fn cell_order(
    cell: &mut OrderingCore,
    heard: &[Heard],
    (mail, patience): (&Mail, Duration),
) -> Result<(), Stalled> {
    let (mut told, mut saying) = (mail.told.reader(patience), Vec::new());
    for heard in heard {
        match heard {
            Heard::Told => cell.hear(told.letter()?),
            heard => heard.tell_cell(cell),
        }
        if matches!(heard, Heard::Round(_)) {
            saying.extend(cell.said());
            mail.said.post(&mut saying);
            cell.to_peers().for_each(|(_, queue)| queue.clear());
        }
    }
    Ok(())
}

fn front_order(
    front: &mut OrderingFront,
    heard: &[Heard],
    (mail, patience): (&[Mail], Duration),
) -> Ordered {
    let mut said: Vec<_> = mail.iter().map(|mail| mail.said.reader(patience)).collect();
    let mut telling: Vec<Vec<ToPillar>> = mail.iter().map(|_| Vec::new()).collect();
    let mut requests = 0;
    for heard in heard {
        match heard {
            Heard::Said(pillar) => front.on_pillar(*pillar, said[usize::from(*pillar)].letter()?),
            heard => heard.tell(front),
        }
        requests += front.outputs().iter().map(ordered).sum::<usize>();
        if matches!(heard, Heard::Round(_)) {
            front.to_pillars().for_each(|(pillar, told)| telling[usize::from(pillar)].push(told));
            telling.iter_mut().zip(mail).for_each(|(told, mail)| mail.told.post(told));
            front.to_peers().for_each(|(_, queue)| queue.clear());
        }
    }
    Ok(requests)
}

/// How many requests this orders.
fn ordered(output: &Output) -> usize {
    match output {
        Output::Execute { batch, .. }
        | Output::Speculation(speculation::Output::Speculate { batch, .. }) => batch.requests(),
        _ => 0,
    }
}
