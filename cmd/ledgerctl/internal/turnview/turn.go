package turnview

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"nexus/cmd/internal/prose"
	"nexus/cmd/ledgerctl/internal/fault"
	"nexus/cmd/ledgerctl/internal/names"
	"nexus/cmd/ledgerctl/internal/terminal"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
)

// ShowHeader shows what the header of a turn says whose content can't be read, and
// returns why.
func ShowHeader(ctx context.Context, term *terminal.Terminal, p names.Place, why error) error {
	for t, err := range p.Client.Turns(ctx, p.Session.ID, api.ListTurns{At: p.Turn, Order: "desc", Full: true, Page: api.Page{Limit: 1}}) {
		switch {
		case err != nil:
			return why
		case term.JSON:
			err = term.Print(t)
		default:
			Show(term, &t)
		}
		if err != nil {
			return err
		}
		break
	}
	return why
}

// ShowPart writes a part's content, from its blob if it is there: as it is, or as a
// terminal can show it.
func ShowPart(ctx context.Context, term *terminal.Terminal, c *client.Client, t *api.Turn, n int) error {
	var parts []turns.Part
	for _, m := range Messages(t) {
		parts = append(parts, m.Parts...)
	}
	if n < 1 || n > len(parts) {
		return fault.Usage(fmt.Errorf("the turn has parts 1 to %d", len(parts)))
	}
	p := parts[n-1]
	if term.JSON {
		return term.Print(turns.Message{Parts: []turns.Part{p}})
	}
	content := p.ContentBytes()
	if p.Ref != nil {
		var err error
		if content, err = c.Content(ctx, t.Session, p.Ref); err != nil {
			return err
		}
	}
	if s, ok := turns.Raw(content).Text(); ok && p.Type == turns.ToolCallResponse {
		content = []byte(s)
	}
	if term.OutIsTerminal {
		content = []byte(prose.Printable(string(content)))
	}
	_, err := term.Raw.Write(content)
	return err
}

// Messages is the messages of a turn in the order that they are shown in.
func Messages(t *api.Turn) []turns.Message {
	ms := t.Messages
	if t.Compaction != nil {
		ms = slices.Concat(t.Compaction.Replacement, t.Compaction.Nudge)
	} else if t.Response != nil {
		ms = append(ms[:len(ms):len(ms)], *t.Response)
	}
	return ms
}

func Show(term *terminal.Terminal, t *api.Turn) {
	row := term.Rows(8)
	row("turn", "%s", terminal.ID.Render(t.ID.String()))
	row("session", "%s", t.Session)
	row("type", "%s, depth %d, %s tokens", t.Type, t.Depth, prose.Grouped(t.TokenCount))
	if t.Time != nil {
		row("time", "%s", prose.At(time.Time(*t.Time), turns.TimeBoundOf(t.Meta), prose.Stamp))
	}
	if t.Note != nil {
		row("note", "%s", prose.Printable(t.Note.Text))
	}
	row("recorded", "%s", time.Time(t.Recorded).Local().Format(prose.Stamp))
	if t.Model != "" {
		row("model", "%s", prose.Printable(t.Model))
	}
	if u := t.Usage; u != nil {
		row("used", "%s tokens in (%s from cache), %s out", prose.Grouped(u.InputTokens), prose.Grouped(u.CacheRead), prose.Grouped(u.OutputTokens))
	}
	row("hash", "%s", t.Hash)
	row("previous", "%s", t.PrevHash)
	if t.AfterLoss {
		row("after loss", "an event before it is lost; the turn itself is as it was stored")
	}
	if k := t.Compaction; k != nil {
		row("made by", "%s, trigger %s", By(k), prose.Printable(k.Trigger.Kind))
		row("covers", "%s, through %s; kept from %s%s", prose.Plural(k.Covered, "turn"), Opt(k.Through), Opt(k.FirstKept), map[bool]string{true: ", whose request is covered too"}[k.Split])
		if k.TokensBefore < k.TokensAfter {
			row("tokens", "%s left; before it the agent's own count, of other things, was %s", prose.Grouped(k.TokensAfter), prose.Grouped(k.TokensBefore))
		} else {
			row("tokens", "%s → %s", prose.Grouped(k.TokensBefore), prose.Grouped(k.TokensAfter))
		}
		if k.Scope == "call" {
			row("scope", "this call: until the user says something")
		}
		for i, x := range k.Elisions {
			if i == 20 {
				row("shorter", "and %s more", prose.Plural(uint64(len(k.Elisions)-i), "part"))
				break
			}
			tool := ""
			if x.Tool != "" {
				tool = prose.Printable(x.Tool) + ", "
			}
			row("shorter", "%s %s %d.%d: %s%s, %s → %s characters (−%.0f %%)", prose.Short(x.Turn), x.Half, x.Message, x.Part, tool, prose.Printable(x.Method), prose.Grouped(x.Before), prose.Grouped(x.After), 100*x.Reduction)
		}
		if s := k.Since; s != nil {
			row("since", "%s: %s tokens in, %s of them from the cache; the first wrote %s to it", prose.Plural(s.Calls, "call"),
				prose.Grouped(s.Total.InputTokens), prose.Grouped(s.Total.CacheRead), prose.Grouped(s.First.CacheCreation))
		}
		if k.CostMicros > 0 {
			row("cost", "$%.4f", float64(k.CostMicros)/1e6)
		}
		if k.Flush != "" {
			row("flush", "%s", prose.Printable(k.Flush))
		}
	}
	if t.Compaction != nil {
		fmt.Fprintln(term.Out, terminal.Faint.Render("\nin place of what it covers the model sees:"))
	}
	showMessages(term.Out, Messages(t))
	switch {
	case t.Error != "":
		fmt.Fprintln(term.Out, "\n"+terminal.Bad.Render(prose.Unreadable(t.Type, t.Error, t.MissingKey)))
	case t.Pending:
		fmt.Fprintln(term.Out, terminal.Faint.Render("(no response yet)"))
	}
}

func Opt(id *turns.ID) string {
	if id == nil {
		return "none"
	}
	return prose.Short(*id)
}

// showMessages shows messages with their parts numbered, for show --part.
func showMessages(w io.Writer, ms []turns.Message) {
	n := 0
	for _, m := range ms {
		fmt.Fprintf(w, "\n%s\n", terminal.Title.Render(string(m.Role)))
		for _, p := range m.Parts {
			n++
			fmt.Fprintf(w, "%s %s\n", terminal.Faint.Render(fmt.Sprintf("[%d]", n)), PartText(&p))
		}
	}
}

func PartText(p *turns.Part) string {
	large := ""
	if p.Ref != nil {
		large = fmt.Sprintf("%s… (%s bytes; show --part has all of them)", prose.Printable(p.Ref.Preview), prose.Grouped(p.Ref.Size))
	}
	switch p.Type {
	case turns.Text:
		return prose.Printable(p.Content) + large
	case turns.Reasoning:
		return terminal.Faint.Render("(reasoning) "+prose.Printable(p.Content)) + large
	case turns.ToolCall:
		return terminal.Tool.Render("→ "+prose.Printable(p.Name)) + " " + prose.Printable(string(p.Arguments)) + large
	case turns.ToolCallResponse:
		return terminal.Tool.Render("←") + " " + prose.Printable(prose.JSONText(p.Response)) + large
	}
	return fmt.Sprintf("(%s %s, %s bytes)", p.Type, prose.Printable(p.MimeType), prose.Grouped(uint64(len(p.Data)+len(p.Content)))) + large
}
