package llm

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"nexus/compactor/summary"
	"nexus/turns"
	"nexus/turns/tokens"
)

func input(n, size int) summary.Input {
	in := summary.Input{MaxTokens: 500}
	for i := range n {
		m := turns.TextMessage(turns.User, fmt.Sprintf("said %d %s", i, strings.Repeat("secret-words ", size/13)))
		in.Halves = append(in.Halves, summary.HalfTurn{Depth: uint64(i + 1), Half: turns.MessagesHalf, Messages: []turns.Message{m}, Tokens: tokens.Approx{}.Message(&m)})
	}
	return in
}

// What does not fit the window is asked in stretches, each with the summary of
// those before it; no text is left out, but for the end of one that alone is too
// large.
func TestStretches(t *testing.T) {
	var asked []string
	s, _ := scripted(t, Config{Window: 4000}, func(_ int, r Request) (Answer, error) {
		asked = append(asked, r.User)
		return Answer{Text: fmt.Sprintf("summary %d", len(asked)), Usage: turns.Usage{InputTokens: 14}}, nil
	})
	in := input(30, 900)
	in.Halves[12] = input(1, 60_000).Halves[0]
	out, err := s.Summarize(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	if len(asked) < 4 || out.Usage.InputTokens != uint64(14*len(asked)) {
		t.Errorf("%d requests, usage %+v", len(asked), out.Usage)
	}
	all := strings.Join(asked, "\n")
	for i := range 30 {
		if i != 12 && !strings.Contains(all, fmt.Sprintf("said %d ", i)) {
			t.Errorf("half %d was never asked about", i)
		}
	}
	for i, a := range asked[1:] {
		if !strings.HasPrefix(a, fmt.Sprintf("<summary>\nsummary %d\n</summary>", i+1)) {
			t.Errorf("stretch %d begins with %.80q", i+2, a)
		}
	}
	for _, a := range asked {
		if n := (tokens.Approx{}).Text(a); n > 4000 {
			t.Errorf("a request of %d tokens for a window of 4000", n)
		}
	}
}

type modelFunc func(context.Context, Request) (Answer, error)

func (f modelFunc) Ask(ctx context.Context, r Request) (Answer, error) { return f(ctx, r) }

func TestConfig(t *testing.T) {
	for _, c := range []Config{{Model: "m"}, {Asks: modelFunc(nil)}, {Asks: modelFunc(nil), Model: "m", Spend: NewSpend(1)}} {
		if _, err := New(c); !errors.Is(err, ErrConfig) {
			t.Errorf("%+v: %v, want ErrConfig", c, err)
		}
	}
}
