package engine_test

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"

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
		system, tools := api.System{{Name: "instructions", Content: strings.Repeat("Be brief, and say what you did. ", 40_000/32)}}, make([]turns.Raw, 20)
		for i := range tools {
			tools[i] = turns.Raw(fmt.Sprintf(`{"name":"tool_%d","description":%q,"parameters":{"type":"object","properties":{"path":{"type":"string"},"limit":{"type":"integer"}},"required":["path"]}}`,
				i, strings.Repeat("What it does and when to use it. ", 8)))
		}
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
