package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"nexus/compactor/policy"
	"nexus/ledger/api"
	"nexus/turns"
	"nexus/turns/secrets"
)

func sessionsCmd(e *env) *cobra.Command {
	var all bool
	var g grep
	list := func(cmd *cobra.Command, _ []string) error {
		if g.text != "" {
			return e.grepSessions(cmd.Context(), &g)
		}
		return e.listSessions(cmd.Context(), all, &g)
	}
	c := verb("sessions", "list, open, change and close sessions", 0, 0, list)
	lister := verb("list", "the sessions, oldest first", 0, 0, list)
	for _, v := range []*cobra.Command{c, lister} {
		g.flags(v.Flags())
		v.Flags().BoolVar(&all, "all", false, "list imported sessions without a turn too")
	}
	c.AddCommand(lister, showSessionCmd(e), newSessionCmd(e), setSessionCmd(e), resetSessionCmd(e), closeSessionCmd(e))
	return c
}

// listSessions lists the sessions: those that an import opened and that have no
// turn yet only with all.
func (e *env) listSessions(ctx context.Context, all bool, g *grep) error {
	c, err := e.client(api.Operator)
	if err != nil {
		return err
	}
	since, err := dayFlag("since", g.since)
	if err != nil {
		return err
	}
	var list []api.Session
	empty, others := uint64(0), false
	for s, err := range c.ListSessions(ctx, api.ListSessions{About: api.About{About: true}}) {
		if err != nil {
			return err
		}
		if g.isSet() && !g.keeps(&s, since) {
			others = true
			continue
		}
		if e.json {
			if err := e.print(s); err != nil {
				return err
			}
			continue
		}
		if s.Head == nil && source(s.Meta) != "" && !all {
			empty++
			continue
		}
		list = append(list, s)
	}
	if e.json {
		return nil
	}
	if empty > 0 {
		defer e.say("%s of an import without a turn not listed; sessions --all lists all", plural(empty, "session"))
	}
	if len(list) == 0 && others {
		e.say("no session is left by these filters; ledgerctl sessions lists all")
		return nil
	}
	if len(list) == 0 && empty == 0 && e.agent != "" && e.agent != api.Operator {
		e.say("agent %q has no session in tenant %q; %s", e.agent, e.tenant, e.whoHasSessions(ctx, c))
		return nil
	}
	if len(list) == 0 && empty == 0 {
		e.say("no session yet in tenant %q; ledgerctl import FILE brings one in, ledgerctl append new begins one", e.tenant)
		return nil
	}
	_, err = io.WriteString(e.out, e.sessionTable(list))
	return err
}

// whoHasSessions says which agents of the tenant have sessions, if the user may know.
func (e *env) whoHasSessions(ctx context.Context, c *api.Client) string {
	counts := make(map[string]uint64)
	for s, err := range c.As(api.Operator).Sessions(ctx) {
		if err != nil {
			return "this user may not see those of others"
		}
		counts[s.Agent]++
	}
	if len(counts) == 0 {
		return "no agent has one; ledgerctl --agent " + e.agent + " append new begins one"
	}
	var list []string
	for _, a := range slices.Sorted(maps.Keys(counts)) {
		list = append(list, fmt.Sprintf("%s (%s)", a, grouped(counts[a])))
	}
	const most = 20
	if len(list) > most {
		list = append(list[:most], "…")
	}
	return "agents with sessions: " + strings.Join(list, ", ")
}

// sessionTable is a line for each session: as much of it as a terminal has room
// for, and all of it in a file.
func (e *env) sessionTable(list []api.Session) string {
	agents, states := e.width == 0, e.width == 0
	for i := range list {
		agents = agents || list[i].Agent != list[0].Agent
		states = states || list[i].State != "open" || list[i].Error != ""
	}
	const keep, never = 2, 100
	drop := func(shown bool) int { return map[bool]int{true: keep, false: never}[shown] }
	cols := []column{{head: "session"}, {head: "agent", drop: drop(agents)}, {head: "state", drop: drop(states)}, {head: "said", drop: 1}, {head: "turns", right: true, drop: 4},
		{head: "compactions", right: true, drop: 7}, {head: "tokens", right: true, drop: 6}, {head: "full", right: true, drop: 3}, {drop: 8}, {head: "source", drop: 5}, {head: "title", least: 30}}
	if e.width >= 120 {
		cols[len(cols)-1].least = 50
	}
	var rows [][]string
	for i := range list {
		s := &list[i]
		id := whole(s.ID)
		if e.width > 0 && e.width < 160 {
			id = idStyle.Render(short(s.ID))
		}
		said := ""
		if s.HeadTime != nil {
			said = day(time.Time(*s.HeadTime))
		}
		rows = append(rows, []string{id, s.Agent, state(s), said, grouped(s.Turns), grouped(s.Compactions), grouped(s.Tokens),
			fmt.Sprintf("%.0f %%", 100*s.Pressure), gauge(s.Pressure, 10), source(s.Meta), e.titleOf(s)})
	}
	return e.table(cols, rows)
}

