package turns

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// validSender reports whether s has the form of a user's public NKey: U[A-Z2-7]{55}.
func validSender(s string) bool {
	if len(s) != 56 || s[0] != 'U' {
		return false
	}
	for i := range len(s) {
		if c := s[i]; (c < 'A' || c > 'Z') && (c < '2' || c > '7') {
			return false
		}
	}
	return true
}

// validDigits reports whether s is the id of a label's or a channel's chain: 32 lower-case hex digits.
func validDigits(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return len(s) == 32
}

// Validate checks what of an event can be checked by itself. Its relation to
// the chain and the lineage is package ledger's to check.
func (e *Event) Validate() error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: event %s (%s): %s", ErrMalformed, e.ID, e.Kind, fmt.Sprintf(format, args...))
	}
	switch {
	case e.Version != Version:
		return bad("version %d", e.Version)
	case !e.Kind.defined():
		return fmt.Errorf("%w: event kind %s", ErrUnsupported, e.Kind)
	case e.ID.IsZero():
		return bad("no id")
	case e.ID.IsReserved():
		return bad("its id is one of those that only keys have")
	case e.Index == 0 != e.Prev.IsZero():
		return bad("index %d with prev %v", e.Index, e.Prev)
	case e.Recorded <= 0:
		return bad("no recorded time")
	case len(e.Actor) > 200 || !utf8.ValidString(e.Actor) || strings.ContainsFunc(e.Actor, unicode.IsControl):
		return bad("actor")
	case e.Sender != "" && !validSender(e.Sender):
		return bad("sender %q is not the public NKey of a user", clip(e.Sender, 60))
	case e.Encoding > Zstd|Sealed:
		return fmt.Errorf("%w: body encoding %d", ErrUnsupported, e.Encoding)
	case (e.Encoding&Sealed != 0) != (len(e.Keys) > 0):
		return bad("encoding %d with %d keys", e.Encoding, len(e.Keys))
	case e.Encoding != 0 && len(e.Body) == 0:
		return bad("encoding %d without a body", e.Encoding)
	case len(e.Keys) > MaxKeys:
		return bad("%d keys", len(e.Keys))
	case len(e.Keys) > 0 && (e.Keys[0].IsZero() || !ascending(e.Keys[1:], ID.Compare) || slices.Contains(e.Keys[1:], e.Keys[0]) || slices.Contains(e.Keys[1:], ID{})):
		return bad("keys are not distinct and set, and sorted after the first")
	case len(e.Keys) > 0 && e.Chain.Entity == SessionEntity && e.Keys[0].String() != e.Chain.ID:
		return bad("its first key is %s, not that of its session", e.Keys[0])
	case len(e.Body) > 0 == e.Commitment.IsZero():
		return bad("a commitment without a body, or a body without one")
	case !ascending(e.Blobs, BlobLink.compare) || len(e.Blobs) > 0 && e.Blobs[0].Address.IsZero():
		return bad("blobs are not sorted, distinct and set")
	case len(e.Blobs) > MaxElements:
		return bad("%d blobs", len(e.Blobs))
	case e.Halves > Halves(MessagesHalf|ResponseHalf):
		return bad("halves %d", e.Halves)
	}
	switch e.Chain.Entity {
	case SessionEntity:
		if id, err := ParseID(e.Chain.ID); err != nil || id.IsReserved() {
			return bad("chain %q", clip(e.Chain.ID, 40))
		}
	case LabelEntity, ChannelEntity:
		if !validDigits(e.Chain.ID) {
			return bad("chain %q is not 32 hex digits", clip(e.Chain.ID, 40))
		}
	case AgentEntity, TenantEntity:
		if !ValidName(e.Chain.ID) {
			return bad("chain %q", clip(e.Chain.ID, 40))
		}
	default:
		return bad("chain entity %q", clip(string(e.Chain.Entity), 8))
	}
	if err := e.checkCounts(bad); err != nil {
		return err
	}
	on, session := SessionEntity, e.Chain.Entity == SessionEntity
	switch e.Kind {
	case KindClaimed:
		on = LabelEntity
	case KindPolicy:
		on = TenantEntity
	case KindMemory, KindMemoryChanged, KindDocument:
		on = AgentEntity
	case KindReceived:
		on = ChannelEntity
	}
	if e.Chain.Entity != on {
		return bad("does not belong on chain %s", e.Chain)
	}
	if session && (e.Kind == KindOpened) != (e.Index == 0) {
		return bad("at index %d", e.Index)
	}
	if err := e.checkFields(bad); err != nil {
		return err
	}
	return e.checkKind(bad)
}

