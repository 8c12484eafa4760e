//! Header and table of a graph file: numbers to bytes, and back with every check.

use std::ops::Range;
use std::path::Path;

use gpuvm_engine::graph::{MAX_VERTICES, WeightType};

use crate::error::LoadError;
use crate::summary::LoadSummary;

pub(super) const MAGIC: [u8; 8] = *b"\x89GVG\r\n\x1a\n";
pub(super) const VERSION: u32 = 1;
pub(super) const BYTE_ORDER_MARK: u32 = 0x0102_0304;
pub(super) const HEADER_BYTES: usize = 256;
pub(super) const ENTRY_BYTES: usize = 40;
pub(super) const CHECKSUM: Range<usize> = 16..20;
pub(super) const ALIGNMENT: u64 = 2 << 20;
pub(super) const MAX_SECTIONS: u32 = 64;

pub(super) const SYMMETRIC: u32 = 1 << 0;
pub(super) const BIPARTITE: u32 = 1 << 1;
pub(super) const SYMMETRIZED: u32 = 1 << 2;
pub(super) const DUPLICATES_KEPT: u32 = 1 << 3;
pub(super) const LOOPS_KEPT: u32 = 1 << 4;
pub(super) const ALL_FLAGS: u32 = SYMMETRIC | BIPARTITE | SYMMETRIZED | DUPLICATES_KEPT | LOOPS_KEPT;

/// The stored numbers of the weight types.
pub(super) const WEIGHT_TYPES: [WeightType; 7] = [
    WeightType::Unit,
    WeightType::Hash,
    WeightType::U8,
    WeightType::U16,
    WeightType::U32,
    WeightType::F32,
    WeightType::F64,
];

/// A line of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Section {
    pub name: String,
    pub offset: u64,
    pub bytes: u64,
    pub checksum: u32,
}

impl Section {
    pub(super) fn range(&self) -> Range<usize> {
        self.offset as usize..(self.offset + self.bytes) as usize
    }
}

/// Header and table, as numbers.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Head {
    pub flags: u32,
    pub weight_type: WeightType,
    pub file_bytes: u64,
    pub num_vertices: u64,
    pub num_edges: u64,
    pub summary: LoadSummary,
    pub sections: Vec<Section>,
}

/// Writes fields one after the other.
struct Fields(Vec<u8>);

impl Fields {
    fn u32(&mut self, value: u32) {
        self.0.extend(value.to_le_bytes());
    }
    fn u64(&mut self, value: u64) {
        self.0.extend(value.to_le_bytes());
    }
    /// Text, cut at `len` bytes between two characters, filled with zeros.
    fn text(&mut self, text: &str, len: usize) {
        let end = self.0.len() + len;
        let fits = (0..=len.min(text.len())).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
        self.0.extend(&text.as_bytes()[..fits]);
        self.0.resize(end, 0);
    }
}

/// Reads fields one after the other; all zeros past the end, which is checked before.
struct Parse<'a>(&'a [u8]);

impl Parse<'_> {
    fn bytes<const N: usize>(&mut self) -> [u8; N] {
        let (field, rest) = self.0.split_first_chunk::<N>().map_or(([0; N], &[][..]), |(f, r)| (*f, r));
        self.0 = rest;
        field
    }
    fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.bytes())
    }
    fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.bytes())
    }
    /// Text up to its zeros; `None` if it is no text or something follows the zeros.
    fn text<const N: usize>(&mut self) -> Option<String> {
        let field = self.bytes::<N>();
        let len = field.iter().position(|&b| b == 0).unwrap_or(N);
        let text = std::str::from_utf8(&field[..len]).ok()?;
        field[len..].iter().all(|&b| b == 0).then(|| text.to_owned())
    }
}

/// CRC-32C of header and table with the field of the checksum itself taken as zero.
fn head_checksum(head: &[u8]) -> u32 {
    let (before, after) = (&head[..CHECKSUM.start], &head[CHECKSUM.end..]);
    crc32c::crc32c_append(crc32c::crc32c_append(crc32c::crc32c(before), &[0; 4]), after)
}

