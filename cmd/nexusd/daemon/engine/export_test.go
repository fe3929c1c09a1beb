package engine

import (
	"strings"
	"testing"

	"nexus/ledger/api"
	"nexus/turns"
)

// exports is all pages of an export, each of which has room in one message, as
// has an import of any of its records.
func exports(t *testing.T, e *Engine, session turns.ID) (records []api.ExportRecord) {
	t.Helper()
	for after := ""; ; {
		page := must(e.Export(t.Context(), alice, session, api.ExportSession{Page: api.Page{After: after}}))(t)
		if n := len(canon(page)); n > e.payload() {
			t.Fatalf("a page of %d records has %d bytes, a message may have %d", len(page.Records), n, e.payload())
		}
		for _, r := range page.Records {
			if n := len(canon(api.ImportRecords{Records: []api.ExportRecord{r}})); n > e.payload() {
				t.Fatalf("the import of a record has %d bytes, a message may have %d", n, e.payload())
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
	e, to := newWorld().engine(t), newWorld().engine(t)
	text := strings.NewReplacer(`"`, "x", `\`, "x").Replace(noise(100 << 10))
	meta := turns.Raw(`{"m":"` + text + `"}`)
	r := api.CreateSession{SessionSettings: api.SessionSettings{Meta: meta}}
	s := must(e.Create(t.Context(), alice, r, canon(r)))(t)
	q := say("question", "answer")
	q.Meta = meta
	add(t, e, s.ID, q)
	add(t, e, s.ID, say("question", "answer"))
	e.MaxPayload = 64 << 10
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
	e.MaxPayload = 0
	here, there := must(e.Get(t.Context(), alice, s.ID, api.Read{}))(t), must(to.Get(t.Context(), alice, s.ID, api.Read{}))(t)
	if here.Hash != there.Hash {
		t.Errorf("hash %v there, %v here", there.Hash, here.Hash)
	}
	verified(t, to)
}
