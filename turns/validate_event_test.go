package turns

import (
	"errors"
	"strings"
	"testing"
)

// TestValidateNamesEachFaultOfAnEvent changes one thing of a valid event at a time.
func TestValidateNamesEachFaultOfAnEvent(t *testing.T) {
	byName := map[string]sample{}
	for _, s := range samples() {
		byName[s.name] = s
	}
	half := Ref{Session: sampleID(1)}
	reserved := sampleID(1)
	copy(reserved[:], "\xff\xff\xff\xff\xff\xff")
	for _, tt := range []struct {
		sample, name string
		change       func(e *Event)
		want         error
	}{
		{"turn", "version", func(e *Event) { e.Version = 2 }, ErrMalformed},
		{"turn", "no id", func(e *Event) { e.ID = ID{} }, ErrMalformed},
		{"turn", "no prev", func(e *Event) { e.Prev = Hash{} }, ErrMalformed},
		{"opened", "prev", func(e *Event) { e.Prev = sampleHash(1) }, ErrMalformed},
		{"turn", "index 0", func(e *Event) { e.Index, e.Prev = 0, Hash{} }, ErrMalformed},
		{"turn", "not recorded", func(e *Event) { e.Recorded = 0 }, ErrMalformed},
		{"turn", "actor not UTF-8", func(e *Event) { e.Actor = "a\xff" }, ErrMalformed},
		{"turn", "a reserved id", func(e *Event) { e.ID = reserved }, ErrMalformed},
		{"turn", "a session with a reserved id", func(e *Event) { e.Chain = SessionChain(reserved) }, ErrMalformed},
		{"turn", "NUL in the actor", func(e *Event) { e.Actor = "acme/a\x00" }, ErrMalformed},
		{"turn", "a line feed in the actor", func(e *Event) { e.Actor = "acme/a\n" }, ErrMalformed},
		{"turn-external", "a channel that is a name", func(e *Event) { e.External = &ExternalLink{Channel: "mail", ID: sampleID(30)} }, ErrMalformed},
		{"opened-fork", "spawned by a turn of no session", func(e *Event) { e.SpawnedBy = Ref{Turn: sampleID(9)} }, ErrMalformed},
		{"claimed", "a label of 31 digits", func(e *Event) { e.Chain.ID = e.Chain.ID[1:] }, ErrMalformed},
		{"claimed", "a label of 33 digits", func(e *Event) { e.Chain.ID += "0" }, ErrMalformed},
		{"claimed", "a label in upper case", func(e *Event) { e.Chain.ID = strings.ToUpper(e.Chain.ID) }, ErrMalformed},
		{"claimed", "a label that is a name", func(e *Event) { e.Chain.ID = strings.Repeat("g", 32) }, ErrMalformed},
		{"received", "a channel that is a name", func(e *Event) { e.Chain.ID = "mail" }, ErrMalformed},
		{"turn", "actor too long", func(e *Event) { e.Actor = strings.Repeat("a", 201) }, ErrMalformed},
		{"turn", "counter not UTF-8", func(e *Event) { e.Tokens.Counter = "\xff" }, ErrMalformed},
		{"turn", "huge count", func(e *Event) { e.Tokens.Messages = MaxCount + 1 }, ErrMalformed},
		{"turn", "huge usage", func(e *Event) { e.Usage = &Usage{InputTokens: 1<<64 - 1} }, ErrMalformed},
		{"turn", "huge blob", func(e *Event) { e.Blobs = []BlobLink{{Address: sampleHash(1), Size: 1 << 60}} }, ErrMalformed},
		{"turn", "blobs unsorted", func(e *Event) { e.Blobs = []BlobLink{e.Blobs[1], e.Blobs[0]} }, ErrMalformed},
		{"turn", "blob twice", func(e *Event) { e.Blobs = []BlobLink{e.Blobs[0], e.Blobs[0]} }, ErrMalformed},
		{"turn", "blob without address", func(e *Event) { e.Blobs = []BlobLink{{Size: 1}} }, ErrMalformed},
		{"turn", "encoding", func(e *Event) { e.Encoding = 4 }, ErrUnsupported},
		{"turn", "sealed without a key", func(e *Event) { e.Encoding = Sealed }, ErrMalformed},
		{"turn", "a key without a seal", func(e *Event) { e.Keys = []ID{sampleID(1)} }, ErrMalformed},
		{"turn", "zero key", func(e *Event) { e.Encoding, e.Keys = Sealed, []ID{{}} }, ErrMalformed},
		{"turn", "key twice", func(e *Event) { e.Encoding, e.Keys = Sealed, []ID{sampleID(1), sampleID(1)} }, ErrMalformed},
		{"turn", "keys unsorted", func(e *Event) { e.Encoding, e.Keys = Sealed, []ID{sampleID(2), sampleID(1)} }, ErrMalformed},
		{"turn", "encoding without a body", func(e *Event) { e.Encoding, e.Body = Zstd, nil }, ErrMalformed},
		{"turn", "halves", func(e *Event) { e.Halves = 4 }, ErrMalformed},
		{"turn", "no halves", func(e *Event) { e.Halves = 0 }, ErrMalformed},
		{"turn", "half a parent", func(e *Event) { e.Parent = half }, ErrMalformed},
		{"turn", "no parent", func(e *Event) { e.Parent = Ref{} }, ErrMalformed},
		{"turn", "depth 0", func(e *Event) { e.Depth = 0 }, ErrMalformed},
		{"turn", "no segment", func(e *Event) { e.Segment = ID{} }, ErrMalformed},
		{"turn", "span", func(e *Event) { e.Span = &Span{Provenance: ByNexus} }, ErrMalformed},
		{"turn", "flush", func(e *Event) { e.Flush = &Flush{State: FlushDone, Cycle: 1, Try: 1} }, ErrMalformed},
		{"flush-begun", "no flush", func(e *Event) { e.Flush = nil }, ErrMalformed},
		{"flush-begun", "flush state 0", func(e *Event) { e.Flush = &Flush{Cycle: 1, Try: 1} }, ErrMalformed},
		{"flush-begun", "flush state 5", func(e *Event) { e.Flush = &Flush{State: 5, Cycle: 1, Try: 1} }, ErrMalformed},
		{"flush-begun", "no lease", func(e *Event) { e.Flush = &Flush{State: FlushBegun, Cycle: 1, Try: 1} }, ErrMalformed},
		{"flush-begun", "a lease before 1970", func(e *Event) { e.Flush = &Flush{State: FlushBegun, Cycle: 1, Try: 1, Lease: -1} }, ErrMalformed},
		{"flush-begun", "a usage", func(e *Event) { e.Usage = &Usage{} }, ErrMalformed},
		{"flush-done", "a lease", func(e *Event) { e.Flush = &Flush{State: FlushDone, Cycle: 1, Try: 1, Lease: 1} }, ErrMalformed},
		{"flush-done", "cycle 0", func(e *Event) { e.Flush = &Flush{State: FlushDone, Try: 1} }, ErrMalformed},
		{"flush-done", "huge cycle", func(e *Event) {
			e.Flush = &Flush{State: FlushDone, Cycle: MaxCount + 1, After: sampleRef(1, 2), Try: 1}
		}, ErrMalformed},
		{"flush-done", "try 0", func(e *Event) { e.Flush = &Flush{State: FlushDone, Cycle: 1} }, ErrMalformed},
		{"flush-done", "try 3", func(e *Event) { e.Flush = &Flush{State: FlushDone, Cycle: 1, Try: 3} }, ErrMalformed},
		{"flush-done", "cycle 2 after nothing", func(e *Event) { e.Flush = &Flush{State: FlushDone, Cycle: 2, Try: 1} }, ErrMalformed},
		{"flush-done", "cycle 1 after a compaction", func(e *Event) { e.Flush = &Flush{State: FlushDone, Cycle: 1, After: sampleRef(1, 2), Try: 1} }, ErrMalformed},
		{"flush-done", "after half a turn", func(e *Event) { e.Flush = &Flush{State: FlushDone, Cycle: 2, After: half, Try: 1} }, ErrMalformed},
		{"turn", "unknown kind", func(e *Event) { e.Kind = 99 }, ErrUnsupported},
		{"turn", "chain of a label", func(e *Event) { e.Chain = Chain{Entity: LabelEntity, ID: "x"} }, ErrMalformed},
		{"turn", "session in lower case", func(e *Event) { e.Chain.ID = strings.ToLower(e.Chain.ID) }, ErrMalformed},
		{"turn", "unknown entity", func(e *Event) { e.Chain.Entity = "z" }, ErrMalformed},
		{"opened", "no origin", func(e *Event) { e.Origin = nil }, ErrMalformed},
		{"opened", "another origin", func(e *Event) { e.Origin = &Origin{Tenant: "acme", Session: sampleID(7)} }, ErrMalformed},
		{"opened", "origin's tenant", func(e *Event) { e.Origin = &Origin{Tenant: "ACME", Session: sampleID(1)} }, ErrMalformed},
		{"opened", "another root, no fork", func(e *Event) { e.Root = sampleID(2) }, ErrMalformed},
		{"opened-fork", "its own root", func(e *Event) { e.Root = sampleID(1) }, ErrMalformed},
		{"opened-fork", "half a fork point", func(e *Event) { e.ForkOf = &ForkOf{At: Ref{Session: sampleID(2)}, Hash: sampleHash(1), Mode: Full} }, ErrMalformed},
		{"opened-fork", "of itself", func(e *Event) { e.ForkOf = &ForkOf{At: sampleRef(1, 2), Hash: sampleHash(1), Mode: Full} }, ErrMalformed},
		{"opened-fork", "mode", func(e *Event) { e.ForkOf = &ForkOf{At: sampleRef(2, 2), Hash: sampleHash(1), Mode: 4} }, ErrMalformed},
		{"opened", "role", func(e *Event) { e.Role = "boss" }, ErrMalformed},
		{"opened", "agent", func(e *Event) { e.Agent = "A" }, ErrMalformed},
		{"compaction", "no span", func(e *Event) { e.Span = nil }, ErrMalformed},
		{"compaction", "half a ref in the span", func(e *Event) { s := *e.Span; s.SawThrough = half; e.Span = &s }, ErrMalformed},
		{"compaction", "half 3", func(e *Event) { s := *e.Span; s.Elisions = []Elision{{Turn: sampleRef(1, 3), Half: 3}}; e.Span = &s }, ErrMalformed},
		{"compaction", "message 1 of a response", func(e *Event) {
			s := *e.Span
			s.Elisions = []Elision{{Turn: sampleRef(1, 3), Half: ResponseHalf, Message: 1}}
			e.Span = &s
		}, ErrMalformed},
		{"compaction", "dropped by nexus", func(e *Event) { s := *e.Span; s.Dropped = true; e.Span = &s }, ErrMalformed},
		{"compaction", "provenance", func(e *Event) { s := *e.Span; s.Provenance = 3; e.Span = &s }, ErrMalformed},
		{"compaction", "split apart", func(e *Event) { s := *e.Span; s.FirstKept = sampleRef(1, 9); e.Span = &s }, ErrMalformed},
		{"moved", "to half a turn", func(e *Event) { e.To = half }, ErrMalformed},
		{"state-closed", "state 0", func(e *Event) { e.State = 0 }, ErrMalformed},
		{"state-closed", "state 5", func(e *Event) { e.State = 5 }, ErrMalformed},
		{"state-closed", "successor", func(e *Event) { e.Successor = sampleID(5) }, ErrMalformed},
		{"claimed", "chain of an agent", func(e *Event) { e.Chain.Entity = AgentEntity }, ErrMalformed},
		{"claimed", "chain of a session", func(e *Event) { e.Chain = SessionChain(sampleID(1)) }, ErrMalformed},
		{"claimed", "claims a turn", func(e *Event) { e.To = sampleRef(1, 2) }, ErrMalformed},
	} {
		e, err := byName[tt.sample].made()
		if err != nil {
			t.Fatal(err)
		}
		if err := e.Validate(); err != nil {
			t.Fatalf("%s: %v", tt.sample, err)
		}
		tt.change(e)
		if err := e.Validate(); !errors.Is(err, tt.want) {
			t.Errorf("%s, %s: %v, want %v", tt.sample, tt.name, err, tt.want)
		}
		if _, err := e.Encode(); !errors.Is(err, tt.want) {
			t.Errorf("%s, %s: encodes: %v", tt.sample, tt.name, err)
		}
		if b, err := libraryPayload(e); err == nil { // what the check lets out, the other side must not let in
			if _, err := Decode(b); err == nil {
				t.Errorf("%s, %s: decodes", tt.sample, tt.name)
			}
		}
	}
}

