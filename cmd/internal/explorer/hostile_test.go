package explorer_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"nexus/cmd/internal/daemon/config"
	"nexus/cmd/internal/explorer/explorertest"
	"nexus/ledger/api"
	"nexus/turns"
)

// tagOf is a text as the name of a tool, which may not have every character.
func tagOf(text string) string {
	for _, r := range text {
		if turns.IsHidden(r) {
			return "<b>tool"
		}
	}
	return text[:min(len(text), 60)]
}

func TestHostileTranscriptsStayText(t *testing.T) {
	d, c := explorertest.Start(t, config.Config{})
	ctx := t.Context()
	all := strings.Join(explorertest.Hostile, "\n\n")
	title := explorertest.Hostile[0] + explorertest.Hostile[11] + explorertest.Hostile[12]
	s, err := c.Create(ctx, api.CreateSession{SessionSettings: api.SessionSettings{Meta: turns.Raw(`{"cwd":"/tmp/<b>","title":` + string(turns.RawText(title)) + `}`)}})
	if err != nil {
		t.Fatal(err)
	}
	var at []turns.ID
	for _, text := range append(explorertest.Hostile, all) {
		at = append(at, explorertest.Add(t, c, s.ID, text, text).ID)
		m := turns.Message{Role: turns.Assistant, Parts: []turns.Part{{Type: turns.Reasoning, Content: text}, {Type: turns.ToolCall, ID: "c", Name: tagOf(text), Arguments: turns.Raw(`{"command":` + string(turns.RawText(text)) + `}`)}}}
		a, err := c.Append(ctx, s.ID, api.AppendTurn{Messages: []turns.Message{explorertest.Say(turns.User, "call")}, Response: &m})
		if err != nil {
			t.Fatal(err)
		}
		at = append(at, a.ID)
		if _, err = c.Append(ctx, s.ID, api.AppendTurn{Messages: []turns.Message{{Role: turns.Tool, Parts: []turns.Part{{Type: turns.ToolCallResponse, ID: "c", Response: turns.RawText(text)}}}}}); err != nil {
			t.Fatal(err)
		}
		if !strings.ContainsFunc(text, turns.IsHidden) {
			if _, err := c.SaveMemory(ctx, api.SaveMemory{Kind: "semantic", Text: text + " "}); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := c.AppendEvent(ctx, api.AppendEvent{Channel: "mail", Kind: "received", Body: turns.RawText(text)}); err != nil {
			t.Fatal(err)
		}
	}
	b := explorertest.LoggedIn(t, d, c.As(api.Operator), api.OpenPages{})
	base := "/ui/s/" + s.ID.String()
	paths := []string{"/ui/", base, base + "?from=last", "/ui/search?q=alert", "/ui/search?q=" + url.QueryEscape(explorertest.Hostile[1]), "/ui/memory", "/ui/events?channel=mail&of=main", "/ui/cost?by=project", "/ui/?title=" + url.QueryEscape(`"><script>`), "/ui/diff?a=" + s.ID.String() + "&b=" + s.ID.String()}
	for _, id := range at {
		paths = append(paths, base+"/t/"+id.String(), base+"/x/"+id.String(), base+"/t/"+id.String()+"/b/r0")
	}
	for _, path := range paths {
		explorertest.Tame(t, path, b.Page(path))
	}
	status, _, body := b.Ask(http.MethodGet, "/ui/diff?a="+url.QueryEscape("<script>x")+"&b=y", "")
	if explorertest.Tame(t, "an error", body); status != http.StatusNotFound {
		t.Errorf("%d", status)
	}
}
