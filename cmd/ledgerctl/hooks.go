package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/dustin/go-humanize"
	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"nexus/cmd/internal/agents"
	"nexus/cmd/internal/prose"
	"nexus/cmd/internal/repository"
	"nexus/cmd/internal/watch"
	"nexus/cmd/ledgerctl/internal/cli"
	"nexus/cmd/ledgerctl/internal/codetree"
	"nexus/cmd/ledgerctl/internal/connect"
	"nexus/cmd/ledgerctl/internal/doctor"
	"nexus/cmd/ledgerctl/internal/fault"
	"nexus/cmd/ledgerctl/internal/follow"
	"nexus/cmd/ledgerctl/internal/hooks"
	"nexus/cmd/ledgerctl/internal/pi"
	"nexus/cmd/ledgerctl/internal/terminal"
	"nexus/ledger/api/client"

	"nexus/ledger/api/mcp"
	"nexus/turns"
)

// addHooks adds what changes and shows the hooks of coding agents to the command hook.
func (e *env) addHooks(c *cobra.Command) {
	var ledgerAgent string
	var dry, code bool
	change := func(use, short, same string, edit func(agent string, settings []byte) ([]byte, error)) *cobra.Command {
		x := verb(use+" [claude|codex|pi]", short, 0, 1, func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				if e.Agent != "" && e.Agent != args[0] {
					return fault.Usage(fmt.Errorf("%s and --agent %s name two agents", args[0], e.Agent))
				}
				e.Agent = args[0]
			}
			if e.Agent == agents.Pi {
				if code {
					return fault.Usage(errors.New("--code is for claude and codex: pi's extension is called for compactions only"))
				}
				return e.changeExtension(use == "install", ledgerAgent, dry)
			}
			return e.changeHooks(dry, same, func(settings []byte) ([]byte, error) { return edit(e.Agent, settings) })
		})
		x.Flags().BoolVar(&dry, "dry-run", false, "print the settings; change nothing")
		return x
	}
	c.Flags().BoolVar(&dry, "dry-run", false, "print the settings; change nothing")
	install := change("install", "add the hooks to the settings of an agent", "has the hooks already; uninstall them first to change what they run", func(agent string, settings []byte) ([]byte, error) {
		words, err := e.hookCommand(agent, ledgerAgent)
		if err != nil {
			return nil, err
		}
		for i := range words {
			words[i] = prose.ShellWord(words[i])
		}
		prefix := strings.Join(words, " ")
		settings, err = hooks.Install(settings, prefix, hooks.Of(agent))
		if err != nil || !code {
			return settings, err
		}
		return hooks.Install(settings, prefix+" --code", []hooks.Hook{hooks.Stop})
	})
	install.Flags().StringVar(&ledgerAgent, "ledger-agent", "", "the agent of the ledger that the hooks act as")
	install.Flags().BoolVar(&code, "code", false, "keep the files of the folder after each answer")
	c.AddCommand(install,
		change("uninstall", "take the hooks out of the settings of an agent", "has no hook of ledgerctl", func(_ string, settings []byte) ([]byte, error) { return hooks.Uninstall(settings) }),
		verb("status", "which hooks there are, and when each fired last", 0, 0, func(*cobra.Command, []string) error { return e.hooksStatus() }),
		verb("doctor", "what is wrong with the hooks", 0, 0, func(*cobra.Command, []string) error {
			d := doctor.New(e.Terminal, e.Connection)
			found, err := e.checkHooks(d)
			if err != nil {
				return err
			}
			if !found {
				d.Add("hooks", doctor.Skipped, "none is installed", "ledgerctl hook install claude")
			}
			return d.Report()
		}))
}

// hookCommand returns the words of the command of a hook, without its event. as is the agent
// of the ledger that it acts as; empty: main.
func (e *env) hookCommand(agent, as string) ([]string, error) {
	if as != "" && !turns.ValidName(as) {
		return nil, fault.Usage(fmt.Errorf("--ledger-agent %q is not a name: a to z, 0 to 9 and -, at most 64 characters", as))
	}
	self, err := cli.LastingProgram()
	if err != nil {
		return nil, err
	}
	flags, err := e.ConnectionFlags()
	if err != nil {
		return nil, err
	}
	if as != "" {
		flags = append(flags, "--agent", as)
	}
	return append(append([]string{self}, flags...), "hook", "--from", agent), nil
}

