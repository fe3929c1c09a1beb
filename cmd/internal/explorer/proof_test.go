package explorer_test

import (
	"html"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"nexus/cmd/internal/daemon/config"
	"nexus/cmd/internal/explorer"
	"nexus/cmd/internal/explorer/login"
	"nexus/ledger/api"
	"nexus/ledger/tlog"
	"nexus/turns"
)

// The proof of a turn is two files of its page, which check, and show what was chosen and nothing else.
func TestTheProofOfATurnIsTwoFiles(t *testing.T) {
	d, c := start(t, config.Config{})
	x := tell(t, c)
	b := loggedIn(t, d, c.As(api.Operator), api.OpenPages{ReadOnly: true})
	page := "/ui/s/" + x.session.String() + "/t/" + x.call.String()
	key, err := c.As(api.Operator).CheckpointKey(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	b.has(page, page+"/prove")
	b.has(page+"/prove", page+"/proof?show=none\"", page+"/proof?show=none&amp;event", page+"/proof?show=turn", page+"/proof?show=part&amp;part=3", "call of Bash", "make test", "what could be slow", "asked by the user", strings.ReplaceAll(key.Key, "+", "&#43;"))
	said := []string{"Go on.", "what could be slow?", "make test"} // the parts 1 to 3
	for query, want := range map[string][]int{"": nil, "show=none": nil, "show=turn": {1, 2, 3}, "show=part&part=2": {2}, "show=part&part=3": {3}} {
		status, h, text := b.do(http.MethodGet, page+"/proof?"+query, "")
		if name, ok := strings.CutPrefix(h.Get("Content-Disposition"), `attachment; filename="`); query != "" && (!ok || !strings.Contains(b.page(page+"/prove"), ">"+strings.TrimSuffix(name, `"`)+"<")) {
			t.Errorf("%s: the page does not name %s", query, name)
		}
		if status != http.StatusOK || !strings.Contains(h.Get("Content-Disposition"), ".proof\"") || !strings.Contains(h.Get("Content-Security-Policy"), "sandbox") {
			t.Fatalf("%s: %d, %v\n%s", query, status, h, text)
		}
		_, h, event := b.do(http.MethodGet, page+"/proof?event&"+query, "")
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
		if ev, err := e.Verify(); err != nil || ev.ID != x.call {
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
		status, _, body := b.do(http.MethodGet, page+"/proof?"+strings.NewReplacer("<", "%3C", ">", "%3E").Replace(query), "")
		if tame(t, query, body); status < 400 || status >= 500 {
			t.Errorf("%s: %d\n%s", query, status, body)
		}
	}
	main := loggedIn(t, d, c, api.OpenPages{})
	for _, path := range []string{page + "/prove", page + "/proof", "/ui/checkpoints"} {
		if status, _, _ := main.do(http.MethodGet, path, ""); status != http.StatusForbidden {
			t.Errorf("an agent gets %s: %d", path, status)
		}
	}
	if strings.Contains(main.page(page), "/prove") || strings.Contains(main.page("/ui/health"), "/ui/checkpoints") {
		t.Error("an agent is shown the way to proofs")
	}
}

// The parts of a turn are listed some at a time; a hostile one stays text.
func TestThePartsOfATurnAreListed(t *testing.T) {
	d, c := start(t, config.Config{})
	s, err := c.Create(t.Context(), api.CreateSession{})
	if err != nil {
		t.Fatal(err)
	}
	var m turns.Message
	m.Role = turns.User
	for i := range 1000 {
		m.Parts = append(m.Parts, turns.Part{Type: turns.Text, Content: hostile[i%len(hostile)] + strings.Repeat(" and more", 50)})
	}
	a, err := c.Append(t.Context(), s.ID, api.AppendTurn{Messages: []turns.Message{m}})
	if err != nil {
		t.Fatal(err)
	}
	b := loggedIn(t, d, c.As(api.Operator), api.OpenPages{})
	turn := "/ui/s/" + s.ID.String() + "/t/" + a.ID.String()
	for _, page := range []string{"/prove", "/takeout"} {
		for _, at := range []string{"", "?p=100", "?p=950", "?p=99999"} {
			body := b.page(turn + page + at)
			if tame(t, page+at, body); len(body) > maxPage {
				t.Errorf("%s%s has %d bytes", page, at, len(body))
			}
		}
		b.has(turn+page+"?p=950", "Parts 951–1000 of 1000", page+"?p=850")
	}
}

// The page of the checkpoints says what is signed, how far it reaches, and where it is kept.
func TestThePageOfTheCheckpoints(t *testing.T) {
	out, data := t.TempDir(), t.TempDir()
	d, c := start(t, config.Config{Data: data, Checkpoint: config.CheckpointTable{Every: "1h", Out: []string{out, "/nowhere/<b>"}}})
	x := tell(t, c)
	b := loggedIn(t, d, c.As(api.Operator), api.OpenPages{ReadOnly: true})
	b.has("/ui/health", "/ui/checkpoints")
	tame(t, "checkpoints", b.has("/ui/checkpoints", "not covered yet", "/nowhere/&lt;b&gt;", "not yet", out, "Nothing was taken out", "and 1h have passed"))
	signed, err := c.As(api.Operator).Checkpoint(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	key, err := c.As(api.Operator).CheckpointKey(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	page := html.UnescapeString(b.has("/ui/checkpoints", "▲ late", "✓ written", "a folder elsewhere lacks it", "no such file"))
	if !strings.Contains(page, signed.Note) || !strings.Contains(page, signed.Origin) || !strings.Contains(page, key.Key) || strings.Contains(page, "not covered yet") || !strings.Contains(page, "in the last minute") {
		t.Errorf("of %d events: %s", signed.Size, page)
	}
	if _, err := c.As(api.Operator).Erase(t.Context(), x.session, api.EraseSession{Ground: "request-9"}); err != nil {
		t.Fatal(err)
	}
	b.has("/ui/checkpoints", "request-9", "the session", "signed with the key above", "not covered yet")

	// A larger note of its own key, as of a folder that was put back, stops the signing; the page says why.
	text, err := os.ReadFile(filepath.Join(data, "checkpoint.key"))
	if err != nil {
		t.Fatal(err)
	}
	own, err := tlog.ParseKey(string(text))
	if err != nil {
		t.Fatal(err)
	}
	larger, err := own.Sign(tlog.Checkpoint{Origin: signed.Origin, Size: 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.As(api.Operator).Consistency(t.Context(), api.GetConsistency{From: 1, Note: string(larger)}); err == nil {
		t.Error("the note is taken")
	}
	b.has("/ui/checkpoints", "nothing is signed any more", "rolled back", "1073741824")
}

// Without a folder elsewhere the page says how one is named.
func TestThePageOfTheCheckpointsWithoutAFolder(t *testing.T) {
	d, c := start(t, config.Config{})
	b := loggedIn(t, d, c.As(api.Operator), api.OpenPages{})
	b.has("/ui/checkpoints", "No folder is set", "out = [\"/mnt/other-disk/nexus\"]")
}

// Where nothing is signed, as on a NATS server of others, the page says that.
func TestThePageOfTheCheckpointsWhereNothingIsSigned(t *testing.T) {
	d, c := start(t, config.Config{})
	e := explorer.New(explorer.Config{Client: c, Now: time.Now})
	own := httptest.NewServer(e)
	defer own.Close()
	link, err := e.Open(own.URL, login.Who{Tenant: "default", Agent: api.Operator}, api.OpenPages{})
	if err != nil {
		t.Fatal(err)
	}
	b := newBrowser(t, d)
	b.base = own.URL
	if status, _, _ := b.do(http.MethodPost, link.URL, ""); status != http.StatusSeeOther {
		t.Fatal(status)
	}
	b.has("/ui/checkpoints", "signs no checkpoints")
}
