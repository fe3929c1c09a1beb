package contexts_test

import (
	"fmt"
	"testing"

	"nexus/cmd/internal/engine/enginetest"
	"nexus/ledger/api"
	"nexus/turns"
)

// The settings change between two pages of a context, and the daemon that made the first page is gone: the next page is
// of the same list of messages, or a conflict. OpenAI's list begins with the system part, which no fingerprint covers.
func TestPagesAreOfOneSystemPart(t *testing.T) {
	for _, format := range []string{"otel", "openai", "anthropic", "gemini"} {
		for _, from := range []string{"", "old"} {
			for _, to := range []string{"", "new"} {
				t.Run(fmt.Sprintf("%s, from %q to %q", format, from, to), func(t *testing.T) {
					w := enginetest.NewWorld()
					e := w.Engine(t)
					s := enginetest.Create(t, e, 0, "nexus").ID
					set := func(text string) {
						system := api.System{}
						if text != "" {
							system = api.System{{Name: "s", Content: text}}
						}
						r := api.SetSession{ID: enginetest.ID(t), SessionSettings: api.SessionSettings{System: &system}}
						enginetest.Must(e.Sessions.Set(t.Context(), enginetest.Alice, s, r, enginetest.JSON(r)))(t)
					}
					set(from)
					for i := range 4 {
						enginetest.Add(t, e, s, enginetest.Say(fmt.Sprint("question ", i), fmt.Sprint("answer ", i)))
					}
					r := api.GetContext{Format: format, Page: api.Page{Limit: 2}}
					whole := enginetest.Must(e.Contexts.Context(t.Context(), enginetest.Alice, s, api.GetContext{Format: format}))(t)
					first := enginetest.Must(e.Contexts.Context(t.Context(), enginetest.Alice, s, r))(t)
					set(to)
					other := w.Engine(t)
					all := append([]turns.Raw{}, first.Messages...)
					for r.After = first.Next; r.After != ""; {
						p, err := other.Contexts.Context(t.Context(), enginetest.Alice, s, r)
						if enginetest.Code(err) == api.Conflict {
							return
						}
						if err != nil {
							t.Fatal(err)
						}
						all, r.After = append(all, p.Messages...), p.Next
					}
					if fmt.Sprintf("%s", all) != fmt.Sprintf("%s", whole.Messages) {
						t.Errorf("the pages are %s\nthe whole was %s", all, whole.Messages)
					}
				})
			}
		}
	}
}
