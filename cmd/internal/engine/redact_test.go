package engine_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"nexus/cmd/internal/engine/content"
	"nexus/cmd/internal/engine/enginetest"
	"nexus/cmd/internal/engine/erasure"
	"nexus/cmd/internal/engine/reader"
	"nexus/compactor"
	"nexus/compactor/summary"
	"nexus/ledger/api"
	"nexus/turns"
	"nexus/turns/seal"
)

func redact(t *testing.T, e *Engine, s turns.ID, r api.RedactTurn) *api.Redacted {
	t.Helper()
	return must(e.Erasure.Redact(t.Context(), enginetest.Operator, s, r, enginetest.JSON(r)))(t)
}

// secret is a text that no two places of a body split.
const secret = `hunter"2\ü-secret`

// leaks is a summarizer that says the secret in its summary, and learns it.
type leaks struct{}

func (leaks) Summarize(context.Context, summary.Input) (summary.Output, error) {
	return summary.Output{Text: "They logged in with " + secret, Memories: []summary.Memory{{Text: "The password is " + secret}}}, nil
}

// leaky is a session that has the secret in each place that a session can have it in, and something beside it that stays.
func leaky(t *testing.T, e *Engine) (s *api.Session, first *api.Appended) {
	t.Helper()
	ctx := t.Context()
	r := api.CreateSession{SessionSettings: api.SessionSettings{Limits: &turns.Limits{ContextWindow: 8000}, Policy: &api.Policy{Name: "nexus"},
		System: &api.System{{Name: "role", Content: "You know " + secret + " and system-stays."}},
		Tools:  &[]turns.Raw{enginetest.JSON(map[string]any{"name": "login", "description": "with " + secret})},
		Meta:   enginetest.JSON(map[string]any{"note": "x " + secret})}}
	s = must(e.Sessions.Create(ctx, alice, r, []byte("{}")))(t)
	a := say("my password is "+secret+", thanks", "")
	a.Messages[0].Parts = append(a.Messages[0].Parts, turns.TextPart("a second part stays"))
	a.Response = &turns.Message{Role: turns.Assistant, Parts: []turns.Part{
		{Type: turns.Reasoning, Content: "it is " + secret, Ext: turns.Raw(`{"anthropic":{"signature":"c2ln"}}`)},
		{Type: turns.ToolCall, ID: "c1", Name: "login", Arguments: enginetest.JSON(map[string]any{"user": "ada", "deep": []any{map[string]any{"pw": "x" + secret}}})}}}
	first = add(t, e, s.ID, a)
	big := strings.Repeat("line of a log\n", 40_000) + secret + strings.Repeat("\nmore of it", 1000)
	b := api.AppendTurn{Messages: []turns.Message{{Role: turns.Tool, Parts: []turns.Part{{Type: turns.ToolCallResponse, ID: "c1", Name: "login", Response: enginetest.JSON(big)}}}}, Meta: enginetest.JSON(map[string]any{"cwd": "/home/" + secret})}
	answer := turns.TextMessage(turns.Assistant, "logged in with "+string(enginetest.JSON(secret)))
	b.Response = &answer
	add(t, e, s.ID, b)
	add(t, e, s.ID, say("an ordinary turn", "nothing of it"))
	title := "about " + secret
	must(e.Sessions.Describe(ctx, alice, s.ID, api.DescribeSession{Title: &title, Tag: []string{"stays"}}, []byte("{}")))(t)
	must(e.Sessions.Note(ctx, alice, s.ID, api.NoteTurn{Turn: first.ID, Text: "note of " + secret}, []byte(`{"n":1}`)))(t)
	for range 12 {
		add(t, e, s.ID, say(secret+" "+enginetest.Text(2000), "ok"))
	}
	e.Loader.Tiers = []compactor.Tier{{Name: "leaks", Summarizer: leaks{}, Local: true}}
	if run := must(e.Compactions.Compact(ctx, alice, s.ID, api.RunCompaction{}, []byte("{}")))(t); run.Compaction == nil {
		t.Fatalf("%+v", run)
	}
	return s, first
}

// leftOf looks for a text in all that a ring opens of a session: bodies, as they are and unescaped, and blobs.
func leftOf(t *testing.T, e *Engine, session turns.ID, text string) (where []string) {
	t.Helper()
	ring := e.Store.OpeningKeyring()
	forms := []string{text, strings.Trim(string(enginetest.JSON(text)), `"`), strings.Trim(string(enginetest.JSON(string(enginetest.JSON(text)))), `"`)}
	has := func(b []byte) bool {
		return slices.ContainsFunc(forms, func(f string) bool { return bytes.Contains(b, []byte(f)) })
	}
	for payload, err := range e.Reader.Projections.Events(session, 0) {
		if err != nil {
			t.Fatal(err)
		}
		ev := must(turns.Decode(payload))(t)
		if has(payload) {
			where = append(where, fmt.Sprintf("in the clear %s %d", ev.Kind, ev.Index))
		}
		body, err := seal.Open(ev, ring)
		if err != nil {
			continue
		}
		if kind := ev.Kind; kind.IsTurn() { // with what is in blobs
			if b, err := content.NewBody(kind); err == nil && turns.DecodeBody(body, b) == nil && e.Store.InlineBlobs(t.Context(), "default", session, b) == nil {
				body = must(turns.EncodeBody(b))(t)
			}
		}
		if has(body) {
			where = append(where, fmt.Sprintf("%s %d", ev.Kind, ev.Index))
		}
	}
	return where
}

