use super::*;
use crate::tests::factories;
use crate::tests::naive::CORRECT;

fn find(name: &str) -> Option<Factories<'static>> {
    (name == "naive").then(factories::<CORRECT>)
}

const TRACE: &str = r#"# The naive protocol orders one request.
group naive n=3
----
r0 primary of v0

request c1 "append a x"
----
c1 -> r0 r1 r2   Request c1#1

stabilize
----
r0 -> all   usig 0:3 Order ORDER
r0 r1 r2 executes s1 [c1#1]
r0 r1 r2 -> c1   Reply #1 "x"

again c1 1 to r2
stabilize
----
c1 -> r2   Request c1#1
r2 -> c1   Reply #1 "x"
"#;

fn trace() -> String {
    // The digest is whatever it is; all else is written down.
    let actual = rewrite(TRACE, &find).unwrap();
    let (_, after) = actual.split_once("digest: ").unwrap();
    let proposal = format!("Proposal {{ time: t1000, items: [c1#1], digest: {} }}", &after[..8]);
    TRACE.replace("ORDER", &format!("{{ slot: s1, position: 3, proposal: {proposal} }}"))
}

#[test]
fn a_trace_prints_what_is_said_and_done() {
    check(&trace(), &find).unwrap();
    assert_eq!(rewrite(&trace(), &find).unwrap(), trace(), "rewriting is stable");
}

#[test]
fn a_difference_is_shown_with_its_line() {
    let error = check(&trace().replace("Reply #1", "Reply #2"), &find).unwrap_err();
    assert_eq!(error.line, 14);
    assert!(error.message.contains("Reply #2") && error.message.contains("Reply #1"), "{error}");
}

#[test]
fn messages_are_dropped_delivered_and_cut_as_commands_say() {
    let text = r#"group naive n=3
request c1 "put a 1"
deliver c1 r0
round r0
pending
drop r0 r1
deliver r0 r2 Order
status
partition r0 | r1
request c2 "get a" to r0
stabilize
heal
crash r2
status
----
"#;
    let actual = rewrite(text, &find).unwrap();
    let printed: Vec<&str> = actual.lines().skip_while(|line| *line != RULE).skip(1).collect();
    let has = |start: &str| printed.iter().any(|line| line.starts_with(start));
    assert!(has("r0 -> r1   r0 usig 0:3 Order") && has("c1 -> r1   Request c1#1"), "{actual}");
    assert!(has("r1 normal in v0, executed s0") && has("r2 normal in v0, executed s1"), "{actual}");
    assert!(has("r2 normal in v0, executed s2"), "{actual}");
    assert!(!has("r1 normal in v0, executed s1"), "{actual}");
}

#[test]
fn nonsense_is_refused_with_its_line() {
    let fails = |text: &str, message: &str| {
        let error = rewrite(text, &find).unwrap_err();
        assert!(error.message.contains(message), "{error}");
        error.line
    };
    assert_eq!(fails("# a comment\n\nstabilize\n----\n", "first command"), 3);
    fails("group other\n----\n", "no protocol");
    fails("group naive n=99\n----\n", "1 to 16");
    fails("group naive checkpoint=0\n----\n", "two or more checkpoints");
    fails("group naive checkpoint=4 window=4\n----\n", "two or more checkpoints");
    fails("group naive window=512\n----\n", "two or more checkpoints");
    fails("group naive batch=0\n----\n", "at least 1");
    fails("group naive\ndance\n----\n", "no such command");
    fails("group naive\nrequest c9 \"x\"\n----\n", "no client");
    fails("group naive\nfire r1\n----\n", "armed");
    fails("group naive\ndrop r0 r1\n----\n", "under way");
    fails("group naive\n\nstabilize\n", "without ----");
    fails("group naive n=3 machines=2\n----\n", "1 to 16");
    fails("group naive\npropose a1 renew\n----\n", "machines=");
    let can_change = "group naive n=3 machines=4\n";
    let fails = |command: &str, message: &str| {
        fails(&format!("{can_change}{command}\n----\n"), message);
    };
    fails("propose a9 renew", "a1 to a3");
    fails("propose a1 dance", "no such change");
    fails("propose a1 add r4", "not the next machine");
    fails("propose a1 add r2", "not the next machine");
    fails("propose a1 remove r3", "no member");
    fails("propose a1 switch other", "no group can switch");
    fails("ready r3", "no pending change");
    fails("ready r2", "no machine that joins");
    fails("join r3", "no new member");
    fails("propose a1 add r3\nstabilize\nready r3", "no pending change");
}

/// The naive protocol takes no state over, so nothing is asked of the next configuration here.
#[test]
fn a_machine_takes_the_place_of_a_member_as_commands_say() {
    let text = r#"group naive n=3 machines=4
request c1 "put a 1"
propose a1 replace r2 r3
propose a2 replace r2 r3
stabilize
deliver a1 r0
----
"#;
    let error = rewrite(text, &find).unwrap_err();
    assert_eq!((error.line, error.message.contains("under way")), (6, true), "{error}");
    let text = text.replace("deliver a1 r0", "ready r3\npending\nstabilize\njoin r3\nstatus");
    let actual = rewrite(&text, &find).unwrap();
    let has = |text: &str| actual.lines().any(|line| line.contains(text));
    for administrator in ["a1", "a2"] {
        let proposes = format!("{administrator} -> r0 r1 r2   Request {administrator}#1, proposes");
        assert!(has(&proposes), "{actual}");
    }
    assert!(has(r#"r0 r1 r2 -> a1   Reply #1 "proposed; other"#), "{actual}");
    assert!(has(r#"r0 r1 r2 -> a2   Reply #1 "pending; its members"#), "{actual}");
    assert!(has("Admit r0#1000, ready for") && has("Admit r1#1000, ready for"), "{actual}");
    assert!(!has("Admit r2"), "it leaves: {actual}");
    assert!(has("r3 -> r0   Request r3#1000, ready for"), "it is under way: {actual}");
    assert!(has("r0 r1 r2 has executed all of e0 up to s"), "{actual}");
    assert!(has("r0 r1 begins e1, configuration"), "{actual}");
    assert!(has(": naive, f = 1, members r0 r1 r3"), "{actual}");
    assert!(has("r2 -> r0 r1   Leaves e1") && has("r0 r1 -> r2   Settled e1"), "{actual}");
    assert!(has("r2 ends, as e1 has no place for it") && has("r2 has left"), "{actual}");
    assert!(has("r1 normal in v0 of e1") && has("r3 normal in v0 of e1"), "{actual}");
}
