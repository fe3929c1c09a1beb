package sessions

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"nexus/cmd/internal/prose"
	"nexus/cmd/ledgerctl/internal/cli"
	"nexus/cmd/ledgerctl/internal/fault"
	"nexus/cmd/ledgerctl/internal/names"
	"nexus/cmd/ledgerctl/internal/sessionview"
	"nexus/ledger/api"
	"nexus/turns"
)

// Settings are the flags of session new and session set.
type Settings struct {
	Label, Model, System, Tools, Reset string
	Window, Output                     uint64
	Policy                             names.PolicyFlags
	Given                              func(flag string) bool // which of them were given
}

// Flags adds the flags to those of a verb.
func (s *Settings) Flags(f *pflag.FlagSet) {
	s.Given = f.Changed
	f.StringVar(&s.Label, "label", "", "a name of your choice")
	f.StringVar(&s.Model, "model", "", "the model")
	f.StringVar(&s.System, "system", "", "file with the system text")
	f.StringVar(&s.Tools, "tools", "", "file with the tools, a JSON array")
	s.Policy.Add(f, "the compaction policy")
	f.StringVar(&s.Reset, "reset", "", "when it is reset by itself, JSON")
	f.Uint64Var(&s.Window, "window", 0, "the model's context window, in tokens")
	f.Uint64Var(&s.Output, "output", 0, "tokens of the window that are reserved for the response")
}

func (*Settings) names() []string {
	return []string{"label", "model", "system", "tools", "policy", "reset", "window", "output"}
}

// Open opens a session, and prints its id.
func Open(ctx context.Context, e *cli.Env, kind string, set Settings) error {
	r, err := set.request(e, turns.Limits{})
	if err != nil {
		return err
	}
	c, err := e.Client("main")
	if err != nil {
		return err
	}
	s, err := c.Create(ctx, api.CreateSession{Kind: turns.SessionKind(kind), SessionSettings: r})
	if err != nil {
		return err
	}
	return e.Result(s, "%s", s.ID)
}

// Change changes the settings of a session that were given.
func Change(ctx context.Context, e *cli.Env, name string, set Settings) error {
	if !slices.ContainsFunc(append(set.names(), "set"), set.Given) {
		return fault.Usage(errors.New("nothing to set: name a setting, --" + strings.Join(set.names(), ", --")))
	}
	c, s, err := e.Session(ctx, name)
	if err != nil {
		return err
	}
	r, err := set.request(e, s.Limits)
	if err != nil {
		return err
	}
	was := s.Policy
	if s, err = c.Set(ctx, s.ID, api.SetSession{SessionSettings: r}); err != nil {
		return err
	}
	if now := s.Policy; r.Policy != nil && was.Version > 0 && was.Digest != now.Digest {
		e.Say("policy %s version %d → %s version %d", prose.Printable(was.Name), was.Version, prose.Printable(now.Name), now.Version)
	}
	return sessionview.Print(e.Terminal, s)
}

// request is the settings whose flags were given. Limits go together: those
// of was that no flag names stay.
func (s *Settings) request(e *cli.Env, was turns.Limits) (r api.SessionSettings, err error) {
	set := func(name string, value *string, to **string) {
		if s.Given(name) {
			*to = value
		}
	}
	set("label", &s.Label, &r.Label)
	set("model", &s.Model, &r.Model)
	if r.Policy, err = s.Policy.Policy(); err != nil {
		return r, err
	}
	if s.Given("system") {
		text, err := e.ReadFile(s.System)
		if err != nil {
			return r, err
		}
		r.System = &api.System{{Content: string(text)}}
	}
	if s.Given("tools") {
		b, err := e.ReadFile(s.Tools)
		if err != nil {
			return r, err
		}
		r.Tools = new([]turns.Raw)
		if err := turns.DecodeJSON(b, r.Tools); err != nil {
			return r, fault.Usage(fmt.Errorf("%s: the tools are not a JSON array of objects: %w", prose.FileName(s.Tools), err))
		}
	}
	if s.Given("reset") {
		r.Reset = turns.Raw(s.Reset)
		if err := cli.JSONValue("--reset", r.Reset); err != nil || !strings.HasPrefix(strings.TrimSpace(s.Reset), "{") {
			return r, fault.Usage(errors.New(`--reset takes a JSON object, as {"mode": "daily", "hour": 4}`))
		}
	}
	if s.Given("window") || s.Given("output") {
		if s.Given("window") {
			was.ContextWindow = s.Window
		}
		if s.Given("output") {
			was.MaxOutputTokens = s.Output
		}
		if was.ContextWindow > 0 && was.MaxOutputTokens >= was.ContextWindow {
			return r, fault.Usage(fmt.Errorf("an output of %d tokens leaves nothing of a window of %d", was.MaxOutputTokens, was.ContextWindow))
		}
		r.Limits = &was
	}
	return r, nil
}
