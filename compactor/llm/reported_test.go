package llm

import (
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"nexus/compactor/overflow"
	"nexus/compactor/summary"
	"nexus/turns"
)

// tokensOf is what a request has, as the provider counts it.
func tokensOf(r Request) uint64 { return uint64(len(r.System)+len(r.User)) / 4 }

// A model that thinks needs more than its answer: one that is known to gets it, and so does
// any whose thoughts took all there was.
func TestRoomForThoughts(t *testing.T) {
	known, err := New(Config{Asks: modelFunc(nil), Model: "gpt-5", Thinks: true, Window: 40_000})
	if err != nil {
		t.Fatal(err)
	}
	if j, err := known.job(input(1, 100)); err != nil || j.limit != 500+5000 {
		t.Errorf("an answer of gpt-5 may have %d tokens, %v", j.limit, err)
	}
	s, all := scripted(t, Config{Window: 40_000}, func(_ int, r Request) (Answer, error) {
		if r.MaxTokens < 4000 {
			return Answer{Cut: true, Thought: true, Usage: turns.Usage{InputTokens: 7, OutputTokens: 500}}, nil
		}
		return Answer{Text: "TASK: all is well", Usage: turns.Usage{InputTokens: 14, OutputTokens: 3}}, nil
	})
	for i, want := range []turns.Usage{{InputTokens: 7 + 14, OutputTokens: 503}, {InputTokens: 14, OutputTokens: 3}} {
		out, err := s.Summarize(t.Context(), input(1, 100))
		if err != nil || out.Text != "TASK: all is well" || out.Usage == nil || *out.Usage != want || len(*all) != i+2 {
			t.Errorf("%+v of %v, %v after %d requests", out, out.Usage, err, len(*all))
		}
	}

	// What never ends is asked for twice, and no more.
	s, all = scripted(t, Config{}, func(int, Request) (Answer, error) { return Answer{Cut: true, Thought: true}, nil })
	if _, err := s.Summarize(t.Context(), input(1, 100)); !errors.Is(err, ErrAnswer) || len(*all) != 2 {
		t.Errorf("%v after %d requests", err, len(*all))
	}
}

// A server with a smaller window than configured is asked in smaller parts, now
// and from then on, and the log tells the operator.
func TestSmallerWindowIsLearned(t *testing.T) {
	for name, size := range map[string]overflow.ProviderError{
		"with a number": overflow.Read(400, `{"error":{"code":400,"message":"the request exceeds the available context size, try increasing it","type":"exceed_context_size_error","n_prompt_tokens":40000,"n_ctx":16384}}`),
		"no number":     overflow.Read(400, "prompt is too long"),
	} {
		t.Run(name, func(t *testing.T) {
			var logs strings.Builder
			s, all := scripted(t, Config{Window: 128_000, Logger: slog.New(slog.NewTextHandler(&logs, nil))}, func(_ int, r Request) (Answer, error) {
				if tokensOf(r) > 16_384 {
					return Answer{}, &Fault{Text: "status 400", Size: size}
				}
				return Answer{Text: "TASK: all is well"}, nil
			})
			in := input(40, 8000)
			if out, err := s.Summarize(t.Context(), in); err != nil || out.Text != "TASK: all is well" {
				t.Fatalf("%+v, %v", out, err)
			}
			refused := slices.IndexFunc(*all, func(r Request) bool { return tokensOf(r) <= 16_384 })
			if window, _, _ := s.reportedLimits.now(); refused < 1 || window > 16_384*2 || window < 8000 {
				t.Errorf("%d refused, then a window of %d", refused, window)
			}
			if !strings.Contains(logs.String(), "context_window") {
				t.Errorf("logs %q", logs.String())
			}
			first := len(*all)
			if _, err := s.Partial().Summarize(t.Context(), gsvInput(in)); err != nil && !errors.Is(err, ErrAnswer) {
				t.Error(err)
			}
			for _, r := range (*all)[first:] {
				if tokensOf(r) > 16_384 {
					t.Errorf("%d tokens are sent again", tokensOf(r))
				}
			}
		})
	}

	// One that takes nothing is not asked for ever.
	s, all := scripted(t, Config{Window: 128_000}, func(int, Request) (Answer, error) {
		return Answer{}, &Fault{Text: "status 400", Size: overflow.Read(400, "prompt is too long")}
	})
	if _, err := s.Summarize(t.Context(), input(1, 100)); !errors.Is(err, ErrProvider) || len(*all) != 6 {
		t.Errorf("%v after %d requests", err, len(*all))
	}
}

func gsvInput(in summary.Input) summary.Input {
	in.Template = "gsv"
	return in
}
