package view

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"nexus/compactor/policy"
	"nexus/compactor/summary"
	"nexus/turns"
)

// pruneHalves applies the view v to shown halves: it trims or clears results that
// enough assistant messages follow. Lengths are in code points.
func pruneHalves(v policy.Prune, halves []ShownHalf) {
	behind := uint64(0) // assistant messages after the one at hand
	for i := len(halves) - 1; i >= 0; i-- {
		h := &halves[i]
		copied := false
		for j := len(h.Messages) - 1; j >= 0; j-- {
			if summary.IsAssistant(&h.HalfTurn, j) {
				behind++
				continue
			}
			if behind < v.KeepAssistants {
				continue
			}
			for k := range h.Messages[j].Parts {
				q := h.Messages[j].Parts[k]
				if q.Type != turns.ToolCallResponse {
					continue
				}
				show, status := pruneResult(v, &q, behind)
				if status == "" {
					continue
				}
				if !copied {
					h.Messages, h.Counts, copied = slices.Clone(h.Messages), nil, true
				}
				parts := slices.Clone(h.Messages[j].Parts)
				parts[k] = show
				h.Messages[j].Parts = parts
				if h.Source.Status == Verbatim {
					h.Source.Status = ""
				}
				h.Source.Status = mixStatus(h.Source.Status, status)
				h.Source.Why = fmt.Sprintf("a tool result behind %d assistant messages", behind)
			}
		}
	}
}

// pruneResult returns what the view shows for a tool result that so many assistant
// messages follow. Without a status the view leaves the result as it is.
func pruneResult(v policy.Prune, p *turns.Part, behind uint64) (turns.Part, Status) {
	clears := v.ClearAfter > 0 && behind >= v.ClearAfter
	text := func(s string) (string, Status) {
		switch n := uint64(utf8.RuneCountInString(s)); {
		case clears && n > uint64(utf8.RuneCountInString(v.ClearMark)):
			return v.ClearMark, Cleared
		case !clears && n > max(v.SoftTrimChars, v.HeadChars+v.TailChars+uint64(utf8.RuneCountInString(v.TrimMark))):
			return headRunes(s, v.HeadChars) + v.TrimMark + tailRunes(s, v.TailChars), Trimmed
		}
		return s, ""
	}
	if parts, ok := summary.ResultParts(p); ok && slices.ContainsFunc(parts, func(q turns.Part) bool { return q.Type != turns.Text }) {
		var status Status
		for i := range parts {
			if parts[i].Type == turns.Text {
				s, did := text(parts[i].Content)
				if did != "" {
					parts[i].Content, status = s, did
				}
			}
		}
		if status == "" {
			return *p, ""
		}
		b, err := turns.EncodeJSON(parts)
		if err != nil {
			return *p, ""
		}
		out := *p
		out.Response = b
		return out, status
	}
	s, did := text(summary.ResultText(p))
	if did == "" {
		return *p, ""
	}
	return turns.Part{Type: p.Type, ID: p.ID, Name: p.Name, IsError: p.IsError, Response: turns.RawText(strings.ToValidUTF8(s, "\uFFFD"))}, did
}

func headRunes(s string, n uint64) string {
	for i := range s {
		if n == 0 {
			return s[:i]
		}
		n--
	}
	return s
}

func tailRunes(s string, n uint64) string {
	i := len(s)
	for ; i > 0 && n > 0; n-- {
		_, size := utf8.DecodeLastRuneInString(s[:i])
		i -= size
	}
	return s[i:]
}
