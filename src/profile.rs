//! `--profile`: a table of what each step did and how long it took.

use std::fmt::Display;

use bytesize::ByteSize;
use gpuvm_engine::{PagingStats, RunStats, StepStats};

use crate::report::{Sheet, grouped, time};

/// Steps at the beginning that are shown whatever they took.
const FIRST: usize = 16;
/// Of the others, the slowest that are.
const SLOWEST: usize = 16;

/// Columns that only make sense for some runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Columns {
    /// What the page table did: there is none unless the access is paged.
    pub paging: bool,
    /// Bytes a second that the link to the GPU gives at most.
    pub link_rate: Option<f64>,
}

/// A line of the table: a step or the sum of several.
#[derive(Clone, Debug, Default, PartialEq)]
struct Line {
    label: String,
    scan: &'static str,
    frontier: u64,
    edges: u64,
    paging: PagingStats,
    seconds: f64,
}

impl Line {
    fn sum<'a>(label: impl Into<String>, steps: impl IntoIterator<Item = &'a StepStats>) -> Self {
        let mut line = Self { label: label.into(), ..Self::default() };
        for step in steps {
            line.frontier += step.frontier;
            line.edges += step.edges;
            line.paging += step.paging;
            line.seconds += step.seconds;
        }
        line
    }

    fn row(&self, columns: Columns) -> String {
        let mut row =
            cells(&self.label, &grouped(self.frontier), self.scan, &grouped(self.edges), &time(self.seconds));
        if columns.paging {
            let paging = &self.paging;
            let rate = if self.seconds > 0.0 { paging.bytes_in as f64 / self.seconds } else { 0.0 };
            row += &paging_cells(
                &grouped(paging.faults),
                &grouped(paging.hits),
                &grouped(paging.evictions),
                &ByteSize::b(paging.bytes_in),
                &format!("{:.2}", rate / 1e9),
            );
            if let Some(link_rate) = columns.link_rate {
                row += &format!(" {:>5.1}%", rate / link_rate * 100.0);
            }
        }
        row
    }
}

fn cells(label: &str, frontier: &str, scan: &str, edges: &str, time: &str) -> String {
    format!("{label:>12} {frontier:>13} {scan:<8} {edges:>15} {time:>12}")
}

fn paging_cells(
    faults: &dyn Display,
    hits: &dyn Display,
    evictions: &dyn Display,
    bytes_in: &dyn Display,
    rate: &dyn Display,
) -> String {
    let [faults, hits, evictions, bytes_in, rate] =
        [faults, hits, evictions, bytes_in, rate].map(ToString::to_string);
    format!(" {faults:>11} {hits:>13} {evictions:>11} {bytes_in:>10} {rate:>7}")
}

fn header(columns: Columns) -> String {
    let mut header = cells("step", "frontier", "scan", "edges", "time");
    if columns.paging {
        header += &paging_cells(&"faults", &"hits", &"evictions", &"bytes in", &"GB/s");
        if columns.link_rate.is_some() {
            header += "   link";
        }
    }
    header
}

/// Adds the table of a run to `sheet`: its steps, of many the first and the slowest and the sum of the others, and the
/// sum of all; then what of the run's time was in no step.
pub fn describe_steps(stats: &RunStats, columns: Columns, sheet: &mut Sheet) {
    sheet.more(header(columns));
    for line in lines(&stats.steps) {
        sheet.more(line.row(columns));
    }
    let in_steps: f64 = stats.steps.iter().map(|step| step.seconds).sum();
    let rest = (stats.seconds - in_steps).max(0.0);
    sheet.more(format_args!("besides the steps, {} for vertex state, launch and answer", time(rest)));
}

/// Adds the sum of the steps of several runs.
pub fn describe_all<'a>(steps: impl IntoIterator<Item = &'a StepStats>, columns: Columns, sheet: &mut Sheet) {
    sheet.line("all sources", Line::sum("total", steps).row(columns));
}

fn lines(steps: &[StepStats]) -> Vec<Line> {
    let shown = shown(steps);
    let mut lines: Vec<_> = (shown.iter())
        .map(|&number| {
            let from = if number == RunStats::SUMMED_STEP { "from " } else { "" };
            let label = format!("{from}{}", grouped(number as u64));
            Line { scan: steps[number].scan.name(), ..Line::sum(label, [&steps[number]]) }
        })
        .collect();
    if shown.len() < steps.len() {
        let others = steps.iter().enumerate().filter(|(number, _)| shown.binary_search(number).is_err());
        let label = format!("{} others", grouped((steps.len() - shown.len()) as u64));
        lines.push(Line::sum(label, others.map(|(_, step)| step)));
    }
    lines.push(Line::sum("total", steps));
    lines
}

