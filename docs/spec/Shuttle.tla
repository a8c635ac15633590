------------------------------ MODULE Shuttle ------------------------------
(***************************************************************************)
(* Byzantine chain replication (HMAC Shuttle, and its crash mode) with the *)
(* changes of its epochs: what a client believed is never lost.            *)
(*                                                                         *)
(* The authority, which ends epochs and begins them, is correct. There is  *)
(* f = 1: the first two members of a chain are full replicas and execute;  *)
(* the third one, if there is one, is a witness and only orders.           *)
(*                                                                         *)
(* No message is in the state. A correct replica orders a history and      *)
(* then tells it to everybody, so what it has told follows from what it    *)
(* has ordered, and anybody may use that at any later time, or never: so   *)
(* messages are lost, delayed, reordered and repeated at will. A faulty    *)
(* replica tells whatever it likes, and something else to each receiver;   *)
(* a client or a replica may be shown whatever anybody could have told.    *)
(* A history stands for its digest, which determines all batches in it.    *)
(***************************************************************************)
EXTENDS Integers, FiniteSets, Sequences, TLC

CONSTANTS
    N,         \* members of a chain: 3, or 2 in crash mode
    Pool,      \* replicas are 0 .. Pool-1
    Shift,     \* each epoch's chain begins so many replicas further on
    Faulty,    \* the replicas that lie; at most one
    Needed,    \* reports that end an epoch: f + 1 = 2, or 1 in crash mode
    MaxEpoch,  \* the last epoch
    Slots,     \* the longest history
    Window,    \* batches that a report may hold above its base
    MaxLife,   \* lives of a replica; it begins the next one when it loses its log
    Values,    \* batches that can be ordered
    \* The rules. With FALSE, a rule is left out.
    AllTags,          \* a replica orders only what all its predecessors have tagged
    EpochInTags,      \* a tag, a voucher and a mark name the epoch
    DoneByAll,        \* done is what all successors have tagged, not the next one alone
    FinalIfDone,      \* a full replica says final of what is done, not of all that it ordered
    MarksIfDone,      \* a full replica signs a checkpoint of what is done
    MarksOfAll,       \* all full replicas sign a checkpoint, not one of them
    WitnessesVouch,   \* a client wants the vouchers of witnesses too, not of f + 1 full ones alone
    ResultsOfAll,     \* a client wants one result from all full replicas
    WedgeStops,       \* a replica that has reported orders nothing more
    EachLimits,       \* each replica refuses what makes its report too long, not the head alone
    ConflictFree,     \* the reports that are chosen are prefixes of the longest of them
    HighestBase,      \* the next epoch's base is the highest of these reports, not any of them
    HoldsFirst,       \* an epoch begins once all its members hold what it inherits
    OwnLife,          \* a report is taken only from the life that is a member
    HeldLife          \* a member is the life that said that it holds what the epoch inherits

Replicas == 0 .. Pool - 1
Correct == Replicas \ Faulty
Epochs == 1 .. MaxEpoch
Symmetry == Permutations(Values)

Histories == UNION {[1 .. k -> Values] : k \in 0 .. Slots}
IsPrefix(g, h) == Len(g) <= Len(h) /\ g = SubSeq(h, 1, Len(g))
Agree(g, h) == IsPrefix(g, h) \/ IsPrefix(h, g)

\* The chain of an epoch, from head to tail; Place is 1 for the head.
Member(e, place) == (place - 1 + Shift * (e - 1)) % Pool
Members(e) == {Member(e, place) : place \in 1 .. N}
Full(e) == {Member(e, place) : place \in 1 .. 2}
Place(e, r) == CHOOSE place \in 1 .. N : Member(e, place) = r
Before(e, r) == {Member(e, place) : place \in 1 .. Place(e, r) - 1}
After(e, r) == {Member(e, place) : place \in Place(e, r) + 1 .. N}

