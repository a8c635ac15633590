//! Plots as SVG: panels one below the other, each with lines, and a fault shaded if there is one.

use plotters::coord::Shift;
use plotters::coord::ranged1d::ValueFormatter;
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;
use std::ops::Range;

/// One plot.
pub struct Panel {
    /// Above it.
    pub title: String,
    /// The unit of the vertical axis.
    pub unit: &'static str,
    /// The unit of the horizontal axis.
    pub unit_across: &'static str,
    /// The end of that axis; it begins with 0.
    pub end: f64,
    /// Upwards each line of the grid stands for ten times the one below.
    pub logarithmic: bool,
    /// From when to when something was broken.
    pub fault: Option<(f64, f64)>,
    /// When everything was well again.
    pub level: Option<f64>,
    /// Names and points: across, upwards.
    pub lines: Vec<(String, Vec<(f64, f64)>)>,
}

/// So few points are marked.
const MARKED_MAX: usize = 40;

/// Pixels of a panel.
const SIZE: (u32, u32) = (760, 190);
/// Pixels to its right, for the names of its lines.
const NAMES: i32 = 120;
/// Told apart also by who sees few colours (Okabe and Ito).
const COLOURS: [RGBColor; 7] = [
    RGBColor(0x00, 0x72, 0xb2),
    RGBColor(0xd5, 0x5e, 0x00),
    RGBColor(0x00, 0x9e, 0x73),
    RGBColor(0xcc, 0x79, 0xa7),
    RGBColor(0xe6, 0x9f, 0x00),
    RGBColor(0x56, 0xb4, 0xe9),
    BLACK,
];
/// Fonts, and their sizes.
const TITLE: (&str, u32) = ("sans-serif", 16);
const TEXT: (&str, u32) = ("sans-serif", 14);
/// The time in which something was broken.
const SHADE: RGBColor = RGBColor(0xf7, 0xd9, 0xcc);
const GREY: RGBColor = RGBColor(0x88, 0x88, 0x88);
const GRID: RGBColor = RGBColor(0xdd, 0xdd, 0xdd);

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Chart<'a, 'b, Y> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<RangedCoordf64, Y>>;
type Drawn = Result<(), DrawingAreaErrorKind<std::io::Error>>;

/// The whole picture.
///
/// # Panics
/// Never: the picture is drawn into memory.
pub fn draw(panels: &[Panel]) -> String {
    let mut svg = String::new();
    let rows = panels.len().max(1);
    let size = (SIZE.0, SIZE.1 * rows as u32);
    let area = SVGBackend::with_string(&mut svg, size).into_drawing_area();
    let drawn = area.fill(&WHITE).and_then(|()| {
        let mut parts = panels.iter().zip(area.split_evenly((rows, 1)));
        parts.try_for_each(|(panel, part)| panel.draw(&part))
    });
    drawn.expect("memory takes what is drawn");
    drop(area);
    svg
}

impl Panel {
    fn draw(&self, area: &Area) -> Drawn {
        let (plot, names) = area.split_horizontally(SIZE.0 as i32 - NAMES);
        self.legend(&names)?;
        let mut chart = ChartBuilder::on(&plot);
        chart.caption(&self.title, TITLE).margin(6);
        chart.x_label_area_size(36).y_label_area_size(70);
        let (across, upwards) = (0.0..self.end.max(1e-9), self.upwards());
        if self.logarithmic {
            self.fill(chart.build_cartesian_2d(across, upwards.log_scale())?)
        } else {
            self.fill(chart.build_cartesian_2d(across, upwards)?)
        }
    }

    /// What the height stands for: from 0, or from one power of ten to another.
    fn upwards(&self) -> Range<f64> {
        let values = self.lines.iter().flat_map(|(_, points)| points.iter().map(|point| point.1));
        let positive = values.filter(|value| *value > 0.0);
        let (least, most) = positive.fold((f64::INFINITY, 0.0_f64), |(least, most), value| {
            (least.min(value), most.max(value))
        });
        let (least, most) = if most == 0.0 { (0.1, 1.0) } else { (least, most) };
        if !self.logarithmic {
            return 0.0..most;
        }
        let (low, high) = (least.log10().floor(), most.log10().ceil());
        // A little more, so that rounding leaves no power at the edge without its line.
        10_f64.powf(low) * (1.0 - 1e-6)..10_f64.powf(high.max(low + 1.0)) * (1.0 + 1e-6)
    }

