package contexts

import (
	"nexus/cmd/internal/engine/page"
	"nexus/ledger/api"
	"nexus/lineage"
	"nexus/turns"
)

// pageKey names a context whose pages are being read, so that later pages are not
// rendered again.
type pageKey struct {
	session     turns.ID
	digest      string // see [page.ContextCursor]
	head        turns.Ref
	format      string
	model       string
	policy      string
	budget      uint64
	recipe      string
	query       string
	queryTokens uint64
	explain     bool
	recorded    bool
	before      bool
	brief       bool // the request has something: the sources may be left out
}

// contextSize returns about how many bytes of memory a context takes.
func contextSize(c *api.Context) int {
	n := len(c.System) + len(c.Recipe) + 200*len(c.Sources)
	for _, m := range c.Messages {
		n += len(m)
	}
	for _, t := range c.Tools {
		n += len(t)
	}
	return n
}

// pageContext cuts out down to one page: system and tools on the first page, then
// messages, then sources. Every page pins the turn of the first one, so that all
// show one context. A page has about target bytes. A larger message has a page
// alone, and a message over largest bytes comes in pieces of its JSON.
func pageContext(out *api.Context, head lineage.Node, cur page.ContextCursor, limit, target, largest int) error {
	if cur.Messages > len(out.Messages) || cur.Sources > len(out.Sources) || (cur.Offset > 0 && cur.Messages == len(out.Messages)) {
		return api.FieldErrorf("/after", "past the end of the context")
	}
	size := len(out.System) + 512 + len(out.Recipe)
	for _, p := range out.Preamble {
		size += len(p.Name) + 64
	}
	for _, t := range out.Tools {
		size += len(t) + 1
	}
	if cur.Started {
		out.System, out.Tools, out.Preamble, size = nil, nil, nil, 512+len(out.Recipe)
	}
	next := cur
	next.At = head.Ref.Turn
	all, sources := out.Messages[cur.Messages:], out.Sources[cur.Sources:]
	out.Messages, out.Sources = all[:0:0], sources[:0:0]
	for _, m := range all {
		if len(m) > largest {
			if len(out.Messages) > 0 || (!cur.Started && size > target/2) {
				break
			}
			piece := m[min(next.Offset, len(m)):]
			if len(piece) > largest/2 { // partial escapes it once more
				piece = piece[:page.RuneBoundary(piece, largest/2)]
			}
			out.Partial = string(piece)
			if next.Offset += len(piece); next.Offset >= len(m) {
				out.PartialEnd = true
				next.Messages, next.Offset = next.Messages+1, 0
			}
			break
		}
		size += len(m) + 1
		if begun := cur.Started || len(out.Messages) > 0; (!begun && size > largest) || (len(out.Messages) > 0 && (size > target || (limit > 0 && len(out.Messages) >= limit))) {
			break
		}
		next.Messages++
		n := next.Messages - cur.Messages
		out.Messages = all[:n:n]
	}
	if done := next.Messages == cur.Messages+len(all); done {
		for i := range sources {
			src := &sources[i]
			if size += 200 + len(src.Why); len(out.Sources) > 0 && size > target {
				break
			}
			next.Sources++
			n := next.Sources - cur.Sources
			out.Sources = sources[:n:n]
		}
	}
	if next.Messages < cur.Messages+len(all) || next.Sources < cur.Sources+len(sources) {
		out.Next = next.String()
	}
	return nil
}
