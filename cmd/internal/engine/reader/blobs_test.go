package reader_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"nexus/cmd/internal/engine"
	"nexus/cmd/internal/engine/enginetest"
	"nexus/cmd/internal/engine/reader"
	"nexus/ledger/api"
	"nexus/turns"
	"nexus/turns/seal"
)

// A blob belongs to its tree of forks, sealed or not: what another agent, or
// another session of the same one, has stored can't be read, named, or found out
// by its digest.
func TestBlobBelongsToItsTree(t *testing.T) {
	for _, sealed := range []bool{true, false} {
		t.Run(map[bool]string{true: "sealed", false: "unsealed"}[sealed], func(t *testing.T) {
			e := enginetest.NewWorld().Engine(t)
			if !sealed {
				e.Store.Keys = nil
			}
			s := enginetest.Create(t, e, 0, "nexus")
			content := []byte("what alice attached")
			info := enginetest.Must(e.Writer.PutBlob(t.Context(), enginetest.Alice, api.PutBlob{Session: s.ID, Data: content}))(t)
			at := enginetest.Add(t, e, s.ID, enginetest.NameBlob("read number 1", info))
			fork := enginetest.Must(e.Forks.Fork(t.Context(), enginetest.Alice, s.ID, api.CreateFork{Turn: at.ID}, []byte("{}")))(t)
			got := enginetest.Must(e.Reader.GetBlob(t.Context(), enginetest.Alice, api.GetBlob{Session: fork.ID, Digest: info.Digest}))(t)
			if string(got.Data) != string(content) {
				t.Errorf("in the fork: %q", got.Data)
			}
			if again := enginetest.Must(e.Writer.PutBlob(t.Context(), enginetest.Alice, api.PutBlob{Session: fork.ID, Data: content}))(t); again.Digest != info.Digest {
				t.Error("the same content has another digest in the fork")
			}
			bob := reader.Caller{Tenant: "default", Agent: "bob"}
			for _, c := range []reader.Caller{enginetest.Alice, bob} {
				own := enginetest.Must(e.Sessions.Create(t.Context(), c, api.CreateSession{}, []byte("{}")))(t)
				for _, digest := range []turns.Hash{info.Digest, seal.BlobDigest(seal.Key{}, content), seal.BlobDigest(seal.UnsealedKey(s.ID), content)} {
					if _, err := e.Reader.GetBlob(t.Context(), c, api.GetBlob{Session: own.ID, Digest: digest}); enginetest.Code(err) != api.NotFound {
						t.Errorf("blob.get of another tree's blob: %v", err)
					}
					if _, err := e.Writer.PutBlob(t.Context(), c, api.PutBlob{Session: own.ID, Pieces: []turns.Hash{digest}}); enginetest.Code(err) != api.NotFound {
						t.Errorf("blob.put of another tree's blob: %v", err)
					}
					r := enginetest.NameBlob("read number 1", &api.BlobInfo{Digest: digest, Size: info.Size})
					if _, err := e.Sessions.Append(t.Context(), c, own.ID, r, enginetest.JSON(r)); enginetest.Code(err) != api.NotFound {
						t.Errorf("turn.append of another tree's blob: %v", err)
					}
				}
				if mine := enginetest.Must(e.Writer.PutBlob(t.Context(), c, api.PutBlob{Session: own.ID, Data: content}))(t); mine.Digest == info.Digest {
					t.Error("the same content has the same digest in another tree")
				}
			}
			enginetest.Verified(t, e)
		})
	}
}

