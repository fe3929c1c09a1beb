package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"time"
	"unicode"

	"charm.land/lipgloss/v2"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"nexus/compactor/summary"
	"nexus/ledger/api"
	"nexus/turns"
)

func logCmd(e *env) *cobra.Command {
	var limit int
	var words string
	var shown bool
	c := verb("log SESSION|TURN", "the turns of a session, newest first", 1, 1, func(cmd *cobra.Command, args []string) error {
		p, err := e.place(cmd, args[0])
		if err != nil {
			return err
		}
		if words != "" && !p.turn.IsZero() {
			return usageError{errors.New("--grep goes with a session, not with a turn")}
		}
		if words != "" {
			return e.grepLog(cmd.Context(), p, words, limit, shown)
		}
		ts := p.c.Turns(cmd.Context(), p.s.ID, api.ListTurns{At: p.turn, Order: "desc", Full: true, Page: api.Page{Limit: min(limit, 1000)}})
		if !shown {
			ts = masked(ts)
		}
		if err := e.printTurns(ts, limit, ""); err != nil {
			return err
		}
		if p.s.Error != "" {
			return nil // its policy is not known
		}
		if by := policyCounter(p.s.Policy.Name, p.s.Policy.Set); e.talks && !e.json && by != defaultCounter {
			e.say("tokens of turns are counted by %s, those of the context by %s, as policy %s says", defaultCounter, by, p.s.Policy.Name)
		}
		return nil
	})
	c.Flags().IntVarP(&limit, "limit", "n", 0, "at most so many")
	c.Flags().BoolVar(&shown, "show-secrets", false, "show credentials of known shapes")
	c.Flags().StringVar(&words, "grep", "", "those with these words, as search finds them")
	return c
}

// masked returns turns with their credentials masked.
func masked(ts iter.Seq2[api.Turn, error]) iter.Seq2[api.Turn, error] {
	return func(yield func(api.Turn, error) bool) {
		for t, err := range ts {
			if err == nil {
				maskTurn(&t)
			}
			if !yield(t, err) {
				return
			}
		}
	}
}

// printEach prints each of a list: as JSON, or as its line. limit, where it is not
// 0, is the most that are printed.
func printEach[T any](e *env, all iter.Seq2[T, error], limit int, line func(*T) string) error {
	n := 0
	for x, err := range all {
		if err != nil {
			return err
		}
		if e.json {
			err = e.print(x)
		} else {
			_, err = fmt.Fprintln(e.out, line(&x))
		}
		if n++; err != nil || n == limit {
			return err
		}
	}
	return nil
}

// printTurns prints turns, each behind mark.
func (e *env) printTurns(ts iter.Seq2[api.Turn, error], limit int, mark string) error {
	return printEach(e, ts, limit, func(t *api.Turn) string {
		return mark + turnLine(t, max(0, e.width-lipgloss.Width(mark)))
	})
}

// narrowTurn is how wide a line has to be for the time and the tokens of a turn.
const narrowTurn = 70

// turnLine is a turn on one line: id, depth, time, tokens, and a few words of
// its text, cut to width if that is not 0.
func turnLine(t *api.Turn, width int) string {
	at := time.Time(t.Recorded)
	if t.Time != nil {
		at = time.Time(*t.Time)
	}
	where := fmt.Sprintf("%s %5d  ", idStyle.Render(short(t.ID)), t.Depth)
	size := fmt.Sprintf("%s %7s  ", faint.Render(at.UTC().Format("2006-01-02 15:04:05")), grouped(t.TokenCount))
	if width > 0 && width < narrowTurn { // what was said tells more
		size = ""
	}
	room := 100
	if width > 0 {
		room = max(20, width-lipgloss.Width(where+size))
	}
	var what string
	if t.Error != "" {
		what = faint.Render(clip(unread(t.Type, t.Error, t.MissingKey), room))
	} else if k := t.Compaction; k != nil {
		what = folded.Render(clip(fmt.Sprintf("◆ %s (%s), %s", did(k), by(k), change(k)), room))
	} else {
		asked, answer := describe(t.Messages), "pending"
		if r := t.Response; r != nil {
			answer = describe([]turns.Message{*r})
			if answer == "" && len(r.Parts) > 0 {
				answer = "(reasoning only)"
			}
			answer = cmp.Or(answer, "(empty)")
		}
		asked = clip(asked, room*2/3)
		what = asked + faint.Render(" ⇒ ") + clip(answer, max(10, room-3-len([]rune(asked))))
	}
	text := where + size + what
	if width > 0 {
		text = cut(text, width)
	}
	return text
}

