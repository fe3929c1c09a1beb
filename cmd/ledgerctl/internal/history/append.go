package history

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/term"

	"nexus/cmd/internal/prose"
	"nexus/cmd/ledgerctl/internal/cli"
	"nexus/cmd/ledgerctl/internal/fault"
	"nexus/cmd/ledgerctl/internal/names"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
)

// Appending is what append was asked for.
type Appending struct {
	User, Assistant string            // what they say; neither: a turn as JSON on stdin
	Policy          names.PolicyFlags // of a new session
}

// Append adds a turn to a session, or to a new one.
func Append(ctx context.Context, e *cli.Env, args []string, o Appending) error {
	if len(args) > 1 {
		return fault.WithHint(fault.Usage(errors.New("what is said is given by --user and --assistant")),
			fmt.Sprintf("ledgerctl append %s --user TEXT", prose.ShellWord(args[0])))
	}
	var r api.AppendTurn
	var opened api.CreateSession
	if o.Policy.Name != "" || len(o.Policy.Set) > 0 {
		if args[0] != "new" {
			return fault.Usage(errors.New("--policy is for append new; session set SESSION --policy changes a session"))
		}
		var err error
		if opened.Policy, err = o.Policy.Policy(); err != nil {
			return err
		}
	}
	var c *client.Client
	var s *api.Session
	var err error
	if args[0] != "new" { // first, so that a wrong name costs no input
		if c, s, err = e.Session(ctx, args[0]); err != nil {
			return err
		}
	}
	if o.User == "" && o.Assistant == "" {
		if r, err = readTurn(e, args[0]); err != nil {
			return err
		}
	}
	if o.User != "" {
		r.Messages = []turns.Message{turns.TextMessage(turns.User, o.User)}
	}
	if o.Assistant != "" {
		m := turns.TextMessage(turns.Assistant, o.Assistant)
		r.Response = &m
	}
	if args[0] == "new" {
		if c, err = e.Client("main"); err != nil {
			return err
		}
		if s, err = c.Create(ctx, opened); err != nil {
			return err
		}
	}
	a, err := c.Append(ctx, s.ID, r)
	if err != nil {
		return err
	}
	if e.JSON {
		return e.Print(a)
	}
	if r.Response == nil && len(r.Messages) > 0 && e.ErrIsTerminal {
		e.Say("the turn waits for its answer: ledgerctl append %s --assistant TEXT", prose.Short(a.Session))
	}
	e.Tell("turn %s at depth %d of session %s, %s of %s tokens", a.ID, a.Depth, a.Session, prose.Grouped(a.Context.Tokens), prose.Grouped(a.Context.Budget))
	return nil
}

// turnExample is the smallest turn that append reads.
const turnExample = `{"messages":[{"role":"user","parts":[{"type":"text","content":"hello"}]}]}`

// readTurn reads the turn for a session that stdin has as JSON.
func readTurn(e *cli.Env, session string) (r api.AppendTurn, err error) {
	if f, ok := e.In.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		e.Say("reading a turn as JSON from stdin; Ctrl-D ends it")
	}
	b, err := io.ReadAll(e.In)
	if err != nil {
		return r, fmt.Errorf("read a turn from stdin: %w", err)
	}
	if len(bytes.TrimSpace(b)) == 0 {
		return r, fault.WithHint(fault.Usage(errors.New("stdin is empty: without --user and --assistant append reads a turn there, as JSON")),
			fmt.Sprintf("echo '%s' | ledgerctl append %s", turnExample, prose.ShellWord(session)))
	}
	if err := turns.DecodeJSON(b, &r); err != nil {
		return r, fmt.Errorf("the turn on stdin: %w", err)
	}
	return r, nil
}
