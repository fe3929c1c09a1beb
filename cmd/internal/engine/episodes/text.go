package episodes

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"nexus/compactor/summary"
	"nexus/compactor/view"
	"nexus/ledger"
	"nexus/turns"
	"nexus/turns/tokens"
)

// textOf returns the text of an episode, in at most n tokens: what the summary in force says,
// and if the session has ended, its own turns since. "" if there is nothing to say.
func (ep *Episodes) textOf(ctx context.Context, s *ledger.Session, p view.Path, n uint64) (string, error) {
	title := fmt.Sprintf("Session %s:\n", s.ID)
	previous, c := p.PreviousSummary(), p.Counter
	room := tokens.Sub(n, c.Text(title))
	var halves []summary.HalfTurn
	if hasEnded(s) {
		for _, h := range p.Halves {
			if h.Ref.Session == s.ID && !h.Erased {
				halves = append(halves, h)
			}
		}
	}
	text := previous
	if len(halves) > 0 || c.Text(previous) > room {
		for _, t := range ep.paths.Tiers {
			if !t.Local {
				continue
			}
			out, err := t.Summarizer.Summarize(ctx, summary.Input{Previous: previous, Halves: halves, MaxTokens: room})
			if ctx.Err() != nil {
				return "", ctx.Err()
			}
			if err == nil && strings.TrimSpace(out.Text) != "" {
				text = out.Text
				break
			}
		}
	}
	if text = cutLines(c, visible(text), room, turns.MaxMemory-len(title)); text == "" {
		return "", nil
	}
	return title + text, nil
}

// handles are what summaries cite turns by. In another session they name other turns.
var handles = regexp.MustCompile(`[ \t]*\[t\d+(?:[,–-] ?t?\d+)*\]`)

// visible returns a text without handles, and without what no memory may hold.
func visible(text string) string {
	text = strings.ToValidUTF8(handles.ReplaceAllString(text, ""), "")
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && turns.IsHidden(r) {
			return -1
		}
		return r
	}, text))
}

// cutLines returns the first whole lines of a text that have at most n tokens and size bytes.
// Of a first line that is longer it returns the beginning.
func cutLines(c tokens.Counter, text string, n uint64, size int) string {
	fits := func(s string) bool { return len(s) <= size && c.Text(s) <= n }
	if fits(text) {
		return text
	}
	lo, hi := 0, min(len(text), size)
	for lo < hi { // the longest beginning that fits
		mid := (lo + hi + 1) / 2
		if fits(text[:mid]) {
			lo = mid
		} else {
			hi = mid - 1
		}
	}
	if i := strings.LastIndexByte(text[:lo], '\n'); i > 0 {
		return text[:i]
	}
	for lo > 0 && !utf8.RuneStart(text[lo]) {
		lo--
	}
	return strings.TrimSpace(text[:lo])
}
