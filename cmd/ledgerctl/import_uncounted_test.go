package main

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/go-json-experiment/json"
)

// Calls whose tokens no turn has are reported by cost, the sum of all files of a session: each
// file counts once, whichever is imported last, and again.
func TestCallsThatNoTurnHasAreTheSumOfTheFiles(t *testing.T) {
	l := newCaseLedger(t, t.TempDir())
	rollout := func(answers, lost int) string {
		text := `{"timestamp":"2026-04-11T14:53:01Z","type":"session_meta","payload":{"id":"019d7d08-46c9-7f73-affe-4e6ca9852d56","timestamp":"2026-04-11T14:53:00Z","cwd":"/w"}}` + "\n"
		for i := range lost {
			text += fmt.Sprintf(`{"timestamp":"2026-04-11T14:53:%02dZ","type":"event_msg","payload":{"type":"token_count","info":{"total_token_usage":{"total_tokens":%d},"last_token_usage":{"input_tokens":%d,"output_tokens":20}}}}`+"\n", 10*answers+i, 120*(i+1), 100+i)
		}
		for n := 1; n <= answers; n++ {
			text += fmt.Sprintf(`{"timestamp":"2026-04-11T14:54:%02dZ","type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"q%d"}]}}
{"timestamp":"2026-04-11T14:55:%02dZ","type":"response_item","payload":{"type":"message","role":"assistant","content":[{"type":"output_text","text":"a%d"}]}}
`, n, n, n, n)
		}
		return text
	}
	files := []string{filepath.Join(l.dir, "rollout-1.jsonl"), filepath.Join(l.dir, "rollout-2.jsonl")}
	for i, lost := range []int{3, 1} {
		if err := os.WriteFile(files[i], []byte(rollout(i+1, lost)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range []string{files[0], files[1], files[0], files[1]} {
		l.run(0, "import", "--final", f)
	}
	var report struct {
		Total struct {
			Lost uint64 `json:"calls_not_stored"`
		} `json:"total"`
	}
	out := l.run(0, "cost", "--json")
	if err := json.Unmarshal([]byte(out), &report); err != nil || report.Total.Lost != 4 {
		t.Errorf("%d calls are not stored, want 4 (%v): %s", report.Total.Lost, err, out)
	}
}
