package reader_test

import (
	"testing"

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
