package contextview

import (
	"slices"

	"nexus/turns"
)

// Change says what became of a piece from one context to another.
type Change string

// The changes.
const (
	Kept    Change = "kept"
	Gone    Change = "gone"
	Added   Change = "added"
	Changed Change = "changed" // both show it, and not alike
)

// Entry is a piece of either context. Old is that of the first, New that of the second;
// nil where it has none.
type Entry struct {
	Change   Change
	Old, New *Piece
}

// Totals counts pieces, messages and tokens of one change. Of what changed, the messages
// and tokens are those of the first context, and Now those of the second.
type Totals struct {
	Pieces   uint64 `json:"pieces"`
	Messages uint64 `json:"messages"`
	Tokens   uint64 `json:"tokens"`
	Now      uint64 `json:"tokens_now,omitzero"`
}

// name is what makes two pieces the same one.
type name struct {
	turn, memory turns.ID
	half         string
	synthetic    bool // a notice beside the half, not the half
}

func (p *Piece) name() name {
	return name{p.Turn, p.Memory, p.Half, p.Status == "synthetic"}
}

// Diff compares two contexts: the pieces of the second in its order, and each that is gone
// before the first one that follows it in the first context and is still there.
func Diff(a, b []Piece) []Entry {
	old := make(map[name][]int) // of a, in order: a half may have several pieces
	for i := range a {
		old[a[i].name()] = append(old[a[i].name()], i)
	}
	match := make([]int, len(b)) // index in a; −1: added
	gone := make([]bool, len(a))
	for i := range gone {
		gone[i] = true
	}
	for i := range b {
		match[i] = -1
		if at := old[b[i].name()]; len(at) > 0 {
			match[i], old[b[i].name()] = at[0], at[1:]
			gone[at[0]] = false
		}
	}
	var out []Entry
	next := 0 // of a: what is gone before it is in out
	flush := func(to int) {
		for ; next < to; next++ {
			if gone[next] {
				out = append(out, Entry{Gone, &a[next], nil})
			}
		}
	}
	for i := range b {
		if match[i] < 0 {
			out = append(out, Entry{Added, nil, &b[i]})
			continue
		}
		flush(match[i])
		e := Entry{Kept, &a[match[i]], &b[i]}
		if e.Old.Status != e.New.Status || !slices.EqualFunc(e.Old.Messages, e.New.Messages, func(x, y turns.Message) bool { return x.SameAs(&y) }) {
			e.Change = Changed
		}
		out = append(out, e)
	}
	flush(len(a))
	return out
}

// Sum counts the entries of each change.
func Sum(entries []Entry) map[Change]Totals {
	out := make(map[Change]Totals)
	for _, e := range entries {
		t := out[e.Change]
		p := e.Old
		if p == nil {
			p = e.New
		}
		t.Pieces++
		t.Messages += uint64(len(p.Messages))
		t.Tokens += p.Tokens
		if e.Change == Changed {
			t.Now += e.New.Tokens
		}
		out[e.Change] = t
	}
	return out
}
