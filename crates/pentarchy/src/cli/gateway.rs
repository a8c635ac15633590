//! `gateway`: a voting Redis gateway in the foreground.

use super::args::GatewayArgs;
use super::listening::{bind_metrics, no_metrics};
use pentarchy::chain_file;
use pentarchy::config::ClusterConfig;
use pentarchy::metrics::gateway::GatewaySource;
use pentarchy::metrics::server;
use pentarchy::{KeyPair, node};
use pentarchy_client::OUTSTANDING_DEFAULT;
use pentarchy_console::failure::{Failure, Outcome};
use pentarchy_console::stop::stop_signal;
use pentarchy_console::{complain, descriptors};
use pentarchy_gateways::resp::{Gateway, GatewayConfig, Password, Replicated};
use std::fs::File;
use std::io::Read as _;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::mpsc::Receiver;
use std::time::Duration;

/// Runs the command.
pub fn run(args: &GatewayArgs) -> Outcome {
    let config = ClusterConfig::load_present(&args.config)?;
    descriptors::raise();
    let keys = KeyPair::load(&args.key).map_err(|error| Failure::Usage(error.to_string()))?;
    if !config.admits(&keys) {
        // They may have changed the group since this file was written.
        complain(&format!(
            "{} lists other clients than this key: if administrators have not added it since, \
             replicas refuse it (pentarchy clients add {})",
            args.config.display(),
            hex::encode(keys.public())
        ));
    }
    let stop = stop_signal(args.leash)?;
    let metrics = args.metrics.map(bind_metrics).transpose()?;
    let copies = u32::try_from(config.membership().quorums().f).unwrap_or(u32::MAX);
    let usage = |error: String| Failure::Usage(error);
    let chain = chain_file::beside(&args.config);
    let client = node::keeping_client_config(&config, keys, &chain);
    let client = client.map_err(|error| usage(error.to_string()))?;
    let client = Replicated::connect(client).map_err(|error| usage(error.to_string()))?;
    let gateway = GatewayConfig {
        listen: args.listen,
        password: args.password_file.as_deref().map(password).transpose()?,
        // A reply is believed when one more than may lie say so.
        copies,
        // The client frees a place a moment after it has said so; it must not block meanwhile.
        outstanding_max: OUTSTANDING_DEFAULT * 3 / 4,
        reply_timeout: Duration::from_secs(args.timeout),
        ..GatewayConfig::default()
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime =
        runtime.map_err(|error| Failure::Internal(format!("cannot start a runtime: {error}")))?;
    runtime.block_on(serve(gateway, client, metrics, stop))
}

/// The longest password.
const PASSWORD_BYTES_MAX: usize = 1024;

/// Reads a password: the first line of a file that nobody else may read.
fn password(path: &Path) -> Result<Password, Failure> {
    let refuse = |why: String| Failure::Usage(format!("{}: {why}", path.display()));
    let file = File::open(path).map_err(|error| refuse(error.to_string()))?;
    let mode = file.metadata().map_err(|error| refuse(error.to_string()))?.permissions().mode();
    if mode & 0o077 != 0 {
        return Err(refuse("others than its owner may open it; chmod 600 it".into()));
    }
    let mut bytes = Vec::new();
    let read = file.take(PASSWORD_BYTES_MAX as u64 + 2).read_to_end(&mut bytes);
    read.map_err(|error| refuse(error.to_string()))?;
    let line = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if line.is_empty() || line.len() > PASSWORD_BYTES_MAX {
        let why = format!("its first line must be a password of 1 to {PASSWORD_BYTES_MAX} bytes");
        return Err(refuse(why));
    }
    Ok(Password::new(line))
}

/// Serves until `stop` says to end. `metrics` is where metrics are served, if anywhere.
async fn serve(
    config: GatewayConfig,
    backend: Replicated,
    metrics: Option<TcpListener>,
    stop: Receiver<()>,
) -> Outcome {
    let client = backend.client().clone();
    let gateway = Gateway::bind(config, backend);
    let gateway = gateway.await.map_err(|error| Failure::Usage(error.to_string()))?;
    if let Some(listener) = metrics {
        let source = GatewaySource::new(gateway.watch(), client);
        server::serve(listener, source).map_err(no_metrics)?;
    }
    let (stopped, wait) = tokio::sync::oneshot::channel::<()>();
    std::thread::spawn(move || {
        let _ = stop.recv();
        drop(stopped);
    });
    gateway
        .run(async move {
            // Either way the other end is gone, which means to stop.
            let _ = wait.await;
        })
        .await;
    Ok(())
}
