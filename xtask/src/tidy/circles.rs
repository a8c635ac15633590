//! Circles of imports: modules beside each other that use each other, directly or by way of others,
//! and can therefore be read, tested and moved only together.

use super::Finding;
use crate::tree::Tree;
use std::collections::{BTreeMap, BTreeSet};

/// A module's path from the root of its crate.
type Module<'a> = Vec<&'a str>;

/// A circle: the modules, and their parent's path with the crate in front.
type Circle = (String, BTreeSet<String>);

/// Circles, each under the crate or module in which it is.
pub fn circles(tree: &Tree) -> Vec<Finding> {
    let finding = |(parent, modules): Circle| {
        let modules: Vec<String> = modules.into_iter().collect();
        let what = format!("a circle of imports: {}", modules.join(" "));
        Finding::new(&parent, 0, what)
    };
    found(tree).into_iter().map(finding).collect()
}

/// All circles of all crates.
fn found(tree: &Tree) -> Vec<Circle> {
    let mut crates: BTreeMap<&str, BTreeMap<Module, &str>> = BTreeMap::new();
    for (path, text) in tree.with_ending("rs") {
        let Some((name, module)) = module(path) else { continue };
        crates.entry(name).or_default().insert(module, text);
    }
    crates.iter().flat_map(|(name, modules)| of_crate(name, modules)).collect()
}

/// The crate and the module of a source file; none of tests and of programs beside a library.
fn module(path: &str) -> Option<(&str, Module<'_>)> {
    let (name, path) = path.strip_prefix("crates/")?.split_once("/src/")?;
    let mut module: Module = path.strip_suffix(".rs")?.split('/').collect();
    if module[0] == "bin" || module.contains(&"tests") {
        return None;
    }
    if ["mod", "lib", "main"].contains(module.last()?) {
        module.pop();
    }
    Some((name, module))
}

fn of_crate(name: &str, modules: &BTreeMap<Module, &str>) -> Vec<Circle> {
    // By parent: which of its modules use which.
    let mut arrows: BTreeMap<&[&str], Arrows> = BTreeMap::new();
    for (from, text) in modules {
        for used in used(from, text) {
            let is_known = |length: &usize| modules.contains_key(&used[..*length]);
            let Some(length) = (1..=used.len()).rev().find(is_known) else { continue };
            let common = from.iter().zip(&used[..length]).take_while(|(a, b)| a == b).count();
            // What a module uses of its parents and children makes no circle among siblings.
            if common < from.len() && common < length {
                let arrows = arrows.entry(&from[..common]).or_default();
                arrows.entry(from[common]).or_default().insert(used[common].to_owned());
            }
        }
    }
    let with_parent = |(parent, arrows): (&[&str], Arrows)| {
        let parent = [&[name], parent].concat().join("::");
        around(&arrows).into_iter().map(move |circle| (parent.clone(), circle)).collect::<Vec<_>>()
    };
    arrows.into_iter().flat_map(with_parent).collect()
}

/// Which modules use which.
type Arrows<'a> = BTreeMap<&'a str, BTreeSet<String>>;

/// The sets of modules from each of which all others of the set can be reached.
fn around(arrows: &Arrows) -> BTreeSet<BTreeSet<String>> {
    let reached = |from: &str| {
        let (mut seen, mut next) = (BTreeSet::new(), vec![from.to_owned()]);
        while let Some(module) = next.pop() {
            let more = arrows.get(module.as_str()).into_iter().flatten();
            next.extend(more.filter(|it| seen.insert((*it).clone())).cloned());
        }
        seen
    };
    let all: BTreeMap<&str, BTreeSet<String>> =
        arrows.keys().map(|from| (*from, reached(from))).collect();
    let circle = |(from, reached): (&&str, &BTreeSet<String>)| -> BTreeSet<String> {
        let comes_back =
            |to: &&String| all.get(to.as_str()).is_some_and(|back| back.contains(*from));
        reached.iter().filter(comes_back).cloned().collect()
    };
    all.iter().map(circle).filter(|circle| circle.len() > 1).collect()
}

/// What a file uses of its crate, as paths from the root. Comments and tests do not count.
fn used<'a>(from: &[&'a str], text: &'a str) -> Vec<Module<'a>> {
    let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let code = code.lines().filter(|line| !line.trim_start().starts_with("//"));
    let mut all = Vec::new();
    let mut open = Vec::new();
    for line in code {
        read(from, line, &mut open, &mut all);
    }
    all
}

