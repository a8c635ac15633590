------------------------------ MODULE Hybster ------------------------------
(***************************************************************************)
(* The view change of Hybster on TrInX, for one slot: what is decided in   *)
(* it never changes. Written after docs/protocols/hybster.md; the numbers  *)
(* of steps are those of its section "View change".                        *)
(*                                                                         *)
(* Messages that were sent stay in the state, and any action may use any   *)
(* of them or none: so they are lost, delayed, reordered and repeated at   *)
(* will. Faulty replicas say whatever their counter certifies.             *)
(***************************************************************************)
EXTENDS Integers, FiniteSets

CONSTANTS
    N,            \* replicas are 0 .. N-1; the primary of view v is v % N
    Faulty,       \* the set of faulty ones
    MaxView,      \* the last view
    Values,       \* what can be ordered
    NeedsBasis,   \* rule 2: an unopened view is left with a certificate only
    Resolved,     \* rule 2: of which no member comes from a later view
    Established,  \* rule 5: an origin was accepted by f + 1
    HighestFrom   \* rule 5: the origin is the highest view among members

ASSUME Faulty \subseteq 0 .. N - 1

Replicas == 0 .. N - 1
Correct == Replicas \ Faulty
Views == 0 .. MaxView
None == "none"
Quorum == (N \div 2) + 1
Weak == ((N - 1) \div 2) + 1
Primary(v) == v % N

\* Values of the counter: [v|0] leaves, [v|1] opens or enters, [v|2] is the slot.
Value(v, index) == 3 * v + index
ViewOf(c) == c \div 3
IndexOf(c) == c % 3

VARIABLES
    counter,   \* of each replica
    left,      \* of each correct replica: it has said its last below this view
    from,      \* of each correct replica: the last view whose NEW-VIEW it accepted
    changes,   \* VIEW-CHANGEs
    opened,    \* NEW-VIEWs, by view: what the counter certified, if anything
    prepared,  \* PREPAREs, by view
    enters,    \* <<replica, view>>: commitments to the NEW-VIEW
    commits,   \* <<replica, view>>: commitments to the PREPARE
    accepted   \* <<replica, view>>: who accepted which NEW-VIEW, ever

vars == <<counter, left, from, changes, opened, prepared, enters, commits, accepted>>

\* A NEW-VIEW: whether there is one, what it takes over, and whether that follows from a quorum.
Opening(takes, sound) == [made |-> TRUE, takes |-> takes, sound |-> sound]
NoOpening == [made |-> FALSE, takes |-> None, sound |-> FALSE]

Init ==
    /\ counter = [r \in Replicas |-> 0]
    /\ left = [r \in Replicas |-> 0]
    /\ from = [r \in Replicas |-> 0]
    /\ changes = {}
    /\ opened = [v \in Views |-> IF v = 0 THEN Opening(None, TRUE) ELSE NoOpening]
    /\ prepared = [v \in Views |-> None]
    /\ enters = {}
    /\ commits = {}
    /\ accepted = {}

\* The batch that a view is known to order in the slot: taken over, or by PREPARE.
Ordered(v) ==
    IF opened[v].takes # None THEN opened[v].takes ELSE prepared[v]

\* What a VIEW-CHANGE that comes from a view may show: what the primary's counter certified there.
\* What was taken over stands in the header, which has to be shown.
MayShow(v) ==
    IF ~opened[v].made THEN {}
    ELSE IF opened[v].takes # None THEN {opened[v].takes} ELSE {None, prepared[v]}

\* Rule 4.
Valid(c) ==
    /\ c.from < c.to
    /\ c.previous < Value(c.to, 0)
    /\ c.shows \in MayShow(c.from)
    /\ IndexOf(c.previous) >= 1 => c.from >= ViewOf(c.previous)
    /\ (ViewOf(c.previous) = c.from /\ IndexOf(c.previous) = 2) => c.shows # None

For(v) == {c \in changes : c.to = v}
Quorums(v) ==
    {Q \in SUBSET For(v) : Cardinality(Q) = Quorum /\ Cardinality({c.by : c \in Q}) = Quorum}

