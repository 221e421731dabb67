//! The inner loop of Cutwater's bulk restore: from the records of a batch to the newest row per key, in order.
//!
//! It is optional, and knows as little as it can. What a changelog is, `cutwater.views.bulk.newest_rows` says: `Gathered`
//! is the reference, and `cutwater.views.bulk.newest_rows_native` stands between it and this. Here are plain rows only. A
//! piece of the log with anything else in it (a tombstone, another writer or schema, a long key, a zero byte,
//! text that is not UTF-8, damage) is left alone, for the reference to take or to refuse; what it takes comes back
//! by `put`. Where rows lie in the store is asked of Python, too, once per window. So each rule stands in one place.
//!
//! No byte of a record is trusted, and nothing here is `unsafe`: what does not fit is an answer, never a panic.

mod held;
mod section;

use held::Held;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use section::{Record, Section};
use std::collections::HashMap;
use xxhash_rust::xxh64::xxh64;

/// Avro's marker and fingerprint.
const HEADER_BYTES: usize = 10;
const TEXT_AT: usize = HEADER_BYTES + 1;
/// Confluent's marker and number.
const CONFLUENT_BYTES: usize = 5;
const WRITER: &[u8] = b"writer";
/// Spark's, of a row's digest.
const SEED: u64 = 42;
const WINDOWS_MAX: usize = 100_000;

/// What stands before and behind a key's text in the store; None: rows of the window are not kept.
type Parts = Option<(Vec<u8>, Vec<u8>)>;

/// Epoch and attempt of whoever wrote a row: it grows with who writes later.
type When = (u64, u64);

#[pyclass]
struct Rows {
    key_header: Vec<u8>,
    value_header: Vec<u8>,
    own: Vec<u8>,
    /// What `own` begins with: the generation.
    generation: Vec<u8>,
    last: When,
    held: Held,
    /// By what a key ends with: its place in `parts`.
    windows: HashMap<Vec<u8>, usize>,
    parts: Vec<Parts>,
    /// Of plain rows, as `Gathered` counts them.
    #[pyo3(get)]
    rows: u64,
    #[pyo3(get)]
    digest: u64,
    #[pyo3(get)]
    records: u64,
    #[pyo3(get)]
    size: u64,
}

#[pymethods]
impl Rows {
    /// `own`: the header of the rows that are counted; all others are of that generation, and of nobody later.
    /// `rows_max`, `bytes_max`: it is full where, without older rows of the same keys, half of so much is held.
    #[new]
    fn new(
        key_header: Vec<u8>,
        value_header: Vec<u8>,
        own: Vec<u8>,
        rows_max: usize,
        bytes_max: usize,
    ) -> PyResult<Self> {
        if key_header.len() != HEADER_BYTES || value_header.len() != HEADER_BYTES {
            return Err(PyValueError::new_err("a header has ten bytes"));
        }
        let length = own.iter().position(|byte| *byte == b'/').map_or(0, |at| at + 1);
        let generation = own[..length].to_vec();
        let last = when(&own[length..]).ok_or_else(|| PyValueError::new_err("no header of a row"))?;
        let held = Held::new(rows_max, bytes_max);
        let (windows, parts) = (HashMap::new(), Vec::new());
        let (rows, digest, records, size) = (0, 0, 0, 0);
        Ok(Rows { key_header, value_header, own, generation, last, held, windows, parts, rows, digest, records, size })
    }

