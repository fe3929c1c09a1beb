package daemon

import (
	"bytes"
	"flag"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"nexus/ledger/api"
	"nexus/turns"
)

var bounds = flag.Bool("bounds", false, "TestContentAtEachBound and TestABodyAtTheBoundOfResponses: content of up to 100 MiB, a turn with 256 MiB")

// Content at, one byte below and one byte above each bound is stored over NATS, named by a turn,
// and read back byte for byte, or refused with a code and the limit. What is over 32 MiB is in
// pieces, and no request can name it as one blob.
func TestContentAtEachBound(t *testing.T) {
	if !*bounds {
		t.Skip("set -bounds; docs/TESTING.md has the command and the last figures")
	}
	_, c := start(t, t.TempDir())
	ctx := t.Context()
	s := must[*api.Session](t)(c.Create(ctx, api.CreateSession{}))
	all := bytes.Repeat([]byte("0123456789abcdef"), turns.MaxPart/16+1)
	appendRefs := func(refs ...*turns.BlobRef) (*api.Appended, error) {
		m := turns.Message{Role: turns.User}
		for _, r := range refs {
			m.Parts = append(m.Parts, turns.Part{Type: turns.Text, Ref: r})
		}
		return c.Append(ctx, s.ID, api.AppendTurn{ID: api.NewID(), Messages: []turns.Message{m}})
	}
	refused := func(what string, err error, limit int) {
		t.Helper()
		e := api.FromError(err)
		if e == nil || e.Code != api.TooLarge || e.Details["limit"] != limit && e.Details["limit"] != float64(limit) {
			t.Errorf("%s: %v, details %v; want too_large with the limit %d", what, err, api.FromError(err).Details, limit)
		}
	}
	refs := make(map[int]*turns.BlobRef)
	for _, size := range []int{
		turns.MaxPiece - 1, turns.MaxPiece, turns.MaxPiece + 1,
		turns.MaxWhole - 1, turns.MaxWhole, turns.MaxWhole + 1, turns.MaxPart - 1, turns.MaxPart,
	} {

		ref, err := c.PutContent(ctx, s.ID, all[:size], false)
		if err != nil {
			t.Fatalf("%d bytes: %v", size, err)
		}
		pieces := 0
		if size > turns.MaxWhole {
			pieces = (size + turns.MaxPiece - 1) / turns.MaxPiece
		}
		if ref.Size != uint64(size) || len(ref.Pieces) != pieces {
			t.Errorf("%d bytes: the ref has %d bytes in %d pieces, want %d pieces", size, ref.Size, len(ref.Pieces), pieces)
		}
		ack, err := appendRefs(ref)
		if err != nil {
			t.Fatalf("a turn with %d bytes: %v", size, err)
		}
		stored := must[*api.Turn](t)(c.Turn(ctx, s.ID, ack.ID)).Messages[0].Parts[0].Ref
		if stored == nil || stored.Digest != ref.Digest || stored.Size != ref.Size {
			t.Fatalf("%d bytes: the turn has ref %+v, want %+v", size, stored, ref)
		}
		if b := must[[]byte](t)(c.Content(ctx, s.ID, stored)); !bytes.Equal(b, all[:size]) {
			t.Errorf("of %d bytes %d came back", size, len(b))
		}
		refs[size] = ref
	}

	_, err := c.PutContent(ctx, s.ID, all[:turns.MaxPart+1], false)
	refused("a part of one byte more than the limit", err, turns.MaxPart)
	// inPieces returns the ref to n bytes, which are whole pieces.
	inPieces := func(n int, more ...turns.Hash) (*turns.BlobRef, error) {
		pieces := append(slices.Repeat([]turns.Hash{refs[turns.MaxPiece].Digest}, n/turns.MaxPiece), more...)
		info, err := c.PutBlob(ctx, api.PutBlob{Session: s.ID, Pieces: pieces, InPieces: true})
		if err != nil {
			return nil, err
		}
		return &turns.BlobRef{Digest: info.Digest, Size: info.Size, Pieces: info.Pieces}, nil
	}
	one := must[*turns.BlobRef](t)(c.PutContent(ctx, s.ID, []byte("1"), true))
	largest := must[*turns.BlobRef](t)(inPieces(turns.MaxPart))
	if refs[turns.MaxPart].Digest != largest.Digest {
		t.Errorf("one content has the digests %v and %v", refs[turns.MaxPart].Digest, largest.Digest)
	}
	_, err = inPieces(turns.MaxPart, one.Pieces[0])
	refused("pieces of one byte more than a part", err, turns.MaxPart)
	_, err = c.PutBlob(ctx, api.PutBlob{Session: s.ID, Pieces: append(largest.Pieces[:turns.MaxWhole/turns.MaxPiece:turns.MaxWhole/turns.MaxPiece], one.Pieces[0])})
	refused("one byte more than one blob", err, turns.MaxWhole)
	_, err = appendRefs(refs[turns.MaxWhole], must[*turns.BlobRef](t)(c.PutContent(ctx, s.ID, []byte("1"), false)))
	refused("attachments of one byte more than 32 MiB", err, turns.MaxWhole)
	rest := must[*turns.BlobRef](t)(inPieces(turns.MaxInPieces - 2*turns.MaxPart))
	_, err = appendRefs(largest, largest, rest, one)
	refused("a turn with one byte more in pieces", err, turns.MaxInPieces)
	if _, err := appendRefs(largest, largest, rest); err != nil {
		t.Errorf("a turn with the most content in pieces: %v", err)
	}
	if got := must[*api.Context](t)(c.Context(ctx, s.ID, api.GetContext{})); len(must[[]byte](t)(turns.EncodeJSON(got.Messages))) > 1<<20 {
		t.Error("the context shows large content")
	}
}

