package daemon

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"nexus/cmd/internal/daemon/config"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
)

// On a server whose messages are 64 KiB at most: contexts of megabytes, parts of
// megabytes, long lists and exports all come whole, and no reply is too large.
func TestAServerOfSmallMessagesCarriesEverything(t *testing.T) {
	c := smallServer(t)
	ctx := t.Context()
	s, err := c.Create(ctx, api.CreateSession{SessionSettings: api.SessionSettings{Limits: &turns.Limits{ContextWindow: 4_000_000}}})
	if err != nil {
		t.Fatal(err)
	}
	text := func(i, n int) string { return strings.Repeat(fmt.Sprintf("%d \"é\\ ", i), n) }
	var texts []string
	say := func(part turns.Part) {
		m := turns.TextMessage(turns.Assistant, "read")
		r := api.AppendTurn{Messages: []turns.Message{{Role: turns.User, Parts: []turns.Part{part}}}, Response: &m}
		if _, err := c.Append(ctx, s.ID, r); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 150 {
		texts = append(texts, text(i, 3000))
		say(turns.TextPart(texts[i]))
	}
	huge := text(7, 200_000)
	put := api.PutBlob{Session: s.ID}
	for b := []byte(huge); len(b) > 0; {
		n := min(len(b), 30_000)
		info, err := c.PutBlob(ctx, api.PutBlob{Session: s.ID, Data: b[:n]})
		if err != nil {
			t.Fatal(err)
		}
		put.Pieces, b = append(put.Pieces, info.Digest), b[n:]
	}
	info, err := c.PutBlob(ctx, put)
	if err != nil {
		t.Fatal(err)
	}
	texts = append(texts, huge)
	say(turns.Part{Type: turns.Text, Ref: &turns.BlobRef{Digest: info.Digest, Size: info.Size}})

	cx, err := c.Context(ctx, s.ID, api.GetContext{Budget: 4_000_000})
	if err != nil {
		t.Fatal(err)
	}
	if len(cx.Messages) != 2*len(texts) || len(cx.Sources) != 2*len(texts) {
		t.Fatalf("%d messages, %d sources, want %d", len(cx.Messages), len(cx.Sources), 2*len(texts))
	}
	total := 0
	for i, want := range texts {
		var m turns.Message
		if err := turns.DecodeJSON(cx.Messages[2*i], &m); err != nil || m.Parts[0].Content != want {
			t.Fatalf("message %d: %d bytes of %d, %v", 2*i, len(m.Parts[0].Content), len(want), err)
		}
		total += len(want)
	}
	if total < 5_000_000 {
		t.Errorf("the context has %d bytes, too few for this test", total)
	}
	if got, err := c.Content(ctx, s.ID, &turns.BlobRef{Digest: info.Digest, Size: info.Size}); err != nil || !bytes.Equal(got, []byte(huge)) {
		t.Errorf("blob: %d bytes, %v", len(got), err)
	}

	// Lists are complete and of one path while turns are appended.
	done := make(chan error, 1)
	go func() {
		for i := range 200 {
			m := turns.TextMessage(turns.Assistant, fmt.Sprint("meanwhile ", i))
			if _, err := c.Append(ctx, s.ID, api.AppendTurn{Messages: []turns.Message{turns.TextMessage(turns.User, "more")}, Response: &m}); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	for _, order := range []string{"asc", "desc"} {
		var depths []uint64
		for x, err := range c.Turns(ctx, s.ID, api.ListTurns{Order: order, Full: true}) {
			if err != nil {
				t.Fatal(err)
			}
			depths = append(depths, x.Depth)
		}
		for i := range depths {
			want := uint64(i + 1)
			if order == "desc" {
				want = uint64(len(depths) - i)
			}
			if depths[i] != want {
				t.Fatalf("%s: item %d of %d has depth %d", order, i, len(depths), depths[i])
			}
		}
		if len(depths) < len(texts) {
			t.Errorf("%s: %d turns", order, len(depths))
		}
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, err := range c.Path(ctx, s.ID, api.GetPath{}) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	if want := len(texts) + 200; n != want {
		t.Errorf("path of %d turns, want %d", n, want)
	}

	// An export comes in pieces, and goes into another ledger whole.
	to := smallServer(t)
	var batch []api.ExportRecord
	for r, err := range c.Export(ctx, s.ID) {
		if err != nil {
			t.Fatal(err)
		}
		if batch = append(batch, r); len(batch) == 1 {
			if _, err := to.Import(ctx, batch); err != nil {
				t.Fatal(err)
			}
			batch = nil
		}
	}
	there, err := to.Context(ctx, s.ID, api.GetContext{Budget: 4_000_000})
	if err != nil {
		t.Fatal(err)
	}
	here, err := c.Context(ctx, s.ID, api.GetContext{Budget: 4_000_000})
	if err != nil || here.Fingerprint != there.Fingerprint {
		t.Errorf("fingerprint %s here, %s there, %v", here.Fingerprint, there.Fingerprint, err)
	}
	for _, c := range []*client.Client{c, to} {
		if v, err := c.As(api.Operator).Verify(ctx); err != nil || !v.OK {
			t.Errorf("verify: %+v, %v", v, err)
		}
	}
}

// smallServer returns a daemon on an external server that takes messages of 64 KiB.
func smallServer(t *testing.T) *client.Client {
	t.Helper()
	s := natsServer(t, func(o *server.Options) { o.MaxPayload = 64 << 10 })
	d, err := Open(t.Context(), config.Config{Plaintext: true, NATS: s.ClientURL(), Replicas: 1, Create: true, Data: t.TempDir(), HTTP: "off"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), untilTheTestEnds(t))
		defer cancel()
		if err := d.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	nc, err := nats.Connect(s.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return client.New(nc, "default", "main")
}

// The client sends a turn that is larger than a message: the largest parts go first, by blob.put, and a
// piece of content in chunks. All of it comes back, and the same turn again is a duplicate.
func TestTheClientSendsLargePartsToAServerOfSmallMessages(t *testing.T) {
	c := smallServer(t)
	ctx := t.Context()
	s, err := c.Create(ctx, api.CreateSession{})
	if err != nil {
		t.Fatal(err)
	}
	text := func(n int) string { return strings.Repeat("word \"é\\\n", n/10) }
	texts := []string{text(400_000), "short", text(50_000), text(5_000)}
	var m turns.Message
	m.Role = turns.User
	for _, s := range texts {
		m.Parts = append(m.Parts, turns.TextPart(s))
	}
	answer := turns.TextMessage(turns.Assistant, text(100_000))
	r := api.AppendTurn{ID: api.NewID(), Messages: []turns.Message{m}, Response: &answer}
	ack, err := c.Append(ctx, s.ID, r)
	if err != nil {
		t.Fatal(err)
	}
	if r.Messages[0].Parts[0].Ref != nil {
		t.Error("the request was changed")
	}
	if again, err := c.Append(ctx, s.ID, r); err != nil || !again.Duplicate {
		t.Errorf("again: %+v, %v", again, err)
	}
	stored, err := c.Turn(ctx, s.ID, ack.ID)
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range append(stored.Messages[0].Parts, stored.Response.Parts...) {
		want := append(texts[:len(texts):len(texts)], answer.Parts[0].Content)[i]
		got := []byte(p.Content)
		if p.Ref != nil {
			if got, err = c.Content(ctx, s.ID, p.Ref); err != nil {
				t.Fatal(err)
			}
		}
		if string(got) != want {
			t.Errorf("part %d: %d bytes came back, want %d", i, len(got), len(want))
		}
	}

	content := []byte(text(turns.MaxPiece + 100_000))
	ref, err := c.PutContent(ctx, s.ID, content, true)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := c.PutContent(ctx, s.ID, content, true); err != nil || again.Digest != ref.Digest {
		t.Errorf("again: %+v, %v", again, err)
	}
	if _, err := c.Append(ctx, s.ID, api.AppendTurn{Messages: []turns.Message{{Role: turns.User, Parts: []turns.Part{{Type: turns.Text, Ref: ref}}}}, Response: &answer}); err != nil {
		t.Fatal(err)
	}
	if got, err := c.Content(ctx, s.ID, ref); err != nil || len(ref.Pieces) != 2 || !bytes.Equal(got, content) {
		t.Errorf("%d bytes in %d pieces, %v", len(got), len(ref.Pieces), err)
	}
	if _, err := c.PutContent(ctx, s.ID, make([]byte, turns.MaxPart+1), false); api.FromError(err).Code != api.TooLarge || api.FromError(err).Details["limit"] != turns.MaxPart {
		t.Errorf("too much content: %v", err)
	}
	if _, err := c.PutContent(ctx, s.ID, nil, true); api.FromError(err).Code != api.Malformed {
		t.Errorf("no content: %v", err)
	}
	k := api.RecordCompaction{Replacement: []turns.Message{turns.TextMessage(turns.User, text(300_000))}}
	if _, err := c.Record(ctx, s.ID, k); err != nil {
		t.Errorf("a replacement larger than a message: %v", err)
	}
	if v, err := c.As(api.Operator).Verify(ctx); err != nil || !v.OK {
		t.Errorf("verify: %+v, %v", v, err)
	}
}
