package turns

import "strings"

// The events of the golden files: one or more of each kind, each field of the
// format in at least one of them. They are frozen like the files: a new case is
// a new sample.

type sample struct {
	name  string
	event Event
	body  any // nil: no body
}

func sampleID(n byte) ID {
	return ID{0x01, 0x9a, 0x00, 0x00, 0x00, n, 1, 2, 3, 4, 5, 6, 7, 8, 9, n}
}

func sampleHash(n byte) (h Hash) {
	for i := range h {
		h[i] = n + byte(i)
	}
	return h
}

func sampleRef(session, turn byte) Ref {
	return Ref{Session: sampleID(session), Turn: sampleID(turn)}
}

const sampleTime = 1_790_000_000_123_456_789

func head(kind Kind, n byte) Event {
	e := Event{Version: 1, Kind: kind, ID: sampleID(n), Chain: SessionChain(sampleID(1)), Index: uint64(n), Prev: sampleHash(n),
		Recorded: sampleTime, Actor: "acme/coder", Digest: sampleHash(n + 100)}
	return e
}

func samples() []sample {
	settings := Settings{
		Policy:   PolicyRef{Name: "balanced", Set: Raw(`{"keep_turns": 4}`), Digest: sampleHash(50)},
		Model:    "large-1",
		Preamble: Preamble{System: []Section{{Name: "rules", Content: "Be brief."}, {Content: "Zürich ✓"}}, Tools: []Raw{Raw(`{"name":"ls","parameters":{}}`)}},
		Limits:   Limits{ContextWindow: 200000, MaxOutputTokens: 8192, SafetyMargin: 1000},
		Meta:     Raw(`{"n": 9007199254740993}`), User: "u-1", Reset: Raw(`{"at":"04:00"}`),
	}
	origin := &Origin{Ledger: [16]byte{0xa, 0xb, 0xc, 15: 1}, Tenant: "acme", Session: sampleID(1)}

	opened := head(KindOpened, 0)
	opened.Prev = Hash{}
	opened.Origin, opened.Root, opened.Agent = origin, sampleID(1), "coder"

	forked := opened
	forked.Claimed, forked.Role, forked.SpawnedBy = -5, Task, Ref{Session: sampleID(9)}
	forked.Root = sampleID(2)
	forked.ForkOf = &ForkOf{At: sampleRef(2, 7), Hash: sampleHash(60), Mode: Summary}

	minimal := Event{Version: 1, Kind: KindTurn, ID: sampleID(3), Chain: SessionChain(sampleID(1)), Index: 1, Prev: sampleHash(1), Recorded: 1,
		Depth: 1, Segment: sampleID(3), Halves: 1}

	turn := head(KindTurn, 4)
	turn.Claimed, turn.Parent, turn.Depth, turn.Segment = sampleTime-7, sampleRef(1, 3), 24, sampleID(3)
	turn.Halves, turn.Calls, turn.Tokens = 3, 1, Tokens{Counter: "approx-1", Messages: 300, Response: 70000}
	turn.Usage = &Usage{InputTokens: 1000, OutputTokens: 65536, CacheRead: 900, CacheCreation: MaxCount}
	turn.Open, turn.Late, turn.Abandoned = 1, 2, 3
	turn.Blobs = []BlobLink{{Address: sampleHash(1), Size: 1 << 20}, {Address: sampleHash(2), Size: 0}}

	compaction := head(KindCompaction, 5)
	compaction.Parent, compaction.Depth, compaction.Segment = sampleRef(1, 4), 25, sampleID(3)
	compaction.Tokens = Tokens{Counter: "approx-1", Messages: 12}
	compaction.Span = &Span{Through: sampleRef(1, 3), FirstKept: sampleRef(1, 3), Split: true, SawThrough: sampleRef(1, 3), Previous: sampleRef(1, 2),
		Provenance: ByNexus, Covered: 3, Elisions: []Elision{{Turn: sampleRef(1, 3), Half: MessagesHalf, Message: 2, Part: 1}, {Turn: sampleRef(1, 4), Half: ResponseHalf, Part: 3}}}

	dropped := head(KindCompaction, 6)
	dropped.Parent, dropped.Depth, dropped.Segment = sampleRef(1, 5), 26, sampleID(3)
	dropped.Span = &Span{Through: sampleRef(1, 5), Provenance: Imported, Dropped: true, Covered: 1}

	call := head(KindCompaction, 12)
	call.Parent, call.Depth, call.Segment = sampleRef(1, 5), 26, sampleID(3)
	call.Tokens = Tokens{Counter: "approx-1", Messages: 40, Response: 900}
	call.Span = &Span{FirstKept: sampleRef(1, 3), SawThrough: sampleRef(1, 4), Provenance: ByNexus, Call: true,
		Elisions: []Elision{{Turn: sampleRef(1, 3), Half: MessagesHalf}}}
	said := minimal
	said.ID, said.UserTexts = sampleID(13), 1

	sent := minimal
	sent.ID, sent.Sender = sampleID(18), "UA"+strings.Repeat("Z2", 27)

	inPieces := minimal
	inPieces.ID = sampleID(19)
	inPieces.Blobs = []BlobLink{{Address: sampleHash(131), Size: MaxPiece}, {Address: sampleHash(132), Size: 1}}

	moved := head(KindMoved, 7)
	moved.To = sampleRef(1, 3)
	back := head(KindMoved, 8)
	hidden := head(KindHidden, 31)
	hidden.Hidden = true
	shown := head(KindHidden, 32)
	described := head(KindDescribed, 33)
	noted := head(KindNoted, 34)
	noted.To = sampleRef(1, 3)
	marked, err := EncodeBody(&TurnBody{Messages: []Message{TextMessage(User, "[redacted]")}})
	if err != nil {
		panic(err)
	}
	redacted := head(KindRedacted, 35)
	redacted.To = sampleRef(1, 13)
	changed := head(KindChanged, 9)
	reset := head(KindState, 10)
	reset.State, reset.Successor = Reset, sampleID(20)
	closed := head(KindState, 11)
	closed.State = Closed
	claimed := head(KindClaimed, 0)
	claimed.Chain, claimed.Prev, claimed.Digest = Chain{Entity: LabelEntity, ID: "0123456789abcdef0123456789abcdef"}, Hash{}, Hash{}
	claimed.Agent, claimed.To = "coder", Ref{Session: sampleID(1)}

	apart := changed
	apart.Blobs = []BlobLink{{Address: sampleHash(90), Size: 70000}}
	begun := head(KindFlush, 14)
	begun.Flush = &Flush{State: FlushBegun, Cycle: 1, Try: 1, Lease: sampleTime + 300_000_000_000}
	silent := head(KindFlush, 15)
	silent.Flush = &Flush{State: FlushSilent, Cycle: 3, After: sampleRef(1, 5), Try: 2}
	silent.Usage = &Usage{InputTokens: 176_001, OutputTokens: 90, CacheRead: 175_000}
	answered := head(KindFlush, 16)
	answered.Flush = &Flush{State: FlushDone, Cycle: 1, Try: 1}
	failed := head(KindFlush, 17)
	failed.Flush = &Flush{State: FlushFailed, Cycle: 1, Try: 1}

	stored := head(KindPolicy, 0)
	stored.Chain, stored.Prev, stored.Digest = Chain{Entity: TenantEntity, ID: "acme"}, Hash{}, Hash{}
	stored.Policy = &StoredPolicy{Digest: sampleHash(120)}
	put := head(KindPolicy, 1)
	put.Chain, put.Agent = stored.Chain, "coder"
	put.Policy = &StoredPolicy{Digest: sampleHash(121), Name: sampleHash(122), Version: 2}

	saved := head(KindMemory, 0)
	saved.Chain, saved.Prev = Chain{Entity: AgentEntity, ID: "coder"}, Hash{}
	saved.Memory = &Memory{State: Accepted, Kind: Daily, Trust: ByAgent, Text: sampleHash(140)}
	branched := head(KindMemory, 1)
	branched.Chain = saved.Chain
	branched.Memory = &Memory{State: Proposed, Kind: Semantic, Trust: ByTool, Text: sampleHash(141), Private: true, Branch: sampleRef(1, 3), ValidFrom: sampleTime - 9,
		Sources: []Source{{Turn: sampleRef(1, 3), Hash: sampleHash(142)}, {Turn: sampleRef(2, 1), Hash: sampleHash(143)}}, From: []ID{sampleID(21), sampleID(22)}, Supersedes: sampleID(23)}
	promoted := head(KindMemoryChanged, 2)
	promoted.Chain, promoted.Memory = saved.Chain, &Memory{State: Accepted, Of: sampleID(21), Text: sampleHash(144)}
	withdrawn := head(KindMemoryChanged, 3)
	withdrawn.Chain, withdrawn.Memory = saved.Chain, &Memory{State: Withdrawn, Of: sampleID(21)}
	document := head(KindDocument, 4)
	document.Chain, document.Document = saved.Chain, &StoredDocument{Version: 2, Text: sampleHash(145), Sources: branched.Memory.Sources}
	learned := compaction
	learned.Learned = []Learned{{Kind: Daily, Text: sampleHash(146)}, {Kind: Semantic, Text: sampleHash(147)}}
	timed := changed
	timed.Timed = true
	due := reset
	received := head(KindReceived, 3)
	received.Chain, received.Agent = Chain{Entity: ChannelEntity, ID: "0123456789abcdef0123456789abcdef"}, "coder"
	apartReceived := received
	apartReceived.Blobs = []BlobLink{{Address: sampleHash(140), Size: 900_000}}
	linked := minimal
	linked.External = &ExternalLink{Channel: received.Chain.ID, ID: sampleID(30)}

	return []sample{
		{"memory", saved, &MemoryBody{Text: "The user prefers TypeScript."}},
		{"memory-extracted", saved, &MemoryBody{Text: "The user prefers TypeScript.", Zone: "Pacific/Pago_Pago", Extracted: true}},
		{"memory-branch", branched, &MemoryBody{Text: "The deploy runs on Tuesdays.", Zone: "Europe/Zurich", User: "u-1"}},
		{"memory-promoted", promoted, &MemoryChangedBody{}},
		{"memory-withdrawn", withdrawn, &MemoryChangedBody{Reason: "it was wrong"}},
		{"document", document, &DocumentBody{Text: "# Memory\n"}},
		{"compaction-memories", learned, &CompactionBody{
			Policy: PolicyRef{Name: "gsv"}, Trigger: Trigger{Kind: "manual"}, Mode: "manual", Tier: "llm", Summary: "x",
			Elided:   []ElidedPart{{Method: "trimmed", Show: "a…b", Before: 5000, After: 3}, {Method: "cleared", Before: 10}},
			Memories: Raw(`[{"text":"a"},{"kind":"fact","text":"b"}]`)}},
		{"opened", opened, &OpenedBody{Label: "coder/telegram", Settings: settings}},
		{"opened-fork", forked, &OpenedBody{Settings: Settings{Policy: PolicyRef{Name: "balanced"}}}},
		{"turn-minimal", minimal, &TurnBody{Messages: []Message{TextMessage(User, "hi")}}},
		{"turn", turn, &TurnBody{Messages: sampleMessages(), Response: sampleResponse(), Model: "large-1", Meta: Raw(`{"k":[1,2]}`),
			Context: &ContextRef{Recipe: Raw(`{"v":1}`), Fingerprint: "f-1"}, Preamble: sampleHash(70)}},
		{"turn-no-body", minimal, nil},
		{"turn-sent", sent, nil},
		{"turn-in-pieces", inPieces, &TurnBody{Messages: []Message{{Role: Tool, Parts: []Part{
			{Type: ToolCallResponse, ID: "call-1", Ref: &BlobRef{Digest: sampleHash(130), Size: MaxPiece + 1, Preview: `"a`, Pieces: []Hash{sampleHash(131), sampleHash(132)}}},
		}}}}},
		{"compaction", compaction, &CompactionBody{
			Policy: settings.Policy, Trigger: Trigger{Kind: "threshold", Detail: Raw(`{"over":12}`)}, Mode: "before_call", Tier: "extractive",
			Plan: sampleHash(80), Replacement: []Message{TextMessage(User, "<summary>x</summary>")}, Summary: "x",
			Elided:       []ElidedPart{{Method: "trimmed", Show: "a…b", Before: 5000, After: 3}, {Method: "cleared", Before: 10}},
			TokensBefore: 90000, TokensAfter: 12, Survival: Raw(`{"names":3}`), CostMicros: 1500, DurationMS: 20, Focus: "tests",
			FromOriginals: true, Memories: Raw(`[]`), Flush: "skipped", Meta: Raw(`{}`)}},
		{"compaction-imported", dropped, &CompactionBody{Policy: PolicyRef{Name: "import"}, Trigger: Trigger{Kind: "manual"}, Mode: "manual"}},
		{"compaction-call", call, &CompactionBody{
			Policy: PolicyRef{Name: "wolffish"}, Trigger: Trigger{Kind: "overflow"}, Mode: "before_call", Tier: "llm", Summary: "x",
			Elided: []ElidedPart{{Method: "trimmed", Show: "a…b", Before: 5000, After: 3}}, Nudge: []Message{TextMessage(User, "x, go on")}}},
		{"compaction-model", compaction, &CompactionBody{
			Policy: PolicyRef{Name: "wolffish"}, Trigger: Trigger{Kind: "manual"}, Mode: "manual", Tier: "helper", Model: "small-1", Summary: "x",
			Elided: []ElidedPart{{Method: "trimmed", Show: "a…b", Before: 5000, After: 3}, {Method: "cleared", Before: 10}}}},
		{"compaction-tool", call, &CompactionBody{
			Policy: PolicyRef{Name: "wolffish"}, Trigger: Trigger{Kind: "overflow"}, Mode: "before_call", Tier: "llm", Summary: "x",
			Elided: []ElidedPart{{Method: "trimmed", Show: "a…b", Before: 5000, After: 3, Tool: "read_file"}}, Nudge: []Message{TextMessage(User, "x, go on")}}},
		{"turn-said", said, &TurnBody{Messages: []Message{TextMessage(User, "hi")}}},
		{"hidden", hidden, &HiddenBody{Cause: "import 01K8000003041061050R3GG281 is undone"}},
		{"shown-again", shown, nil},
		{"described", described, &DescribedBody{Title: "The slow import", Tags: []string{"import", "Zürich"}, Project: "github.com/acme/shelf"}},
		{"described-no-more", described, &DescribedBody{}},
		{"noted", noted, &NotedBody{Text: "Here the lock was chosen."}},
		{"redacted", redacted, &RedactedBody{Kind: KindTurn, Body: marked, Leaves: []RedactedLeaf{{State: LeafStays, Value: sampleHash(150)}, {State: LeafTaken, Value: sampleHash(151)}}}},
		{"moved", moved, &MovedBody{Note: "undo"}},
		{"moved-to-start", back, &MovedBody{}},
		{"changed", changed, &ChangedBody{Label: "coder/telegram", Settings: settings}},
		{"changed-apart", apart, &ChangedBody{Settings: Settings{Policy: settings.Policy, PreambleBlob: &BlobRef{Digest: sampleHash(90), Size: 70000}}}},
		{"state-reset", reset, &StateBody{Cause: "idle"}},
		{"state-closed", closed, nil},
		{"flush-begun", begun, nil},
		{"flush-silent", silent, &FlushBody{Saved: 3}},
		{"flush-done", answered, &FlushBody{Response: "I saved two facts."}},
		{"flush-failed", failed, &FlushBody{Error: "rate_limit"}},
		{"policy", stored, &PolicyBody{Name: "balanced", Version: 1, Content: []byte(`{"name":"balanced","version":1}`)}},
		{"policy-put", put, &PolicyBody{Name: "mine", Version: 2, Content: []byte(`{"name":"mine","version":2}`)}},
		{"changed-timed", timed, &ChangedBody{Settings: Settings{Policy: PolicyRef{Name: "balanced"}, Reset: Raw(`{"mode":"daily","time_zone":"Europe/Paris"}`)}}},
		{"changed-spawner", changed, &ChangedBody{Settings: Settings{Policy: PolicyRef{Name: "balanced"}, SpawnedBy: sampleRef(9, 10)}}},
		{"state-reset-due", due, &StateBody{Cause: "daily", Due: sampleTime}},
		{"received", received, &ReceivedBody{Channel: "mail/inbox", Kind: "mail.received", Body: Raw(`{"subject":"hi"}`), Meta: Raw(`{"source":"imap"}`)}},
		{"received-apart", apartReceived, &ReceivedBody{Channel: "mail/inbox", Kind: "mail.received", Blob: &BlobRef{Digest: sampleHash(140), Size: 900_000}}},
		{"turn-external", linked, &TurnBody{Messages: []Message{TextMessage(User, "hi")}, Meta: Raw(`{"event":{"channel":"mail/inbox","id":"01ARZ3NDEKTSV4RRFFQ69G5FAV"}}`)}},
		{"claimed", claimed, &ClaimedBody{Label: "coder/telegram"}},
	}
}

