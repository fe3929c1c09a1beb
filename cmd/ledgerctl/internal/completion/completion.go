package completion

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"nexus/cmd/internal/cost"
	"nexus/cmd/internal/prose"
	"nexus/cmd/ledgerctl/internal/cli"
	"nexus/cmd/ledgerctl/internal/export"
	"nexus/cmd/ledgerctl/internal/fault"
	"nexus/cmd/ledgerctl/internal/help"
	"nexus/cmd/ledgerctl/internal/names"
	"nexus/cmd/ledgerctl/internal/turnview"
	"nexus/compactor/policy"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
)

// Types has a row for each upper-case word of the Use lines, and of the values of flags
// on the help pages: where its values come from. nil: only the user knows them.
var Types = map[string]Source{
	"SESSION": sessions(""), "TURN": turnsOf, "COMPACTION": turnsOf,
	"AGENT":  listed(everyones, func(_ *completion, s *api.Session) string { return s.Agent }),
	"MODEL":  listed(recent, func(_ *completion, s *api.Session) string { return s.Model }),
	"BRANCH": listed(recent, func(_ *completion, s *api.Session) string { return turns.WorkContextOf(s.Meta).Branch }),
	"SOURCE": listed(recent, func(_ *completion, s *api.Session) string { return turns.WorkContextOf(s.Meta).Source }),
	"CHANNEL": listed(channels, func(_ *completion, ch *api.Channel) string {
		return ch.Channel + "\t" + prose.Plural(ch.Count, "event")
	}),
	"EVENT": listed(events, func(_ *completion, ev *api.Event) string {
		return fmt.Sprintf("%d\t%s %s", ev.Index, ev.Kind, prose.Clip(string(ev.Body), 50))
	}),
	"KIND":    listed(events, func(_ *completion, ev *api.Event) string { return ev.Kind }),
	"MEMORY":  listed(memories, func(_ *completion, m *api.Memory) string { return m.ID.String() + "\t" + prose.Clip(m.Text, 50) }),
	"PROJECT": listed(recent, func(_ *completion, s *api.Session) string { return s.Project }),
	"GROUP":   ofProgram(costGroups(), nil), "part:N": nil, "only:N": nil, "N:FROM-TO": nil,
	"BUILTIN": builtin, "POLICY": policies, "VERB": verbs,
	"FORMAT": ofProgram(export.Forms, nil), "FILE": ofShell(cobra.ShellCompDirectiveDefault), "COMMAND": ofShell(cobra.ShellCompDirectiveDefault), "AGENT=DIR": ofShell(cobra.ShellCompDirectiveDefault), "DIR": ofShell(cobra.ShellCompDirectiveFilterDirs),
	"TENANT": nil, "LABEL": nil, "NAME": nil, "TOOL": nil, "ID": nil, "VERSION": nil, "DIGEST": nil, "POSITION": nil, "KEY=VALUE": nil,
	"TEXT": nil, "JSON": nil, "URL": nil, "ZONE": nil, "DAY": nil, "DAYS": nil, "TIME": nil, "DURATION": nil, "N": nil,
	"DOLLARS": nil, "TAG": nil, "TITLE": nil, "IMPORT": nil, "CODE": nil, "USER": nil, "KEY": nil,
}

// costGroups is what cost adds calls up by.
func costGroups() (out []string) {
	for _, k := range cost.Keys() {
		out = append(out, string(k))
	}
	return out
}

// Add gives every verb what a shell completes its arguments and flags with.
func Add(e *cli.Env, root *cobra.Command) {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd("completion")
	Each(root, func(c *cobra.Command) {
		switch {
		case c.Name() == "completion" && c.Parent() == root:
			c.Args, c.RunE = nil, noShell
		case c.HasParent() && c.Parent().Name() == "completion":
			c.Args = func(_ *cobra.Command, args []string) error {
				if len(args) > 0 {
					return fault.Usage(errors.New("usage: ledgerctl completion " + c.Name()))
				}
				return nil
			}
		case c != root:
			c.ValidArgsFunction = func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
				return offer(e, cmd, args, begun, Argument(cmd, len(args)))
			}
		}
		for _, flags := range []*pflag.FlagSet{c.Flags(), c.PersistentFlags()} {
			flags.VisitAll(func(f *pflag.Flag) {
				_ = c.RegisterFlagCompletionFunc(f.Name, func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
					return offer(e, cmd, args, begun, FlagValue(cmd, f.Name))
				})
			})
		}
	})
}

// Each calls f with a command and those below it.
func Each(c *cobra.Command, f func(*cobra.Command)) {
	f(c)
	for _, sub := range c.Commands() {
		Each(sub, f)
	}
}

