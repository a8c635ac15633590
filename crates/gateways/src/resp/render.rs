//! Writing replies and messages in their order.

use super::backend::Backend;
use super::connection::{Connection, Intake, WRITE_BYTES};
use super::encoder::Encoder;
use super::inbox::Message;
use super::local::Session;
use super::work::{Expected, Render, Settled, Work};
use bytes::{Bytes, BytesMut};

impl<B: Backend> Connection<B> {
    /// Makes a reply here; it leaves after those that are expected before it.
    pub fn reply_here(&mut self, make: impl FnOnce(&mut Session, &mut Encoder<'_>)) {
        if self.expected.is_empty() {
            let start = self.output.len();
            let resp = self.session.resp;
            make(&mut self.session, &mut Encoder::new(&mut self.output, resp));
            // Whether it is wanted is known afterwards: a command may change that.
            if self.session.is_silent() {
                self.output.truncate(start);
            }
            return;
        }
        let reply = self.made(make);
        if !self.session.is_silent() {
            self.pending_bytes += reply.len();
            self.expected.push_back(Expected::Local(reply));
        }
    }

    /// A reply as it would be written.
    pub fn made(&mut self, make: impl FnOnce(&mut Session, &mut Encoder<'_>)) -> Bytes {
        let mut reply = BytesMut::new();
        let resp = self.session.resp;
        make(&mut self.session, &mut Encoder::new(&mut reply, resp));
        reply.freeze()
    }

    /// Adds work, and the place of its reply.
    pub fn expect(&mut self, work: Work, render: Render) {
        let length = work.length() + render.length();
        self.pending_bytes += length;
        let (resp, silent) = (self.session.resp, self.session.is_silent());
        self.expected.push_back(Expected::Result { render, resp, silent, length });
        self.work.push_back(work);
    }

    /// Renders replies whose turn it is, and messages, all of them or until the output is full.
    /// Says whether there were replies.
    pub fn render(&mut self) -> bool {
        let mut rendered = false;
        while self.output.len() < WRITE_BYTES {
            match self.expected.pop_front() {
                None => break,
                Some(Expected::Local(reply)) => {
                    self.pending_bytes -= reply.len();
                    self.output.extend_from_slice(&reply);
                }
                Some(Expected::Result { render, resp, silent, length }) => {
                    let Some(settled) = self.settled.pop_front() else {
                        let again = Expected::Result { render, resp, silent, length };
                        self.expected.push_front(again);
                        break;
                    };
                    self.pending_bytes -= length;
                    self.settled_bytes -= settled.length();
                    self.shared.note(settled.failure());
                    let start = self.output.len();
                    let torn = matches!(render, Render::Subscribed(_)) && settled.is_error();
                    let mut out = Encoder::new(&mut self.output, resp);
                    write_settled(render, settled, &mut out);
                    if silent {
                        self.output.truncate(start);
                    }
                    if torn {
                        // What the replicas count and what the client asked for differ.
                        self.expected.clear();
                        self.work.clear();
                        self.intake = Intake::Closed;
                    }
                }
            }
            rendered = true;
        }
        self.render_messages();
        rendered
    }

    /// Messages go between replies, but not before the reply to the subscription that they are for.
    fn render_messages(&mut self) {
        let subscribing = self.work.iter().any(|work| matches!(work, Work::Subscribe(_)));
        while !subscribing && self.output.len() < WRITE_BYTES {
            let Some(message) = self.inbox.message() else { return };
            if self.session.is_subscribed(&message) {
                let resp = self.session.resp;
                write_message(&message, &mut Encoder::new(&mut self.output, resp));
            }
        }
    }
}

fn write_settled(render: Render, settled: Settled, out: &mut Encoder<'_>) {
    match (render, settled) {
        (_, Settled::Failed(line)) => out.error(line),
        (Render::Written(written) | Render::Subscribed(written), settled)
            if !settled.is_error() =>
        {
            out.written(&written);
        }
        (Render::Exec(slots), Settled::Replies(Some(replies))) => {
            out.array(slots.len());
            let mut replies = replies.iter();
            for slot in slots {
                match slot {
                    Some(local) => out.written(&local),
                    None => out.result(replies.next().map_or(&[], |reply| &reply[..])),
                }
            }
        }
        (_, Settled::Replies(_)) => out.nil_array(),
        (_, Settled::Reply(reply)) => out.result(&reply),
    }
}

fn write_message(message: &Message, out: &mut Encoder<'_>) {
    match &message.pattern {
        None => {
            out.push(3);
            out.text("message");
        }
        Some(pattern) => {
            out.push(4);
            out.text("pmessage");
            out.bulk(pattern);
        }
    }
    out.bulk(&message.channel);
    out.bulk(&message.payload);
}
