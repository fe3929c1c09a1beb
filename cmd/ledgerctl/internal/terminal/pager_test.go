package terminal

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/cobra"
)

// throughTest runs a verb that writes n lines, as on a terminal, and returns what arrives.
func throughTest(t *testing.T, e *Terminal, n int, fails error) (string, error) {
	t.Helper()
	var out bytes.Buffer
	e.Raw, e.Err, e.LessFlags = &out, &bytes.Buffer{}, "FRX"
	e.Out = e.Plain(&out)
	c := &cobra.Command{RunE: func(*cobra.Command, []string) error {
		for i := range n {
			if _, err := fmt.Fprintf(e.Out, "line %d\n", i); err != nil {
				return err
			}
		}
		return fails
	}}
	err := e.Paged(c).RunE(c, nil)
	return out.String(), err
}

func TestOutputGoesThroughThePager(t *testing.T) {
	t.Setenv("LESS", "")
	t.Setenv("PAGER", `echo "LESS=$LESS"; sed 's/^/paged /'`)
	if out, err := throughTest(t, &Terminal{OutIsTerminal: true}, 2, nil); err != nil || out != "LESS=FRX\npaged line 0\npaged line 1\n" {
		t.Errorf("%q, %v", out, err)
	}
	for name, e := range map[string]*Terminal{"no terminal": {}, "--no-pager": {OutIsTerminal: true, NoPager: true}, "--json": {OutIsTerminal: true, JSON: true}} {
		if out, err := throughTest(t, e, 1, nil); err != nil || out != "line 0\n" {
			t.Errorf("%s: %q, %v", name, out, err)
		}
	}
	for _, pager := range []string{"", "cat", "no-such-pager -x"} {
		t.Setenv("PAGER", pager)
		if out, err := throughTest(t, &Terminal{OutIsTerminal: true}, 1, nil); err != nil || out != "line 0\n" {
			t.Errorf("PAGER=%q: %q, %v", pager, out, err)
		}
	}
}

// The output of a verb is not lost with a pager that fails.
func TestAPagerThatFailsLosesNoOutput(t *testing.T) {
	for _, pager := range []string{"false", "sh -c 'cat >/dev/null; exit 127'"} {
		t.Setenv("PAGER", pager)
		for _, n := range []int{2, 100_000} { // which a pipe takes, and which it does not
			term := &Terminal{OutIsTerminal: true}
			out, err := throughTest(t, term, n, nil)
			if got := strings.Count(out, "\n"); err != nil || got != n || !strings.HasPrefix(out, "line 0\n") {
				t.Errorf("PAGER=%q: %d of %d lines, %v", pager, got, n, err)
			}
			if said := fmt.Sprint(term.Err); !strings.Contains(said, "the pager "+pager+" failed") {
				t.Errorf("PAGER=%q: %q", pager, said)
			}
		}
	}
}

// A person who leaves the pager early has seen enough: no error. One of the verb stays.
func TestLeavingThePagerIsNoError(t *testing.T) {
	t.Setenv("PAGER", "head -n 1")
	if out, err := throughTest(t, &Terminal{OutIsTerminal: true}, 1_000_000, nil); err != nil || out != "line 0\n" {
		t.Errorf("%q, %v", out, err)
	}
	wrong := errors.New("wrong")
	if _, err := throughTest(t, &Terminal{OutIsTerminal: true}, 1, wrong); !errors.Is(err, wrong) {
		t.Errorf("%v", err)
	}
	t.Setenv("PAGER", "sed p") // which reads all
	gone := fmt.Errorf("the daemon left: %w", syscall.EPIPE)
	if _, err := throughTest(t, &Terminal{OutIsTerminal: true}, 1, gone); !errors.Is(err, gone) {
		t.Errorf("a broken connection: %v", err)
	}
}
