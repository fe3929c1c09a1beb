package llm

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"nexus/compactor/summary"
	"nexus/turns"
)

// parts cuts what is to be summarized into requests. Each holds at most the style's
// share of the window, and at most what the prompt leaves of it. Parts hold text
// only, see [summary.Plaintext]. skipped lists what a partial summary leaves out, in
// order; otherwise it is empty.
//
// Cuts fall between half turns, before calls rather than between them and their results, and between the messages of a half turn that is too
// large. A message that alone does not fit is shortened or, if the style wants it
// whole, is an [ErrTooLarge].
func (j *job) parts() (parts [][]summary.HalfTurn, skipped []summary.HalfTurn, err error) {
	room := j.room()
	limit, skip := room, room
	if r := j.style.ChunkRatio; r > 0 {
		limit = min(room, uint64(r*float64(j.window)))
	}
	if r := j.style.SkipRatio; r > 0 {
		skip = min(room, uint64(r*float64(j.window)))
	}
	size := uint64(0)
	for i := range j.input.Halves {
		for k, h := range j.pieces(j.input.Halves[i], limit) {
			switch {
			case j.partial && h.Tokens > skip:
				skipped = append(skipped, h)
				continue
			case h.Tokens > room && j.style.Whole:
				return nil, nil, fmt.Errorf("%w: turn %d has a message of about %d tokens, a request has room for %d", ErrTooLarge, h.Depth, h.Tokens, room)
			case h.Tokens > room:
				h = j.shorten(h, room)
			}
			if len(parts) == 0 || size+h.Tokens > limit {
				parts, size = append(parts, nil), 0
				if k == 0 && i > 0 && len(parts) > 1 && answersCalls(&j.input.Halves[i-1], &j.input.Halves[i]) {
					size = moveCalls(parts, limit-min(limit, h.Tokens))
				}
			}
			last := &parts[len(parts)-1]
			*last = append(*last, h)
			size += h.Tokens
		}
	}
	switch {
	case len(parts) == 0 && len(skipped) > 0:
		return nil, nil, fmt.Errorf("%w: all of it is too large", ErrPartial)
	case len(parts) == 0:
		parts = append(parts, nil)
	}
	return parts, skipped, nil
}

// answersCalls reports whether next has the results of calls in h.
func answersCalls(h, next *summary.HalfTurn) bool {
	return hasPart(h, turns.ToolCall) && hasPart(next, turns.ToolCallResponse)
}

func hasPart(h *summary.HalfTurn, kind turns.PartType) bool {
	for i := range h.Messages {
		if slices.ContainsFunc(h.Messages[i].Parts, func(p turns.Part) bool { return p.Type == kind }) {
			return true
		}
	}
	return false
}

// moveCalls moves the last half of the part before the last one, which has calls, into the last one, which begins
// with their results, if it has room tokens for it. It returns the size of the last part.
func moveCalls(parts [][]summary.HalfTurn, room uint64) uint64 {
	before, last := &parts[len(parts)-2], &parts[len(parts)-1]
	calls := (*before)[len(*before)-1]
	if len(*before) < 2 || calls.Half != turns.ResponseHalf || calls.Tokens > room {
		return 0
	}
	*before, *last = (*before)[:len(*before)-1], append(*last, calls)
	return calls.Tokens
}

// pieces returns h as text: whole, or by message if it exceeds limit. Tokens is what
// each takes in a request.
func (j *job) pieces(h summary.HalfTurn, limit uint64) []summary.HalfTurn {
	h = j.measured(summary.Plaintext(h))
	if h.Tokens <= limit || len(h.Messages) < 2 {
		return []summary.HalfTurn{h}
	}
	out := make([]summary.HalfTurn, len(h.Messages))
	for i := range h.Messages {
		out[i] = h
		out[i].Messages = h.Messages[i : i+1]
		out[i] = j.measured(out[i])
	}
	return out
}

