package main

import (
	"io"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Every verb has a page; a page names its verb's flags, no others, and has an
// example that begins with the verb.
func TestManual(t *testing.T) {
	root := commands(&env{out: io.Discard, err: io.Discard})
	for _, c := range root.Commands() {
		if c.Hidden || c.Name() == "help" || c.Name() == "completion" {
			continue
		}
		t.Run(c.Name(), func(t *testing.T) {
			page := manual[c.Name()]
			_, examples, ok := strings.Cut(page, "\nExamples\n")
			if !ok || !strings.Contains(examples, "  ledgerctl "+c.Name()) {
				t.Fatalf("no example in:\n%s", page)
			}
			if !strings.Contains(manual[""], "\n  "+c.Name()) && !strings.Contains(manual[""], c.Name()+",") {
				t.Errorf("the first page does not list %s", c.Name())
			}
			for line := range strings.Lines(page) {
				if n := len([]rune(strings.TrimRight(line, "\n"))); n > 80 {
					t.Errorf("%d cells: %s", n, line)
				}
			}
			have := make(map[string]bool)
			for _, x := range append([]*cobra.Command{c}, c.Commands()...) {
				x.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) { have[f.Name] = true })
			}
			delete(have, "help")
			named := make(map[string]bool)
			for line := range strings.Lines(page) {
				if i := strings.Index(line, "--"); strings.HasPrefix(line, "  -") && i >= 0 {
					named[strings.FieldsFunc(line[i+2:], func(r rune) bool { return r == ' ' || r == ',' })[0]] = true
				}
			}
			for f := range have {
				if !named[f] {
					t.Errorf("--%s is not explained", f)
				}
			}
			for f := range named {
				if !have[f] {
					t.Errorf("--%s is explained and does not exist", f)
				}
			}
		})
	}
	for name := range manual {
		if name == "" || name == "completion" {
			continue
		}
		if c, _, err := root.Find([]string{name}); err != nil || c == root {
			t.Errorf("a page for %s, which is no verb", name)
		}
	}
}

// A transcript must not steer the terminal that shows it.
func TestPrintableHasNoControlCharacters(t *testing.T) {
	if got, want := printable("a\x1b[2Jb\u202ec\x07\n\td\u009b"), "a\ufffd[2Jb\ufffdc\ufffd\n\td\ufffd"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
