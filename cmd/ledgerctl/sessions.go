package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"nexus/cmd/internal/prose"
	"nexus/cmd/ledgerctl/internal/cli"
	"nexus/cmd/ledgerctl/internal/fault"
	"nexus/cmd/ledgerctl/internal/names"
	"nexus/cmd/ledgerctl/internal/searchview"
	"nexus/cmd/ledgerctl/internal/sessionview"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
)

func sessionsCmd(e *env) *cobra.Command {
	var all bool
	var sorted string
	var g searchview.Filter
	list := func(cmd *cobra.Command, _ []string) error {
		if g.Text == "" && !cmd.Flags().Changed("limit") {
			g.Limit = 0
		}
		if g.Text != "" {
			return e.grepSessions(cmd.Context(), &g)
		}
		return e.listSessions(cmd.Context(), all, sorted, &g)
	}
	c := verb("sessions", "list, open, change and close sessions", 0, 0, list)
	lister := verb("list", "the sessions, oldest first", 0, 0, list)
	for _, v := range []*cobra.Command{c, lister} {
		g.Flags(v.Flags())
		v.Flags().StringVar(&sorted, "sort", "said", "what the list is in the order of: said (the newest turn), turns, tokens or opened; the most last")
		v.Flags().BoolVar(&all, "all", false, "list imported sessions without a turn too, and those that import --refresh replaced")
	}
	c.AddCommand(lister, showSessionCmd(e), newSessionCmd(e), setSessionCmd(e), resetSessionCmd(e), closeSessionCmd(e),
		hideSessionCmd(e, true), hideSessionCmd(e, false), titleSessionCmd(e), tagSessionCmd(e))
	return c
}

// listSessions lists the sessions: those that an import opened and that have no
// turn yet only with all.
func (e *env) listSessions(ctx context.Context, all bool, sorted string, g *searchview.Filter) error {
	order, ok := sessionOrders[sorted]
	if !ok {
		return fault.Usage(fmt.Errorf("--sort takes said, turns, tokens or opened, not %q", sorted))
	}
	c, err := e.Client(api.Operator)
	if err != nil {
		return err
	}
	since, err := g.Resolve()
	if err != nil {
		return err
	}
	e.SayTimes(since, nil)
	var list []api.Session
	empty, hidden, others := uint64(0), uint64(0), false
	for s, err := range c.ListSessions(ctx, api.ListSessions{About: api.About{About: true}, Superseded: all, Hidden: true, Tag: g.Tag}) {
		if err != nil {
			return err
		}
		if g.IsSet() && !g.Keeps(&s, since) {
			others = true
			continue
		}
		if s.Hidden && !g.Hidden {
			hidden++
			continue
		}
		if e.JSON && g.Limit == 0 {
			if err := e.Print(s); err != nil {
				return err
			}
			continue
		}
		if !e.JSON && s.Head == nil && prose.Source(s.Meta) != "" && !all {
			empty++
			continue
		}
		list = append(list, s)
	}
	if n := len(list) - g.Limit; g.Limit > 0 && n > 0 {
		list = greatest(list, g.Limit, order)
		defer e.Say("%s %s; --limit 0 lists all", prose.Plural(uint64(n), "session"), map[bool]string{true: "older", false: "with less"}[sorted == "said" || sorted == "opened"])
	}
	if e.JSON {
		return searchview.PrintJSON(e.Terminal, list)
	}
	if empty > 0 {
		defer e.Say("%s of an import without a turn not listed; sessions --all lists all", prose.Plural(empty, "session"))
	}
	if hidden > 0 {
		defer e.Say("%s not listed; sessions --hidden lists all", prose.Plural(hidden, "hidden session"))
	}
	if len(list) == 0 && hidden > 0 {
		return nil
	}
	if len(list) == 0 && (others || g.IsSet()) {
		e.Say("no session %s; ledgerctl sessions lists all%s", g.Described(since), names.SourceNote(g.Source))
		return nil
	}
	if len(list) == 0 && empty == 0 && e.Agent != "" && e.Agent != api.Operator {
		e.Say("agent %q has no session in tenant %q; %s", e.Agent, e.Tenant, e.whoHasSessions(ctx, c))
		return nil
	}
	if len(list) == 0 && empty == 0 {
		e.Say("no session yet in tenant %q; ledgerctl import FILE brings one in, ledgerctl append new begins one", e.Tenant)
		return nil
	}
	slices.SortStableFunc(list, func(a, b api.Session) int { return cmp.Compare(order(&a), order(&b)) })
	_, err = io.WriteString(e.Out, sessionview.Table(e.Terminal, list))
	return err
}

