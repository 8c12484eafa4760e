#!/usr/bin/env python3
"""Writes expected-pagerank.json: what PageRank must find in the graphs of this folder.

    python3 datasets/graphs/expected_page_rank.py [FOLDER_WITH_MORE_GRAPHS]

Needs numpy, scipy and networkx; made with numpy 2.4.6, scipy 1.17.1 and networkx 3.6.1. Ranks are the solution of the
linear system (scipy's sparse LU), damping 0.85, what vertices without outgoing edges hand on spread evenly, weights
ignored; networkx, by power iteration, must agree to 1e-9. For each graph and view (see README.md):

* `sum_of_squares`, `mixed`: the sums of rank^2 and of rank(v) * ((v * 2654435761) mod 2^32) / 2^32;
* `largest`: the vertex of largest rank, of several (within 1e-12) the smallest, and its rank;
* `sample`: the ranks of 8 vertices spread over all, or of all where there are fewer than 40.
"""
import gzip
import io
import json
import pathlib
import sys
import tarfile

import networkx
import numpy
import scipy.io
import scipy.sparse
import scipy.sparse.linalg

DAMPING = 0.85
HERE = pathlib.Path(__file__).parent


def matrix_of(path):
    """The entries of a Matrix Market file, wherever it is packed, or None."""
    if path.name.endswith(".tar.gz"):
        stem = path.name[: -len(".tar.gz")]
        with tarfile.open(path) as archive:
            members = [m for m in archive.getmembers() if m.name.endswith(f"/{stem}.mtx")]
            if len(members) != 1:
                return None
            text = archive.extractfile(members[0]).read()
    elif path.name.endswith(".gz"):
        text = gzip.open(path).read()
    else:
        text = path.read_bytes()
    return scipy.sparse.coo_matrix(scipy.io.mmread(io.BytesIO(text)))


def adjacency(matrix, undirected):
    """1 where there is an edge, stored zeros among them; no loops, nothing twice."""
    rows, columns = matrix.row.astype(numpy.int64), matrix.col.astype(numpy.int64)
    n, m = matrix.shape
    if n != m:
        columns, n = columns + n, n + m
    if undirected:
        rows, columns = numpy.concatenate([rows, columns]), numpy.concatenate([columns, rows])
    edges = numpy.unique(numpy.stack([rows, columns], axis=1)[rows != columns], axis=0)
    return scipy.sparse.csr_matrix((numpy.ones(len(edges)), (edges[:, 0], edges[:, 1])), shape=(n, n))


def ranks_of(a):
    n = a.shape[0]
    degrees = numpy.asarray(a.sum(axis=1)).ravel()
    share = numpy.divide(1.0, degrees, out=numpy.zeros(n), where=degrees > 0)
    # x = d (A^T D^-1 + 1/n 1 dangling^T) x + (1 - d)/n 1. Without the dense part, (I - d A^T D^-1) y = 1; x is y scaled
    # to a sum of 1, since all that is spread evenly is a multiple of 1.
    system = scipy.sparse.identity(n) - DAMPING * (a.T @ scipy.sparse.diags(share))
    if a.nnz > 50_000:  # LU would fill up
        y = numpy.ones(n)
        for _ in range(400):
            y = 1 + DAMPING * (a.T @ (share * y))
    else:
        y = scipy.sparse.linalg.spsolve(system.tocsc(), numpy.ones(n))
    return y / y.sum()


def main():
    found = {}
    for folder in [HERE] + [pathlib.Path(f) for f in sys.argv[1:]]:
        for expected in sorted((folder / "expected").glob("*.json")):
            about = json.loads(expected.read_text())
            if not isinstance(about, dict) or "Matrix Market" not in about.get("format", "") or "directed" not in about:
                continue
            name = about["file"]
            if folder != HERE and not name.startswith("derived/"):
                continue
            matrix = matrix_of(folder / name)
            if matrix is None:
                continue
            views = {}
            for view in ["directed", "undirected"]:
                a = adjacency(matrix, view == "undirected")
                assert a.nnz == about[view + "_edges"] * (2 if view == "undirected" else 1), (name, view, a.nnz)
                ranks = ranks_of(a)
                other = networkx.pagerank(
                    networkx.from_scipy_sparse_array(a, create_using=networkx.DiGraph),
                    alpha=DAMPING, tol=1e-11 / a.shape[0], max_iter=2000, weight=None)
                other = numpy.array([other[v] for v in range(len(ranks))])
                assert abs(ranks - other).sum() < 1e-9, (name, view, abs(ranks - other).sum())
                n = len(ranks)
                v = numpy.arange(n, dtype=numpy.uint64)
                mixed = (v * numpy.uint64(2654435761) % numpy.uint64(1 << 32)).astype(float) / 2.0**32
                largest = int(numpy.flatnonzero(ranks >= ranks.max() - 1e-12)[0])
                sample = range(n) if n < 40 else [i * (n - 1) // 7 for i in range(8)]
                views[view] = {
                    "sum_of_squares": float((ranks * ranks).sum()),
                    "mixed": float((ranks * mixed).sum()),
                    "largest": [largest, float(ranks[largest])],
                    "sample": [[i, float(ranks[i])] for i in sample],
                }
            found[name] = views
            print(name, views["directed"]["largest"], file=sys.stderr)
    text = ",\n".join(f" {json.dumps(name)}: {json.dumps(views)}" for name, views in found.items())
    (HERE / "expected-pagerank.json").write_text("{\n" + text + "\n}\n")


if __name__ == "__main__":
    main()
