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
use pentarchy_gateways::resp::{
    Backend, Completion, EventSink, Gateway, GatewayConfig, GatewayEvent,
};
use pentarchy_services::kv::Kv;
use std::error::Error;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

#[derive(Clone, Default)]
struct Local(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    kv: Kv,
    slot: Slot,
    sink: Option<EventSink>,
}

impl Backend for Local {
    fn submit(&self, operation: Bytes, _: Duration, done: Completion) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.slot = state.slot.next();
        let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let time = Millis(u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
        let context = Context::new(state.slot, 0, time, ClientId::default(), Digest::default());
        let result = state.kv.execute(&context, &operation);
        let (events, sink) = (state.kv.take_events(), state.sink.clone());
        drop(state);
        if let Some(sink) = sink {
            events.into_iter().for_each(|event| sink(GatewayEvent::Event(event.body)));
        }
        done.complete(Ok(result.into()));
    }

    fn on_event(&self, sink: EventSink) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).sink = Some(sink);
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
