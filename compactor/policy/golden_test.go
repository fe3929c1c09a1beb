package policy

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"nexus/turns"
)

// TestGoldenSizes compares the sizes that policies have in windows, and the
// faults that Validate lists, with the files of testdata/golden. A change on
// purpose writes them again:
//
//	go test ./compactor/policy -run TestGoldenSizes -rewrite
func TestGoldenSizes(t *testing.T) {
	datadriven.Walk(t, "testdata/golden", func(t *testing.T, file string) {
		datadriven.RunTest(t, file, func(t *testing.T, d *datadriven.TestData) string {
			p := builtin("balanced")
			if d.HasArg("policy") {
				var name string
				d.ScanArgs(t, "policy", &name)
				p = builtin(name)
			}
			switch d.Cmd {
			case "sizes":
				return sizesOf(t, d, p)
			case "faults":
				// Each line is an override; the answer is what is wrong with it.
				var b strings.Builder
				for line := range strings.SplitSeq(strings.ReplaceAll(d.Input, "REPEAT", strings.Repeat("x", 100)), "\n") {
					_, err := p.With(turns.Raw(line))
					if err == nil {
						b.WriteString("valid\n")
						continue
					}
					b.WriteString(strings.ReplaceAll(err.Error(), "\n", " | ") + "\n")
				}
				return b.String()
			}
			t.Fatalf("%s: no such command %q", d.Pos, d.Cmd)
			return ""
		})
	})
}

// sizesOf writes one line of sizes for each line "WINDOW OVERHEAD [RATIO [BUDGET]] [overflow]".
func sizesOf(t *testing.T, d *datadriven.TestData, p Policy) string {
	t.Helper()
	if d.HasArg("set") {
		for _, arg := range d.CmdArgs {
			if arg.Key == "set" {
				with, err := p.With(turns.Raw("{" + strings.ReplaceAll(strings.Join(arg.Vals, ","), "=", ":") + "}"))
				must(t, err)
				p = with
			}
		}
	}
	var b strings.Builder
	for line := range strings.SplitSeq(d.Input, "\n") {
		line, overflow := strings.CutSuffix(line, " overflow")
		n := make([]float64, 4)
		for i, f := range strings.Fields(line) {
			var err error
			n[i], err = strconv.ParseFloat(f, 64)
			must(t, err)
		}
		limits := turns.Limits{ContextWindow: uint64(n[0])}
		s := p.Scale(Bounds{Limits: limits, Overhead: uint64(n[1]), Ratio: n[2], Budget: uint64(n[3]), Overflow: overflow})
		v := reflect.ValueOf(s)
		for i := range v.NumField() {
			fmt.Fprintf(&b, "%s %v  ", v.Type().Field(i).Name, v.Field(i).Interface())
		}
		b.WriteString("\n")
	}
	return b.String()
}

// The stated limits of a session replace the policy's, and the budget is
// never less than a quarter of the window.
func TestBudgetOfStatedLimits(t *testing.T) {
	p := Policy{ContextWindow: 100_000, MaxOutputTokens: 16_000, SafetyMargin: 2_000}
	for _, c := range []struct {
		limits turns.Limits
		want   uint64
	}{
		{turns.Limits{}, 82_000},
		{turns.Limits{ContextWindow: 1_000}, 730}, // a quarter for the output, a fiftieth for the margin
		{turns.Limits{ContextWindow: 50_000, MaxOutputTokens: 40_000}, 12_500},
		{turns.Limits{ContextWindow: 50_000, MaxOutputTokens: 10_000, SafetyMargin: 1}, 39_999},
		{turns.Limits{ContextWindow: 50_000, MaxOutputTokens: 90_000}, 12_500},
		{turns.Limits{ContextWindow: MaxTokens + 5, MaxOutputTokens: 1, SafetyMargin: 1}, MaxTokens - 2},
		{turns.Limits{ContextWindow: 1}, 1},
	} {
		if got := p.Budget(c.limits); got != c.want {
			t.Errorf("%+v: %d, want %d", c.limits, got, c.want)
		}
	}
}

func TestEstimatedBudgetKeepsHalfOfWhatOverheadLeaves(t *testing.T) {
	for _, c := range []struct {
		budget, overhead uint64
		ratio            float64
		want             uint64
	}{
		{1000, 0, 0, 1000}, {1000, 0, 1, 1000}, {1000, 0, 1.25, 800}, {1000, 0, 2, 500}, {1000, 0, 4, 500}, {1001, 0, 4, 501},
		{1000, 600, 2, 800}, {1000, 600, 1.1, 909}, {1000, 1000, 2, 1000}, {1000, 999, 2, 1000}, {1000, 2000, 2, 1000},
	} {
		if got := EstimatedBudget(c.budget, c.overhead, c.ratio); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
}

func TestInApproxNeverCountsMore(t *testing.T) {
	for counter, want := range map[string]uint64{"": 1000, "approx-1": 1000, "gsv-1": 0, "spec008-1": 0, "o200k-1": 0} {
		got := Policy{Counter: counter}.InApprox(1000)
		if got > 1000 || got == 0 || want > 0 && got != want {
			t.Errorf("%s: 1000 tokens are %d of approx-1", counter, got)
		}
	}
}

func TestUnlimitedOnlyWithoutAWindow(t *testing.T) {
	for _, c := range []struct {
		require bool
		window  uint64
		want    bool
	}{{true, 0, true}, {true, 1, false}, {false, 0, false}, {false, 1, false}} {
		if got := (Policy{RequireWindow: c.require}).Unlimited(turns.Limits{ContextWindow: c.window}); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}
