package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"nexus/cmd/ledgerctl/agents"
	"nexus/cmd/ledgerctl/handover"
	"nexus/cmd/ledgerctl/transcripts"
	"nexus/cmd/ledgerctl/watch"
	"nexus/ledger/api"
	"nexus/turns"
)

const continueHelp = `ledgerctl continue SESSION|TURN --in AGENT [--model M] [--dir DIR]

Goes on from a session's head, or from any turn, with claude, codex, pi or
gemini: forks there, writes the fork as a transcript where that agent looks for
its own, and prints the command that resumes it. The original does not change,
and no file is written over. The agent gets every turn and call; reasoning that
its provider did not sign stays out, and a call that was open there gets a
result that says so. The transcript has everything as it was said, credentials
too.

Import the file later, as any transcript: what came since goes onto the fork.

  --in AGENT   claude, codex, pi or gemini
  --model M    the model that the agent is to use (else: its own choice)
  --dir DIR    the folder that the agent works in (else: that of the session)

Transcripts are written below CLAUDE_CONFIG_DIR, CODEX_HOME, PI_CODING_AGENT_DIR
or GEMINI_CLI_HOME if those are set, else below the home directory.

Examples
  ledgerctl continue support-42@30 --in codex
  ledgerctl continue support-42 --in pi --model claude-sonnet-4-5 --dir shop
`

func continueCmd(e *env) *cobra.Command {
	var in, model, dir string
	c := verb("continue SESSION|TURN", "go on from there with another agent", 1, 1, func(cmd *cobra.Command, args []string) error {
		agent, ok := handover.Find(in)
		if !ok {
			return usageError{fmt.Errorf("--in takes one of %s", strings.Join(handover.Names(), ", "))}
		}
		p, err := e.place(cmd, args[0])
		if err != nil {
			return err
		}
		if dir, err = workFolder(dir, p.s); err != nil {
			return err
		}
		home, err := agents.OfUser()
		if err != nil {
			return err
		}
		at, err := handoverPoint(cmd.Context(), p)
		if err != nil {
			return err
		}
		meta, err := turns.EncodeJSON(map[string]any{"source": "nexus", "cwd": dir, "continued": map[string]string{"format": agent.Format}})
		if err != nil {
			return err
		}
		f, err := p.c.Fork(cmd.Context(), p.s.ID, api.CreateFork{Turn: at, Meta: meta})
		if err != nil {
			return err
		}
		t, err := transcripts.HandedOver(cmd.Context(), p.c, f, agent.Format)
		if err != nil {
			return err
		}
		from := transcripts.WrittenSession(p.s)
		t.Session.Branch, t.Session.Commit = from.Branch, from.Commit
		file := agent.File(home, &t.Session)
		if err := t.Save(file); err != nil {
			return err
		}
		var words []string
		for _, w := range agent.Command(&t.Session, file, model) {
			words = append(words, quoted(w))
		}
		command := "cd " + quoted(dir) + " && " + strings.Join(words, " ")
		if e.json {
			return e.print(map[string]string{"session": f.ID.String(), "transcript": t.Session.TranscriptID(), "file": file, "dir": dir, "command": command})
		}
		e.say("session %s, forked at depth %d; written to %s", f.ID, f.Depth, file)
		if e.isWatched(file) {
			e.say("the watch that runs brings back what is said")
		} else {
			e.say("later, \"ledgerctl import %s\" brings back what was said; so does ledgerctl watch", quoted(file))
		}
		_, err = fmt.Fprintln(e.out, command) // one line, however wide: it is for a shell
		return err
	})
	c.Flags().StringVar(&in, "in", "", "claude, codex, pi, gemini")
	c.Flags().StringVar(&model, "model", "", "the model that the agent is to use")
	c.Flags().StringVar(&dir, "dir", "", "the folder that the agent works in")
	_ = c.RegisterFlagCompletionFunc("in", cobra.FixedCompletions(handover.Names(), cobra.ShellCompDirectiveNoFileComp))
	return c
}

// isWatched reports whether a watch of this ledger runs that follows a file.
func (e *env) isWatched(file string) bool {
	state, err := stateFolder("watch")
	if err != nil {
		return false
	}
	sources, err := watchSources(nil)
	if err != nil {
		return false
	}
	s, running, _ := watch.ReadState(state)
	if !running || s != nil && !strings.HasPrefix(s.Ledger, plainURL(e.server)+" "+e.tenant+"/") {
		return false
	}
	return slices.ContainsFunc(sources, func(x watch.Source) bool {
		rel, err := filepath.Rel(x.Root, file)
		return err == nil && filepath.IsLocal(rel)
	})
}

// workFolder returns the folder that an agent is to work in: dir, else the session's.
func workFolder(dir string, s *api.Session) (string, error) {
	stated := dir != ""
	if !stated {
		dir = transcripts.WrittenSession(s).Cwd
	}
	if dir == "" {
		return "", usageError{errors.New("the session names no folder; --dir DIR is the one that the agent works in")}
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	if st, err := os.Stat(abs); err != nil || !st.IsDir() {
		err := fmt.Errorf("%s is not a folder here", printable(abs))
		if !stated {
			return "", hinted{usageError{err}, "the session was recorded there; --dir DIR is the folder that the agent works in"}
		}
		return "", usageError{err}
	}
	return abs, nil
}

// handoverPoint returns the turn that an agent goes on from. One that waits for its answer
// is none: the agent would say again what was asked.
func handoverPoint(ctx context.Context, p place) (turns.ID, error) {
	at := p.turn
	if at.IsZero() {
		if p.s.Head == nil {
			return at, api.Errorf(api.NotFound, nil, "session %s has no turn to go on from", p.s.ID)
		}
		at = *p.s.Head
	}
	t, err := p.c.Turn(ctx, p.s.ID, at)
	if err != nil {
		return at, err
	}
	if t.Compaction == nil && t.Response == nil {
		return at, hinted{usageError{fmt.Errorf("turn %d has no answer yet", t.Depth)}, "go on from the turn before, and ask again"}
	}
	return at, nil
}