VARIABLES
    life,      \* of each replica: which of its lives it is in
    begins,    \* of each epoch: with what it begins, and whether that is proposed or issued
    holds,     \* of each epoch: <<replica, life>> that hold what it is to begin with
    ordered,   \* of each epoch and correct replica: the history that it has ordered, ever
    reported   \* of each epoch and correct replica: what it has reported, if anything

vars == <<life, begins, holds, ordered, reported>>

\* An epoch begins with a history, of which the first slots are a certified state, its base. The
\* lives are those of its members.
Nothing == [phase |-> "none", history |-> <<>>, base |-> 0, lives |-> [r \in Replicas |-> 1]]
NoReport == [made |-> FALSE, history |-> <<>>, base |-> 0]

Init ==
    /\ life = [r \in Replicas |-> 1]
    /\ begins = [e \in Epochs |-> IF e = 1 THEN [Nothing EXCEPT !.phase = "issued"] ELSE Nothing]
    /\ holds = [e \in Epochs |-> {}]
    /\ ordered = [e \in Epochs |-> [r \in Correct |-> <<>>]]
    /\ reported = [e \in Epochs |-> [r \in Correct |-> NoReport]]

Issued(e) == e \in Epochs /\ begins[e].phase = "issued"
\* The last epoch that was issued, which a wedge may end.
Last(e) == Issued(e) /\ ~Issued(e + 1)
\* A replica that lost its log in an epoch takes no more part in it.
Lives(e, r) == life[r] = begins[e].lives[r]

----------------------------------------------------------------------------
\* What replicas have told, or may have.

\* A correct replica ordered this history in the epoch, or inherited it.
Ordered(e, r, h) == Issued(e) /\ r \in Members(e) /\ IsPrefix(h, ordered[e][r])

\* A tag that others take for the epoch.
Tagged(e, r, h) ==
    IF r \in Faulty THEN TRUE
    ELSE IF EpochInTags THEN Ordered(e, r, h) ELSE \E d \in 1 .. e : Ordered(d, r, h)

\* All members have ordered it, as far as a correct full replica can tell.
Done(e, r, h) ==
    /\ Ordered(e, r, h)
    /\ \/ IsPrefix(h, begins[e].history)
       \/ \A s \in After(e, r) :
            IF DoneByAll \/ Place(e, s) = Place(e, r) + 1 THEN Tagged(e, s, h) ELSE TRUE

\* A signature under the state after a history.
Marked(e, r, h) ==
    LET in(d) == IF MarksIfDone THEN Done(d, r, h) ELSE Ordered(d, r, h)
    IN IF r \in Faulty THEN TRUE
       ELSE IF EpochInTags THEN in(e) ELSE \E d \in 1 .. e : r \in Full(d) /\ in(d)

Certified(e, h) ==
    IF MarksOfAll THEN \A r \in Full(e) : Marked(e, r, h) ELSE \E r \in Full(e) : Marked(e, r, h)

\* What a report of the history may begin with: the epoch's base or a checkpoint.
Bases(e, h) ==
    {k \in begins[e].base .. Len(h) :
        \/ k = begins[e].base /\ IsPrefix(SubSeq(h, 1, k), begins[e].history)
        \/ Certified(e, SubSeq(h, 1, k))}
Short(h, base) == Len(h) - base <= Window

----------------------------------------------------------------------------
\* What a client believes: a history, at whose end its request stands, and a result.

Results == {"right", "wrong"}

Vouched(e, r, h, result) ==
    r \in Faulty \/ (Tagged(e, r, h) /\ (r \in Full(e) => result = "right"))

\* (a): the vouchers of all members, with one result.
ByVouchers(e, h, result) ==
    /\ \A r \in Full(e) : IF ResultsOfAll THEN Vouched(e, r, h, result) ELSE Tagged(e, r, h)
    /\ \E r \in Full(e) : Vouched(e, r, h, result)
    /\ WitnessesVouch => \A r \in Members(e) : Tagged(e, r, h)