// noShell is completion without a shell that there is a script for.
func noShell(cmd *cobra.Command, args []string) error {
	var names []string
	for _, c := range cmd.Commands() {
		names = append(names, c.Name())
	}
	if len(args) == 0 {
		return fault.Usage(errors.New("for which shell? " + strings.Join(names, ", ")))
	}
	return fault.Usage(fmt.Errorf("there is no script for a shell %q; there are for %s", args[0], strings.Join(names, ", ")))
}

// Argument returns the word of a Use line for the argument n, from 0; "": there is none. The
// line may have a second form behind " | ", which begins with the flag that selects it.
func Argument(c *cobra.Command, n int) string {
	_, use, _ := strings.Cut(c.Use, " ")
	use, second, _ := strings.Cut(use, " | ")
	if flag, words, _ := strings.Cut(strings.TrimPrefix(second, "--"), " "); c.Flags().Changed(flag) {
		use = words
	}
	use, _, _ = strings.Cut(strings.Replace(use, " -- ", " ", 1), " --")
	words := strings.Fields(strings.NewReplacer("[", "", "]", "").Replace(use))
	if last := len(words) - 1; n > last && last >= 0 && strings.HasSuffix(words[last], "…") {
		n = last
	}
	if n >= len(words) {
		return ""
	}
	return strings.TrimSuffix(words[n], "…")
}

// FlagValue returns the word for a flag's value on the help page of a verb, else on the first
// page; "": there is none.
func FlagValue(c *cobra.Command, flag string) string {
	line := regexp.MustCompile(`(?m)^  (?:-\w, )?--` + flag + ` ([^ ,\n]+(?:,…)?)`)
	for _, page := range []string{help.Of(c), help.Pages()[""]} {
		if m := line.FindStringSubmatch(page); m != nil {
			return m[1]
		}
	}
	return ""
}

// completion is the word that a shell completes.
type completion struct {
	*cli.Env
	cmd   *cobra.Command
	args  []string                 // before the word
	begun string                   // what there is of the word
	types []string                 // what it may be
	how   cobra.ShellCompDirective // what the shell does with the values of one type
}

// Source yields the values of a type, each with "\t" and a description if it has one.
type Source func(ctx context.Context, c *completion, yield func(string) bool)

// Patience bounds the calls, and twice a try to connect: a shell waits for them.
const Patience = time.Second

// offer completes a word of some types, joined by |: rows of [Types], and lower-case words
// as they are. ",…" after them is a list with commas. What the ledger does not answer in time
// is left out.
func offer(e *cli.Env, cmd *cobra.Command, args []string, begun, types string) (out []string, how cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(cmd.Context()), Patience)
	defer cancel()
	e.Options = append(e.Options, nats.Timeout(Patience/2))
	types, isList := strings.CutSuffix(types, ",…")
	before := ""
	if i := strings.LastIndexByte(begun, ','); isList {
		before, begun = begun[:i+1], begun[i+1:]
	}
	c := &completion{Env: e, cmd: cmd, args: args, begun: begun, types: strings.Split(types, "|")}
	add := func(value string) bool {
		name, _, _ := strings.Cut(value, "\t")
		if name != "" && c.begins(name) && !strings.ContainsFunc(name, turns.IsHidden) && !slices.Contains(out, before+value) {
			out = append(out, before+value)
		}
		return len(out) < 200
	}
	how = ^cobra.ShellCompDirective(0)
	for _, t := range c.types {
		c.how = cobra.ShellCompDirectiveNoFileComp
		if values, ok := Types[t]; values != nil && ctx.Err() == nil {
			values(ctx, c, add)
		} else if !ok {
			add(t)
		}
		how &= c.how
	}
	return out, how
}

// begins reports whether a value begins as the word does, in any case: ids have capitals.
func (c *completion) begins(value string) bool {
	return len(value) >= len(c.begun) && strings.EqualFold(value[:len(c.begun)], c.begun)
}

// first returns the verb's first argument, if it has the type.
func (c *completion) first(is string) string {
	if len(c.args) == 0 || Argument(c.cmd, 0) != is {
		return ""
	}
	return c.args[0]
}

// listed is a text for each thing of a list of the ledger, up to an error.
func listed[T any](list func(context.Context, *completion, *client.Client) iter.Seq2[T, error], text func(*completion, *T) string) Source {
	return func(ctx context.Context, c *completion, yield func(string) bool) {
		k, err := c.Client(api.Operator)
		if err != nil {
			return
		}
		for v, err := range list(ctx, c, k) {
			if err != nil || !yield(text(c, &v)) {
				return
			}
		}
	}
}

