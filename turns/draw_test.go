package turns

import (
	"maps"
	"slices"

	"pgregory.net/rapid"
)

// drawEvent draws a valid event of any kind, and a body of its kind or none.
func drawEvent(t *rapid.T) (*Event, any) {
	return drawEventOf(t, rapid.SampledFrom(slices.Sorted(maps.Keys(kindNames))).Draw(t, "kind"))
}

func drawEventOf(t *rapid.T, kind Kind) (*Event, any) {
	self := drawID(t)
	e := &Event{Version: 1, Kind: kind, ID: drawID(t), Chain: SessionChain(self), Recorded: rapid.Int64Range(1, 1<<63-1).Draw(t, "recorded"),
		Claimed: rapid.Int64().Draw(t, "claimed"), Actor: rapid.SampledFrom([]string{"", "acme/coder", "acme/Ünïcode", " "}).Draw(t, "actor"), Digest: drawHash(t)}
	if rapid.Bool().Draw(t, "blobs") {
		e.Blobs = rapid.SliceOfNDistinct(rapid.Custom(func(t *rapid.T) BlobLink { return BlobLink{Address: drawHash(t), Size: drawCount(t)} }), 1, 4,
			func(b BlobLink) Hash { return b.Address }).Draw(t, "links")
		slices.SortFunc(e.Blobs, BlobLink.compare)
	}
	if kind != KindOpened {
		e.Index, e.Prev = max(1, drawCount(t)), drawHash(t)
	}
	body := drawKind(t, e, self)
	if rapid.Bool().Draw(t, "no body") {
		return e, nil
	}
	return e, body
}