/// Reads the paths of one line. `open` is the `use` in braces that it began in, if any: the path in
/// front of each brace.
fn read<'a>(
    from: &[&'a str],
    line: &'a str,
    open: &mut Vec<Module<'a>>,
    all: &mut Vec<Module<'a>>,
) {
    let mut rest = line;
    while !rest.is_empty() {
        let begins = rest.find(|c: char| c.is_alphanumeric() || "_{}".contains(c));
        let Some(begins) = begins else { return };
        rest = &rest[begins..];
        if let Some(after) = rest.strip_prefix('{') {
            // A block of code opens no path: it is counted, so that its end is not taken for one.
            if !open.is_empty() {
                open.push(open.last().cloned().unwrap_or_default());
            }
            rest = after;
            continue;
        }
        if let Some(after) = rest.strip_prefix('}') {
            open.pop();
            rest = after;
            continue;
        }
        let (path, into, after) = written(rest);
        rest = after;
        let path = match open.last() {
            Some(front) => Some([front, &path[..]].concat()),
            None => from_root(from, &path),
        };
        match path {
            Some(path) if into => open.push(path),
            Some(path) => all.push(path),
            None if into => rest = rest.split_once('}').map_or("", |(_, after)| after),
            None => {}
        }
    }
}

/// The path that a text begins with, whether a brace with more of it follows, and the rest.
fn written(text: &str) -> (Module<'_>, bool, &str) {
    let word = |c: char| c.is_alphanumeric() || c == '_';
    let (mut path, mut rest) = (Vec::new(), text);
    loop {
        let (part, after) = rest.split_at(rest.find(|c| !word(c)).unwrap_or(rest.len()));
        path.push(part);
        let Some(after) = after.strip_prefix("::") else { return (path, false, after) };
        if let Some(inside) = after.strip_prefix('{') {
            return (path, true, inside);
        }
        if !after.starts_with(word) {
            return (path, false, after);
        }
        rest = after;
    }
}

/// A path as it is written, from the root of the crate; none if it leads elsewhere.
fn from_root<'a>(from: &[&'a str], path: &[&'a str]) -> Option<Module<'a>> {
    match *path.first()? {
        "crate" => Some(path[1..].to_vec()),
        "self" => Some([from, &path[1..]].concat()),
        "super" => {
            let up = path.iter().take_while(|part| **part == "super").count();
            Some([from.get(..from.len().checked_sub(up)?)?, &path[up..]].concat())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::shown as findings;
    use super::*;

    const FILES: [(&str, &str); 5] = [
        ("crates/a/src/lib.rs", "mod x;\nmod y;\npub use crate::x::X;\n"),
        ("crates/a/src/x/mod.rs", "mod inner;\nuse crate::y::{\n    Y,\n    Z as W,\n};\n"),
        ("crates/a/src/x/inner.rs", "use super::X;\n// crate::z::Z\n"),
        ("crates/a/src/y.rs", "fn f(x: super::z::Z) {}\n"),
        (
            "crates/a/src/z.rs",
            "use std::{io::{self}, fmt};\nfn f() { crate::x::inner::g() }\n\
             #[cfg(test)]\nmod tests {\n    use crate::lost::L;\n}\n",
        ),
    ];

    #[test]
    fn a_circle_is_found_through_others_and_over_lines() {
        let found = findings(&circles(&Tree::of(&FILES)));
        assert_eq!(found, ["a: a circle of imports: x y z"]);
    }

    #[test]
    fn paths_are_read_as_they_are_written() {
        let of = |text| used(&["p", "q"], text).iter().map(|it| it.join("::")).collect::<Vec<_>>();
        assert_eq!(of("use crate::{a::b, c::{d, e}};"), ["a::b", "c::d", "c::e"]);
        assert_eq!(of("use super::r::R;"), ["p::r::R"]);
        assert_eq!(of("use super::super::s;"), ["s"]);
        assert_eq!(of("use std::{fmt, io::{self, Read}};\nuse self::t::T;"), ["p::q::t::T"]);
        assert_eq!(of("if x { crate::u::f() } else { super::v::g() }"), ["u::f", "p::v::g"]);
    }
}