// titleOf is what a person knows a session by.
func (e *env) titleOf(s *api.Session) string {
	most := 60
	if e.width > 0 {
		most = e.width // the table cuts what is too long
	}
	name, words := printable(s.Label), clip(s.Title, most)
	switch {
	case name != "" && words != "":
		return bold.Render(name) + "  " + words
	case name != "":
		return bold.Render(name)
	}
	return words
}

// source is where an imported session is from, for a line of a table.
func source(meta turns.Raw) string { return clip(turns.WorkContextOf(meta).Source, 20) }

// day formats the time of a turn: how long ago, or the day.
func day(t time.Time) string {
	if d := time.Since(t); d < 0 || d >= 24*time.Hour {
		return t.UTC().Format(time.DateOnly)
	}
	return humanize.Time(t)
}

// state is a session's, and why it can't be read.
func state(s *api.Session) string {
	if s.Error != "" {
		if !s.MissingKey.IsZero() {
			return s.State + " (no key)"
		}
		return s.State + " (" + string(s.Error) + ")"
	}
	return s.State
}

// grouped is n with its thousands apart.
func grouped(n uint64) string { return humanize.Comma(int64(min(n, math.MaxInt64))) }

func showSessionCmd(e *env) *cobra.Command {
	return e.sessionVerb("show SESSION", "one session with its settings", func(cmd *cobra.Command, c *api.Client, s *api.Session) error {
		full, err := c.GetSession(cmd.Context(), s.ID, api.GetSession{About: api.About{About: true}})
		if err != nil {
			if s.Error != "" { // what its headers say, and why there is no more
				if perr := e.printSession(s); perr != nil {
					return perr
				}
			}
			return err
		}
		if err := e.printSession(full); err != nil {
			return err
		}
		return e.aboutItsPolicy(cmd.Context(), c, full)
	})
}

func (e *env) printSession(s *api.Session) error {
	if e.json {
		return e.print(s)
	}
	row := e.rows(12)
	row("session", "%s", whole(s.ID))
	row("label", "%s", printable(s.Label))
	row("title", "%s", clip(s.Title, 200))
	row("agent", "%s, %s", s.Agent, s.Kind)
	row("state", "%s", s.State)
	if s.Error != "" {
		row("content", "%s", unread("session", s.Error, s.MissingKey))
	}
	if s.Ended != nil {
		row("ended", "%s", endedText(s.Ended))
	}
	if s.Reset != nil {
		row("reset", "%s", printable(string(s.Reset)))
	}
	if s.ResetDue != nil {
		row("reset due", "%s", time.Time(*s.ResetDue).UTC().Format(time.DateTime))
	}
	if !s.Successor.IsZero() {
		row("successor", "%s", s.Successor)
	}
	if f := s.ForkedFrom; f != nil {
		row("forked from", "%s at turn %s (%s)", f.Session, f.Turn, f.Mode)
	}
	if sp := s.SpawnedBy; sp != nil {
		row("spawned by", "%s turn %s", sp.Session, sp.Turn)
	}
	if s.Head != nil {
		row("head", "%s at depth %s", s.Head, grouped(s.Depth))
	}
	row("turns", "%s, %s", grouped(s.Turns), plural(s.Compactions, "compaction"))
	bar := gauge(s.Pressure, 20) + " "
	if e.width > 0 && e.width < 100 {
		bar = ""
	}
	if s.Error == "" {
		row("window", "%s%s of %s tokens (%s of system and tools)%s%s", bar, grouped(s.Tokens+s.Overhead), grouped(s.Budget), grouped(s.Overhead), billed(s.Reported), guessed(s.WindowGuess))
	}
	row("model", "%s", printable(s.Model))
	row("policy", "%s%s %s", printable(s.Policy.Name), versioned(s.Policy.Version), printable(string(s.Policy.Set)))
	row("used", "%s tokens in, %s out", grouped(s.Usage.InputTokens), grouped(s.Usage.OutputTokens))
	if s.HeadTime != nil {
		row("said", "%s", time.Time(*s.HeadTime).UTC().Format(time.DateTime))
	}
	row("opened", "%s", time.Time(s.Created).UTC().Format(time.DateTime))
	row("changed", "%s", time.Time(s.Updated).UTC().Format(time.DateTime))
	row("hash", "%s", s.Hash)
	var meta map[string]turns.Raw
	_ = json.Unmarshal(s.Meta, &meta)
	for _, name := range slices.Sorted(maps.Keys(meta)) {
		if text, ok := meta[name].Text(); !ok {
			row(clip(name, 40), "%s", clip(secrets.Mask(string(meta[name])), 1000))
		} else if text = secrets.Mask(text); name != "title" || text != s.Title {
			row(clip(name, 40), "%s", clip(text, 1000))
		}
	}
	return nil
}

