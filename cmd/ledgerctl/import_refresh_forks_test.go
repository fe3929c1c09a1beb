package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"nexus/cmd/internal/cost"
	"nexus/cmd/internal/transcripts"
	"nexus/cmd/internal/transcripts/transcriptfile"
	"nexus/cmd/ledgerctl/internal/local"
	"nexus/cmd/ledgerctl/internal/terminal"
	"nexus/ledger/api/client"
)

// A refresh of forks and of what they are forked from copies nothing a second time, whichever
// was imported first: the ledger may have a branch in another session than the file says.
func TestRefreshOfForksCopiesNothing(t *testing.T) {
	for _, order := range []string{"parent branch middle second", "second branch middle parent", "middle branch second parent"} {
		for _, oneByOne := range []bool{false, true} {
			t.Run(fmt.Sprint(order, " ", oneByOne), func(t *testing.T) {
				e := newEnv(&terminal.Terminal{Out: io.Discard, Err: io.Discard})
				c, stop, err := local.Start(t.Context(), e.Terminal, t.TempDir())
				if err != nil {
					t.Fatal(err)
				}
				defer stop()
				names := piForks(t, t.TempDir())
				var files []transcriptfile.File
				for _, what := range strings.Fields(order) {
					files = append(files, transcriptfile.File{Name: names[what]})
				}
				if oneByOne {
					for i := range files {
						importAll(t, c, files[i:i+1], false)
					}
				}
				importAll(t, c, files, false)
				shapes := sessionShapes(t, c)
				for again := range 3 {
					stored := importAll(t, c, files, true)
					if stored > 0 {
						t.Errorf("the refresh %d stored %d", again, stored)
					}
					if now := sessionShapes(t, c); !slices.Equal(now, shapes) {
						t.Errorf("sessions %q, after the refresh %d %q", shapes, again, now)
					}
					if n := countCalls(t, c); n != 6 {
						t.Errorf("%d calls after the refresh %d, want 6", n, again)
					}
				}
			})
		}
	}
}

// One refresh is enough where a fork is read before the session that it was forked from, and
// both read differently: the fork follows the successor of its parent.
func TestRefreshOfAForkBeforeItsParentNeedsOnePass(t *testing.T) {
	for _, order := range [][]string{{"session", "end", "second"}, {"second", "end", "session"}} {
		t.Run(strings.Join(order, " "), func(t *testing.T) {
			r := newRefresher(t)
			names := claudeForks(t, t.TempDir())
			var files []transcriptfile.File
			for _, what := range order {
				files = append(files, transcriptfile.File{Name: names[what]})
			}
			importAll(t, r.c, []transcriptfile.File{{Name: names["session"]}, {Name: names["end"]}, {Name: names["second"]}}, false)
			for id := range r.listed(false) {
				r.older(id)
			}
			for _, f := range files { // as another reader would have it
				b, err := os.ReadFile(f.Name)
				if err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(f.Name, bytes.ReplaceAll(b, []byte(`"third"`), []byte(`"THIRD"`)), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			importAll(t, r.c, files, true)
			want := []string{"firstTHIRD", "firstTHIRDfourth", "firstTHIRDfourthsixth"}
			if s := sessionShapes(t, r.c); !slices.Equal(s, want) {
				t.Errorf("sessions %q, want %q", s, want)
			}
			if n := importAll(t, r.c, files, true); n > 0 {
				t.Errorf("the second refresh stored %d", n)
			}
		})
	}
}

// A count of tokens that no event can hold is a loss of its call, not the end of the file.
func TestImportOfAnImpossibleCountGoesOn(t *testing.T) {
	r := newRefresher(t)
	text := claudeSession("21234567-89ab-4def-8123-456789abcdef", exchanges("one", "two", "three")...)
	r.write(strings.Replace(text, `"input_tokens":10`, `"input_tokens":18446744073709551615`, 1))
	got := r.read(false)
	if _, said := r.only(); said != "one two three" || len(got.Losses) != 1 {
		t.Errorf("stored %q, losses %+v", said, got.Losses)
	}
	if got := r.read(true); got.Stored+got.Renewed != 0 {
		t.Errorf("refreshed: %+v", got)
	}
}

// importAll imports files and returns how much was stored.
func importAll(t *testing.T, c *client.Client, files []transcriptfile.File, refresh bool) (stored int) {
	t.Helper()
	im := transcripts.Importer{Client: c, Format: "auto", Final: true, Refresh: refresh}
	for i, o := range im.Files(t.Context(), files) {
		if o.Err != nil {
			t.Fatalf("%s: %v", files[i].Name, o.Err)
		}
		stored += o.Report.Stored
	}
	return stored
}

func countCalls(t *testing.T, c *client.Client) (n int) {
	t.Helper()
	_, calls := cost.Read(t.Context(), c, cost.Scope{})
	for _, err := range calls {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	return n
}