func (j *job) measured(h summary.HalfTurn) summary.HalfTurn {
	h.Tokens = j.counter.Text(summary.Transcript(summary.Input{Halves: []summary.HalfTurn{h}}))
	return h
}

// room returns what the prompt, the rolling summary, the notes on record and the
// answer leave of the window; at least a quarter of it.
func (j *job) room() uint64 {
	fixed := j.counter.Text(summary.Prompt(j.input)) + j.counter.Text(j.input.Task) + max(j.input.MaxTokens, j.counter.Text(j.input.Previous)) + j.limit + requestMargin
	if len(j.input.Known) > 0 || j.template.AnswerTokens(1) > 1 { // the memories of earlier parts will be on record
		fixed += j.window / knownShare
	}
	return max(j.window-min(j.window, fixed), j.window/4)
}

// requestMargin is the room for the tags and roles around a request's content, in
// tokens.
const requestMargin = 256

// answerMargin is the room for the tags around an answer's parts, in tokens.
const answerMargin = 128

// knownShare bounds the notes on record: one part in this many of the window.
const knownShare = 8

// answerShare bounds a summary: one part in this many of the window.
const answerShare = 8

// newest returns the newest notes that together fit their share of the window.
func (j *job) newest(known []string) []string {
	remaining := j.window / knownShare
	for i, note := range slices.Backward(known) {
		n := j.counter.Text(note) + 1
		if n > remaining {
			return known[i+1:]
		}
		remaining -= n
	}
	return known
}

// groups joins neighbors among texts that fit one request together.
func (j *job) groups(texts []string) [][]string {
	room := j.room()
	var out [][]string
	size := uint64(0)
	for _, text := range texts {
		n := j.counter.Text(text) + 8 // for its tags
		if len(out) == 0 || size+n > room {
			out, size = append(out, nil), 0
		}
		out[len(out)-1] = append(out[len(out)-1], text)
		size += n
	}
	return out
}

// shorten keeps the beginning of each text of a half, so that all have about room
// tokens together, or fewer.
func (j *job) shorten(h summary.HalfTurn, room uint64) summary.HalfTurn {
	whole := h
	share := 1.0
	for range 20 { // text is not equally dense everywhere, so measure again
		if h.Tokens <= room {
			break
		}
		share *= 0.98 * float64(room) / float64(h.Tokens)
		h.Messages = make([]turns.Message, len(whole.Messages))
		for i, m := range whole.Messages {
			h.Messages[i] = turns.Message{Role: m.Role, Name: m.Name, Parts: slices.Clone(m.Parts)}
			for k := range h.Messages[i].Parts {
				p := &h.Messages[i].Parts[k]
				p.Content = begin(p.Content, share)
			}
		}
		h = j.measured(h)
	}
	return h
}

func begin(s string, share float64) string {
	n := int(float64(len(s)) * share)
	if n >= len(s) {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + " […]"
}

// skippedNote names the turns that a partial summary leaves out; empty for none.
func skippedNote(skipped []summary.HalfTurn) []string {
	if len(skipped) == 0 {
		return nil
	}
	const limit = 4 // bound on the ranges that are named
	size := uint64(0)
	var from, to []uint64
	for _, h := range skipped {
		size += h.Tokens
		if n := len(to); n > 0 && h.Depth <= to[n-1]+1 {
			to[n-1] = max(to[n-1], h.Depth)
			continue
		}
		from, to = append(from, h.Depth), append(to, h.Depth)
	}
	var at []string
	for i := range min(len(from), limit) {
		if from[i] == to[i] {
			at = append(at, fmt.Sprint(from[i]))
		} else {
			at = append(at, fmt.Sprintf("%d to %d", from[i], to[i]))
		}
	}
	if more := len(from) - limit; more > 0 {
		at = append(at, fmt.Sprintf("%d more", more))
	}
	return []string{fmt.Sprintf("[Of turns %s, about %d tokens too large to summarize: skipped]", strings.Join(at, ", "), size)}
}
