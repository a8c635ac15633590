----------------------------- MODULE HybsterRun -----------------------------
(***************************************************************************)
(* Whether recorded runs of the implementation are behaviours of Hybster.  *)
(* The module Runs is written by the example hybster_runs of the crate     *)
(* protocols: what happened in one slot of each run, step by step.         *)
(* `cargo xtask spec --runs N` has TLC follow them. A step that no action  *)
(* allows leaves the run where it is, which TLC reports as a deadlock.     *)
(***************************************************************************)
EXTENDS Hybster, Sequences, Runs

VARIABLES
    run,  \* which one
    at    \* its next step

Shows(s) ==
    [by |-> s.by, to |-> s.view, from |-> s.from, previous |-> s.previous, shows |-> s.shows]

\* Says that a NEW-VIEW is sound: by accepting it late, or again, or having accepted a later one.
Acknowledge(r, v) ==
    \/ (<<r, v>> \in accepted \/ Vouches(r, v)) /\ UNCHANGED vars
    \/ Accept(r, v) /\ UNCHANGED enters

\* Only what is decided, in the view that was accepted last.
Execute(r, b) == Decided(from[r]) = b /\ UNCHANGED vars

\* Its counter went on, and nobody knows by which word. It has one way less to go on for that.
FaultyMove(r, to) == Moves(r, to) /\ UNCHANGED <<left, from, changes, opened, prepared, enters, commits, accepted>>

Step(s) ==
    CASE s.act = "propose" -> Propose(s.by, s.view, s.batch)
      [] s.act = "commit" -> Commit(s.by, s.view)
      [] s.act = "leave" -> Leave(s.by, s.view) /\ Shows(s) \in changes'
      [] s.act = "open" -> Open(s.by, s.view) /\ opened'[s.view].takes = s.takes
      [] s.act = "enter" -> Accept(s.by, s.view) /\ <<s.by, s.view>> \in enters'
      [] s.act = "ack" -> Acknowledge(s.by, s.view)
      [] s.act = "execute" -> Execute(s.by, s.batch)
      [] s.act = "fpropose" -> FaultyPropose(s.by, s.view, s.batch)
      [] s.act = "fcommit" -> FaultyCommit(s.by, s.view)
      [] s.act = "fenter" -> FaultyEnter(s.by, s.view)
      [] s.act = "fopen" -> FaultyOpen(s.by, s.view, s.takes)
      [] s.act = "fleave" -> FaultyLeave(s.by, s.view, s.from, s.shows) /\ Shows(s) \in changes'
      [] s.act = "fmove" -> FaultyMove(s.by, s.to)

RunInit == Init /\ run \in 1 .. Len(Runs) /\ at = 1

RunNext ==
    \/ /\ at <= Len(Runs[run])
       /\ Step(Runs[run][at])
       /\ at' = at + 1
       /\ UNCHANGED run
    \/ at > Len(Runs[run]) /\ UNCHANGED <<vars, run, at>>

RunSpec == RunInit /\ [][RunNext]_<<vars, run, at>>
=============================================================================