func drawKind(t *rapid.T, e *Event, self ID) any {
	if e.Kind.IsTurn() {
		e.Parent, e.Segment, e.Depth = drawRef(t), drawID(t), max(2, drawCount(t))
		e.Tokens = Tokens{Counter: rapid.SampledFrom([]string{"", "approx-1"}).Draw(t, "counter"), Messages: drawCount(t), Response: drawCount(t)}
		e.Open = drawCount(t)
		if rapid.Bool().Draw(t, "usage") {
			e.Usage = &Usage{drawCount(t), drawCount(t), drawCount(t), drawCount(t)}
		}
	}
	switch e.Kind {
	case KindOpened:
		e.Origin = &Origin{Ledger: drawID(t), Tenant: "acme", Session: self}
		e.Root, e.Agent, e.Timed = self, "coder", rapid.Bool().Draw(t, "timed")
		e.Role = rapid.SampledFrom([]SessionKind{"", Peer, Main, Task}).Draw(t, "role")
		if rapid.Bool().Draw(t, "fork") {
			e.Root = drawID(t)
			e.ForkOf = &ForkOf{At: drawRef(t), Hash: drawHash(t), Mode: ForkMode(rapid.IntRange(1, 3).Draw(t, "mode"))}
		}
		if rapid.Bool().Draw(t, "spawned") {
			e.SpawnedBy = Ref{Session: drawID(t)}
		}
		return &OpenedBody{Label: drawText(t), Settings: drawSettings(t)}
	case KindTurn:
		if rapid.Bool().Draw(t, "root") {
			e.Parent, e.Depth = Ref{}, 1
		}
		e.Halves, e.Calls, e.Late, e.Abandoned = Halves(rapid.IntRange(1, 3).Draw(t, "halves")), drawCount(t), drawCount(t), drawCount(t)
		if rapid.Bool().Draw(t, "external") {
			e.External = &ExternalLink{Channel: "0123456789abcdef0123456789abcdef", ID: drawID(t)}
		}
		b := &TurnBody{Messages: drawMessages(t), Model: drawText(t), Meta: drawObject(t), Preamble: drawHash(t)}
		if rapid.Bool().Draw(t, "response") {
			m := drawMessage(t)
			b.Response = &m
		}
		if rapid.Bool().Draw(t, "context") {
			b.Context = &ContextRef{Recipe: drawRaw(t), Fingerprint: drawText(t)}
		}
		return b
	case KindCompaction:
		e.Span = &Span{Through: drawRef(t), FirstKept: drawRef(t), SawThrough: drawRef(t), Provenance: ByNexus, Covered: drawCount(t)}
		if rapid.Bool().Draw(t, "split") {
			e.Span.FirstKept, e.Span.Split = e.Span.Through, true
		}
		b := &CompactionBody{Policy: PolicyRef{Name: drawText(t), Set: drawObject(t), Digest: drawHash(t)}, Trigger: Trigger{Kind: "manual", Detail: drawRaw(t)},
			Mode: "manual", Replacement: drawMessages(t), Summary: drawText(t), CostMicros: rapid.Uint64().Draw(t, "cost")}
		for range rapid.IntRange(0, 3).Draw(t, "elisions") {
			e.Span.Elisions = append(e.Span.Elisions, Elision{Turn: drawRef(t), Half: MessagesHalf, Message: 3, Part: 4})
			b.Elided = append(b.Elided, ElidedPart{Method: "trimmed", Show: drawText(t), Before: drawCount(t)})
		}
		for range rapid.IntRange(0, 2).Draw(t, "learned") {
			e.Learned = append(e.Learned, Learned{Kind: MemoryKind(rapid.IntRange(1, 4).Draw(t, "memory kind")), Text: drawHash(t)})
		}
		return b
	case KindMoved:
		if rapid.Bool().Draw(t, "somewhere") {
			e.To = drawRef(t)
		}
		return &MovedBody{Note: drawText(t)}
	case KindHidden:
		e.Hidden = rapid.Bool().Draw(t, "hidden")
		return &HiddenBody{Cause: drawText(t)}
	case KindDescribed:
		b := &DescribedBody{Title: drawText(t), Project: drawText(t)}
		if n := rapid.IntRange(0, 3).Draw(t, "tags"); n > 0 {
			b.Tags = rapid.SliceOfN(rapid.Custom(drawText), n, n).Draw(t, "the tags")
		}
		return b
	case KindNoted:
		e.To = drawRef(t)
		return &NotedBody{Text: drawText(t)}
	case KindRedacted:
		e.To = Ref{Session: self, Turn: drawID(t)}
		b := &RedactedBody{Kind: KindTurn, Body: rapid.SliceOfN(rapid.Byte(), 1, 40).Draw(t, "the body")}
		for range rapid.IntRange(1, 4).Draw(t, "leaves") {
			b.Leaves = append(b.Leaves, RedactedLeaf{State: LeafState(rapid.IntRange(1, 2).Draw(t, "leaf state")), Value: drawHash(t)})
		}
		return b
	case KindChanged:
		return &ChangedBody{Label: drawText(t), Settings: drawSettings(t)}
	case KindState:
		e.State = State(rapid.IntRange(1, 4).Draw(t, "state"))
		if e.State == Reset {
			e.Successor = drawID(t)
		}
		return &StateBody{Cause: drawText(t), Due: rapid.Int64().Draw(t, "due")}
	case KindFlush:
		f := &Flush{State: FlushState(rapid.IntRange(1, 4).Draw(t, "flush")), Cycle: 1, Try: rapid.Uint64Range(1, MaxFlushTries).Draw(t, "try")}
		if rapid.Bool().Draw(t, "later cycle") {
			f.Cycle, f.After = max(2, drawCount(t)), drawRef(t)
		}
		if e.Flush = f; f.State == FlushBegun {
			f.Lease = rapid.Int64Range(1, 1<<63-1).Draw(t, "lease")
			return nil
		}
		if rapid.Bool().Draw(t, "usage") {
			e.Usage = &Usage{drawCount(t), drawCount(t), drawCount(t), drawCount(t)}
		}
		return &FlushBody{Saved: drawCount(t), Response: drawText(t), Error: drawText(t)}
	case KindPolicy:
		e.Chain, e.Policy = Chain{Entity: TenantEntity, ID: "acme"}, &StoredPolicy{Digest: drawHash(t)}
		if rapid.Bool().Draw(t, "put") {
			e.Agent, e.Policy.Name, e.Policy.Version = "coder", drawHash(t), max(1, drawCount(t))
		}
		return &PolicyBody{Name: drawText(t), Version: drawCount(t), Content: []byte(drawText(t))}
	case KindMemory:
		e.Chain = Chain{Entity: AgentEntity, ID: "coder"}
		e.Memory = &Memory{State: MemoryState(rapid.IntRange(1, 2).Draw(t, "memory state")), Kind: MemoryKind(rapid.IntRange(1, 4).Draw(t, "memory kind")),
			Trust: Trust(rapid.IntRange(1, 3).Draw(t, "trust")), Text: drawHash(t), Private: rapid.Bool().Draw(t, "private"), ValidFrom: rapid.Int64().Draw(t, "valid from")}
		if rapid.Bool().Draw(t, "on a branch") {
			e.Memory.Branch, e.Memory.Sources = drawRef(t), drawSources(t)
		}
		if rapid.Bool().Draw(t, "derived") {
			e.Memory.From, e.Memory.Supersedes = []ID{drawID(t)}, drawID(t)
		}
		return &MemoryBody{Text: drawText(t), Zone: drawText(t), User: drawText(t)}
	case KindMemoryChanged:
		e.Chain = Chain{Entity: AgentEntity, ID: "coder"}
		e.Memory = &Memory{State: Withdrawn, Of: drawID(t)}
		if rapid.Bool().Draw(t, "promoted") {
			e.Memory = &Memory{State: Accepted, Of: drawID(t), Text: drawHash(t), Private: rapid.Bool().Draw(t, "private")}
		}
		return &MemoryChangedBody{Reason: drawText(t)}
	case KindDocument:
		e.Chain = Chain{Entity: AgentEntity, ID: "coder"}
		e.Document = &StoredDocument{Version: max(1, drawCount(t)), Text: drawHash(t), Sources: drawSources(t)}
		return &DocumentBody{Text: drawText(t)}
	case KindReceived:
		e.Chain, e.Agent = Chain{Entity: ChannelEntity, ID: "0123456789abcdef0123456789abcdef"}, "coder"
		return &ReceivedBody{Channel: drawText(t), Kind: drawText(t), Body: drawRaw(t), Meta: drawObject(t)}
	default:
		e.Chain = Chain{Entity: LabelEntity, ID: "0123456789abcdef0123456789abcdef"}
		e.Agent, e.To = "coder", Ref{Session: drawID(t)}
		return &ClaimedBody{Label: drawText(t)}
	}
}

