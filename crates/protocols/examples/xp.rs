use pentarchy_sim::explorer::{Explored, Plan, explore};
use pentarchy_core::ids::ReplicaId;
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let get = |k: &str| a.iter().position(|x| x == k).map(|i| a[i+1].clone());
    let entry = pentarchy_protocols::find("minbft").unwrap();
    let mut plan = Plan::default();
    plan.liar = get("liar").map(|x| ReplicaId(x.parse().unwrap()));
    if let Some(x) = get("lies") { plan.lies = x.parse().unwrap(); }
    if let Some(x) = get("timeouts") { plan.timeouts = x.parse().unwrap(); }
    if let Some(x) = get("requests") { plan.requests = x.parse().unwrap(); }
    if let Some(x) = get("states") { plan.states_max = x.parse().unwrap(); }
    if let Some(x) = get("resends") { plan.resends = x.parse().unwrap(); }
    if let Some(x) = get("alphabet") { plan.alphabet = x.split(',').map(str::to_owned).collect(); }
    if let Some(x) = get("start") { plan.start = std::fs::read_to_string(x).unwrap(); }
    let explored = Explored { rules: entry.rules, start: &entry.start, forger: entry.forger, is_settled: entry.is_settled };
    let v = get("variant");
    let r = pentarchy_core::mutant::with(v.as_deref(), || explore(&plan, &explored, |_| true));
    match r { Ok(r) => println!("{r}"), Err(e) => println!("ERR {e}") }
    let s = std::fs::read_to_string("/proc/self/status").unwrap();
    for l in s.lines().filter(|l| l.starts_with("VmHWM")) { println!("{l}"); }
}