\* (b): f + 1 full replicas, which are all of them, say that it is final.
SaysFinal(e, r, h, result) ==
    \/ r \in Faulty
    \/ /\ result = "right"
       /\ Ordered(e, r, h)
       /\ ~FinalIfDone \/ Done(e, r, h) \/ Certified(e, h)
ByFinals(e, h, result) == \A r \in Full(e) : SaysFinal(e, r, h, result)

Believable(e, h, result) ==
    Issued(e) /\ h # <<>> /\ (ByVouchers(e, h, result) \/ ByFinals(e, h, result))

----------------------------------------------------------------------------
\* Correct replicas.

Order(e, r, b) ==
    LET h == Append(ordered[e][r], b)
    IN /\ Issued(e) /\ r \in Members(e) /\ Lives(e, r)
       /\ Len(h) <= Slots
       /\ WedgeStops => ~reported[e][r].made
       /\ \A p \in Before(e, r) :
            IF AllTags \/ Place(e, p) = Place(e, r) - 1 THEN Tagged(e, p, h) ELSE TRUE
       /\ (EachLimits \/ Place(e, r) = 1) => \E k \in Bases(e, ordered[e][r]) : Short(h, k)
       /\ ordered' = [ordered EXCEPT ![e][r] = h]
       /\ UNCHANGED <<life, begins, holds, reported>>

\* Which checkpoint it has got is not said here. Whoever lost its log has only what the authority
\* says, the epoch's base.
Report(e, r) ==
    /\ Last(e) /\ e < MaxEpoch /\ r \in Members(e) /\ ~reported[e][r].made
    /\ IF Lives(e, r)
       THEN \E k \in Bases(e, ordered[e][r]) :
              /\ Short(ordered[e][r], k)
              /\ reported' = [reported EXCEPT ![e][r] =
                   [made |-> TRUE, history |-> ordered[e][r], base |-> k]]
       ELSE /\ ~OwnLife
            /\ reported' = [reported EXCEPT ![e][r] =
                 [made |-> TRUE, base |-> begins[e].base,
                  history |-> SubSeq(begins[e].history, 1, begins[e].base)]]
    /\ UNCHANGED <<life, begins, holds, ordered>>

\* It fetches the base and the batches from one who has them; a liar may give what it made up.
Hold(e, r) ==
    /\ begins[e].phase = "proposed" /\ r \in Members(e)
    /\ HeldLife => Lives(e, r)
    /\ \/ Faulty # {}
       \/ \E s \in Correct : Ordered(e - 1, s, begins[e].history) /\ Lives(e - 1, s)
       \/ \E s \in Correct : <<s, life[s]>> \in holds[e]
    /\ holds' = [holds EXCEPT ![e] = @ \cup {<<r, life[r]>>}]
    /\ UNCHANGED <<life, begins, ordered, reported>>

