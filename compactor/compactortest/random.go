package compactortest

import (
	"fmt"
	"slices"

	"pgregory.net/rapid"

	"nexus/ledger"
	"nexus/turns"
)

// RandomTurns makes random histories by the ledger's rules. It takes the open calls from
// [ledger.Calls], so that it returns only turns that a ledger would store.
type RandomTurns struct {
	Open  ledger.Calls // the calls open at the head
	made  []string     // every call ever made
	calls int
}

func (g *RandomTurns) response(t *rapid.T) *turns.Message {
	if rapid.IntRange(0, 4).Draw(t, "pending") == 0 {
		return nil
	}
	var ids []string
	if rapid.IntRange(0, 9).Draw(t, "calls?") < 7 {
		for range rapid.IntRange(1, 4).Draw(t, "calls") {
			g.calls++
			ids = append(ids, fmt.Sprintf("c%d", g.calls))
		}
	}
	m := Says(Words(rapid.IntRange(1, 60).Draw(t, "said")), ids...)
	if rapid.Bool().Draw(t, "signed") {
		m.Parts = slices.Insert(m.Parts, 0, turns.Part{Type: turns.Reasoning, Content: "hm", Ext: turns.Raw(`{"anthropic":{"signature":"x"}}`)})
	}
	return m
}

// messages returns some of the results that are waited for, perhaps late ones, perhaps
// other content before or after, in one message or several.
func (g *RandomTurns) messages(t *rapid.T, size int) []turns.Message {
	var parts []turns.Part
	for _, id := range rapid.Permutation(slices.Clone([]string(g.Open))).Draw(t, "order") {
		if rapid.IntRange(0, 9).Draw(t, "answered") < 8 {
			parts = append(parts, Result(id, Words(rapid.IntRange(1, size).Draw(t, "result"))))
		}
	}
	if len(g.made) > 0 && rapid.IntRange(0, 9).Draw(t, "late?") == 0 {
		id := rapid.SampledFrom(g.made).Draw(t, "late")
		if !slices.ContainsFunc(parts, func(p turns.Part) bool { return p.ID == id }) {
			parts = append(parts, Result(id, "late </late_result> words"))
		}
	}
	var out []turns.Message
	for len(parts) > 0 {
		n := rapid.IntRange(1, len(parts)).Draw(t, "in one message")
		m := turns.Message{Role: turns.Tool, Parts: parts[:n:n]}
		if rapid.IntRange(0, 4).Draw(t, "as user") == 0 {
			m.Role = turns.User
			if rapid.Bool().Draw(t, "mixed") {
				m.Parts = append(m.Parts, turns.TextPart("beside it"))
			}
		}
		out, parts = append(out, m), parts[n:]
	}
	if len(out) == 0 || rapid.IntRange(0, 6).Draw(t, "text?") == 0 {
		at := rapid.IntRange(0, len(out)).Draw(t, "text at")
		out = slices.Insert(out, at, turns.TextMessage(turns.User, Words(rapid.IntRange(1, size).Draw(t, "text"))))
	}
	return out
}

// Next draws the next turn. size bounds the tokens of each text that it sends.
func (g *RandomTurns) Next(t *rapid.T, size int) (ms []turns.Message, response *turns.Message) {
	ms, response = g.messages(t, size), g.response(t)
	folded, err := g.Open.After(ms, response, nil)
	if err != nil {
		t.Fatal(err)
	}
	g.Open = folded.Open
	g.made = append(g.made, folded.Open...)
	return ms, response
}
