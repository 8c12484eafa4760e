//! What can be wrong with a graph file: one enum, a variant for each thing that can fail.
//!
//! Messages name the file, the line where there is one, what was found, and what would do.

use std::fmt;
use std::io;
use std::path::PathBuf;

use bytesize::ByteSize;
use gpuvm_engine::GraphError;
use thiserror::Error;

/// A line of a text, as a message names it; nothing where a file has no lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place(pub Option<u64>);

impl From<u64> for Place {
    fn from(line: u64) -> Self {
        Self(Some(line))
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |line| write!(f, " line {line}:"))
    }
}

/// Why a graph could not be loaded or written.
#[derive(Debug, Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum LoadError {
    #[error("{path}: cannot be opened", path = path.display())]
    Open {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{path}: is a directory, name the file in it", path = path.display())]
    Directory { path: PathBuf },
    #[error("{path}: is empty", path = path.display())]
    Empty { path: PathBuf },
    #[error("{path}: cannot be read", path = path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{path}: damaged or cut short {what}, fetch the file again", path = path.display())]
    Unpack {
        path: PathBuf,
        what: &'static str,
        #[source]
        source: io::Error,
    },
    #[error(
        "{path}: {what} needs {} ({needed_bytes} bytes) of memory, {} ({available_bytes} bytes) are available",
        ByteSize::b(*needed_bytes), ByteSize::b(*available_bytes), path = path.display()
    )]
    OutOfMemory { path: PathBuf, what: &'static str, needed_bytes: u64, available_bytes: u64 },
    #[error("interrupted")]
    Interrupted,

    #[error("{path}: looks like an HTML page, not a graph: the download went wrong, fetch the file again",
        path = path.display())]
    HtmlPage { path: PathBuf },
    #[error(
        "{path}: is no graph file that can be told by its first bytes, \"{found}\"; name its format: --format {formats}",
        path = path.display()
    )]
    UnknownFormat { path: PathBuf, found: String, formats: String },
    #[error("{path}: is a {kind}, which is not read; {cure}", path = path.display())]
    ForeignFormat { path: PathBuf, kind: &'static str, cure: &'static str },
    #[error("{path}: is compressed by {compression}, unpack it first: {command}", path = path.display())]
    Compression { path: PathBuf, compression: &'static str, command: &'static str },
    #[error(
        "{path}: holds no file that is a graph by its name, nor NAME/NAME.mtx, as SuiteSparse packs a matrix; found {found}; \
         name the one: --member NAME",
        path = path.display()
    )]
    NoMatrixMember { path: PathBuf, found: String },
    #[error("{path}: holds no file \"{member}\", found {found}", path = path.display())]
    NoSuchMember { path: PathBuf, member: String, found: String },
    #[error("{path}: is no archive, --member {member} has no meaning", path = path.display())]
    MemberOfNothing { path: PathBuf, member: String },
    #[error(
        "{path}: holds several files that can be the graph, {first} and {second}; name the one: --member {second}",
        path = path.display()
    )]
    SeveralMatrices { path: PathBuf, first: String, second: String },

    #[error(
        "{path}: line 1: \"{found}\" is no Matrix Market banner; the file must begin like \
         \"%%MatrixMarket matrix coordinate real general\"",
        path = path.display()
    )]
    NoBanner { path: PathBuf, found: String },
    #[error("{path}: line {line}: the banner's {what} is \"{found}\", must be {allowed}", path = path.display())]
    BannerWord { path: PathBuf, line: u64, what: &'static str, found: String, allowed: &'static str },
    #[error("{path}: line {line}: size line \"{found}\", must be {expected}", path = path.display())]
    SizeLine { path: PathBuf, line: u64, found: String, expected: &'static str },
    #[error("{path}: no size line ({expected}) after the banner: line {line} is the last", path = path.display())]
    NoSizeLine { path: PathBuf, line: u64, expected: &'static str },
    #[error(
        "{path}:{line} {rows} rows and {columns} columns are {num_vertices} vertices, more than 32-bit ids \
         can name (4294967295)",
        path = path.display()
    )]
    TooManyVertices { path: PathBuf, line: Place, rows: u64, columns: u64, num_vertices: u64 },
    #[error(
        "{path}:{line} {rows} rows, {columns} columns: rows and columns are not the same vertices; use \
         --bipartite to make them two sets of vertices",
        path = path.display()
    )]
    NotSquare { path: PathBuf, line: Place, rows: u64, columns: u64 },
    #[error(
        "{path}: line {line}: {rows} rows, {columns} columns: a {symmetry} matrix must be square",
        path = path.display()
    )]
    SymmetricNotSquare { path: PathBuf, line: u64, rows: u64, columns: u64, symmetry: &'static str },
    #[error(
        "{path}:{line} the values are complex, which no edge can weigh; use --weights abs for their modulus, \
         or --weights unit",
        path = path.display()
    )]
    ComplexWeights { path: PathBuf, line: Place },
    #[error(
        "{path}: the size line (line {line}) promises {promised} entries, the file has {found}: it was cut short or \
         the size line is wrong",
        path = path.display()
    )]
    EntryCount { path: PathBuf, line: u64, promised: u64, found: u64 },

    #[error("{path}: line {line}: \"{found}\" ends before its {missing}; each line must be {expected}",
        path = path.display())]
    MissingNumber { path: PathBuf, line: u64, found: String, missing: &'static str, expected: &'static str },
    #[error("{path}: line {line}: \"{found}\" goes on after its last number; each line must be {expected}",
        path = path.display())]
    SurplusText { path: PathBuf, line: u64, found: String, expected: &'static str },
    #[error("{path}: line {line}: {what} \"{found}\" is not {expected}", path = path.display())]
    NotANumber { path: PathBuf, line: u64, what: &'static str, found: String, expected: &'static str },
    #[error("{path}: line {line}: {what} 0: ids start at 1 in Matrix Market files, add 1 to each", path = path.display())]
    IdZero { path: PathBuf, line: u64, what: &'static str },
    #[error("{path}: line {line}: {what} {id} is out of range, the size line says {most}", path = path.display())]
    IdOutOfRange { path: PathBuf, line: u64, what: &'static str, id: String, most: u64 },
    #[error(
        "{path}: line {line}: {what} {id} is more than 32-bit ids can name (4294967294); use --relabel to number the \
         ids in use from 0",
        path = path.display()
    )]
    IdTooLarge { path: PathBuf, line: u64, what: &'static str, id: String },
    #[error(
        "{path}: ids go up to {largest}, with {entries} edges: as they stand the graph has {num_vertices} vertices, most \
         of them without edges; use --relabel to number the ids in use from 0",
        path = path.display()
    )]
    SparseIds { path: PathBuf, largest: u64, entries: u64, num_vertices: u64 },
    #[error(
        "{path}: line {line}: which columns are source, target and weight? name them, or give their numbers from 1, as in \
         --columns 1,2,3; there are: {found}",
        path = path.display()
    )]
    ManyColumns { path: PathBuf, line: u64, found: String },
    #[error("{path}: there is no column \"{column}\" for --columns; there are: {found}", path = path.display())]
    NoColumn { path: PathBuf, column: String, found: String },
    #[error("--columns {asked}: name two columns, source and target, or three, the last being the weight")]
    ColumnsOption { asked: String },
    #[error("{path}: {option} is for {formats}, this file is {format}", path = path.display())]
    OptionFormat { path: PathBuf, option: &'static str, formats: &'static str, format: &'static str },
    #[error("{path}: the ids of this file are kept in memory: convert it without --mem", path = path.display())]
    IdsInMemory { path: PathBuf },
    #[error("{path}: line {line}: {what} {id} is too long for a 64-bit number", path = path.display())]
    IdTooLong { path: PathBuf, line: u64, what: &'static str, id: String },
    #[error("{path}: line {line}: {what} {id} is not among the vertices of the .v file", path = path.display())]
    UnknownVertex { path: PathBuf, line: u64, what: &'static str, id: String },
    #[error("{path}: line {line}: vertex {id} is there a second time", path = path.display())]
    VertexTwice { path: PathBuf, line: u64, id: String },
    #[error("{path}: line {line}: {what} 0: ids start at 1 in files of this format, add 1 to each", path = path.display())]
    ArcIdZero { path: PathBuf, line: u64, what: &'static str },
    #[error(
        "{path}: line {line}: \"{found}\" follows the last of {vertices} vertices, which the first line says there are",
        path = path.display()
    )]
    SurplusLine { path: PathBuf, line: u64, found: String, vertices: u64 },
    #[error(
        "{path}: line {line} promises {promised} edges, the lines below list {found} neighbours, which must be twice as many \
         as edges: the file was cut short or that line is wrong",
        path = path.display()
    )]
    NeighbourCount { path: PathBuf, line: u64, promised: u64, found: u64 },
    #[error(
        "{path}: {vertices} vertices and {edges} edges take {promised} words, the file has {found}: it was cut short or its \
         head is wrong",
        path = path.display()
    )]
    WordCount { path: PathBuf, vertices: u64, edges: u64, promised: u64, found: u64 },
    #[error(
        "{path}: line {line} promises {promised} columns and entries, which {bytes} bytes cannot hold: the file was cut short \
         or that line is wrong",
        path = path.display()
    )]
    FieldCount { path: PathBuf, line: u64, promised: u64, bytes: u64 },
    #[error("{path}: needs {promised} lines by its head, has {found}: it was cut short or its head is wrong",
        path = path.display())]
    CardCount { path: PathBuf, promised: u64, found: u64 },
    #[error(
        "{path}: type {kind}: an elemental (unassembled) matrix, whose entries are sums that nobody has added up yet; fetch \
         the assembled one",
        path = path.display()
    )]
    Elemental { path: PathBuf, kind: String },
    #[error("{path}: {reason}; it is not a whole {format} file, fetch or make it again", path = path.display())]
    Damaged { path: PathBuf, reason: String, format: &'static str },
    #[error("{path}: entry {entry} (from 0) has id {id}, which must be less than {most}", path = path.display())]
    BadEntry { path: PathBuf, entry: u64, id: u64, most: u64 },
    #[error(
        "{path}: entry {entry} (from 0) has value {value}, which is no finite number and cannot be a weight; use \
         --weights unit or --weights hash",
        path = path.display()
    )]
    BadValue { path: PathBuf, entry: u64, value: f64 },
    #[error("{path}: {missing} belongs to this file and is not there", path = path.display(), missing = missing.display())]
    MissingSibling { path: PathBuf, missing: PathBuf },
    #[error(
        "{path}: a MATLAB 7.3 file (HDF5), which is not read: save it with -v7, or fetch the matrix as Matrix Market",
        path = path.display()
    )]
    Matlab73 { path: PathBuf },
    #[error("{path}: has no sparse matrix, neither Problem.A nor another; its variables: {found}", path = path.display())]
    NoSparseVariable { path: PathBuf, found: String },
    #[error("{path}: has two sparse matrices, {first} and {second}; save the one alone", path = path.display())]
    SeveralVariables { path: PathBuf, first: String, second: String },
    #[error(
        "{path}: line {line}: the value \"{found}\" is no finite number and cannot be a weight; use --weights unit \
         or --weights hash",
        path = path.display()
    )]
    NotFinite { path: PathBuf, line: u64, found: String },
    #[error(
        "{path}: line {line}: the integer {found} is too large to be held exactly (beyond 2^53); use --weights unit \
         or --weights hash, or scale the values",
        path = path.display()
    )]
    TooLargeInteger { path: PathBuf, line: u64, found: String },
    #[error(
        "{path}: line {line}: entry \"{found}\" is on the diagonal, which is zero in a skew-symmetric matrix and \
         must not be stored",
        path = path.display()
    )]
    SkewDiagonal { path: PathBuf, line: u64, found: String },

    #[error("{path}: {reason}; it is not a whole .gvg file, convert the graph again", path = path.display())]
    DamagedGvg { path: PathBuf, reason: String },
    #[error("{path}: checksum of {section} does not match: the file is damaged, convert the graph again",
        path = path.display())]
    Checksum { path: PathBuf, section: String },
    #[error("{path}: .gvg version {version}, this program reads version {supported}; convert the graph again",
        path = path.display())]
    GvgVersion { path: PathBuf, version: u32, supported: u32 },
    #[error("{path}: .gvg files are little-endian and are mapped as they are, this machine is big-endian",
        path = path.display())]
    ByteOrder { path: PathBuf },
    #[error(
        "{path}: {option} changes the graph, which a .gvg file holds as it was converted: convert the original \
         again with {option}",
        path = path.display()
    )]
    GvgOption { path: PathBuf, option: &'static str },
    #[error("{path}: the rows cannot be put back into the order of their ids", path = path.display())]
    NaturalOrder {
        path: PathBuf,
        #[source]
        source: gpuvm_engine::Error,
    },
    #[error("{path}: breaks an invariant of the graph", path = path.display())]
    Graph {
        path: PathBuf,
        #[source]
        source: GraphError,
    },
    #[error(
        "{path}: {num_vertices} vertices, the GAP suite's .sg and .wsg files hold 2147483647 at most; write .gvg, .mtx or \
         .el instead",
        path = path.display()
    )]
    TooLargeForGap { path: PathBuf, num_vertices: u64 },
    #[error(
        "{path}: an edge weighs {weight}, the weights of a .wsg file are integers of 32 bits: write .mtx or .wel, or use \
         --weights unit or hash",
        path = path.display()
    )]
    NoGapWeight { path: PathBuf, weight: f64 },
    #[error(
        "{} ({bytes} bytes) of memory are too few to convert in, use {} ({least_bytes} bytes) or more, or fewer threads",
        ByteSize::b(*bytes), ByteSize::b(*least_bytes)
    )]
    BoundTooSmall { bytes: u64, least_bytes: u64 },
    #[error(
        "{folder}: sorting takes {} ({needed_bytes} bytes) of disk, {} ({available_bytes} bytes) are available: make room, \
         or name another folder with --temp-dir",
        ByteSize::b(*needed_bytes), ByteSize::b(*available_bytes), folder = folder.display()
    )]
    NoRoom { folder: PathBuf, needed_bytes: u64, available_bytes: u64 },
    #[error("{path}: cannot be written", path = path.display())]
    Write {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}
