//! The seeded bugs.

use super::{Mutant, mutant};

/// Every mutant. The first is used by the page of [`super`] and by the tests of the mechanism only.
pub const MUTANTS: &[Mutant] = &[
    mutant("example.quorum-of-f", "f votes are enough in the example of the module page"),
    mutant("executor.time-goes-back", "the agreed time is what the last batch says"),
    mutant("executor.time-not-restored", "a transferred state does not bring the agreed time"),
    mutant("executor.service-not-cut-again", "checkpoints show the service as it began"),
    mutant("executor.clients-not-restored", "a transferred state does not bring the client table"),
    mutant("executor.stable-state-dropped", "the snapshot of a stable checkpoint is not kept"),
    mutant("sessions.runs-again", "a request that is ordered twice runs twice"),
    mutant("sessions.reply-of-another", "a request is answered with the result before its own"),
    mutant("sessions.replies-left-out", "checkpoints leave out the kept results"),
    mutant("sessions.floor-not-counted", "numbers are looked up as if the floor were 0"),
    mutant("sessions.fence-settles-nothing", "a number that was given up can still be executed"),
    mutant("transfer.manifest-not-checked", "a manifest is believed whatever its digest"),
    mutant("transfer.chunk-not-checked", "a chunk is believed whatever its digest"),
    mutant("transfer.waits-for-ever", "a source that does not answer is never given up"),
    mutant("transfer.asks-vouchers-only", "a state is asked only of those that vouched for it")
        .scheduled(),
    mutant("votes.twice-counts-twice", "a vote that is repeated is counted again"),
    mutant("batch.time-not-named", "the digest of a batch leaves out its time"),
    mutant("domain.epochs-shared", "what is said in one epoch counts in the next too").scheduled(),
    mutant("domain.configurations-shared", "what is said under one configuration counts in all"),
    mutant("device.certifies-twice", "a device gives its last position to another statement too"),
    mutant("device.not-bound-to-views", "a device may go back to a view that its replica left")
        .explored(),
    mutant("trusted.stays-in-its-epoch", "the counter of production stays in the epoch that ended"),
    mutant("trusted.restores-nothing", "the counter of production resumes as if it were fresh"),
    mutant("trusted.forgets-what-it-said", "what TrInX remembers leaves out its last certificates"),
    mutant("trusted.certifies-twice", "the USIG of production gives spent positions away again"),
    mutant("trusted.seal-not-checked", "production takes whatever seal a USIG's identifier has"),
    mutant("trusted.checks-in-its-epoch", "production checks in the epoch in which it began"),
    mutant("trusted.mac-not-checked", "production takes every trusted MAC"),
    mutant("trusted.leaves-in-silence", "leaving a view, TrInX does not name the position before"),
    mutant("session.any-tag-good", "a device takes every tag for its client's"),
    mutant("session.client-not-bound", "a device takes one client's tag for another's"),
    mutant("session.group-not-bound", "a device takes a tag that was made for another group"),
    mutant("epochs.handover-of-f", "f votes prove how an epoch ends"),
    mutant("epochs.rescued-by-one", "one administrator has a lost group go on").scheduled(),
    mutant("epochs.rescued-by-message", "a replica goes on by a rescue it is shown").scheduled(),
    mutant("epochs.begins-elsewhere", "an epoch begins where the one before began"),
    mutant("epochs.reads-before-base", "queries are answered from before an epoch's first state"),
    mutant("epochs.reads-behind-the-end", "queries are answered in what is over").scheduled(),
    mutant("epochs.leaves-at-once", "a member that leaves gives nobody its state").scheduled(),
    mutant("epochs.judged-early", "former keys judge what the next epoch's members sign")
        .scheduled(),
    mutant("roster.ready-behind-the-end", "a member is ready as the life that it just lost")
        .scheduled(),
    mutant("following.rescue-shown", "clients go by a rescue that a replica shows").scheduled(),
    mutant(
        "following.believes-single-link",
        "a client checks a link with the keys that the link names",
    )
    .scheduled(),
    mutant("epochs.newer-unheard", "what a member shows that joined later is not looked at")
        .scheduled(),
    mutant(
        "epochs.next-not-compared",
        "a proof may show another configuration than its signers named",
    )
    .scheduled(),
    mutant(
        "epochs.votes-before-state-is-durable",
        "a member signs for a state that it has in memory only",
    )
    .scheduled(),
    mutant(
        "epochs.erases-before-durable",
        "a member erases keys before the next epoch is on its disk",
    )
    .scheduled(),
    mutant(
        "epochs.checked-in-the-one-before",
        "the next epoch's core takes requests that were checked by the lists and keys of this one",
    )
    .scheduled(),
    mutant(
        "request.macs-outlast-configuration",
        "a client's MACs convince members that keep their keys in the next configuration too",
    )
    .scheduled(),
    mutant("epochs.signing-key-kept", "a member that leaves keeps its last key"),
    mutant("epochs.former-keys-kept", "a member keeps keys of earlier configurations"),
    mutant("roster.admits-another", "the device of the next member is admitted too"),
    mutant("roster.wait-stays", "members are admitted as often as they ask after a first wait"),
    mutant("roster.one-administrator-is-enough", "one administrator's proposal is pending at once"),
    mutant("roster.ready-at-once", "an epoch ends as soon as enough members are ready"),
    mutant("roster.withdrawn-change-returns", "a change that was withdrawn can be proposed again"),
    mutant("roster.secret-stays", "devices keep their secret when members leave or join"),
    mutant("roster.ready-by-former-size", "a group that grows waits for as many as before")
        .scheduled(),
    mutant("roster.new-ones-not-needed", "a configuration begins without its new members")
        .scheduled(),
    mutant(
        "roster.change-ends-epoch",
        "an epoch ends with the change, before anybody is ready for it",
    )
    .scheduled(),
    mutant("roster.change-without-expected", "a change counts in any configuration of its number")
        .scheduled(),
    mutant("roster.second-change-replaces", "a change takes the place of the one that is pending")
        .scheduled(),
    mutant(
        "protocols.facts-not-compared",
        "a protocol goes by its name, whatever the group means by it",
    )
    .scheduled(),
    mutant("standing.counts-who-is-ahead", "answers of two configurations count").scheduled(),
    mutant("welcome.by-identity", "an identity key alone speaks as a member"),
    mutant("access.connections-only", "who may be a client is looked at where clients connect"),
    mutant("changing.possession-not-checked", "a member need not have the key that it names")
        .scheduled(),
    mutant("changing.silent-when-counted", "a member says that it is ready only until it counts"),
    mutant("changing.forgets-what-is-not-pending", "keys for a change go when it is not pending"),
    mutant("admission.share-not-kept", "one more envelope of a flood is checked than is taken"),
    mutant("links.known-clients-only", "a client that connects again is told nothing"),
    mutant("engine.goes-on-without-counter", "what the counter refuses to certify is left out"),
    mutant("engine.index-before-epoch", "a message of another epoch counts as one of this epoch")
        .scheduled(),
    mutant(
        "beginning.configuration-from-file",
        "a replica that starts again goes by its file, not by its log",
    )
    .scheduled(),
    mutant("resuming.asks-nobody", "a replica that goes on from its folder asks nobody"),
    mutant("resuming.first-seen-stays", "of what a peer said the first is noted, not the last"),
    mutant("resuming.any-epoch-counts", "who is in another epoch than the asker answers it too"),
    mutant("resuming.asks-for-ever", "who goes on from a folder asks in every epoch"),
    mutant("client.believes-f", "a client believes what f replicas say"),
    mutant("client.takes-any-result", "digests of one result confirm another"),
    mutant("client.believes-f-about-events", "a client believes what f replicas say it is told"),
    mutant("client.reads-from-a-quorum", "a query is believed when f + 1 answers are equal"),
    mutant("client.never-retries", "a request is sent once"),
    mutant("client.trusts-primary", "a request is sent again to the primary only"),
    mutant(
        "client.takes-views-for-primaries",
        "a client takes the number of a view for a replica's",
    )
    .scheduled(),
    mutant("client.waits-whatever-it-takes", "who is always late is always waited for").scheduled(),
    mutant("client.late-answers-teach-nothing", "a client has confirmed what is only late")
        .scheduled(),
    mutant("client.forgets-what-was-confirmed", "a place is confirmed by who says so afterwards")
        .scheduled(),
    mutant(
        "pbft-tentative.not-told-again",
        "clients are not told where a view has what it took over",
    )
    .scheduled(),
    mutant("client.forgets-what-was-sent", "what a client sent to former members counts as unsent")
        .scheduled(),
    mutant("client.gives-up-early", "the floor passes numbers whose results are outstanding"),
    mutant("client.forgets-votes", "each vote takes the place of those before"),
    mutant("pending.waits-for-digest", "a number that ran with another content stays waited for"),
    mutant("log.failed-sync-ignored", "what a failed sync was to write counts as durable"),
    mutant("log.sync-forgotten", "what was written counts as durable without a sync"),
    mutant("log.torn-taken-for-whole", "a group that was half written counts as written"),
    mutant("log.corrupt-taken-for-torn", "what is damaged was never written").scheduled(),
    mutant("log.gap-taken-for-end", "what is behind a hole was never written").scheduled(),
    mutant("log.sealed-too-early", "a segment is sealed before there is a next one"),
    mutant("log.segments-removed-at-once", "segments are removed without a sync after each"),
    mutant("log.life-not-counted", "a file that is used again has the marks of its life before"),
    mutant("log.reused-before-whole", "a file gets the next segment's name before it is one")
        .unclaimed(),
    mutant("cold.not-checked", "what is read of a state in a file counts as what it was")
        .scheduled(),
    mutant("disk.named-before-whole", "a file gets its name before its content is durable"),
    mutant("snapshots.packs-go-with-lists", "packs are removed with the lists that name them"),
    mutant("snapshots.rot-carried-on", "a new state relies on pieces that nobody has read again")
        .unclaimed(),
    mutant("snapshots.wrong-states-stay", "states that turned out to be wrong stay in files")
        .unclaimed(),
    mutant("chain.kept-in-memory", "a start reads the last link of the chain of proofs only"),
    mutant("chain.written-after-epoch", "the log names an epoch before its link is durable"),
    mutant("kept.wrong-states-come-back", "states that turned out to be wrong are assembled again")
        .unclaimed(),
    mutant("kept.log-states-not-read", "a start passes over the states in the log"),
    mutant("kept.cut-above-states", "the log is cut above what states in it rest on"),
    mutant("kept.rests-on-unsaved", "a state in the log counts before what it rests on is saved"),
    mutant("kept.device-memory-not-kept-again", "the device's memory is lost when the log is cut"),
    mutant("kept.awaiting-not-kept", "own messages under way are lost when the log is cut")
        .unclaimed(),
    mutant("kept.waiting-not-kept-again", "messages that wait are lost when the log is cut"),
    mutant("kept.last-positions-forgotten", "a device is not told what it certified last"),
    mutant("kept.sends-before-durable", "messages leave before what they rest on is durable"),
    mutant("kept.answers-before-durable", "clients are told things before the disk is as far"),
    mutant("kept.vouches-before-saved", "a state is vouched for before it is durable"),
    mutant("kept.executes-while-installing", "a core goes on that an installed state overtook"),
    mutant("kept.log-fills-up", "nothing is kept again while no newer state becomes stable")
        .scheduled(),
    mutant("kept.log-cut-too-early", "the log is cut above what was written again for a state"),
    mutant("kept.device-memory-not-restored", "a device is not told what it remembered"),
    mutant("frame.installs-what-is-older", "a replica goes back from a state to an earlier one")
        .scheduled(),
    mutant("frame.early-stays", "what came early for a view is kept for slots below the window")
        .scheduled(),
    mutant("frame.installed-without-proof", "the proof of a state that was asked for is forgotten")
        .scheduled(),
    mutant("frame.never-forwards", "backups do not pass requests on to the primary"),
    mutant(
        "frame.passed-on-has-no-place",
        "what backups pass on waits behind the rest, if it fits",
    )
    .scheduled(),
    mutant("frame.stuck-only-if-idle", "who lacks one slot and gets later ones is not sent it")
        .scheduled(),
    mutant("frame.any-time-is-good", "a backup accepts a time that is far ahead of its clock"),
    mutant("frame.bodies-not-served", "nobody is sent the batches that it asks for"),
    mutant("frame.checkpoint-misnamed", "a checkpoint is announced for the slot behind its own"),
    mutant("frame.stable-by-f", "f signatures make a checkpoint stable"),
    mutant("frame.never-fetches", "a replica that is behind does not fetch the state"),
    mutant("frame.resends-once", "the timer that repairs loss runs once"),
    mutant("frame.stable-not-passed-on", "proofs of checkpoints are not passed on"),
    mutant("frame.never-asks", "no replica ever asks for another view"),
    mutant("frame.leave-on-f-asks", "f asks make a replica leave its view"),
    mutant("frame.trusts-new-primary", "nobody times the new primary"),
    mutant("frame.waits-untimed-for-a-quorum", "who left alone has no timer that leads it on"),
    mutant(
        "frame.ask-outlives-entry",
        "who asked for a view behind goes on asking in one that works",
    ),
    mutant("frame.old-asks-count", "asks count that nobody stands by any more"),
    mutant("frame.asks-outlast-quiet", "what others ask for grows older at ticks only"),
    mutant(
        "frame.slowness-untimed-when-asking",
        "who asked already and then finds the primary slow never stops asking",
    ),
    mutant("frame.slots-not-passed-on", "PREPAREs and COMMITs are not sent again"),
    mutant("frame.next-slot-stays-behind", "the next slot stays below a new window"),
    mutant("frame.hole-not-reported", "who lacks what led to its state does not say so")
        .scheduled(),
    mutant("frame.votes-not-resumed", "who crashed entering a view does not vote").scheduled(),
    mutant("frame.never-times-gaps", "no backup times slots that others wait for").scheduled(),
    mutant(
        "frame.rows-heard-of-anew",
        "a primary has time to hear of a slot from when it can fill it, however long it knew of it",
    )
    .scheduled(),
    mutant("pillars.any-pillar", "what one pillar's counter certifies counts in all"),
    mutant("pillars.statements-shared", "what is said in one pillar convinces in all"),
    mutant("pillars.gaps-not-filled", "slots that nobody asks for are not filled"),
    mutant("pillars.one-is-told", "of all pillars only one is told the state after a row"),
    mutant("pillars.cut-before-all-kept-again", "the log is cut when one pillar has kept again"),
    mutant("pillars.others-not-kept-again", "when a row is stable only one pillar keeps again"),
    mutant(
        "pillars.last-answer-for-all",
        "the log is cut for all where the last pillar began to keep again",
    ),
    mutant("pillars.lowest-for-all", "each pillar goes on from where any needs the log")
        .scheduled(),
    mutant(
        "pillars.late-states-not-compared",
        "whose execution is behind does not compare its states with the group's",
    )
    .scheduled(),
    mutant("pillars.covered-not-dropped", "what an installed state covers stays in the merge")
        .scheduled(),
    mutant("pillars.state-not-here", "a pillar is told of a state that is not here"),
    mutant("pillars.gaps-left-out", "what is decided is executed although slots before it are not"),
    mutant("pillars.siblings-not-timed", "a request has only its own pillar's primary timed")
        .scheduled(),
    mutant("pillars.waits-for-ever", "what is executed late goes on waiting in its pillar"),
    mutant("pillars.bytes-go-on", "bytes before an installed state count for what comes behind it")
        .scheduled(),
    mutant("pillars.fills-what-it-voted-for", "a primary fills no slots that it has only heard of")
        .scheduled(),
    mutant("pillars.status-stale", "a pillar says only once how it stands"),
    mutant(
        "pillars.stays-ahead",
        "a pillar does not say again what execution has gone back behind",
    )
    .scheduled(),
    mutant("pillars.asks-twice", "a state is fetched that a pillar may not lack any more")
        .scheduled(),
    mutant(
        "pillars.said-twice-dropped",
        "what a pillar says again is dropped though it is lacking",
    )
    .scheduled(),
    mutant("pillars.hears-others", "a pillar on its own takes what was said in another")
        .scheduled(),
    mutant("frame.state-not-vouched-again", "after a crash the last state is not signed again"),
    mutant("usig.decide-with-f", "f commitments decide a slot"),
    mutant("usig.flight-leaks", "a decided proposal stays counted as under way"),
    mutant("usig.prepare-of-any-view", "a PREPARE of another view counts in this one"),
    mutant("usig.commit-of-any-view", "a COMMIT of another view counts in this one"),
    mutant("usig.commit-skips-gaps", "a backup commits past a slot whose PREPARE it lacks"),
    mutant(
        "usig.commits-behind-a-hole",
        "what it lacks before a state does not keep a replica from committing above",
    )
    .scheduled(),
    mutant("usig.only-authors-repeat", "nobody passes on the PREPAREs of others"),
    mutant("usig.new-view-not-passed-on", "a NEW-VIEW is not sent again"),
    mutant("pace.slow-primary-kept", "a primary may be as slow as it likes"),
    mutant("pace.deposes-at-random", "a backup finds every primary too slow"),
    mutant("usig.hides-entry", "a VIEW-CHANGE does not show how its view was opened"),
    mutant("usig.hides-last-commitment", "a VIEW-CHANGE shows all but the last commitment"),
    mutant("usig.omission-not-checked", "a VIEW-CHANGE may leave out commitments"),
    mutant("usig.members-not-checked", "a NEW-VIEW is believed whatever its members show"),
    mutant("usig.new-view-on-lowest-base", "a view begins on the lowest checkpoint shown"),
    mutant("usig.new-view-takes-shortest", "a view takes over the shortest list shown"),
    mutant("usig.nothing-taken-over", "what a view took over is forgotten as it is entered"),
    mutant("usig.slots-used-again", "a view orders in slots that it took over"),
    mutant("usig.commit-not-kept", "a commitment is not in the log"),
    mutant("usig.leaving-not-kept", "that a view was left is not in the log"),
    mutant("usig.entry-not-kept", "how a view was entered is not in the log"),
    mutant("usig.acknowledged-not-kept", "the NEW-VIEW that was acknowledged is not in the log"),
    mutant("usig.says-nothing-again", "after a crash nothing is said again"),
    mutant("usig.says-what-it-left", "a log that broke off has what was left said again")
        .scheduled(),
    mutant(
        "usig.own-prepares-forgotten",
        "after a crash a second VIEW-CHANGE shows no own PREPAREs",
    ),
    mutant("usig.entry-not-kept-again", "how a view was entered is lost when the log is cut"),
    mutant("usig.commitment-not-kept-again", "a commitment is lost when the log is cut"),
    mutant("usig.execute-on-new-view", "a NEW-VIEW takes effect without agreement on it")
        .explored(),
    mutant("pbft.claims-not-checked", "a VIEW-CHANGE is believed whatever it proves"),
    mutant("pbft.new-view-on-lowest-base", "a view begins on the lowest checkpoint claimed"),
    mutant("pbft.new-view-of-f", "a NEW-VIEW of f members is made and believed"),
    mutant("pbft.vote-of-any-view", "a vote of another view counts in this one"),
    mutant("pbft.primary-counts-twice", "a proposal counts as two votes"),
    mutant("pbft.certificate-not-kept", "a certificate is not in the log"),
    mutant("pbft.cut-certificates", "certificates are lost with the log below a checkpoint"),
    mutant("pbft.vote-not-kept", "a vote is not in the log"),
    mutant("pbft.decide-with-f", "f COMMITs decide a slot"),
    mutant("pbft.new-view-not-passed-on", "a NEW-VIEW is not sent again"),
    mutant("pbft.hides-older-views", "a VIEW-CHANGE shows certificates of the last view only"),
    mutant("pbft.hides-last-certificate", "a VIEW-CHANGE shows all but the last certificate"),
    mutant("pbft.nothing-taken-over", "what a view takes over is forgotten as it is entered"),
    mutant("pbft.gaps-stay-open", "a view does not order nothing where nothing was prepared"),
    mutant("pbft.taken-over-not-voted-for", "nobody votes for what a view took over"),
    mutant("pbft.leaving-not-kept", "that a view was left is not in the log"),
    mutant("pbft-tentative.keeps", "what a view does not take over stays executed").unclaimed(),
    mutant("pbft.entry-not-kept", "how a view was entered is not in the log"),
    mutant("modsmart.first-timestamp-zero", "a lock of view 0 counts as none"),
    mutant("modsmart.collect-names-no-view", "a NEW-VIEW holds VIEW-CHANGEs for lower views"),
    mutant("modsmart.lock-needs-no-writers", "a lock binds although nobody shows its write")
        .scheduled(),
    mutant("modsmart.no-first-count", "a lock binds whatever a quorum locked after it").scheduled(),
    mutant("modsmart.writes-twice", "who wrote what the primary proposed writes an echo, too"),
    mutant("modsmart.collects-one-slot", "a VIEW-CHANGE shows the first slot only"),
    mutant("modsmart.waits-for-uncertified-body", "a primary waits for what liars claim")
        .scheduled(),
    mutant("modsmart.waits-for-bound-body", "a primary leaves nobody out who supplies no batch")
        .scheduled(),
    mutant("modsmart.forgets-shown-writes", "a replica that enters a view forgets what it wrote")
        .scheduled(),
    mutant("modsmart.lock-not-kept", "a replica that enters a view forgets what it locked"),
    mutant("modsmart.no-echo", "who gets no proposal writes nothing").scheduled(),
    mutant("modsmart.policy-on-bound", "what a view takes over waits for the clock").scheduled(),
    mutant("modsmart.keeps-all-writes", "a table of writes has no cap"),
    mutant("modsmart.lock-carries-no-signatures", "a lock does not keep signed WRITEs"),
    mutant("modsmart.decides-below-quorum", "one ACCEPT less than a quorum decides"),
    mutant("modsmart.decided-not-told", "a decision is not told to who lacks it").scheduled(),
    mutant("modsmart.new-view-not-passed-on", "a NEW-VIEW is not sent again"),
    mutant("modsmart.nothing-taken-over", "what a view takes over is forgotten as it is entered"),
    mutant("modsmart.reads-before-locked", "queries do not wait for what is locked"),
    mutant("modsmart.write-not-in-log", "a write is not in the log"),
    mutant("modsmart.lock-not-in-log", "a lock is not in the log"),
    mutant("modsmart.cut-locks", "locks are lost with the log below a checkpoint"),
    mutant("modsmart.leaving-not-in-log", "that a view was left is not in the log"),
    mutant("modsmart.entry-not-in-log", "how a view was entered is not in the log"),
    mutant("modsmart-cft.decides-below-quorum", "one ACCEPT less than a majority decides"),
    mutant("modsmart-cft.lowest-lock-wins", "a view takes over the lock of the lowest view")
        .scheduled(),
    mutant("modsmart-cft.lock-needs-witnesses", "a view forgets a lock that few others show"),
    mutant("modsmart-cft.accepts-before-durable", "an ACCEPT does not wait for the log"),
    mutant("modsmart-cft.proposal-is-no-lock", "a primary does not lock what it proposes"),
    mutant(
        "modsmart-cft.opened-from-memory",
        "who opens a view keeps the batches that it takes over in memory only",
    )
    .scheduled(),
    mutant(
        "modsmart-cft.opens-outside-its-window",
        "who opens a view keeps its batches before its window moves to them",
    )
    .scheduled(),
    mutant(
        "modsmart-cft.cut-bound-batches",
        "the batches that a view takes over are lost with the log below a checkpoint",
    )
    .scheduled(),
    mutant("shuttle.client-believes-results", "a client needs no witness").scheduled(),
    mutant("shuttle.statement-without-configuration", "a tag counts in every configuration")
        .scheduled(),
    mutant("shuttle.executes-on-arrival", "a replica takes up what comes").scheduled(),
    mutant("shuttle.orders-behind-wedge", "a replica that has stopped still orders").scheduled(),
    mutant("shuttle.wedge-not-in-log", "that a replica has stopped is not in the log").scheduled(),
    mutant("shuttle.tags-of-one", "a replica looks at the tag of its predecessor alone")
        .scheduled(),
    mutant("shuttle.done-of-one", "a replica takes for done what its successor tagged alone")
        .scheduled(),
    mutant("shuttle.done-not-checked", "a replica takes for done what its successor says is")
        .scheduled(),
    mutant("shuttle.final-at-order-time", "a full replica says final of all that it has ordered")
        .scheduled(),
    mutant(
        "shuttle.marks-what-is-not-done",
        "a full replica signs a state that not all have ordered",
    )
    .scheduled(),
    mutant("shuttle.one-full-replica-marks", "one signature makes a checkpoint stable").scheduled(),
    mutant("shuttle.head-alone-limits", "only the head heeds how long a report may be").scheduled(),
    mutant(
        "shuttle.results-not-compared",
        "a full replica passes on results that it does not have",
    )
    .scheduled(),
    mutant("shuttle.nothing-sent-again", "what a link lost is not sent again").scheduled(),
    mutant("shuttle.return-not-timed", "nobody is accused if nothing comes back up the chain")
        .scheduled(),
    mutant("shuttle.order-not-in-log", "what a replica orders is not in the log").scheduled(),
    mutant("shuttle.results-not-in-log", "what came of a slot is not in the log").scheduled(),
    mutant("shuttle.end-not-kept-again", "that a replica has stopped goes with the cut log")
        .scheduled(),
    mutant("shuttle.blames-head-for-results", "the head is accused of what another one changed")
        .scheduled(),
    mutant("shuttle.witnesses-do-not-wait", "a witness accuses before who sees whose fault it is")
        .scheduled(),
    mutant("shuttle.passes-on-to-head-alone", "only one full replica waits for a request")
        .scheduled(),
    mutant(
        "shuttle.neighbours-share-room",
        "one neighbour asks, and nothing is left for the other",
    )
    .scheduled(),
    mutant("shuttle.refuses-one-slot-alone", "who has other results passes on what is behind them")
        .scheduled(),
    mutant("ingress.mac-not-checked", "a replica believes every trusted MAC that it receives"),
    mutant("hybrid-pbft.mac-of-anyone", "a trusted MAC counts for whoever is named beside it")
        .scheduled(),
    mutant("hybrid-pbft.mac-taken-for-unique", "f + 1 who made trusted MACs are a quorum"),
    mutant("usig.shows-commitments-only", "a VIEW-CHANGE hides what was only executed"),
    mutant(
        "minzyzzyva.executed-not-kept",
        "what is executed is not in the log before clients are told",
    ),
    mutant(
        "minzyzzyva.own-state-taken-for-stable",
        "a stable state is taken for what was executed here",
    ),
    mutant(
        "minzyzzyva.rests-unsettled",
        "what was executed last is not made final when nothing follows",
    ),
    mutant("minzyzzyva.executes-while-leaving", "what a view orders is executed after it was left"),
    mutant("minzyzzyva.commit-not-kept", "a commitment is not in the log"),
    mutant("minzyzzyva.commits-alone", "nobody commits because others do").scheduled(),
    mutant("minzyzzyva.executes-behind-a-hole", "what it lacks before a state does not stop it")
        .scheduled(),
    mutant(
        "minzyzzyva.installed-state-proves-order",
        "a replica confirms what its view ordered below a state that it installed",
    ),
    mutant(
        "minzyzzyva.commits-to-what-it-hides",
        "a commitment below an installed state is not shown",
    )
    .scheduled(),
    mutant(
        "minzyzzyva.executes-before-taking-up",
        "what led to an installed state is not in the log when more is executed",
    )
    .scheduled(),
    mutant("minzyzzyva.final-with-f", "f commitments make a slot final"),
    mutant(
        "minzyzzyva.commitments-to-anything-count",
        "commitments to other batches make a slot final",
    )
    .scheduled(),
    mutant("minzyzzyva.commitment-to-its-slot-only", "a commitment is none to the slots before")
        .unclaimed(),
    mutant("minzyzzyva.taken-over-is-final", "what a view takes over is final as it is entered"),
    mutant("minzyzzyva.nothing-taken-back", "what a view did not take over stays executed"),
    mutant("minzyzzyva.commitments-not-repeated", "the last commitment is not sent again"),
    mutant(
        "minzyzzyva.certified-forgotten",
        "after a crash a replica forgets how far it committed",
    ),
    mutant("minzyzzyva.client-believes-f-and-one", "a client is done with f + 1 equal answers"),
    mutant(
        "minzyzzyva.client-believes-one",
        "a client believes one replica that a result is final",
    )
    .scheduled(),
    mutant("frame.places-of-any-epoch", "clients are told places that do not name the epoch")
        .scheduled(),
    mutant("frame.objection-outlives-reason", "what became final late is suspected for ever")
        .scheduled(),
    mutant("frame.waits-on-over-views", "the time of a view in which to make final is that before")
        .scheduled(),
    mutant("frame.anybody-may-wait", "replicas certify slots for clients with nothing there")
        .scheduled(),
    mutant("frame.taken-back-and-forgotten", "what was taken back is not ordered until asked for")
        .scheduled(),
    mutant(
        "frame.answers-having-gone-back",
        "queries are answered from before what was taken back",
    ),
    mutant("hybster.decide-with-f", "f commitments decide a slot"),
    mutant("hybster.flight-leaks", "a decided proposal stays counted as under way"),
    mutant("hybster.prepare-of-any-view", "a PREPARE of another view counts in this one"),
    mutant("hybster.commit-of-any-view", "a COMMIT of another view counts in this one"),
    mutant("hybster.commit-skips-gaps", "a backup commits past a slot whose PREPARE it lacks"),
    mutant(
        "hybster.commits-behind-a-hole",
        "what it lacks before a state does not keep a replica from committing above",
    )
    .scheduled(),
    mutant("hybster.only-authors-repeat", "nobody passes on the PREPAREs of others"),
    mutant("hybster.new-view-not-passed-on", "a NEW-VIEW is not sent again"),
    mutant("hybster.certificate-not-passed-on", "nobody gives others why it could leave")
        .scheduled(),
    mutant(
        "hybster.who-wants-more-not-helped",
        "who wants a higher view than others is not helped by them to get there",
    )
    .scheduled(),
    mutant("hybster.last-of-primary-only", "of each primary the last NEW-VIEW counts").scheduled(),
    mutant(
        "hybster.last-acknowledgement-only",
        "who accepted a later NEW-VIEW does not vouch for an earlier one",
    )
    .scheduled(),
    mutant("hybster.comes-back-on-its-way", "a view that was accepted late is lost").scheduled(),
    mutant(
        "hybster.comes-back-wanting-more",
        "who enters a view that it accepted late, and crashes once more, wants the next one still",
    )
    .scheduled(),
    mutant("hybster.junk-stays", "batches stay that were shown for views that failed").scheduled(),
    mutant("hybster.never-acknowledges", "a NEW-VIEW that is accepted late is not acknowledged")
        .specified(),
    mutant(
        "hybster.leaves-without-certificate",
        "a view is left though nobody showed what it may have ordered",
    )
    .specified(),
    mutant(
        "hybster.certificate-unresolved",
        "a view is left though a member comes from a later one",
    )
    .specified(),
    mutant(
        "hybster.certificate-not-shown",
        "what others showed when a view was left is not shown on",
    )
    .specified(),
    mutant("hybster.hides-last-commitment", "a VIEW-CHANGE shows all but the last commitment"),
    mutant("hybster.omission-not-checked", "a VIEW-CHANGE may leave out commitments"),
    mutant("hybster.from-not-checked", "a VIEW-CHANGE may come from a view below its last word")
        .scheduled(),
    mutant("hybster.members-not-checked", "a NEW-VIEW is believed whatever its members show"),
    mutant("hybster.lowest-origin", "a view follows from the lowest view that members come from")
        .specified(),
    mutant(
        "hybster.acknowledged-by-none",
        "a view follows from one that nobody correct may have accepted",
    )
    .specified(),
    mutant("hybster.new-view-on-lowest-base", "a view begins on the lowest checkpoint shown"),
    mutant("hybster.new-view-takes-shortest", "a view takes over the shortest list shown"),
    mutant("hybster.nothing-taken-over", "what a view took over is forgotten as it is entered"),
    mutant("hybster.slots-used-again", "a view orders in slots that it took over"),
    mutant("hybster.execute-on-new-view", "a NEW-VIEW takes effect without agreement on it")
        .specified(),
    mutant("hybster.commit-not-kept", "a commitment is not in the log"),
    mutant("hybster.leaving-not-kept", "that a view was left is not in the log"),
    mutant("hybster.entry-not-kept", "how a view was entered is not in the log"),
    mutant("hybster.says-nothing-again", "after a crash nothing is said again"),
    mutant("hybster.says-what-it-left", "a log that broke off has what was left said again")
        .scheduled(),
    mutant("hybster.entry-not-kept-again", "how a view was entered is lost when the log is cut"),
    mutant("hybster.commitment-not-kept-again", "a commitment is lost when the log is cut"),
    mutant(
        "pbft.reads-before-prepared",
        "queries are answered before what was prepared here is executed",
    ),
    mutant("executor.clients-not-rolled-back", "what was taken back stays in the client table"),
    mutant("executor.other-view-not-told", "clients are not told in which view results stand now")
        .scheduled(),
    mutant("zyzzyva.certificate-of-f", "f signatures are a commit certificate").unclaimed(),
    mutant(
        "zyzzyva.certificate-of-any-view",
        "a VIEW-CHANGE may show a certificate of an older view",
    )
    .unclaimed(),
    mutant("zyzzyva.new-view-of-few", "a NEW-VIEW of f + 1 members is made and believed"),
    mutant("client.ignores-places", "a client adds up answers from different places").scheduled(),
    mutant("zyzzyva.client-believes-a-quorum", "a client acts on what a quorum answers"),
    mutant(
        "zyzzyva.client-trusts-one-keeper",
        "a client acts once one replica keeps a certificate",
    ),
    mutant("zyzzyva.one-doubt-is-enough", "one client has replicas vote for everything")
        .scheduled(),
    mutant("zyzzyva.commit-with-f", "f equal votes make a replica commit"),
    mutant("zyzzyva.certificate-not-kept", "a certificate is not in the log"),
    mutant("zyzzyva.final-with-f", "f COMMITs make a slot final"),
    mutant("zyzzyva.never-convicts", "contradicting orders prove nothing").unclaimed(),
    mutant("frame.waits-for-what-is-installed", "who waits goes on when a state has made it final"),
    mutant("frame.other-order-forgotten", "an objection to another order has no end of its own"),
    mutant("zyzzyva.order-not-kept", "what is executed is not in the log"),
    mutant("zyzzyva.any-history-is-good", "an order is followed whatever history it names"),
    mutant("zyzzyva.cut-orders", "what was executed is lost with the log below a checkpoint"),
    mutant("zyzzyva.rests-unsettled", "what was executed becomes final at checkpoints only"),
    mutant(
        "frame.views-that-worked-failed",
        "timeouts double after each view, whatever it made final",
    )
    .scheduled(),
    mutant(
        "zyzzyva.commits-if-certified-only",
        "COMMIT is sent again for slots with a certificate only, not for all that are final",
    )
    .scheduled(),
    mutant(
        "zyzzyva.final-before-stable",
        "what a checkpoint of a later view makes final is logged before the checkpoint",
    )
    .scheduled(),
    mutant("zyzzyva.votes-for-who-lacks-them-only", "where a slot is final no vote is repeated")
        .scheduled(),
    mutant("zyzzyva.new-view-not-passed-on", "a NEW-VIEW is not sent again once it is entered"),
    mutant("zyzzyva.older-views-count", "a view takes over what members show from any view")
        .unclaimed(),
    mutant("zyzzyva.certificates-not-taken", "a view takes over nothing for its certificate"),
    mutant("zyzzyva.takes-over-proven-only", "a view takes over only what has proof"),
    mutant("zyzzyva.hides-last-slot", "a VIEW-CHANGE shows all but the last slot"),
    mutant("zyzzyva.hides-certificate", "a VIEW-CHANGE shows no certificate"),
    mutant("zyzzyva.leaving-not-kept", "that a view was left is not in the log").unclaimed(),
    mutant(
        "zyzzyva.enters-without-agreement",
        "a view is entered without agreement on what it begins with",
    ),
    mutant("zyzzyva.confirm-not-kept", "what was confirmed is not in the log").unclaimed(),
    mutant("zyzzyva.entry-not-kept", "how a view was entered is not in the log"),
    mutant(
        "zyzzyva.contradiction-not-shown",
        "a VIEW-CHANGE shows what it executed as if it led to a checkpoint that contradicts it",
    ),
    mutant(
        "zyzzyva.any-saved-state-is-own",
        "a saved state is taken for what the log's orders lead to",
    )
    .scheduled(),
    mutant("zyzzyva.ends-not-kept", "what was final is in the log only where checkpoints are"),
    mutant(
        "zyzzyva.orders-when-overruled",
        "a primary orders on a checkpoint that contradicts what it ordered there",
    )
    .scheduled(),
    mutant("zyzzyva.disputes-all", "one vote that differs is answered with a window of orders"),
    mutant(
        "executor.reads-what-may-be-taken-back",
        "queries are answered from what may still be taken back",
    ),
    mutant(
        "minzyzzyva.late-orders-complete-nothing",
        "commitments that came before their order are not counted when it comes",
    )
    .scheduled(),
    mutant("client.unheard-stays", "a reply for which there was no room is not asked for again"),
    mutant("client.hands-on-again", "an application is told what a replica replied twice"),
    mutant(
        "client.answers-count-as-replies",
        "an application is not told what replicas reply that answered a read before it was ordered",
    ),
    mutant(
        "client.busy-primary-is-waited-for",
        "a request goes to nobody else as long as the primary says that it is full",
    ),
    mutant(
        "executor.resumed-reads-at-once",
        "a query is answered from before what was told before a crash",
    ),
    mutant("frame.entered-views-worked", "a view that made nothing final was long enough")
        .scheduled(),
    mutant(
        "frame.any-progress-is-enough",
        "timeouts are short again after a view that made anything final, whoever waits",
    ),
    mutant("frame.late-is-in-time", "what came just after its timeout does not make that longer")
        .scheduled(),
    mutant("frame.shortens-at-once", "a checkpoint takes back at once what a failed view taught")
        .scheduled(),
    mutant(
        "pillars.lowest-row-spoken",
        "after a crash queries wait for the lowest slot that a pillar may have come to",
    ),
    mutant(
        "pillars.reads-a-row-early",
        "a query need not see the last row that was prepared in a pillar",
    ),
    mutant(
        "zyzzyva.shown-forgotten",
        "after a crash a VIEW-CHANGE shows only what was executed again by then",
    ),
    mutant(
        "pbft.later-votes-prepare-nothing",
        "a vote that takes the place of another is not counted until the next one comes",
    )
    .scheduled(),
    mutant("kv.clock-not-noted", "a checkpoint has the clock of the store as it began"),
    mutant(
        "kv.edited-not-noted",
        "a checkpoint has a collection as it was before elements changed",
    ),
    mutant("kv.deadline-not-restored", "keys of a transferred state have no deadlines"),
    mutant("olympus.longest-report", "the longest report is enough, whoever else denies it")
        .modelled(),
    mutant("olympus.takes-any-incarnation", "who lost its log in a configuration reports of it")
        .modelled(),
    mutant("olympus.takes-any-base", "a report's base needs no signatures").modelled(),
    mutant("olympus.hears-strangers", "anybody reports for a member").modelled(),
    mutant(
        "olympus.issues-unheld",
        "a configuration begins before its members hold what it inherits",
    )
    .modelled(),
    mutant("olympus.holds-in-any-life", "who lost its log since it said that it holds, counts on")
        .modelled(),
    mutant("olympus.issues-twice", "a configuration that is issued does not end its attempts")
        .modelled(),
    mutant("olympus.keeps-accuser", "who accuses is as good a candidate as before").modelled(),
    mutant("olympus.drops-choices", "a choice that failed once is never made again").modelled(),
    mutant("olympus.report-not-noted", "a checkpoint lacks the reports of a wedge").modelled(),
    mutant("olympus.who-failed-is-two", "who reported and lost its log stands for another one")
        .scheduled(),
    mutant("olympus.issues-under-lease", "a configuration begins while a tail may still read")
        .modelled(),
];