// unread says in place of the content of a turn, or of a session, that it can't be read.
func unread(what string, code api.Code, missing turns.ID) string {
	why := string(code)
	if !missing.IsZero() {
		why = "no key"
	}
	if what == "compaction" {
		return "◆ compaction: content can't be read: " + why
	}
	return "content can't be read: " + why
}

// change is how many tokens a context had before a compaction and has after it.
// That before may be another system's count, which says nothing next to ours where
// it is the smaller one.
func change(k *api.Compaction) string {
	if k.TokensBefore < k.TokensAfter {
		return grouped(k.TokensAfter) + " tokens left"
	}
	return fmt.Sprintf("%s → %s tokens", grouped(k.TokensBefore), grouped(k.TokensAfter))
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
	return printable(k.Policy) + ", " + who
}

// tier is who wrote a summary.
func tier(k *api.Compaction) string {
	if k.Tier == "" {
		return printable(k.Provenance)
	}
	return printable(k.Tier)
}

// describe is a few words for some messages: texts, calls with their first argument, and
// the beginning of the first result.
func describe(ms []turns.Message) string {
	var out []string
	results, first := 0, ""
	for _, m := range ms {
		for i := range m.Parts {
			p := &m.Parts[i]
			switch p.Type {
			case turns.Text:
				if s := clip(partBeginning(p), 200); s != "" {
					out = append(out, "“"+s+"”")
				}
			case turns.ToolCall:
				out = append(out, printable(p.Name)+"("+firstArgument(p.Arguments)+")")
			case turns.ToolCallResponse:
				if results++; results == 1 {
					first = clip(partBeginning(p), 100)
				}
			}
		}
	}
	if results > 0 {
		text := "← " + cmp.Or(first, "(empty)")
		if results > 1 {
			text = fmt.Sprintf("← %d results: %s", results, cmp.Or(first, "(empty)"))
		}
		out = append([]string{text}, out...)
	}
	return strings.Join(out, " ")
}

// partBeginning is the text of a part, or the beginning of a large one.
func partBeginning(p *turns.Part) string {
	switch {
	case p.Ref != nil:
		return p.Ref.Preview
	case p.Type == turns.ToolCallResponse && p.Response.Kind() == '{':
		_, text := members(p.Response)
		return cmp.Or(text, string(p.Response))
	case p.Type == turns.ToolCallResponse:
		return summary.ResultText(p)
	}
	return p.Content
}

// firstArgument is the first argument of a call that is a text, else the first one, in a
// few words.
func firstArgument(args turns.Raw) string {
	if args.Kind() != '{' {
		return clip(jsonText(args), 60)
	}
	first, text := members(args)
	return clip(cmp.Or(text, first), 60)
}

// members returns the first value of an object, and the first that is a text.
func members(object turns.Raw) (first, text string) {
	d := jsontext.NewDecoder(bytes.NewReader(object))
	if _, err := d.ReadToken(); err != nil { // the brace
		return "", ""
	}
	for d.PeekKind() == '"' {
		if d.SkipValue() != nil { // the name
			break
		}
		v, err := d.ReadValue()
		if err != nil {
			break
		}
		first = cmp.Or(first, jsonText(turns.Raw(v)))
		if v.Kind() == '"' {
			if text = jsonText(turns.Raw(v)); text != "" {
				break
			}
		}
	}
	return first, text
}

// jsonText is a string's text, or another value's JSON.
func jsonText(v turns.Raw) string {
	if s, ok := v.Text(); ok {
		return s
	}
	return string(v)
}

// clip is the first n characters of s on one line, with nothing in it that a
// terminal would act on.
func clip(s string, n int) string {
	if len(s) > 16*n { // the end of a long text costs nothing
		s = strings.ToValidUTF8(s[:16*n], "")
	}
	r := []rune(strings.Join(strings.Fields(printable(s)), " "))
	if len(r) <= n {
		return string(r)
	}
	return string(r[:max(0, n-1)]) + "…"
}

// printable returns s with U+FFFD in place of each hidden character ([turns.IsHidden]),
// line feeds and tabs excepted: a transcript must not steer the terminal that shows
// it, nor look like another text.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if turns.IsHidden(r) && r != '\n' && r != '\t' {
			return unicode.ReplacementChar
		}
		return r
	}, s)
}