// sessionOrders are the values of --sort.
var sessionOrders = map[string]func(*api.Session) int64{
	"said":   lastActivity,
	"turns":  func(s *api.Session) int64 { return int64(s.Turns) },
	"tokens": func(s *api.Session) int64 { return int64(s.Tokens) },
	"opened": func(s *api.Session) int64 { return time.Time(s.Created).UnixNano() },
}

// lastActivity is the time of a session's newest turn, in Unix nanoseconds; of one without
// a turn that of its opening.
func lastActivity(s *api.Session) int64 {
	if s.HeadTime == nil {
		return time.Time(s.Created).UnixNano()
	}
	return time.Time(*s.HeadTime).UnixNano()
}

// greatest returns so many sessions of a list, those that come last by an order, in the order of
// the list.
func greatest(list []api.Session, limit int, order func(*api.Session) int64) []api.Session {
	by := make([]int, len(list))
	for i := range by {
		by[i] = i
	}
	slices.SortStableFunc(by, func(a, b int) int {
		return cmp.Or(cmp.Compare(order(&list[b]), order(&list[a])), cmp.Compare(b, a))
	})
	by = by[:min(limit, len(by))]
	slices.Sort(by)
	out := make([]api.Session, len(by))
	for i, k := range by {
		out[i] = list[k]
	}
	return out
}

// whoHasSessions says which agents of the tenant have sessions, if the user may know.
func (e *env) whoHasSessions(ctx context.Context, c *client.Client) string {
	counts := make(map[string]uint64)
	for s, err := range c.As(api.Operator).Sessions(ctx) {
		if err != nil {
			return "this user may not see those of others"
		}
		counts[s.Agent]++
	}
	if len(counts) == 0 {
		return "no agent has one; ledgerctl --agent " + e.Agent + " append new begins one"
	}
	var list []string
	for _, a := range slices.Sorted(maps.Keys(counts)) {
		list = append(list, fmt.Sprintf("%s (%s)", a, prose.Grouped(counts[a])))
	}
	const most = 20
	if len(list) > most {
		list = append(list[:most], "…")
	}
	return "agents with sessions: " + strings.Join(list, ", ")
}

func showSessionCmd(e *env) *cobra.Command {
	return e.sessionVerb("show SESSION", "one session with its settings", func(cmd *cobra.Command, c *client.Client, s *api.Session) error {
		full, err := c.GetSession(cmd.Context(), s.ID, api.GetSession{About: api.About{About: true}})
		if err != nil {
			if s.Error != "" { // what its headers say, and why there is no more
				if perr := sessionview.Print(e.Terminal, s); perr != nil {
					return perr
				}
			}
			return err
		}
		if err := sessionview.Print(e.Terminal, full); err != nil {
			return err
		}
		return sessionview.PrintPolicy(cmd.Context(), e.Terminal, c, full)
	})
}

// settings are the flags of session new and session set.
type settings struct {
	label, model, system, tools, reset string
	window, output                     uint64
	policy                             names.PolicyFlags
}

