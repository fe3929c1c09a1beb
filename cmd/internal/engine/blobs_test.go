package engine_test

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"

	"nexus/compactor"
	"nexus/compactor/summary"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/turns"
)

// refTo returns a text part whose content is a blob.
func refTo(digest turns.Hash, size uint64) turns.Part {
	return turns.Part{Type: turns.Text, Ref: &turns.BlobRef{Digest: digest, Size: size}}
}

// The parts of a recorded compaction are taken from blobs as those of a turn
// are: what is not a blob of this tree is refused, so that no event names one
// that is not there.
func TestRecordedReplacementFromABlob(t *testing.T) {
	e := newWorld().Engine(t)
	s, other := create(t, e, 0, "nexus"), create(t, e, 0, "nexus")
	add(t, e, s.ID, say("one", "two"))
	text := []byte(long(20_000) + "and so it was")
	info := must(e.Writer.PutBlob(t.Context(), alice, api.PutBlob{Session: s.ID, Data: text}))(t)
	foreign := must(e.Writer.PutBlob(t.Context(), alice, api.PutBlob{Session: other.ID, Data: text}))(t)
	record := func(p turns.Part) (*api.Turn, error) {
		r := api.RecordCompaction{Replacement: []turns.Message{{Role: turns.User, Parts: []turns.Part{p}}}}
		k, err := e.Compactions.Record(t.Context(), alice, s.ID, r, canon(r))
		if p.Ref != nil && r.Replacement[0].Parts[0].Ref == nil {
			t.Error("the request was changed")
		}
		return k, err
	}
	for name, tc := range map[string]struct {
		part turns.Part
		want api.Code
	}{
		"no such blob":           {refTo(turns.Hash{1, 2, 3}, 10), api.NotFound},
		"a blob of another tree": {refTo(foreign.Digest, foreign.Size), api.NotFound},
		"another size":           {refTo(info.Digest, info.Size+1), api.Malformed},
		"more than may be":       {refTo(info.Digest, turns.MaxWhole+1), api.TooLarge},
	} {
		if _, err := record(tc.part); code(err) != tc.want {
			t.Errorf("%s: %v, want %s", name, err, tc.want)
		}
	}
	k := must(record(refTo(info.Digest, info.Size)))(t)
	if got := k.Compaction.Replacement[0].Parts[0]; got.Content != string(text) {
		t.Errorf("the replacement holds %d bytes, ref %v", len(got.Content), got.Ref)
	}
	if cx := must(e.Contexts.Context(t.Context(), alice, s.ID, api.GetContext{}))(t); !bytes.Contains(canon(cx.Messages), []byte("and so it was")) {
		t.Errorf("context: %.200s", strings.TrimSpace(string(canon(cx.Messages))))
	}
	verified(t, e)
}

// hookLog is a log that before is called in front of each append to.
type hookLog struct {
	ledger.Log
	before func(subject string) error
}

func (l *hookLog) Append(ctx context.Context, subject string, expect uint64, payload []byte) (uint64, error) {
	if err := l.before(subject); err != nil {
		return 0, err
	}
	return l.Log.Append(ctx, subject, expect, payload)
}

// lose makes the engine's next append come after one of other's.
func lose(t *testing.T, w *world, e, other *Engine, s turns.ID) {
	lost := false
	e.Reader.Log = &hookLog{Log: w.Log, before: func(string) error {
		if !lost {
			lost = true
			add(t, other, s, say("first", "yes"))
		}
		return nil
	}}
}

// What is too large for an event is moved to blobs, and counted as it was sent,
// however often the append has to be tried.
func TestTokensAreRightAfterALostRace(t *testing.T) {
	thought := turns.Message{Role: turns.Assistant, Parts: []turns.Part{{Type: turns.Reasoning, Content: long(900_000)}, turns.TextPart("ok")}}
	for name, write := range map[string]func(e *Engine, s turns.ID) (*api.Turn, error){
		"turn.append": func(e *Engine, s turns.ID) (*api.Turn, error) {
			r := say("q", "")
			r.Response = &thought
			a, err := e.Sessions.Append(t.Context(), alice, s, r, canon(r))
			if err != nil {
				return nil, err
			}
			if thought.Parts[0].Ref != nil {
				t.Error("the request was changed")
			}
			return e.Reader.GetTurn(t.Context(), alice, s, api.GetTurn{ID: a.ID})
		},
		"compaction.record": func(e *Engine, s turns.ID) (*api.Turn, error) {
			r := api.RecordCompaction{Replacement: []turns.Message{turns.TextMessage(turns.User, long(900_000))}}
			return e.Compactions.Record(t.Context(), alice, s, r, canon(r))
		},
	} {
		count := func(race bool) uint64 {
			w := newWorld()
			e, other := w.Engine(t), w.Engine(t)
			other.Store.Blobs = e.Store.Blobs
			s := create(t, e, 0, "nexus")
			add(t, e, s.ID, say("1", "a"))
			if race {
				lose(t, w, e, other, s.ID)
			} else {
				add(t, e, s.ID, say("first", "yes"))
			}
			out := must(write(e, s.ID))(t)
			verified(t, e)
			return out.TokenCount
		}
		if calm, raced := count(false), count(true); calm != raced || calm < 100_000 {
			t.Errorf("%s: token_count %d, after a lost race %d", name, calm, raced)
		}
	}
}

