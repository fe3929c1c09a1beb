package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"nexus/ledger/api"
	"nexus/turns"
)

func logCmd(e *env) *cobra.Command {
	var limit int
	c := verb("log SESSION|TURN", "the turns of a session, newest first", 1, 1, func(cmd *cobra.Command, args []string) error {
		c, s, at, err := e.place(cmd, args[0])
		if err != nil {
			return err
		}
		n := 0
		for t, err := range c.Turns(cmd.Context(), s.ID, api.ListTurns{At: at, Order: "desc", Full: true, Page: api.Page{Limit: min(limit, 1000)}}) {
			if err != nil {
				return err
			}
			if e.json {
				err = e.print(t)
			} else {
				_, err = fmt.Fprintln(e.out, turnLine(&t, e.width))
			}
			if err != nil {
				return err
			}
			if n++; limit > 0 && n >= limit {
				break
			}
		}
		if by := policyCounter(s.Policy.Name, s.Policy.Set); e.talks && !e.json && by != defaultCounter {
			e.say("tokens of turns are counted by %s, those of the context by %s, as policy %s says", defaultCounter, by, s.Policy.Name)
		}
		return nil
	})
	c.Flags().IntVarP(&limit, "limit", "n", 0, "at most so many")
	return c
}

// turnLine is a turn on one line: id, depth, time, tokens, and a few words of
// what was said, cut to width where that is not 0.
func turnLine(t *api.Turn, width int) string {
	at := time.Time(t.Recorded)
	if t.Time != nil {
		at = time.Time(*t.Time)
	}
	room := 100
	if width > 0 {
		room = max(20, width-51)
	}
	var what string
	if k := t.Compaction; k != nil {
		what = folded.Render(clip(fmt.Sprintf("◆ %s (%s), %s → %s tokens", did(k), by(k), grouped(k.TokensBefore), grouped(k.TokensAfter)), room))
	} else {
		asked, answer := describe(t.Messages), "pending"
		if t.Response != nil {
			answer = describe([]turns.Message{*t.Response})
		}
		asked = clip(asked, room*2/3)
		what = asked + faint.Render(" ⇒ ") + clip(answer, max(10, room-3-len([]rune(asked))))
	}
	text := fmt.Sprintf("%s %s  %s %s  %s", idStyle.Render(short(t.ID)), fmt.Sprintf("%5d", t.Depth), faint.Render(at.UTC().Format("2006-01-02 15:04:05")), fmt.Sprintf("%7s", grouped(t.TokenCount)), what)
	if width > 0 {
		text = cut(text, width)
	}
	return text
}

// did is what a compaction did, in a few words.
func did(k *api.Compaction) string {
	switch parts := plural(uint64(len(k.Elisions)), "part"); {
	case k.Covered > 0 && len(k.Elisions) > 0:
		return plural(k.Covered, "turn") + " covered by a summary, " + parts + " shortened"
	case k.Covered == 0 && len(k.Elisions) > 0:
		return parts + " shortened"
	}
	return plural(k.Covered, "turn") + " covered by a summary"
}

// by is the policy of a compaction, and who wrote its summary. One that another
// system made names no policy.
func by(k *api.Compaction) string {
	who := tier(k)
	if k.Model != "" {
		who += " " + printable(k.Model)
	}
	if k.Policy == "" {
		return who
	}
	return k.Policy + ", " + who
}

// tier is who wrote a summary.
func tier(k *api.Compaction) string {
	if k.Tier == "" {
		return k.Provenance
	}
	return k.Tier
}

// describe is a few words for some messages.
func describe(ms []turns.Message) string {
	var out []string
	results := 0
	for _, m := range ms {
		for _, p := range m.Parts {
			switch p.Type {
			case turns.Text:
				if s := clip(p.Content, 200); s != "" {
					out = append(out, "“"+s+"”")
				}
			case turns.ToolCall:
				out = append(out, p.Name+"()")
			case turns.ToolCallResponse:
				results++
			}
		}
	}
	if results > 0 {
		out = append([]string{plural(uint64(results), "result")}, out...)
	}
	return strings.Join(out, " ")
}