func drawSettings(t *rapid.T) Settings {
	s := Settings{Policy: PolicyRef{Name: drawText(t)}, Model: drawText(t), Limits: Limits{ContextWindow: drawCount(t)}, Meta: drawObject(t), User: drawText(t)}
	for range rapid.IntRange(0, 2).Draw(t, "sections") {
		s.Preamble.System = append(s.Preamble.System, Section{Name: drawText(t), Content: drawText(t)})
		s.Preamble.Tools = append(s.Preamble.Tools, Raw(`{}`))
	}
	if rapid.Bool().Draw(t, "apart") {
		s.Preamble, s.PreambleBlob = Preamble{}, &BlobRef{Digest: drawHash(t), Size: drawCount(t)}
	}
	return s
}

func drawMessages(t *rapid.T) (ms []Message) {
	for range rapid.IntRange(0, 3).Draw(t, "messages") {
		ms = append(ms, drawMessage(t))
	}
	return ms
}

func drawMessage(t *rapid.T) Message {
	m := Message{Role: rapid.SampledFrom([]Role{System, User, Assistant, Tool}).Draw(t, "role"), Name: drawText(t)}
	for range rapid.IntRange(0, 3).Draw(t, "parts") {
		p := Part{Type: rapid.SampledFrom([]PartType{Text, ToolCall, ToolCallResponse, Reasoning, Blob, URI, File}).Draw(t, "type"),
			Content: drawText(t), Arguments: drawRaw(t), IsError: rapid.Bool().Draw(t, "error"), Ext: drawObject(t)}
		if b := rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(t, "data"); len(b) > 0 {
			p.Data = b
		}
		if rapid.Bool().Draw(t, "ref") {
			p.Ref = &BlobRef{Digest: drawHash(t), Size: drawCount(t), Preview: drawText(t)}
			if rapid.Bool().Draw(t, "in pieces") {
				p.Ref.Pieces = []Hash{drawHash(t), drawHash(t)}
			}
		}
		m.Parts = append(m.Parts, p)
	}
	return m
}

func drawRaw(t *rapid.T) Raw {
	return rapid.SampledFrom([]Raw{nil, Raw("null"), Raw(`""`), Raw("12345678901234567890"), Raw(`{"b":[1e999],"a":{}}`), Raw(" [1 ] ")}).Draw(t, "raw")
}

func drawObject(t *rapid.T) Raw {
	return rapid.SampledFrom([]Raw{nil, Raw(`{}`), Raw(`{"b":[1e999],"a":{}}`), Raw(` {"a":null} `)}).Draw(t, "object")
}

func drawText(t *rapid.T) string { return rapid.StringN(0, 12, -1).Draw(t, "text") }

func drawCount(t *rapid.T) uint64 { return rapid.Uint64Range(0, MaxCount).Draw(t, "count") }

func drawID(t *rapid.T) ID {
	b := rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "id")
	b[15] |= 1
	return ID(b)
}

func drawHash(t *rapid.T) Hash {
	b := rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "hash")
	b[31] |= 1
	return Hash(b)
}

func drawSources(t *rapid.T) []Source {
	ss := rapid.SliceOfNDistinct(rapid.Custom(func(t *rapid.T) Source { return Source{Turn: drawRef(t), Hash: drawHash(t)} }), 0, 3,
		func(s Source) Ref { return s.Turn }).Draw(t, "sources")
	if len(ss) == 0 {
		return nil
	}
	slices.SortFunc(ss, CompareSources)
	return ss
}

func drawRef(t *rapid.T) Ref { return Ref{Session: drawID(t), Turn: drawID(t)} }
