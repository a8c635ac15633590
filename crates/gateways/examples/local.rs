//! The gateway over one store without replication, to measure the gateway alone:
//!
//! ```text
//! cargo run --release -p pentarchy-gateways --example local -- 127.0.0.1:7379
//! redis-benchmark -p 7379 -t set,get,incr -n 1000000 -c 50 -P 16 -q
//! ```

use bytes::Bytes;
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{ClientId, Millis, Slot};
use pentarchy_core::service::{Context, Service};
use pentarchy_gateways::resp::{Backend, Completion, Gateway, GatewayConfig};
use pentarchy_services::kv::Kv;
use std::error::Error;
use std::sync::{Arc, Mutex, PoisonError};

#[derive(Clone, Default)]
struct Local(Arc<Mutex<(Kv, Slot)>>);

impl Backend for Local {
    fn submit(&self, operation: Bytes, done: Completion) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.1 = state.1.next();
        let context = Context::new(state.1, 0, Millis(0), ClientId::default(), Digest::default());
        let result = state.0.execute(&context, &operation);
        drop(state);
        done.complete(Ok(result.into()));
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let listen = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:7379".into()).parse()?;
    let config = GatewayConfig { listen, ..GatewayConfig::default() };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let gateway = Gateway::bind(config, Local::default()).await?;
        println!("listening on {}, one thread, no replication", gateway.local_addr());
        gateway.run(std::future::pending()).await;
        Ok(())
    })
}
