//! `gateway`: a voting Redis gateway in the foreground.

use super::args::GatewayArgs;
use super::descriptors;
use super::failure::{Failure, Outcome};
use super::replica::{bind_metrics, no_metrics};
use super::stop::stop_signal;
use pentarchy::config::ClusterConfig;
use pentarchy::metrics::gateway::GatewaySource;
use pentarchy::metrics::server;
use pentarchy::{Client, KeyPair, node};
use pentarchy_client::OUTSTANDING_DEFAULT;
use pentarchy_gateways::resp::{Gateway, GatewayConfig};
use std::net::TcpListener;
use std::sync::mpsc::Receiver;
use std::time::Duration;

/// Runs the command.
pub fn run(args: &GatewayArgs) -> Outcome {
    let config = ClusterConfig::load(&args.config)?;
    descriptors::raise();
    let keys = KeyPair::load(&args.key).map_err(|error| Failure::Usage(error.to_string()))?;
    let stop = stop_signal(args.leash)?;
    let metrics = args.metrics.map(bind_metrics).transpose()?;
    let client = node::connect(&config, keys).map_err(|error| Failure::Usage(error.to_string()))?;
    let gateway = GatewayConfig {
        listen: args.listen,
        // The client frees a place a moment after it has said so; it must not block meanwhile.
        outstanding_max: OUTSTANDING_DEFAULT * 3 / 4,
        reply_timeout: Duration::from_secs(args.timeout),
        ..GatewayConfig::default()
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime =
        runtime.map_err(|error| Failure::Internal(format!("cannot start a runtime: {error}")))?;
    let group = (config.replicas.len(), config.f);
    runtime.block_on(serve(gateway, client, metrics, group, stop))
}

/// Serves until `stop` says to end. `metrics` is where metrics are served, if anywhere, for a group
/// of so many replicas that tolerates so many faults.
async fn serve(
    config: GatewayConfig,
    backend: Client,
    metrics: Option<TcpListener>,
    (n, f): (usize, usize),
    stop: Receiver<()>,
) -> Outcome {
    let gateway = Gateway::bind(config, backend.clone());
    let gateway = gateway.await.map_err(|error| Failure::Usage(error.to_string()))?;
    if let Some(listener) = metrics {
        let source = GatewaySource::new(gateway.watch(), backend, n, f);
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
