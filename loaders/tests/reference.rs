//! Random small matrices against an obvious reader: entries in a map, one at a time.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use gpuvm_loaders::{LoadOptions, WeightRule, load_bytes};
use proptest::prelude::*;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Symmetry {
    General,
    Symmetric,
    Skew,
}

#[derive(Clone, Debug)]
struct Matrix {
    rows: u32,
    columns: u32,
    symmetry: Symmetry,
    /// Ids from 0, values in quarters.
    entries: Vec<(u32, u32, i32)>,
}

fn matrices() -> impl Strategy<Value = Matrix> {
    let symmetry = prop_oneof![Just(Symmetry::General), Just(Symmetry::Symmetric), Just(Symmetry::Skew)];
    (1..20_u32, 1..20_u32, symmetry, 0..3_usize).prop_flat_map(|(rows, columns, symmetry, kind)| {
        let columns = if symmetry == Symmetry::General { columns } else { rows };
        let values = [0..=255, -1000..=1000, 0..=4_000_000][kind].clone();
        let entry = (0..rows, 0..columns, values).prop_map(move |(i, j, value)| {
            let zero = symmetry == Symmetry::Skew && i == j;
            (i, j, if zero { 0 } else { value })
        });
        prop::collection::vec(entry, 0..200).prop_map(move |entries| Matrix {
            rows,
            columns,
            symmetry,
            entries,
        })
    })
}

fn text(matrix: &Matrix) -> String {
    let symmetry = match matrix.symmetry {
        Symmetry::General => "general",
        Symmetry::Symmetric => "symmetric",
        Symmetry::Skew => "skew-symmetric",
    };
    let (rows, columns, entries) = (matrix.rows, matrix.columns, matrix.entries.len());
    let mut text = format!("%%MatrixMarket matrix coordinate real {symmetry}\n{rows} {columns} {entries}\n");
    for &(i, j, quarters) in &matrix.entries {
        writeln!(text, "{} {} {}", i + 1, j + 1, f64::from(quarters) / 4.0).expect("to memory");
    }
    text
}

/// Every edge with its weights, smallest first.
fn expected(matrix: &Matrix, options: &LoadOptions) -> BTreeMap<(u32, u32), Vec<i32>> {
    let mut edges: BTreeMap<(u32, u32), Vec<i32>> = BTreeMap::new();
    let shift = if options.bipartite { matrix.rows } else { 0 };
    let mut add = |u: u32, v: u32, weight: i32| {
        if u != v || options.keep_loops {
            edges.entry((u, v)).or_default().push(weight);
        }
    };
    for &(i, j, value) in &matrix.entries {
        let absolute = options.weights == WeightRule::Abs;
        let value = if absolute { value.abs() } else { value };
        let mirrored = if matrix.symmetry == Symmetry::Skew && !absolute { -value } else { value };
        let mirror = matrix.symmetry != Symmetry::General && i != j;
        if !options.bipartite && options.symmetrize {
            // An undirected edge has one weight, the smaller of its two.
            let weight = if mirror { value.min(mirrored) } else { value };
            add(i, j, weight);
            if i != j {
                add(j, i, weight);
            }
            continue;
        }
        add(i, j + shift, value);
        if mirror {
            add(j, i + shift, mirrored);
        }
        if options.symmetrize {
            add(j + shift, i, value);
            if mirror {
                add(i + shift, j, mirrored);
            }
        }
    }
    for weights in edges.values_mut() {
        weights.sort_unstable();
        if !options.keep_duplicates {
            weights.truncate(1);
        }
    }
    edges
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn graph_is_that_of_the_obvious_reader(
        matrix in matrices(),
        absolute: bool,
        bipartite: bool,
        symmetrize: bool,
        keep_duplicates: bool,
        keep_loops: bool,
    ) {
        let options = LoadOptions {
            weights: if absolute { WeightRule::Abs } else { WeightRule::File },
            bipartite: bipartite || matrix.rows != matrix.columns,
            symmetrize,
            keep_duplicates,
            keep_loops,
            ..LoadOptions::default()
        };
        let graph = load_bytes(Path::new("a.mtx"), text(&matrix).as_bytes(), &options).expect("loads");
        let found: Vec<(u32, u32, f64)> = (0..graph.csr.num_vertices() as u32)
            .flat_map(|u| graph.csr.edges(u).map(move |(_, v, weight)| (u, v, weight)))
            .collect();
        let expected = expected(&matrix, &options);
        let expected: Vec<(u32, u32, f64)> = expected
            .iter()
            .flat_map(|(&(u, v), weights)| weights.iter().map(move |&w| (u, v, f64::from(w) / 4.0)))
            .collect();
        prop_assert_eq!(&found, &expected);
        if graph.csr.is_symmetric() {
            let mut reversed: Vec<_> = found.iter().map(|&(u, v, weight)| (v, u, weight)).collect();
            reversed.sort_by(|a, b| a.partial_cmp(b).expect("no weight is not a number"));
            prop_assert_eq!(reversed, found);
        }
    }
}
