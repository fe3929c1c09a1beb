package views_test

import (
	"net/http"
	"strconv"
	"strings"
	"testing"

	"nexus/cmd/internal/daemon/config"
	"nexus/cmd/internal/explorer/explorertest"
	"nexus/ledger/api"
	"nexus/turns"
)

// A picture of a transcript is served if its bytes are one, and as nothing else.
func TestPicturesAreServedForWhatTheyAre(t *testing.T) {
	d, c := explorertest.Start(t, config.Config{})
	s, err := c.Create(t.Context(), api.CreateSession{})
	if err != nil {
		t.Fatal(err)
	}
	gif := []byte("GIF89a\x01\x00\x01\x00\x80\x00\x00\x00\x00\x00\xff\xff\xff!\xf9\x04\x01\x00\x00\x00\x00,\x00\x00\x00\x00\x01\x00\x01\x00\x00\x02\x02D\x01\x00;")
	part := func(mime string, data []byte) turns.Part {
		return turns.Part{Type: turns.Blob, Modality: "image", MimeType: mime, Data: data}
	}
	svg := []byte(`<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"/>`)
	a, err := c.Append(t.Context(), s.ID, api.AppendTurn{Messages: []turns.Message{{Role: turns.User, Parts: []turns.Part{part("image/gif", gif), part("image/png", svg), part("image/svg+xml", svg), part("image/png", []byte("broken"))}}}})
	if err != nil {
		t.Fatal(err)
	}
	b := explorertest.LoggedIn(t, d, c, api.OpenPages{})
	base := "/ui/s/" + s.ID.String() + "/t/" + a.ID.String()
	b.Page(base)
	status, h, body := b.Ask(http.MethodGet, base+"/i/a0", "")
	if status != 200 || h.Get("Content-Type") != "image/gif" || !strings.Contains(h.Get("Content-Security-Policy"), "sandbox") || body != string(gif) {
		t.Errorf("%d, %s", status, h.Get("Content-Type"))
	}
	for _, n := range []string{"a1", "a2", "a3"} {
		if status, _, _ := b.Ask(http.MethodGet, base+"/i/"+n, ""); status != http.StatusNotFound {
			t.Errorf("%s: %d", n, status)
		}
	}
}

// What a turn used and cost stands above what it says, and to rewind takes a second step.
func TestAPageOfATurnBeginsWithItsPrice(t *testing.T) {
	d, c := explorertest.Start(t, config.Config{})
	x := explorertest.Tell(t, c)
	b := explorertest.LoggedIn(t, d, c.As(api.Operator), api.OpenPages{})
	page := b.Has("/ui/s/"+x.Session.String()+"/t/"+x.Call.String(), "of these, read from the cache</dt><dd>1,200 <small>60 %", "<summary>Rewind to here…</summary>")
	content := strings.Index(page, "make test")
	for _, what := range []string{"<dt>cost</dt>", "<dt>tokens in</dt>", "<dt>tokens out</dt>", "by list prices"} {
		if at := strings.Index(page, what); at < 0 || at > content {
			t.Errorf("%s stands at %d, the content at %d", what, at, content)
		}
	}
}

// A turn that many compactions cover names the innermost ones, and how many came later.
func TestATurnThatManyCompactionsCover(t *testing.T) {
	d, c := explorertest.Start(t, config.Config{})
	s, err := c.Create(t.Context(), api.CreateSession{})
	if err != nil {
		t.Fatal(err)
	}
	var first turns.ID
	const compactions = 5
	for i := range 30 * compactions {
		m := turns.TextMessage(turns.Assistant, strings.Repeat("It is in file-"+strconv.Itoa(i)+".go. ", 100))
		a, err := c.Append(t.Context(), s.ID, api.AppendTurn{Messages: []turns.Message{turns.TextMessage(turns.User, "Where?")}, Response: &m})
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			first = a.ID
		}
		if i%30 == 29 {
			if r, err := c.Compact(t.Context(), s.ID, api.RunCompaction{AtOnce: true}); err != nil || r.Compaction == nil {
				t.Fatalf("%+v, %v", r, err)
			}
		}
	}
	b := explorertest.LoggedIn(t, d, c.As(api.Operator), api.OpenPages{})
	page := b.Has("/ui/s/"+s.ID.String()+"/t/"+first.String(), "<dd>2 later compactions too</dd>")
	if n := strings.Count(page, "<dt>covered by</dt>"); n != 4 {
		t.Errorf("%d rows say what covers it, want 3 and how many more", n)
	}
}
