//! What clients are told of what was executed, whether it may be taken back or not.

use crate::admission::request;
use crate::driver::Driver;
use crate::fault::told;
use crate::halt::Halt;
use crate::machine::Machine;
use crate::observed::{NoticeLog as _, Observed};
use crate::replying::SlotResults;
use crate::store::Disk;
use pentarchy_core::batch::Batch;
use pentarchy_core::designated_replier::DesignatedReplier;
use pentarchy_core::erased::CoreEvent;
use pentarchy_core::executor::Notice;
use pentarchy_core::ids::{ClientId, Slot, View};
use pentarchy_core::ports::client::{Place, Reply, ToClient};
use pentarchy_core::ports::replica::{Input, speculation};
use pentarchy_core::request::Envelope;
use std::collections::BTreeMap;
use std::sync::Arc;

impl<D: Disk> Machine<'_, D> {
    /// The core, which speculates, asks for something.
    pub(crate) fn on_speculation(
        &mut self,
        output: speculation::Output,
        driver: &mut impl Driver,
    ) -> Result<(), Halt> {
        use speculation::Output;
        match output {
            Output::Speculate { answers, slot, batch, view, history } => {
                self.speculate(Place { view, slot, history }, &batch, answers, driver)?;
            }
            Output::Answer { slot, view } => self.answer_late(slot, view, driver),
            Output::Commit { upto } => self.commit(upto, driver)?,
            Output::Rollback { after } => self.roll_back(after, driver)?,
            Output::Restate { view } => self.restate(view, driver),
            Output::Tell { client, message } => self.tell_client(client, message, driver),
        }
        Ok(())
    }

    /// Executes what may be taken back, and tells clients so if it `answers`.
    fn speculate<R: Driver>(
        &mut self,
        place: Place,
        batch: &Arc<Batch>,
        answers: bool,
        driver: &mut R,
    ) -> Result<(), Halt> {
        if self.executor.is_ending() {
            // Nothing comes behind the end of an epoch, unless that is taken back.
            return Ok(());
        }
        self.assert_not_wedged(place.slot);
        let begun = driver.elapsed();
        let mut all: Vec<(ClientId, Vec<Reply>)> = Vec::new();
        let mut notices = R::Notices::default();
        let mut results = SlotResults::new(&self.engine.core.rules());
        let is_wanted = self.executor.speculate(place, batch, answers, |client, reply| {
            notices.note_open(client, &reply);
            let is_told = results.note(client, &reply) && answers;
            match all.last_mut() {
                _ if !is_told => {}
                Some((last, replies)) if last == client => replies.push(reply),
                _ => all.push((*client, vec![reply])),
            }
        });
        self.check_service()?;
        self.engine.inward.extend(results.event(place.slot));
        self.meter.executed(batch, begun, driver.elapsed());
        self.rest_on_what_is_kept(driver);
        driver.on_notices(notices);
        driver.observe(Observed::Speculated { place, batch });
        let telling = self.telling();
        for (client, replies) in all {
            self.answer_speculatively(client, place, replies, Some(telling), driver);
        }
        if is_wanted {
            self.want(place.slot);
        }
        Ok(())
    }

    /// How this replica tells results that it has just come by.
    pub(crate) fn telling(&self) -> DesignatedReplier {
        let (me, n) = (self.engine.places.me, self.executor.members());
        // Nobody else can tell what this replica makes of a result.
        let whole_bytes = match self.replies.makes_own() {
            true => usize::MAX,
            false => self.limits.whole_result_bytes,
        };
        DesignatedReplier { me, n, whole_bytes }
    }

    /// What was speculated stands in another view: a client that waits for equal answers of all
    /// would wait until it asks again.
    fn restate(&mut self, view: View, driver: &mut impl Driver) {
        let told = self.executor.restate(view);
        self.answer_all(told, driver);
    }

    /// Clients of this slot were not told when it was executed, or it stands in another view now.
    fn answer_late(&mut self, slot: Slot, view: View, driver: &mut impl Driver) {
        let told = self.executor.answers(slot, view);
        self.answer_all(told, driver);
    }

    fn answer_all(&mut self, told: Vec<(ClientId, Place, Vec<Reply>)>, driver: &mut impl Driver) {
        let telling = self.telling();
        for (client, place, replies) in told {
            self.answer_speculatively(client, place, replies, Some(telling), driver);
        }
    }

    /// Somebody waits until this slot is final.
    fn want(&mut self, slot: Slot) {
        let wanted = speculation::Input::Wanted { slot };
        self.engine.inward.push_back(CoreEvent::Input(wanted.into()));
    }

    /// Says on what results rest: if `telling` says so, some of them by their digests.
    fn answer_speculatively(
        &mut self,
        client: ClientId,
        place: Place,
        replies: Vec<Reply>,
        telling: Option<DesignatedReplier>,
        driver: &mut impl Driver,
    ) {
        if self.replies.contains(&client) {
            let replies = self.as_told(replies);
            let (replies, digests) = match telling {
                Some(telling) => telling.split(&client, replies),
                None => (replies, Vec::new()),
            };
            let primary = self.membership().primary(place.view);
            if !replies.is_empty() {
                let told = ToClient::Speculative { primary, place, replies };
                self.tell_client(client, told, driver);
            }
            if !digests.is_empty() {
                let told = ToClient::SpeculativeDigests { primary, place, digests };
                self.tell_client(client, told, driver);
            }
        }
    }

    /// Results as this replica tells them.
    pub(crate) fn as_told(&self, replies: Vec<Reply>) -> Vec<Reply> {
        let fault = self.engine.fault;
        let told = |reply| match told(fault, Notice::Reply(reply)) {
            Notice::Reply(reply) => Some(reply),
            Notice::Event { .. } => None,
        };
        replies.into_iter().filter_map(told).collect()
    }

    /// Tells a client something that rests on what was written before.
    pub(crate) fn tell_client(
        &mut self,
        client: ClientId,
        message: ToClient,
        driver: &mut impl Driver,
    ) {
        self.rest_on_what_is_kept(driver);
        let executed = self.executor.executed();
        driver.observe(Observed::Told { message: &message, executed });
        self.answer_query(client, message, driver);
    }

    /// What was speculated up to this slot is final.
    fn commit<R: Driver>(&mut self, upto: Slot, driver: &mut R) -> Result<(), Halt> {
        let upto = upto.min(self.executor.executed());
        let (fault, Self { executor, replies, .. }) = (self.engine.fault, &mut *self);
        let mut notices = R::Notices::default();
        executor.commit(upto, |client, notice| {
            notices.note(client, &notice);
            replies.notify(client, told(fault, notice));
        });
        driver.on_notices(notices);
        driver.observe(Observed::Committed(upto));
        if self.executor.is_ending() && !self.executor.is_speculative() {
            self.on_ended(driver)?;
        }
        Ok(())
    }

    /// Takes back what was speculated behind this slot.
    pub(crate) fn roll_back(&mut self, after: Slot, driver: &mut impl Driver) -> Result<(), Halt> {
        if after < self.executor.executed() {
            tracing::info!(%after, "rolling back speculative execution behind a slot");
            self.executor.rollback(after);
            driver.observe(Observed::RolledBack(after));
        }
        self.check_service()
    }

    /// Answers from the client table what is settled, and gives the core what is left to be
    /// ordered.
    pub(crate) fn answer_settled(
        &mut self,
        envelope: Arc<Envelope>,
        driver: &mut impl Driver,
    ) -> Option<Input> {
        let replies: Vec<Reply> = self.settled(&envelope).collect();
        let settled = replies.iter().map(|reply| reply.number).collect();
        if self.asks_core(envelope.client, &replies) {
            return request(envelope, settled, false);
        }
        if self.executor.is_speculative() {
            self.answer_open(&envelope, replies, driver);
        } else {
            self.tell_final(&envelope.client, replies, driver);
        }
        request(envelope, settled, false)
    }

    /// Tells a client what is final as such, and the rest with what it rests on.
    fn answer_open(&mut self, envelope: &Arc<Envelope>, all: Vec<Reply>, driver: &mut impl Driver) {
        let mut open: BTreeMap<Place, Vec<Reply>> = BTreeMap::new();
        let mut sure = Vec::new();
        {
            let place = self.executor.places(&envelope.client);
            for reply in all {
                match place(reply.number) {
                    Some(place) => open.entry(place).or_default().push(reply),
                    None => sure.push(reply),
                }
            }
        }
        self.tell_final(&envelope.client, sure, driver);
        for (place, replies) in open {
            self.executor.ask(place.slot, envelope);
            self.answer_speculatively(envelope.client, place, replies, None, driver);
            self.want(place.slot);
        }
    }

    /// Tells a client what is final.
    pub(crate) fn tell_final(
        &mut self,
        client: &ClientId,
        replies: Vec<Reply>,
        driver: &mut impl Driver,
    ) {
        driver.observe(Observed::Answered(client, &replies));
        for reply in replies {
            self.replies.notify(client, told(self.engine.fault, Notice::Reply(reply)));
        }
    }
}