impl Head {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut f = Fields(Vec::with_capacity(HEADER_BYTES + self.sections.len() * ENTRY_BYTES));
        let s = &self.summary;
        f.0.extend(MAGIC);
        f.u32(VERSION);
        f.u32(BYTE_ORDER_MARK);
        f.u32(0);
        f.u32(self.flags);
        f.u32(4);
        f.u32(WEIGHT_TYPES.iter().position(|&t| t == self.weight_type).unwrap_or(0) as u32);
        f.u32(self.sections.len() as u32);
        f.u32(0);
        f.u64(self.file_bytes);
        f.u64(self.num_vertices);
        f.u64(self.num_edges);
        for count in [
            s.rows,
            s.columns,
            s.stored_entries,
            s.expanded_entries,
            s.self_loops,
            s.duplicates,
            s.explicit_zeros,
            s.negative_weights,
            s.non_finite,
        ] {
            f.u64(count);
        }
        f.text(&s.field, 16);
        f.text(&s.symmetry, 24);
        f.text(s.converted_from.as_ref().unwrap_or(&s.format), 64);
        f.u64(s.dropped_zeros);
        f.u64(0);
        for section in &self.sections {
            f.text(&section.name, 16);
            f.u64(section.offset);
            f.u64(section.bytes);
            f.u32(section.checksum);
            f.u32(0);
        }
        let checksum = head_checksum(&f.0);
        f.0[CHECKSUM].copy_from_slice(&checksum.to_le_bytes());
        f.0
    }

    /// Reads header and table and checks all that they say against each other and against `file_bytes`.
    pub(super) fn decode(bytes: &[u8], path: &Path) -> Result<Self, LoadError> {
        let damaged = |reason: String| LoadError::DamagedGvg { path: path.to_owned(), reason };
        let cut = || damaged(format!("the file ends after {} bytes, inside its header", bytes.len()));
        let header = bytes.get(..HEADER_BYTES).ok_or_else(cut)?;
        let mut p = Parse(header);
        if p.bytes() != MAGIC {
            return Err(damaged("the magic is wrong, as after a transfer as text".to_owned()));
        }
        let version = p.u32();
        if p.u32() != BYTE_ORDER_MARK {
            return Err(damaged("the byte order mark is wrong".to_owned()));
        }
        if version != VERSION {
            return Err(LoadError::GvgVersion { path: path.to_owned(), version, supported: VERSION });
        }
        let checksum = p.u32();
        let (flags, id_bytes, weight_type, num_sections) = (p.u32(), p.u32(), p.u32(), p.u32());
        if num_sections > MAX_SECTIONS {
            return Err(damaged(format!(
                "the header counts {num_sections} sections, more than {MAX_SECTIONS}"
            )));
        }
        let head = bytes.get(..HEADER_BYTES + num_sections as usize * ENTRY_BYTES).ok_or_else(cut)?;
        if head_checksum(head) != checksum {
            return Err(LoadError::Checksum { path: path.to_owned(), section: "the header".to_owned() });
        }
        // From here on a difference is a writer's error, not damage; the file is refused all the same.
        let reserved = p.u32();
        let (file_bytes, num_vertices, num_edges) = (p.u64(), p.u64(), p.u64());
        let summary = LoadSummary {
            format: "gvg".to_owned(),
            rows: p.u64(),
            columns: p.u64(),
            stored_entries: p.u64(),
            expanded_entries: p.u64(),
            self_loops: p.u64(),
            duplicates: p.u64(),
            explicit_zeros: p.u64(),
            negative_weights: p.u64(),
            non_finite: p.u64(),
            field: p.text::<16>().ok_or_else(|| damaged("the field is no text".to_owned()))?,
            symmetry: p.text::<24>().ok_or_else(|| damaged("the symmetry is no text".to_owned()))?,
            converted_from: Some(p.text::<64>().ok_or_else(|| damaged("the format is no text".to_owned()))?),
            dropped_zeros: p.u64(),
            bipartite: flags & BIPARTITE != 0,
            symmetrized: flags & SYMMETRIZED != 0,
            duplicates_kept: flags & DUPLICATES_KEPT != 0,
            loops_kept: flags & LOOPS_KEPT != 0,
            ..LoadSummary::default()
        };
        if reserved != 0 || p.u64() != 0 || flags & !ALL_FLAGS != 0 {
            return Err(damaged("reserved bytes of the header are not zero".to_owned()));
        }
        if id_bytes != 4 || num_vertices > MAX_VERTICES {
            return Err(damaged(format!(
                "{num_vertices} vertices with ids of {id_bytes} bytes are not readable"
            )));
        }
        let &weight_type = WEIGHT_TYPES
            .get(weight_type as usize)
            .ok_or_else(|| damaged(format!("weight type {weight_type} is not known")))?;
        let sections = Self::decode_table(&head[HEADER_BYTES..], path)?;
        let end = sections.last().map_or(head.len() as u64, |last| last.offset + last.bytes);
        if end != file_bytes || file_bytes != bytes.len() as u64 {
            return Err(damaged(format!(
                "the file has {} bytes, its header says {file_bytes} and its sections end at {end}",
                bytes.len()
            )));
        }
        Ok(Self { flags, weight_type, file_bytes, num_vertices, num_edges, summary, sections })
    }

    /// Sections are in the order of the file, each at the next multiple of the alignment.
    fn decode_table(table: &[u8], path: &Path) -> Result<Vec<Section>, LoadError> {
        let damaged = |reason: String| LoadError::DamagedGvg { path: path.to_owned(), reason };
        let mut sections: Vec<Section> = Vec::new();
        let mut end = (HEADER_BYTES + table.len()) as u64;
        for entry in table.chunks_exact(ENTRY_BYTES) {
            let mut p = Parse(entry);
            let name =
                p.text::<16>().ok_or_else(|| damaged("the name of a section is no text".to_owned()))?;
            let section = Section { name, offset: p.u64(), bytes: p.u64(), checksum: p.u32() };
            let expected = end.checked_next_multiple_of(ALIGNMENT);
            let section_end = section.offset.checked_add(section.bytes);
            let name = &section.name;
            if expected != Some(section.offset) || p.u32() != 0 {
                return Err(damaged(format!(
                    "section {name} begins at {}, not where it must",
                    section.offset
                )));
            }
            end = section_end.ok_or_else(|| damaged(format!("section {name} is longer than any file")))?;
            if sections.iter().any(|other| other.name == *name) {
                return Err(damaged(format!("section {name} is there twice")));
            }
            sections.push(section);
        }
        Ok(sections)
    }

    /// The section `name`, which must hold `count` elements of `size` bytes.
    pub(super) fn section(
        &self,
        name: &str,
        count: u64,
        size: u32,
        path: &Path,
    ) -> Result<&Section, LoadError> {
        let damaged = |reason: String| LoadError::DamagedGvg { path: path.to_owned(), reason };
        let section = self
            .sections
            .iter()
            .find(|section| section.name == name)
            .ok_or_else(|| damaged(format!("section {name} is missing")))?;
        if count.checked_mul(size.into()) != Some(section.bytes) {
            return Err(damaged(format!(
                "section {name} has {} bytes, {count} elements of {size} bytes were expected",
                section.bytes
            )));
        }
        Ok(section)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head() -> Head {
        let sections = [("row_offsets", 2 << 20, 32), ("column_indices", 4 << 20, 8)]
            .map(|(name, offset, bytes)| Section { name: name.to_owned(), offset, bytes, checksum: 7 });
        let summary = LoadSummary {
            format: "gvg".to_owned(),
            converted_from: Some("Matrix Market coordinate".to_owned()),
            field: "pattern".to_owned(),
            symmetry: "general".to_owned(),
            rows: 3,
            columns: 3,
            stored_entries: 2,
            ..LoadSummary::default()
        };
        Head {
            flags: 0,
            weight_type: WeightType::Unit,
            file_bytes: (4 << 20) + 8,
            num_vertices: 3,
            num_edges: 2,
            summary,
            sections: sections.into(),
        }
    }

    #[test]
    fn header_is_laid_out_as_documented() {
        let bytes = head().encode();
        assert_eq!(bytes.len(), HEADER_BYTES + 2 * ENTRY_BYTES);
        assert_eq!(bytes[..16], *b"\x89GVG\r\n\x1a\n\x01\0\0\0\x04\x03\x02\x01");
        assert_eq!(
            bytes[40..64],
            [[8, 0, 0x40, 0, 0, 0, 0, 0], [3, 0, 0, 0, 0, 0, 0, 0], [2, 0, 0, 0, 0, 0, 0, 0]].concat()
        );
        assert_eq!(bytes[136..143], *b"pattern");
        assert_eq!(bytes[152..159], *b"general");
        assert_eq!(bytes[176..200], *b"Matrix Market coordinate");
        assert_eq!(bytes[256..267], *b"row_offsets");
        assert_eq!(bytes[296..310], *b"column_indices");
        assert_eq!(bytes[312..320], (4_u64 << 20).to_le_bytes());
    }

    #[test]
    fn header_is_read_back_as_it_was_written() {
        let head = head();
        let mut bytes = head.encode();
        bytes.resize(head.file_bytes as usize, 0);
        assert_eq!(Head::decode(&bytes, Path::new("x")).expect("whole"), head);
    }
}
