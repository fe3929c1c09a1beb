package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// claudeCopy writes a transcript of Claude Code with answers, each of 10 and 1 tokens.
func claudeCopy(t *testing.T, file string, answers ...string) string {
	t.Helper()
	var b strings.Builder
	parent := "null"
	for i, a := range answers {
		user, answer := fmt.Sprintf(`"00000000-0000-4000-8000-0000000000%02d"`, 2*i), fmt.Sprintf(`"00000000-0000-4000-8000-0000000000%02d"`, 2*i+1)
		fmt.Fprintf(&b, `{"type":"user","uuid":%s,"parentUuid":%s,"sessionId":"7b7b39ab-06ea-4622-bab9-f938ca92f900","version":"2.1.0","timestamp":"2026-09-01T10:00:%02dZ","message":{"role":"user","content":"question %d"}}`+"\n", user, parent, 2*i, i)
		fmt.Fprintf(&b, `{"type":"assistant","uuid":%s,"parentUuid":%s,"sessionId":"7b7b39ab-06ea-4622-bab9-f938ca92f900","version":"2.1.0","timestamp":"2026-09-01T10:00:%02dZ","message":{"id":"m%d","role":"assistant","model":"claude-sonnet-4-5","content":[{"type":"text","text":%q}],"usage":{"input_tokens":10,"output_tokens":1}}}`+"\n", answer, user, 2*i+1, i, a)
		parent = answer
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// A folder with an older copy of a transcript beside the whole one is refreshed to the same
// ledger however often, in any order.
func TestRefreshOfAnOlderCopyChangesNothing(t *testing.T) {
	for _, names := range [][2]string{{"a-whole", "b-old"}, {"b-whole", "a-old"}} {
		l := newCaseLedger(t, t.TempDir())
		claudeCopy(t, filepath.Join(l.dir, names[0], "g.jsonl"), "one", "two", "three", "four")
		claudeCopy(t, filepath.Join(l.dir, names[1], "g.jsonl"), "one", "two")
		l.run(0, "import", "--final", l.dir)
		for range 3 {
			l.run(0, "import", "--final", "--refresh", l.dir)
			l.sessions(1)
			l.cost(4, 40, 0, 4)
			if s := l.list()[0]; s.Turns != 4 || s.State != "open" {
				t.Errorf("%v: %d turns, %s", names, s.Turns, s.State)
			}
		}
	}
}

// Another file that names the same session and the same lines takes nothing over: the
// session that the ledger has stays in lists and costs, and refreshes come to an end.
func TestRefreshOfAnotherFileHidesNothing(t *testing.T) {
	l := newCaseLedger(t, t.TempDir())
	honest := claudeCopy(t, filepath.Join(l.dir, "p1", "s.jsonl"), "one", "two", "three")
	other := claudeCopy(t, filepath.Join(l.dir, "p2", "s.jsonl"), "uno", "dos", "tres")
	l.run(0, "import", "--final", honest)
	was := l.list()[0].ID
	var sizes []int
	for range 5 {
		l.run(0, "import", "--final", "--refresh", other)
		l.run(0, "import", "--final", "--refresh", honest)
		sizes = append(sizes, bytes.Count([]byte(l.run(0, "sessions", "--all", "--json")), []byte("\n")))
	}
	if sizes[len(sizes)-1] != sizes[1] {
		t.Errorf("each refresh makes sessions: %v", sizes)
	}
	for _, s := range l.list() {
		if s.ID == was {
			return
		}
	}
	t.Error("the session that was there first is out of the list")
}
