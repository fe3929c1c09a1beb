package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"nexus/cmd/ledgerctl/internal/comparison"
)

var (
	readers      = flag.String("readers", "", "folder that TestReadersOfSummaries writes summaries to, for people to read")
	readersCount = flag.Int("readers-count", 10, "how many summaries TestReadersOfSummaries writes")
)

// readersQuestions are what a reader answers from a summary alone.
const readersQuestions = `What was the task?
What was decided, and why?
What is open: what comes next?
Which files matter, and what are they for?
What failed, and how did it end?
`

// TestReadersOfSummaries takes held-out transcripts, replays them under balanced, and
// writes for each what stands for the covered turns in the context of the last call,
// with questions for a reader who has not seen the transcript. Without -readers it
// checks that such texts are there, and writes nothing:
//
//	go test ./cmd/ledgerctl -run TestReadersOfSummaries -readers DIR
//
// Transcripts too short for a window of 50,000 tokens are replayed in one of 16,000.
func TestReadersOfSummaries(t *testing.T) {
	hs := realHistories(t, 1)
	n := 0
	for _, window := range []uint64{50_000, 16_000} {
		for _, h := range hs {
			if all := h.Transcript.Tokens(); n == *readersCount || all < window*3/4 || window < 50_000 && all >= 37_500 {
				continue
			}
			x, err := comparison.New([]string{"balanced"}, window)
			if err != nil {
				t.Fatal(err)
			}
			if err := x.Add(t.Context(), h, nil); err != nil {
				t.Fatal(err)
			}
			text := x.Longest[0].Summary()
			if text == "" {
				continue
			}
			n++
			if !strings.Contains(text, "TASK") && !strings.Contains(text, "<first_request>") {
				t.Errorf("%s: the summary names no task: %.200s", h.Name, text)
			}
			if *readers == "" {
				continue
			}
			page := fmt.Sprintf("# %s, window %d, %d calls\n\nAnswer from the text below alone:\n\n%s\n---\n\n%s", h.Name, window, h.Transcript.Calls(), readersQuestions, text)
			if err := os.WriteFile(filepath.Join(*readers, fmt.Sprintf("%02d.md", n)), []byte(page), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	if n < *readersCount {
		t.Errorf("%d summaries of %d", n, *readersCount)
	}
}