Max(S) == CHOOSE x \in S : \A y \in S : y <= x
Min(S) == CHOOSE x \in S : \A y \in S : y >= x

----------------------------------------------------------------------------
\* Correct replicas.

In(r, v) == from[r] = v /\ left[r] = v

Propose(r, v, b) ==
    /\ In(r, v) /\ r = Primary(v) /\ Ordered(v) = None
    /\ counter[r] < Value(v, 2)
    /\ prepared' = [prepared EXCEPT ![v] = b]
    /\ counter' = [counter EXCEPT ![r] = Value(v, 2)]
    /\ UNCHANGED <<left, from, changes, opened, enters, commits, accepted>>

Commit(r, v) ==
    /\ In(r, v) /\ r # Primary(v)
    /\ opened[v].takes = None /\ prepared[v] # None
    /\ counter[r] < Value(v, 2)
    /\ commits' = commits \cup {<<r, v>>}
    /\ counter' = [counter EXCEPT ![r] = Value(v, 2)]
    /\ UNCHANGED <<left, from, changes, opened, prepared, enters, accepted>>

\* What it has to show of a view: its own word, or what a member of a certificate shows.
Knows(r, v, Q) ==
    IF opened[v].takes # None THEN opened[v].takes
    ELSE IF <<r, v>> \in commits \/ (r = Primary(v) /\ prepared[v] # None)
            \/ \E c \in Q : c.from = v /\ c.shows # None
    THEN prepared[v] ELSE None

Say(r, v, Q) ==
    /\ changes' = changes \cup
         {[by |-> r, to |-> v, from |-> from[r], previous |-> counter[r],
           shows |-> Knows(r, from[r], Q)]}
    /\ counter' = [counter EXCEPT ![r] = Value(v, 0)]
    /\ left' = [left EXCEPT ![r] = v]
    /\ UNCHANGED <<from, opened, prepared, enters, commits, accepted>>

\* Rule 2.
Leave(r, v) ==
    /\ left[r] < v /\ from[r] < v
    /\ \/ from[r] = v - 1 /\ Say(r, v, {})
       \/ ~NeedsBasis /\ left[r] = v - 1 /\ Say(r, v, {})
       \/ \E Q \in Quorums(v - 1) :
            /\ Resolved => Max({c.from : c \in Q}) <= from[r]
            /\ Say(r, v, Q)

\* Rule 6: who has accepted a later NEW-VIEW acknowledges what it finds sound.
Vouches(r, v) == opened[v].sound /\ v < from[r]

\* Rule 5.
Origin(Q) == IF HighestFrom THEN Max({c.from : c \in Q}) ELSE Min({c.from : c \in Q})
IsEstablished(Q) ==
    LET m == Origin(Q)
        there == {c.by : c \in {d \in Q : d.from = m}}
        others == {r \in Replicas : r \in Faulty \/ <<r, m>> \in accepted \/ Vouches(r, m)}
    IN m = 0 \/ ~Established \/ Cardinality(there \cup others) >= Weak
Takes(Q) ==
    LET shown == {c.shows : c \in {d \in Q : d.from = Origin(Q)}} \ {None}
    IN IF shown = {} THEN None ELSE CHOOSE b \in shown : TRUE

CanOpen(v, takes) == \E Q \in Quorums(v) : IsEstablished(Q) /\ takes = Takes(Q)

Open(r, v) ==
    /\ r = Primary(v) /\ left[r] <= v /\ from[r] < v /\ ~opened[v].made
    /\ counter[r] < Value(v, 1)
    /\ \E Q \in Quorums(v) :
         /\ IsEstablished(Q)
         /\ opened' = [opened EXCEPT ![v] = Opening(Takes(Q), TRUE)]
    /\ counter' = [counter EXCEPT ![r] = Value(v, 1)]
    /\ left' = [left EXCEPT ![r] = v]
    /\ from' = [from EXCEPT ![r] = v]
    /\ accepted' = accepted \cup {<<r, v>>}
    /\ UNCHANGED <<changes, prepared, enters, commits>>

\* Rule 6: enters if it still is at that view, or acknowledges if it is not: it may want a higher
\* one before it can leave this one. What it wants is not said here, so it may do either.
Accept(r, v) ==
    /\ opened[v].sound /\ from[r] < v /\ r # Primary(v)
    /\ from' = [from EXCEPT ![r] = v]
    /\ accepted' = accepted \cup {<<r, v>>}
    /\ \/ /\ left[r] <= v
          /\ enters' = enters \cup {<<r, v>>}
          /\ counter' = [counter EXCEPT ![r] = Value(v, 1)]
          /\ left' = [left EXCEPT ![r] = v]
       \/ UNCHANGED <<enters, counter, left>>
    /\ UNCHANGED <<changes, opened, prepared, commits>>

----------------------------------------------------------------------------
\* Faulty replicas: whatever their counter certifies, as long as others take it.

Moves(r, to) == counter[r] < to /\ counter' = [counter EXCEPT ![r] = to]

FaultyPropose(r, v, b) ==
    /\ r = Primary(v) /\ prepared[v] = None /\ Moves(r, Value(v, 2))
    /\ prepared' = [prepared EXCEPT ![v] = b]
    /\ UNCHANGED <<left, from, changes, opened, enters, commits, accepted>>

FaultyCommit(r, v) ==
    /\ r # Primary(v) /\ Moves(r, Value(v, 2))
    /\ commits' = commits \cup {<<r, v>>}
    /\ UNCHANGED <<left, from, changes, opened, prepared, enters, accepted>>

FaultyEnter(r, v) ==
    /\ v > 0 /\ r # Primary(v) /\ Moves(r, Value(v, 1))
    /\ enters' = enters \cup {<<r, v>>}
    /\ UNCHANGED <<left, from, changes, opened, prepared, commits, accepted>>

\* Sound or not: others accept it only if it is, and the certificate is one either way.
FaultyOpen(r, v, takes) ==
    /\ v > 0 /\ r = Primary(v) /\ ~opened[v].made /\ Moves(r, Value(v, 1))
    /\ opened' = [opened EXCEPT ![v] = Opening(takes, CanOpen(v, takes))]
    /\ UNCHANGED <<left, from, changes, prepared, enters, commits, accepted>>

FaultyLeave(r, v, of, shows) ==
    LET c == [by |-> r, to |-> v, from |-> of, previous |-> counter[r], shows |-> shows]
    IN /\ v > 0 /\ Valid(c) /\ Moves(r, Value(v, 0))
       /\ changes' = changes \cup {c}
       /\ UNCHANGED <<left, from, opened, prepared, enters, commits, accepted>>

----------------------------------------------------------------------------
Next ==
    \/ \E r \in Correct, v \in Views :
         \/ \E b \in Values : Propose(r, v, b)
         \/ Commit(r, v)
         \/ Leave(r, v)
         \/ Open(r, v)
         \/ Accept(r, v)
    \/ \E r \in Faulty, v \in Views :
         \/ \E b \in Values : FaultyPropose(r, v, b)
         \/ FaultyCommit(r, v)
         \/ FaultyEnter(r, v)
         \/ \E takes \in Values \cup {None} : FaultyOpen(r, v, takes)
         \/ \E of \in Views, shows \in Values \cup {None} : FaultyLeave(r, v, of, shows)

Spec == Init /\ [][Next]_vars

----------------------------------------------------------------------------
\* Who committed to what a view took over, or to its PREPARE, its primary among them.
Entered(v) == {r \in Replicas : <<r, v>> \in enters \/ r = Primary(v)}
Committed(v) == {r \in Replicas : <<r, v>> \in commits \/ r = Primary(v)}

\* Decided is only what a correct replica may execute: it must have accepted the view.
Decided(v) ==
    IF ~opened[v].sound THEN None
    ELSE IF opened[v].takes # None
    THEN IF Cardinality(Entered(v)) >= Quorum THEN opened[v].takes ELSE None
    ELSE IF prepared[v] # None /\ Cardinality(Committed(v)) >= Quorum THEN prepared[v] ELSE None

Agreement == \A v, w \in Views : Decided(v) = None \/ Decided(w) = None \/ Decided(v) = Decided(w)

\* Correct replicas say only what others take.
OwnWordsAreValid == \A c \in changes : Valid(c)
=============================================================================