// recent are the sessions, the one that changed last first.
func recent(ctx context.Context, _ *completion, k *client.Client) iter.Seq2[api.Session, error] {
	return k.ListSessions(ctx, api.ListSessions{About: api.About{About: true}, Order: "updated", Page: api.Page{Limit: 500}})
}

// everyones are the sessions of all agents.
func everyones(ctx context.Context, c *completion, k *client.Client) iter.Seq2[api.Session, error] {
	return recent(ctx, c, k.As(api.Operator))
}

func memories(ctx context.Context, _ *completion, k *client.Client) iter.Seq2[api.Memory, error] {
	return k.Memories(ctx, api.ListMemories{Hidden: true})
}

func channels(ctx context.Context, c *completion, k *client.Client) iter.Seq2[api.Channel, error] {
	return k.As(cmp.Or(c.Agent, "main")).Channels(ctx)
}

func events(ctx context.Context, c *completion, k *client.Client) iter.Seq2[api.Event, error] {
	return k.As(cmp.Or(c.Agent, "main")).Events(ctx, api.ListEvents{Channel: c.first("CHANNEL"), Order: "desc"})
}

// sessions are the open sessions, by label or id, with a text behind each. SESSION@ begins a turn.
func sessions(behind string) Source {
	open := listed(recent, func(c *completion, s *api.Session) string {
		name := s.ID.String()
		if s.State != "open" || s.Error != "" {
			return ""
		} else if s.Label != "" && c.begins(s.Label) {
			name = s.Label
		}
		return name + behind + "\t" + cmp.Or(prose.Clip(s.Title, 50), s.Agent+", "+prose.Plural(s.Turns, "turn"))
	})
	return func(ctx context.Context, c *completion, yield func(string) bool) {
		if !strings.Contains(c.begun, "@") {
			open(ctx, c, yield)
		}
	}
}

// turnsOf are the newest turns of a session: by number if the session is an argument or a flag,
// else as SESSION@N.
func turnsOf(ctx context.Context, c *completion, yield func(string) bool) {
	flag, _ := c.cmd.Flags().GetString("session")
	session, before := cmp.Or(c.first("SESSION"), flag), "t"
	if i := strings.LastIndexByte(c.begun, '@'); i >= 0 {
		session, before = c.begun[:i], c.begun[:i+1]
	}
	if session == "" {
		if !slices.Contains(c.types, "SESSION") {
			c.how |= cobra.ShellCompDirectiveNoSpace
			sessions("@")(ctx, c, yield)
		}
		return
	}
	k, s, err := c.Session(ctx, session)
	if err != nil {
		return
	}
	const most = 30
	n := 0
	for t, err := range k.Turns(ctx, s.ID, api.ListTurns{Order: "desc", Full: true, Page: api.Page{Limit: most}}) {
		if n++; err != nil || n > most {
			return
		}
		if t.Compaction == nil && !slices.Contains(c.types, "TURN") {
			continue
		}
		about := "\t" + prose.Clip(words(&t), 50)
		if n == 1 && before != "t" {
			yield(before + "head" + about)
		}
		yield(fmt.Sprintf("%s%d%s", before, t.Depth, about))
	}
}

// words is what a turn is about, in a few words.
func words(t *api.Turn) string {
	if t.Compaction != nil {
		return turnview.Did(t.Compaction)
	}
	return turnview.Describe(t.Messages)
}

// ofProgram are values that the program knows, and what each is.
func ofProgram(values []string, about map[string]string) Source {
	return func(_ context.Context, _ *completion, yield func(string) bool) {
		for _, v := range values {
			yield(v + "\t" + about[v])
		}
	}
}

var builtin = ofProgram(policy.Names(), names.BuiltinPolicies)

// policies are the built-in policies, also without a server, and those of the ledger.
func policies(ctx context.Context, c *completion, yield func(string) bool) {
	builtin(ctx, c, yield)
	if k, err := c.Client(api.Operator); err == nil {
		list, _ := k.Policies(ctx)
		for _, p := range list {
			yield(p.Name + "\t" + names.AboutPolicy(p))
		}
	}
}

// verbs are the verbs below those that are named.
func verbs(_ context.Context, c *completion, yield func(string) bool) {
	on, _, _ := c.cmd.Root().Find(c.args)
	for _, v := range on.Commands() {
		if v.IsAvailableCommand() {
			yield(v.Name() + "\t" + v.Short)
		}
	}
}

// ofShell leaves a word to the shell.
func ofShell(how cobra.ShellCompDirective) Source {
	return func(_ context.Context, c *completion, _ func(string) bool) { c.how = how }
}
