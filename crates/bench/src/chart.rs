//! Plots as SVG: panels one below the other, each with lines, and a fault shaded if there is one.

use std::fmt::Write as _;

/// One plot.
pub struct Panel {
    /// Above it.
    pub title: String,
    /// What is drawn upwards.
    pub unit: &'static str,
    /// What is drawn from left to right.
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
        let scale_up = Upwards::new(self);
        let [left, above, right, below] = MARGIN;
        let (end, floor) = (WIDTH - right, HEIGHT - below);
        let x = |across: f64| left + (end - left) * (across / self.end.max(1e-9)).clamp(0.0, 1.0);
        let y = |value: f64| floor - (floor - above) * scale_up.share(value);
        self.shade(svg, &x, above, floor);
        grid(svg, scale_up.ticks().into_iter(), &y);
        scale(svg, ticks(self.end, step(self.end, 8.0)), &x);
        for (index, (name, points)) in self.lines.iter().enumerate() {
            let colour = COLOURS[index % COLOURS.len()];
            let places: Vec<_> = points
                .iter()
                .map(|(at, value)| format!("{:.1},{:.1}", x(*at), y(*value)))
                .collect();
            if points.len() <= MARKED_MAX {
                for (at, value) in points {
                    let (x, y) = (x(*at), y(*value));
                    let _ = writeln!(
                        svg,
                        "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2.5\" fill=\"{colour}\"/>"
                    );
                }
            }
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
        self.values().fold(0.0, f64::max)
    }

    fn values(&self) -> impl Iterator<Item = f64> {
        self.lines.iter().flat_map(|(_, points)| points.iter().map(|point| point.1))
    }

    fn shade(&self, svg: &mut String, x: &impl Fn(f64) -> f64, above: f64, floor: f64) {
        let Some((from, to)) = self.fault.map(|(from, to)| (x(from), x(to))) else { return };
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
             <text x=\"{end}\" y=\"{}\" text-anchor=\"end\">{}</text>\n\
             <text transform=\"translate(14 {middle}) rotate(-90)\" \
             text-anchor=\"middle\">{}</text>\n",
            above - 10.0,
            escape(&self.title),
            floor + 30.0,
            escape(self.unit_across),
            escape(self.unit)
        );
    }
}

/// What height stands for.
enum Upwards {
    /// From 0 to the first number, in steps of the second.
    Linear(f64, f64),
    /// From one power of ten to another.
    Powers(i32, i32),
}

impl Upwards {
    fn new(panel: &Panel) -> Self {
        let max = panel.max();
        if panel.logarithmic && max > 0.0 {
            let positive = panel.values().filter(|value| *value > 0.0);
            let power = |value: f64| value.log10();
            let low = power(positive.fold(f64::INFINITY, f64::min)).floor() as i32;
            return Self::Powers(low, (power(max).ceil() as i32).max(low + 1));
        }
        let step = step(max, 4.0);
        Self::Linear((max / step).ceil().max(1.0) * step, step)
    }

    /// How far up a value is, from 0 to 1.
    fn share(&self, value: f64) -> f64 {
        match self {
            Self::Linear(top, _) => value / top,
            Self::Powers(low, high) => {
                let power = value.max(1e-9).log10() - f64::from(*low);
                (power / f64::from(high - low)).clamp(0.0, 1.0)
            }
        }
    }

    fn ticks(&self) -> Vec<f64> {
        match self {
            Self::Linear(top, step) => ticks(*top, *step).collect(),
            Self::Powers(low, high) => (*low..=*high).map(|power| 10_f64.powi(power)).collect(),
        }
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

/// Marks on the lower axis.
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

/// Text as it stands in SVG and HTML.
pub fn escape(text: &str) -> String {
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
            unit_across: "seconds",
            end: 10.0,
            logarithmic: false,
            fault: Some((2.0, 4.0)),
            level: Some(5.0),
            lines: vec![("all".to_owned(), vec![(0.0, 0.0), (10.0, 100.0)])],
        };
        let svg = draw(&[panel]);
        assert!(svg.contains("points=\"84.0,152.0 650.0,30.0\""), "from corner to corner: {svg}");
        assert!(svg.contains("x=\"197.2\" y=\"30\" width=\"113.2\""), "the fault's time: {svg}");
        assert!(svg.contains("a &lt; b"));
        assert_eq!(svg.matches("<g ").count(), svg.matches("</g>").count());
    }

    #[test]
    fn powers_of_ten_are_equally_far_apart() {
        let panel = Panel {
            title: String::new(),
            unit: "ms",
            unit_across: "ops/s",
            end: 100.0,
            logarithmic: true,
            fault: None,
            level: None,
            lines: vec![("p99".to_owned(), vec![(0.0, 0.2), (50.0, 1.0), (100.0, 10.0)])],
        };
        let svg = draw(&[panel]);
        assert!(svg.contains("points=\"84.0,133.6 367.0,91.0 650.0,30.0\""), "{svg}");
        assert!(svg.contains("<circle cx=\"367.0\" cy=\"91.0\""), "points are marked: {svg}");
        assert!(!svg.contains("#f7d9cc"), "nothing is shaded: {svg}");
        assert!(svg.contains(">0.1</text>") && svg.contains(">10</text>"), "{svg}");
    }
}
