package covered

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"nexus/cmd/internal/engine/page"
	"nexus/compactor/evidence"
	"nexus/compactor/summary"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/lineage"
	"nexus/turns"
)

// maxLines bounds the lines of one reply.
const maxLines = 100

// lines says of the lines that stand for the turns that compaction n covers, at any
// depth, which of those turns they rest on. What an older summary said is compared with
// the turns too, not with the older summary.
func (cv *Covered) lines(ctx context.Context, s *ledger.Session, n lineage.Node, req api.ExpandCompaction) (*api.Expanded, error) {
	body, err := cv.compactionBody(ctx, s, n)
	if err != nil {
		return nil, err
	}
	all := evidence.Lines(slices.Concat(body.Replacement, body.Nudge))
	from, to := 0, min(len(all), maxLines)
	switch {
	case req.Line > uint64(len(all)):
		return nil, api.FieldErrorf("/line", "what compaction %s shows has %d lines", n.Ref.Turn, len(all))
	case req.Line > 0:
		from, to = int(req.Line)-1, int(req.Line)
	case req.After != "":
		k, err := strconv.ParseUint(req.After, 10, 32)
		if err != nil || k > uint64(len(all)) {
			return nil, api.FieldErrorf("/after", "not what a page of these lines gave as next")
		}
		from = int(k)
	}
	if req.Line == 0 {
		limit, err := req.Page.LimitOf(maxLines, maxLines)
		if err != nil {
			return nil, err
		}
		to = min(len(all), from+limit)
	}
	hi := n.Cut
	if len(body.Replacement) == 0 { // a nudge speaks of what is shortened, and of what stands before it
		hi = lineage.CutBefore(n.Depth, turns.MessagesHalf)
	}
	halves, partial, err := cv.halvesBetween(ctx, s, n, 0, hi)
	if err != nil {
		return nil, err
	}
	out := &api.Expanded{Turns: []api.Turn{}, Lines: []api.SummaryLine{}, Partial: partial}
	size := 0
	for _, l := range evidence.Trace(all, from, to, halves) {
		x, err := cv.line(l, halves)
		if err != nil {
			return nil, err
		}
		k, err := page.EncodedSize(x)
		if err != nil {
			return nil, err
		}
		if size += k; size > cv.page.PageBytes() && len(out.Lines) > 0 {
			to = l.Number - 1
			break
		}
		out.Lines = append(out.Lines, *x)
	}
	if req.Line == 0 && to < len(all) {
		out.Next = strconv.Itoa(to)
	}
	return out, nil
}

// compactionBody returns what compaction n holds.
func (cv *Covered) compactionBody(ctx context.Context, s *ledger.Session, n lineage.Node) (*turns.CompactionBody, error) {
	if n.Kind != turns.KindCompaction {
		return nil, &api.Error{Code: api.Unprocessable, Message: fmt.Sprintf("turn %s is not a compaction", n.Ref.Turn)}
	}
	_, ev, err := cv.reader.TurnEvent(n.Ref)
	if err != nil {
		return nil, err
	}
	body := new(turns.CompactionBody)
	if err := cv.content.Open(ev, body); err != nil {
		return nil, err
	}
	return body, cv.content.InlineBlobs(ctx, s.Tenant, s.Root, body)
}

// line is a line as the contract shows it.
func (cv *Covered) line(l evidence.Line, halves []summary.HalfTurn) (*api.SummaryLine, error) {
	const most = 2000 // characters that are shown of a line; the compaction has all of them
	x := &api.SummaryLine{Line: uint64(l.Number), Text: page.ClipJSON(strings.ToValidUTF8(l.Text, "\uFFFD"), most), Frame: l.Frame, Facts: uint64(l.Facts), Missing: valid(l.Missing), More: uint64(l.More), Turns: []api.LineTurn{}}
	for _, sp := range l.Turns {
		h := &halves[sp.Half]
		t := api.LineTurn{Session: h.Ref.Session, Turn: h.Ref.Turn, Depth: h.Depth, Half: h.Half.String(), Message: uint64(sp.Message), Part: uint64(sp.Part),
			Score: sp.Score, Cited: sp.Cited, Quoted: sp.Quoted, Facts: valid(sp.Facts), Excerpt: sp.Excerpt}
		row, err := cv.reader.Projections.Turn(h.Ref)
		if err != nil {
			return nil, err
		}
		t.Hash = row.Hash
		x.Turns = append(x.Turns, t)
	}
	return x, nil
}

// valid returns texts that JSON can hold.
func valid(in []string) []string {
	out := make([]string, len(in))
	for i, s := range in {
		out[i] = strings.ToValidUTF8(s, "\uFFFD")
	}
	return out
}
