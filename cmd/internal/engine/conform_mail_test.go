package engine_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"nexus/compactor"
	"nexus/compactor/summary"
	"nexus/ledger/api"
	"nexus/turns"
	"nexus/turns/tokens"
)

// The 41-email run of the Wolffish design, by its table of phases: DeepSeek V4
// Pro, batches of 15, 15 and 11 emails, each of as many tokens as the table
// says. Those are a provider's tokens. The design's log line has an estimate of
// 839,203 where the provider counted 541,090: 2.33 characters a token.
const charsPerToken = 1.5 * 839_203 / 541_090

// mailbox is emails in the order of the search, and their texts.
type mailbox struct {
	ids  []string
	text map[string]string
}

// batch adds n emails of so many of the provider's tokens together, which
// differ in size up to five times.
func (m *mailbox) batch(n, size int) {
	weight := func(i int) int { return 2 + i*7%9 }
	all := 0
	for i := range n {
		all += weight(i)
	}
	for i := range n {
		id := fmt.Sprintf("mail-%02d", len(m.ids)+1)
		m.ids = append(m.ids, id)
		m.text[id] = mailPage(id, int(float64(size)*charsPerToken)*weight(i)/all)
	}
}

// mailAgent acts as a model that knows nothing but its context: it lists, searches,
// reads the emails that it has not called for yet, 15 at a time, and is done
// when none is left. As in the design, it takes a shortened context for a
// finished one, unless the newest message tells it to go on.
func mailAgent(ms []turns.Message) *turns.Message {
	var listed []string
	called := map[string]bool{}
	shortened, announced := false, false
	for _, m := range ms {
		announced = m.Role == turns.User && strings.Contains(shownText(&m.Parts[0]), "Continue where you left off.")
		for i := range m.Parts {
			p := &m.Parts[i]
			text := shownText(p)
			shortened = shortened || strings.Contains(text, "[TRUNCATED")
			switch {
			case p.Type == turns.ToolCall && p.Name == "google_gmail_read":
				called[p.ID] = true
			case p.Type == turns.ToolCall:
				called[p.Name] = true
			case p.Type == turns.ToolCallResponse && strings.HasPrefix(text, "unread:"):
				listed = append(listed, strings.Fields(strings.TrimPrefix(text, "unread:"))...)
			}
		}
	}
	var next []string
	for _, id := range listed {
		if !called[id] && len(next) < 15 && strings.HasPrefix(id, "mail-") {
			next = append(next, id)
		}
	}
	switch {
	case !called["google_accounts"]:
		return callsOf("google_accounts", "accounts")
	case !called["google_gmail_search"]:
		return callsOf("google_gmail_search", "search-1", "search-2")
	case len(next) > 0 && (!shortened || announced):
		return callsOf("google_gmail_read", next...)
	}
	return say("", "The briefing.").Response
}

// mailSummary writes the five sections from what it is given.
type mailSummary struct{ shown *strings.Builder }

func (s mailSummary) Summarize(_ context.Context, in summary.Input) (summary.Output, error) {
	s.shown.WriteString(summary.Transcript(in))
	read := 0
	for _, h := range in.Halves {
		read += len(h.Messages)
	}
	return summary.Output{Text: fmt.Sprintf("TASK: Read all unread emails and produce a briefing.\nPROGRESS:\n1. Read %d emails\nREMAINING:\n1. The others\nDATA: none\nDECISIONS: none", read)}, nil
}

