//! The GAP generators against facts gathered from the original programs (`gap-generators.json`; its `about` says how
//! arrays are hashed).

use std::sync::LazyLock;

use gpuvm_datasets::{GapGenerator, GapRule, GapWeights, KnownGraph};
use gpuvm_engine::graph::{Csr, VertexId};
use serde_json::Value;
use sha2::{Digest, Sha256};

fn facts() -> Value {
    serde_json::from_str(include_str!("gap-generators.json")).expect("JSON")
}

/// Every generator with expected values, the values, and the graph it makes.
static GRAPHS: LazyLock<Vec<(GapGenerator, Value, Csr)>> = LazyLock::new(graphs);

fn graphs() -> Vec<(GapGenerator, Value, Csr)> {
    let facts = facts();
    let mut graphs = Vec::new();
    for rule in [GapRule::SuiteSparse, GapRule::Suite15] {
        for expected in facts[rule.name()]["graphs"].as_array().expect("graphs") {
            let name =
                format!("{}:{}:{rule}", expected["graph"].as_str().expect("a name"), expected["scale"]);
            let generator: GapGenerator = name.parse().expect("a generator");
            let csr = generator.generate(GapWeights::Gap, &()).expect("small");
            graphs.push((generator, expected.clone(), csr));
        }
    }
    assert_eq!(graphs.len(), 12);
    graphs
}

fn degrees(csr: &Csr) -> impl Iterator<Item = u64> {
    (0..csr.num_vertices() as VertexId).map(|u| csr.out_degree(u))
}

/// Hash of the elements' bytes.
fn sha256<const N: usize>(elements: impl Iterator<Item = [u8; N]>) -> String {
    let mut hash = Sha256::new();
    elements.for_each(|bytes| hash.update(bytes));
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn ids(list: &Value) -> Vec<VertexId> {
    list.as_array().expect("an array").iter().map(|id| id.as_u64().expect("an id") as VertexId).collect()
}

#[test]
fn arrays_are_bit_for_bit_those_of_the_suite() {
    for (generator, expected, csr) in GRAPHS.iter() {
        let expected = &expected["sha256"];
        let offsets = sha256(csr.row_offsets().iter().map(|offset| offset.to_le_bytes()));
        assert_eq!(offsets, expected["offsets_i64"], "{generator}");
        let neighbours = sha256(csr.column_indices().iter().map(|v| v.to_le_bytes()));
        assert_eq!(neighbours, expected["neighbours_i32"], "{generator}");
        let weights = sha256(csr.weights().as_bytes().iter().map(|&weight| u32::from(weight).to_le_bytes()));
        assert_eq!(weights, expected["weights_i32"], "{generator}");
        assert_eq!(
            sha256(degrees(csr).map(|d| (d as u32).to_le_bytes())),
            expected["degrees_i32"],
            "{generator}"
        );
    }
}

#[test]
fn counts_and_first_rows_are_those_of_the_suite() {
    for (generator, expected, csr) in GRAPHS.iter() {
        assert_eq!(csr.num_vertices(), expected["n"], "{generator}");
        assert_eq!(csr.num_edges(), expected["adjacency_entries"], "{generator}");
        assert_eq!(generator.num_generated_edges(), expected["generated_edges"], "{generator}");
        assert_eq!(
            csr.max_degree_vertex().map(u64::from),
            expected["max_degree_vertex"].as_u64(),
            "{generator}"
        );
        assert_eq!(degrees(csr).max(), expected["max_degree"].as_u64(), "{generator}");
        let num_isolated = degrees(csr).filter(|&d| d == 0).count();
        assert_eq!(num_isolated, expected["isolated_vertices_below_n"], "{generator}");
        for row in expected["first_10_adjacency"].as_array().expect("rows") {
            let u = row["v"].as_u64().expect("an id") as VertexId;
            let (neighbours, weights) = (ids(&row["first_neighbours"]), ids(&row["their_weights"]));
            let first: Vec<_> = csr.edges(u).take(neighbours.len()).collect();
            assert_eq!(csr.out_degree(u), row["degree"], "{generator}: vertex {u}");
            assert!(first.iter().map(|edge| edge.1).eq(neighbours), "{generator}: vertex {u}");
            assert!(first.iter().map(|edge| edge.2 as u32).eq(weights), "{generator}: vertex {u}");
        }
    }
}

#[test]
fn first_sources_are_those_that_the_suite_picks() {
    for (generator, expected, csr) in GRAPHS.iter() {
        let expected = ids(&expected["gap_source_picker_first_3"]);
        assert_eq!(generator.rule.sources(csr, 3), expected, "{generator}");
    }
}

/// 22 GB each at the end, 52 GB on the way. `cargo test --release -p gpuvm-datasets --test gap -- --ignored`
#[test]
#[ignore = "needs 64 GiB of memory"]
fn full_size_graphs_are_those_of_the_collection() {
    for (short_name, key) in [("GK", "kron"), ("GU", "urand")] {
        let expected = &facts()["full_scale"][key];
        let known = KnownGraph::find(short_name).expect("known");
        let generator = known.generator.expect("generated");
        let csr = generator.generate(GapWeights::Gap, &()).expect("enough memory");
        assert_eq!(csr.num_vertices(), known.num_vertices);
        assert_eq!(csr.num_edges(), known.num_edges);
        assert_eq!(csr.num_edges(), expected["adjacency_entries"]);
        assert_eq!(csr.max_degree_vertex().map(u64::from), expected["max_degree_vertex"].as_u64());
        assert_eq!(degrees(&csr).max(), expected["max_degree"].as_u64());
        assert_eq!(degrees(&csr).filter(|&d| d == 0).count(), expected["isolated_vertices_below_n"]);
        let first_degrees: Vec<_> = degrees(&csr).take(16).map(|d| d as VertexId).collect();
        assert_eq!(first_degrees, ids(&expected["degrees_of_first_16_vertices"]));
        assert_eq!(generator.rule.sources(&csr, 4), ids(&expected["sources_picked_first_4"]));
    }
}
