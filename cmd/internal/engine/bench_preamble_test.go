package engine_test

import (
	"fmt"
	"slices"
	"syscall"
	"testing"

	"nexus/cmd/internal/engine/enginetest"
	"nexus/ledger/api"
	"nexus/turns"
)

// BenchmarkAppendBesidePreamble compares appends to a session with 40 kB of system text and 20
// tools with those to one without, by the processor time of this process, in ten rounds that
// take turns. It reports the median of the rounds' ratios, and the lowest and highest.
//
//	go test ./cmd/internal/engine -run '^$' -bench AppendBesidePreamble -benchtime 1x
func BenchmarkAppendBesidePreamble(b *testing.B) {
	const rounds, each = 10, 2000
	for b.Loop() {
		e := benchEngine(b, newWorld())
		bare := must(e.Sessions.Create(b.Context(), alice, api.CreateSession{}, nil))(b).ID
		system, tools := enginetest.Preamble(40_000)
		full := must(e.Sessions.Create(b.Context(), alice, api.CreateSession{SessionSettings: api.SessionSettings{System: &system, Tools: &tools}}, nil))(b).ID
		used := func(s turns.ID) float64 {
			before := processorTime()
			for range each {
				must(e.Sessions.Append(b.Context(), alice, s, say(long(1000), long(1000)), nil))(b)
			}
			return processorTime() - before
		}
		used(bare)
		used(full)
		ratios := make([]float64, rounds)
		for i := range ratios {
			if i%2 == 0 { // as often before as after
				with := used(full)
				ratios[i] = with / used(bare)
			} else {
				without := used(bare)
				ratios[i] = used(full) / without
			}
		}
		slices.Sort(ratios)
		b.ReportMetric(0, "ns/op")
		b.ReportMetric((ratios[rounds/2-1]+ratios[rounds/2])/2, "cpu-ratio")
		b.ReportMetric(ratios[0], "lowest")
		b.ReportMetric(ratios[rounds-1], "highest")
	}
}

// processorTime returns the seconds of processor time that this process has used.
func processorTime() float64 {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}

// BenchmarkForkBesidePreamble is fork.create of a session with a system part of so many bytes and
// 20 tools, and session.create with them.
func BenchmarkForkBesidePreamble(b *testing.B) {
	for _, n := range []int{0, 40_000, 400_000} {
		e := benchEngine(b, newWorld())
		var r api.CreateSession
		if n > 0 {
			system, tools := enginetest.Preamble(n)
			r.System, r.Tools = &system, &tools
		}
		s := must(e.Sessions.Create(b.Context(), alice, r, nil))(b).ID
		at := must(e.Sessions.Append(b.Context(), alice, s, say(long(1000), long(1000)), nil))(b).ID
		b.Run(fmt.Sprintf("fork/%d", n), func(b *testing.B) {
			for b.Loop() {
				must(e.Forks.Fork(b.Context(), alice, s, api.CreateFork{Turn: at}, nil))(b)
			}
		})
		b.Run(fmt.Sprintf("create/%d", n), func(b *testing.B) {
			for b.Loop() {
				must(e.Sessions.Create(b.Context(), alice, r, nil))(b)
			}
		})
		had := must(e.Contexts.Context(b.Context(), alice, s, api.GetContext{Format: "anthropic"}))(b)
		for name, have := range map[string]*api.Have{"have": {Fingerprint: had.Fingerprint, Preamble: had.PreambleDigest}, "whole": nil} {
			b.Run(fmt.Sprintf("context/%s/%d", name, n), func(b *testing.B) {
				for b.Loop() {
					c := must(e.Contexts.Context(b.Context(), alice, s, api.GetContext{Format: "anthropic", Have: have}))(b)
					must(c.AppendJSON(nil))(b)
				}
			})
		}
	}
}
