//! A paper's figures beside those of this machine, as bars.

use super::outcome::{FoundRow, FoundRows};
use crate::report::table::number;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

/// Pixels of the picture, and of each row.
const WIDTH: i32 = 760;
const ROW: i32 = 34;
/// Pixels of a bar.
const BAR: i32 = 13;
/// Where bars begin, and where the longest ends.
const BEGIN: i32 = 250;
const END: i32 = 660;
/// Above and below the rows.
const MARGIN: i32 = 30;
/// The paper's bar, and that of this machine.
const PAPER: RGBColor = RGBColor(0xaa, 0xaa, 0xaa);
const HERE: RGBColor = RGBColor(0x00, 0x72, 0xb2);
const FONT: (&str, u32) = ("sans-serif", 12);

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;
type Drawn = Result<(), DrawingAreaErrorKind<std::io::Error>>;

/// A pair of bars for each row; one where the other figure is not known.
///
/// # Panics
/// Never: the picture is drawn into memory.
pub fn bars(rows: &FoundRows) -> String {
    let mut svg = String::new();
    let height = 2 * MARGIN + ROW * rows.rows.len() as i32;
    let area = SVGBackend::with_string(&mut svg, (WIDTH as u32, height as u32));
    let area = area.into_drawing_area();
    draw(&area, rows).expect("memory takes what is drawn");
    drop(area);
    svg
}

fn draw(area: &Area, rows: &FoundRows) -> Drawn {
    area.fill(&WHITE)?;
    let legend = format!("{}, {}:", rows.unit, rows.figure.better());
    words(area, &legend, (10, 12), HPos::Left, &BLACK)?;
    words(area, "paper", (END - 60, 12), HPos::Left, &PAPER)?;
    words(area, "here", (END, 12), HPos::Left, &HERE)?;
    let most = rows.rows.iter().flat_map(figures).flatten().fold(f64::MIN_POSITIVE, f64::max);
    for (row, top) in rows.rows.iter().zip((MARGIN..).step_by(ROW as usize)) {
        words(area, &row.what, (BEGIN - 10, top + BAR), HPos::Right, &BLACK)?;
        for ((figure, colour), top) in
            figures(row).into_iter().zip([PAPER, HERE]).zip([top, top + BAR])
        {
            let Some(figure) = figure else { continue };
            let end = BEGIN + (f64::from(END - BEGIN) * figure / most) as i32;
            let corners = [(BEGIN, top), (end.max(BEGIN + 1), top + BAR - 1)];
            area.draw(&Rectangle::new(corners, colour.filled()))?;
            words(area, &number(figure, 0), (end + 5, top + BAR / 2), HPos::Left, &BLACK)?;
        }
    }
    Ok(())
}

/// The paper's, and that of this machine.
fn figures(row: &FoundRow) -> [Option<f64>; 2] {
    [row.paper, row.here.as_ref().map(|here| here.median)]
}

fn words(area: &Area, text: &str, at: (i32, i32), side: HPos, colour: &RGBColor) -> Drawn {
    let style = FONT.into_font().color(colour).pos(Pos::new(side, VPos::Center));
    area.draw(&Text::new(text.to_owned(), at, style))
}
