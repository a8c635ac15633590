//! Commands that are answered by the gateway itself, and how replies look.

use crate::redis::Redis;
use crate::support::{Client, Held, config, local, next, start};
use pentarchy_gateways::resp::BackendError;
use pentarchy_services::kv::Reply;

#[test]
fn connection_commands() {
    let gateway = local();
    let mut client = Client::connect(gateway.address);
    for (line, wanted) in [
        ("PING", "+PONG"),
        ("ping hello", "\"hello\""),
        ("PING a b", "-ERR wrong number of arguments for 'ping' command"),
        ("ECHO x", "\"x\""),
        ("ECHO", "-ERR wrong number of arguments for 'echo' command"),
        ("SELECT 0", "+OK"),
        ("SELECT 1", "-ERR DB index is out of range"),
        ("SELECT x", "-ERR value is not an integer or out of range"),
        ("CLIENT GETNAME", "nil"),
        ("CLIENT SETNAME me", "+OK"),
        ("CLIENT GETNAME", "\"me\""),
        ("CLIENT SETNAME a b", "-ERR wrong number of arguments for 'client|setname' command"),
        ("CLIENT SETINFO LIB-NAME test", "+OK"),
        ("CLIENT SETINFO LIB-COLOUR red", "-ERR Unrecognized option 'LIB-COLOUR'"),
        ("CLIENT ID", ":1"),
        ("CLIENT NO-EVICT on", "+OK"),
        ("CLIENT KILL x", "-ERR No such client"),
        ("CLIENT KILL ID 0", "-ERR client-id should be greater than 0"),
        ("CLIENT TRACKING on", "-ERR CLIENT TRACKING is not supported by this gateway"),
        ("CLIENT UNPAUSE", "+OK"),
        ("CLIENT NONSENSE", "-ERR unknown subcommand 'NONSENSE'. Try CLIENT HELP."),
        ("CONFIG GET save", "[\"save\" \"\"]"),
        ("CONFIG GET appendonly nonsense", "[\"appendonly\" \"no\"]"),
        ("CONFIG GET", "-ERR wrong number of arguments for 'config|get' command"),
        (
            "CONFIG SET save x",
            "-ERR CONFIG SET is not supported: the gateway is configured when it is started",
        ),
        ("COMMAND COUNT", ":173"),
        ("COMMAND INFO get nonsense", "[[\"get\" :2 [+readonly +fast] :1 :1 :1 [] [] [] []] nil]"),
        (
            "COMMAND DOCS ping",
            "[\"ping\" [\"summary\" \"Returns PONG, or its argument\" \"since\" \"1.0.0\" \
             \"group\" \"connection\"]]",
        ),
        ("HELLO 4", "-NOPROTO unsupported protocol version"),
        ("HELLO x", "-ERR Protocol version is not an integer or out of range"),
        ("HELLO 2 NONSENSE", "-ERR Syntax error in HELLO option 'NONSENSE'"),
        ("RESET", "+RESET"),
        ("CLIENT GETNAME", "nil"),
        ("WAIT 1 0", ":0"),
        ("WAIT 1 x", "-ERR timeout is not an integer or out of range"),
        ("DEBUG SLEEP 0", "-ERR DEBUG is not supported by this gateway"),
        ("SLOWLOG GET", "[]"),
        (
            "MEMORY USAGE k",
            "-ERR MEMORY USAGE is not supported: the keys lie in the replicas' memory",
        ),
        ("GET", "-ERR wrong number of arguments for 'get' command"),
        ("SET k v", "+OK"),
        ("GET k", "\"v\""),
    ] {
        assert_eq!(client.ask(line), wanted, "{line}");
    }
    let refused = client.ask("AUTH secret");
    assert!(refused.starts_with("-ERR AUTH <password> called without any password"), "{refused}");
    assert!(client.ask("HELLO 3 AUTH u p").starts_with("-WRONGPASS "));
    let list = client.ask("CLIENT LIST");
    assert!(list.contains("id=1 addr=127.0.0.1:") && list.contains("lib-name=test"), "{list}");
    let info = client.ask("INFO");
    assert!(info.contains("replicated_by:pentarchy") && info.contains("connected_clients:1"));
    assert!(!client.ask("INFO server").contains("connected_clients"));
    assert_eq!(client.ask("QUIT"), "+OK");
    client.expect_end();
}

#[test]
fn version_three_has_maps_nulls_and_prose() {
    let gateway = local();
    let mut client = Client::connect(gateway.address);
    // The version changes between replies that are under way.
    client.send(b"GET none\r\nHELLO 3\r\nGET none\r\nLPOP none 1\r\nCONFIG GET save\r\n");
    client.send(b"CLIENT INFO\r\nHELLO 2 SETNAME me\r\nGET none\r\n");
    client.expect("$-1\r\n%7\r\n$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nversion\r\n$6\r\n7.0.15\r\n");
    client.expect("$5\r\nproto\r\n:3\r\n$2\r\nid\r\n:1\r\n$4\r\nmode\r\n$10\r\nstandalone\r\n");
    client.expect("$4\r\nrole\r\n$6\r\nmaster\r\n$7\r\nmodules\r\n*0\r\n");
    client.expect("_\r\n_\r\n%1\r\n$4\r\nsave\r\n$0\r\n\r\n=");
    let info = format!("txt:id=1 addr={} ", client.stream.local_addr().unwrap());
    client.expect_after("\r\n", &info);
    client.expect_after("resp=3\n\r\n", "*14\r\n");
    client.expect_after("modules\r\n*0\r\n", "$-1\r\n");
}

