//! The program, over the devices.

use crate::nics_or_skip;
use crate::program::{Folder, assert_mentions};

#[test]
fn program_runs_over_the_devices_that_it_is_given_and_shows_what_each_did() {
    let names = nics_or_skip!("program_runs_over_the_devices_that_it_is_given_and_shows_what_each_did");
    let graph = crate::expected::graphs()
        .into_iter()
        .find(|graph| graph.name.ends_with("jagmesh7.mtx"))
        .expect("a graph of the repository");
    let (path, nics) = (graph.path.display(), names.join(","));
    let folder = Folder::new();
    let line =
        format!("bfs --graph {path} --source 0 --page-size 4K --transport rdma --nics {nics} --verify");
    let text = folder.done(&line);
    assert_mentions(&text, &["transport rdma", "verified   yes, no difference"]);
    names.iter().for_each(|name| assert_mentions(&text, &[name]));

    let json = folder.json(&line);
    let nics = json["runs"][0]["nics"].as_array().expect("an entry a device");
    assert_eq!(nics.iter().map(|nic| nic["name"].as_str().expect("a name")).collect::<Vec<_>>(), names);
    let bytes: u64 = nics.iter().map(|nic| nic["bytes"].as_u64().expect("a number")).sum();
    // The graph has 7450 entries, of 4 bytes.
    assert!(bytes > 0 && bytes <= 7450 * 4, "{bytes}");

    let message = folder.refused(&format!("bfs --graph {path} --transport rdma --nics mlx9_9"));
    assert_mentions(&message, &["there is no RDMA device mlx9_9: there are", &names[0]]);
}

#[test]
fn doctor_lists_the_devices_with_their_ports() {
    let names = nics_or_skip!("doctor_lists_the_devices_with_their_ports");
    let text = Folder::new().done("doctor --device cpu");
    for name in names {
        let line =
            text.lines().find(|line| line.contains(&format!("{name}: "))).unwrap_or_else(|| panic!("{text}"));
        assert_mentions(line, &["port 1 ACTIVE", "dma-buf: "]);
    }
}
