use super::*;
use clap::Parser;
use std::sync::mpsc::sync_channel;

#[derive(Parser)]
struct Command {
    #[command(flatten)]
    args: WanArgs,
}

fn args(words: &[&str]) -> WanArgs {
    let line = [&["wan"], words].concat();
    Command::try_parse_from(line).unwrap_or_else(|error| panic!("{error}")).args
}

fn figure(words: &[&str]) -> Figure {
    let args = args(words);
    let (_stop, signal) = sync_channel(1);
    let systems = args.systems().unwrap();
    args.figure(&systems, &Interrupt::new(signal)).unwrap_or_else(|_| panic!("{words:?}"))
}

/// Of each protocol, in times of a link.
fn steps(figure: &Figure, protocol: &str) -> Vec<f64> {
    let line = figure.lines.iter().find(|line| line.protocol == protocol);
    line.unwrap().points.iter().map(|point| point.steps).collect()
}

#[test]
fn without_deviation_latency_is_communication_steps() {
    let figure = figure(&["--deviation", "0", "--requests", "150", "--links", "1,50"]);
    let expected =
        [("minbft", 3.0), ("pbft", 5.0), ("zyzzyva", 3.0), ("zyzzyva5", 3.0), ("minzyzzyva", 3.0)];
    for (protocol, count) in expected {
        let line = figure.lines.iter().find(|line| line.protocol == protocol).unwrap();
        for point in &line.points {
            assert_eq!(point.p50_ms / point.link_ms, count, "{protocol}: {point:?}");
            assert_eq!((point.mean_ms, point.p99_ms), (point.p50_ms, point.p50_ms), "{protocol}");
        }
    }
    // What a checkpoint is due behind waits until it is decided, one request in a period.
    for point in &figure.lines.iter().find(|it| it.protocol == "pbft-tentative").unwrap().points {
        assert_eq!((point.p50_ms, point.p99_ms), (4.0 * point.link_ms, 5.0 * point.link_ms));
        assert!(point.mean_ms <= (4.0 + 2.0 / 150.0) * point.link_ms, "{point:?}");
    }
    let two = self::figure(&[
        "--deviation",
        "0",
        "--f",
        "2",
        "--protocol",
        "minbft,zyzzyva",
        "--requests",
        "50",
        "--links",
        "20",
    ]);
    assert_eq!(steps(&two, "minbft").iter().map(|it| it.round()).collect::<Vec<_>>(), [4.0]);
    assert_eq!(steps(&two, "zyzzyva").iter().map(|it| it.round()).collect::<Vec<_>>(), [3.0]);
}

/// Although it waits for the slowest of all replicas, where PBFT waits for a quorum.
#[test]
fn zyzzyva_is_more_than_a_step_below_pbft_at_every_link() {
    let figure = figure(&["--protocol", "pbft,zyzzyva,zyzzyva5", "--requests", "150"]);
    let pbft = steps(&figure, "pbft");
    assert_eq!(pbft.len(), 8, "all links from 1 to 50 ms");
    for protocol in ["zyzzyva", "zyzzyva5"] {
        for (ours, theirs) in steps(&figure, protocol).iter().zip(&pbft) {
            assert!(ours + 1.0 < *theirs, "{protocol}: {ours} steps against {theirs}");
            assert!(*ours > 2.9, "{protocol}: {ours} steps");
        }
    }
}

#[test]
fn equal_seeds_give_equal_figures_and_other_seeds_others() {
    let words = ["--protocol", "minbft,zyzzyva", "--requests", "40", "--links", "5"];
    let with_seed = |seed| figure(&[&words[..], &["--seed", seed]].concat());
    let json = |figure: &Figure| crate::files::json(figure).unwrap_or_default();
    let (first, again, other) = (with_seed("7"), with_seed("7"), with_seed("8"));
    assert_eq!(json(&first), json(&again));
    assert_ne!(steps(&first, "zyzzyva"), steps(&other, "zyzzyva"));
}

#[test]
fn the_figure_is_a_table_and_a_plot() {
    let point = |link_ms: f64| Point::new(link_ms, vec![3_000 * link_ms as u64; 4]);
    let line = |protocol: &str| Line {
        protocol: protocol.to_owned(),
        n: 4,
        points: vec![point(10.0), point(1.0)],
    };
    let figure = Figure::new(1, 10, 4, 1, vec![line("pbft"), line("zyzzyva")]);
    let markdown = figure.markdown();
    assert!(markdown.contains("| pbft n=4 | 30.0 (30.0) | 3.0 (3.0) |"), "{markdown}");
    assert!(markdown.contains("| zyzzyva n=4 | 3.00 | 3.00 |"), "{markdown}");
    assert!(figure.text().contains("link, ms"));
    let svg = figure.svg();
    let line = svg.split("stroke=\"#0072B2\"").find_map(|it| it.split_once("points=\"13"));
    assert!(line.is_some() && svg.contains("\nzyzzyva\n</text>"), "by the link's time: {svg}");
}

#[test]
fn nonsense_is_refused() {
    for words in [&["--links", "0"][..], &["--links", "1001"], &["--deviation", "31"]] {
        let line = [&["wan"], words].concat();
        assert!(Command::try_parse_from(line).is_err(), "{words:?}");
    }
    assert!(args(&["--protocol", "raft"]).systems().is_err());
    assert!(args(&["--f", "0"]).systems().is_err());
    let systems = args(&["--protocol", "pbft,pbft"]).systems().unwrap();
    assert_eq!(systems.len(), 1);
    assert!(args(&["--protocol", BASELINE.rules.name]).systems().is_err());
}
