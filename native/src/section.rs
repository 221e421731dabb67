//! The records of one batch, as they lie there once the batch is decompressed (Kafka's format 2).
//!
//!     record   length · attributes (1 byte) · time delta · offset delta · key · value · headers
//!
//! Numbers are zigzag varints; bytes are a number and as many bytes, text and headers too. Nothing here trusts what
//! it reads: `None` is the answer to everything that is damaged, or not as plain as nearly all is, and the caller
//! then has Python look, which also says what is wrong.

/// What is left to be read.
pub struct Section<'a>(pub &'a [u8]);

/// One record of a changelog that has a key, a value, and one header.
pub struct Record<'a> {
    pub offset_delta: u32,
    pub key: &'a [u8],
    pub value: &'a [u8],
    pub header: &'a [u8],
    pub header_value: &'a [u8],
}

const VARINT_BYTES_MAX: usize = 10;

impl<'a> Section<'a> {
    pub fn record(&mut self) -> Option<Record<'a>> {
        let mut one = Section(self.bytes()?);
        if one.taken(1)? != [0] {
            return None; // no attribute is known
        }
        one.varint()?; // the time, which no row needs
        let found = Record {
            offset_delta: u32::try_from(one.varint()?).ok()?,
            key: one.bytes()?,
            value: one.bytes()?,
            header: (one.varint()? == 1).then(|| one.bytes())??,
            header_value: one.bytes()?,
        };
        one.0.is_empty().then_some(found)
    }

    /// A number and as many bytes; null, which is the number -1, is None as well.
    fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = self.varint()?;
        self.taken(usize::try_from(length).ok()?)
    }

    fn taken(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, left) = self.0.split_at_checked(count)?;
        self.0 = left;
        Some(taken)
    }

    pub fn varint(&mut self) -> Option<i64> {
        let mut found = 0_u64;
        for (at, byte) in self.0.iter().take(VARINT_BYTES_MAX).enumerate() {
            let bits = u64::from(byte & 0x7f);
            if at + 1 == VARINT_BYTES_MAX && bits > 1 {
                return None; // more than 64 bits
            }
            found |= bits << (7 * at);
            if byte & 0x80 == 0 {
                self.0 = &self.0[at + 1..];
                return Some((found >> 1) as i64 ^ -((found & 1) as i64));
            }
        }
        None
    }
}