// The sender of an event is the public NKey of a user, and nothing else.
func TestSenderOtherThanPublicUserKeyIsMalformed(t *testing.T) {
	key := "UA" + strings.Repeat("Z2", 27)
	for sender, valid := range map[string]bool{
		"": true, key: true, key + "A": false, key[:55]: false, "S" + key[1:]: false, "A" + key[1:]: false, strings.ToLower(key): false, key[:55] + "1": false, key + "\n": false, "alice": false,
	} {
		e := samples()[2].event
		e.Sender = sender
		if err := e.Validate(); (err == nil) != valid || err != nil && !errors.Is(err, ErrMalformed) {
			t.Errorf("sender %q: %v", sender, err)
		}
	}
}

// A session that is spawned by a turn has the session of that turn in its settings.
func TestSettingsSpawnedByATurnOfNoSessionAreMalformed(t *testing.T) {
	b := &ChangedBody{Settings: Settings{Policy: PolicyRef{Name: "balanced"}, SpawnedBy: Ref{Session: sampleID(9)}}}
	if _, err := EncodeBody(b); err != nil {
		t.Fatal(err)
	}
	b.Settings.SpawnedBy = Ref{Turn: sampleID(9)}
	if _, err := EncodeBody(b); !errors.Is(err, ErrMalformed) {
		t.Errorf("encoded: %v", err)
	}
	raw, err := encMode.Marshal(b)
	if err != nil {
		t.Fatal(err)
	}
	if err := DecodeBody(raw, new(ChangedBody)); !errors.Is(err, ErrMalformed) {
		t.Errorf("decoded: %v", err)
	}
}
