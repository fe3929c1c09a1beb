package turns

import (
	"errors"
	"strings"
	"testing"
)

func TestMemoryEventsThatBreakARuleAreRefused(t *testing.T) {
	agent := Chain{Entity: AgentEntity, ID: "coder"}
	sources := []Source{{Turn: sampleRef(1, 1), Hash: sampleHash(1)}, {Turn: sampleRef(1, 2), Hash: sampleHash(2)}}
	event := func(k Kind) *Event {
		return &Event{Version: Version, Kind: k, ID: sampleID(9), Chain: agent, Recorded: 1}
	}
	saved := func(change func(*Memory)) *Event {
		e := event(KindMemory)
		e.Memory = &Memory{State: Accepted, Kind: Daily, Trust: ByAgent, Text: sampleHash(1), Sources: sources, From: []ID{sampleID(1), sampleID(2)}}
		change(e.Memory)
		return e
	}
	changed := func(change func(*Memory)) *Event {
		e := event(KindMemoryChanged)
		e.Memory = &Memory{State: Withdrawn, Of: sampleID(1)}
		change(e.Memory)
		return e
	}
	document := func(d StoredDocument) *Event {
		e := event(KindDocument)
		e.Document = &d
		return e
	}
	for _, e := range []*Event{
		saved(func(*Memory) {}), changed(func(*Memory) {}), document(StoredDocument{Version: 1, Text: sampleHash(1)}),
		changed(func(m *Memory) { m.State, m.Text, m.Private = Accepted, sampleHash(1), true }),
	} {
		if err := e.Validate(); err != nil {
			t.Errorf("%+v: %v", e, err)
		}
	}
	many := make([]Source, MaxMemorySources+1)
	for i := range many {
		many[i] = Source{Turn: Ref{Session: ID{1}, Turn: ID{14: 1, 15: byte(i)}}, Hash: Hash{1}}
	}
	elsewhere := func(c Chain) *Event {
		e := saved(func(*Memory) {})
		e.Chain = c
		return e
	}
	learned := saved(func(*Memory) {})
	learned.Learned = []Learned{{Kind: Daily, Text: sampleHash(1)}}
	for name, e := range map[string]*Event{
		"no memory":                     event(KindMemory),
		"no document":                   event(KindDocument),
		"saved withdrawn":               saved(func(m *Memory) { m.State = Withdrawn }),
		"no kind":                       saved(func(m *Memory) { m.Kind = 0 }),
		"an unknown kind":               saved(func(m *Memory) { m.Kind = 5 }),
		"no trust":                      saved(func(m *Memory) { m.Trust = 0 }),
		"an unknown trust":              saved(func(m *Memory) { m.Trust = 4 }),
		"no digest":                     saved(func(m *Memory) { m.Text = Hash{} }),
		"of another":                    saved(func(m *Memory) { m.Of = sampleID(1) }),
		"supersedes itself":             saved(func(m *Memory) { m.Supersedes = sampleID(9) }),
		"half a branch":                 saved(func(m *Memory) { m.Branch = Ref{Session: sampleID(1)} }),
		"half a source":                 saved(func(m *Memory) { m.Sources = []Source{{Turn: Ref{Session: sampleID(1)}, Hash: sampleHash(1)}} }),
		"a source without its hash":     saved(func(m *Memory) { m.Sources = []Source{{Turn: sampleRef(1, 1)}} }),
		"a source twice":                saved(func(m *Memory) { m.Sources = []Source{sources[0], sources[0]} }),
		"sources in another order":      saved(func(m *Memory) { m.Sources = []Source{sources[1], sources[0]} }),
		"too many sources":              saved(func(m *Memory) { m.Sources = many }),
		"derived from one twice":        saved(func(m *Memory) { m.From = []ID{sampleID(1), sampleID(1)} }),
		"derived from none":             saved(func(m *Memory) { m.From = []ID{{}} }),
		"proposed by a change":          changed(func(m *Memory) { m.State = Proposed }),
		"a change of none":              changed(func(m *Memory) { m.Of = ID{} }),
		"a change of itself":            changed(func(m *Memory) { m.Of = sampleID(9) }),
		"a change with a kind":          changed(func(m *Memory) { m.Kind = Daily }),
		"a change with sources":         changed(func(m *Memory) { m.Sources = sources }),
		"promoted without a digest":     changed(func(m *Memory) { m.State = Accepted }),
		"withdrawn and private":         changed(func(m *Memory) { m.Private = true }),
		"version 0":                     document(StoredDocument{Text: sampleHash(1)}),
		"a document without its digest": document(StoredDocument{Version: 1}),
		"on a session's chain":          elsewhere(SessionChain(sampleID(1))),
		"on a tenant's chain":           elsewhere(Chain{Entity: TenantEntity, ID: "coder"}),
		"a path as an agent":            elsewhere(Chain{Entity: AgentEntity, ID: "../main"}),
		"a subject as an agent":         elsewhere(Chain{Entity: AgentEntity, ID: "a.b"}),
		"learned":                       learned,
	} {
		if err := e.Validate(); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %v, want malformed", name, err)
		}
	}
	c := &Event{Version: Version, Kind: KindCompaction, ID: sampleID(9), Chain: SessionChain(sampleID(1)), Recorded: 1, Index: 1, Prev: sampleHash(1),
		Parent: sampleRef(1, 1), Depth: 2, Segment: sampleID(1), Span: &Span{Provenance: ByNexus}}
	for _, learned := range [][]Learned{{{Kind: Daily}}, {{Text: sampleHash(1)}}, {{Kind: 5, Text: sampleHash(1)}}, make([]Learned, MaxLearned+1)} {
		if c.Learned = learned; !errors.Is(c.Validate(), ErrMalformed) {
			t.Errorf("%d learned memories are valid", len(learned))
		}
	}
}

func TestMemoryWordsAreParsedAsTheyAreWritten(t *testing.T) {
	for k := Daily; k <= Semantic; k++ {
		if got, err := ParseMemoryKind(k.String()); got != k || err != nil {
			t.Errorf("%s: %v, %v", k, got, err)
		}
	}
	for tr := ByAgent; tr <= ByTool; tr++ {
		if got, err := ParseTrust(tr.String()); got != tr || err != nil {
			t.Errorf("%s: %v, %v", tr, got, err)
		}
	}
	for _, s := range []string{"", "Daily", "memory(9)"} {
		_, err := ParseMemoryKind(s)
		_, err2 := ParseTrust(s)
		if !errors.Is(err, ErrMalformed) || !errors.Is(err2, ErrMalformed) {
			t.Errorf("%q: %v, %v", s, err, err2)
		}
	}
}

func TestIDsOfLearnedMemoriesAreTheirOwn(t *testing.T) {
	seen := map[ID]bool{}
	for _, c := range []Ref{sampleRef(1, 1), sampleRef(1, 2), sampleRef(2, 1)} {
		for i := range 3 {
			id := LearnedID(c, i)
			if seen[id] || !strings.HasPrefix(id.String(), c.Turn.String()[:9]) || id.IsReserved() {
				t.Errorf("memory %d of %s: %s", i, c, id)
			}
			seen[id] = true
		}
	}
}
