package engine_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/turns"
)

// exports returns all pages of an export, each of which has room in one message, as
// has an import of any of its records.
func exports(t *testing.T, e *Engine, session turns.ID) (records []api.ExportRecord) {
	t.Helper()
	for after := ""; ; {
		page := must(e.Transfer.Export(t.Context(), alice, session, api.ExportSession{Page: api.Page{After: after}}))(t)
		if n := len(canon(page)); n > e.Limits.Payload() {
			t.Fatalf("a page of %d records has %d bytes, a message may have %d", len(page.Records), n, e.Limits.Payload())
		}
		for _, r := range page.Records {
			if n := len(canon(api.ImportRecords{Records: []api.ExportRecord{r}})); n > e.Limits.Payload() {
				t.Fatalf("the import of a record has %d bytes, a message may have %d", n, e.Limits.Payload())
			}
		}
		records = append(records, page.Records...)
		if after = page.Next; after == "" {
			return records
		}
	}
}

// A session whose events are larger than a message may be now, as they were stored
// when the server took larger ones, goes out all the same, in small messages.
func TestLargeEventsAreExported(t *testing.T) {
	e, to := newWorld().Engine(t), newWorld().Engine(t)
	text := strings.NewReplacer(`"`, "x", `\`, "x").Replace(noise(100 << 10))
	meta := turns.Raw(`{"m":"` + text + `"}`)
	r := api.CreateSession{SessionSettings: api.SessionSettings{Meta: meta}}
	s := must(e.Sessions.Create(t.Context(), alice, r, canon(r)))(t)
	q := say("question", "answer")
	q.Meta = meta
	add(t, e, s.ID, q)
	add(t, e, s.ID, say("question", "answer"))
	e.Limits.MaxPayload = 64 << 10
	pieces := 0
	for _, x := range exports(t, e, s.ID) {
		if x.Piece != nil {
			pieces++
		}
		if err := importAs(t, to, alice, x); err != nil {
			t.Fatal(err)
		}
	}
	if pieces == 0 {
		t.Error("no event went out in pieces")
	}
	e.Limits.MaxPayload = 0
	here, there := must(e.Reader.Get(t.Context(), alice, s.ID, api.Read{}))(t), must(to.Reader.Get(t.Context(), alice, s.ID, api.Read{}))(t)
	if here.Hash != there.Hash {
		t.Errorf("hash %v there, %v here", there.Hash, here.Hash)
	}
	verified(t, to)
}

func TestExportKeepsHashes(t *testing.T) {
	w := newWorld()
	e := w.Engine(t)
	s := create(t, e, 8000, "nexus")
	var last turns.ID
	for i := range 8 {
		last = add(t, e, s.ID, say(fmt.Sprintf("question %d %s", i, long(2000)), fmt.Sprintf("answer %d", i))).ID
	}
	must(e.Compactions.Compact(t.Context(), alice, s.ID, api.RunCompaction{}, []byte("{}")))(t)
	fork := must(e.Forks.Fork(t.Context(), alice, s.ID, api.CreateFork{Turn: last}, []byte("f")))(t)
	add(t, e, fork.ID, say("on the fork", "yes"))
	var records []api.ExportRecord
	for after := ""; ; {
		p := must(e.Transfer.Export(t.Context(), alice, fork.ID, api.ExportSession{Page: api.Page{After: after, Limit: 1}}))(t)
		records = append(records, p.Records...)
		if p.Next == after && after != "" {
			t.Fatalf("the page after %s is followed by itself", after)
		}
		if after = p.Next; after == "" {
			break
		}
	}
	to := newWorld().Engine(t)
	first := must(to.Transfer.Import(t.Context(), alice, api.ImportRecords{Records: records}))(t)
	again := must(to.Transfer.Import(t.Context(), alice, api.ImportRecords{Records: records}))(t)
	if first.Stored == 0 || again.Stored != 0 || again.Existing != first.Stored {
		t.Errorf("imported %+v, then %+v", first, again)
	}
	a := must(e.Reader.Get(t.Context(), alice, fork.ID, api.Read{}))(t)
	b := must(to.Reader.Get(t.Context(), alice, fork.ID, api.Read{}))(t)
	if a.Hash != b.Hash {
		t.Errorf("hash %v became %v", a.Hash, b.Hash)
	}
	if must(e.Contexts.Context(t.Context(), alice, fork.ID, api.GetContext{}))(t).Fingerprint != must(to.Contexts.Context(t.Context(), alice, fork.ID, api.GetContext{}))(t).Fingerprint {
		t.Error("the context differs after import")
	}
	records[len(records)-1].Event.Payload[40] ^= 1
	if _, err := newWorld().Engine(t).Transfer.Import(t.Context(), alice, api.ImportRecords{Records: records}); code(err) != api.Corrupt {
		t.Errorf("import of a changed event: %v, want corrupt", err)
	}
	verified(t, to)
}

// copyTo exports a session from one engine into another, and gives what the
// first refused record says.
func copyTo(t *testing.T, from, to *Engine, session turns.ID) error {
	t.Helper()
	for after := ""; ; {
		page := must(from.Transfer.Export(t.Context(), alice, session, api.ExportSession{Page: api.Page{After: after, Limit: 3}}))(t)
		if _, err := to.Transfer.Import(t.Context(), alice, api.ImportRecords{Records: page.Records}); err != nil {
			return err
		}
		if after = page.Next; after == "" {
			return nil
		}
	}
}

// A fork that reuses a summary from another branch can be read where only the
// fork and its ancestors are.
func TestAReusedSummaryGoesOutWithTheFork(t *testing.T) {
	e := newWorld().Engine(t)
	s := create(t, e, 8000, "nexus")
	var ids []turns.ID
	for i := range 8 {
		ids = append(ids, add(t, e, s.ID, say(fmt.Sprintf("question %d %s", i, long(2000)), fmt.Sprintf("answer %d", i))).ID)
	}
	branch := must(e.Forks.Fork(t.Context(), alice, s.ID, api.CreateFork{Turn: ids[7]}, []byte("1")))(t)
	must(e.Compactions.Compact(t.Context(), alice, branch.ID, api.RunCompaction{}, []byte("{}")))(t)
	f := must(e.Forks.Fork(t.Context(), alice, s.ID, api.CreateFork{Turn: ids[7], Mode: "summary"}, []byte("2")))(t)
	list := must(e.History.ListCompactions(t.Context(), alice, f.ID, api.ListCompactions{}))(t)
	if len(list.Turns) != 1 || list.Turns[0].Compaction.Mode != "reused" {
		t.Fatalf("compactions of the fork: %+v", list.Turns)
	}
	to := newWorld().Engine(t)
	if err := copyTo(t, e, to, f.ID); err != nil {
		t.Fatal(err)
	}
	here := must(e.Contexts.Context(t.Context(), alice, f.ID, api.GetContext{}))(t)
	there := must(to.Contexts.Context(t.Context(), alice, f.ID, api.GetContext{}))(t)
	if here.Fingerprint != there.Fingerprint {
		t.Errorf("fingerprint %s here, %s there", here.Fingerprint, there.Fingerprint)
	}
	verified(t, to)
}

// A blob is written once: one with other content than its digest says must not
// take the place of the right one.
func TestAnImportedBlobHasItsDigest(t *testing.T) {
	e := newWorld().Engine(t)
	s := create(t, e, 0, "nexus")
	add(t, e, s.ID, say("read this: "+long(900_000), "done"))
	var blob *api.ExportBlob
	for _, r := range must(e.Transfer.Export(t.Context(), alice, s.ID, api.ExportSession{}))(t).Records {
		if r.Blob != nil {
			blob = r.Blob
		}
	}
	to := newWorld().Engine(t)
	if _, err := to.Transfer.Import(t.Context(), alice, api.ImportRecords{Records: []api.ExportRecord{{Blob: blob}}}); err == nil {
		t.Error("a blob of an unknown tree was taken")
	}
	wrong := *blob
	wrong.Sealed = bytes.Clone(blob.Sealed)
	wrong.Sealed[len(wrong.Sealed)/2] ^= 1
	key := must(e.Store.Keys.Content(s.ID))(t).Bytes()
	if _, err := to.Transfer.Import(t.Context(), alice, api.ImportRecords{Records: []api.ExportRecord{{Key: &api.ExportKey{ID: s.ID, Key: key}}, {Blob: &wrong}}}); code(err) != api.Corrupt {
		t.Errorf("altered content: %v, want corrupt", err)
	}
	if err := copyTo(t, e, to, s.ID); err != nil {
		t.Fatal(err)
	}
	verified(t, to)
}

// readBlobs adds up what is read.
type readBlobs struct {
	ledger.Blobs
	reads int
}

func (b *readBlobs) GetBlob(ctx context.Context, tenant string, digest turns.Hash) ([]byte, error) {
	b.reads++
	return b.Blobs.GetBlob(ctx, tenant, digest)
}

// A blob goes out once, in front of the first event that names it, on a fork too,
// and is read once however many pages it takes. Each page may be another daemon's:
// then a blob may go out again, and what comes out is whole all the same.
func TestABlobIsExportedOnce(t *testing.T) {
	w := newWorld()
	e, other := w.Engine(t), w.Engine(t)
	e.Limits.MaxPayload, other.Limits.MaxPayload = 64<<10, 64<<10
	s := create(t, e, 0, "nexus").ID
	var last turns.ID
	names := func(infos ...*api.BlobInfo) {
		t.Helper()
		r := say("question", "answer")
		for _, b := range infos {
			r.Messages[0].Parts = append(r.Messages[0].Parts, turns.Part{Type: turns.Blob, Modality: "image", MimeType: "image/png", Ref: &turns.BlobRef{Digest: b.Digest, Size: b.Size}})
		}
		last = add(t, e, s, r).ID
	}
	put := func(n int) *api.BlobInfo {
		return must(e.Writer.PutBlob(t.Context(), alice, api.PutBlob{Session: s, Data: []byte(noise(n))}))(t)
	}
	large, small := put(300<<10), put(20<<10)
	names(small)
	names(large, small)
	names(large)
	s = must(e.Forks.Fork(t.Context(), alice, s, api.CreateFork{Turn: last}, []byte("{}")))(t).ID
	names(small, large)
	names(put(30<<10), large)

	blobs := &readBlobs{Blobs: e.Store.Blobs}
	e.Store.Blobs = blobs
	out := make(map[turns.Hash]int)
	for _, r := range exports(t, e, s) {
		if r.Blob != nil {
			out[r.Blob.Digest]++
		}
	}
	if len(out) != 3 || blobs.reads > 4 {
		t.Errorf("%d blobs went out in %d reads", len(out), blobs.reads)
	}
	for d, n := range out {
		if n != 1 {
			t.Errorf("blob %s went out %d times", d, n)
		}
	}
	for _, limit := range []int{1, 2, 500} {
		to := newWorld().Engine(t)
		to.Limits.MaxPayload = e.Limits.MaxPayload
		forgets := newEngine(w, e.Reader.Projections)
		forgets.Limits.MaxPayload = e.Limits.MaxPayload
		order := []*Engine{other, e, forgets}
		for after := ""; ; order = append(order[1:], order[0]) {
			page := must(order[0].Transfer.Export(t.Context(), alice, s, api.ExportSession{Page: api.Page{After: after, Limit: limit}}))(t)
			if page.Next == after {
				t.Fatalf("limit %d: the page after %q does not go on", limit, after)
			}
			must(to.Transfer.Import(t.Context(), alice, api.ImportRecords{Records: page.Records}))(t)
			if after = page.Next; after == "" {
				break
			}
		}
		if v := verified(t, to); v.Blobs != 8 {
			t.Errorf("limit %d: events name blobs %d times, want 8", limit, v.Blobs)
		}
	}
}
