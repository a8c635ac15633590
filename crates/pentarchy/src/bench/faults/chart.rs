//! Plots as SVG: panels one below the other, each with lines over time and a fault shaded.

use std::fmt::Write as _;

/// One plot.
pub struct Panel {
    /// Above it.
    pub title: String,
    /// What is drawn upwards.
    pub unit: &'static str,
    /// The end of the time axis, in seconds; it begins with 0.
    pub seconds: f64,
    /// When something was broken, in seconds.
    pub fault: (f64, f64),
    /// When everything was well again.
    pub level: Option<f64>,
    /// Names and points: seconds, value.
    pub lines: Vec<(String, Vec<(f64, f64)>)>,
}

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 190.0;
/// Around the area of a panel: left, top, right, bottom.
const MARGIN: [f64; 4] = [84.0, 30.0, 110.0, 38.0];
/// Told apart also by who sees few colours (Okabe and Ito).
const COLOURS: [&str; 7] =
    ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000"];

/// The whole picture.
pub fn draw(panels: &[Panel]) -> String {
    let height = HEIGHT * panels.len() as f64;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         width=\"{WIDTH}\" height=\"{height}\" font-family=\"sans-serif\" font-size=\"11\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    for (index, panel) in panels.iter().enumerate() {
        let _ = writeln!(svg, "<g transform=\"translate(0 {})\">", HEIGHT * index as f64);
        panel.draw(&mut svg);
        svg.push_str("</g>\n");
    }
    svg + "</svg>\n"
}

impl Panel {
    fn draw(&self, svg: &mut String) {
        let step_y = step(self.max(), 4.0);
        let top = (self.max() / step_y).ceil().max(1.0) * step_y;
        let [left, above, right, below] = MARGIN;
        let (end, floor) = (WIDTH - right, HEIGHT - below);
        let x =
            |seconds: f64| left + (end - left) * (seconds / self.seconds.max(1e-9)).clamp(0.0, 1.0);
        let y = |value: f64| floor - (floor - above) * value / top;
        self.shade(svg, &x, above, floor);
        grid(svg, ticks(top, step_y), &y);
        scale(svg, ticks(self.seconds, step(self.seconds, 8.0)), &x);
        for (index, (name, points)) in self.lines.iter().enumerate() {
            let colour = COLOURS[index % COLOURS.len()];
            let places: Vec<_> = points
                .iter()
                .map(|(at, value)| format!("{:.1},{:.1}", x(*at), y(*value)))
                .collect();
            let _ = write!(
                svg,
                "<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.3\" points=\"{}\"/>\n\
                 <text x=\"{}\" y=\"{}\" fill=\"{colour}\">{}</text>\n",
                places.join(" "),
                end + 8.0,
                above + 10.0 + 14.0 * index as f64,
                escape(name)
            );
        }
        self.frame(svg, left, end, above, floor);
    }

    fn max(&self) -> f64 {
        let values = self.lines.iter().flat_map(|(_, points)| points.iter().map(|point| point.1));
        values.fold(0.0, f64::max)
    }

    fn shade(&self, svg: &mut String, x: &impl Fn(f64) -> f64, above: f64, floor: f64) {
        let (from, to) = (x(self.fault.0), x(self.fault.1));
        let _ = writeln!(
            svg,
            "<rect x=\"{from:.1}\" y=\"{above}\" width=\"{:.1}\" height=\"{}\" fill=\"#f7d9cc\"/>",
            to - from,
            floor - above
        );
        if let Some(level) = self.level {
            let at = x(level);
            let _ = write!(
                svg,
                "<line x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{above}\" y2=\"{floor}\" stroke=\"#888\" \
                 stroke-dasharray=\"4 3\"/>\n\
                 <text x=\"{:.1}\" y=\"{}\" fill=\"#666\">level</text>\n",
                at + 3.0,
                floor - 5.0
            );
        }
    }

