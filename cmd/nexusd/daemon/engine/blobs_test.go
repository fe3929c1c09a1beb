package engine

import (
	"bytes"
	"strings"
	"testing"

	"nexus/ledger/api"
	"nexus/turns"
)

// refTo is a text part whose content is a blob.
func refTo(digest turns.Hash, size uint64) turns.Part {
	return turns.Part{Type: turns.Text, Ref: &turns.BlobRef{Digest: digest, Size: size}}
}

// The parts of a recorded compaction are taken from blobs as those of a turn
// are: what is not a blob of this tree is refused, so that no event names one
// that is not there.
func TestRecordedReplacementFromABlob(t *testing.T) {
	e := newWorld().engine(t)
	s, other := create(t, e, 0, "nexus"), create(t, e, 0, "nexus")
	add(t, e, s.ID, say("one", "two"))
	text := []byte(long(20_000) + "and so it was")
	info := must(e.PutBlob(t.Context(), alice, api.PutBlob{Session: s.ID, Data: text}))(t)
	foreign := must(e.PutBlob(t.Context(), alice, api.PutBlob{Session: other.ID, Data: text}))(t)
	record := func(p turns.Part) (*api.Turn, error) {
		r := api.RecordCompaction{Replacement: []turns.Message{{Role: turns.User, Parts: []turns.Part{p}}}}
		k, err := e.Record(t.Context(), alice, s.ID, r, canon(r))
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
		"more than may be":       {refTo(info.Digest, maxAttachment+1), api.TooLarge},
	} {
		if _, err := record(tc.part); code(err) != tc.want {
			t.Errorf("%s: %v, want %s", name, err, tc.want)
		}
	}
	k := must(record(refTo(info.Digest, info.Size)))(t)
	if got := k.Compaction.Replacement[0].Parts[0]; got.Content != string(text) {
		t.Errorf("the replacement holds %d bytes, ref %v", len(got.Content), got.Ref)
	}
	if cx := must(e.Context(t.Context(), alice, s.ID, api.GetContext{}))(t); !bytes.Contains(canon(cx.Messages), []byte("and so it was")) {
		t.Errorf("context: %.200s", strings.TrimSpace(string(canon(cx.Messages))))
	}
	verified(t, e)
}
