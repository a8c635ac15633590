use super::item::{Item, Shown};
use super::*;
use crate::case::System;
use crate::machine::Program;
use crate::report::{CaseReport, FORMAT, Report, Settings};
use crate::sample::tests::sample;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

fn items(paper: &Paper) -> Vec<(&'static str, Item)> {
    paper.items().unwrap_or_else(|error| panic!("{error:?}"))
}

/// The first table or figure that is measured.
fn first_measured() -> (&'static Paper, &'static str, Item) {
    let measured = |paper: &'static Paper| {
        let mut items = items(paper).into_iter();
        let (name, item) = items.find(|(_, it)| matches!(it.shown, Shown::Measured(_)))?;
        Some((paper, name, item))
    };
    PAPERS.iter().find_map(measured).expect("something is measured")
}

#[test]
fn all_files_are_listed_and_what_they_refer_to_exists() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    for paper in &PAPERS {
        let folder = fs::read_dir(here.join("papers").join(paper.number)).unwrap();
        let names = folder.map(|file| file.unwrap().file_name().into_string().unwrap());
        let names = names.filter_map(|name| Some(name.strip_suffix(".toml")?.to_owned()));
        let items = items(paper);
        let listed: BTreeSet<String> = items.iter().map(|(name, _)| (*name).to_owned()).collect();
        assert_eq!(names.collect::<BTreeSet<_>>(), listed, "paper {}", paper.number);
        for (name, item) in &items {
            let at = format!("{} {name}", paper.number);
            assert!(!item.title.is_empty() && !item.title.ends_with('.'), "{at}");
            match &item.shown {
                Shown::Page(it) => assert!(here.join("../..").join(&it.page).is_file(), "{at}"),
                Shown::Command(it) => {
                    let begins =
                        ["pentarchy ", "cargo run "].map(|word| it.command.starts_with(word));
                    assert!(begins.contains(&true), "{at}: {}", it.command);
                }
                Shown::Missing(it) => assert!(it.why.ends_with('.'), "{at}"),
                Shown::Measured(it) => assert!(it.differs.ends_with('.'), "{at}"),
            }
        }
    }
}

#[test]
fn all_rows_can_be_measured_each_once_and_beside_the_baseline() {
    for paper in &PAPERS {
        for (name, item) in items(paper) {
            let plan = item.plan(Timing::QUICK).unwrap_or_else(|error| panic!("{name}: {error:?}"));
            let Shown::Measured(measured) = &item.shown else {
                assert!(plan.is_none(), "{name}");
                continue;
            };
            let cases = plan.expect("it is measured").cases;
            let built = measured.rows.iter().filter(|row| row.protocol.is_some()).count();
            let mut planned = 0;
            for (case, systems) in &cases {
                let alone = usize::from(!case.crash);
                assert_eq!(systems.iter().filter(|it| it.is_baseline()).count(), alone, "{name}");
                planned += systems.len() - alone;
            }
            assert_eq!(planned, built, "{name}");
        }
    }
}

fn reported(item: &Item) -> Report {
    let plan = item.plan(Timing::QUICK).unwrap().unwrap();
    let of = |system: &System| if system.is_baseline() { 4000 } else { 1000 };
    let samples = |system: &System| (system.clone(), vec![sample(of(system))]);
    let report = |(case, systems): &(_, Vec<System>)| {
        CaseReport::new(case, &systems.iter().map(samples).collect::<Vec<_>>()).unwrap()
    };
    Report {
        format: FORMAT,
        machine: crate::machine::Machine::here(),
        program: Program::this(),
        settings: Settings::new(Timing::QUICK),
        disk: None,
        complete: true,
        cases: plan.cases.iter().map(report).collect(),
    }
}

#[test]
fn each_row_is_compared_with_the_paper_and_with_the_baseline() {
    let (paper, name, mut item) = first_measured();
    let Shown::Measured(measured) = &mut item.shown else { unreachable!("it is measured") };
    measured.figure = item::Figure::Throughput;
    measured.rows[0].paper = Some(500.0);
    measured.rows[1].paper = None;
    measured.rows[2].protocol = None;
    let mut report = PaperReport::of(paper, Timing::QUICK);
    report.items.push(Found::new(name, &item, Some(&reported(&item))));
    let value: Value = serde_json::to_value(&report).unwrap();
    let rows = &value["items"][0]["measured"]["rows"];
    assert_eq!((&rows[0]["ratio"], &rows[0]["to_baseline"]), (&2.0.into(), &0.25.into()));
    assert_eq!((&rows[1]["ratio"], &rows[1]["here"]["median"]), (&Value::Null, &1000.0.into()));
    assert_eq!((&rows[2]["here"], &rows[2]["protocol"]), (&Value::Null, &Value::Null));
    let text = shown::text(&report);
    for part in ["here / baseline", "2.00", "0.25", "not built here", "operations a second"] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
    let page = shown::page(&report);
    assert!(page.contains("<svg") && page.contains("longer is better"), "{page}");
}

#[test]
fn what_was_interrupted_has_no_figures() {
    let (paper, name, item) = first_measured();
    let mut report = PaperReport::of(paper, Timing::QUICK);
    report.items.push(Found::new(name, &item, None));
    let rows = &serde_json::to_value(&report).unwrap()["items"][0]["measured"]["rows"];
    assert!(rows.as_array().unwrap().iter().all(|row| row["here"].is_null()));
    assert!(shown::page(&report).contains("<svg"));
}