// changeExtension writes the extension of pi, or removes it.
func (e *env) changeExtension(install bool, as string, dry bool) error {
	file, err := e.settingsFile(agents.Pi)
	if err != nil {
		return err
	}
	var text []byte
	if install {
		words, err := e.hookCommand(agents.Pi, as)
		if err != nil {
			return err
		}
		if text, err = pi.Extension(words); err != nil {
			return err
		}
	}
	before, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if dry {
		if e.Say("%s: %s", prose.Printable(file), map[bool]string{true: "nothing would change", false: "would be"}[bytes.Equal(before, text)]); len(text) == 0 {
			return nil
		}
		_, err := e.Raw.Write(text)
		return err
	}
	if bytes.Equal(before, text) {
		return e.Result(map[string]any{"file": file, "changed": false}, "%s has what it should have already", file)
	}
	if err := pi.Write(file, text); err != nil {
		return fault.WithHint(fmt.Errorf("%s: %w; it stays as it is", file, err), "move it away")
	}
	return e.Result(map[string]any{"file": file, "changed": true}, "%s is changed", file)
}

func (e *env) settingsFile(agent string) (string, error) {
	if agent == "" {
		return "", fault.Usage(errors.New("--agent is missing: claude, codex or pi"))
	}
	home, err := agents.OfUser()
	if err != nil {
		return "", err
	}
	file, err := home.HooksFile(agent)
	if err != nil {
		return "", fault.WithHint(fault.Usage(err), "--agent names the coding agent")
	}
	return file, nil
}

// changeHooks edits the settings of the agent that --agent names.
func (e *env) changeHooks(dry bool, same string, edit func([]byte) ([]byte, error)) error {
	name, err := e.settingsFile(e.Agent)
	if err != nil {
		return err
	}
	before, file, err := hooks.Read(name)
	if err != nil {
		return err
	}
	after, err := edit(before)
	if errors.As(err, new(fault.UsageError)) {
		return err
	}
	if err != nil {
		return fault.WithHint(fmt.Errorf("%s: %w; it stays as it is", file, err), "correct the file, or move it away")
	}
	if dry {
		if e.Say("%s: %s", prose.Printable(file), map[bool]string{true: "nothing would change", false: "would be"}[bytes.Equal(before, after)]); len(after) == 0 {
			return nil
		}
		_, err := e.Raw.Write(after)
		return err
	}
	if bytes.Equal(before, after) {
		return e.Result(map[string]any{"file": file, "changed": false}, "%s %s", file, same)
	}
	if err := hooks.Write(file, before, after); err != nil {
		return err
	}
	return e.Result(map[string]any{"file": file, "changed": true}, "%s is changed", file)
}

// hookState is what status says of a hook.
type hookState struct {
	Agent     string       `json:"agent"`
	Event     string       `json:"event"`
	File      string       `json:"file"`
	Installed bool         `json:"installed"`
	Program   string       `json:"program,omitempty"` // that it runs
	Gone      string       `json:"gone,omitempty"`    // what is wrong with the program
	Error     string       `json:"error,omitempty"`   // why the file can't be read: then Installed is not known
	Fired     *hooks.Fired `json:"fired,omitempty"`
}

func (e *env) hookStates() (out []hookState, err error) {
	dir, err := follow.StateFolder("hooks")
	if err != nil {
		return nil, err
	}
	for _, agent := range agents.Hooked() {
		file, err := e.settingsFile(agent)
		if err != nil {
			return nil, err
		}
		var events, have []string
		programs := make(map[string]string)
		settings, _, unread := hooks.Read(file)
		if agent == agents.Pi {
			if events = pi.Events; pi.IsExtension(settings) {
				have = events
				for _, event := range events {
					programs[event] = pi.Program(settings)
				}
			}
		} else {
			for _, h := range append(hooks.Of(agent), hooks.Stop) {
				events = append(events, h.Event)
			}
			if unread == nil {
				have, unread = hooks.Installed(settings)
				programs = hooks.Programs(settings)
			}
		}
		for _, event := range events {
			s := hookState{Agent: agent, Event: event, File: file, Installed: slices.Contains(have, event)}
			if s.Installed {
				s.Program, s.Gone = programs[event], cli.GoneProgram(programs[event])
			}
			if unread != nil {
				s.Error = reasonOf(unread)
			}
			if f, ok := hooks.ReadFired(dir, agent, event); ok {
				s.Fired = &f
			}
			out = append(out, s)
		}
	}
	return out, nil
}

