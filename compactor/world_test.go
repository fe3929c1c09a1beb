package compactor

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"nexus/compactor/compactortest"
	"nexus/compactor/plan"
	"nexus/compactor/policy"
	"nexus/compactor/summary"
	"nexus/turns"
	"nexus/turns/tokens"
)

// world is a session that compacts.
type world struct{ *compactortest.Session }

func longWorld(t testing.TB) *world { return &world{compactortest.NewLongSession(t)} }

func newWorld() *world { return &world{compactortest.NewSession()} }

var approx = tokens.Approx{}

var (
	testID, must, builtin, checkPairs = compactortest.NewID, compactortest.Must, compactortest.Builtin, compactortest.CheckPairs
	user, says, result, tool, words   = compactortest.User, compactortest.Says, compactortest.Result, compactortest.Tool, compactortest.Words
	behind, resultIn                  = compactortest.Behind, compactortest.ResultIn
)

// compaction commits r at the head.
func (w *world) compaction(r Result) error { return w.Commit(r.Span, r.Body) }

// stub is a summarizer that quotes as much as it may of what it is given.
type stub struct{}

func (stub) Summarize(_ context.Context, in summary.Input) (summary.Output, error) {
	text := in.Previous
	for _, h := range in.Halves {
		for i := range h.Messages {
			if s := summary.TextOf(&h.Messages[i]); s != "" {
				text += "\n" + s
			}
		}
	}
	for approx.Text(summary.Escape(text)) > in.MaxTokens {
		text = strings.ToValidUTF8(text[:len(text)*9/10], "")
	}
	if strings.TrimSpace(text) == "" {
		text = "nothing"
	}
	return summary.Output{Text: text}, nil
}

var stubTiers = []Tier{{Name: "stub", Summarizer: stub{}}}

// compact plans, runs and commits.
func (w *world) compact(pol policy.Policy, trigger string, opt plan.Options) (*plan.Plan, error) {
	pl, err := plan.New(w.Path(), pol, turns.Trigger{Kind: trigger}, opt)
	if err != nil {
		return nil, err
	}
	r, err := Run(context.Background(), pl, stubTiers, pl.Path.Counter, nil)
	if err != nil {
		return nil, err
	}
	if err := w.compaction(r); err != nil {
		return nil, fmt.Errorf("commit: %w", err)
	}
	return pl, nil
}
