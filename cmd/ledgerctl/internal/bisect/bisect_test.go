package bisect

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
)

// run returns turns and a run from a line of letters: + passes, - fails, s skips, ? is not
// known, c is a compaction.
func run(outcomes string) ([]Turn, Run, *int) {
	var path []Turn
	by := make(map[string]Outcome)
	for i, c := range outcomes {
		t := Turn{Name: fmt.Sprint("t", i), Tree: fmt.Sprint("tree", i)}
		switch c {
		case '?':
			t.Tree = ""
		case 'c':
			t.Tree, t.Still = "", true
		default:
			by[t.Tree] = map[rune]Outcome{'+': Pass, '-': Fail, 's': Skip}[c]
		}
		path = append(path, t)
	}
	n := new(int)
	return path, func(_ context.Context, t Turn) (Outcome, error) { *n++; return by[t.Tree], nil }, n
}

func TestSearchNamesTheFirstTurnThatFailsOrTheRangeItIsIn(t *testing.T) {
	for _, x := range []struct {
		outcomes  string
		every     bool
		good, bad int
		between   []int
		turned    []int
		err       error
	}{
		{outcomes: "+-", good: 0, bad: 1},
		{outcomes: "+++++---", good: 4, bad: 5},
		{outcomes: "-", good: -1, bad: 0},
		{outcomes: "---", good: -1, bad: 0},
		{outcomes: "??--", good: -1, bad: 2, between: []int{0, 1}},
		{outcomes: "+??-", good: 0, bad: 3, between: []int{1, 2}},
		{outcomes: "+c-", good: 0, bad: 2},
		{outcomes: "+ss-", good: 0, bad: 3, between: []int{1, 2}},
		{outcomes: "++s+s--", good: 3, bad: 5, between: []int{4}},
		{outcomes: "s+-s", good: 1, bad: 2},
		{outcomes: "s-s", good: -1, bad: 1, between: []int{0}},
		{outcomes: "+++", err: ErrNeverFail},
		{outcomes: "sss", err: ErrSkipped},
		{outcomes: "???", err: ErrNoTrees},
		{outcomes: "+-+-s-+-", every: true, good: 0, bad: 1, turned: []int{1, 3, 7}},
		{outcomes: "+?-+", every: true, good: 0, bad: 2, between: []int{1}, turned: []int{2}},
		{outcomes: "+s+", every: true, err: ErrNeverFail},
		{outcomes: "ss", every: true, err: ErrSkipped},
	} {
		path, r, _ := run(x.outcomes)
		got, err := Search(t.Context(), path, x.every, r)
		if x.err != nil {
			if !errors.Is(err, x.err) {
				t.Errorf("%s: %v, want %v", x.outcomes, err, x.err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", x.outcomes, err)
			continue
		}
		got.Ran = 0
		if want := (&Result{Good: x.good, Bad: x.bad, Between: x.between, Turned: x.turned}); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, want %+v", x.outcomes, got, want)
		}
	}
}

// For each place of the failure and each pattern of skipped and unknown turns, the answer
// is right and as narrow as a run of all trees makes it.
func TestSearchIsAsNarrowAsARunOfAllTrees(t *testing.T) {
	const n = 6
	for first := range n {
		for pattern := range 729 { // 3^6
			line := make([]byte, n)
			for i, p := 0, pattern; i < n; i, p = i+1, p/3 {
				line[i] = '+'
				if i >= first {
					line[i] = '-'
				}
				if p%3 > 0 {
					line[i] = "s?"[p%3-1]
				}
			}
			path, r, _ := run(string(line))
			got, err := Search(t.Context(), path, false, r)
			want, err2 := Search(t.Context(), path, true, r)
			if (err == nil) != (err2 == nil) {
				t.Fatalf("%s: %v, and with all trees %v", line, err, err2)
			}
			if err == nil && (got.Good != want.Good || got.Bad != want.Bad || !slices.Equal(got.Between, want.Between)) {
				t.Fatalf("%s: %+v, and with all trees %+v", line, got, want)
			}
		}
	}
}

func TestSearchRunsLogarithmicallyManyTreesAndEqualOnesOnce(t *testing.T) {
	line := make([]byte, 1000)
	for i := range line {
		line[i] = '+'
		if i >= 700 {
			line[i] = '-'
		}
	}
	path, r, ran := run(string(line))
	got, err := Search(t.Context(), path, false, r)
	if err != nil || got.Bad != 700 || *ran > 12 || got.Ran != *ran {
		t.Errorf("%+v, %v after %d runs", got, err, *ran)
	}
	for i := range path {
		path[i].Tree = path[i/250*250].Tree
	}
	if _, err := Search(t.Context(), path, true, r); err != nil || *ran > 16 {
		t.Errorf("%v, and %d runs for four trees more", err, *ran)
	}
}