// WOL-17: on the trace of the design's table all 41 emails are read, no call
// overflows, and compactions come after batches 1 and 2, and after 3 where the
// rule says so: its context is over 75 % of the budget by the estimate.
func TestMailTraceReadsAllMailsWithoutOverflow(t *testing.T) {
	box := &mailbox{text: map[string]string{}}
	box.batch(15, 541_000-47_000)
	box.batch(15, 627_000-170_000)
	box.batch(11, 673_000-170_000)

	e := newWorld().Engine(t)
	e.Reader.Models = tokens.KnownModels()
	var shown strings.Builder
	e.Loader.Tiers = []compactor.Tier{{Name: "mail", Summarizer: mailSummary{&shown}, Local: true}}
	model := "DeepSeek V4 Pro"
	const systemChars = 26_000 // of the design's log line; with 47 tools the first call has 42,000 tokens
	system := api.System{{Name: "identity", Content: strings.Repeat("You read mail. ", systemChars/15)}}
	var tools []turns.Raw
	for i := range 47 {
		tools = append(tools, turns.Raw(fmt.Sprintf(`{"name":"tool-%d","description":%q}`, i, strings.Repeat("d", 1_480))))
	}
	s := must(e.Sessions.Create(t.Context(), alice, api.CreateSession{SessionSettings: api.SessionSettings{
		Model: &model, System: &system, Tools: &tools, Policy: &api.Policy{Name: "wolffish"}}}, []byte("{}")))(t)

	answer := func(id string) string {
		switch {
		case id == "accounts":
			return "two accounts"
		case strings.HasPrefix(id, "search"):
			half := box.ids[:20]
			if id == "search-2" {
				half = box.ids[20:]
			}
			return "unread: " + strings.Join(half, " ") + " " + strings.Repeat("subject ", 720)
		}
		return box.text[id]
	}
	add(t, e, s.ID, say("Read all unread emails and produce a briefing.", ""))
	provider := 0.0 // tokens of system and tools, as the provider counts them
	for _, x := range system {
		provider += float64(len(x.Content)) / charsPerToken
	}
	for _, x := range tools {
		provider += float64(len(x)) / charsPerToken
	}
	whole41 := map[string]bool{} // emails that the model had before it whole
	var compacted []int          // how many emails had been read
	var sizes []int
	read := 0
	for range 20 {
		cx, ms := whole(t, e, s.ID)
		count := provider
		for _, m := range ms {
			for i := range m.Parts {
				p := &m.Parts[i]
				count += float64(len(shownText(p))+len(p.Arguments)) / charsPerToken
				if p.Type == turns.ToolCallResponse && shownText(p) == box.text[p.ID] {
					whole41[p.ID] = true
				}
			}
		}
		if count > 967_232 {
			t.Fatalf("after %d emails a call has %.0f tokens: it overflows", read, count)
		}
		if used := cx.Tokens + cx.Overhead; cx.Compacted != nil {
			compacted = append(compacted, read)
			k := must(e.Reader.GetTurn(t.Context(), alice, s.ID, api.GetTurn{ID: *cx.Compacted}))(t).Compaction
			t.Logf("after %d emails: %s, %d tokens to %d, %d elisions; the provider counts %.0f", read, k.Trigger.Detail, k.TokensBefore, k.TokensAfter, k.Elided, count)
			if used > 967_232/2 || k.TokensBefore+cx.Overhead <= 725_424 || k.Covered != 0 {
				t.Errorf("after %d emails: %d tokens to %d, %d turns covered; want over 725424 to at most 483616, none covered", read, k.TokensBefore+cx.Overhead, used, k.Covered)
			}
		} else if used > 725_424 {
			t.Errorf("after %d emails: %d tokens are over 75 %%, and nothing was compacted", read, used)
		}
		sizes = append(sizes, int(count))
		response := mailAgent(ms)
		add(t, e, s.ID, api.AppendTurn{Response: response, Usage: &turns.Usage{InputTokens: uint64(count)}})
		var results []turns.Message
		for _, id := range response.Calls(nil) {
			results = append(results, resultOf(id, answer(id)))
			if strings.HasPrefix(id, "mail-") {
				read++
			}
		}
		if len(results) == 0 {
			break
		}
		add(t, e, s.ID, api.AppendTurn{Messages: results})
	}
	t.Logf("contexts of %v provider's tokens", sizes)
	if read != 41 {
		t.Errorf("%d emails of 41 are read", read)
	}
	if !slices.Equal(compacted, []int{15, 30, 41}) {
		t.Errorf("compactions after %v emails, want 15, 30 and, by the rule, 41", compacted)
	}
	for _, id := range box.ids {
		if text := box.text[id]; !whole41[id] && !strings.Contains(shown.String(), text) {
			t.Errorf("%s stood whole neither in a context nor in what was summarized", id)
		}
	}
	if len(sizes) != 6 || sizes[0] < 40_000 || sizes[0] > 44_000 || sizes[2] < 46_000 || sizes[2] > 48_500 {
		t.Errorf("contexts of %v tokens; the table begins with 42,000 and 47,000", sizes)
	}
	verified(t, e)
}
