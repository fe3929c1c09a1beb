package quickstart

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"iter"
	"os"
	"strings"

	"nexus/cmd/internal/prose"
	"nexus/cmd/internal/transcripts"
	"nexus/cmd/internal/transcripts/rawexport"
	"nexus/cmd/internal/transcripts/tally"
	"nexus/cmd/ledgerctl/internal/audit"
	"nexus/cmd/ledgerctl/internal/contextview"
	"nexus/cmd/ledgerctl/internal/importreport"
	"nexus/cmd/ledgerctl/internal/local"
	"nexus/cmd/ledgerctl/internal/names"
	"nexus/cmd/ledgerctl/internal/sessionview"
	"nexus/cmd/ledgerctl/internal/terminal"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
)

// Transcript is the shipped transcript: a real session of an agent, as it wrote it.
//
//go:embed session.jsonl
var Transcript []byte

// Window is the context window that the shipped transcript runs in:
// small, so that it needs compaction.
const Window = 40_000

func Run(ctx context.Context, term *terminal.Terminal, dir, file string, kept bool) error {
	c, stop, err := local.Start(ctx, term, dir+"/first")
	if err != nil {
		return err
	}
	defer stop()
	chapter := func(format string, args ...any) {
		if !term.JSON {
			fmt.Fprintf(term.Out, "\n%s\n", terminal.Title.Render(fmt.Sprintf("▸ "+format, args...)))
		}
	}
	chapter("import a real transcript into a new ledger in %s", dir)
	in, window, name := bytes.NewReader(Transcript), uint64(Window), "-"
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
	if !term.JSON {
		importreport.PrintFile(term, rep, true)
		importreport.PrintSessions(term, rep)
		if len(rep.Losses) > 0 {
			fmt.Fprintln(term.Out, terminal.Faint.Render("not kept exactly as it stood:"))
			importreport.PrintKinds(term, rep.Losses)
		}
	}
	if len(rep.Sessions) == 0 {
		return errors.New("the file holds no session")
	}
	s, err := local.Largest(ctx, c, rep.Sessions)
	if err != nil {
		return err
	}

	chapter("compact: a summary stands for the older turns, nothing is deleted")
	run, err := c.Compact(ctx, s.ID, api.RunCompaction{})
	if err != nil && !errors.Is(err, api.ErrNothing) {
		return err
	}
	if !term.JSON {
		if err != nil {
			fmt.Fprintln(term.Out, prose.Printable(err.Error()))
		} else {
			x := run.Compaction.Compaction
			fmt.Fprintf(term.Out, "compaction %s: %s covered, %s → %s tokens\n", terminal.ID.Render(prose.Short(run.Compaction.ID)), prose.Plural(x.Covered, "turn"), prose.Grouped(x.TokensBefore), prose.Grouped(x.TokensAfter))
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
	if !term.JSON {
		sessionview.PrintTree(term, tree, s.ID)
	}
	chapter("the context of the next model call")
	cx, err := c.Context(ctx, s.ID, api.GetContext{Explain: true})
	if err != nil {
		return err
	}
	if !term.JSON {
		if err := contextview.Show(ctx, term, names.Place{Client: c, Session: s}, cx, contextview.Options{}); err != nil {
			return err
		}
	}
	chapter("export, import into a second, empty ledger, compare, verify both")
	same, second, err := copyOver(ctx, term, c, dir, rep.Sessions, fork)
	if err != nil {
		return err
	}
	v, err := c.As(api.Operator).Verify(ctx)
	if err != nil {
		return err
	}
	if term.JSON {
		if err := term.Print(map[string]any{"import": rep, "tree": tree, "context": map[string]any{"tokens": cx.Tokens, "budget": cx.Budget, "messages": len(cx.Messages),
			"fingerprint": cx.Fingerprint, "sources": cx.Sources}, "hashes_kept": same, "verified": v, "verified_copy": second}); err != nil {
			return err
		}
	} else {
		fmt.Fprintf(term.Out, "hashes of %s kept: %v\n", prose.Plural(uint64(len(rep.Sessions)+1), "session"), same)
		audit.Print(term, v)
		audit.Print(term, second)
		next(term, dir, file, s.ID, kept)
	}
	if !v.OK || !second.OK || !same {
		return api.Errorf(api.Corrupt, nil, "the ledger does not verify")
	}
	return nil
}

// next says what to type after the quickstart: to build the programs where go run runs this
// one, and to take a file of one's own where it took the shipped one.
func next(term *terminal.Terminal, dir, file string, s turns.ID, kept bool) {
	if term.Quiet {
		return
	}
	var lines [][2]string
	if self, err := os.Executable(); err != nil || strings.Contains(self, "go-build") {
		lines = append(lines, [2]string{"build the programs:", "go build -o . ./cmd/..."})
	}
	if kept {
		lines = append(lines, [2]string{"see it:", "./ledgerctl --data " + dir + "/first log " + prose.Short(s)})
	} else {
		if file == "" {
			lines = append(lines, [2]string{"the same on a file of yours:", "./ledgerctl quickstart FILE"})
		}
		lines = append(lines, [2]string{"what your agents left:", "./ledgerctl import ~/.claude/projects"},
			[2]string{"", "./ledgerctl sessions"}, [2]string{"", "./ledgerctl log SESSION"})
	}
	fmt.Fprintln(term.Out, "\nnext:")
	for _, l := range lines {
		fmt.Fprintf(term.Out, "%-31s%s\n", l[0], l[1])
	}
}

// forkMiddle forks at half the depth, appends, rewinds and goes forward.
func forkMiddle(ctx context.Context, c *client.Client, s *api.Session) (*api.Session, error) {
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
func copyOver(ctx context.Context, term *terminal.Terminal, c *client.Client, dir string, ids []turns.ID, fork *api.Session) (same bool, v *api.Verified, err error) {
	to, stop, err := local.Start(ctx, term, dir+"/second")
	if err != nil {
		return false, nil, err
	}
	defer stop()
	same = true
	for _, id := range append(append([]turns.ID(nil), ids...), fork.ID) {
		if err := CopyInto(ctx, to, c.Export(ctx, id)); err != nil {
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

// CopyInto brings the records of an export into a ledger.
func CopyInto(ctx context.Context, to *client.Client, records iter.Seq2[api.ExportRecord, error]) error {
	b := rawexport.Batches{Client: to, Report: new(tally.Report)}
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