// reasonOf is an error without the file of which it is.
func reasonOf(err error) string {
	if file := (&fs.PathError{}); errors.As(err, &file) {
		return file.Err.Error()
	}
	return fault.Plainly(nil, err)
}

func (e *env) hooksStatus() error {
	states, err := e.hookStates()
	if err != nil {
		return err
	}
	if e.JSON {
		for _, s := range states {
			if err := e.Print(s); err != nil {
				return err
			}
		}
		return nil
	}
	var rows [][]string
	for i, s := range states {
		installed, fired, failed := "no", "never", ""
		if s.Installed {
			installed = "yes"
		}
		if s.Error != "" {
			installed = "unknown"
			if i == 0 || states[i-1].File != s.File {
				e.Tell("%s: %s", s.File, s.Error)
			}
		}
		if s.Fired != nil {
			fired, failed = humanize.Time(s.Fired.Time), prose.Printable(s.Fired.Failed)
		}
		if s.Gone != "" {
			failed = prose.Printable(s.Gone)
		}
		rows = append(rows, []string{s.Agent, s.Event, installed, fired, failed})
	}
	fmt.Fprint(e.Out, e.Table([]terminal.Column{{Head: "agent"}, {Head: "event"}, {Head: "installed"}, {Head: "fired"}, {Head: "failed", Wraps: true, Least: 16}}, rows))
	return nil
}

// checkHooks adds what is known of each installed hook, and which settings can't be read.
// found is false where there is neither.
func (e *env) checkHooks(d *doctor.Doctor) (found bool, err error) {
	states, err := e.hookStates()
	if err != nil {
		return false, err
	}
	for i, h := range states {
		if h.Error != "" && (i == 0 || states[i-1].File != h.File) {
			found = true
			d.Fail("hooks of "+h.Agent, 1, h.File+": "+h.Error, "correct the file, or move it away")
		}
		if !h.Installed {
			continue
		}
		found = true
		name := "hook " + h.Agent + " " + h.Event
		switch {
		case h.Gone != "":
			d.Fail(name, 1, h.Gone, "ledgerctl hook uninstall "+h.Agent+", then install, from a program that stays")
		case h.Fired == nil:
			d.Add(name, doctor.Warn, "it never fired", "start a session of the agent; Codex asks you to trust new hooks")
		case h.Fired.Failed != "":
			d.Add(name, doctor.Warn, "it failed "+humanize.Time(h.Fired.Time)+": "+h.Fired.Failed, "")
		default:
			d.Add(name, doctor.OK, "fired last "+humanize.Time(h.Fired.Time), "")
		}
	}
	return found, nil
}

// hookInput is what an agent tells a hook.
type hookInput struct {
	Event           string `json:"hook_event_name"`
	Transcript      string `json:"transcript_path"`
	AgentTranscript string `json:"agent_transcript_path"`
	Cwd             string `json:"cwd"`

	Compact *pi.Request `json:"compact"` // of pi: it asks for the compaction
}

// hookTimes are how long a hook works at most, by event: less than its agent waits.
var hookTimes = map[string]time.Duration{"SessionEnd": 1200 * time.Millisecond}

// compactTime is how long pi waits for a compaction, which a model may write.
const hookTime, compactTime = 6 * time.Second, 55 * time.Second

// maxHookInput bounds what a hook reads, and maxBrief what it prints, in bytes.
const maxHookInput, maxBrief = 4 << 20, 9000

