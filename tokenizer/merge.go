package tokenizer

import (
	"hash/maphash"
	"slices"
	"strings"
	"sync/atomic"
)

// merge says that a pair of tokens becomes one. The lowest rank goes first.
type merge struct {
	left, right int32
	rank, id    int32
}

// merges are found by their pair. It is a hash table without chains, half of it empty: encoding
// spends most of its time here, and a Go map takes twice as long.
type merges []merge

// newMerges builds the table. Of equal pairs the last counts.
func newMerges(list []merge) merges {
	size := 16
	for size < 2*len(list) {
		size *= 2
	}
	m := make(merges, size)
	for i := range m {
		m[i].left = -1
	}
	for _, x := range list {
		m[m.slot(x.left, x.right)] = x
	}
	return m
}

func (m merges) find(left, right int32) (merge, bool) {
	x := m[m.slot(left, right)]
	return x, x.left >= 0
}

// slot is where a pair is, or where it would be.
func (m merges) slot(left, right int32) uint64 {
	mask := uint64(len(m) - 1)
	h := (uint64(uint32(left))<<32 | uint64(uint32(right))) * 0x9e3779b97f4a7c15
	for i := h >> 32 & mask; ; i = (i + 1) & mask {
		if x := &m[i]; x.left < 0 || x.left == left && x.right == right {
			return i
		}
	}
}

// symbol is a token on its way, in a list from left to right.
type symbol struct {
	id         int32 // -1: merged into the one before it
	prev, next int32 // -1: none
}

// candidate is a merge that was possible when it was noted.
type candidate struct {
	order uint64 // rank, then position: the smallest first
	id    int32  // what the pair becomes
}

// merger merges one piece at a time. It keeps its arrays.
type merger struct {
	symbols []symbol
	heap    []candidate
}

// appendMerged appends the tokens of a piece to dst: single bytes, of which
// the pair of lowest rank is merged, the leftmost of equals, until none is
// left. Candidates wait in a heap, so that it takes n log n for n bytes.
func (m *merger) appendMerged(dst []int32, piece string, t *Tokenizer) []int32 {
	m.symbols = slices.Grow(m.symbols[:0], len(piece))[:len(piece)]
	for i := range m.symbols {
		m.symbols[i] = symbol{id: t.bytes[piece[i]], prev: int32(i - 1), next: int32(i + 1)}
	}
	m.symbols[len(piece)-1].next = -1
	m.heap = m.heap[:0]
	for i := range m.symbols {
		m.note(int32(i), t.merges)
	}
	for len(m.heap) > 0 {
		c := m.pop()
		i := int32(uint32(c.order))
		left := &m.symbols[i]
		if left.id < 0 || left.next < 0 {
			continue // merged meanwhile
		}
		right := &m.symbols[left.next]
		if x, ok := t.merges.find(left.id, right.id); !ok || x.id != c.id {
			continue // one of the two has become another
		}
		left.id, right.id = c.id, -1
		left.next = right.next
		if left.next >= 0 {
			m.symbols[left.next].prev = i
		}
		if left.prev >= 0 {
			m.note(left.prev, t.merges)
		}
		m.note(i, t.merges)
	}
	for i := int32(0); i >= 0; i = m.symbols[i].next {
		dst = append(dst, m.symbols[i].id)
	}
	return dst
}

// note puts the merge of symbol i with its right neighbour on the heap, if there is one.
func (m *merger) note(i int32, all merges) {
	left := m.symbols[i]
	if left.next < 0 {
		return
	}
	x, ok := all.find(left.id, m.symbols[left.next].id)
	if !ok {
		return
	}
	c := candidate{order: uint64(x.rank)<<32 | uint64(i), id: x.id}
	m.heap = append(m.heap, c)
	at := len(m.heap) - 1
	for at > 0 {
		parent := (at - 1) / 2
		if m.heap[parent].order <= c.order {
			break
		}
		m.heap[at] = m.heap[parent]
		at = parent
	}
	m.heap[at] = c
}

func (m *merger) pop() candidate {
	first := m.heap[0]
	n := len(m.heap) - 1
	last := m.heap[n]
	m.heap = m.heap[:n]
	at := 0
	for {
		child := 2*at + 1
		if child >= n {
			break
		}
		if child+1 < n && m.heap[child+1].order < m.heap[child].order {
			child++
		}
		if last.order <= m.heap[child].order {
			break
		}
		m.heap[at] = m.heap[child]
		at = child
	}
	if n > 0 {
		m.heap[at] = last
	}
	return first
}

const (
	cacheSlots  = 1 << 16 // a power of 2
	cachedBytes = 48      // longest piece that is kept; longer ones seldom come again
)

// cache remembers the tokens of pieces, since most words of a text come again.
// A piece has two places, side by side, and takes them from what was there:
// memory is bounded (about 10 MB when full), and nobody waits for anybody.
type cache struct {
	seed  maphash.Seed
	slots [cacheSlots]atomic.Pointer[cached]
}

type cached struct {
	piece string
	ids   []int32
}

func newCache() *cache { return &cache{seed: maphash.MakeSeed()} }

// get returns the tokens of a piece, nil if they are not known, and where put
// may keep them; negative if nowhere.
func (c *cache) get(piece string) (ids []int32, at int) {
	if len(piece) > cachedBytes {
		return nil, -1
	}
	at = int(maphash.String(c.seed, piece) % (cacheSlots / 2) * 2)
	for i := range 2 {
		if x := c.slots[at+i].Load(); x != nil && x.piece == piece {
			return x.ids, at
		}
	}
	return nil, at
}

// put keeps the tokens of a piece, and what was kept last in its places.
func (c *cache) put(at int, piece string, ids []int32) {
	if at < 0 {
		return
	}
	c.slots[at+1].Store(c.slots[at].Load())
	c.slots[at].Store(&cached{strings.Clone(piece), slices.Clone(ids)})
}
