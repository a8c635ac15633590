//! Every bound in the system, on one page, with the sum that justifies it. `docs/limits.md` is the
//! operator's view of the same numbers.

/// Version of everything that goes over the wire or under a signature.
pub const WIRE_VERSION: u64 = 2;

/// Members of a group; [`crate::ids::ReplicaSet`] is a 64-bit mask.
pub const REPLICAS_MAX: usize = 64;

/// Administrators whose keys a configuration names.
pub const ADMINISTRATORS_MAX: usize = 16;

/// Clients that a configuration lists, where not everyone may be one. Their keys are 16 KiB, half
/// as much as the entries of [`REPLICAS_MAX`] members.
pub const CLIENTS_LISTED_MAX: usize = 512;

/// Bytes of a member's address, as `host:port`.
pub const ADDRESS_BYTES_MAX: usize = 255;

/// Bytes of a protocol's name.
pub const PROTOCOL_NAME_BYTES_MAX: usize = 32;

/// Pillars into which a group may split its order; each has a counter of its own.
pub const PILLARS_MAX: u8 = 8;

/// What the parts of a simulated replica of pillars say to each other that is late at a time: with
/// more, all arrives.
pub const LATE_MAX: usize = 256;

/// Slots above the stable checkpoint in which a replica orders. Ordering stops at the end of the
/// window until a checkpoint moves it.
pub const WINDOW_SLOTS: u64 = 256;

/// Slots behind a state of which a replica says what it ordered there when it is stopped, and which
/// the next epoch inherits: a replica orders in no more above its stable checkpoint. Their digests
/// are 8 KiB; their batches, each of at most [`BATCH_BYTES_MAX`], are held until they are executed.
pub const HISTORY_SLOTS_MAX: usize = WINDOW_SLOTS as usize;

/// A checkpoint is taken at every multiple of this many slots. A quarter of the window, so that
/// ordering goes on while a checkpoint gathers its votes.
pub const CHECKPOINT_SLOTS: u64 = 64;

/// Bytes of executed batches after which a checkpoint is taken, however few slots they filled. With
/// large requests 64 slots would hold 128 MiB.
pub const CHECKPOINT_BYTES: usize = 12 << 20;

/// Bytes of executed batches above the stable checkpoint at which ordering waits for the next one
/// to become stable: bodies are kept until then, for peers that ask. Twice [`CHECKPOINT_BYTES`], so
/// that ordering goes on while a checkpoint gathers its votes. A primary has
/// [`PROPOSALS_IN_FLIGHT`] more batches under way: 24 MiB + 4 x 2 MiB.
pub const WINDOW_BYTES: usize = 2 * CHECKPOINT_BYTES;

/// An envelope up to this size travels inside the proposal; a larger one is ordered by digest and
/// its client sends it to every replica.
pub const ENVELOPE_INLINE_BYTES: usize = 16 << 10;

/// The largest envelope, without its authentication. Holds the largest request and its header.
pub const ENVELOPE_BYTES_MAX: usize = OPERATION_BYTES_MAX + 1024;

/// The largest operation of one request.
pub const OPERATION_BYTES_MAX: usize = 1 << 20;

/// Requests in one envelope.
pub const ENVELOPE_REQUESTS_MAX: usize = 512;

/// Numbers that one client may have outstanding: a request number at or above its floor plus this
/// is refused.
pub const CLIENT_WINDOW: u64 = 4096;

/// The largest result: of a larger one the client learns only that its request was executed.
pub const RESULT_BYTES_MAX: usize = 2 << 20;

/// Bytes of replies that are kept for one client; the oldest give way first, in every replica
/// alike. A client that has more under way may miss what a faulty replica was to tell it.
pub const CLIENT_REPLIES_BYTES_MAX: usize = 4 << 20;

/// Bytes of results that a client holds until enough replicas confirm them: what one replica tells
/// may be far ahead of the others' digests.
pub const CLIENT_HELD_BYTES_MAX: usize = 4 * CLIENT_REPLIES_BYTES_MAX;

/// Bytes of one replica's replies that a client holds for operations whose replies its application
/// judges, until as many as are needed count for each other. The client drops that replica's reply
/// to the highest number, and hears it again later. One reply of any size fits.
pub const JUDGED_BYTES_MAX: usize = 2 * RESULT_BYTES_MAX;