// versioned says after the name of a policy which version it is, if that is known.
func versioned(n uint64) string {
	if n == 0 {
		return ""
	}
	return " version " + grouped(n)
}

// aboutItsPolicy says on stderr where the name of a session's policy misleads: the
// session keeps its version, and another ledger does not know the name.
func (e *env) aboutItsPolicy(ctx context.Context, c *api.Client, s *api.Session) error {
	p := s.Policy
	if _, builtin := policy.Builtin(p.Name); builtin || p.Version == 0 {
		return nil
	}
	named, err := c.Policy(ctx, api.GetPolicy{Name: p.Name, Set: p.Set, Version: p.Version})
	var x *api.Error
	switch {
	case err == nil && named.Digest == p.Digest:
	case err == nil || coded(err, api.NotFound) || errors.As(err, &x) && x.Code == api.Malformed:
		e.say("this ledger does not know its policy by the name %s: an export takes along the content of a policy, not its name. ledgerctl policy show %s shows it", printable(p.Name), p.Digest)
		return nil
	default:
		return err
	}
	newest, err := c.Policy(ctx, api.GetPolicy{Name: p.Name})
	if err == nil && newest.Version > p.Version {
		e.say("the newest version of %s is %d; ledgerctl sessions set %s --policy %s takes it", p.Name, newest.Version, short(s.ID), p.Name)
	}
	return err
}

// guessed says of a budget that nobody stated its window.
func guessed(yes bool) string {
	if yes {
		return ", window guessed"
	}
	return ""
}

// billed says after a size that the provider counted it.
func billed(reported uint64) string {
	if reported > 0 {
		return ", billed"
	}
	return ""
}

// settings are the flags of sessions new and sessions set.
type settings struct {
	label, model, system, tools, policy, reset string
	window, output                             uint64
}

func (s *settings) flags(f *pflag.FlagSet) {
	f.StringVar(&s.label, "label", "", "a name of your own")
	f.StringVar(&s.model, "model", "", "the model")
	f.StringVar(&s.system, "system", "", "file with the system text")
	f.StringVar(&s.tools, "tools", "", "file with the tools, a JSON array")
	f.StringVar(&s.policy, "policy", "", "the compaction policy")
	f.StringVar(&s.reset, "reset", "", "when it is reset by itself, JSON")
	f.Uint64Var(&s.window, "window", 0, "the model's context window, in tokens")
	f.Uint64Var(&s.output, "output", 0, "what is kept free for the answer, in tokens")
}

func (*settings) names() []string {
	return []string{"label", "model", "system", "tools", "policy", "reset", "window", "output"}
}

