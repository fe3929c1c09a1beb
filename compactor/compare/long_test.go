package compare

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"nexus/compactor"
	"nexus/compactor/extractive"
	"nexus/compactor/policy"
	"nexus/turns"
	"nexus/turns/tokens"
)

var longTurns = flag.Int("turns", 1000, "turns of the synthetic session of TestLongSession")

// TestLongSession replays one long session under every policy, in windows of
// 8,000, 200,000 and 1,000,000 tokens: no context is over what a provider takes,
// and no policy compacts without end. A session of 100,000 turns:
//
//	go test ./compactor/compare -run TestLongSession -turns 100000 -timeout 2h -v
func TestLongSession(t *testing.T) {
	tr := New(longSession(*longTurns), 900)
	for _, w := range []uint64{8_000, 200_000, 1_000_000} {
		for _, name := range policy.Names() {
			t.Run(fmt.Sprintf("%s/%d", name, w), func(t *testing.T) {
				pol, _ := policy.Builtin(name)
				opt := Options{
					Limits: turns.Limits{ContextWindow: w},
					Tiers:  []compactor.Tier{{Name: "extractive", Summarizer: extractive.New(extractive.Config{}), Local: true}},
				}
				began := time.Now()
				r, err := tr.Replay(t.Context(), pol, opt)
				if err != nil {
					t.Fatal(err)
				}
				var s Sum
				s.Add(r)
				limit := w - min(w/4, 16_000) // what leaves room for an answer
				if f := tokens.Scale(pol.Counter); f < 1 {
					limit = uint64(float64(limit) / f) // spec-008 counts less, and knows no better
				}
				over, run, longest := 0, 0, 0
				for _, c := range r.Calls {
					if c.Tokens > limit {
						over++
					}
					if run++; !c.Compacted && !c.Elided {
						run = 0
					}
					longest = max(longest, run)
				}
				if over > 0 {
					t.Errorf("%d of %d contexts are over %d tokens, the largest has %d", over, len(r.Calls), limit, s.MaxTokens)
				}
				// Large results in a row make compactions in a row, more of them in a small
				// window; without end they would be a loop.
				if longest > 25 {
					t.Errorf("%d calls in a row were compacted before", longest)
				}
				t.Logf("%d turns, %d calls: %d compactions, %d elision passes, at most %d in a row; mean %d, largest %d tokens; %v",
					tr.Turns(), s.Calls, s.Compactions, s.Elisions, longest, s.MeanTokens(), s.MaxTokens, time.Since(began).Round(time.Millisecond))
			})
		}
	}
}

// longSession returns the session of an agent at work: requests, loops of calls with results of a
// line to some thousand characters, the same few hundred files again and again.
func longSession(n int) (out []Turn) {
	rng := rand.New(rand.NewPCG(7, 7))
	file := func() string {
		return fmt.Sprintf("src/pkg%02d/file_%03d.go", rng.IntN(20), rng.IntN(300))
	}
	call := 0
	for len(out) < n {
		ask := turns.TextMessage(turns.User, fmt.Sprintf("Please look into ticket %d: %s fails with code %d.", 1000+rng.IntN(9000), file(), rng.IntN(500)))
		ms := []turns.Message{ask}
		for range 1 + rng.IntN(12) {
			call++
			id, path := fmt.Sprintf("c%d", call), file()
			answer := turns.Message{Role: turns.Assistant, Parts: []turns.Part{
				turns.TextPart("I read " + path + "."),
				{Type: turns.ToolCall, ID: id, Name: "read", Arguments: turns.Raw(fmt.Sprintf(`{"path":%q}`, path))},
			}}
			out = append(out, Turn{Messages: ms, Response: &answer})
			lines := 1 + rng.IntN(8)
			if rng.IntN(10) == 0 {
				lines = 60
			}
			var b strings.Builder
			for i := range lines {
				fmt.Fprintf(&b, "%d: func handle%d(ctx context.Context) error { return check(%d, %q) }\n", i+1, rng.IntN(1000), rng.IntN(100_000), path)
			}
			ms = []turns.Message{{Role: turns.Tool, Parts: []turns.Part{{Type: turns.ToolCallResponse, ID: id, Response: turns.RawText(b.String())}}}}
		}
		done := turns.TextMessage(turns.Assistant, "The fault was in "+file()+"; it is mended.")
		out = append(out, Turn{Messages: ms, Response: &done})
	}
	return out[:n]
}