// checkFields checks which fields go with which kind.
func (e *Event) checkFields(bad refusal) error {
	for _, f := range []struct {
		name string
		set  bool
		on   uint32 // bits of the kinds
	}{
		{"parent", !e.Parent.IsZero(), 1<<KindTurn | 1<<KindCompaction},
		{"depth", e.Depth != 0, 1<<KindTurn | 1<<KindCompaction},
		{"segment", !e.Segment.IsZero(), 1<<KindTurn | 1<<KindCompaction},
		{"halves", e.Halves != 0, 1 << KindTurn},
		{"calls", e.Calls != 0, 1 << KindTurn},
		{"tokens", !e.Tokens.IsZero(), 1<<KindTurn | 1<<KindCompaction},
		{"span", e.Span != nil, 1 << KindCompaction},
		{"usage", e.Usage != nil, 1<<KindTurn | 1<<KindCompaction | 1<<KindFlush},
		{"open", e.Open != 0, 1<<KindTurn | 1<<KindCompaction},
		{"late", e.Late != 0, 1 << KindTurn},
		{"left", e.Abandoned != 0, 1 << KindTurn},
		{"said", e.UserTexts != 0, 1 << KindTurn},
		{"origin", e.Origin != nil, 1 << KindOpened},
		{"fork_of", e.ForkOf != nil, 1 << KindOpened},
		{"root", !e.Root.IsZero(), 1 << KindOpened},
		{"agent", e.Agent != "", 1<<KindOpened | 1<<KindClaimed | 1<<KindPolicy | 1<<KindReceived},
		{"role", e.Role != "", 1 << KindOpened},
		{"spawned_by", !e.SpawnedBy.IsZero(), 1 << KindOpened},
		{"to", !e.To.IsZero(), 1<<KindMoved | 1<<KindClaimed | 1<<KindNoted | 1<<KindRedacted},
		{"state", e.State != 0, 1 << KindState},
		{"successor", !e.Successor.IsZero(), 1 << KindState},
		{"flush", e.Flush != nil, 1 << KindFlush},
		{"timed", e.Timed, 1<<KindOpened | 1<<KindChanged},
		{"external", e.External != nil, 1 << KindTurn},
		{"policy", e.Policy != nil, 1 << KindPolicy},
		{"memory", e.Memory != nil, 1<<KindMemory | 1<<KindMemoryChanged},
		{"document", e.Document != nil, 1 << KindDocument},
		{"learned", e.Learned != nil, 1 << KindCompaction},
		{"hidden", e.Hidden, 1 << KindHidden},
	} {
		if f.set && f.on&(1<<e.Kind) == 0 {
			return bad("has a %s", f.name)
		}
	}
	return nil
}

// checkKind checks what an event of its kind must have.
func (e *Event) checkKind(bad refusal) error {
	switch e.Kind {
	case KindOpened:
		if e.Origin == nil || e.Root.IsZero() || !ValidName(e.Agent) {
			return bad("lacks origin, root or agent")
		}
		self, _ := e.Chain.Session()
		if e.Origin.Session != self || !ValidName(e.Origin.Tenant) {
			return bad("origin is session %s of %q", e.Origin.Session, clip(e.Origin.Tenant, 80))
		}
		if (e.ForkOf == nil) != (e.Root == self) {
			return bad("root %s", e.Root)
		}
		if f := e.ForkOf; f != nil && (!f.At.whole() || f.At.Session == self || f.Hash.IsZero() || f.Mode < AsSeen || f.Mode > Summary) {
			return bad("fork point")
		}
		if e.SpawnedBy.Session.IsZero() && !e.SpawnedBy.IsZero() {
			return bad("spawned by a turn without a session")
		}
		switch e.Role {
		case "", Peer, Main, Task:
		default:
			return bad("role %q", clip(string(e.Role), 40))
		}
	case KindTurn:
		if e.Depth == 0 || e.Segment.IsZero() {
			return bad("lacks depth or segment")
		}
		if (e.Depth == 1) != e.Parent.IsZero() || !e.Parent.IsZero() && !e.Parent.whole() {
			return bad("depth %d with parent %v", e.Depth, e.Parent)
		}
		if e.Halves == 0 {
			return bad("has neither messages nor a response")
		}
		if l := e.External; l != nil && (l.ID.IsZero() || !validDigits(l.Channel)) {
			return bad("links to event %s of channel %q", l.ID, clip(l.Channel, 40))
		}
	case KindCompaction:
		if e.Depth < 2 || !e.Parent.whole() || e.Segment.IsZero() {
			return bad("lacks parent, depth or segment")
		}
		if e.Span == nil {
			return bad("lacks its span")
		}
		if err := checkLearned(e.Learned, bad); err != nil {
			return err
		}
		return e.Span.validate(bad)
	case KindMoved:
		if !e.To.IsZero() && !e.To.whole() {
			return bad("moves to %s", e.To)
		}
	case KindNoted:
		if !e.To.whole() {
			return bad("is on turn %s", e.To)
		}
	case KindRedacted:
		if self, _ := e.Chain.Session(); !e.To.whole() || e.To.Session != self || e.To.Turn == e.ID {
			return bad("is for event %s", e.To)
		}
	case KindState:
		if e.State < Paused || e.State > Erased {
			return bad("state %d", e.State)
		}
		if !e.Successor.IsZero() && e.State != Reset {
			return bad("%s, but has a successor", e.State)
		}
	case KindFlush:
		if e.Flush == nil {
			return bad("lacks its flush")
		}
		return e.Flush.validate(e, bad)
	case KindClaimed:
		if e.To.Session.IsZero() || !e.To.Turn.IsZero() || !ValidName(e.Agent) {
			return bad("claims nothing")
		}
	case KindReceived:
		if !ValidName(e.Agent) {
			return bad("is of agent %q", clip(e.Agent, 40))
		}
	case KindPolicy:
		p := e.Policy
		switch {
		case p == nil || p.Digest.IsZero():
			return bad("lacks the digest of its policy")
		case p.Name.IsZero() != (p.Version == 0) || p.Name.IsZero() != (e.Agent == "") || e.Agent != "" && !ValidName(e.Agent):
			return bad("names version %d of agent %q", p.Version, clip(e.Agent, 40))
		}
	case KindMemory, KindMemoryChanged:
		if e.Memory == nil {
			return bad("lacks its memory")
		}
		return e.Memory.validate(e, bad)
	case KindDocument:
		if e.Document == nil {
			return bad("lacks its document")
		}
		return e.Document.validate(bad)
	}
	return nil
}

