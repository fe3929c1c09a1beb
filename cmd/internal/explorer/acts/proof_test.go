package acts_test

import (
	"net/http"
	"strings"
	"testing"

	"nexus/cmd/internal/daemon/config"
	"nexus/cmd/internal/explorer/explorertest"
	"nexus/ledger/api"
	"nexus/ledger/tlog"
	"nexus/turns"
)

// The proof of a turn is two files of its page, which check, and show what was chosen and nothing else.
func TestTheProofOfATurnIsTwoFiles(t *testing.T) {
	d, c := explorertest.Start(t, config.Config{})
	x := explorertest.Tell(t, c)
	b := explorertest.LoggedIn(t, d, c.As(api.Operator), api.OpenPages{ReadOnly: true})
	page := "/ui/s/" + x.Session.String() + "/t/" + x.Call.String()
	key, err := c.As(api.Operator).CheckpointKey(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	b.Has(page, page+"/prove")
	b.Has(page+"/prove", page+"/proof?show=none\"", page+"/proof?show=none&amp;event", page+"/proof?show=turn", page+"/proof?show=part&amp;part=3", "call of Bash", "make test", "what could be slow", "asked by the user", strings.ReplaceAll(key.Key, "+", "&#43;"))
	said := []string{"Go on.", "what could be slow?", "make test"} // the parts 1 to 3
	for query, want := range map[string][]int{"": nil, "show=none": nil, "show=turn": {1, 2, 3}, "show=part&part=2": {2}, "show=part&part=3": {3}} {
		status, h, text := b.Ask(http.MethodGet, page+"/proof?"+query, "")
		if name, ok := strings.CutPrefix(h.Get("Content-Disposition"), `attachment; filename="`); query != "" && (!ok || !strings.Contains(b.Page(page+"/prove"), ">"+strings.TrimSuffix(name, `"`)+"<")) {
			t.Errorf("%s: the page does not name %s", query, name)
		}
		if status != http.StatusOK || !strings.Contains(h.Get("Content-Disposition"), ".proof\"") || !strings.Contains(h.Get("Content-Security-Policy"), "sandbox") {
			t.Fatalf("%s: %d, %v\n%s", query, status, h, text)
		}
		_, h, event := b.Ask(http.MethodGet, page+"/proof?event&"+query, "")
		if !strings.Contains(h.Get("Content-Disposition"), ".proof.event\"") {
			t.Errorf("%s: %v", query, h)
		}
		proof, err := tlog.ParseProof([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		e, err := tlog.ParseEvent([]byte(event))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := proof.Verify(e.Entry(), key.Key); err != nil {
			t.Error(err)
		}
		if ev, err := e.Verify(); err != nil || ev.ID != x.Call {
			t.Errorf("%v, %v", ev, err)
		}
		shown := ""
		for _, l := range e.Leaves {
			shown += string(l.Bytes)
		}
		for i, text := range said {
			has := false
			for _, n := range want {
				has = has || n == i+1
			}
			if strings.Contains(shown, text) != has {
				t.Errorf("%s: part %d is shown: %v", query, i+1, !has)
			}
		}
	}
	for _, query := range []string{"show=session", "show=part", "show=part&part=0", "show=part&part=4", "show=part&part=<b>", "show=<script>"} {
		status, _, body := b.Ask(http.MethodGet, page+"/proof?"+strings.NewReplacer("<", "%3C", ">", "%3E").Replace(query), "")
		if explorertest.Tame(t, query, body); status < 400 || status >= 500 {
			t.Errorf("%s: %d\n%s", query, status, body)
		}
	}
	main := explorertest.LoggedIn(t, d, c, api.OpenPages{})
	for _, path := range []string{page + "/prove", page + "/proof", "/ui/checkpoints"} {
		if status, _, _ := main.Ask(http.MethodGet, path, ""); status != http.StatusForbidden {
			t.Errorf("an agent gets %s: %d", path, status)
		}
	}
	if strings.Contains(main.Page(page), "/prove") || strings.Contains(main.Page("/ui/health"), "/ui/checkpoints") {
		t.Error("an agent is shown the way to proofs")
	}
}

// The parts of a turn are listed some at a time; a hostile one stays text.
func TestThePartsOfATurnAreListed(t *testing.T) {
	d, c := explorertest.Start(t, config.Config{})
	s, err := c.Create(t.Context(), api.CreateSession{})
	if err != nil {
		t.Fatal(err)
	}
	var m turns.Message
	m.Role = turns.User
	for i := range 1000 {
		m.Parts = append(m.Parts, turns.Part{Type: turns.Text, Content: explorertest.Hostile[i%len(explorertest.Hostile)] + strings.Repeat(" and more", 50)})
	}
	a, err := c.Append(t.Context(), s.ID, api.AppendTurn{Messages: []turns.Message{m}})
	if err != nil {
		t.Fatal(err)
	}
	b := explorertest.LoggedIn(t, d, c.As(api.Operator), api.OpenPages{})
	turn := "/ui/s/" + s.ID.String() + "/t/" + a.ID.String()
	for _, page := range []string{"/prove", "/takeout"} {
		for _, at := range []string{"", "?p=100", "?p=950", "?p=99999"} {
			body := b.Page(turn + page + at)
			if explorertest.Tame(t, page+at, body); len(body) > explorertest.MaxPage {
				t.Errorf("%s%s has %d bytes", page, at, len(body))
			}
		}
		b.Has(turn+page+"?p=950", "Parts 951–1000 of 1000", page+"?p=850")
	}
}
