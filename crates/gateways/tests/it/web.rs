//! What a web page can have a browser send to a gateway on its user's machine: HTTP requests whose
//! bodies are lines that the gateway could take for commands.

use crate::support::{Client, Local, Running, config, local, request, start};
use pentarchy_gateways::resp::{GatewayConfig, Password};
use std::io::{Read, Write};
use std::time::Duration;

/// What a request of a page gets, to the end of its connection.
fn answer(gateway: &Running, bytes: &[u8]) -> Vec<u8> {
    let mut client = Client::connect(gateway.address);
    client.stream.write_all(bytes).expect("it listens");
    let mut answer = Vec::new();
    // The end may come as a reset, because nothing behind the refused line is read.
    let _ = client.stream.read_to_end(&mut answer);
    answer
}

/// Requests that a page can make without asking anybody: a form's, and the like.
fn requests() -> Vec<Vec<u8>> {
    let body = "SET pwned 1\r\nFLUSHALL\r\n";
    let head = "Host: 127.0.0.1:6379\r\nOrigin: http://evil.example\r\nContent-Type: text/plain";
    let post = format!("POST / HTTP/1.1\r\n{head}\r\nContent-Length: 23\r\n\r\n{body}");
    let get = format!("GET / HTTP/1.1\r\n{head}\r\n\r\n{body}");
    let odd = format!("PUT /\thTTP/1.1\r\nhost: x\r\n\r\n{body}");
    let framed = [request(&[b"post", b"/"]), body.into()].concat();
    let host = [request(&[b"Host:", b"a"]), body.into()].concat();
    vec![post.into(), get.into(), odd.into(), framed, host]
}

#[test]
fn a_web_page_changes_nothing_and_is_hung_up_on() {
    let gateway = local();
    let mut user = Client::connect(gateway.address);
    assert_eq!(user.ask("SET kept 1"), "+OK");
    for request in requests() {
        let said = answer(&gateway, &request);
        let said = String::from_utf8_lossy(&said);
        assert!(!said.contains("OK"), "{said}");
        assert_eq!(user.ask("MGET kept pwned"), "[\"1\" nil]", "{request:?}");
    }
    assert_eq!(user.ask("PING"), "+PONG", "others are served");
}

#[test]
fn a_web_page_is_hung_up_on_before_its_password_and_in_a_transaction() {
    let gateway = local();
    for before in ["MULTI\r\n", "SUBSCRIBE c\r\n", "PING\r\n"] {
        let said = answer(&gateway, format!("{before}POST / HTTP/1.1\r\nPING\r\n").as_bytes());
        assert!(!String::from_utf8_lossy(&said).contains("ERR"), "{said:?}");
    }
    let password = Some(Password::new(b"secret"));
    let gateway = start(GatewayConfig { password, ..config() }, Local::default());
    let guesses = b"POST / HTTP/1.1\r\nHost: a\r\n\r\nAUTH secret\r\nSET pwned 1\r\n";
    assert_eq!(answer(&gateway, guesses), b"");
    let mut user = Client::connect(gateway.address);
    assert_eq!((user.ask("AUTH secret"), user.ask("GET pwned")), ("+OK".into(), "nil".into()));
    // A key may be called so: it is the command that is refused.
    assert_eq!(user.ask("SET post host:"), "+OK");
}

/// Bytes that the gateway asks for with one read.
const READ_BYTES: usize = 16 << 10;

/// What a browser sends comes in whatever pieces the page arranges.
fn in_pieces(gateway: &Running, pieces: &[&[u8]]) -> Vec<u8> {
    let mut client = Client::connect(gateway.address);
    for piece in pieces {
        // The gateway may have hung up.
        let _ = client.stream.write_all(piece);
        std::thread::sleep(Duration::from_millis(100));
    }
    let mut answer = Vec::new();
    let _ = client.stream.read_to_end(&mut answer);
    answer
}

#[test]
fn the_first_line_of_a_web_page_s_request_is_not_carried_out_although_the_rest_comes_later() {
    let gateway = local();
    let ends = [" HTTP/1.1\r\n", "Host: 127.0.0.1:6379\r\n\r\n"];
    let path = "a".repeat(READ_BYTES - "SET /".len() - ends[0].len());
    let line = format!("SET /{path}{}", ends[0]);
    assert_eq!(line.len(), READ_BYTES);
    let said = in_pieces(&gateway, &[line.as_bytes(), ends[1].as_bytes()]);
    assert_eq!(said, b"");
    assert_eq!(Client::connect(gateway.address).ask("DBSIZE"), ":0");
}

#[test]
fn a_command_within_the_first_message_of_tls_is_not_carried_out() {
    let gateway = local();
    let hello = [b"\x16\x03\x01\x00\x40\x01\x00\x00\x3c\x03\x03".as_slice(), &[7; 32]].concat();
    let name = b"\r\nSET pwned 1\r\n";
    let whole = [&hello[..], name].concat();
    for pieces in [&[&whole[..]][..], &[&hello[..], name], &[&hello[..1], &hello[1..], name]] {
        assert_eq!(in_pieces(&gateway, pieces), b"", "{pieces:?}");
    }
    assert_eq!(in_pieces(&gateway, &[b"PING\0\r\nSET pwned 1\r\n"]), b"");
    assert_eq!(Client::connect(gateway.address).ask("DBSIZE"), ":0");
}
