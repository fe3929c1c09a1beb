package tokens

import (
	"math"

	"nexus/turns"
)

// O200k counts by the byte-pair encoding o200k_base of OpenAI's models since
// gpt-4o, exactly as far as text goes; framing is counted as [Approx] does.
// Special tokens aren't known: their names count as the text that they are.
// The vocabulary is read at the first use, once for the process; see
// BenchmarkO200kLoad. Time grows as n log n at the worst, for any text.
//
// Source: github.com/openai/tiktoken (MIT), whose counts are in the tests.
type O200k struct{}

// Name is "o200k-1".
func (O200k) Name() string { return "o200k-1" }

// Text is the number of tokens of s. A byte that isn't UTF-8 is taken for a
// symbol.
func (O200k) Text(s string) uint64 {
	if s == "" {
		return 0
	}
	v := vocabulary()
	var n uint64
	var m merger
	for len(s) > 0 {
		end := v.classes.piece(s)
		n += m.count(v.ranks, s[:end])
		s = s[end:]
	}
	return n
}

// Message counts the parts of m and 4 tokens of framing.
func (o O200k) Message(m *turns.Message) uint64 { return framed(o, m) }

// Part counts what p says. Content that was moved to a blob isn't read: it is
// counted as ASCII by [Approx].
func (o O200k) Part(p *turns.Part) uint64 { return framedPart(o, p) }

// merger joins the bytes of a piece to tokens: of all pairs of neighbours that
// are a token together the one of the lowest rank first, of equal ones the
// leftmost, until none is left. It keeps its memory for the next piece.
type merger struct {
	node []node
	heap []uint64 // rank<<32 | index in node, the least on top; stale ones are passed over
}

// node is a token so far: the bytes from its own index to next.
type node struct {
	prev, next int32
	rank       uint32 // of this and the next node together, or none
}

const none = math.MaxUint32

// count is the tokens of piece, of 2 GiB at most.
func (m *merger) count(ranks map[string]uint32, piece string) uint64 {
	if len(piece) <= longestToken {
		if _, ok := ranks[piece]; ok {
			return 1
		}
	}
	m.node, m.heap = m.node[:0], m.heap[:0]
	for i := range len(piece) {
		m.node = append(m.node, node{prev: int32(i - 1), next: int32(i + 1), rank: none})
	}
	m.node = append(m.node, node{prev: int32(len(piece) - 1), next: int32(len(piece) + 1), rank: none}) // the end
	for i := range len(piece) {
		m.pair(ranks, piece, i)
	}
	tokens := uint64(len(piece))
	for len(m.heap) > 0 {
		top := m.pop()
		i := int(uint32(top))
		if m.node[i].rank != uint32(top>>32) {
			continue // joined, or another pair by now
		}
		gone := m.node[i].next
		m.node[i].next = m.node[gone].next
		m.node[m.node[i].next].prev = int32(i)
		m.node[gone].rank = none
		tokens--
		m.pair(ranks, piece, i)
		if before := m.node[i].prev; before >= 0 {
			m.pair(ranks, piece, int(before))
		}
	}
	return tokens
}

// pair looks up node i and the next one together.
func (m *merger) pair(ranks map[string]uint32, piece string, i int) {
	rank := uint32(none)
	if next := int(m.node[i].next); next < len(piece) {
		if end := int(m.node[next].next); end-i <= longestToken {
			if r, ok := ranks[piece[i:end]]; ok {
				rank = r
			}
		}
	}
	m.node[i].rank = rank
	if rank != none {
		m.push(uint64(rank)<<32 | uint64(i))
	}
}

func (m *merger) push(x uint64) {
	m.heap = append(m.heap, x)
	i := len(m.heap) - 1
	for i > 0 {
		up := (i - 1) / 2
		if m.heap[up] <= x {
			break
		}
		m.heap[i] = m.heap[up]
		i = up
	}
	m.heap[i] = x
}

func (m *merger) pop() uint64 {
	top, last := m.heap[0], m.heap[len(m.heap)-1]
	m.heap = m.heap[:len(m.heap)-1]
	if len(m.heap) == 0 {
		return top
	}
	i := 0
	for {
		down := 2*i + 1
		if down >= len(m.heap) {
			break
		}
		if right := down + 1; right < len(m.heap) && m.heap[right] < m.heap[down] {
			down = right
		}
		if last <= m.heap[down] {
			break
		}
		m.heap[i] = m.heap[down]
		i = down
	}
	m.heap[i] = last
	return top
}