    fn fill<Y>(&self, mut chart: Chart<'_, '_, Y>) -> Drawn
    where
        Y: Ranged<ValueType = f64> + ValueFormatter<f64>,
    {
        let (left, right) = (0.0, chart.x_range().end);
        let (floor, top) = (chart.y_range().start, chart.y_range().end);
        if let Some((from, to)) = self.fault {
            let corners = [(from.clamp(left, right), top), (to.clamp(left, right), floor)];
            chart.draw_series([Rectangle::new(corners, SHADE.filled())])?;
        }
        let mut mesh = chart.configure_mesh();
        mesh.disable_x_mesh().bold_line_style(GRID).max_light_lines(0);
        mesh.x_labels(9).x_label_formatter(&|at| label(*at)).x_desc(self.unit_across);
        mesh.y_labels(5).y_label_formatter(&|value| label(*value)).y_desc(self.unit);
        mesh.label_style(TEXT).axis_desc_style(TEXT).draw()?;
        if let Some(level) = self.level.map(|level| level.clamp(left, right)) {
            chart.draw_series([PathElement::new([(level, floor), (level, top)], GREY)])?;
            let word = TEXT.into_font().color(&GREY);
            chart.draw_series([Text::new("level", (level, top), word)])?;
        }
        for ((_, points), colour) in self.lines.iter().zip(COLOURS.iter().cycle()) {
            let inside = |(at, value): &(f64, f64)| (at.clamp(left, right), value.max(floor));
            let points: Vec<_> = points.iter().map(inside).collect();
            let marked = if points.len() <= MARKED_MAX { &points[..] } else { &[] };
            chart.draw_series(marked.iter().map(|at| Circle::new(*at, 2, colour.filled())))?;
            chart.draw_series(LineSeries::new(points, colour))?;
        }
        Ok(())
    }

    /// Which colour is which line.
    fn legend(&self, area: &Area) -> Drawn {
        let lines = (0..).zip(&self.lines).zip(COLOURS.iter().cycle());
        for ((index, (name, _)), colour) in lines {
            let y = 26 + 15 * index;
            area.draw(&PathElement::new([(4, y), (16, y)], colour))?;
            area.draw(&Text::new(name.as_str(), (22, y - 5), TEXT))?;
        }
        Ok(())
    }
}

fn label(value: f64) -> String {
    if value >= 10_000.0 {
        format!("{} k", (value / 10.0).round() / 100.0)
    } else {
        format!("{}", (value * 100.0).round() / 100.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn panel(logarithmic: bool, points: Vec<(f64, f64)>) -> Panel {
        Panel {
            title: "a < b".to_owned(),
            unit: "ms",
            unit_across: "ops/s",
            end: 100.0,
            logarithmic,
            fault: None,
            level: None,
            lines: vec![("p99".to_owned(), points)],
        }
    }

    /// Where points are marked.
    fn marks(svg: &str) -> Vec<(f64, f64)> {
        let number = |circle: &str, name: &str| {
            let (_, rest) = circle.split_once(name).expect("a number");
            rest.split('"').next().expect("its end").parse().expect("a number")
        };
        let circles = svg.split("<circle ").skip(1);
        circles.map(|circle| (number(circle, "cx=\""), number(circle, "cy=\""))).collect()
    }

    #[test]
    fn labels_are_short() {
        assert_eq!([0.2, 5000.0, 12_500.0].map(label), ["0.2", "5000", "12.5 k"]);
    }

    #[test]
    fn every_panel_has_its_lines_in_their_place() {
        let points = vec![(0.0, 0.0), (50.0, 20.0), (100.0, 80.0)];
        let fault = Some((20.0, 40.0));
        let one = Panel { fault, level: Some(50.0), ..panel(false, points.clone()) };
        let svg = draw(&[one, panel(false, points)]);
        let [a, b, c, below, ..] = marks(&svg)[..] else { panic!("{svg}") };
        assert!((b.0 - f64::midpoint(a.0, c.0)).abs() <= 1.0, "{svg}");
        assert!((a.1 - b.1 - (a.1 - c.1) / 4.0).abs() <= 1.0, "{svg}");
        assert_eq!(below, (a.0, a.1 + f64::from(SIZE.1)), "{svg}");
        assert_eq!(svg.matches("#F7D9CC").count(), 1, "the fault's time, of one: {svg}");
        assert!(svg.contains("a &lt; b") && svg.contains("level"), "{svg}");
        let many = (0..41).map(|at| (f64::from(at), 1.0)).collect();
        assert_eq!(marks(&draw(&[panel(false, many)])), []);
    }

    #[test]
    fn powers_of_ten_are_equally_far_apart() {
        let svg = draw(&[panel(true, vec![(0.0, 0.1), (50.0, 1.0), (100.0, 10.0)])]);
        let [a, b, c] = marks(&svg)[..] else { panic!("{svg}") };
        assert!((b.1 - f64::midpoint(a.1, c.1)).abs() <= 1.0 && a.1 > c.1, "{svg}");
        assert!(!svg.contains("#F7D9CC"), "nothing is shaded: {svg}");
        assert!(["0.1", "1", "10"].iter().all(|label| svg.contains(&format!("\n{label}\n"))));
        assert!(draw(&[]).contains("</svg>") && draw(&[panel(true, vec![])]).contains("a &lt; b"));
    }
}