func sampleMessages() []Message {
	ref := &BlobRef{Digest: sampleHash(1), Size: 1 << 20, MimeType: "text/plain", Preview: "first line"}
	return []Message{
		{Role: System, Parts: []Part{TextPart("note")}},
		{Role: Tool, Name: "shell", Parts: []Part{
			{Type: ToolCallResponse, ID: "call-1", Name: "ls", Response: Raw(`"a\nb"`), IsError: true},
			{Type: ToolCallResponse, ID: "call-2", Ref: ref},
		}},
		{Role: User, Parts: []Part{
			TextPart(""), {Type: Blob, Modality: "image", MimeType: "image/png", Data: []byte{0x89, 'P', 0, 0xff}},
			{Type: URI, Modality: "image", MimeType: "image/png", Content: "https://example.org/a.png"},
			{Type: File, Modality: "document", MimeType: "application/pdf", Content: "file-1"},
			{Type: Blob, MimeType: "text/plain", Ref: &BlobRef{Digest: sampleHash(2)}},
		}},
		{Role: User},
	}
}

func sampleResponse() *Message {
	return &Message{Role: Assistant, FinishReason: "tool_calls", Parts: []Part{
		{Type: Reasoning, Content: "think", Ext: Raw(`{"anthropic":{"signature":"AAA="}}`)},
		{Type: ToolCall, ID: "call-3", Name: "ls", Arguments: Raw(`{"b":1, "a":1e400}`)},
	}}
}

// made is the event with its body in it, unsealed and uncompressed.
func (s sample) made() (*Event, error) {
	e := s.event
	if s.body == nil {
		return &e, nil
	}
	b, err := EncodeBody(s.body)
	if err != nil {
		return nil, err
	}
	e.Body = b
	e.Commitment, err = Commit(e.Kind, b, NoSalts)
	return &e, err
}
