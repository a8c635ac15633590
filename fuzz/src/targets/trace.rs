//! The language of golden traces. Only people who change the code write it, but a typing error
//! must give a message, and what is printed must be stable.

use pentarchy_protocols::{BASELINE, DEFAULT};
use pentarchy_sim::run::Factories;
use pentarchy_sim::trace::rewrite;

const LINES_MAX: usize = 64;

fn find(name: &str) -> Option<Factories<'static>> {
    let entry = pentarchy_protocols::find(name)?;
    Some(Factories::new(entry.rules, &entry.start, &|_| unreachable!("traces start no client")))
}

pub fn run(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    if text.lines().count() > LINES_MAX {
        return;
    }
    if let Ok(printed) = rewrite(text, &find) {
        assert_eq!(rewrite(&printed, &find).as_ref(), Ok(&printed), "a second time");
    }
}

pub fn seeds() -> Vec<Vec<u8>> {
    let [group, alone] = [DEFAULT, BASELINE].map(|protocol| protocol.rules.name);
    let texts = [
        format!(
            "group {group} n=3\nrequest c1 \"put a 1\" to r0\npending\nstabilize\n----\n\n\
             status\n----\n"
        ),
        format!(
            "group {group} n=3 checkpoint=2 window=4 batch=2 in_flight=1\n\
             request c1 \"append a 1\"\ndeliver r0 r1\ndrop * r2 Prepare\nround r1\ntimers\n\
             fire r1 2\nadvance 500\n----\n"
        ),
        format!(
            "# People\ngroup {group} n=3\ncrash r0\npartition r1 | r2\nheal\nagain c1 1\n\
             fire r1\nstatus\n----\n"
        ),
        format!("group {alone} n=1\nrequest c2 \"get a\"\nstabilize\n----\n"),
        format!(
            "group {group} n=3 machines=4\npropose a1 replace r2 r3\npropose a2 replace r2 r3\n\
             stabilize\nready r3\nstabilize\njoin r3\ndeliver r3 *\nstabilize\n\
             request c1 \"put a 1\" to r1\nstabilize\nstatus\n----\n"
        ),
        format!(
            "group {group} n=4 machines=5\npropose a1 remove r3\npropose a2 add r4\n\
             propose a3 renew\nstabilize\npropose a2 switch {group}\npending\n----\n"
        ),
    ];
    texts.map(String::into_bytes).to_vec()
}