    fn frame(&self, svg: &mut String, left: f64, end: f64, above: f64, floor: f64) {
        let middle = f64::midpoint(above, floor);
        let _ = write!(
            svg,
            "<path d=\"M{left} {above}V{floor}H{end}\" fill=\"none\" stroke=\"#444\"/>\n\
             <text x=\"{left}\" y=\"{}\" font-size=\"13\" font-weight=\"bold\">{}</text>\n\
             <text x=\"{end}\" y=\"{}\" text-anchor=\"end\">seconds</text>\n\
             <text transform=\"translate(14 {middle}) rotate(-90)\" \
             text-anchor=\"middle\">{}</text>\n",
            above - 10.0,
            escape(&self.title),
            floor + 30.0,
            escape(self.unit)
        );
    }
}

/// Lines across, with what they stand for.
fn grid(svg: &mut String, ticks: impl Iterator<Item = f64>, y: &impl Fn(f64) -> f64) {
    let [left, _, right, _] = MARGIN;
    let end = WIDTH - right;
    for tick in ticks {
        let (at, label) = (y(tick), label(tick));
        let _ = write!(
            svg,
            "<line x1=\"{left}\" x2=\"{end}\" y1=\"{at:.1}\" y2=\"{at:.1}\" stroke=\"#ddd\"/>\n\
             <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>\n",
            left - 6.0,
            at + 4.0
        );
    }
}

/// Marks on the time axis.
fn scale(svg: &mut String, ticks: impl Iterator<Item = f64>, x: &impl Fn(f64) -> f64) {
    let floor = HEIGHT - MARGIN[3];
    for tick in ticks {
        let at = x(tick);
        let _ = write!(
            svg,
            "<line x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{floor}\" y2=\"{}\" stroke=\"#444\"/>\n\
             <text x=\"{at:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n",
            floor + 4.0,
            floor + 16.0,
            label(tick)
        );
    }
}

/// A round distance, so that at most about this many fit.
fn step(max: f64, count: f64) -> f64 {
    if max <= 0.0 {
        return 1.0;
    }
    let power = 10_f64.powf((max / count).log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power);
    steps.into_iter().find(|step| max / step <= count).unwrap_or(10.0 * power)
}

fn ticks(max: f64, step: f64) -> impl Iterator<Item = f64> {
    // A little above, for ends that are a multiple but for rounding.
    (0..=(max / step + 1e-6) as u32).map(move |index| step * f64::from(index))
}

fn label(value: f64) -> String {
    if value >= 10_000.0 {
        format!("{} k", (value / 10.0).round() / 100.0)
    } else {
        format!("{}", (value * 100.0).round() / 100.0)
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_round_and_not_too_many() {
        for (max, count, expected) in
            [(15.0, 8.0, 2.0), (600.0, 8.0, 100.0), (9_300.0, 4.0, 5_000.0), (0.7, 4.0, 0.2)]
        {
            assert!((step(max, count) - expected).abs() < 1e-9, "{max}: {}", step(max, count));
        }
        assert_eq!(ticks(15.0, 5.0).collect::<Vec<_>>(), [0.0, 5.0, 10.0, 15.0]);
        assert_eq!([0.2, 5000.0, 12_500.0].map(label), ["0.2", "5000", "12.5 k"]);
    }

    #[test]
    fn every_panel_has_its_lines_in_their_place() {
        let panel = Panel {
            title: "a < b".to_owned(),
            unit: "ops/s",
            seconds: 10.0,
            fault: (2.0, 4.0),
            level: Some(5.0),
            lines: vec![("all".to_owned(), vec![(0.0, 0.0), (10.0, 100.0)])],
        };
        let svg = draw(&[panel]);
        assert!(svg.contains("points=\"84.0,152.0 650.0,30.0\""), "from corner to corner: {svg}");
        assert!(svg.contains("x=\"197.2\" y=\"30\" width=\"113.2\""), "the fault's time: {svg}");
        assert!(svg.contains("a &lt; b"));
        assert_eq!(svg.matches("<g ").count(), svg.matches("</g>").count());
    }
}
