package terminal

import (
	"bytes"
	"errors"
	"io"
	"nexus/cmd/internal/prose"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"

	"github.com/charmbracelet/colorprofile"
	"github.com/spf13/cobra"
)

// pagerShowedNothing are the statuses of a pager that could not begin: of itself, and of a
// shell for a program that it can't run. Others end with another one when the person
// interrupts them.
var pagerShowedNothing = []int{1, 126, 127}

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

// Paged makes a verb's output go through a pager, where it goes to a terminal: $PAGER, else
// less. Pictures and JSON go there as they are.
func (term *Terminal) Paged(c *cobra.Command) *cobra.Command {
	run := c.RunE
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if svg := cmd.Flags().Lookup("svg"); !term.OutIsTerminal || term.NoPager || term.JSON || svg != nil && svg.Value.String() == "true" {
			return run(cmd, args)
		}
		return term.throughPager(func() error { return run(cmd, args) })
	}
	return c
}

// throughPager runs f with its output in a pager, and returns when the person has left that.
// Without a pager the output goes to the terminal. What f says on stderr follows.
func (term *Terminal) throughPager(f func() error) error {
	pager, set := os.LookupEnv("PAGER")
	if !set {
		pager = "less"
	}
	if pager = strings.TrimSpace(pager); pager == "" || pager == "cat" {
		return f()
	}
	cmd := exec.Command("sh", "-c", pager)
	cmd.Stdout, cmd.Stderr, cmd.Env = term.Raw, os.Stderr, os.Environ()
	if os.Getenv("LESS") == "" {
		cmd.Env = append(cmd.Env, "LESS="+term.LessFlags)
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
	out, raw, errw := term.Out, term.Raw, term.Err
	var said bytes.Buffer
	term.Raw, term.Out, term.Err = in, in, &said
	if w, ok := out.(*colorprofile.Writer); ok { // the colours of the terminal behind the pager
		term.Out = &colorprofile.Writer{Forward: in, Profile: w.Profile}
	}
	err = f()
	if in.left && errors.Is(err, syscall.EPIPE) { // the person has seen enough
		err = nil
	}
	_ = in.Close()
	var failed *exec.ExitError
	status := 0
	if errors.As(cmd.Wait(), &failed) {
		status = failed.ExitCode()
	}
	term.Out, term.Raw, term.Err = out, raw, errw
	if status > 0 {
		term.Say("the pager %s failed: %v", prose.Printable(pager), failed)
		if slices.Contains(pagerShowedNothing, status) {
			return f()
		}
	}
	_, _ = io.Copy(term.Err, &said)
	return err
}
