use super::chart::{ChartOptions, draw};
use super::{Recording, Subject, Told, Until, Wanted, record};
use crate::run::Factories;
use crate::swarm::SimConfig;
use crate::tests::{factories, naive};
use crate::world::log::Place;

fn broken() -> Factories<'static> {
    factories::<{ naive::WITHOUT_AGREEMENT }>()
}

fn wanted(lines: usize) -> Wanted {
    Wanted { lines, until: None, only: Vec::new(), everything: false }
}

fn subject(seed: u64) -> Subject {
    Subject::Drawn(seed, Box::new(SimConfig { requests: 300, ..SimConfig::default() }))
}

fn tell(seed: u64, wanted: &Wanted) -> Recording {
    record(&subject(seed), &broken(), wanted)
}

#[test]
fn a_replay_is_the_run_each_time() {
    let mut broken_runs = 0;
    for seed in 0..8 {
        let (a, b) = (tell(seed, &wanted(200)), tell(seed, &wanted(200)));
        assert_eq!(a, b);
        let run = subject(seed).run(&broken(), None);
        let audit = |outcome: &Result<crate::run::Summary, crate::run::Violation>| match outcome {
            Ok(summary) => summary.audit,
            Err(violation) => violation.audit,
        };
        assert_eq!(audit(&a.outcome), audit(&run));
        assert_eq!(a.outcome.is_err(), run.is_err());
        if let (Err(violation), Err(of_run)) = (a.outcome, run) {
            broken_runs += 1;
            assert_eq!(violation.at, of_run.at);
            assert!(a.lines.last().expect("lines").at <= violation.at && a.lines.len() <= 200);
        }
    }
    assert!(broken_runs >= 4, "{broken_runs} of them break");
}

#[test]
fn the_text_ends_with_what_broke() {
    let text = tell(3, &wanted(5)).to_string();
    let end = text.split("VIOLATION at ").nth(1).expect("a violation");
    assert!(end.contains(" ms: agreement: ") && end.contains("audit="), "{end}");
    assert!(text.contains("lines before these"), "{text}");
    assert!(text.lines().count() < 12, "{text}");
}

#[test]
fn a_replay_can_end_earlier_and_leave_others_out() {
    let all = tell(3, &wanted(usize::MAX));
    assert_eq!((all.before, all.to_the_end), (0, true));
    let deeds = all.lines.iter().filter(|line| matches!(line.told, Told::Does(..)));
    let half = deeds.clone().nth(deeds.count() / 2).expect("deeds").clone();
    let until = |until| tell(3, &Wanted { until: Some(until), ..wanted(usize::MAX) });
    let by_event = until(Until::Event(half.number));
    assert_eq!(by_event.lines.last(), Some(&half));
    assert!(!by_event.to_the_end && by_event.to_string().contains("... and on to event"));
    assert!(until(Until::Time(half.at)).lines.iter().all(|line| line.at <= half.at));
    let slot = until(Until::Slot(1));
    assert!(slot.lines.last().expect("lines").told.to_string().starts_with("executes s1 "));
    let only = Wanted { only: vec!["r1".to_owned()], ..wanted(usize::MAX) };
    let only = tell(3, &only);
    assert!(only.lines.len() > 3 && only.lines.len() < all.lines.len());
    assert!(only.lines.iter().all(|line| {
        let at_r1 = |place: Place| place.to_string() == "r1" || place == Place::World;
        let sent = matches!(&line.told, Told::Sends(_, to) if to.iter().any(|it| at_r1(it.to)));
        at_r1(line.place) || sent
    }));
}

#[test]
fn ends_are_read() {
    assert_eq!("1204.5".parse(), Ok(Until::Time(1_204_500)));
    assert_eq!("s12".parse(), Ok(Until::Slot(12)));
    assert_eq!("#7".parse(), Ok(Until::Event(7)));
    for wrong in ["", "s", "#x", "-1", "NaN", "inf", "1e300"] {
        assert!(wrong.parse::<Until>().is_err(), "{wrong}");
    }
}

/// Every element is closed in the order of opening; attributes are quoted; nothing is left over.
fn assert_well_formed(svg: &str) {
    let mut open = Vec::new();
    for piece in svg.split('<').skip(1) {
        let (tag, text) = piece.split_once('>').expect("each < has its >");
        assert!(!text.contains('>') && tag.matches('"').count() % 2 == 0, "{piece}");
        for entity in text.split('&').skip(1) {
            let known = ["amp;", "lt;", "gt;", "quot;"];
            assert!(known.iter().any(|it| entity.starts_with(it)), "{piece}");
        }
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name), "{piece}");
        } else if !tag.ends_with('/') {
            open.push(tag.split_whitespace().next().expect("a name"));
        }
    }
    assert!(open.is_empty() && svg.ends_with("</svg>\n"), "{open:?}");
}

#[test]
fn charts_are_well_formed_and_bounded_and_show_the_violation() {
    // Where the replica with the bug is among the faulty ones, nobody minds it.
    let broken = |recording: &Recording| recording.outcome.is_err();
    let recordings = (0..40).map(|seed| tell(seed, &wanted(1_000))).filter(broken).take(20);
    let recordings: Vec<_> = recordings.collect();
    assert_eq!(recordings.len(), 20);
    for recording in recordings {
        for rows in [1, 60] {
            let svg = draw(&recording, ChartOptions { rows, chatter: true });
            assert_well_formed(&svg);
            assert!(svg.len() < 250_000, "{}", svg.len());
            assert!(svg.contains("class=\"broken\">"), "{svg}");
            let labels = svg.matches("<circle").count();
            assert!(labels <= rows, "{labels}");
        }
    }
}

#[test]
fn what_is_lost_is_marked_and_what_peers_say_is_escaped() {
    let mut recording = tell(3, &wanted(1_000));
    let line = recording.lines.iter_mut().rev().find_map(|line| match &mut line.told {
        Told::Sends(text, arrows) => Some((text, arrows)),
        _ => None,
    });
    let (text, arrows) = line.expect("something is sent");
    *text = "</text><script>&\u{7}\"".to_owned();
    arrows.iter_mut().for_each(|arrow| arrow.arrivals = [None, None]);
    let svg = draw(&recording, ChartOptions::default());
    assert_well_formed(&svg);
    assert!(svg.contains("✕") && !svg.contains("<script"));
    assert!(recording.to_string().contains(" LOST"));
}
