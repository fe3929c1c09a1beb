package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"charm.land/lipgloss/v2"
	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"

	"nexus/cmd/ledgerctl/contextview"
	"nexus/ledger/api"
	"nexus/turns"
)

// contextFlags are the flags of the command.
type contextFlags struct {
	format, policy, query            string
	budget, queryTokens              uint64
	explain, svg, before, next, diff bool
	secrets                          bool
}

// simulates reports whether the flags ask for what another policy or request would show.
func (f *contextFlags) simulates() bool { return f.policy != "" || f.budget > 0 || f.query != "" }

// check says which flags do not go together.
func (f *contextFlags) check(e *env) error {
	switch {
	case f.svg && (e.json || f.format != ""):
		return usageError{errBothForms}
	case f.queryTokens > 0 && f.query == "":
		return usageError{errors.New("--query-tokens goes with --query")}
	case f.before && (f.next || f.simulates()):
		return usageError{errors.New("--before is of what was recorded; it does not go with --next, --policy, --budget and --query")}
	case f.diff && (f.svg || f.format != "" || f.explain):
		return usageError{errors.New("--diff goes without --svg, --format and --explain")}
	}
	return nil
}

func contextCmd(e *env) *cobra.Command {
	var f contextFlags
	c := verb("context SESSION|TURN | --diff A B", "what the model would see, or was given", 1, 2, func(cmd *cobra.Command, args []string) error {
		if err := f.check(e); err != nil {
			return err
		}
		switch {
		case f.diff && len(args) < 2:
			return hinted{usageError{errors.New("--diff compares two contexts, and only one is named")},
				fmt.Sprintf("ledgerctl context --diff %s %s, or two turns of one session: SESSION@10 SESSION@20", quoted(args[0]), "OTHER")}
		case !f.diff && len(args) == 2:
			return hinted{usageError{errors.New("context takes one session or turn")}, "--diff compares two"}
		}
		if f.diff {
			return e.diffPieces(cmd, args, f)
		}
		p, cx, err := e.contextOf(cmd, args[0], f)
		if err != nil {
			return err
		}
		if f.svg {
			name := cmp.Or(p.s.Label, short(p.s.ID))
			if !p.turn.IsZero() {
				name += ", turn " + short(p.turn)
			}
			return plotContext(e.raw, name, cx)
		}
		if e.json || f.format != "" {
			return e.print(cx)
		}
		return e.showContext(cmd.Context(), p, cx, f)
	})
	c.Flags().StringVar(&f.format, "format", "", "print the messages as JSON: otel, openai, anthropic, gemini")
	c.Flags().StringVar(&f.policy, "policy", "", "simulate another policy")
	c.Flags().Uint64Var(&f.budget, "budget", 0, "simulate another budget, in tokens")
	c.Flags().StringVar(&f.query, "query", "", "bring back what answers it of the turns that are not shown whole")
	c.Flags().Uint64Var(&f.queryTokens, "query-tokens", 0, "with --query: at most so many tokens")
	_ = c.RegisterFlagCompletionFunc("format", cobra.FixedCompletions(contextForms, cobra.ShellCompDirectiveNoFileComp))
	c.Flags().BoolVar(&f.svg, "svg", false, "print a picture, as SVG")
	c.Flags().BoolVar(&f.explain, "explain", false, "say for each half turn why it is in, shortened or out")
	c.Flags().BoolVar(&f.before, "before", false, "without the turn's own response")
	c.Flags().BoolVar(&f.next, "next", false, "what the call after the turn was given, or would be")
	c.Flags().BoolVar(&f.diff, "diff", false, "what two contexts show differently")
	c.Flags().BoolVar(&f.secrets, "show-secrets", false, "show credentials of known shapes")
	return c
}

// contextOf asks for the context of a session or turn. A turn's is what was recorded of
// its call, unless the flags ask for another one; then the place is in the turn's own
// session, where that is known.
func (e *env) contextOf(cmd *cobra.Command, name string, f contextFlags) (place, *api.Context, error) {
	p, err := e.place(cmd, name)
	if err != nil {
		return p, nil, err
	}
	text := !e.json && f.format == "" && !f.svg
	r := api.GetContext{At: p.turn, Format: f.format, Budget: f.budget, Query: f.query, QueryTokens: f.queryTokens, Explain: f.explain || text}
	if f.policy != "" {
		if r.Policy, err = policyArg(f.policy); err != nil {
			return p, nil, err
		}
	}
	switch {
	case p.turn.IsZero() && (f.before || f.next):
		return p, nil, usageError{fmt.Errorf("--before and --next take a turn, as %s@head", name)}
	case !p.turn.IsZero() && !f.next && !f.simulates():
		r.Recorded, r.Before = true, f.before
		t, err := p.c.Turn(cmd.Context(), p.s.ID, p.turn)
		if err != nil {
			return p, nil, err
		}
		if t.Session != p.s.ID { // inherited
			if p.s, err = p.c.As(api.Operator).Session(cmd.Context(), t.Session); err != nil {
				return p, nil, err
			}
			p.c = p.c.As(p.s.Agent)
		}
	}
	c := p.c
	if e.agent == "" {
		c = c.As(api.Operator) // a look commits nothing
	}
	cx, err := c.Context(cmd.Context(), p.s.ID, r)
	return p, cx, err
}