    /// Takes the rows of batches, of offsets in [first, end), where all are plain; else False, and nothing is taken.
    ///
    /// A batch is its first offset, how many records it has, and these, decompressed. `windows`: a mapping from
    /// what a key ends with to a pair of bytes or None; a key is not plain where it raises.
    fn take(
        &mut self,
        batches: Vec<(i64, u32, Bound<'_, PyBytes>)>,
        first: i64,
        end: i64,
        windows: &Bound<'_, PyAny>,
    ) -> PyResult<bool> {
        if self.windows.len() > WINDOWS_MAX {
            self.windows.clear();
            self.parts.clear();
        }
        let mut found = Vec::new();
        for (base, count, section) in &batches {
            let mut section = Section(section.as_bytes());
            for _ in 0..*count {
                let Some(record) = section.record() else { return Ok(false) };
                let Some(offset) = base.checked_add(record.offset_delta.into()) else { return Ok(false) };
                if offset < first || end <= offset {
                    continue;
                }
                let Some((text, window)) = self.plain(&record) else { return Ok(false) };
                let Ok(place) = self.place(window, windows) else { return Ok(false) };
                found.push((record, text, place));
            }
            if !section.0.is_empty() {
                return Ok(false);
            }
        }
        for (record, text, place) in &found {
            self.records += 1;
            self.size += (record.key.len() + record.value.len()) as u64;
            if record.header_value == self.own {
                self.rows += 1;
                self.digest ^= xxh64(record.value, xxh64(record.key, SEED));
            }
            if let Some((before, behind)) = &self.parts[*place] {
                self.held.push(&[before, text, behind], record.value).ok_or_else(too_large)?;
            }
        }
        Ok(true)
    }

    /// One row that the reference has taken, by its storage key. ValueError where it is too large for any store.
    fn put(&mut self, key: &[u8], value: &[u8]) -> PyResult<()> {
        self.held.push(&[key], value).ok_or_else(too_large)
    }

    /// Is so much held that it should be written?
    fn full(&mut self) -> bool {
        self.held.full()
    }

    /// `to[key] = value` for the newest row of each key, by storage key; then nothing is held. Returns how many.
    fn write(&mut self, to: &Bound<'_, PyAny>) -> PyResult<usize> {
        let py = to.py();
        let mut count = 0;
        for (key, value) in self.held.sorted() {
            to.set_item(PyBytes::new(py, key), PyBytes::new(py, value))?;
            count += 1;
        }
        self.held.clear();
        Ok(count)
    }
}

impl Rows {
    /// The key's text, and what follows it; None where the record is no plain row of this generation and schema.
    fn plain<'a>(&self, record: &Record<'a>) -> Option<(&'a [u8], &'a [u8])> {
        let Record { key, value, .. } = *record;
        let schema = value.starts_with(&self.value_header) || (value.len() >= CONFLUENT_BYTES && value[0] == 0);
        let writer = record.header == WRITER && (record.header_value == self.own || self.earlier(record.header_value));
        // Avro writes a short text's length, doubled, into one byte. A zero byte is escaped in a storage key.
        let length = *key.get(HEADER_BYTES)?;
        if !schema || !writer || !key.starts_with(&self.key_header) || length & 0x81 != 0 || key.contains(&0) {
            return None;
        }
        let (text, window) = key[TEXT_AT..].split_at_checked(usize::from(length / 2))?;
        std::str::from_utf8(text).ok().map(|_| (text, window))
    }

    /// Is it of the generation, and of nobody later than the rows that are counted?
    fn earlier(&self, header: &[u8]) -> bool {
        header.strip_prefix(&self.generation[..]).and_then(when).is_some_and(|found| found <= self.last)
    }

    /// Where the parts of a window are; Python is asked of one that is not known.
    fn place(&mut self, window: &[u8], windows: &Bound<'_, PyAny>) -> PyResult<usize> {
        if let Some(place) = self.windows.get(window) {
            return Ok(*place);
        }
        self.parts.push(windows.get_item(PyBytes::new(windows.py(), window))?.extract()?);
        self.windows.insert(window.to_vec(), self.parts.len() - 1);
        Ok(self.parts.len() - 1)
    }
}

/// Of "attempt/epoch", as drivers write it; None for anything else.
fn when(text: &[u8]) -> Option<When> {
    let (attempt, epoch) = std::str::from_utf8(text).ok()?.split_once('/')?;
    Some((number(epoch)?, number(attempt)?))
}

fn number(digits: &str) -> Option<u64> {
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?
}

fn too_large() -> PyErr {
    PyValueError::new_err("a row has four gigabytes or more")
}

#[pymodule]
mod cutwater_native {
    /// Raised with every change of what Python calls or is given: Python uses the one that it knows.
    #[pymodule_export]
    const INTERFACE: u32 = 2;
    #[pymodule_export]
    use super::Rows;
}
