package main

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"iter"
	"os"
	"time"

	"github.com/spf13/cobra"

	"nexus/cmd/ledgerctl/transcripts"
	"nexus/cmd/nexusd/daemon"
	"nexus/ledger/api"
	"nexus/turns"
)

//go:embed quickstart/session.jsonl
var recorded []byte

// recordedWindow is the context window that the shipped transcript runs in:
// small, so that it needs compaction.
const recordedWindow = 40_000

func quickstartCmd(e *env) *cobra.Command {
	var data string
	c := verb("quickstart [FILE]", "the main job on a real transcript", 0, 1,
		func(cmd *cobra.Command, args []string) error {
			dir := data
			if dir == "" {
				tmp, err := os.MkdirTemp("", "nexus-quickstart-")
				if err != nil {
					return err
				}
				defer os.RemoveAll(tmp)
				dir = tmp
			}
			file := ""
			if len(args) == 1 {
				file = args[0]
			}
			return quickstart(cmd.Context(), e, dir, file, data != "")
		})
	c.Flags().StringVar(&data, "data", "", "keep the ledger in this folder (default: a temporary one)")
	return c
}

// local is a daemon in a folder and a client of it.
func (e *env) local(ctx context.Context, dir string) (*api.Client, func(), error) {
	d, err := daemon.Open(ctx, daemon.Config{Data: dir, Listen: "127.0.0.1:0", HTTP: "off", Version: version})
	if err != nil {
		return nil, nil, err
	}
	stop := func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := d.Close(ctx); err != nil {
			e.say("close: %v", err)
		}
	}
	nc, err := d.Connect()
	if err != nil {
		stop()
		return nil, nil, err
	}
	return api.NewClient(nc, "default", "main").Within(10 * time.Minute), func() { nc.Close(); stop() }, nil
}

func quickstart(ctx context.Context, e *env, dir, file string, kept bool) error {
	c, stop, err := e.local(ctx, dir+"/first")
	if err != nil {
		return err
	}
	defer stop()
	chapter := func(format string, args ...any) {
		if !e.json {
			fmt.Fprintf(e.out, "\n%s\n", title.Render(fmt.Sprintf("▸ "+format, args...)))
		}
	}
	chapter("import a real transcript into a new ledger in %s", dir)
	in, window, name := bytes.NewReader(recorded), uint64(recordedWindow), "-"
	if file != "" {
		window, name = 0, file
	}
	im := transcripts.Importer{Client: c, Stdin: in, Format: "auto", Final: true, Window: window}
	rep, err := im.File(ctx, name)
	if err != nil {
		return err
	}
	if rep.File == "-" {
		rep.File = "the shipped transcript"
	}
	if !e.json {
		e.printFile(rep, true)
		e.printSessions(rep)
		if len(rep.Losses) > 0 {
			fmt.Fprintln(e.out, faint.Render("not kept exactly as it stood:"))
			e.printKinds(rep.Losses)
		}
	}
	if len(rep.Sessions) == 0 {
		return errors.New("the file holds no session")
	}
	s, err := largest(ctx, c, rep.Sessions)
	if err != nil {
		return err
	}

	chapter("compact: a summary stands for the older turns, nothing is deleted")
	run, err := c.Compact(ctx, s.ID, api.RunCompaction{})
	if err != nil && !errors.Is(err, api.ErrNothing) {
		return err
	}
	if !e.json {
		if err != nil {
			fmt.Fprintln(e.out, printable(err.Error()))
		} else {
			x := run.Compaction.Compaction
			fmt.Fprintf(e.out, "compaction %s: %s covered, %s → %s tokens\n", idStyle.Render(short(run.Compaction.ID)), plural(x.Covered, "turn"), grouped(x.TokensBefore), grouped(x.TokensAfter))
		}
	}
	chapter("fork from a turn in the middle, rewind the fork, go forward again")
	fork, err := forkMiddle(ctx, c, s)
	if err != nil {
		return err
	}
	tree, err := c.Tree(ctx, s.ID)
	if err != nil {
		return err
	}
	if !e.json {
		e.printTree(tree, s.ID)
	}
	chapter("the context of the next model call")
	cx, err := c.Context(ctx, s.ID, api.GetContext{Explain: true})
	if err != nil {
		return err
	}
	if !e.json {
		if err := e.showContext(ctx, place{c: c, s: s}, cx, contextFlags{}); err != nil {
			return err
		}
	}
	chapter("export, import into a second, empty ledger, compare, verify both")
	same, second, err := e.copyOver(ctx, c, dir, rep.Sessions, fork)
	if err != nil {
		return err
	}
	v, err := c.As(api.Operator).Verify(ctx)
	if err != nil {
		return err
	}
	if e.json {
		if err := e.print(map[string]any{"import": rep, "tree": tree, "context": map[string]any{"tokens": cx.Tokens, "budget": cx.Budget, "messages": len(cx.Messages),
			"fingerprint": cx.Fingerprint, "sources": cx.Sources}, "hashes_kept": same, "verified": v, "verified_copy": second}); err != nil {
			return err
		}
	} else {
		fmt.Fprintf(e.out, "hashes of %s kept: %v\n", plural(uint64(len(rep.Sessions)+1), "session"), same)
		e.printVerified(v)
		e.printVerified(second)
		next(e, dir, s.ID, kept)
	}
	if !v.OK || !second.OK || !same {
		return api.Errorf(api.Corrupt, nil, "the ledger does not verify")
	}
	return nil
}