// showContext prints what was recorded of a call, or how full the window is, and what each
// half turn of the context says.
func (e *env) showContext(ctx context.Context, p place, cx *api.Context, f contextFlags) error {
	if f.simulates() && !p.turn.IsZero() {
		e.tell("A simulation: what the next call at this turn would be given with these flags. Without them you see what the model was given.")
	}
	depths, err := depthsOf(ctx, p)
	if err != nil {
		return err
	}
	if cx.Recorded == "" {
		e.printFullness(cx)
	} else if err := e.printRecorded(ctx, p, cx, f); err != nil {
		return err
	}
	return e.printPieces(cx, depths, f)
}

// printFullness prints how full the window is.
func (e *env) printFullness(cx *api.Context) {
	counted := cx.Tokens + cx.Overhead
	used, by := counted, "estimated"
	if cx.Reported > 0 {
		used, by = cx.Reported, "billed"
	}
	share := float64(used) / float64(max(cx.Budget, 1))
	cells := 40
	if e.width > 0 {
		cells = min(cells, max(10, e.width-50))
	}
	about := ""
	if cx.Overhead > 0 {
		about = fmt.Sprintf(", %s of them system and tools", grouped(cx.Overhead))
	}
	counter := printable(counterOf(cx.Recipe))
	if cx.Reported > 0 {
		about = "" // the provider does not say what of its count is system and tools
	} else if counter != defaultCounter {
		about += ", counted by " + counter
	}
	full := fmt.Sprintf("%s %.0f%%  %s of %s tokens (%s)", gauge(share, cells), 100*share, grouped(used), grouped(cx.Budget), by)
	if about = guessed(cx.WindowGuess) + about; e.width > 0 && lipgloss.Width(full+about) > e.width {
		full, about = full+"\n  ", wrapped(e.width-2, strings.TrimPrefix(about, ", "), "  ") // below the bar, as a line of its own
	}
	fmt.Fprintln(e.out, full+about)
	if cx.Reported > 0 {
		fmt.Fprintln(e.out, wrapped(e.width, fmt.Sprintf("billed: the provider's count of the last call, and an estimate of what came since; the rows below are estimates of %s: %s messages + %s system and tools = %s tokens",
			counter, grouped(cx.Tokens), grouped(cx.Overhead), grouped(counted)), "  "))
	}
}

// printRecorded prints what is known of the call that a turn is.
func (e *env) printRecorded(ctx context.Context, p place, cx *api.Context, f contextFlags) error {
	t, err := p.c.Turn(ctx, p.s.ID, p.turn)
	if err != nil {
		return err
	}
	row := e.rows(9)
	at := time.Time(t.Recorded)
	if t.Time != nil {
		at = time.Time(*t.Time)
	}
	row("call", "%s@%d, %s, %s", short(t.Session), t.Depth, cmp.Or(printable(t.Model), "no model named"), at.UTC().Format(time.DateTime))
	what := "what the model was given for it, and what it answered"
	if f.before {
		what = "what the model was given for it"
	}
	if cx.Recorded == "recipe" {
		row("shown", "%s: the context that was served, made again", what)
	} else {
		row("shown", "%s, as far as the source tells", what)
	}
	if k := compactionIn(cx); k.IsZero() && shortenedIn(cx) > 0 {
		row("compacted", "nothing covered, %s shortened", plural(shortenedIn(cx), "half turn"))
	} else if k.IsZero() {
		row("compacted", "nothing before it")
	} else if c, err := p.c.Compaction(ctx, p.s.ID, k); err == nil {
		row("compacted", "%s: %s (%s)", short(k), did(c.Compaction), by(c.Compaction))
	} else {
		row("compacted", "%s", short(k))
	}
	row("ours", "%s tokens by %s: %s of messages, %s of system and tools", grouped(cx.Tokens+cx.Overhead), printable(counterOf(cx.Recipe)), grouped(cx.Tokens), grouped(cx.Overhead))
	if u := t.Usage; u != nil && u.InputTokens > 0 {
		row("provider", "%s tokens in (%s read from the cache, %s written to it), %s out", grouped(u.InputTokens), grouped(u.CacheRead), grouped(u.CacheCreation), grouped(u.OutputTokens))
	} else {
		row("provider", "no count is recorded")
	}
	var lacks []string
	if len(cx.System) == 0 || string(cx.System) == "null" {
		lacks = append(lacks, "the system prompt")
	}
	if len(cx.Tools) == 0 {
		lacks = append(lacks, "the definitions of tools")
	}
	text := strings.Join(lacks, " and ")
	if ours := cx.Tokens + cx.Overhead; text != "" && cx.Reported > ours {
		text += fmt.Sprintf("; the provider counted %s tokens more than are shown", grouped(cx.Reported-ours))
	}
	row("not known", "%s", text)
	return nil
}

