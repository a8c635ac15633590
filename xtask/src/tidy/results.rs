//! Tables of figures are those of their files.

use super::Finding;
use crate::results::differences;
use crate::tree::Tree;

/// Each table between the comments that name a file of `docs/results` is what that file says, and
/// each file is shown.
pub fn results(tree: &Tree) -> Vec<Finding> {
    let found = differences(tree).into_iter();
    found.map(|(path, line, what)| Finding::new(&path, line, what)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::shown;
    use super::*;

    #[test]
    fn a_table_that_differs_from_its_file_is_found() {
        let file = r#"{
            "source": {"command": null, "machine": null, "commit": "abc", "date": "2026-01-02",
                "recorded": "2026-01-02", "note": null},
            "columns": [{"title": "figure"}],
            "rows": [[1]]
        }"#;
        let page = "<!-- results: a -->\n| figure |\n| --- |\n| 2 |\n\nSource: command not \
                    recorded; machine not recorded; commit abc; 2026-01-02.\n\
                    <!-- end of results -->\n";
        let tree = |page: &str| Tree::of(&[("docs/results/a.json", file), ("docs/a.md", page)]);
        assert_eq!(shown(&results(&tree(&page.replace("| 2", "| 1")))), [""; 0]);
        let what = "differs from its file in docs/results: run `cargo xtask results`";
        assert_eq!(shown(&results(&tree(page))), [format!("docs/a.md:4: {what}")]);
    }
}