/// Places that a client of a protocol whose replicas execute early had confirmed before all had
/// answered, and whose last answers it still waits to learn from. Past it: the earliest is
/// forgotten.
pub const CLIENT_LATE_MAX: usize = 16;

/// Results of up to so many bytes every replica tells its client; of larger ones, one replica tells
/// the result and the others its digest ([`crate::designated_replier`]). A digest costs a replica
/// about as much as encrypting so many bytes.
pub const REPLY_WHOLE_BYTES: usize = 256;

/// The same in the simulator, where large results are rare: the least that a client can do with.
pub const REPLY_WHOLE_BYTES_MIN: usize = 31;

/// Bytes of replies that are kept for all clients together; when there are more, the clients that
/// were idle for longest lose theirs, in every replica alike.
pub const REPLIES_BYTES_MAX: usize = 256 << 20;

/// Events that are kept for one client until it acknowledges them; the oldest give way first, in
/// every replica alike. Also how far ahead of what it has delivered a client listens.
pub const CLIENT_EVENTS_MAX: usize = 4096;

/// Bytes of the events in [`CLIENT_EVENTS_MAX`], each counted with [`EVENT_HEADER_BYTES`], so that
/// all of them fit into one message. Also the largest event: a larger one is lost at once, and
/// those before it with it.
pub const CLIENT_EVENTS_BYTES_MAX: usize = 2 << 20;

/// What an event counts beside its body: what it takes in memory.
pub const EVENT_HEADER_BYTES: usize = 32;

/// Bytes of events that are kept for all clients together, counted alike. When there are more, the
/// clients that were idle for longest lose theirs, in every replica alike. Not part of
/// [`REPLIES_BYTES_MAX`], as who fills the one must not empty the other.
pub const EVENTS_BYTES_MAX: usize = 256 << 20;

/// Clients whose numbers and replies are remembered. The one that was idle for longest gives way,
/// in every replica alike.
pub const CLIENTS_MAX: usize = 4096;

/// Requests in one batch.
pub const BATCH_REQUESTS_MAX: usize = 2048;

/// Envelopes in one batch.
pub const BATCH_ENVELOPES_MAX: usize = 512;

/// Bytes of envelopes that travel inside one proposal. With [`WINDOW_SLOTS`] this bounds what a
/// faulty primary alone can have a backup hold: 256 x 128 KiB = 32 MiB.
pub const BATCH_INLINE_BYTES: usize = 128 << 10;

/// Bytes of envelopes, inside the proposal or by digest, that one batch may name. With
/// [`WINDOW_SLOTS`] an adversary who fills every batch could hold 512 MiB of bodies.
pub const BATCH_BYTES_MAX: usize = 2 << 20;

/// Proposals that a primary keeps in flight. Few, so that what waits meanwhile becomes one large
/// batch; more than one, so that the network is never idle.
pub const PROPOSALS_IN_FLIGHT: u64 = 4;

/// Envelopes that a replica keeps for clients and has not seen ordered.
pub const PENDING_ENVELOPES_MAX: usize = 8192;

/// Bytes of the envelopes in [`PENDING_ENVELOPES_MAX`].
pub const PENDING_BYTES_MAX: usize = 16 << 20;

/// Of the pending bytes, the share that one client may fill.
pub const PENDING_CLIENT_BYTES_MAX: usize = 4 << 20;

/// Of the pending envelopes, the share that one client may fill. Few, because clients take turns:
/// the last of them waits for as many turns of all others, and backups expect it in time.
pub const PENDING_CLIENT_ENVELOPES_MAX: usize = 32;

/// Envelopes that a client keeps under way; what it has beside them waits, and goes into one
/// envelope. Enough for [`CLIENT_WINDOW`] requests in full ones.
pub const CLIENT_ENVELOPES_MAX: usize = 8;

/// Envelopes beside those with which a client gives numbers up, so that what it has under way does
/// not stand in their way.
pub const CLIENT_FENCES_MAX: usize = 8;

/// Ends of past epochs that a replica keeps, to lead on who was away meanwhile. Each is some
/// 50 bytes a member and 66 a signature, so 1024 of the largest group's are 6 MiB.
pub const EPOCHS_KEPT: usize = 1024;

