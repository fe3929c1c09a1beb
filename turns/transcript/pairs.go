package transcript

import (
	"slices"
	"strconv"
	"time"

	"nexus/turns"
	"nexus/turns/internal/plain"
)

// NoResult is the result of a call that the path went on without: no provider takes a call
// that has none. It says nothing of what the tool did, since another branch may have its
// result. It never changes: a changed marker is a changed transcript.
const NoResult = "[the conversation went on here without its result]"

// LateResult is put before a result that came when its call had got a [NoResult].
const LateResult = "[Late: the result of a tool call that the conversation had gone on without, id "

// pairing is how far [Paired] came. The zero pairing is before the first turn.
type pairing struct {
	last time.Time     // of the last turn with a response
	open []string      // its calls that have no result yet
	held []WrittenTurn // compactions behind it, as long as it has such calls
}

// next returns the turns to write for the next turn of the path.
func (p *pairing) next(t WrittenTurn) (out []WrittenTurn) {
	switch {
	case t.Compaction && len(p.open) > 0:
		p.held = append(p.held, t)
		return nil
	case t.Compaction:
		return []WrittenTurn{t}
	}
	var answers, rest []turns.Message // answers go before the compactions that are held
	goesOn := t.Response != nil
	for _, m := range t.Messages {
		parts := slices.Clone(m.Parts)
		isAnswer := make([]bool, len(parts))
		for i := range parts {
			at := -1
			if parts[i].Type == turns.ToolCallResponse {
				if at = slices.Index(p.open, parts[i].ID); at < 0 {
					parts[i] = turns.TextPart(LateResult + strconv.Quote(parts[i].ID) + "]\n" + plain.ResultText(&parts[i]))
				}
			}
			if at >= 0 {
				isAnswer[i], p.open = true, slices.Delete(p.open, at, at+1)
			} else {
				goesOn = true
			}
		}
		if m.Role == turns.Tool && !slices.Contains(isAnswer, true) {
			m.Role = turns.User
		}
		m.Parts = parts
		if len(p.held) == 0 || !slices.Contains(isAnswer, true) {
			rest = append(rest, m)
			continue
		}
		answer := m
		answer.Parts, m.Parts = nil, nil
		for i := range parts {
			if isAnswer[i] {
				answer.Parts = append(answer.Parts, parts[i])
			} else {
				m.Parts = append(m.Parts, parts[i])
			}
		}
		if answers = append(answers, answer); len(m.Parts) > 0 {
			rest = append(rest, m)
		}
	}
	if goesOn && len(p.open) > 0 {
		answers, p.open = append([]turns.Message{Results(p.open, NoResult)}, answers...), nil
	}
	if len(p.held) > 0 {
		if len(answers) > 0 {
			out = append(out, WrittenTurn{ID: turns.DeriveID(t.ID.Time(), "results", t.ID.String()), Time: p.last, Messages: answers})
			answers = nil
		}
		if len(p.open) > 0 { // other results may come
			return out
		}
		out, p.held = append(out, p.held...), nil
	}
	t.Messages = append(answers, rest...)
	if t.Response != nil {
		p.last, p.open = t.Time, t.Response.Calls(nil)
	}
	return append(out, t)
}

// end returns the compactions that are held.
func (p *pairing) end() []WrittenTurn {
	held := p.held
	p.held = nil
	return held
}

// Paired returns a path as a [Writer] writes it: each call that the path goes on
// without has a marked result, a result that no call waits for is a text, and results come
// before a compaction that stands between them and their calls. Calls that are open at the
// end stay open. A path that is paired already stays as it is. It shares memory with path.
func Paired(path []WrittenTurn) (out []WrittenTurn) {
	var p pairing
	for _, t := range path {
		out = append(out, p.next(t)...)
	}
	return append(out, p.end()...)
}

// Results returns a message with a text as the result of each call.
func Results(calls []string, text string) turns.Message {
	m := turns.Message{Role: turns.Tool}
	for _, id := range calls {
		m.Parts = append(m.Parts, turns.Part{Type: turns.ToolCallResponse, ID: id, Response: turns.RawText(text)})
	}
	return m
}

// PairedWriter returns a writer that gives w the path as [Paired] returns it.
func PairedWriter(w Writer) Writer { return &pairedWriter{to: w} }

type pairedWriter struct {
	pairing
	to Writer
}

// Turn implements [Writer]. The lines of a compaction may come with those of the
// turn after it.
func (w *pairedWriter) Turn(t WrittenTurn) ([][]byte, error) { return w.write(w.next(t)) }

// End implements [Writer].
func (w *pairedWriter) End() ([][]byte, error) {
	out, err := w.write(w.end())
	if err != nil {
		return out, err
	}
	last, err := w.to.End()
	return append(out, last...), err
}

func (w *pairedWriter) write(path []WrittenTurn) (out [][]byte, err error) {
	for _, t := range path {
		lines, err := w.to.Turn(t)
		if out = append(out, lines...); err != nil {
			return out, err
		}
	}
	return out, nil
}
