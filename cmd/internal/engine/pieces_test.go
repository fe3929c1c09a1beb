package engine_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/turns"
	"nexus/turns/seal"
)

// randomText returns n bytes of words that do not compress away.
func randomText(seed uint64, n int) []byte {
	r := rand.New(rand.NewPCG(seed, 0))
	b := make([]byte, 0, n+16)
	for len(b) < n {
		b = fmt.Appendf(b, "%x ", r.Uint64())
	}
	return b[:n]
}

// putInPieces stores content piece by piece, and returns the ref to it.
func putInPieces(t testing.TB, e *Engine, s turns.ID, content []byte) *turns.BlobRef {
	t.Helper()
	info := must(e.Writer.PutBlob(t.Context(), alice, api.PutBlob{Session: s, Pieces: putAll(t, e, s, content), InPieces: true}))(t)
	return &turns.BlobRef{Digest: info.Digest, Size: info.Size, Pieces: info.Pieces}
}

func putAll(t testing.TB, e *Engine, s turns.ID, content []byte) (pieces []turns.Hash) {
	t.Helper()
	for rest := content; len(rest) > 0; rest = rest[min(turns.MaxPiece, len(rest)):] {
		info := must(e.Writer.PutBlob(t.Context(), alice, api.PutBlob{Session: s, Data: rest[:min(turns.MaxPiece, len(rest))]}))(t)
		pieces = append(pieces, info.Digest)
	}
	return pieces
}

// readPieces returns the content that a ref names, read with blob.get.
func readPieces(t testing.TB, e *Engine, s turns.ID, ref *turns.BlobRef) (all []byte) {
	t.Helper()
	for _, d := range ref.Pieces {
		for offset := uint64(0); ; {
			b := must(e.Reader.GetBlob(t.Context(), alice, api.GetBlob{Session: s, Digest: d, Offset: offset}))(t)
			all = append(all, b.Data...)
			if offset = b.Next; offset == 0 {
				break
			}
		}
	}
	return all
}

// callThenResult appends a call, and the result p of it.
func callThenResult(t testing.TB, e *Engine, s turns.ID, p turns.Part) *api.Appended {
	t.Helper()
	call := say("run it", "")
	call.Response = &turns.Message{Role: turns.Assistant, Parts: []turns.Part{{Type: turns.ToolCall, ID: "a", Name: "run", Arguments: turns.Raw("{}")}}}
	add(t, e, s, call)
	p.Type, p.ID = turns.ToolCallResponse, "a"
	done := turns.TextMessage(turns.Assistant, "done")
	return add(t, e, s, api.AppendTurn{Messages: []turns.Message{{Role: turns.Tool, Parts: []turns.Part{p}}}, Response: &done})
}

// A result in pieces is stored as it is, read back byte for byte, shown by its beginning, and
// counted as it is shown, here and where it is imported.
func TestContentInPiecesIsReadBackAndNeverShown(t *testing.T) {
	w := newWorld()
	e := w.Engine(t)
	s := create(t, e, 200_000, "balanced").ID
	content := turns.RawText(string(randomText(1, 2*turns.MaxPiece+1000)) + "\"\n é")
	ref := putInPieces(t, e, s, content)
	if ref.Size != uint64(len(content)) || len(ref.Pieces) != 3 {
		t.Fatalf("ref: %d bytes in %d pieces", ref.Size, len(ref.Pieces))
	}
	ref.Preview = "nothing that is there"
	ack := callThenResult(t, e, s, turns.Part{Ref: ref})
	if ack.Context.Tokens > 1000 {
		t.Errorf("the context has %d tokens", ack.Context.Tokens)
	}
	check := func(e *Engine) {
		t.Helper()
		got := must(e.Reader.GetTurn(t.Context(), alice, s, api.GetTurn{ID: ack.ID}))(t).Messages[0].Parts[0].Ref
		if got == nil || got.Digest != ref.Digest || got.Preview != string(content[:256]) {
			t.Fatalf("the turn has ref %+v", got)
		}
		if b := readPieces(t, e, s, got); !bytes.Equal(b, content) {
			t.Errorf("%d bytes came back, %d were stored", len(b), len(content))
		}
		cx := must(e.Contexts.Context(t.Context(), alice, s, api.GetContext{}))(t)
		if shown := string(canon(cx.Messages)); len(shown) > 2000 || !strings.Contains(shown, fmt.Sprintf("[%d bytes, too many to show;", len(content))) || !strings.Contains(shown, string(content[1:200])) {
			t.Errorf("the context is %.2000s", shown)
		}
		verified(t, e)
	}
	check(e)
	other := newWorld().Engine(t)
	for page := (api.ExportSession{}); ; {
		out := must(e.Transfer.Export(t.Context(), alice, s, page))(t)
		if err := importAs(t, other, alice, out.Records...); err != nil {
			t.Fatal(err)
		}
		if page.After = out.Next; page.After == "" {
			break
		}
	}
	check(other)
}

