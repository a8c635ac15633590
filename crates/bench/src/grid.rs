//! A table before it is text or HTML.

use pentarchy_console::table;
use std::fmt::Write as _;

/// Rows of cells; a cell may have several lines.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Grid {
    /// The heads of the columns.
    pub heads: Vec<String>,
    /// As many cells each as there are heads.
    pub rows: Vec<Vec<String>>,
}

impl Grid {
    /// For a terminal.
    pub fn text(&self) -> String {
        let heads: Vec<&str> = self.heads.iter().map(String::as_str).collect();
        let mut table = table::new(&heads);
        for row in &self.rows {
            table.add_row(row);
        }
        table::text(&table)
    }

    /// For a document in Markdown.
    pub fn markdown(&self) -> String {
        let line = |cells: &[String]| {
            let cells = cells.iter().map(|cell| cell.replace('|', "\\|").replace('\n', " "));
            format!("| {} |\n", cells.collect::<Vec<_>>().join(" | "))
        };
        let right = self.heads.iter().skip(1).map(|_| " ---: |").collect::<String>();
        let rows = self.rows.iter().map(|row| line(row)).collect::<String>();
        format!("{}| --- |{right}\n{rows}", line(&self.heads))
    }

    /// For a page.
    pub fn html(&self) -> String {
        let mut html = "<table>\n<tr>".to_owned();
        for head in &self.heads {
            let _ = write!(html, "<th>{}</th>", escape(head));
        }
        html.push_str("</tr>\n");
        for row in &self.rows {
            html.push_str("<tr>");
            for cell in row {
                let _ = write!(html, "<td>{}</td>", escape(cell).replace('\n', "<br>"));
            }
            html.push_str("</tr>\n");
        }
        html + "</table>\n"
    }
}

/// A page that needs nothing beside itself: a title, and what it consists of.
pub fn page(title: &str, parts: &[Part]) -> String {
    let mut html = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <title>{0}</title>\n<style>\n\
         body {{ font-family: sans-serif; margin: 2em auto; max-width: 60em; }}\n\
         table {{ border-collapse: collapse; font-size: 90%; }}\n\
         td, th {{ border-bottom: 1px solid #ddd; padding: 0.2em 0.8em; text-align: right; }}\n\
         td:first-child, th:first-child {{ text-align: left; }}\n\
         pre {{ white-space: pre-wrap; color: #444; }}\n</style>\n</head>\n<body>\n\
         <h1>{0}</h1>\n",
        escape(title)
    );
    for part in parts {
        let _ = match part {
            Part::Heading(text) => writeln!(html, "<h2>{}</h2>", escape(text)),
            Part::Text(text) => writeln!(html, "<pre>{}</pre>", escape(text.trim_end())),
            Part::Table(grid) => writeln!(html, "{}", grid.html()),
            Part::Plot(svg) => writeln!(html, "{svg}"),
        };
    }
    html + "</body>\n</html>\n"
}

/// Text as it stands in HTML.
fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// What a page consists of.
pub enum Part {
    /// A heading.
    Heading(String),
    /// Lines of text.
    Text(String),
    /// A table.
    Table(Grid),
    /// A picture, as SVG.
    Plot(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_all_its_parts_and_refers_to_nothing_outside() {
        let grid = Grid {
            heads: vec!["a<b".to_owned(), "n".to_owned()],
            rows: vec![vec!["x\ny".to_owned(), "1".to_owned()]],
        };
        assert_eq!(grid.text(), " a<b  n\n x    1\n y");
        assert_eq!(grid.markdown(), "| a<b | n |\n| --- | ---: |\n| x y | 1 |\n");
        let parts = [
            Part::Heading("Where & when".to_owned()),
            Part::Text("two\nlines\n".to_owned()),
            Part::Table(grid),
            Part::Plot("<svg/>".to_owned()),
        ];
        let html = page("Title", &parts);
        for part in [
            "<title>Title</title>",
            "<h2>Where &amp; when</h2>",
            "<pre>two\nlines</pre>",
            "<tr><th>a&lt;b</th><th>n</th></tr>\n<tr><td>x<br>y</td><td>1</td></tr>",
            "<svg/>",
        ] {
            assert!(html.contains(part), "{part} is not in\n{html}");
        }
        assert!(!html.contains("http") && !html.contains("src=") && !html.contains("href="));
    }
}
