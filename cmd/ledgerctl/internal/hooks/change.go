package hooks

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"

	"nexus/cmd/internal/agents"
	"nexus/cmd/internal/prose"
	"nexus/cmd/ledgerctl/internal/cli"
	"nexus/cmd/ledgerctl/internal/fault"
	"nexus/cmd/ledgerctl/internal/pi"
	"nexus/turns"
)

// Change is what install and uninstall were asked for.
type Change struct {
	Agent       string // the coding agent
	LedgerAgent string // the agent of the ledger that the hooks act as; "": main
	Code        bool   // call ledgerctl after each answer too, which keeps the files of the folder
	DryRun      bool   // print the settings; change nothing
}

// Add adds the hooks to the settings of a coding agent; for pi it writes the extension.
func (x Change) Add(e *cli.Env) error {
	if x.Agent == agents.Pi && x.Code {
		return fault.Usage(errors.New("--code is for claude and codex: pi's extension is called for compactions only"))
	}
	if x.Agent == agents.Pi {
		return changeExtension(e, true, x.LedgerAgent, x.DryRun)
	}
	return change(e, x.Agent, x.DryRun, "has the hooks already; uninstall them first to change what they run", func(settings []byte) ([]byte, error) {
		words, err := command(e, x.Agent, x.LedgerAgent)
		if err != nil {
			return nil, err
		}
		for i := range words {
			words[i] = prose.ShellWord(words[i])
		}
		prefix := strings.Join(words, " ")
		settings, err = Install(settings, prefix, Of(x.Agent))
		if err != nil || !x.Code {
			return settings, err
		}
		return Install(settings, prefix+" --code", []Hook{Stop})
	})
}

// Remove takes the hooks out of the settings of a coding agent, or removes the extension of pi.
func (x Change) Remove(e *cli.Env) error {
	if x.Agent == agents.Pi {
		return changeExtension(e, false, "", x.DryRun)
	}
	return change(e, x.Agent, x.DryRun, "has no hook of ledgerctl", Uninstall)
}

// change edits the settings of a coding agent; same says that they stay as they are.
func change(e *cli.Env, agent string, dry bool, same string, edit func([]byte) ([]byte, error)) error {
	name, err := settingsFile(agent)
	if err != nil {
		return err
	}
	before, file, err := Read(name)
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
	if err := Write(file, before, after); err != nil {
		return err
	}
	return e.Result(map[string]any{"file": file, "changed": true}, "%s is changed", file)
}

// changeExtension writes the extension of pi, or removes it.
func changeExtension(e *cli.Env, install bool, as string, dry bool) error {
	file, err := settingsFile(agents.Pi)
	if err != nil {
		return err
	}
	var text []byte
	if install {
		words, err := command(e, agents.Pi, as)
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

// command returns the words of the command of a hook, without its event. as is the agent
// of the ledger that it acts as; empty: main.
func command(e *cli.Env, agent, as string) ([]string, error) {
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

// settingsFile returns the file that has the hooks of a coding agent.
func settingsFile(agent string) (string, error) {
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
