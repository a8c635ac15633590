//! When keys end: by agreed time alone, seen at once, and their memory comes back.

use crate::support::{context, run_at, show, words};
use pentarchy_core::service::Service;
use pentarchy_services::kv::{Command, Kv, Reply};

/// Runs lines `time command => wanted`.
fn script(kv: &mut Kv, lines: &str) {
    for line in lines.lines().map(str::trim) {
        let (time, command) = line.split_once(' ').expect("time command");
        let (command, wanted) = command.split_once(" => ").expect("command => wanted");
        let time = time.parse().expect("a time");
        assert_eq!(show(&run_at(kv, time, &words(command.trim()))), wanted, "{line}");
    }
}

#[test]
fn keys_end_at_their_deadline_and_not_before() {
    let mut kv = Kv::default();
    script(
        &mut kv,
        "1000 SET a 1 PX 500 => OK
         1000 SETEX b 2 x => OK
         1000 RPUSH l x => :1
         1000 EXPIRE l 3 => :1
         1000 PTTL a => :500
         1499 GET a => \"1\"
         1499 PTTL a => :1
         1500 GET a => nil
         1500 TTL a => :-2
         1500 EXISTS a b => :1
         1500 TTL b => :2
         1500 EXPIRETIME b => :3
         1500 PEXPIRETIME b => :3000
         2999 APPEND b y => :2
         3000 APPEND b y => :1
         3000 TTL b => :-1
         3000 TYPE l => list
         4000 TYPE l => none
         4000 RPUSH l y => :1
         4000 TTL l => :-1
         4000 SET c 1 PXAT 9000 => OK
         4000 RENAME c d => OK
         4000 COPY d e => :1
         8999 MGET d e => [\"1\" \"1\"]
         9000 MGET d e => [nil nil]
         9000 RPUSH one x => :1
         9000 EXPIRE one 10 => :1
         9000 RPOPLPUSH one one => \"x\"
         9000 TTL one => :10
         9000 SET k v EX 10 => OK
         9000 SET k w KEEPTTL => OK
         9000 TTL k => :10
         9000 GETEX k PERSIST => \"w\"
         9000 TTL k => :-1
         9000 PEXPIRE k -1 => :1
         9000 EXISTS k => :0",
    );
    // Time never goes back, whatever a context says.
    script(&mut kv, "9000 SET k v PX 10 => OK\n9010 GET k => nil\n9000 GET k => nil");
}

#[test]
fn queries_see_the_time_of_the_last_operation_also_after_a_restore() {
    let mut kv = Kv::default();
    script(&mut kv, "1000 SET a 1 PX 500 => OK");
    let get = Command::new(&["GET", "a"]).to_operation();
    assert_eq!(show(&Reply::decode(&kv.query(&get)).unwrap()), "\"1\"");
    // Sixteen that end earlier, so that this one is due and not yet removed.
    for i in 0..16 {
        run_at(&mut kv, 1000, &[b"SET", format!("k{i}").as_bytes(), b"v", b"PX", b"400"]);
    }
    script(&mut kv, "1600 DBSIZE => :1");
    let mut other = Kv::default();
    for index in kv.filled_sections() {
        other.restore_section(index, &kv.section(index)).unwrap();
    }
    for kv in [&mut kv, &mut other] {
        assert_eq!(Reply::decode(&kv.query(&get)), Ok(Reply::Nil));
        assert_eq!(kv.len(), 1);
        script(kv, "1600 DBSIZE => :0");
    }
    assert_eq!(kv.state_bytes(), other.state_bytes());
    assert_eq!(kv.state_bytes(), 0);
}

#[test]
fn what_nobody_asks_for_is_removed_a_few_with_each_operation() {
    let mut kv = Kv::new(1_000_000);
    let mut refused = 0;
    for i in 0..20_000u64 {
        let key = format!("key:{i}");
        let reply = run_at(&mut kv, i, &[b"SET", key.as_bytes(), &[0; 100], b"PX", b"1000"]);
        refused += u64::from(reply != Reply::Ok);
        assert!(kv.len() <= 1001);
    }
    assert_eq!(refused, 0, "memory comes back before the store is full");
    let before = kv.len();
    kv.execute(&context(1), b"nonsense");
    run_at(&mut kv, 1_000_000, &[b"PING"]);
    assert_eq!(kv.len(), before - 16, "so many with one operation, whatever it is");
}
