package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/charmbracelet/colorprofile"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"nexus/cmd/ledgerctl/picker"
	"nexus/cmd/ledgerctl/transcripts"
	"nexus/ledger/api"
)

// paged makes a verb's output go through a pager, where it goes to a terminal: $PAGER, else
// less. Pictures and JSON go there as they are.
func (e *env) paged(c *cobra.Command) *cobra.Command {
	run := c.RunE
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if svg := cmd.Flags().Lookup("svg"); !e.screen || e.noPager || e.json || svg != nil && svg.Value.String() == "true" {
			return run(cmd, args)
		}
		return e.throughPager(func() error { return run(cmd, args) })
	}
	return c
}

// throughPager runs f with its output in a pager, and returns when the person has left that.
// Without a pager the output goes to the terminal. What f says on stderr follows.
func (e *env) throughPager(f func() error) error {
	pager, set := os.LookupEnv("PAGER")
	if !set {
		pager = "less"
	}
	if pager = strings.TrimSpace(pager); pager == "" || pager == "cat" {
		return f()
	}
	cmd := exec.Command("sh", "-c", pager)
	cmd.Stdout, cmd.Stderr, cmd.Env = e.raw, os.Stderr, os.Environ()
	if os.Getenv("LESS") == "" {
		cmd.Env = append(cmd.Env, "LESS="+e.lessFlags)
	}
	if name := strings.Fields(pager)[0]; !strings.ContainsAny(name, `"'$=`) {
		if _, err := exec.LookPath(name); err != nil {
			return f()
		}
	}
	pipe, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	in := &pagerPipe{WriteCloser: pipe}
	if err := cmd.Start(); err != nil {
		return f()
	}
	out, raw, errw := e.out, e.raw, e.err
	var said bytes.Buffer
	e.raw, e.out, e.err = in, in, &said
	if w, ok := out.(*colorprofile.Writer); ok { // the colours of the terminal behind the pager
		e.out = &colorprofile.Writer{Forward: in, Profile: w.Profile}
	}
	err = f()
	if in.left && errors.Is(err, syscall.EPIPE) { // the person has seen enough
		err = nil
	}
	_ = in.Close()
	_ = cmd.Wait() // a pager's status says nothing about the command
	e.out, e.raw, e.err = out, raw, errw
	_, _ = io.Copy(e.err, &said)
	return err
}

// pagerPipe is what a pager reads.
type pagerPipe struct {
	io.WriteCloser
	left bool // the pager reads no more
}

// Write implements [io.Writer].
func (p *pagerPipe) Write(b []byte) (int, error) {
	n, err := p.WriteCloser.Write(b)
	p.left = p.left || errors.Is(err, syscall.EPIPE)
	return n, err
}

// pick offers the sessions, newest first, and runs a verb on the one that is picked, until
// the person leaves. shown is false if there is no terminal or no session: then nothing was
// shown.
func (e *env) pick(ctx context.Context, verb func(args ...string) error) (shown bool, err error) {
	in, ok := e.in.(*os.File)
	if !ok || !term.IsTerminal(int(in.Fd())) || !e.screen || e.json || os.Getenv("TERM") == "dumb" {
		return false, nil
	}
	c, err := e.client(api.Operator)
	if err != nil {
		return false, nil // the help says how to begin
	}
	var p picker.Picker
	var list []api.Session
	for s, err := range c.ListSessions(ctx, api.ListSessions{About: api.About{About: true}}) {
		if err != nil {
			return false, nil
		}
		if s.Head != nil {
			list = append(list, s)
		}
	}
	slices.SortStableFunc(list, func(a, b api.Session) int { return saidAt(&b).Compare(saidAt(&a)) })
	for i := range list {
		p.Items = append(p.Items, pickerItem(&list[i]))
	}
	if len(p.Items) == 0 {
		return false, nil
	}
	e.lessFlags = "R" // less waits: the list comes back after it
	for {
		id, action, err := p.Run(ctx, in, e.raw)
		if err != nil || action == picker.None {
			return true, err
		}
		if err := verb(string(action), id); err != nil {
			return true, err
		}
	}
}

// saidAt is when the newest turn of a session was said.
func saidAt(s *api.Session) time.Time {
	if s.HeadTime != nil {
		return time.Time(*s.HeadTime)
	}
	return time.Time(s.Created)
}

func pickerItem(s *api.Session) picker.Item {
	m := transcripts.WrittenSession(s)
	title := cmp.Or(clip(s.Label+" "+s.Title, 200), "(no title)")
	said := saidAt(s).UTC()
	about := fmt.Sprintf("%s  %s  %-11s  %11s  %s", short(s.ID), said.Format(time.DateOnly), clip(source(s.Meta), 11), plural(s.Turns, "turn"), title)
	return picker.Item{ID: s.ID.String(), Line: about, Less: said.Format(time.DateOnly) + "  " + title, Find: s.ID.String() + " " + clip(s.Agent+" "+m.Cwd+" "+m.Branch, 400)}
}
