package contextview

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"nexus/cmd/internal/transcripts"
	"nexus/cmd/ledgerctl/internal/local"
	"nexus/cmd/ledgerctl/internal/terminal"
	"nexus/ledger/api"
)

// The contexts of real sessions as recorded: nothing is cut to a budget, the sources have
// each message once, and a compaction that the source recorded is in force after it.
func TestContextsOfRealSessionsAsRecorded(t *testing.T) {
	data := filepath.Join("..", "..", "..", "..", "..", "shared", "data")
	if _, err := os.Stat(data); err != nil {
		t.Skip("real transcripts are not beside the project (../shared/data)")
	}
	c, stop, err := local.Start(t.Context(), &terminal.Terminal{Out: io.Discard, Err: io.Discard, Quiet: true}, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	im := transcripts.Importer{Client: c, Format: "auto", Final: true}
	for _, name := range []string{"pi/before-compaction.jsonl", "claude-code-entire-cli/57-f1f346970c-1.jsonl", "codex-git-sync/00-b8437a4e4a-1.jsonl"} {
		r, err := im.File(t.Context(), filepath.Join(data, name))
		if err != nil {
			t.Fatal(err)
		}
		id := r.Sessions[0]
		compacted, calls := false, 0
		n := 0
		for turn, err := range c.Turns(t.Context(), id, api.ListTurns{}) {
			if err != nil {
				t.Fatal(err)
			}
			compacted = compacted || turn.Type == "compaction"
			if n++; turn.Type != "normal" || n%7 != 0 {
				continue
			}
			calls++
			before, err := c.As(api.Operator).Context(t.Context(), id, api.GetContext{At: turn.ID, Recorded: true, Before: true, Explain: true})
			if err != nil {
				t.Fatalf("%s, turn %d: %v", name, turn.Depth, err)
			}
			whole, err := c.As(api.Operator).Context(t.Context(), id, api.GetContext{At: turn.ID, Recorded: true, Explain: true})
			if err != nil {
				t.Fatalf("%s, turn %d: %v", name, turn.Depth, err)
			}
			old, err := PiecesOf(before)
			if err != nil {
				t.Fatalf("%s, turn %d: %v", name, turn.Depth, err)
			}
			now, err := PiecesOf(whole)
			if err != nil {
				t.Fatalf("%s, turn %d: %v", name, turn.Depth, err)
			}
			for _, x := range Diff(old, now) {
				if x.Change != Kept && (x.Change != Added || x.New.Turn != turn.ID || x.New.Half != "response") {
					t.Errorf("%s, turn %d: the response is not all that differs: %s %s", name, turn.Depth, x.Change, x.New.Half)
				}
			}
			if got := !compactionIn(before).IsZero() || shortenedIn(before) > 0; got != compacted {
				t.Errorf("%s, turn %d: a compaction is in force: %v, was recorded: %v", name, turn.Depth, got, compacted)
			}
			if u := turn.Usage; u != nil && before.Reported != u.InputTokens {
				t.Errorf("%s, turn %d: %d reported, the provider counted %d", name, turn.Depth, before.Reported, u.InputTokens)
			}
		}
		t.Logf("%s: %d turns, %d calls looked at", name, n, calls)
		if calls < 5 || !compacted {
			t.Errorf("%s: %d calls looked at, compacted %v", name, calls, compacted)
		}
	}
}
