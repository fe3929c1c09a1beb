package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"nexus/cmd/internal/prose"
	"nexus/cmd/internal/transcripts/transcriptfile"
	"nexus/cmd/ledgerctl/internal/comparison"
	"nexus/cmd/ledgerctl/internal/terminal"
	"nexus/compactor/compare"
	"nexus/compactor/policy"
	"nexus/turns"
)

var writeComparison = flag.Bool("write", false, "TestCompareReal writes its tables into docs/policies/comparison.md")

var comparedPolicies = flag.String("policies", "", "policies that TestCompareReal compares, as ledgerctl compare takes them; all by default")

const comparisonPage = "../../docs/policies/comparison.md"

// realWindows are the windows that real transcripts are replayed in: the
// default one, and a small one, which many of them fill.
var realWindows = []uint64{200_000, 50_000}

// TestCompareReal replays the real transcripts in ../shared/data through every
// built-in policy, masking and what was recorded, those of the development and those held out apart. It writes
// nothing, but with -write, the tables of docs/policies/comparison.md:
//
//	go test ./cmd/ledgerctl -run TestCompareReal -write
func TestCompareReal(t *testing.T) {
	began := time.Now()
	names := append(policy.Names(), compare.MaskingName, policy.RecordedName)
	if *comparedPolicies != "" {
		names = []string{*comparedPolicies}
	}
	var b bytes.Buffer
	for i, title := range []string{"Development", "Held out"} {
		hs := realHistories(t, uint32(i))
		for _, window := range realWindows {
			x, err := comparison.New(names, window)
			if err != nil {
				t.Fatal(err)
			}
			for _, h := range hs {
				if h.Transcript.Tokens() < window/2 {
					continue // no policy would do anything
				}
				if err := x.Add(t.Context(), h, nil); err != nil {
					t.Fatalf("%s: %v", h.Name, err)
				}
			}
			if len(x.Each) == 0 {
				t.Fatalf("%s: no transcript of %d tokens", title, window/2)
			}
			checkComparison(t, x)
			checkBalanced(t, x)
			fmt.Fprintf(&b, "\n### %s, window %s\n\n%s", title, prose.Grouped(window), x.Markdown())
		}
	}
	t.Logf("%v\n%s", time.Since(began).Round(time.Second), b.Bytes())
	if *writeComparison {
		writeTables(t, b.Bytes())
	}
}

// realHistories returns the transcripts in ../shared/data whose file's name hashes
// to a half, 0 or 1.
func realHistories(t *testing.T, half uint32) (out []comparison.History) {
	t.Helper()
	data := filepath.Join("..", "..", "..", "shared", "data")
	if _, err := os.Stat(data); err != nil {
		t.Skip("real transcripts are not beside the project (../shared/data)")
	}
	files, _, err := transcriptfile.Find([]string{data})
	if err != nil {
		t.Fatal(err)
	}
	e := newEnv(&terminal.Terminal{})
	for _, f := range files {
		h := fnv.New32a()
		h.Write([]byte(filepath.Base(f.Name)))
		if h.Sum32()%2 != half {
			continue
		}
		hs, err := comparison.Histories(t.Context(), e.Terminal, f.Name, nil)
		if unknown := (transcriptfile.UnknownFormat{}); errors.As(err, &unknown) || errors.Is(err, turns.ErrMalformed) {
			continue
		} else if err != nil {
			t.Fatalf("%s: %v", f.Name, err)
		}
		out = append(out, hs...)
	}
	return out
}

// checkComparison holds what must be so of any policy: each call is made once,
// and what is out of the context is one expand away.
func checkComparison(t *testing.T, x *comparison.Comparison) {
	t.Helper()
	for _, c := range x.Each {
		for i, s := range c.Sums {
			if s.Calls != c.Calls {
				t.Errorf("%s, %s: %d calls of %d", c.Name, x.Policies[i].Name, s.Calls, c.Calls)
			}
			if e := s.Survival.AllEarlier(); e.InContext()+e.Reachable != e.All || e.All != c.Sums[0].Survival.AllEarlier().All {
				t.Errorf("%s, %s: facts are nowhere, or not the same ones: %+v", c.Name, x.Policies[i].Name, e)
			}
			if s.Usage.Prompt() != s.Tokens {
				t.Errorf("%s, %s: %d tokens sent, %d paid for", c.Name, x.Policies[i].Name, s.Tokens, s.Usage.Prompt())
			}
		}
	}
}

// checkBalanced is NXS-13, as far as it holds: no design keeps as much as balanced
// and costs no more, and in the small window none keeps as much.
func checkBalanced(t *testing.T, x *comparison.Comparison) {
	t.Helper()
	at := slices.IndexFunc(x.Policies, func(p policy.Policy) bool { return p.Name == "balanced" })
	if at < 0 {
		return
	}
	kept := func(i int) float64 {
		e := x.Sums[i].Survival.AllEarlier()
		return float64(e.InContext()) / float64(e.All)
	}
	cost := func(i int) uint64 { return x.Sums[i].Usage.Cost(x.Prices) }
	for i, p := range x.Policies {
		if i == at || strings.HasPrefix(p.Name, "balanced") || p.Name == compare.MaskingName || p.Name == policy.RecordedName {
			continue
		}
		if kept(i) >= kept(at) && cost(i) <= cost(at) {
			t.Errorf("window %d: %s keeps %.4f for %d, balanced %.4f for %d", x.Window, p.Name, kept(i), cost(i), kept(at), cost(at))
		}
		if x.Window == 50_000 && kept(i) >= kept(at) {
			t.Errorf("window %d: %s keeps %.4f, balanced %.4f", x.Window, p.Name, kept(i), kept(at))
		}
	}
}

// writeTables puts tables where the page says that they are.
func writeTables(t *testing.T, tables []byte) {
	t.Helper()
	page, err := os.ReadFile(comparisonPage)
	if err != nil {
		t.Fatal(err)
	}
	begin, end := []byte("<!-- tables begin -->\n"), []byte("\n<!-- tables end -->")
	head, rest, ok := bytes.Cut(page, begin)
	_, tail, ok2 := bytes.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no place for tables", comparisonPage)
	}
	out := bytes.Join([][]byte{head, begin, tables, end, tail}, nil)
	if err := os.WriteFile(comparisonPage, out, 0o644); err != nil {
		t.Fatal(err)
	}
}