// clip is the first n characters of s on one line, with nothing in it that a
// terminal would act on.
func clip(s string, n int) string {
	r := []rune(strings.Join(strings.Fields(printable(s)), " "))
	if len(r) <= n {
		return string(r)
	}
	return string(r[:max(0, n-1)]) + "…"
}

// printable is s without control characters, line breaks and tabs excepted: a
// transcript must not steer the terminal that shows it.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' || r == '\u202e' || r == '\u2066' || r == '\u2067' {
			return '\ufffd'
		}
		return r
	}, s)
}

func showCmd(e *env) *cobra.Command {
	var part int
	c := verb("show TURN", "one turn, whole, or one part of it", 1, 1, func(cmd *cobra.Command, args []string) error {
		c, s, id, err := e.turn(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		t, err := c.Turn(cmd.Context(), s.ID, id)
		if err != nil {
			return err
		}
		if t.Compaction != nil { // which tells of the calls since, too
			if t, err = c.Compaction(cmd.Context(), t.Session, t.ID); err != nil {
				return err
			}
		}
		switch {
		case cmd.Flags().Changed("part"):
			return e.showPart(cmd.Context(), c, t, part)
		case e.json:
			return e.print(t)
		}
		e.showTurn(t)
		return nil
	})
	c.Flags().IntVar(&part, "part", 0, "the content of one part, as it is")
	return c
}

// showPart writes a part's content as it is, from its blob if it is there.
func (e *env) showPart(ctx context.Context, c *api.Client, t *api.Turn, n int) error {
	var parts []turns.Part
	for _, m := range shown(t) {
		parts = append(parts, m.Parts...)
	}
	if n < 1 || n > len(parts) {
		return usageError{fmt.Errorf("the turn has parts 1 to %d", len(parts))}
	}
	p := parts[n-1]
	if e.json {
		return e.print(turns.Message{Parts: []turns.Part{p}})
	}
	content := []byte(p.Content)
	switch p.Type {
	case turns.ToolCall:
		content = p.Arguments
	case turns.ToolCallResponse:
		content = p.Response
	case turns.Blob:
		content = p.Data
	}
	if p.Ref != nil {
		var err error
		if content, err = c.Blob(ctx, t.Session, p.Ref.Digest); err != nil {
			return err
		}
	}
	if s, ok := turns.Raw(content).Text(); ok && p.Type == turns.ToolCallResponse {
		content = []byte(s)
	}
	_, err := e.raw.Write(content)
	return err
}

// shown is the messages of a turn in the order that they are shown in.
func shown(t *api.Turn) []turns.Message {
	ms := t.Messages
	if t.Compaction != nil {
		ms = slices.Concat(t.Compaction.Replacement, t.Compaction.Nudge)
	} else if t.Response != nil {
		ms = append(ms[:len(ms):len(ms)], *t.Response)
	}
	return ms
}

func (e *env) showTurn(t *api.Turn) {
	const lead = 9
	row := func(name, format string, args ...any) {
		text := wrapped(max(0, e.width-lead), fmt.Sprintf(format, args...), "")
		fmt.Fprintf(e.out, "%s %s\n", faint.Render(fmt.Sprintf("%-8s", name)), strings.ReplaceAll(text, "\n", "\n"+strings.Repeat(" ", lead)))
	}
	row("turn", "%s", idStyle.Render(t.ID.String()))
	row("session", "%s", t.Session)
	row("type", "%s, depth %d, %s tokens", t.Type, t.Depth, grouped(t.TokenCount))
	if t.Time != nil {
		row("time", "%s", time.Time(*t.Time).UTC().Format(time.DateTime))
	}
	row("recorded", "%s", time.Time(t.Recorded).UTC().Format(time.DateTime))
	if t.Model != "" {
		row("model", "%s", printable(t.Model))
	}
	if u := t.Usage; u != nil {
		row("used", "%s tokens in (%s from cache), %s out", grouped(u.InputTokens), grouped(u.CacheRead), grouped(u.OutputTokens))
	}
	row("hash", "%s", t.Hash)
	row("previous", "%s", t.PrevHash)
	if k := t.Compaction; k != nil {
		row("made by", "%s, trigger %s", by(k), k.Trigger.Kind)
		row("covers", "%s, through %s; kept from %s%s", plural(k.Covered, "turn"), opt(k.Through), opt(k.FirstKept), map[bool]string{true: ", whose request is covered too"}[k.Split])
		row("tokens", "%s → %s", grouped(k.TokensBefore), grouped(k.TokensAfter))
		if k.Scope == "call" {
			row("scope", "this call: until the user says something")
		}
		for i, x := range k.Elisions {
			if i == 20 {
				row("shorter", "and %s more", plural(uint64(len(k.Elisions)-i), "part"))
				break
			}
			row("shorter", "%s %s %d.%d: %s, %s → %s characters", short(x.Turn), x.Half, x.Message, x.Part, x.Method, grouped(x.Before), grouped(x.After))
		}
		if s := k.Since; s != nil {
			row("since", "%s: %s tokens in, %s of them from the cache; the first wrote %s to it", plural(s.Calls, "call"),
				grouped(s.Total.InputTokens), grouped(s.Total.CacheRead), grouped(s.First.CacheCreation))
		}
		if k.CostMicros > 0 {
			row("cost", "$%.4f", float64(k.CostMicros)/1e6)
		}
		if k.Flush != "" {
			row("flush", "%s", k.Flush)
		}
	}
	if t.Compaction != nil {
		fmt.Fprintln(e.out, faint.Render("\nin place of what it covers the model sees:"))
	}
	showMessages(e.out, shown(t))
	switch {
	case t.Error != "":
		fmt.Fprintln(e.out, faint.Render("(can't be read: "+string(t.Error)+")"))
	case t.Pending:
		fmt.Fprintln(e.out, faint.Render("(no response yet)"))
	}
}

func opt(id *turns.ID) string {
	if id == nil {
		return "none"
	}
	return short(*id)
}

// showMessages shows messages with their parts numbered, for show --part.
func showMessages(w io.Writer, ms []turns.Message) {
	n := 0
	for _, m := range ms {
		fmt.Fprintf(w, "\n%s\n", title.Render(string(m.Role)))
		for _, p := range m.Parts {
			n++
			fmt.Fprintf(w, "%s %s\n", faint.Render(fmt.Sprintf("[%d]", n)), partText(&p))
		}
	}
}

func partText(p *turns.Part) string {
	large := ""
	if p.Ref != nil {
		large = fmt.Sprintf("%s… (%s bytes; show --part has all of them)", printable(p.Ref.Preview), grouped(p.Ref.Size))
	}
	switch p.Type {
	case turns.Text:
		return printable(p.Content) + large
	case turns.Reasoning:
		return faint.Render("(reasoning) "+printable(p.Content)) + large
	case turns.ToolCall:
		return tool.Render("→ "+printable(p.Name)) + " " + printable(string(p.Arguments)) + large
	case turns.ToolCallResponse:
		text, ok := p.Response.Text()
		if !ok {
			text = string(p.Response)
		}
		return tool.Render("←") + " " + printable(text) + large
	}
	return fmt.Sprintf("(%s %s, %s bytes)", p.Type, printable(p.MimeType), grouped(uint64(len(p.Data)+len(p.Content)))) + large
}

func pathCmd(e *env) *cobra.Command {
	return verb("path SESSION|TURN", "turn ids from the root", 1, 1, func(cmd *cobra.Command, args []string) error {
		c, s, at, err := e.place(cmd, args[0])
		if err != nil {
			return err
		}
		for t, err := range c.Path(cmd.Context(), s.ID, api.GetPath{At: at}) {
			if err != nil {
				return err
			}
			if e.json {
				err = e.print(t)
			} else {
				_, err = fmt.Fprintf(e.out, "%6d  %s  %s\n", t.Depth, t.ID, t.Type)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// place is a session, or a turn of one; at is zero for a session.
func (e *env) place(cmd *cobra.Command, name string) (*api.Client, *api.Session, turns.ID, error) {
	if strings.ContainsAny(name, "@/") {
		return e.turn(cmd.Context(), name)
	}
	c, s, err := e.session(cmd.Context(), name)
	if !coded(err, api.NotFound) {
		return c, s, turns.ID{}, err
	}
	c, s, t, err := e.turn(cmd.Context(), name)
	if coded(err, api.NotFound) {
		err = api.Errorf(api.NotFound, nil, "no session or turn is called %q", name)
	}
	return c, s, t, err
}