/// Numbers of the steps that are shown, rising.
fn shown(steps: &[StepStats]) -> Vec<usize> {
    let mut later: Vec<usize> = (FIRST.min(steps.len())..steps.len()).collect();
    // The sum of several steps is no slow step: it is shown as what it is, whatever it took.
    let is_sum = |&number: &usize| number == RunStats::SUMMED_STEP;
    let key = |number: &usize| (!is_sum(number), -steps[*number].seconds);
    later.sort_by(|a, b| {
        let (a, b) = (key(a), key(b));
        a.0.cmp(&b.0).then(a.1.total_cmp(&b.1))
    });
    later.truncate(SLOWEST);
    let mut shown: Vec<usize> = (0..FIRST.min(steps.len())).chain(later).collect();
    shown.sort_unstable();
    shown
}

#[cfg(test)]
mod tests {
    use gpuvm_engine::{Direction, Scan};

    use super::*;

    fn step(number: u64, seconds: f64) -> StepStats {
        let paging = PagingStats { hits: number, faults: 2, coalesced: 1, evictions: 1, bytes_in: 8_000_000 };
        StepStats {
            frontier: 10 + number,
            edges: 100 + number,
            direction: Direction::Push,
            scan: Scan::Chunks,
            paging,
            seconds,
        }
    }

    /// So many steps of a millisecond, and some that take longer.
    fn steps(count: u64, slow: &[(usize, f64)]) -> Vec<StepStats> {
        let mut steps: Vec<_> = (0..count).map(|number| step(number, 0.001)).collect();
        slow.iter().for_each(|&(number, seconds)| steps[number].seconds = seconds);
        steps
    }

    fn labels(lines: &[Line]) -> Vec<&str> {
        lines.iter().map(|line| line.label.as_str()).collect()
    }

    const ON_A_GPU: Columns = Columns { paging: true, link_rate: Some(50e9) };
    const ON_THE_CPU: Columns = Columns { paging: true, link_rate: None };
    const NOT_PAGED: Columns = Columns { paging: false, link_rate: None };

    #[test]
    fn every_step_of_a_short_run_is_a_line() {
        assert_eq!(labels(&lines(&steps(3, &[]))), ["0", "1", "2", "total"]);
        assert_eq!(lines(&steps(32, &[])).len(), 33);
        assert_eq!(labels(&lines(&[])), ["total"]);
    }

    #[test]
    fn long_run_shows_its_first_and_its_slowest_steps_and_adds_up() {
        let slow = [(900, 0.5), (40, 0.2), (1999, 0.1)];
        let steps = steps(2000, &slow);
        let lines = lines(&steps);
        let names = labels(&lines);
        assert_eq!(
            names[..16],
            ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14", "15"]
        );
        for slow in ["40", "900", "1,999"] {
            assert!(names.contains(&slow), "{names:?}");
        }
        assert_eq!(names[32..], ["1,968 others", "total"]);
        let (total, parts) = lines.split_last().expect("a total");
        let sum = |field: fn(&Line) -> u64| parts.iter().map(field).sum::<u64>();
        assert_eq!(total.frontier, sum(|line| line.frontier));
        assert_eq!(total.edges, sum(|line| line.edges));
        assert_eq!(total.paging.hits, sum(|line| line.paging.hits));
        assert_eq!(total.paging.bytes_in, sum(|line| line.paging.bytes_in));
        assert_eq!(total.paging, steps.iter().map(|step| step.paging).sum());
        let seconds: f64 = parts.iter().map(|line| line.seconds).sum();
        assert!((total.seconds - seconds).abs() < 1e-9);
    }

    #[test]
    fn entry_that_adds_up_the_last_steps_says_so_and_pushes_no_slow_step_out() {
        let slow: Vec<_> = (100..115).map(|number| (number, 1.0)).collect();
        let mut steps = steps(4097, &slow);
        steps[RunStats::SUMMED_STEP].seconds = 0.0;
        let lines = lines(&steps);
        assert!(labels(&lines).contains(&"from 4,095") && labels(&lines).contains(&"114"), "{lines:?}");
    }

    #[test]
    fn share_of_the_link_is_the_rate_of_a_step_by_that_of_the_link() {
        let row = |columns| Line::sum("0", &[step(1, 0.001)]).row(columns);
        assert!(row(ON_A_GPU).ends_with("   8.00  16.0%"), "{}", row(ON_A_GPU));
        assert!(row(ON_THE_CPU).ends_with("   8.00"), "{}", row(ON_THE_CPU));
        assert!(row(NOT_PAGED).ends_with("    1.000 ms"), "{}", row(NOT_PAGED));
        for columns in [ON_A_GPU, ON_THE_CPU, NOT_PAGED] {
            assert_eq!(row(columns).len(), header(columns).len(), "columns stand under their names");
        }
        let no_time = Line::sum("0", &[step(1, 0.0)]).row(ON_A_GPU);
        assert!(no_time.ends_with("   0.00   0.0%"), "{no_time}");
    }

    #[test]
    fn time_outside_of_steps_is_told() {
        let mut sheet = Sheet::default();
        let stats = RunStats { steps: steps(2, &[]), seconds: 0.005 };
        describe_steps(&stats, NOT_PAGED, &mut sheet);
        assert!(
            sheet.0.ends_with("besides the steps, 3.000 ms for vertex state, launch and answer\n"),
            "{}",
            sheet.0
        );
        assert_eq!(sheet.0.lines().count(), 5);
    }
}
