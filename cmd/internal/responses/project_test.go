package responses_test

import (
	"net/http"
	"strings"
	"testing"

	"nexus/turns"
)

// A new session records where its client works: by headers, else as Codex states it. A remote is kept
// without credentials, and what is no folder is refused.
func TestANewSessionHasTheProjectOfItsClient(t *testing.T) {
	r := newRig(t)
	const codex = `[{"role":"user","content":"<environment_context>\n  <cwd>/home/ann/app</cwd>\n</environment_context>"},{"role":"user","content":"fix it"}]`
	for name, tc := range map[string]struct {
		input           string
		headers         []string
		folder, project string
	}{
		"nothing":   {`"hello"`, nil, "", ""},
		"folder":    {`"hello"`, []string{"X-Nexus-Folder", "/home/ann/shelf"}, "/home/ann/shelf", "/home/ann/shelf"},
		"remote":    {`"hello"`, []string{"X-Nexus-Folder", "/home/ann/shelf", "X-Nexus-Project", "https://ann:secret@GitHub.com/acme/shelf.git"}, "/home/ann/shelf", "github.com/acme/shelf"},
		"codex":     {codex, nil, "/home/ann/app", "/home/ann/app"},
		"both":      {codex, []string{"X-Nexus-Folder", "/srv/app"}, "/srv/app", "/srv/app"},
		"no folder": {`[{"role":"user","content":"<environment_context><cwd>app</cwd></environment_context>"}]`, nil, "", ""},
	} {
		s := must(r.ledger.Session(t.Context(), sessionIn(t, r.ok("POST", "/v1/responses", `{"model":"m","input":`+tc.input+`}`, tc.headers...))))(t)
		if got := turns.WorkContextOf(s.Meta).Cwd; got != tc.folder || s.Project != tc.project || strings.Contains(string(s.Meta), "secret") {
			t.Errorf("%s: folder %q, project %q, meta %s", name, got, s.Project, s.Meta)
		}
	}
	for _, h := range [][]string{{"X-Nexus-Folder", "shelf"}, {"X-Nexus-Folder", "/" + strings.Repeat("a", 5000)}, {"X-Nexus-Project", strings.Repeat("a", 5000)}} {
		r.refused(http.StatusBadRequest, "invalid_value", "POST", "/v1/responses", `{"model":"m","input":"x"}`, h...)
	}
}