func (s *settings) flags(f *pflag.FlagSet) {
	f.StringVar(&s.label, "label", "", "a name of your choice")
	f.StringVar(&s.model, "model", "", "the model")
	f.StringVar(&s.system, "system", "", "file with the system text")
	f.StringVar(&s.tools, "tools", "", "file with the tools, a JSON array")
	s.policy.Add(f, "the compaction policy")
	f.StringVar(&s.reset, "reset", "", "when it is reset by itself, JSON")
	f.Uint64Var(&s.window, "window", 0, "the model's context window, in tokens")
	f.Uint64Var(&s.output, "output", 0, "tokens of the window that are reserved for the response")
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
	if r.Policy, err = s.policy.Policy(); err != nil {
		return r, err
	}
	if f.Changed("system") {
		text, err := e.ReadFile(s.system)
		if err != nil {
			return r, err
		}
		r.System = &api.System{{Content: string(text)}}
	}
	if f.Changed("tools") {
		b, err := e.ReadFile(s.tools)
		if err != nil {
			return r, err
		}
		r.Tools = new([]turns.Raw)
		if err := turns.DecodeJSON(b, r.Tools); err != nil {
			return r, fault.Usage(fmt.Errorf("%s: the tools are not a JSON array of objects: %w", prose.FileName(s.tools), err))
		}
	}
	if f.Changed("reset") {
		r.Reset = turns.Raw(s.reset)
		if err := cli.JSONValue("--reset", r.Reset); err != nil || !strings.HasPrefix(strings.TrimSpace(s.reset), "{") {
			return r, fault.Usage(errors.New(`--reset takes a JSON object, as {"mode": "daily", "hour": 4}`))
		}
	}
	if f.Changed("window") || f.Changed("output") {
		if f.Changed("window") {
			was.ContextWindow = s.window
		}
		if f.Changed("output") {
			was.MaxOutputTokens = s.output
		}
		if was.ContextWindow > 0 && was.MaxOutputTokens >= was.ContextWindow {
			return r, fault.Usage(fmt.Errorf("an output of %d tokens leaves nothing of a window of %d", was.MaxOutputTokens, was.ContextWindow))
		}
		r.Limits = &was
	}
	return r, nil
}

func newSessionCmd(e *env) *cobra.Command {
	var set settings
	var kind string
	c := verb("new", "open a session", 0, 0, func(cmd *cobra.Command, _ []string) error {
		r, err := set.request(e, cmd.Flags(), turns.Limits{})
		if err != nil {
			return err
		}
		c, err := e.Client("main")
		if err != nil {
			return err
		}
		s, err := c.Create(cmd.Context(), api.CreateSession{Kind: turns.SessionKind(kind), SessionSettings: r})
		if err != nil {
			return err
		}
		return e.Result(s, "%s", s.ID)
	})
	set.flags(c.Flags())
	c.Flags().StringVar(&kind, "kind", "", "peer, task or main")
	return c
}

func setSessionCmd(e *env) *cobra.Command {
	var set settings
	c := verb("set SESSION", "change settings", 1, 1, func(cmd *cobra.Command, args []string) error {
		if !slices.ContainsFunc(append(set.names(), "set"), cmd.Flags().Changed) {
			return fault.Usage(errors.New("nothing to set: name a setting, --" + strings.Join(set.names(), ", --")))
		}
		c, s, err := e.Session(cmd.Context(), args[0])
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
			e.Say("policy %s version %d → %s version %d", prose.Printable(was.Name), was.Version, prose.Printable(now.Name), now.Version)
		}
		return sessionview.Print(e.Terminal, s)
	})
	set.flags(c.Flags())
	return c
}

func closeSessionCmd(e *env) *cobra.Command {
	var cause string
	var dry bool
	c := e.sessionVerb("close SESSION", "accept no more turns", func(cmd *cobra.Command, c *client.Client, s *api.Session) error {
		if dry {
			return e.Result(s, "would close session %s, which is %s and has %s", s.ID, s.State, prose.Plural(s.Depth, "turn"))
		}
		s, err := c.Close(cmd.Context(), s.ID, api.CloseSession{Cause: cause})
		if err != nil {
			return err
		}
		return e.Result(s, "session %s is %s", s.ID, s.State)
	})
	c.Flags().StringVar(&cause, "cause", "", "why, for the record")
	c.Flags().BoolVar(&dry, "dry-run", false, "report what would be done; change nothing")
	return c
}

func resetSessionCmd(e *env) *cobra.Command {
	var cause string
	var dry bool
	c := e.sessionVerb("reset SESSION", "close it and open a successor", func(cmd *cobra.Command, c *client.Client, s *api.Session) error {
		if dry {
			return e.Result(s, "would close session %s, which is %s and has %s, and open a successor", s.ID, s.State, prose.Plural(s.Depth, "turn"))
		}
		next, err := c.Reset(cmd.Context(), s.ID, api.ResetSession{Cause: cause})
		if err != nil {
			return err
		}
		if old, err := c.Session(cmd.Context(), s.ID); err == nil && old.Ended != nil && e.ErrIsTerminal {
			e.Say("session %s was reset, %s", prose.Short(s.ID), sessionview.Ended(old.Ended))
		}
		return e.Result(next, "%s", next.ID)
	})
	c.Flags().StringVar(&cause, "cause", "", "why, for the record")
	c.Flags().BoolVar(&dry, "dry-run", false, "report what would be done; change nothing")
	return c
}