// request is the settings whose flags were given. Limits go together: those
// of was that no flag names stay.
func (s *settings) request(e *env, f *pflag.FlagSet, was turns.Limits) (r api.SessionSettings, err error) {
	set := func(name string, value *string, to **string) {
		if f.Changed(name) {
			*to = value
		}
	}
	set("label", &s.label, &r.Label)
	set("model", &s.model, &r.Model)
	if f.Changed("policy") {
		if r.Policy, err = policyArg(s.policy); err != nil {
			return r, err
		}
	}
	if f.Changed("system") {
		text, err := e.readFile(s.system)
		if err != nil {
			return r, err
		}
		r.System = &api.System{{Content: string(text)}}
	}
	if f.Changed("tools") {
		b, err := e.readFile(s.tools)
		if err != nil {
			return r, err
		}
		r.Tools = new([]turns.Raw)
		if err := turns.DecodeJSON(b, r.Tools); err != nil {
			return r, usageError{fmt.Errorf("%s: the tools are not a JSON array of objects: %w", s.tools, err)}
		}
	}
	if f.Changed("reset") {
		r.Reset = turns.Raw(s.reset)
		if err := jsonFlag("--reset", r.Reset); err != nil || !strings.HasPrefix(strings.TrimSpace(s.reset), "{") {
			return r, usageError{errors.New(`--reset takes a JSON object, as {"mode": "daily", "hour": 4}`)}
		}
	}
	if f.Changed("window") || f.Changed("output") {
		if f.Changed("window") {
			was.ContextWindow = s.window
		}
		if f.Changed("output") {
			was.MaxOutputTokens = s.output
		}
		r.Limits = &was
	}
	return r, nil
}

// readFile is a file's content; - is standard input.
func (e *env) readFile(name string) (b []byte, err error) {
	if name == "-" {
		return io.ReadAll(e.in)
	}
	if b, err = os.ReadFile(name); err != nil {
		err = usageError{err}
	}
	return b, err
}

func newSessionCmd(e *env) *cobra.Command {
	var set settings
	var kind string
	c := verb("new", "open a session", 0, 0, func(cmd *cobra.Command, _ []string) error {
		r, err := set.request(e, cmd.Flags(), turns.Limits{})
		if err != nil {
			return err
		}
		c, err := e.client("main")
		if err != nil {
			return err
		}
		s, err := c.Create(cmd.Context(), api.CreateSession{Kind: turns.SessionKind(kind), SessionSettings: r})
		if err != nil {
			return err
		}
		return e.result(s, "%s", s.ID)
	})
	set.flags(c.Flags())
	c.Flags().StringVar(&kind, "kind", "", "peer, task or main")
	return c
}

func setSessionCmd(e *env) *cobra.Command {
	var set settings
	c := verb("set SESSION", "change settings", 1, 1, func(cmd *cobra.Command, args []string) error {
		if !slices.ContainsFunc(set.names(), cmd.Flags().Changed) {
			return usageError{errors.New("nothing to set: name a setting, --" + strings.Join(set.names(), ", --"))}
		}
		c, s, err := e.session(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		r, err := set.request(e, cmd.Flags(), s.Limits)
		if err != nil {
			return err
		}
		was := s.Policy
		if s, err = c.Set(cmd.Context(), s.ID, api.SetSession{SessionSettings: r}); err != nil {
			return err
		}
		if now := s.Policy; r.Policy != nil && was.Version > 0 && was.Digest != now.Digest {
			e.say("policy %s version %d → %s version %d", printable(was.Name), was.Version, printable(now.Name), now.Version)
		}
		return e.printSession(s)
	})
	set.flags(c.Flags())
	return c
}

func closeSessionCmd(e *env) *cobra.Command {
	var cause string
	c := e.sessionVerb("close SESSION", "take no more turns", func(cmd *cobra.Command, c *api.Client, s *api.Session) error {
		s, err := c.Close(cmd.Context(), s.ID, api.CloseSession{Cause: cause})
		if err != nil {
			return err
		}
		return e.result(s, "session %s is %s", s.ID, s.State)
	})
	c.Flags().StringVar(&cause, "cause", "", "why, for the record")
	return c
}

func resetSessionCmd(e *env) *cobra.Command {
	var cause string
	c := e.sessionVerb("reset SESSION", "close it and go on in a fresh successor", func(cmd *cobra.Command, c *api.Client, s *api.Session) error {
		next, err := c.Reset(cmd.Context(), s.ID, api.ResetSession{Cause: cause})
		if err != nil {
			return err
		}
		if old, err := c.Session(cmd.Context(), s.ID); err == nil && old.Ended != nil && e.talks {
			e.say("session %s was reset, %s", short(s.ID), endedText(old.Ended))
		}
		return e.result(next, "%s", next.ID)
	})
	c.Flags().StringVar(&cause, "cause", "", "why, for the record")
	return c
}

// endedText says how a session ended: cause, time, and when it was due.
func endedText(x *api.Ended) string {
	text := time.Time(x.Time).UTC().Format(time.DateTime)
	if x.Due != nil {
		text += ", due " + time.Time(*x.Due).UTC().Format(time.DateTime)
	}
	if x.Cause != "" {
		text += ": " + printable(x.Cause)
	}
	return text
}
