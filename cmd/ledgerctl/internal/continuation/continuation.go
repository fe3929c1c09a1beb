package continuation

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"nexus/cmd/internal/agents"
	"nexus/cmd/internal/prose"
	"nexus/cmd/internal/transcripts/written"
	"nexus/cmd/internal/watch"
	"nexus/cmd/ledgerctl/internal/cli"
	"nexus/cmd/ledgerctl/internal/connect"
	"nexus/cmd/ledgerctl/internal/fault"
	"nexus/cmd/ledgerctl/internal/follow"
	"nexus/cmd/ledgerctl/internal/names"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
	"nexus/turns/transcript"
)

// Options are what continue was asked for.
type Options struct {
	In    string // the coding agent
	Model string // that it is to use
	Dir   string // the folder that it works in; "": the session's
}

// Run forks a session at a turn, writes the fork as a transcript of a coding agent, and prints the command that goes on
// with it.
func Run(ctx context.Context, e *cli.Env, name string, o Options) error {
	agent, ok := agents.Find(o.In)
	if !ok {
		return fault.Usage(fmt.Errorf("--in takes one of %s", strings.Join(agents.Resuming(), ", ")))
	}
	if err := agent.CheckResumes(); err != nil {
		return fault.Usage(err)
	}
	p, err := e.Find(ctx, name)
	if err != nil {
		return err
	}
	dir, err := workFolder(o.Dir, p.Session)
	if err != nil {
		return err
	}
	home, err := agents.OfUser()
	if err != nil {
		return err
	}
	at, err := handoverPoint(ctx, p)
	if err != nil {
		return err
	}
	id := api.NewID()
	from := written.Session(p.Session)
	to := transcript.WrittenSession{ID: id, Cwd: dir, Branch: from.Branch, Commit: from.Commit}
	how := &written.Continued{Format: agent.Format, Model: o.Model}
	t, err := written.HandedOver(ctx, p.Client, p.Session.ID, to, at, how)
	if err != nil {
		return err
	}
	open := t.OpenCalls()
	if how.Results, err = written.ResultsBehind(ctx, p.Client, p.Session, at, open); err != nil {
		return err
	}
	if err := written.AddResults(ctx, p.Client, t, how); err != nil {
		return err
	}
	meta, err := turns.EncodeJSON(map[string]any{"source": agent.Format, "cwd": dir, "continued": how})
	if err != nil {
		return err
	}
	// What can fail for want of room or of a right fails before there is a fork.
	file := agent.File(home, &t.Session)
	written, err := t.Prepare(file)
	if err != nil {
		return err
	}
	defer written.Discard()
	f, err := p.Client.Fork(ctx, p.Session.ID, api.CreateFork{ID: id, Turn: at, Meta: meta})
	if err != nil {
		return err
	}
	if err := written.Place(); err != nil {
		return errors.Join(err, withdraw(p.Client, f.ID))
	}
	var words []string
	for _, w := range agent.Command(&t.Session, file, o.Model) {
		words = append(words, prose.ShellWord(w))
	}
	command := "cd " + prose.ShellWord(dir) + " && " + strings.Join(words, " ")
	if e.JSON {
		return e.Print(map[string]string{"session": f.ID.String(), "transcript": t.Session.TranscriptID(), "file": file, "dir": dir, "command": command})
	}
	e.Say("session %s, forked at depth %d; written to %s", f.ID, f.Depth, file)
	if n := len(open) - len(t.Results); n > 0 {
		e.Say("%s of the last turn has no result there, and is marked so", prose.Plural(uint64(n), "call"))
	}
	if isWatched(e, file) {
		e.Say("the watch that runs brings back what is said")
	} else {
		e.Say("later, \"ledgerctl import %s\" brings back what was said; so does ledgerctl watch", prose.ShellWord(file))
	}
	_, err = fmt.Fprintln(e.Out, command) // one line, however wide: it is for a shell
	return err
}

// withdraw closes a fork whose transcript could not be written, since nothing goes on with it.
func withdraw(c *client.Client, fork turns.ID) error {
	ctx, cancel := context.WithTimeout(context.Background(), withdrawTime)
	defer cancel()
	if _, err := c.Close(ctx, fork, api.CloseSession{Cause: "its transcript could not be written"}); err != nil {
		return fmt.Errorf("the fork %s stays: %w", fork, err)
	}
	return nil
}

// withdrawTime bounds what withdraw takes.
const withdrawTime = 5 * time.Second

// isWatched reports whether a watch of this ledger runs that follows a file.
func isWatched(e *cli.Env, file string) bool {
	state, err := follow.StateFolder("watch")
	if err != nil {
		return false
	}
	sources, err := follow.Sources(nil)
	if err != nil {
		return false
	}
	s, running, _ := watch.ReadState(state)
	if !running || s != nil && !strings.HasPrefix(s.Ledger, connect.PlainURL(e.Server)+" "+e.Tenant+"/") {
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
		dir = written.Session(s).Cwd
	}
	if dir == "" {
		return "", fault.Usage(errors.New("the session names no folder; --dir DIR is the one that the agent works in"))
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	if st, err := os.Stat(abs); err != nil || !st.IsDir() {
		err := fmt.Errorf("%s is not a folder here", prose.Printable(abs))
		if !stated {
			return "", fault.WithHint(fault.Usage(err), "the session was recorded there; --dir DIR is the folder that the agent works in")
		}
		return "", fault.Usage(err)
	}
	return abs, nil
}

// handoverPoint returns the turn that an agent goes on from. One that waits for its answer
// is none: the agent would say again what was asked.
func handoverPoint(ctx context.Context, p names.Place) (turns.ID, error) {
	at := p.Turn
	if at.IsZero() {
		if p.Session.Head == nil {
			return at, api.Errorf(api.NotFound, nil, "session %s has no turn to go on from", p.Session.ID)
		}
		at = *p.Session.Head
	}
	t, err := p.Client.Turn(ctx, p.Session.ID, at)
	if err != nil {
		return at, err
	}
	if t.Compaction == nil && t.Response == nil {
		return at, fault.WithHint(fault.Usage(fmt.Errorf("turn %d has no answer yet", t.Depth)), "go on from the turn before, and ask again")
	}
	return at, nil
}
