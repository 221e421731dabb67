//! Rows by storage key, the newest last: an arena of bytes, and where in it each row lies.
//!
//! There is no map: finding each row's older one takes longer than sorting now and then (measured, with as many as
//! 16 updates a key). A row goes behind the others, and what is held is sorted when it is handed out, or has become
//! too much: then the older rows of a key go, and where that makes room enough, it goes on. The sort keeps the
//! order of equal keys, and is quick where a part is in order already.

/// A row: its key, and right behind it its value.
#[derive(Clone, Copy)]
struct Entry {
    /// The key's first bytes as a number, which spares most comparisons a look into the arena.
    head: u128,
    at: usize,
    key_length: u32,
    value_length: u32,
}

const HEAD_BYTES: usize = 16;

pub struct Held {
    arena: Vec<u8>,
    entries: Vec<Entry>,
    rows_max: usize,
    bytes_max: usize,
}

impl Entry {
    fn key(self, arena: &[u8]) -> &[u8] {
        &arena[self.at..][..self.key_length as usize]
    }

    fn value(self, arena: &[u8]) -> &[u8] {
        &arena[self.at + self.key_length as usize..][..self.value_length as usize]
    }

    fn size(self) -> usize {
        self.key_length as usize + self.value_length as usize
    }
}

impl Held {
    pub fn new(rows_max: usize, bytes_max: usize) -> Self {
        Held { arena: Vec::new(), entries: Vec::new(), rows_max, bytes_max }
    }

    /// One row more; its key comes in parts. None, and nothing has changed, where it is too large for any store.
    pub fn push(&mut self, key: &[&[u8]], value: &[u8]) -> Option<()> {
        let key_length = u32::try_from(key.iter().map(|part| part.len()).sum::<usize>()).ok()?;
        let value_length = u32::try_from(value.len()).ok()?;
        let at = self.arena.len();
        for part in key {
            self.arena.extend_from_slice(part);
        }
        let mut head = [0; HEAD_BYTES];
        let known = self.arena[at..].len().min(HEAD_BYTES);
        head[..known].copy_from_slice(&self.arena[at..][..known]);
        self.arena.extend_from_slice(value);
        self.entries.push(Entry { head: u128::from_be_bytes(head), at, key_length, value_length });
        Some(())
    }

    /// Is so much held that it should be handed out?
    pub fn full(&mut self) -> bool {
        if self.entries.len() < self.rows_max && self.arena.len() < self.bytes_max {
            return false;
        }
        self.sort();
        let live: usize = self.entries.iter().map(|one| one.size()).sum();
        // At least half must be room again, else each look would be for a few rows only.
        if self.entries.len() > self.rows_max / 2 || live > self.bytes_max / 2 {
            return true;
        }
        let mut arena = Vec::with_capacity(live);
        for one in &mut self.entries {
            let at = arena.len();
            arena.extend_from_slice(&self.arena[one.at..][..one.size()]);
            one.at = at;
        }
        self.arena = arena;
        false
    }

    /// The newest row of each key, by key.
    pub fn sorted(&mut self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.sort();
        let arena = &self.arena;
        self.entries.iter().map(move |one| (one.key(arena), one.value(arena)))
    }

    pub fn clear(&mut self) {
        self.arena.clear();
        self.entries.clear();
    }

    fn sort(&mut self) {
        let arena = &self.arena;
        self.entries.sort_by(|a, b| a.head.cmp(&b.head).then_with(|| a.key(arena).cmp(b.key(arena))));
        // Of equal keys, which are in the order in which they came, the last one stays.
        self.entries.dedup_by(|next, kept| {
            let same = next.head == kept.head && next.key(arena) == kept.key(arena);
            if same {
                *kept = *next;
            }
            same
        });
    }
}