\* Crash mode: it loses its log. No more than f = 1 members of an epoch do, nor of those that hold
\* what the next one is to begin with.
Fails(e) == {r \in Members(e) : begins[e].lives[r] # life'[r]}
Forgets(e) == {p[1] : p \in {q \in holds[e] : q[2] # life'[q[1]]}}
Forget(r) ==
    /\ N = 2 /\ life[r] < MaxLife
    /\ life' = [life EXCEPT ![r] = @ + 1]
    /\ \A e \in Epochs :
         /\ Last(e) => Cardinality(Fails(e)) <= 1
         /\ begins[e].phase = "proposed" => Cardinality(Forgets(e)) <= 1
    /\ UNCHANGED <<begins, holds, ordered, reported>>

----------------------------------------------------------------------------
\* The authority.

\* Reports that it may have. A liar may report anew for each attempt, which is more than it can do.
Reports(e) ==
    {[by |-> r, history |-> reported[e][r].history, base |-> reported[e][r].base] :
        r \in {s \in Correct : reported[e][s].made}}
    \cup UNION {{[by |-> r, history |-> h, base |-> k] : k \in {j \in Bases(e, h) : Short(h, j)}} :
        r \in Faulty \cap Members(e), h \in Histories}

\* Needed is 1 or 2.
Quorums(e) ==
    {Q \in {{x, y} : x, y \in Reports(e)} :
        Cardinality(Q) = Needed /\ Cardinality({x.by : x \in Q}) = Needed}

Compatible(Q) ==
    \A x, y \in Q : Agree(x.history, y.history) /\ y.base <= Len(x.history)

\* The longest history of a quorum, and its highest base.
Choices(e) ==
    UNION {{[history |-> x.history, base |-> y.base] :
              x \in {z \in Q : \A w \in Q : Len(w.history) <= Len(z.history)},
              y \in {z \in Q : \A w \in Q : HighestBase => w.base <= z.base}} :
        Q \in {P \in Quorums(e) : Compatible(P) \/ ~ConflictFree}}

\* Attempts that fail are omitted: they leave no trace.
Propose(e) ==
    /\ Last(e) /\ e < MaxEpoch /\ begins[e + 1].phase = "none"
    /\ \E c \in Choices(e) :
         begins' = [begins EXCEPT ![e + 1] =
           [phase |-> "proposed", history |-> c.history, base |-> c.base, lives |-> life]]
    /\ UNCHANGED <<life, holds, ordered, reported>>

\* Members of the new epoch begin at once: a slow one has begun, and does nothing.
Issue(e) ==
    /\ begins[e].phase = "proposed"
    /\ HoldsFirst => \A r \in Members(e) \ Faulty : \E p \in holds[e] : p[1] = r
    /\ begins' = [begins EXCEPT ![e].phase = "issued",
                                ![e].lives = IF HeldLife THEN @ ELSE life]
    /\ ordered' = [ordered EXCEPT ![e] = [r \in Correct |-> begins[e].history]]
    /\ UNCHANGED <<life, holds, reported>>

----------------------------------------------------------------------------
Next ==
    \/ \E e \in Epochs, r \in Correct :
         \/ \E b \in Values : Order(e, r, b)
         \/ Report(e, r)
         \/ Hold(e, r)
    \/ \E e \in Epochs : Propose(e) \/ Issue(e)
    \/ \E r \in Correct : Forget(r)

Spec == Init /\ [][Next]_vars

----------------------------------------------------------------------------
\* Histories of correct members of one epoch are prefixes of each other.
Agreement ==
    \A e \in Epochs, r, s \in Correct : {r, s} \subseteq Members(e) =>
        Agree(ordered[e][r], ordered[e][s])

\* What a client believes has the result that a correct replica gives, and each later epoch begins
\* with it.
Acceptance ==
    \A e \in Epochs, h \in Histories, result \in Results : Believable(e, h, result) =>
        /\ result = "right"
        /\ \A d \in Epochs : (d > e /\ Issued(d)) => IsPrefix(h, begins[d].history)

\* A correct full replica had every state that is certified, and can hand it on.
BasesExist ==
    \A e \in Epochs, h \in Histories : (Issued(e) /\ h # <<>> /\ Certified(e, h)) =>
        \E r \in Full(e) \ Faulty : \E d \in Epochs : Ordered(d, r, h)

\* The authority needs no faulty replica: a correct one can always report, from the beginning of the
\* epoch on, and what correct ones have reported is compatible.
ReportsSuffice ==
    \A e \in Epochs : Last(e) =>
        /\ Short(begins[e].history, begins[e].base)
        /\ \A r \in Members(e) \ Faulty :
             \E k \in Bases(e, ordered[e][r]) : Short(ordered[e][r], k)
        /\ OwnLife => Compatible({reported[e][r] : r \in {s \in Correct : reported[e][s].made}})

\* What an epoch begins with can be executed: one member has all of it, and others can fetch it.
Executable ==
    \A e \in Epochs : (e > 1 /\ Last(e)) =>
        \E r \in Members(e) \ Faulty :
            /\ Lives(e, r)
            /\ \/ <<r, life[r]>> \in holds[e]
               \/ /\ Ordered(e - 1, r, begins[e].history)
                  /\ Lives(e - 1, r)
=============================================================================
