package main

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"nexus/cmd/internal/prose"
	"nexus/cmd/ledgerctl/internal/help"
	"nexus/cmd/ledgerctl/internal/terminal"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/turns"
)

var manual = help.Pages()

// Every verb has a page; a page names its verb's flags, no others, and has an
// example that begins with the verb.
func TestManual(t *testing.T) {
	root := commands(newEnv(&terminal.Terminal{Out: io.Discard, Err: io.Discard}))
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
			have := make(map[string]bool)
			parts := c.Commands()
			if c.Name() == "turn" { // most of them are verbs, with pages of their own
				parts = slices.DeleteFunc(slices.Clone(parts), func(x *cobra.Command) bool { return x.Name() != "note" })
			}
			for _, x := range append([]*cobra.Command{c}, parts...) {
				x.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
					if !f.Hidden { // what a flag was called once
						have[f.Name] = true
					}
				})
			}
			delete(have, "help")
			named := make(map[string]bool)
			for line := range strings.Lines(page) {
				if i := strings.Index(line, "--"); strings.HasPrefix(line, "  -") && i >= 0 {
					named[strings.FieldsFunc(line[i+2:], func(r rune) bool { return strings.ContainsRune(" ,\n", r) })[0]] = true
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
	for name, page := range manual {
		for line := range strings.Lines(page) {
			if n := len([]rune(strings.TrimRight(line, "\n"))); n > 80 {
				t.Errorf("%s: %d cells: %s", name, n, line)
			}
		}
		if name == "" || name == "completion" {
			continue
		}
		if c, _, err := root.Find([]string{name}); err != nil || c == root {
			t.Errorf("a page for %s, which is no verb", name)
		}
	}
}

// The smallest policy of the help is one that the daemon stores, and none of its
// settings can be left out.
func TestHelpHasTheSmallestPolicy(t *testing.T) {
	_, text, _ := strings.Cut(manual["policy"], "\n  {")
	text, _, ok := strings.Cut(text, "}")
	if !ok {
		t.Fatal("the help has no policy")
	}
	var settings map[string]turns.Raw
	if err := turns.DecodeJSON([]byte("{"+text+"}"), &settings); err != nil {
		t.Fatal(err)
	}
	c := testLedger(t)
	put := func(name string) error {
		b, err := turns.EncodeJSON(settings)
		if err != nil {
			return err
		}
		_, err = c.PutPolicy(t.Context(), api.PutPolicy{Name: name, Settings: b})
		return err
	}
	if err := put("mine"); err != nil {
		t.Error(err)
	}
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		value := settings[name]
		delete(settings, name)
		if err := put("other"); !errors.Is(err, ledger.ErrMalformed) || !strings.Contains(err.Error(), "/settings/"+name+": ") {
			t.Errorf("without %s: %v", name, err)
		}
		settings[name] = value
	}
}

// steering is text that a terminal would act on, or show as other text.
const steering = "a\x1b[2Jb\u202ec\x07\n\td\u009b31m\u200be\u200f\u2028\u2069\u061c\ufeff\x7ff\U000e0041g"

// A transcript must not steer the terminal that shows it.
func TestPrintableHasNoHiddenCharacters(t *testing.T) {
	const shaped = "نمی\u200cخواهم 👩\u200d💻 ❤\ufe0f ⠀⠁"
	if got := prose.Printable(shaped); got != shaped {
		t.Errorf("got %q, want %q", got, shaped)
	}
	if got, want := prose.Printable(steering), "a\ufffd[2Jb\ufffdc\ufffd\n\td\ufffd31m\ufffde\ufffd\ufffd\ufffd\ufffd\ufffd\ufffdf\ufffdg"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// JSON goes to a file as it is, and to a terminal as the same value without a
// character that the terminal acts on.
func TestJSONIsExactInAFileAndEscapedOnATerminal(t *testing.T) {
	want, err := turns.EncodeJSON(map[string]string{"title": steering})
	if err != nil {
		t.Fatal(err)
	}
	for _, screen := range []bool{false, true} {
		var out bytes.Buffer
		e := newEnv(&terminal.Terminal{Raw: &out, OutIsTerminal: screen})
		e.Out = e.Plain(e.Raw)
		if err := e.Print(map[string]string{"title": steering}); err != nil {
			t.Fatal(err)
		}
		got := strings.TrimSuffix(out.String(), "\n")
		if !screen && got != string(want) {
			t.Errorf("in a file: %q, want %q", got, want)
		}
		if screen && strings.ContainsFunc(got, turns.IsHidden) {
			t.Errorf("on a terminal: %q", got)
		}
		var back map[string]string
		if err := turns.DecodeJSON([]byte(got), &back); err != nil || back["title"] != steering {
			t.Errorf("%s reads as %q, %v", got, back, err)
		}
	}
}

// An error quotes what was typed, or what a transcript says.
func TestErrorHasNoHiddenCharacters(t *testing.T) {
	var out, errw bytes.Buffer
	if code := run(t.Context(), []string{"compare", "no\u202e\x1b[2Jsuch.jsonl"}, strings.NewReader(""), &out, &errw); code == 0 {
		t.Error("a file that is not there was read")
	}
	if strings.ContainsAny(errw.String(), "\u202e\x1b") || !strings.Contains(errw.String(), "such.jsonl") {
		t.Errorf("%q", errw.String())
	}
}