// compactionIn returns the compaction whose summary a context shows first, zero for none.
func compactionIn(cx *api.Context) turns.ID {
	for i := range cx.Sources {
		if cx.Sources[i].Status == "summary" {
			return cx.Sources[i].Turn
		}
	}
	return turns.ID{}
}

// shortenedIn returns how many half turns a context shows with shortened parts.
func shortenedIn(cx *api.Context) (n uint64) {
	for i := range cx.Sources {
		switch cx.Sources[i].Status {
		case "elided", "trimmed", "cleared":
			n++
		}
	}
	return n
}

// depthsOf returns the numbers of the turns on a path.
func depthsOf(ctx context.Context, p place) (map[turns.ID]uint64, error) {
	out := make(map[turns.ID]uint64)
	for t, err := range p.c.As(api.Operator).Path(ctx, p.s.ID, api.GetPath{At: p.turn}) {
		if err != nil {
			return nil, err
		}
		out[t.ID] = t.Depth
	}
	return out, nil
}

// printPieces prints what each half turn of a context says. Long runs are folded, unless
// all is asked for.
func (e *env) printPieces(cx *api.Context, depths map[turns.ID]uint64, f contextFlags) error {
	pieces, err := contextview.PiecesOf(cx)
	if err != nil {
		return err
	}
	if f.explain && len(cx.Preamble) > 0 {
		var rows [][]string
		for _, p := range cx.Preamble {
			rows = append(rows, []string{p.Type, grouped(p.Tokens), printable(p.Name)})
		}
		fmt.Fprint(e.out, e.table([]column{{head: "part"}, {head: "tokens", right: true}, {head: "name", least: 20}}, rows))
	}
	const head, tail = 6, 10
	text := "says"
	if f.explain {
		text = "why"
	}
	var rows [][]string
	for i := range pieces {
		s := &pieces[i]
		if last := len(pieces) - tail; !f.explain && len(pieces) > head+tail+1 && i >= head && i < last {
			if i == head {
				sum := uint64(0)
				for _, r := range pieces[head:last] {
					sum += r.Tokens
				}
				rows = append(rows, []string{"", faint.Render("…"), faint.Render(fmt.Sprintf("%s more", grouped(uint64(last-head)))), "", grouped(sum), faint.Render("--explain lists all")})
			}
			continue
		}
		says := printable(s.Why)
		if !f.explain {
			says = e.says(s, f.secrets)
		}
		rows = append(rows, []string{numberOf(depths, s), turnOf(s), halfOf(s), status(s.Status), grouped(s.Tokens), says})
	}
	fmt.Fprint(e.out, e.table([]column{{head: "n", right: true, drop: 2}, {head: "turn"}, {head: "half", drop: 1}, {head: "shown", drop: 3}, {head: "tokens", right: true}, {head: text, wraps: f.explain, least: 20}}, rows))
	_, err = fmt.Fprintf(e.out, "%s, fingerprint %s\n", plural(uint64(len(cx.Messages)), "message"), faint.Render(shortHash(cx.Fingerprint, e.width)))
	return err
}

// numberOf is the number of a piece's turn, as SESSION@N names it.
func numberOf(depths map[turns.ID]uint64, s *contextview.Piece) string {
	if n := depths[s.Turn]; n > 0 && s.Half != "memory" {
		return fmt.Sprint(n)
	}
	return ""
}

// turnOf is the turn of a piece, for a table.
func turnOf(s *contextview.Piece) string {
	switch {
	case s.Status == "dropped" && s.Half == "recalled":
		return faint.Render("query")
	case s.Half == "memory" && s.Turn.IsZero():
		return faint.Render("system")
	case s.Turn.IsZero():
		return faint.Render("not stored")
	}
	return idStyle.Render(short(s.Turn))
}

// halfOf is the half of a piece, for a table.
func halfOf(s *contextview.Piece) string {
	if s.Status == "summary" {
		return "stands for many"
	}
	return s.Half
}

// says is the beginning of what a piece says, with its credentials masked unless they are
// shown.
func (e *env) says(s *contextview.Piece, secrets bool) string {
	if !secrets {
		maskMessages(s.Messages)
	}
	most := 90
	if e.width > 0 {
		most = e.width // the table cuts what is too long
	}
	return clip(cmp.Or(describe(s.Messages), s.Why), most)
}

// defaultCounter is what tokens are counted by where a policy names nothing else.
const defaultCounter = "approx-1"

// counterOf is what the tokens of a context were counted by.
func counterOf(recipe turns.Raw) string {
	var r struct {
		Counter string `json:"counter"`
	}
	if err := json.Unmarshal(recipe, &r); err != nil || r.Counter == "" {
		return defaultCounter
	}
	return r.Counter
}

// shortHash is a hash, cut where a terminal has no room for all of it.
func shortHash(h string, width int) string {
	if width > 0 && width < 110 && len(h) > 23 {
		return h[:23] + "…"
	}
	return h
}

// status styles the status of a part: every status but verbatim is highlighted.
func status(s string) string {
	switch s {
	case "verbatim":
		return s
	case "summary", "memory", "recalled":
		return folded.Render(s)
	}
	return tool.Render(s)
}