#[test]
fn lines_as_typed_by_a_person() {
    let gateway = local();
    let mut client = Client::connect(gateway.address);
    client.send(b"\r\nSET \"a key\" 'a value'\r\n\nGET \"a\\x20key\"\nping\r\n");
    client.expect("+OK\r\n$7\r\na value\r\n+PONG\r\n");
    client.send(b"SET \"a\r\n");
    client.expect("-ERR Protocol error: unbalanced quotes in request\r\n");
    client.expect_end();
}

#[test]
fn the_manual_lists_every_command() {
    let manual = include_str!("../../../../docs/redis.md");
    for info in pentarchy_services::kv::registry::all() {
        let name = format!("`{}`", info.name.to_ascii_uppercase());
        assert!(manual.contains(&name), "docs/redis.md does not mention {name}");
    }
}

/// As with a real Redis: an error at once, and nothing of the transaction is executed.
#[test]
fn a_subcommand_that_cannot_be_right_aborts_its_transaction() {
    let (gateway, redis) = (local(), Redis::start());
    for address in [gateway.address, redis.address] {
        let mut client = Client::connect(address);
        for (line, why) in [
            ("CLIENT FOO", "unknown subcommand 'FOO'. Try CLIENT HELP."),
            ("CONFIG foo", "unknown subcommand 'foo'. Try CONFIG HELP."),
            ("COMMAND FOO", "unknown subcommand 'FOO'. Try COMMAND HELP."),
            ("LATENCY FOO", "unknown subcommand 'FOO'. Try LATENCY HELP."),
            ("MEMORY FOO", "unknown subcommand 'FOO'. Try MEMORY HELP."),
            ("OBJECT FOO a", "unknown subcommand 'FOO'. Try OBJECT HELP."),
            ("PUBSUB FOO", "unknown subcommand 'FOO'. Try PUBSUB HELP."),
            ("SLOWLOG FOO", "unknown subcommand 'FOO'. Try SLOWLOG HELP."),
            ("CLIENT SETNAME", "wrong number of arguments for 'client|setname' command"),
            ("CONFIG GET", "wrong number of arguments for 'config|get' command"),
            ("COMMAND COUNT 3", "wrong number of arguments for 'command|count' command"),
            ("OBJECT ENCODING", "wrong number of arguments for 'object|encoding' command"),
        ] {
            assert_eq!(client.ask("MULTI"), "+OK");
            assert_eq!(client.ask(line), format!("-ERR {why}"), "{line}");
            assert_eq!(client.ask("SET a 1"), "+QUEUED");
            assert!(client.ask("EXEC").starts_with("-EXECABORT"), "{line}");
            assert_eq!(client.ask("EXISTS a"), ":0");
        }
        let cluster = client.ask("INFO cluster");
        assert_eq!(cluster, "\"# Cluster\\r\\ncluster_enabled:0\\r\\n\"");
    }
}

/// What libraries that know Redis Sentinel ask of each address that they were given.
#[test]
fn a_gateway_names_itself_to_who_looks_for_one() {
    let gateway = local();
    let port = gateway.address.port();
    let mut client = Client::connect(gateway.address);
    let here = format!("[\"127.0.0.1\" \"{port}\"]");
    let known = format!(
        "[\"name\" \"pentarchy\" \"ip\" \"127.0.0.1\" \"port\" \"{port}\" \"flags\" \"master\" \
         \"num-slaves\" \"0\" \"num-other-sentinels\" \"0\" \"quorum\" \"1\"]"
    );
    for (line, wanted) in [
        ("SENTINEL get-master-addr-by-name pentarchy", here.as_str()),
        ("SENTINEL GET-MASTER-ADDR-BY-NAME other", "nil"),
        ("SENTINEL MASTERS", &format!("[{known}]")),
        ("SENTINEL MASTER pentarchy", &known),
        ("SENTINEL MASTER other", "-ERR No such master with that name"),
        ("SENTINEL SENTINELS pentarchy", "[]"),
        ("SENTINEL REPLICAS pentarchy", "[]"),
        ("SENTINEL FAILOVER pentarchy", "-ERR unknown subcommand 'FAILOVER'. Try SENTINEL HELP."),
        ("ROLE", "[\"master\" :0 []]"),
    ] {
        assert_eq!(client.ask(line), wanted, "{line}");
    }
}

#[test]
fn a_gateway_that_the_group_does_not_answer_has_clients_look_elsewhere() {
    let (backend, waiting) = Held::new();
    let gateway = start(config(), backend);
    let mut client = Client::connect(gateway.address);
    let names_itself = |client: &mut Client| {
        client.ask("SENTINEL GET-MASTER-ADDR-BY-NAME pentarchy").contains("127.0.0.1")
    };
    client.send(b"GET k\r\n");
    next(&waiting).1.complete(Err(BackendError::TimedOut));
    assert!(client.read_any().starts_with("-ERR timed out"));
    assert!(!names_itself(&mut client));
    assert!(client.ask("SENTINEL MASTERS").contains("\"master,s_down,o_down\""));
    client.send(b"GET k\r\n");
    let (_, done) = next(&waiting);
    done.complete(Ok(Reply::Nil.encode().into()));
    assert_eq!(client.read_any().trim(), "$-1");
    assert!(names_itself(&mut client));
    // That it has enough to do is no reason to go away, and that another one took its place is.
    for (why, serves) in [(BackendError::Busy, true), (BackendError::Overtaken, false)] {
        client.send(b"GET k\r\n");
        next(&waiting).1.complete(Err(why));
        assert!(client.read_any().starts_with('-'));
        assert_eq!(names_itself(&mut client), serves, "{why:?}");
    }
}