// The blobs of a fork hang on no key of its root: erasing the root leaves them readable, and new
// ones can be stored.
func TestAForksBlobsOutliveItsRoot(t *testing.T) {
	w := enginetest.NewWorld()
	e := w.Engine(t)
	root := enginetest.Create(t, e, 0, "nexus")
	attach := func(e *engine.Engine, s turns.ID, content string) *api.BlobInfo {
		t.Helper()
		info := enginetest.Must(e.Writer.PutBlob(t.Context(), enginetest.Alice, api.PutBlob{Session: s, Data: []byte(content)}))(t)
		enginetest.Add(t, e, s, enginetest.NameBlob("read "+content, info))
		return info
	}
	attach(e, root.ID, "the root's")
	at := enginetest.Must(e.Reader.FindSession(t.Context(), enginetest.Alice, root.ID, true))(t).Head.Turn
	fork := enginetest.Must(e.Forks.Fork(t.Context(), enginetest.Alice, root.ID, api.CreateFork{Turn: at}, []byte("{}")))(t)
	own := attach(e, fork.ID, "the fork's")
	if err := w.Keys.Destroy(root.ID); err != nil {
		t.Fatal(err)
	}
	after := w.Engine(t) // without what e has read
	if got := enginetest.Must(after.Reader.GetBlob(t.Context(), enginetest.Alice, api.GetBlob{Session: fork.ID, Digest: own.Digest}))(t); string(got.Data) != "the fork's" {
		t.Errorf("after the root is erased: %q", got.Data)
	}
	later := enginetest.Must(after.Writer.PutBlob(t.Context(), enginetest.Alice, api.PutBlob{Session: fork.ID, Data: []byte("later")}))(t)
	if got := enginetest.Must(w.Engine(t).Reader.GetBlob(t.Context(), enginetest.Alice, api.GetBlob{Session: fork.ID, Digest: later.Digest}))(t); string(got.Data) != "later" {
		t.Errorf("stored after the root is erased: %q", got.Data)
	}
}

// What opens a blob is in sealed references only: no header shows it, and the key of its tree does not
// give it to who lacks the content. So erasing a fork takes its blobs along.
func TestABlobIsOpenedByItsReferenceAlone(t *testing.T) {
	w := enginetest.NewWorld()
	e := w.Engine(t)
	root := enginetest.Create(t, e, 0, "nexus")
	turn := enginetest.Add(t, e, root.ID, enginetest.NameBlob("read number 1", enginetest.Must(e.Writer.PutBlob(t.Context(), enginetest.Alice, api.PutBlob{Session: root.ID, Data: []byte("x")}))(t)))
	fork := enginetest.Must(e.Forks.Fork(t.Context(), enginetest.Alice, root.ID, api.CreateFork{Turn: turn.ID}, []byte("{}")))(t)
	text := strings.Repeat("what only the fork says ", 40_000) // too large for the event
	info := enginetest.Must(e.Writer.PutBlob(t.Context(), enginetest.Alice, api.PutBlob{Session: fork.ID, Data: []byte(text)}))(t)
	enginetest.Add(t, e, fork.ID, enginetest.NameBlob("read number 2", info))
	st := enginetest.Must(w.Log.State(t.Context()))(t)
	named := 0
	for seq := uint64(1); seq <= st.Last; seq++ {
		r := enginetest.Must(w.Log.Get(t.Context(), seq))(t)
		if bytes.Contains(r.Payload, info.Digest[:]) {
			t.Errorf("record %d shows what opens the blob", seq)
		}
		ev := enginetest.Must(turns.Decode(r.Payload))(t)
		for _, l := range ev.Blobs {
			if l.Address == seal.BlobAddress(info.Digest) {
				named++
			}
		}
	}
	if named != 1 {
		t.Errorf("%d headers name the blob, want 1", named)
	}
	sealed := enginetest.Must(w.Blobs.GetBlob(t.Context(), "default", seal.BlobAddress(info.Digest)))(t)
	k := enginetest.Must(w.Keys.Key(root.ID))(t)
	for _, guess := range []turns.Hash{turns.Hash(k), seal.BlobAddress(info.Digest), seal.BlobDigest(k, []byte("another guess"))} {
		if _, err := seal.OpenBlob(guess, sealed); !errors.Is(err, turns.ErrCorrupt) {
			t.Errorf("a blob opens without its reference: %v", err)
		}
	}
	if b, err := seal.OpenBlob(seal.BlobDigest(k, []byte(text)), sealed); err != nil || string(b) != text {
		t.Errorf("who guesses the content with the tree's key confirms it (docs/FORMAT.md, 8): %d bytes, %v", len(b), err)
	}
}