// hookCmd is the command hook.
func hookCmd(e *env) *cobra.Command {
	var from string
	var code bool
	c := &cobra.Command{Use: "hook", Short: "hooks of coding agents: install, uninstall, status, doctor", Aliases: []string{"hooks"}, Args: cobra.ArbitraryArgs, RunE: func(cmd *cobra.Command, args []string) error {
		switch { // a person calls; an agent names an event, as SessionStart
		case len(args) == 0 && e.ErrIsTerminal, len(args) == 0 && cmd.CalledAs() == "hooks":
			return cmd.Help()
		case len(args) > 0 && args[0] != "" && unicode.IsLower(rune(args[0][0])):
			return fault.NoVerb(cmd, args[0])
		}
		began, event := time.Now(), ""
		if len(args) > 0 {
			event = args[0]
		}
		limit := cmp.Or(hookTimes[event], hookTime)
		if from == agents.Pi && event == "PreCompact" {
			limit = compactTime
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), limit)
		defer cancel()
		err := e.hook(ctx, event, code)
		note := hooks.Fired{Agent: from, Event: event, Time: began, TookMS: time.Since(began).Milliseconds()}
		if err != nil {
			note.Failed = fault.Plainly(nil, err)
		}
		if dir, err := follow.StateFolder("hooks"); err == nil && event != "" {
			_ = note.Note(dir) // nobody could be told
		}
		return nil
	}}
	c.FParseErrWhitelist.UnknownFlags = true // a wrong use would end with 2, which blocks a compaction
	c.Flags().StringVar(&from, "from", "claude", "who calls: claude, codex or pi")
	c.Flags().BoolVar(&code, "code", false, "keep the files of the folder")
	e.addHooks(c)
	return c
}

// hook does what an event asks for.
func (e *env) hook(ctx context.Context, event string, code bool) error {
	if event == "" {
		return errors.New("the event is not named")
	}
	b, err := io.ReadAll(io.LimitReader(e.In, maxHookInput))
	if err != nil {
		return err
	}
	var in hookInput
	if err := json.Unmarshal(b, &in); err != nil {
		return errors.New("what the agent wrote is no JSON object")
	}
	e.Options = append(e.Options, nats.Timeout(500*time.Millisecond), nats.NoReconnect())
	e.Command = ctx // an agent waits for no process that starts
	nc, err := e.Dial()
	if err != nil {
		return err
	}
	e.NC = nc
	agent := cmp.Or(e.Agent, "main")
	client := client.New(nc, e.Tenant, agent)
	if event == "SessionStart" { // what is printed first, the agent has even if the rest takes too long
		project, _ := repository.Of(ctx, in.Cwd)
		text, err := mcp.BriefText(ctx, client, mcp.Caller{Tenant: e.Tenant, Agent: agent}, in.Cwd, cmp.Or(project.Remote, project.Root))
		if err == nil {
			err = e.Print(map[string]any{"hookSpecificOutput": map[string]any{"hookEventName": event, "additionalContext": clippedText(text, maxBrief)}})
		}
		if err != nil {
			return err
		}
	}
	var cfg watch.Config
	if cfg.Sources, err = follow.Sources(nil); err != nil {
		return err
	}
	if cfg.State, err = follow.StateFolder("watch"); err != nil {
		return err
	}
	cfg.Ledger = fmt.Sprintf("%s %s/%s", connect.PlainURL(e.Server), e.Tenant, agent)
	cfg.Connect = watch.Dialed(client)
	if code {
		follow.RecordCode(&cfg, codetree.Limits{})
	}
	for _, path := range []string{in.Transcript, in.AgentTranscript} {
		if path == "" {
			continue
		}
		if _, err := watch.Deliver(ctx, cfg, path); err != nil && !(event == "SessionStart" && errors.Is(err, os.ErrNotExist)) { // a new session has none yet
			return err
		}
	}
	if in.Compact == nil {
		return nil
	}
	session, err := os.Open(in.Transcript)
	if err != nil {
		return err
	}
	defer session.Close()
	k, err := pi.Compact(ctx, client, session, *in.Compact)
	if err != nil {
		return err
	}
	return e.Print(map[string]any{"compaction": k})
}

// clippedText returns the first bytes of a text, as whole lines.
func clippedText(s string, n int) string {
	if len(s) <= n {
		return s
	}
	s = s[:n]
	return strings.ToValidUTF8(s[:max(strings.LastIndexByte(s, '\n'), 0)], "")
}