/// Ends of configurations that a replica tells a client at once; a client that needs more asks
/// again.
pub const LINKS_TOLD_MAX: usize = 16;

/// Ends of epochs in one message; whoever needs more asks again.
pub const HANDOVERS_SENT_MAX: usize = 64;

/// So long links to a member that left the group are kept, so that it can be shown that it did; and
/// so long that member stays once enough others have the state that it may have alone.
pub const LEAVING_MILLIS: u64 = 10 * 60 * 1_000;

/// So long, by agreed time, a member waits at least between its first two admissions, so that a
/// faulty replica cannot keep the group busy with changing epochs. Each takes the requests under
/// way with it, so this is to be well above `f` times what a failover takes. With each further
/// admission the wait doubles.
pub const ADMISSION_INTERVAL_MILLIS: u64 = 5_000;

/// The wait between two admissions of a member doubles at most so often: up to 640 s, some
/// 11 minutes. For each time that long without an admission of the member it is halved again.
pub const ADMISSION_DOUBLINGS_MAX: u8 = 7;

/// Milliseconds of agreed time for which an epoch waits for the last members that are not ready,
/// once enough are.
pub const READY_WAIT_MILLIS: u64 = 2_000;

/// Milliseconds of agreed time for which a change can wait to take effect: a day.
pub const CHANGE_MILLIS_MAX: u64 = 24 * 60 * 60 * 1_000;

/// Bytes of the proof with which a configuration began, as it is kept in a file. The largest
/// group's has 49 KiB.
pub const LINK_BYTES_MAX: usize = 64 << 10;

/// Configurations that a group can have, one after the other: each replica keeps how each began.
pub const CONFIGURATIONS_MAX: u64 = 4096;

/// The largest message between two nodes. Holds the largest NEW-VIEW: f + 1 = 32 VIEW-CHANGEs of
/// [`WINDOW_SLOTS`] headers of about 250 bytes.
pub const MESSAGE_BYTES_MAX: usize = 4 << 20;

/// The largest frame of messages on a channel.
pub const FRAME_BYTES_MAX: usize = MESSAGE_BYTES_MAX + 1024;

/// Elements for which a decoder reserves room before it has seen them.
pub const PREALLOCATE_MAX: usize = 1024;

/// Messages that a replica resends to one peer in answer to one status report.
pub const RESEND_MESSAGES_MAX: usize = 32;

/// Bytes that a replica resends to one peer in answer to one status report.
pub const RESEND_BYTES_MAX: usize = 1 << 20;

/// How far ahead of a backup's clock a proposal may be before the backup delays it.
pub const CLOCK_SKEW_MILLIS: u64 = 500;

/// The mean turnaround of a primary, in milliseconds, that a backup tolerates at first: well above
/// what a local network with starved processors takes, and well below the timeouts.
pub const TURNAROUND_MILLIS: u64 = 25;

/// The longest turnaround that is told from a longer one, and the most that is ever tolerated.
pub const TURNAROUND_MILLIS_MAX: u64 = 10_000;

/// Clients whose requests a backup times in one window: enough for a median.
pub const CLIENTS_JUDGED_MAX: usize = 256;

/// One piece of a snapshot section, which is what state transfer moves and checks at a time.
pub const CHUNK_BYTES_MAX: usize = 256 << 10;

/// Envelopes of clients that asked again for results that may still be taken back: they are told
/// when these are final. One beyond has to ask once more.
pub const SPECULATIVE_ASKS_MAX: usize = 1024;

/// Results of slots that were executed and of which clients are not told yet. Those of a slot
/// beyond are kept in the client table alone, which may forget them before.
pub const SPECULATIVE_UNTOLD_BYTES_MAX: usize = 64 << 20;

/// Queries that wait at a replica until it has executed what they must not miss. Beyond it a query
/// is dropped, and its client has it ordered.
pub const QUERIES_HELD_MAX: usize = 4096;

/// Of [`QUERIES_HELD_MAX`], the share of one client.
pub const QUERIES_HELD_CLIENT_MAX: usize = 1024;