// A request of the Responses API whose body has 32 MiB, most of it a tool's result, is answered,
// and the result is stored byte for byte; one byte more is refused.
func TestABodyAtTheBoundOfResponses(t *testing.T) {
	if !*bounds {
		t.Skip("set -bounds; docs/TESTING.md has the command and the last figures")
	}
	const limit = 32 << 20
	m := new(scripted)
	d, c := startWith(t, responsesConfig(t.TempDir(), m))
	url := d.HTTPURL() + "/v1/responses"
	// body returns a request of n bytes, and the result in it.
	body := func(n int) (string, string) {
		head := `{"model":"m1","input":[{"role":"user","content":"run it"},{"type":"function_call","call_id":"c","name":"run","arguments":"{}"},{"type":"function_call_output","call_id":"c","output":"`
		result := strings.Repeat("0123456789abcdef", n/16)[:n-len(head)-len(`"}]}`)]
		return head + result + `"}]}`, result
	}
	for _, n := range []int{limit - 1, limit} {
		b, result := body(n)
		o := mustAsk(t, "POST", url, b)
		id := must[turns.ID](t)(turns.ParseID(fmt.Sprint(o.at("nexus.session"))))
		found := false
		for x, err := range c.As(api.Operator).Turns(t.Context(), id, api.ListTurns{Full: true}) {
			if err != nil {
				t.Fatal(err)
			}
			for _, msg := range x.Messages {
				for _, p := range msg.Parts {
					if p.Type == turns.ToolCallResponse && p.Ref != nil {
						got := must[[]byte](t)(c.Content(t.Context(), id, p.Ref))
						found = found || string(got) == strconv.Quote(result)
					}
				}
			}
		}
		if o["status"] != "completed" || !found {
			t.Errorf("a body of %d bytes: %v, its result is stored: %v", n, o["status"], found)
		}
	}
	b, _ := body(limit + 1)
	if code, o := ask(t, "POST", url, b); code != 413 || o.at("error.code") != "request_too_large" {
		t.Errorf("a body of %d bytes: %d %v", len(b), code, o)
	}
	if m.count() != 2 {
		t.Errorf("the model was asked %d times, want 2", m.count())
	}
}