func showCmd(e *env) *cobra.Command {
	var part int
	c := verb("show TURN", "one turn, whole, or one part of it", 1, 1, func(cmd *cobra.Command, args []string) error {
		p, err := e.turn(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		t, err := p.c.Turn(cmd.Context(), p.s.ID, p.turn)
		if (coded(err, api.Corrupt) || coded(err, api.Erased)) && !cmd.Flags().Changed("part") {
			return e.showHeader(cmd.Context(), p, err)
		}
		if err != nil {
			return err
		}
		if t.Compaction != nil { // which tells of the calls since, too
			if t, err = p.c.Compaction(cmd.Context(), t.Session, t.ID); err != nil {
				return err
			}
		}
		switch {
		case cmd.Flags().Changed("part"):
			return e.showPart(cmd.Context(), p.c, t, part)
		case e.json:
			return e.print(t)
		}
		e.showTurn(t)
		return e.showEventOf(cmd.Context(), p, t)
	})
	c.Flags().IntVar(&part, "part", 0, "the content of one part, as it is")
	return c
}

// showHeader shows what the header of a turn says whose content can't be read, and
// returns why.
func (e *env) showHeader(ctx context.Context, p place, why error) error {
	for t, err := range p.c.Turns(ctx, p.s.ID, api.ListTurns{At: p.turn, Order: "desc", Full: true, Page: api.Page{Limit: 1}}) {
		switch {
		case err != nil:
			return why
		case e.json:
			err = e.print(t)
		default:
			e.showTurn(&t)
		}
		if err != nil {
			return err
		}
		break
	}
	return why
}

// showPart writes a part's content, from its blob if it is there: as it is, or as a
// terminal can show it.
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
	if e.screen {
		content = []byte(printable(string(content)))
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
	row := e.rows(8)
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
	if t.AfterLoss {
		row("after loss", "an event before it is lost; the turn itself is as it was stored")
	}
	if k := t.Compaction; k != nil {
		row("made by", "%s, trigger %s", by(k), printable(k.Trigger.Kind))
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
			row("shorter", "%s %s %d.%d: %s, %s → %s characters", short(x.Turn), x.Half, x.Message, x.Part, printable(x.Method), grouped(x.Before), grouped(x.After))
		}
		if s := k.Since; s != nil {
			row("since", "%s: %s tokens in, %s of them from the cache; the first wrote %s to it", plural(s.Calls, "call"),
				grouped(s.Total.InputTokens), grouped(s.Total.CacheRead), grouped(s.First.CacheCreation))
		}
		if k.CostMicros > 0 {
			row("cost", "$%.4f", float64(k.CostMicros)/1e6)
		}
		if k.Flush != "" {
			row("flush", "%s", printable(k.Flush))
		}
	}
	if t.Compaction != nil {
		fmt.Fprintln(e.out, faint.Render("\nin place of what it covers the model sees:"))
	}
	showMessages(e.out, shown(t))
	switch {
	case t.Error != "":
		fmt.Fprintln(e.out, "\n"+bad.Render(unread(t.Type, t.Error, t.MissingKey)))
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
		return tool.Render("←") + " " + printable(jsonText(p.Response)) + large
	}
	return fmt.Sprintf("(%s %s, %s bytes)", p.Type, printable(p.MimeType), grouped(uint64(len(p.Data)+len(p.Content)))) + large
}

func pathCmd(e *env) *cobra.Command {
	return verb("path SESSION|TURN", "turn ids from the root", 1, 1, func(cmd *cobra.Command, args []string) error {
		p, err := e.place(cmd, args[0])
		if err != nil {
			return err
		}
		return printEach(e, p.c.Path(cmd.Context(), p.s.ID, api.GetPath{At: p.turn}), 0, func(t *api.PathTurn) string {
			return fmt.Sprintf("%6d  %s  %s", t.Depth, t.ID, t.Type)
		})
	})
}

// place finds a session, or a turn of one.
func (e *env) place(cmd *cobra.Command, name string) (place, error) {
	var more hinted
	if !strings.ContainsAny(name, "@/") {
		c, s, err := e.session(cmd.Context(), name)
		if !coded(err, api.NotFound) {
			return place{c: c, s: s}, err
		}
		errors.As(err, &more)
	}
	p, err := e.turn(cmd.Context(), name)
	if err != nil && strings.ContainsAny(name, "@/") {
		if c, s, serr := e.session(cmd.Context(), name); serr == nil { // a label that has such a character
			return place{c: c, s: s}, nil
		}
	}
	if coded(err, api.NotFound) && !strings.ContainsAny(name, "@/") {
		err = api.Errorf(api.NotFound, nil, "no session or turn is called %q", name)
		if more.hint != "" {
			err = hinted{err, more.hint}
		}
	}
	return p, err
}