func (s *Span) validate(bad refusal) error {
	for _, r := range []Ref{s.Through, s.FirstKept, s.SawThrough, s.Previous} {
		if !r.IsZero() && !r.whole() {
			return bad("its span names half a turn, %s", r)
		}
	}
	if len(s.Elisions) > MaxElements {
		return bad("%d elisions", len(s.Elisions))
	}
	for i, el := range s.Elisions {
		if !el.Turn.whole() || el.Half != MessagesHalf && el.Half != ResponseHalf || el.Half == ResponseHalf && el.Message != 0 ||
			el.Message >= MaxMessages || el.Part >= MaxParts {
			return bad("elision %d: part %d of message %d in the %s of %s", i, el.Part, el.Message, el.Half, el.Turn)
		}
	}
	switch {
	case s.Provenance != ByNexus && s.Provenance != Imported:
		return bad("provenance %d", s.Provenance)
	case s.Dropped && s.Provenance != Imported:
		return bad("drops turns without being imported")
	case s.Split && (s.Through.IsZero() || s.Through != s.FirstKept):
		return bad("split, but ends at %v and keeps from %v", s.Through, s.FirstKept)
	case !s.Split && !s.Through.IsZero() && s.Through == s.FirstKept:
		return bad("covers and keeps %v without a split", s.Through)
	case s.Call && s.Covered != 0:
		return bad("covers %d turns, but stands for one call only", s.Covered)
	case s.Through.IsZero() && s.Covered != 0:
		return bad("covers %d turns but names no last one", s.Covered)
	}
	return nil
}

func (f *Flush) validate(e *Event, bad refusal) error {
	switch {
	case f.State < FlushBegun || f.State > FlushFailed:
		return bad("flush state %d", f.State)
	case f.Cycle == 0 || (f.Cycle == 1) != f.After.IsZero() || !f.After.IsZero() && !f.After.whole():
		return bad("cycle %d after %v", f.Cycle, f.After)
	case f.Try < 1 || f.Try > MaxFlushTries:
		return bad("try %d", f.Try)
	case (f.State == FlushBegun) != (f.Lease > 0) || f.Lease < 0:
		return bad("%s with a lease until %d", f.State, f.Lease)
	case f.State == FlushBegun && e.Usage != nil:
		return bad("begun, but has a usage")
	}
	return nil
}

// checkCounts checks that no count is over [MaxCount].
func (e *Event) checkCounts(bad refusal) error {
	counts := []uint64{e.Index, e.Depth, e.Calls, e.Open, e.Late, e.Abandoned, e.UserTexts, e.Tokens.Messages, e.Tokens.Response}
	if u := e.Usage; u != nil {
		counts = append(counts, u.InputTokens, u.OutputTokens, u.CacheRead, u.CacheCreation)
	}
	if e.Span != nil {
		counts = append(counts, e.Span.Covered)
	}
	if e.Flush != nil {
		counts = append(counts, e.Flush.Cycle)
	}
	if e.Policy != nil {
		counts = append(counts, e.Policy.Version)
	}
	if e.Document != nil {
		counts = append(counts, e.Document.Version)
	}
	for _, b := range e.Blobs {
		counts = append(counts, b.Size)
	}
	if n := slices.Max(counts); n > MaxCount {
		return bad("the count %d is over %d", n, uint64(MaxCount))
	}
	return word("", "", e.Tokens.Counter)
}

// refusal makes the error that says what is wrong with an event.
type refusal func(format string, args ...any) error

// whole reports whether r names a session and a turn of it.
func (r Ref) whole() bool { return !r.Session.IsZero() && !r.Turn.IsZero() }

func (b BlobLink) compare(o BlobLink) int { return bytes.Compare(b.Address[:], o.Address[:]) }

// ascending reports whether s is sorted and without duplicates.
func ascending[T any](s []T, compare func(a, b T) int) bool {
	for i := 1; i < len(s); i++ {
		if compare(s[i-1], s[i]) >= 0 {
			return false
		}
	}
	return true
}