// What is not as its ref says is refused, and nothing of it is stored.
func TestContentInPiecesIsCheckedBeforeItIsStored(t *testing.T) {
	e := newWorld().Engine(t)
	s, other := create(t, e, 0, "nexus").ID, create(t, e, 0, "nexus").ID
	add(t, e, s, say("q", "a"))
	text := randomText(2, turns.MaxPiece+10)
	ref := func(change func(*turns.BlobRef)) *turns.BlobRef {
		r := putInPieces(t, e, s, text)
		change(r)
		return r
	}
	same := func(*turns.BlobRef) {}
	binary := bytes.Repeat([]byte{0xff}, turns.MaxPiece+10)
	for name, tc := range map[string]struct {
		part turns.Part
		want api.Code
	}{
		"text":                   {turns.Part{Type: turns.Text, Ref: ref(same)}, ""},
		"another digest":         {turns.Part{Type: turns.Text, Ref: ref(func(r *turns.BlobRef) { r.Digest[0]++ })}, api.Malformed},
		"another size":           {turns.Part{Type: turns.Text, Ref: ref(func(r *turns.BlobRef) { r.Size-- })}, api.Malformed},
		"another order":          {turns.Part{Type: turns.Text, Ref: ref(func(r *turns.BlobRef) { r.Pieces = []turns.Hash{r.Pieces[1], r.Pieces[0]} })}, api.Malformed},
		"a piece that is not":    {turns.Part{Type: turns.Text, Ref: ref(func(r *turns.BlobRef) { r.Pieces = []turns.Hash{{1}, r.Pieces[1]} })}, api.NotFound},
		"pieces of another tree": {turns.Part{Type: turns.Text, Ref: putInPieces(t, e, other, text)}, api.NotFound},
		"not JSON":               {turns.Part{Type: turns.ToolCall, ID: "1", Name: "f", Ref: ref(same)}, api.Malformed},
		"not UTF-8":              {turns.Part{Type: turns.Text, Ref: putInPieces(t, e, s, binary)}, api.Malformed},
		"over the limit":         {turns.Part{Type: turns.Text, Ref: ref(func(r *turns.BlobRef) { r.Size = turns.MaxPart + 1 })}, api.TooLarge},
		"bytes":                  {turns.Part{Type: turns.Blob, MimeType: "application/pdf", Ref: putInPieces(t, e, s, binary)}, ""},
	} {
		r := api.AppendTurn{Messages: []turns.Message{turns.TextMessage(turns.User, "look")}, Response: &turns.Message{Role: turns.Assistant, Parts: []turns.Part{tc.part}}}
		_, err := e.Sessions.Append(t.Context(), alice, s, r, canon(r))
		if code(err) != tc.want {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
	}
	k := api.RecordCompaction{Replacement: []turns.Message{{Role: turns.User, Parts: []turns.Part{{Type: turns.Text, Ref: ref(same)}}}}}
	if _, err := e.Compactions.Record(t.Context(), alice, s, k, canon(k)); code(err) != api.Malformed {
		t.Errorf("a replacement in pieces: %v", err)
	}
	if ack := add(t, e, s, say("q", "a")); ack.Depth != 4 {
		t.Errorf("depth %d: want the two turns that are right between the first and this", ack.Depth)
	}
	verified(t, e)
}

// blob.put refuses pieces that are not as the format has them, by the limit that they break.
func TestPutInPiecesRefusesOtherPieces(t *testing.T) {
	e := newWorld().Engine(t)
	s := create(t, e, 0, "nexus").ID
	piece := must(e.Writer.PutBlob(t.Context(), alice, api.PutBlob{Session: s, Data: randomText(3, turns.MaxPiece)}))(t).Digest
	small := must(e.Writer.PutBlob(t.Context(), alice, api.PutBlob{Session: s, Data: []byte("small")}))(t).Digest
	repeat := func(d turns.Hash, n int) (out []turns.Hash) {
		for range n {
			out = append(out, d)
		}
		return out
	}
	for name, tc := range map[string]struct {
		req  api.PutBlob
		want api.Code
	}{
		"one small piece":     {api.PutBlob{Pieces: repeat(small, 1), InPieces: true}, ""},
		"the largest part":    {api.PutBlob{Pieces: repeat(piece, 25), InPieces: true}, ""},
		"more than a part":    {api.PutBlob{Pieces: append(repeat(piece, 25), small), InPieces: true}, api.TooLarge},
		"a small piece first": {api.PutBlob{Pieces: []turns.Hash{small, piece}, InPieces: true}, api.Malformed},
		"no such piece":       {api.PutBlob{Pieces: []turns.Hash{piece, {1}}, InPieces: true}, api.NotFound},
		"data in pieces":      {api.PutBlob{Data: []byte("x"), InPieces: true}, api.Malformed},
		"joined":              {api.PutBlob{Pieces: repeat(piece, 8)}, ""},
		"joined, too large":   {api.PutBlob{Pieces: append(repeat(piece, 8), small)}, api.TooLarge},
	} {
		tc.req.Session = s
		info, err := e.Writer.PutBlob(t.Context(), alice, tc.req)
		if code(err) != tc.want {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
		if x := api.FromError(errors.Join(err)); tc.want == api.TooLarge && x.Details["limit"] == nil {
			t.Errorf("%s: details %v have no limit", name, x.Details)
		}
		if err == nil && (len(info.Pieces) > 0) != tc.req.InPieces {
			t.Errorf("%s: %+v", name, info)
		}
	}
}

// failingBlobs fails each put after the first n.
type failingBlobs struct {
	ledger.Blobs
	mu   sync.Mutex
	left int
	puts int // calls that stored something new
}

func (b *failingBlobs) PutBlob(ctx context.Context, tenant string, digest turns.Hash, sealed []byte) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, err := b.GetBlob(ctx, tenant, digest); err == nil {
		return nil
	}
	if b.left == 0 {
		return ledger.ErrUnavailable
	}
	b.left, b.puts = b.left-1, b.puts+1
	return b.Blobs.PutBlob(ctx, tenant, digest, sealed)
}

// An upload that ended between two pieces leaves pieces that no event names. Another daemon
// continues it: each piece is stored once.
func TestUploadInPiecesGoesOnAfterACrash(t *testing.T) {
	w := newWorld()
	e := w.Engine(t)
	blobs := &failingBlobs{Blobs: w.Blobs, left: 2}
	e.Store.Blobs = blobs
	s := create(t, e, 0, "nexus").ID
	content := turns.RawText(string(randomText(4, 3*turns.MaxPiece)))
	for rest, n := []byte(content), 0; len(rest) > 0; rest, n = rest[min(turns.MaxPiece, len(rest)):], n+1 {
		_, err := e.Writer.PutBlob(t.Context(), alice, api.PutBlob{Session: s, Data: rest[:min(turns.MaxPiece, len(rest))]})
		if (err == nil) != (n < 2) {
			t.Fatalf("piece %d: %v", n, err)
		}
	}
	verified(t, e)
	again := w.Engine(t)
	blobs.left = 100
	again.Store.Blobs = blobs
	ref := putInPieces(t, again, s, content)
	if blobs.puts != 4 {
		t.Errorf("%d blobs were stored, want 4", blobs.puts)
	}
	callThenResult(t, again, s, turns.Part{Ref: ref})
	if b := readPieces(t, again, s, ref); !bytes.Equal(b, content) {
		t.Errorf("%d bytes came back, %d were stored", len(b), len(content))
	}
	verified(t, again)
}

// Two clients that store one content at once get one ref, and either can use it.
func TestTwoClientsPutOneContentAtOnce(t *testing.T) {
	w := newWorld()
	a, b := w.Engine(t), w.Engine(t)
	s := create(t, a, 0, "nexus").ID
	add(t, a, s, say("q", "a"))
	must(b.History.GetAbout(t.Context(), alice, s, api.GetSession{}))(t)
	content := turns.RawText(string(randomText(5, turns.MaxPiece)))
	refs := make([]*turns.BlobRef, 2)
	var wg sync.WaitGroup
	for i, e := range []*Engine{a, b} {
		wg.Go(func() { refs[i] = putInPieces(t, e, s, content) })
	}
	wg.Wait()
	if refs[0].Digest != refs[1].Digest {
		t.Fatalf("digests %s and %s", refs[0].Digest, refs[1].Digest)
	}
	callThenResult(t, b, s, turns.Part{Ref: refs[0]})
	verified(t, b)
}

// A verification reads content in pieces, and names the event whose pieces are damaged.
func TestVerifyFindsADamagedPiece(t *testing.T) {
	w := newWorld()
	e := w.Engine(t)
	s := create(t, e, 0, "nexus").ID
	ref := putInPieces(t, e, s, turns.RawText(string(randomText(6, turns.MaxPiece))))
	ack := callThenResult(t, e, s, turns.Part{Ref: ref})
	verified(t, e)
	other := w.Engine(t) // without what e has read
	other.Store.Blobs = lackingBlobs{w.Blobs, seal.BlobAddress(ref.Pieces[1])}
	v := must(other.Audit.Verify(t.Context(), operator, api.Verify{}))(t)
	if len(v.Problems) != 1 || v.Problems[0].Event != ack.ID {
		t.Errorf("problems: %s", canon(v.Problems))
	}
}

// lackingBlobs lacks one blob.
type lackingBlobs struct {
	ledger.Blobs
	digest turns.Hash // its address
}

func (b lackingBlobs) GetBlob(ctx context.Context, tenant string, digest turns.Hash) ([]byte, error) {
	if digest == b.digest {
		return nil, ledger.ErrNotFound
	}
	return b.Blobs.GetBlob(ctx, tenant, digest)
}