/// Bytes of the operations in [`QUERIES_HELD_MAX`].
pub const QUERIES_HELD_BYTES_MAX: usize = 4 << 20;

/// Sections into which a service may divide its state. The empty ones cost nothing.
pub const SECTIONS_MAX: usize = 32 << 20;

/// Chunks of one section: 16 GiB, whose digests still fit into one message. A replica with a
/// larger one goes on, but its snapshots cannot be transferred.
pub const CHUNKS_MAX: usize = 64 << 10;

/// Nodes of the tree of a state that a replica asks for in one question.
pub const TRANSFER_NODES_MAX: usize = 256;

/// Nodes of the tree of a state in one answer: enough to fill it up to the size of a chunk with
/// small sections.
pub const TRANSFER_ANSWER_NODES_MAX: usize = 4096;

/// Questions that a replica has open at a time during state transfer; the answer to each is about
/// as large as a chunk. So 4 MiB are under way, which is 50 MB/s over a link of 80 ms.
pub const TRANSFER_CHUNKS_IN_FLIGHT: usize = 16;

/// States that a replica keeps, as long as a change is pending with which a machine joins, for that
/// machine to learn: the first stable one in each of the last periods.
pub const LEARNERS_STATES: usize = 3;

/// Milliseconds of agreed time in such a period. So a state is there for two periods at least,
/// which is what a question may take to arrive; then it is there as long as it is asked for, but
/// for [`TRANSFER_PIN_MILLIS`] at most.
pub const LEARNERS_STATE_MILLIS: u64 = 2_000;

/// Milliseconds for which one replica can have another keep an old state, in order to fetch it;
/// then it has to go on with a newer one, for which it keeps what it has. So each peer costs at
/// most what changes of the state in five minutes.
pub const TRANSFER_PIN_MILLIS: u64 = 300_000;

/// Checkpoints whose snapshots a replica keeps for others, at the usual sizes: see
/// [`Tuning::snapshots_kept`](crate::rules::Tuning::snapshots_kept).
pub const SNAPSHOTS_KEPT: usize =
    (WINDOW_SLOTS / CHECKPOINT_SLOTS) as usize + WINDOW_BYTES / CHECKPOINT_BYTES + 2;

const _: () = assert!(WINDOW_SLOTS.is_multiple_of(CHECKPOINT_SLOTS));
const _: () = assert!(WINDOW_SLOTS >= 2 * CHECKPOINT_SLOTS);
const _: () = assert!(BATCH_BYTES_MAX < CHECKPOINT_BYTES && WINDOW_BYTES >= 2 * CHECKPOINT_BYTES);
const _: () = assert!(BATCH_INLINE_BYTES + ENVELOPE_INLINE_BYTES < MESSAGE_BYTES_MAX);
const _: () = assert!(ENVELOPE_BYTES_MAX <= BATCH_BYTES_MAX && BATCH_BYTES_MAX < MESSAGE_BYTES_MAX);
const _: () = assert!(ENVELOPE_BYTES_MAX < PENDING_CLIENT_BYTES_MAX);
const _: () = assert!(PENDING_CLIENT_BYTES_MAX <= PENDING_BYTES_MAX);
const _: () = assert!(CLIENT_ENVELOPES_MAX * ENVELOPE_REQUESTS_MAX >= CLIENT_WINDOW as usize);
const _: () = assert!(CLIENT_ENVELOPES_MAX + CLIENT_FENCES_MAX < PENDING_CLIENT_ENVELOPES_MAX);
const _: () = assert!(CHUNK_BYTES_MAX < MESSAGE_BYTES_MAX);
const _: () = assert!(32 * CHUNKS_MAX + CHUNK_BYTES_MAX < MESSAGE_BYTES_MAX);
const _: () = assert!(SECTIONS_MAX < 1 << 31);
const _: () = assert!(CLIENT_REPLIES_BYTES_MAX < REPLIES_BYTES_MAX);
const _: () = assert!(RESULT_BYTES_MAX < CLIENT_REPLIES_BYTES_MAX);
const _: () = assert!(CLIENT_EVENTS_BYTES_MAX + 1024 < FRAME_BYTES_MAX);
const _: () = assert!(2 * CLIENT_EVENTS_BYTES_MAX < EVENTS_BYTES_MAX);