func next(e *env, dir string, s turns.ID, kept bool) {
	if e.quiet {
		return
	}
	if kept {
		fmt.Fprintf(e.out, "\nnext, build the programs:    go build -o . ./cmd/...\n"+
			"start the daemon:            ./nexusd --data %s/first\n"+
			"and from another terminal:   ./ledgerctl log %s\n", dir, short(s))
		return
	}
	fmt.Fprint(e.out, "\nnext, build the programs:           go build -o . ./cmd/...\n"+
		"then the same on a file of yours:   ./ledgerctl quickstart FILE\n"+
		"or start the daemon:                ./nexusd\n"+
		"and from another terminal:          ./ledgerctl import ~/.claude/projects\n"+
		"                                    ./ledgerctl sessions\n"+
		"                                    ./ledgerctl log SESSION\n")
}

// largest is the session with the most turns on its path.
func largest(ctx context.Context, c *api.Client, ids []turns.ID) (*api.Session, error) {
	var best *api.Session
	for _, id := range ids {
		s, err := c.Session(ctx, id)
		if err != nil {
			return nil, err
		}
		if best == nil || s.Depth > best.Depth {
			best = s
		}
	}
	return best, nil
}

// forkMiddle forks at half the depth, appends, rewinds and goes forward.
func forkMiddle(ctx context.Context, c *api.Client, s *api.Session) (*api.Session, error) {
	var at turns.ID
	for t, err := range c.Path(ctx, s.ID, api.GetPath{}) {
		if err != nil {
			return nil, err
		}
		if at = t.ID; t.Depth >= s.Depth/2 && t.Type == "normal" {
			break
		}
	}
	f, err := c.Fork(ctx, s.ID, api.CreateFork{Turn: at})
	if err != nil {
		return nil, err
	}
	m := turns.TextMessage(turns.Assistant, "Here the fork goes its own way.")
	a, err := c.Append(ctx, f.ID, api.AppendTurn{Messages: []turns.Message{turns.TextMessage(turns.User, "What if we had gone another way?")}, Response: &m})
	if err != nil {
		return nil, err
	}
	for _, to := range []turns.ID{at, a.ID} {
		if f, err = c.Move(ctx, f.ID, api.MoveSession{To: &to}); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// copyOver exports the sessions into a second ledger; same says that every
// session has the same last hash there.
func (e *env) copyOver(ctx context.Context, c *api.Client, dir string, ids []turns.ID, fork *api.Session) (same bool, v *api.Verified, err error) {
	to, stop, err := e.local(ctx, dir+"/second")
	if err != nil {
		return false, nil, err
	}
	defer stop()
	same = true
	for _, id := range append(append([]turns.ID(nil), ids...), fork.ID) {
		if err := copyInto(ctx, to, c.Export(ctx, id)); err != nil {
			return false, nil, err
		}
		a, err := c.Session(ctx, id)
		if err != nil {
			return false, nil, err
		}
		b, err := to.Session(ctx, id)
		if err != nil {
			return false, nil, err
		}
		same = same && a.Hash == b.Hash
	}
	v, err = to.As(api.Operator).Verify(ctx)
	return same, v, err
}

// copyInto brings the records of an export into a ledger.
func copyInto(ctx context.Context, to *api.Client, records iter.Seq2[api.ExportRecord, error]) error {
	b := transcripts.Batches{Client: to, Report: new(transcripts.Report)}
	for r, err := range records {
		if err != nil {
			return err
		}
		text, err := turns.EncodeJSON(r)
		if err != nil {
			return err
		}
		if err := b.Add(ctx, r, len(text)); err != nil {
			return err
		}
	}
	return b.Send(ctx)
}