// A text that is redacted can't be read any more in any place of its session, whatever keys are left; what stood beside it stays, proves, and
// is found; the chain verifies; contexts go on; and a start finds the same.
func TestARedactedText(t *testing.T) {
	w := newWorld()
	e, _ := w.SearchEngine(t, t.TempDir())
	ctx := t.Context()
	s, first := leaky(t, e)
	other, _ := leaky(t, e)
	before := leftOf(t, e, s.ID, secret)
	if len(before) < 17 || !slices.Contains(before, "compaction 18") {
		t.Fatalf("before, it is in %v", before)
	}
	if got := find(t, w, e, alice, seek(`"hunter"`)).Hits; len(got) == 0 {
		t.Fatal("it is not found before")
	}
	turn := must(e.Reader.GetTurn(ctx, alice, s.ID, api.GetTurn{ID: first.ID}))(t)

	dry := redact(t, e, s.ID, api.RedactTurn{Text: secret, DryRun: true})
	if dry.Done || len(dry.Events) != len(before) || !slices.Equal(leftOf(t, e, s.ID, secret), before) {
		t.Errorf("the dry run: %+v", dry)
	}
	got := redact(t, e, s.ID, api.RedactTurn{Text: secret, Ground: "leak-1"})
	if len(got.Events) != len(dry.Events) {
		t.Errorf("redacted %d events, the dry run said %d", len(got.Events), len(dry.Events))
	}
	for i, x := range got.Events {
		d := dry.Events[i]
		if x.Event != d.Event || x.Count != d.Count || x.Rest != d.Rest || !slices.Equal(x.Parts, d.Parts) || x.Position == "" || x.Stays != 0 {
			t.Errorf("event %d: %+v, the dry run %+v", i, x, d)
		}
	}
	for range 3000 { // the index is made again
		if got = redact(t, e, s.ID, api.RedactTurn{Text: secret}); got.Done {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	if !got.Done || len(got.Events) != 0 {
		t.Errorf("again: %+v", got)
	}
	if where := leftOf(t, e, s.ID, secret); len(where) > 0 {
		t.Errorf("it is left in %v", where)
	}
	if where := leftOf(t, e, other.ID, secret); len(where) != len(before) {
		t.Errorf("of the other session: %v", where)
	}
	if got := must(e.Search.Query(ctx, alice, api.Search{Text: "hunter", Session: s.ID}))(t).Hits; len(got) != 0 {
		t.Errorf("found: %+v", got)
	}
	if got := must(e.Search.Query(ctx, alice, api.Search{Text: "redacted", Session: s.ID}))(t).Hits; len(got) == 0 {
		t.Error("the markers are not found")
	}
	for _, e := range []*Engine{e, w.Engine(t)} {
		after := must(e.Reader.GetTurn(ctx, alice, s.ID, api.GetTurn{ID: first.ID}))(t)
		if after.Hash != turn.Hash || after.Messages[0].Parts[0].Content != "my password is [redacted], thanks" || after.Messages[0].Parts[1].Content != "a second part stays" || !slices.Equal(after.Redacted, []int{1, 3, 4}) {
			t.Errorf("the turn: %+v", after)
		}
		if p := after.Response.Parts; p[0].Content != "it is [redacted]" || p[0].Ext != nil || p[1].ID != "c1" || !strings.Contains(string(p[1].Arguments), `"pw":"x[redacted]"`) || !strings.Contains(string(p[1].Arguments), `"ada"`) {
			t.Errorf("its response: %+v", p)
		}
		if after.Note == nil || after.Note.Text != "note of [redacted]" {
			t.Errorf("its note: %+v", after.Note)
		}
		g := must(e.Reader.Get(ctx, alice, s.ID, api.Read{}))(t)
		if g.Title != "about [redacted]" || !slices.Contains(g.Tags, "stays") || !strings.Contains(string(g.Meta), "[redacted]") {
			t.Errorf("the session: %+v", g)
		}
		c := must(e.Contexts.Context(ctx, alice, s.ID, api.GetContext{}))(t)
		if b := string(enginetest.JSON(c)); strings.Contains(b, "hunter") || !strings.Contains(b, "system-stays") {
			t.Errorf("the context: %.400s", b)
		}
		if b := string(enginetest.JSON(must(e.Memories.List(ctx, alice, api.ListMemories{}))(t))); strings.Count(b, "The password is [redacted]") != 1 {
			t.Errorf("the memories: %s", b) // the other session's has it
		}
		v := enginetest.Verified(t, e)
		if v.Erased != uint64(len(before)) {
			t.Errorf("verify counts %d erased, want %d", v.Erased, len(before))
		}
		add(t, e, s.ID, say("it goes on", "on"))
	}
	// What stays proves, part by part.
	ev, b := must2(e.Store.Redaction(must(turns.Decode(must(e.Reader.Projections.EventAt(s.ID, must(e.Reader.Projections.Index(s.ID, first.ID))(t)))(t)))(t)))(t)
	if ev == nil || !slices.Equal(b.Taken(), []int{1, 3, 4}) {
		t.Fatalf("taken: %v", b.Taken())
	}
	// A retry of what was redacted is told so, and stores nothing.
	if _, err := e.Sessions.Append(ctx, alice, s.ID, api.AppendTurn{ID: first.ID, Messages: []turns.Message{turns.TextMessage(turns.User, "guess")}}, []byte("{}")); enginetest.Code(err) != api.Erased {
		t.Errorf("a retry: %v", err)
	}
}

func must2[A, B any](a A, b B, err error) func(t testing.TB) (A, B) {
	return func(t testing.TB) (A, B) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return a, b
	}
}

// Parts, spans and whole turns are taken out; a call again with the same id changes nothing; what can't be taken is refused.
func TestRedactedParts(t *testing.T) {
	w := newWorld()
	e := w.Engine(t)
	ctx := t.Context()
	s := create(t, e, 0, "nexus")
	r := say("one two three", "")
	r.Messages[0].Parts = append(r.Messages[0].Parts, turns.TextPart("zweiter"), turns.TextPart("thïrd"))
	r.Response = &turns.Message{Role: turns.Assistant, Parts: []turns.Part{{Type: turns.ToolCall, ID: "c", Name: "run", Arguments: turns.Raw(`{"a":"secret","b":"stays"}`)}}}
	a := add(t, e, s.ID, r)
	get := func() *api.Turn { return must(e.Reader.GetTurn(ctx, alice, s.ID, api.GetTurn{ID: a.ID}))(t) }

	spans := api.RedactTurn{ID: enginetest.ID(t), Turn: a.ID, Spans: []api.RedactSpan{{Part: 1, From: 4, To: 7}, {Part: 1, From: 8, To: 13}, {Part: 4, From: 6, To: 12}}}
	got := redact(t, e, s.ID, spans)
	if len(got.Events) != 1 || !slices.Equal(got.Events[0].Parts, []int{1, 4}) || got.Events[0].Rest {
		t.Errorf("spans: %+v", got)
	}
	for range 2 {
		if got := get(); got.Messages[0].Parts[0].Content != "one [redacted] [redacted]" || string(got.Response.Parts[0].Arguments) != `{"a":"[redacted]","b":"stays"}` {
			t.Errorf("spans: %+v", got)
		}
		if again := redact(t, e, s.ID, spans); len(again.Events) != 0 || !again.Done {
			t.Errorf("again: %+v", again)
		}
	}
	redact(t, e, s.ID, api.RedactTurn{Turn: a.ID, Parts: []int{2}})
	if p := get().Messages[0].Parts; p[1].Content != "[redacted]" || p[2].Content != "thïrd" {
		t.Errorf("a part: %+v", p)
	}
	enginetest.Verified(t, e)

	for name, c := range map[string]struct {
		r    api.RedactTurn
		as   reader.Caller
		want api.Code
	}{
		"an agent":           {r: api.RedactTurn{Turn: a.ID}, as: alice, want: api.Denied},
		"nothing named":      {want: api.Malformed},
		"a part too many":    {r: api.RedactTurn{Turn: a.ID, Parts: []int{5}}, want: api.Malformed},
		"part 0":             {r: api.RedactTurn{Turn: a.ID, Parts: []int{0}}, want: api.Malformed},
		"half a character":   {r: api.RedactTurn{Turn: a.ID, Spans: []api.RedactSpan{{Part: 3, From: 0, To: 3}}}, want: api.Malformed},
		"beyond the end":     {r: api.RedactTurn{Turn: a.ID, Spans: []api.RedactSpan{{Part: 3, From: 0, To: 99}}}, want: api.Malformed},
		"half a string":      {r: api.RedactTurn{Turn: a.ID, Spans: []api.RedactSpan{{Part: 4, From: 1, To: 4, Digest: fmt.Sprintf("%x", sha256.Sum256([]byte(`{"a":"[redacted]","b":"stays"}`)))}}}, want: api.Malformed},
		"an earlier text":    {r: api.RedactTurn{Turn: a.ID, Spans: []api.RedactSpan{{Part: 1, From: 0, To: 3}}}, want: api.Conflict},
		"spans that overlap": {r: api.RedactTurn{Turn: a.ID, Spans: []api.RedactSpan{{Part: 3, From: 0, To: 2}, {Part: 3, From: 1, To: 2}}}, want: api.Malformed},
		"a short text":       {r: api.RedactTurn{Text: "abc"}, want: api.Malformed},
		"the marker":         {r: api.RedactTurn{Text: "redact"}, want: api.Malformed},
		"text and parts":     {r: api.RedactTurn{Text: "abcd", Turn: a.ID, Parts: []int{1}}, want: api.Malformed},
		"no such turn":       {r: api.RedactTurn{Turn: enginetest.ID(t)}, want: api.NotFound},
		"a ground in words":  {r: api.RedactTurn{Turn: a.ID, Ground: "Ada asked"}, want: api.Malformed},
	} {
		as := enginetest.Operator
		if c.as != (reader.Caller{}) {
			as = c.as
		}
		if _, err := e.Erasure.Redact(ctx, as, s.ID, c.r, enginetest.JSON(c.r)); enginetest.Code(err) != c.want {
			t.Errorf("%s: %v", name, err)
		}
	}

	must(e.Sessions.CloseSession(ctx, alice, s.ID, api.CloseSession{Cause: "done"}, []byte("{}")))(t) // which does not end redactions
	redact(t, e, s.ID, api.RedactTurn{Turn: a.ID})
	if b := string(enginetest.JSON(get())); strings.Contains(b, "one") || strings.Contains(b, "stays") || strings.Contains(b, "third") {
		t.Errorf("the turn: %s", b)
	}
	enginetest.Verified(t, e)
	erase(t, e, s.ID, api.EraseSession{})
	enginetest.Verified(t, e)
	if _, err := e.Erasure.Redact(ctx, enginetest.Operator, s.ID, api.RedactTurn{Text: "stays"}, nil); enginetest.Code(err) != api.Erased {
		t.Errorf("of an erased session: %v", err)
	}
}

// A crash between the event and the key is finished by the next start; an event that a backup from before brings back goes as a whole.
func TestARedactionIsFinished(t *testing.T) {
	w := newWorld()
	e := w.Engine(t)
	s := create(t, e, 0, "nexus")
	add(t, e, s.ID, say("a secret-word", "ok"))
	back := add(t, e, s.ID, say("another secret-word", "ok"))
	failing := e.Store.Keys
	e.Store.Keys = keysThatStay{failing}
	if _, err := e.Erasure.Redact(t.Context(), enginetest.Operator, s.ID, api.RedactTurn{Text: "a secret-word"}, nil); enginetest.Code(err) != api.Indeterminate {
		t.Fatalf("a key that stays: %v", err)
	}
	e.Store.Keys = failing
	if where := leftOf(t, e, s.ID, "a secret-word"); len(where) != 1 {
		t.Fatalf("before the key is taken: %v", where)
	}
	if c := must(e.Contexts.Context(t.Context(), alice, s.ID, api.GetContext{}))(t); mentions(c.Messages, "a secret-word") {
		t.Error("a context has it before the key is taken")
	}
	enginetest.Verified(t, e)
	var published []erasure.Erased
	e.Erasure.Listed = func() ([]erasure.Erased, error) {
		return []erasure.Erased{{Session: s.ID, Event: back.ID, Ground: "g"}, {Session: enginetest.ID(t), Event: back.ID}}, nil
	}
	e.Erasure.Publish = func(l []erasure.Erased) error { published = append(published, l...); return nil }
	if err := e.Erasure.Finish(t.Context()); err != nil {
		t.Fatal(err)
	}
	if where := leftOf(t, e, s.ID, "secret-word"); len(where) > 0 {
		t.Errorf("it is left in %v", where)
	}
	if n := len(published); n != 2 || published[0].Hash.IsZero() {
		t.Errorf("published: %+v", published)
	}
	enginetest.Verified(t, e)
}

// keysThatCount counts what is taken from keys.
type keysThatCount struct {
	content.Keys
	takes *int
}

func (k keysThatCount) Puncture(id turns.ID, begun uint64, indexes ...uint64) error {
	*k.takes++
	return k.Keys.Puncture(id, begun, indexes...)
}

// A start takes nothing from keys where all is taken, and writes the list once, however many sessions were redacted: each of both costs
// as much as the whole key log, or the whole list.
func TestAStartDoesNothingAgainForRedactionsThatAreDone(t *testing.T) {
	e := newWorld().Engine(t)
	const sessions = 20
	for range sessions {
		s := create(t, e, 0, "nexus")
		add(t, e, s.ID, say("a "+secret, "ok"))
		redact(t, e, s.ID, api.RedactTurn{Text: secret})
	}
	takes, writes, rows := 0, 0, 0
	e.Store.Keys = keysThatCount{e.Store.Keys, &takes}
	e.Erasure.Publish = func(l []erasure.Erased) error {
		if rows += len(l); len(l) > 0 {
			writes++
		}
		return nil
	}
	if err := e.Erasure.Finish(t.Context()); err != nil {
		t.Fatal(err)
	}
	if takes != 0 || writes != 1 || rows != sessions {
		t.Errorf("%d takes from keys, %d rows in %d writes of the list", takes, rows, writes)
	}
}

// A session of which events were redacted is exported and imported as it is, by the operator, and goes on there; an export from before the
// redaction brings nothing back, in the ledger where it was redacted or in another.
func TestARedactedSessionIsExported(t *testing.T) {
	w := newWorld()
	e := w.Engine(t)
	s, first := leaky(t, e)
	old := exports(t, e, s.ID)
	redact(t, e, s.ID, api.RedactTurn{Text: secret})
	add(t, e, s.ID, say("behind it", "on"))
	redact(t, e, s.ID, api.RedactTurn{Turn: first.ID, Parts: []int{2}})
	now := exports(t, e, s.ID)

	if got := must(e.Transfer.Import(t.Context(), enginetest.Operator, api.ImportRecords{Records: old}))(t); got.Stored != 0 {
		t.Errorf("the old export stored %d", got.Stored)
	}
	if where := leftOf(t, e, s.ID, secret); len(where) > 0 {
		t.Errorf("the old export brought %v back", where)
	}
	enginetest.Verified(t, e)

	fresh, before := newWorld().Engine(t), newWorld().Engine(t)
	must(before.Transfer.Import(t.Context(), alice, api.ImportRecords{Records: old}))(t)
	for name, e2 := range map[string]*Engine{"a fresh ledger": fresh, "one that has it from before": before} {
		if _, err := e2.Transfer.Import(t.Context(), alice, api.ImportRecords{Records: now}); err == nil {
			t.Errorf("%s: an agent imports it", name)
		}
		must(e2.Transfer.Import(t.Context(), enginetest.Operator, api.ImportRecords{Records: now}))(t)
		if where := leftOf(t, e2, s.ID, secret); len(where) > 0 {
			t.Errorf("%s: it is in %v", name, where)
		}
		enginetest.Verified(t, e2)
		got := must(e2.Reader.GetTurn(t.Context(), alice, s.ID, api.GetTurn{ID: first.ID}))(t)
		if p := got.Messages[0].Parts; p[0].Content != "my password is [redacted], thanks" || p[1].Content != "[redacted]" {
			t.Errorf("%s: %+v", name, p)
		}
		add(t, e2, s.ID, say("it goes on", "there"))
		redact(t, e2, s.ID, api.RedactTurn{Text: "it goes on"})
		enginetest.Verified(t, e2)
	}
}

// Who kept the digest of large content reads it no more when its text was redacted, and can't append it by its digest; equal content that
// another turn has, or that is put again, is there.
func TestALargeContentThatWasRedactedIsNotReadByItsDigest(t *testing.T) {
	e := newWorld().Engine(t)
	ctx := t.Context()
	s, other := create(t, e, 0, "nexus"), create(t, e, 0, "nexus")
	big := strings.Repeat("line of a log\n", 40_000) + secret
	a := add(t, e, s.ID, say(big, "ok"))
	add(t, e, other.ID, say(big, "of another tree"))
	ref := must(e.Reader.GetTurn(ctx, alice, s.ID, api.GetTurn{ID: a.ID, Read: api.Read{MinPosition: api.Position(a.Position)}}))(t).Messages[0].Parts[0].Ref
	if ref == nil {
		t.Fatal("it is no blob")
	}
	get := func() error {
		_, err := e.Reader.GetBlob(ctx, alice, api.GetBlob{Session: s.ID, Digest: ref.Digest})
		return err
	}
	use := func() error {
		_, err := e.Sessions.Append(ctx, alice, s.ID, api.AppendTurn{Messages: []turns.Message{{Role: turns.User, Parts: []turns.Part{{Type: turns.Text, Ref: &turns.BlobRef{Digest: ref.Digest, Size: ref.Size}}}}}}, []byte(`{"use":1}`))
		return err
	}
	if err := get(); err != nil {
		t.Fatal(err)
	}
	redact(t, e, s.ID, api.RedactTurn{Text: secret})
	for range 2 {
		if enginetest.Code(get()) != api.NotFound || enginetest.Code(use()) != api.NotFound {
			t.Errorf("by its digest: %v, %v", get(), use())
		}
	}
	fork := must(e.Forks.Fork(ctx, alice, s.ID, api.CreateFork{Turn: a.ID}, []byte("{}")))(t)
	if _, err := e.Reader.GetBlob(ctx, alice, api.GetBlob{Session: fork.ID, Digest: ref.Digest}); enginetest.Code(err) != api.NotFound {
		t.Errorf("in a fork: %v", err)
	}
	must(e.Writer.PutBlob(ctx, alice, api.PutBlob{Session: s.ID, Data: []byte(big)}))(t)
	if err := use(); err != nil {
		t.Errorf("put again: %v", err)
	}
	if err := get(); err != nil {
		t.Errorf("another turn has it: %v", err)
	}
	enginetest.Verified(t, e)
}

// What says how a context is read stays as it is: names of tools, and what the ledger itself writes; what a marker would make longer than
// it may be is marked whole; names that a marker would make equal stay two.
func TestAMarkerLeavesWhatItIsIn(t *testing.T) {
	e := newWorld().Engine(t)
	ctx := t.Context()
	title := strings.Repeat("acme ", turns.MaxTitle/5)
	r := api.CreateSession{SessionSettings: api.SessionSettings{Policy: &api.Policy{Name: "nexus"}, Meta: turns.Raw(`{"acme":1,"ac\u006de ":2,"[redacted]":3}`),
		Tools: &[]turns.Raw{turns.Raw(`{"name":"acme_login","description":"of acme","parameters":{"type":"object","properties":{"acme":{"type":"string"}}}}`)}}}
	s := must(e.Sessions.Create(ctx, alice, r, []byte("{}")))(t)
	a := say("look at acme", "")
	a.Messages[0].Name = "acme"
	a.Messages[0].Parts = append(a.Messages[0].Parts, turns.Part{Type: turns.URI, Modality: "image", Content: "https://x/?token=acme"})
	a.Response = &turns.Message{Role: turns.Assistant, Parts: []turns.Part{{Type: turns.ToolCall, ID: "acme-1", Name: "acme_login", Arguments: turns.Raw(`{"acme":"x","q":"ac\/me acme"}`)}}}
	at := add(t, e, s.ID, a)
	must(e.Sessions.Describe(ctx, alice, s.ID, api.DescribeSession{Title: &title, Tag: []string{"acme", "a acme"}}, []byte("{}")))(t)
	got := redact(t, e, s.ID, api.RedactTurn{Text: "acme"})
	if len(got.Events) != 3 || got.Events[0].Stays == 0 || got.Events[1].Stays == 0 {
		t.Errorf("%+v", got.Events)
	}
	turn := must(e.Reader.GetTurn(ctx, alice, s.ID, api.GetTurn{ID: at.ID}))(t)
	m := turn.Messages[0]
	if m.Name != "acme" || m.Parts[0].Content != "look at [redacted]" || m.Parts[1].Content != "[redacted]" {
		t.Errorf("the message: %+v", m)
	}
	if p := turn.Response.Parts[0]; p.ID != "acme-1" || p.Name != "acme_login" || string(p.Arguments) != `{"[redacted]":"x","q":"ac/me [redacted]"}` {
		t.Errorf("the call: %+v", p)
	}
	g := must(e.Reader.Get(ctx, alice, s.ID, api.Read{}))(t)
	tools := string(enginetest.JSON(must(e.Contexts.Context(ctx, alice, s.ID, api.GetContext{}))(t).Tools))
	if g.Title != "[redacted]" || !strings.Contains(tools, `"name":"acme_login"`) || !strings.Contains(tools, `"description":"of [redacted]"`) || !strings.Contains(tools, `"acme":{"type"`) {
		t.Errorf("the session: %+v, tools %s", g, tools)
	}
	if !strings.Contains(string(g.Meta), `"[redacted] (2)":1`) || !strings.Contains(string(g.Meta), `"[redacted]":3`) {
		t.Errorf("its meta: %s", g.Meta)
	}
	for _, format := range []string{"anthropic", "openai", "gemini"} {
		must(e.Contexts.Context(ctx, alice, s.ID, api.GetContext{Format: format}))(t)
	}
	tag := api.DescribeSession{Tag: []string{"more"}}
	must(e.Sessions.Describe(ctx, alice, s.ID, tag, enginetest.JSON(tag)))(t)
	enginetest.Verified(t, e)
}

// An event that nobody can open any more does not keep the others, and what a backup brings back goes whatever kind it is.
func TestRedactionsPassOverWhatIsErased(t *testing.T) {
	w := newWorld()
	e := w.Engine(t)
	ctx := t.Context()
	s, first := leaky(t, e)
	must(e.Sessions.Set(ctx, alice, s.ID, api.SetSession{SessionSettings: api.SessionSettings{System: &api.System{{Content: "again " + secret}}}}, []byte(`{"set":1}`)))(t)
	head := must(e.Reader.Get(ctx, alice, s.ID, api.Read{}))(t).Head
	fork := must(e.Forks.Fork(ctx, alice, s.ID, api.CreateFork{Turn: *head}, []byte("{}")))(t)
	for range 12 {
		add(t, e, fork.ID, say(secret+" "+enginetest.Text(2000), "ok"))
	}
	if run := must(e.Compactions.Compact(ctx, alice, fork.ID, api.RunCompaction{}, []byte("{}")))(t); run.Compaction == nil {
		t.Fatalf("%+v", run)
	}
	add(t, e, fork.ID, say("behind it "+secret, "ok"))
	var listed []erasure.Erased
	for payload, err := range e.Reader.Projections.Events(s.ID, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if ev := must(turns.Decode(payload))(t); len(ev.Body) > 0 {
			listed = append(listed, erasure.Erased{Session: s.ID, Event: ev.ID, Ground: "g"})
		}
	}
	e.Erasure.Listed = func() ([]erasure.Erased, error) { return listed, nil }
	if err := e.Erasure.Finish(ctx); err != nil {
		t.Fatal(err)
	}
	if where := leftOf(t, e, s.ID, secret); len(where) > 0 {
		t.Errorf("a backup brought back %v", where)
	}
	if got := must(e.Reader.GetTurn(ctx, alice, s.ID, api.GetTurn{ID: first.ID}))(t); got.Messages[0].Parts[1].Content != "[redacted]" {
		t.Errorf("the turn: %+v", got)
	}
	enginetest.Verified(t, e)

	erase(t, e, s.ID, api.EraseSession{})
	redact(t, e, fork.ID, api.RedactTurn{Text: secret})
	if where := leftOf(t, e, fork.ID, secret); len(where) > 0 {
		t.Errorf("of the fork of an erased session: %v", where)
	}
	enginetest.Verified(t, e)
}

// A session that was redacted again is imported again, and an older export of it takes nothing back.
func TestASessionThatWasRedactedAgainIsImportedAgain(t *testing.T) {
	e, e2 := newWorld().Engine(t), newWorld().Engine(t)
	s := create(t, e, 0, "nexus")
	for _, text := range []string{"first-secret", "second-secret", "stays"} {
		add(t, e, s.ID, say(text, "ok"))
	}
	bring := func(records []api.ExportRecord) {
		must(e2.Transfer.Import(t.Context(), enginetest.Operator, api.ImportRecords{Records: records}))(t)
	}
	redact(t, e, s.ID, api.RedactTurn{Text: "first-secret"})
	once := exports(t, e, s.ID)
	bring(once)
	redact(t, e, s.ID, api.RedactTurn{Text: "second-secret"})
	bring(exports(t, e, s.ID))
	bring(once)
	for _, text := range []string{"first-secret", "second-secret"} {
		if where := leftOf(t, e2, s.ID, text); len(where) > 0 {
			t.Errorf("%s is left in %v", text, where)
		}
	}
	enginetest.Verified(t, e2)
}

// A text is taken out of what an agent saved: memories, repeated ones and withdrawn ones among them, and each version of its document.
// The agent goes on, and the ledger verifies.
func TestATextIsTakenOutOfMemories(t *testing.T) {
	w := newWorld()
	e, _ := w.SearchEngine(t, t.TempDir())
	ctx := t.Context()
	save := func(r api.SaveMemory) *api.Memory {
		r.Visibility = "all"
		return must(e.Memories.Save(ctx, alice, r, enginetest.JSON(r)))(t)
	}
	had := save(api.SaveMemory{ID: enginetest.ID(t), Kind: "semantic", Text: "The password is hunter22."})
	save(api.SaveMemory{ID: enginetest.ID(t), Kind: "semantic", Text: "The password is  hunter22"}) // the same again
	old := save(api.SaveMemory{ID: enginetest.ID(t), Kind: "daily", Text: "hunter22 was set."})
	gone := api.WithdrawMemory{Memory: old.ID}
	must(e.Memories.Withdraw(ctx, alice, gone, enginetest.JSON(gone)))(t)
	kept := save(api.SaveMemory{ID: enginetest.ID(t), Kind: "semantic", Text: "Tea is liked."})
	for i, text := range []string{"# Notes\nhunter22", "# Notes\nhunter22 and tea", "# Notes\ntea", "# Notes\ntea, hunter22, cake"} {
		doc := api.MemoryDocument{Text: &text, If: fmt.Sprint(i)}
		must(e.Memories.Document(ctx, alice, doc, enginetest.JSON(doc)))(t)
	}
	r := api.RedactMemories{Agent: alice.Agent, Text: "hunter22", DryRun: true}
	dry := must(e.Memories.Redact(ctx, enginetest.Operator, r))(t)
	if dry.Done || len(dry.Memories) != 2 || dry.Documents != 3 {
		t.Errorf("the dry run: %+v", dry)
	}
	if len(find(t, w, e, alice, seek("hunter22")).Hits) == 0 {
		t.Error("it is not found before")
	}
	r.DryRun = false
	if _, err := e.Memories.Redact(ctx, alice, r); enginetest.Code(err) != api.Denied {
		t.Errorf("an agent: %v", err)
	}
	if got := must(e.Memories.Redact(ctx, enginetest.Operator, r))(t); !got.Done || len(got.Memories) != 2 || got.Documents != 3 {
		t.Errorf("%+v", got)
	}
	if again := must(e.Memories.Redact(ctx, enginetest.Operator, r))(t); !again.Done || len(again.Memories) != 0 || again.Documents != 0 {
		t.Errorf("again: %+v", again)
	}
	for _, e := range []*Engine{e, w.Engine(t)} {
		l := must(e.Memories.List(ctx, alice, api.ListMemories{}))(t)
		if b := string(enginetest.JSON(l)); strings.Contains(b, "hunter22") || !strings.Contains(b, "Tea is liked.") {
			t.Errorf("the list: %s", b)
		}
		for _, m := range l.Memories {
			if (m.ID == had.ID || m.ID == old.ID) && (m.Error != api.Erased || m.State != "withdrawn") || m.ID == kept.ID && m.State != "accepted" {
				t.Errorf("%+v", m)
			}
		}
		if d := must(e.Memories.Document(ctx, alice, api.MemoryDocument{}, nil))(t); d.Text != "# Notes\ntea, [redacted], cake" {
			t.Errorf("the document: %+v", d)
		}
		enginetest.Verified(t, e)
	}
	for range 3000 {
		if len(find(t, w, e, alice, seek("hunter22")).Hits) == 0 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if hits := find(t, w, e, alice, seek("hunter22")).Hits; len(hits) > 0 {
		t.Errorf("found: %+v", hits)
	}
	save(api.SaveMemory{ID: enginetest.ID(t), Kind: "semantic", Text: "It goes on."})
	save(api.SaveMemory{ID: enginetest.ID(t), Kind: "semantic", Text: "Tea is liked"}) // known
	if l := must(e.Memories.List(ctx, alice, api.ListMemories{State: "accepted"}))(t); len(l.Memories) != 2 {
		t.Errorf("the memories in force: %+v", l.Memories)
	}
	enginetest.Verified(t, e)
}

// Two people read a turn and take spans out of one part of it. What the second one counts in is not there any more: without a refusal other
// bytes would be gone for ever, and those that were meant would stay.
func TestASpanThatCountsInAnEarlierTextIsRefused(t *testing.T) {
	e := newWorld().Engine(t)
	ctx := t.Context()
	s := create(t, e, 0, "nexus")
	const text = "one hunter-22 two zebra-77 three"
	digest := func(s string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(s))) }
	span := func(of, what, digest string) api.RedactSpan {
		at := strings.Index(of, what)
		return api.RedactSpan{Part: 1, From: at, To: at + len(what), Digest: digest}
	}
	for name, stated := range map[string]string{"without a digest": "", "with one": digest(text)} {
		r := say(text, text)
		r.Response.Parts = append(r.Response.Parts, turns.TextPart("beside"))
		a := add(t, e, s.ID, r)
		first := api.RedactTurn{ID: enginetest.ID(t), Turn: a.ID, Spans: []api.RedactSpan{span(text, "hunter-22", stated)}}
		second := api.RedactTurn{ID: enginetest.ID(t), Turn: a.ID, Spans: []api.RedactSpan{span(text, "zebra-77", stated)}}
		redact(t, e, s.ID, first)
		dry := second
		dry.ID, dry.DryRun = turns.ID{}, true
		for _, r := range []api.RedactTurn{dry, second, second} {
			if _, err := e.Erasure.Redact(ctx, enginetest.Operator, s.ID, r, enginetest.JSON(r)); enginetest.Code(err) != api.Conflict {
				t.Errorf("%s: the second: %v", name, err)
			}
		}
		content := func() string {
			return must(e.Reader.GetTurn(ctx, alice, s.ID, api.GetTurn{ID: a.ID}))(t).Messages[0].Parts[0].Content
		}
		const now = "one [redacted] two zebra-77 three"
		if got := content(); got != now {
			t.Fatalf("%s: the part has %q", name, got)
		}
		if again := redact(t, e, s.ID, first); len(again.Events) != 0 || content() != now { // it is the same call
			t.Errorf("%s: the first again: %+v", name, again)
		}
		// The answer is another part, of which nothing was taken; and who reads the part anew can go on.
		other := api.RedactTurn{Turn: a.ID, Spans: []api.RedactSpan{{Part: 2, From: 4, To: 13}}}
		redact(t, e, s.ID, other)
		second.Spans = []api.RedactSpan{span(now, "zebra-77", digest(now)), span(now, "three", digest(now))}
		redact(t, e, s.ID, second)
		if got := content(); got != "one [redacted] two [redacted] [redacted]" {
			t.Errorf("%s: then the part has %q", name, got)
		}
	}
	if where := leftOf(t, e, s.ID, "zebra-77"); len(where) != 2 { // in the answers, of which they were not taken
		t.Errorf("it is in %v", where)
	}
	enginetest.Verified(t, e)
}

