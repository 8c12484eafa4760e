//! Parquet tables of edges, written by the crate that reads them; run with `--features parquet`.
#![cfg(feature = "parquet")]

use std::path::Path;
use std::sync::Arc;

use gpuvm_engine::graph::{WeightType, Weights};
use gpuvm_loaders::{LoadOptions, load_bytes};
use parquet::data_type::{DoubleType, Int32Type, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;

/// Two row groups: 0 -> 1 (2.5), 1 -> 2 (0.5) and 2 -> 0 (4), again 0 -> 1 (1.5).
fn table(source: &str, target: &str) -> Vec<u8> {
    let schema = format!(
        "message edges {{ required int64 {source}; required int32 {target}; required double weight; }}"
    );
    let schema = Arc::new(parse_message_type(&schema).expect("a schema"));
    let mut bytes = Vec::new();
    let properties = Arc::new(WriterProperties::builder().build());
    let mut writer = SerializedFileWriter::new(&mut bytes, schema, properties).expect("a table");
    for (sources, targets, weights) in [([0_i64, 1], [1_i32, 2], [2.5, 0.5]), ([2, 0], [0, 1], [4.0, 1.5])] {
        let mut group = writer.next_row_group().expect("a group");
        let mut column = group.next_column().expect("no failure").expect("sources");
        column.typed::<Int64Type>().write_batch(&sources, None, None).expect("written");
        column.close().expect("closed");
        let mut column = group.next_column().expect("no failure").expect("targets");
        column.typed::<Int32Type>().write_batch(&targets, None, None).expect("written");
        column.close().expect("closed");
        let mut column = group.next_column().expect("no failure").expect("weights");
        column.typed::<DoubleType>().write_batch(&weights, None, None).expect("written");
        column.close().expect("closed");
        group.close().expect("closed");
    }
    writer.close().expect("closed");
    bytes
}

fn name() -> &'static Path {
    "edges.parquet".as_ref()
}

#[test]
fn rows_of_all_groups_are_edges_and_of_duplicates_the_smallest_weight_stays() {
    let graph = load_bytes(name(), &table("src", "dst"), &LoadOptions::default()).expect("loads");
    assert_eq!(graph.csr.row_offsets().as_slice(), [0, 1, 2, 3]);
    assert_eq!(graph.csr.column_indices().as_slice(), [1, 2, 0]);
    assert_eq!(graph.csr.weights().weight_type(), WeightType::F32);
    let Weights::F32(weights) = graph.csr.weights() else { panic!("another type") };
    assert_eq!(weights.as_slice(), [1.5, 0.5, 4.0]);
    assert_eq!((graph.summary.stored_entries, graph.summary.duplicates), (4, 1));
}

#[test]
fn columns_of_other_names_are_taken_in_their_order_or_as_they_are_named() {
    let bytes = table("caller", "callee");
    let graph = load_bytes(name(), &bytes, &LoadOptions::default()).expect("loads");
    assert_eq!(graph.csr.column_indices().as_slice(), [1, 2, 0]);
    let columns = Some("callee,caller,weight".to_owned());
    let options = LoadOptions { columns, ..LoadOptions::default() };
    let graph = load_bytes(name(), &bytes, &options).expect("loads");
    assert_eq!(graph.csr.column_indices().as_slice(), [2, 0, 1]);
}

#[test]
fn table_cut_anywhere_or_with_a_byte_changed_loads_or_is_refused_and_never_panics() {
    let whole = table("src", "dst");
    for end in 0..whole.len() {
        load_bytes(name(), &whole[..end], &LoadOptions::default()).expect_err("half a table");
    }
    for at in 0..whole.len() {
        for flipped in [1, 0x80, 0xFF] {
            let mut bytes = whole.clone();
            bytes[at] ^= flipped;
            let _ = load_bytes(name(), &bytes, &LoadOptions::default());
        }
    }
}
