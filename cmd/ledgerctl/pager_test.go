package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/cobra"
)

// throughTest runs a verb that writes n lines, as on a terminal, and returns what arrives.
func throughTest(t *testing.T, e *env, n int, fails error) (string, error) {
	t.Helper()
	var out bytes.Buffer
	e.raw, e.err, e.lessFlags = &out, &bytes.Buffer{}, "FRX"
	e.out = e.plain(&out)
	c := &cobra.Command{RunE: func(*cobra.Command, []string) error {
		for i := range n {
			if _, err := fmt.Fprintf(e.out, "line %d\n", i); err != nil {
				return err
			}
		}
		return fails
	}}
	err := e.paged(c).RunE(c, nil)
	return out.String(), err
}

func TestOutputGoesThroughThePager(t *testing.T) {
	t.Setenv("LESS", "")
	t.Setenv("PAGER", `echo "LESS=$LESS"; sed 's/^/paged /'`)
	if out, err := throughTest(t, &env{screen: true}, 2, nil); err != nil || out != "LESS=FRX\npaged line 0\npaged line 1\n" {
		t.Errorf("%q, %v", out, err)
	}
	for name, e := range map[string]*env{"no terminal": {}, "--no-pager": {screen: true, noPager: true}, "--json": {screen: true, json: true}} {
		if out, err := throughTest(t, e, 1, nil); err != nil || out != "line 0\n" {
			t.Errorf("%s: %q, %v", name, out, err)
		}
	}
	for _, pager := range []string{"", "cat", "no-such-pager -x"} {
		t.Setenv("PAGER", pager)
		if out, err := throughTest(t, &env{screen: true}, 1, nil); err != nil || out != "line 0\n" {
			t.Errorf("PAGER=%q: %q, %v", pager, out, err)
		}
	}
}

// A person who leaves the pager early has seen enough: no error. One of the verb stays.
func TestLeavingThePagerIsNoError(t *testing.T) {
	t.Setenv("PAGER", "head -n 1")
	if out, err := throughTest(t, &env{screen: true}, 1_000_000, nil); err != nil || out != "line 0\n" {
		t.Errorf("%q, %v", out, err)
	}
	wrong := errors.New("wrong")
	if _, err := throughTest(t, &env{screen: true}, 1, wrong); !errors.Is(err, wrong) {
		t.Errorf("%v", err)
	}
	t.Setenv("PAGER", "sed p") // which reads all
	gone := fmt.Errorf("the daemon left: %w", syscall.EPIPE)
	if _, err := throughTest(t, &env{screen: true}, 1, gone); !errors.Is(err, gone) {
		t.Errorf("a broken connection: %v", err)
	}
}

// Without a terminal ledgerctl alone prints the help.
func TestWithoutATerminalThereIsNoPicker(t *testing.T) {
	in, err := os.Create(filepath.Join(t.TempDir(), "in"))
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	var out, errw bytes.Buffer
	if code := run(context.Background(), nil, in, &out, &errw); code != 0 || !strings.Contains(out.String(), "Begin\n") || errw.Len() > 0 {
		t.Errorf("%d: %s%s", code, out.String(), errw.String())
	}
}