// At the same moment: one of two is stored, whichever, and the other is refused.
func TestOfTwoSpansAtTheSameMomentOneIsRefused(t *testing.T) {
	e := newWorld().Engine(t)
	s := create(t, e, 0, "nexus")
	const text = "one hunter-22 two zebra-77 three"
	for range 20 {
		a := add(t, e, s.ID, say(text, "ok"))
		errs := make(chan error, 2)
		for _, what := range []string{"hunter-22", "zebra-77"} {
			go func() {
				at := strings.Index(text, what)
				r := api.RedactTurn{ID: enginetest.ID(t), Turn: a.ID, Spans: []api.RedactSpan{{Part: 1, From: at, To: at + len(what)}}}
				_, err := e.Erasure.Redact(t.Context(), enginetest.Operator, s.ID, r, enginetest.JSON(r))
				errs <- err
			}()
		}
		got := []api.Code{enginetest.Code(<-errs), enginetest.Code(<-errs)}
		slices.Sort(got)
		if !slices.Equal(got, []api.Code{"", api.Conflict}) {
			t.Errorf("the two: %v", got)
		}
		p := must(e.Reader.GetTurn(t.Context(), alice, s.ID, api.GetTurn{ID: a.ID}))(t).Messages[0].Parts[0].Content
		if p != "one [redacted] two zebra-77 three" && p != "one hunter-22 two [redacted] three" {
			t.Errorf("the part has %q", p)
		}
	}
}
