package engine_test

import (
	"context"
	"slices"
	"sync"
	"testing"

	"nexus/compactor"
	"nexus/compactor/summary"
	"nexus/ledger/api"
)

// S8-22: who waits for a compaction ("Organizing conversation…") learns
// how far it is. The other futures of the row have tests of their own names: the
// quality of a summary in compactor (survival), memories and search in later parts.
func TestProgressOfACompactionIsAnnounced(t *testing.T) {
	e := newWorld().Engine(t)
	e.Loader.Tiers = append([]compactor.Tier{asked(func(ctx context.Context, in summary.Input) (summary.Output, error) {
		in.ReportProgress(0, 2)
		in.ReportProgress(1, 2)
		return firstWords{}.Summarize(ctx, in)
	})}, e.Loader.Tiers...)
	var mu sync.Mutex
	var announced []string
	e.Writer.Notify = func(_, _ string, n api.Notification) {
		if n.Kind != "turn.appended" {
			mu.Lock()
			announced = append(announced, n.Kind+" "+string(n.Detail))
			mu.Unlock()
		}
	}
	works(t, e)
	s := create(t, e, 16_000, "balanced")
	untilDue(t, e, s.ID, 1500)
	look(t, e, s.ID)
	idle(e, s.ID)
	mu.Lock()
	defer mu.Unlock()
	want := []string{`compaction.progress {"parts":2,"parts_done":0}`, `compaction.progress {"parts":2,"parts_done":1}`}
	if len(announced) != 4 || announced[0][:18] != "compaction.started" || !slices.Equal(announced[1:3], want) || announced[3][:18] != "compaction.applied" {
		t.Errorf("told %q", announced)
	}
}
