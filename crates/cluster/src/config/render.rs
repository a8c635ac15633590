//! [`ClusterConfig`] to a commented `cluster.toml`.

use super::{ClusterConfig, FORMAT, request_mode_name};
use pentarchy_core::configuration::{Access, Administrators};
use pentarchy_core::limits::PILLARS_MAX;
use pentarchy_protocols::{DEFAULT, EXAMPLES, PROTOCOLS};
use std::fmt::Write as _;

impl ClusterConfig {
    /// The text of the file, with comments for whoever has to change it.
    #[must_use]
    pub fn render(&self) -> String {
        let mut text = self.render_head();
        self.render_clients(&mut text);
        self.render_administrators(&mut text);
        for (id, entry) in self.replicas.iter().enumerate() {
            let _ =
                writeln!(text, "\n# Replica {id}.\n[[replica]]\naddress = \"{}\"", entry.address);
            let _ = writeln!(text, "key = \"{}\"", hex::encode(entry.key));
            if entry.signing != entry.key {
                let _ = writeln!(text, "signing = \"{}\"", hex::encode(entry.signing));
            }
            let _ = writeln!(text, "incarnation = \"{:016x}\"", entry.incarnation.0);
            if entry.device_key != [0; 32] {
                let _ = writeln!(text, "device_key = \"{}\"", hex::encode(entry.device_key));
            }
        }
        text
    }

    fn render_head(&self) -> String {
        format!(
            "\
# A Pentarchy cluster. Every replica, gateway and client of it reads this same file. It holds no
# secret. All replicas must have the same group, protocol, f, pillars, rotate_leader and [[replica]]
# tables.

format = {FORMAT}
group = \"{group}\"

# The protocol and the number of faulty replicas it tolerates. {first} needs {smaller} replicas,
# {signed} {larger} and no trusted devices.
protocol = \"{protocol}\"
f = {f}
# Into how many pillars {able} split the order, at most {pillars_max}:
# agreements side by side, each with its own primary and trusted counters; 1 does not split it.
# And whether each begins with another primary. A group keeps what it was begun with.
pillars = {pillars}
rotate_leader = {rotates}

# How clients convince replicas: \"signature\" (default); \"session\", which is faster, where the
# trusted devices keep their key secret; or \"mac\", which is as fast and protects only against
# accidental faults, not against malicious clients.
request_auth = \"{auth}\"
{session}
# What outlives a replica's process: \"sync\", all that it said, also if all replicas lose power at
# once; \"async\", states that are a second old or two, so that a replica that stops comes back as a
# new incarnation that has less to fetch; or \"memory\", nothing. With the last two at most f may
# stop at a time, or everything is lost.
durability = \"{durability}\"
# MiB of disk that the log of that may have between checkpoints; each replica may have another.
log_mib = {log_mib}

# Where the trusted counters are: \"in-process\", in their replicas; or \"process\", each in a
# process of its own that its replica starts, so that what shows a replica's memory does not show
# the secret that the counters share.
counter = \"{counter}\"

[timeouts]
# After this a backup suspects the primary of ignoring a request. Doubles with each failed view.
request_ms = {request}
# After this a view change is given up for the next one. Doubles with each failed view.
view_change_ms = {view_change}
# Between two reports of what a replica misses.
resend_ms = {resend}
# After this a client sends a request to all replicas instead of only the primary.
client_retry_ms = {retry}
",
            group = hex::encode(self.group.0),
            first = DEFAULT.title,
            smaller = DEFAULT.rules.group_size,
            signed = EXAMPLES.signed.title,
            larger = EXAMPLES.signed.rules.group_size,
            able = able_to_split(),
            protocol = self.protocol,
            f = self.f,
            pillars_max = PILLARS_MAX,
            pillars = self.lane.pillars,
            rotates = self.lane.rotates,
            auth = request_mode_name(self.request_auth),
            session = self.render_session(),
            durability = self.durability.name(),
            log_mib = self.log_mib,
            counter = self.counter.name(),
            request = self.timeouts.request_ms,
            view_change = self.timeouts.view_change_ms,
            resend = self.timeouts.resend_ms,
            retry = self.timeouts.client_retry_ms,
        )
    }

    fn render_session(&self) -> String {
        self.session_key.map_or_else(String::new, |key| {
            let key = hex::encode(key);
            format!(
                "# The trusted devices' public key, with which clients do so.\n\
                 session_key = \"{key}\"\n"
            )
        })
    }

    fn render_clients(&self, text: &mut String) {
        text.push_str(
            "\n[clients]\n# Public keys that may send requests. Without this list, anyone who can \
             reach a replica may.\n# Each gateway needs a key of its own: of two that share one \
             only the one that\n# was started last serves, if the clocks of their hosts agree.\n",
        );
        match &self.access {
            Access::Open => text.push_str("# allow = [\"<64 hexadecimal digits>\"]\n"),
            Access::Only(keys) => {
                text.push_str("allow = [\n");
                for key in keys {
                    let _ = writeln!(text, "    \"{}\",", hex::encode(key.0));
                }
                text.push_str("]\n");
            }
        }
    }

    fn render_administrators(&self, text: &mut String) {
        let Administrators { threshold, keys } = &self.administrators;
        if keys.is_empty() {
            return;
        }
        let _ = writeln!(
            text,
            "\n[administrators]\n# So many of these keys together may change the group while it \
             runs: see `pentarchy members`.\nthreshold = {threshold}\nkeys = ["
        );
        for key in keys {
            let _ = writeln!(text, "    \"{}\",", hex::encode(key));
        }
        text.push_str("]\n");
    }
}

/// The protocols whose order can be split, as in a sentence.
fn able_to_split() -> String {
    let able: Vec<_> = PROTOCOLS.iter().filter_map(|it| it.split).map(|it| it.whole).collect();
    let (last, others) = able.split_last().expect("there are some");
    format!("{} and {last}", others.join(", "))
}