// A summary that a fork takes over is counted with what it holds in blobs.
func TestReusedSummaryCountsItsBlobs(t *testing.T) {
	e := newWorld().Engine(t)
	e.Limits.MaxPayload = 64 << 10 // an event holds 16 KiB itself
	e.Loader.Tiers = []compactor.Tier{{Name: "long", Summarizer: longSummary{}, Local: true}}
	s := create(t, e, 400_000, "nexus")
	var last turns.ID
	for range 80 {
		last = add(t, e, s.ID, say(long(15_000), "yes")).ID
	}
	on := must(e.Forks.Fork(t.Context(), alice, s.ID, api.CreateFork{Turn: last}, []byte("1")))(t)
	made := must(e.Compactions.Compact(t.Context(), alice, on.ID, api.RunCompaction{}, []byte("{}")))(t).Compaction
	f := must(e.Forks.Fork(t.Context(), alice, s.ID, api.CreateFork{Turn: last, Mode: "summary"}, []byte("2")))(t)
	got := must(e.History.ListCompactions(t.Context(), alice, f.ID, api.ListCompactions{}))(t).Turns[0]
	if got.Compaction.Mode != "reused" || made.Compaction.Replacement[0].Parts[0].Ref == nil {
		t.Fatalf("mode %s, ref %v", got.Compaction.Mode, made.Compaction.Replacement[0].Parts[0].Ref)
	}
	if got.TokenCount != made.TokenCount {
		t.Errorf("%d tokens, the summary has %d", got.TokenCount, made.TokenCount)
	}
	verified(t, e)
}

// longSummary is a summarizer that says as much as it may.
type longSummary struct{}

func (longSummary) Summarize(_ context.Context, in summary.Input) (summary.Output, error) {
	return summary.Output{Text: long(int(in.MaxTokens) * 2)}, nil
}

// What is too large for an event goes to blobs, and comes back.
func TestLargePartsBecomeBlobs(t *testing.T) {
	w := newWorld()
	e := w.Engine(t)
	s := create(t, e, 0, "nexus")
	big := long(900_000)
	a := add(t, e, s.ID, say("read this: "+big, "done"))
	got := must(e.Reader.GetTurn(t.Context(), alice, s.ID, api.GetTurn{ID: a.ID}))(t)
	if ref := got.Messages[0].Parts[0].Ref; ref == nil || ref.Size != uint64(len(big)+11) {
		t.Fatalf("no blob: %+v", got.Messages[0].Parts[0].Ref)
	}
	cx := must(e.Contexts.Context(t.Context(), alice, s.ID, api.GetContext{Budget: 10_000_000}))(t)
	if len(cx.Messages[0]) < len(big) {
		t.Errorf("the context shows %d bytes of %d", len(cx.Messages[0]), len(big))
	}
	verified(t, e)
}

func TestAttachmentsComeInPieces(t *testing.T) {
	w := newWorld()
	e := w.Engine(t)
	s := create(t, e, 0, "nexus")
	whole := make([]byte, 1_500_000)
	for i := range whole {
		whole[i] = byte(i * i >> 3)
	}
	var pieces []turns.Hash
	for piece := range slices.Chunk(whole, 400_000) {
		pieces = append(pieces, must(e.Writer.PutBlob(t.Context(), alice, api.PutBlob{Session: s.ID, Data: piece}))(t).Digest)
	}
	info := must(e.Writer.PutBlob(t.Context(), alice, api.PutBlob{Session: s.ID, Pieces: pieces}))(t)
	part := turns.Part{Type: turns.Blob, Modality: "image", MimeType: "image/png", Ref: &turns.BlobRef{Digest: info.Digest, Size: info.Size}}
	r := say("look", "a picture")
	r.Messages[0].Parts = append(r.Messages[0].Parts, part)
	add(t, e, s.ID, r)
	var got []byte
	for off := uint64(0); ; {
		b := must(e.Reader.GetBlob(t.Context(), alice, api.GetBlob{Session: s.ID, Digest: info.Digest, Offset: off}))(t)
		if got = append(got, b.Data...); b.Next == 0 {
			break
		}
		off = b.Next
	}
	if !bytes.Equal(got, whole) {
		t.Errorf("the blob came back as %d bytes that differ", len(got))
	}
	wrong := part
	wrong.Ref = &turns.BlobRef{Digest: info.Digest, Size: 7}
	r = say("look", "x")
	r.Messages[0].Parts = append(r.Messages[0].Parts, wrong)
	if _, err := e.Sessions.Append(t.Context(), alice, s.ID, r, nil); code(err) != api.Malformed {
		t.Errorf("a ref with a wrong size: %v, want malformed", err)
	}
	other := create(t, e, 0, "nexus")
	r.Messages[0].Parts[1] = part
	if _, err := e.Sessions.Append(t.Context(), alice, other.ID, r, nil); code(err) != api.NotFound {
		t.Errorf("a ref to a blob of another tree: %v, want not_found", err)
	}
	if _, err := e.Reader.GetBlob(t.Context(), alice, api.GetBlob{Session: other.ID, Digest: info.Digest}); code(err) != api.NotFound {
		t.Errorf("a blob of another tree: %v, want not_found", err)
	}
	verified(t, e)
}
