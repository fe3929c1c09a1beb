package compactor

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"nexus/compactor/plan"
	"nexus/compactor/policy"
	"nexus/compactor/view"
	"nexus/turns"
	"nexus/turns/tokens"
)

const policiesDocs = "../docs/policies/"

// setting is a field of a policy as a session sets it.
type setting struct {
	name, kind, balanced string
}

// settingsOf returns all settings of p, in order.
func settingsOf(p reflect.Value, prefix string) (out []setting) {
	for i := range p.NumField() {
		f := p.Type().Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "name" || name == "version" {
			continue
		}
		v := p.Field(i)
		s := setting{name: prefix + name}
		switch f.Type.Kind() {
		case reflect.Struct:
			out = append(out, settingsOf(v, name+".")...)
			continue
		case reflect.String:
			s.kind, s.balanced = "text", strconv.Quote(v.String())
		case reflect.Bool:
			s.kind, s.balanced = "true, false", fmt.Sprint(v.Bool())
		case reflect.Float64:
			s.kind, s.balanced = "share", fmt.Sprint(v.Float())
		case reflect.Uint64:
			s.kind, s.balanced = "number", fmt.Sprint(v.Uint())
		case reflect.Uint8:
			s.kind, s.balanced = "hour", fmt.Sprint(v.Interface().(policy.Hour).Of())
		case reflect.Slice:
			s.kind, s.balanced = "list", "none"
		default:
			panic(f.Type)
		}
		out = append(out, s)
	}
	return out
}

// docTable returns the rows of the table of settings, by their cells.
func docTable(t *testing.T) (rows [][]string) {
	t.Helper()
	b, err := os.ReadFile(policiesDocs + "README.md")
	must(t, err)
	_, table, ok := strings.Cut(string(b), "<!-- settings begin -->")
	table, _, ok2 := strings.Cut(table, "<!-- settings end -->")
	if !ok || !ok2 {
		t.Fatal("no table of settings")
	}
	for line := range strings.Lines(table) {
		if !strings.HasPrefix(line, "| `") {
			continue
		}
		cells := strings.Split(strings.Trim(line, "| \n"), "|")
		for i := range cells {
			cells[i] = strings.Trim(strings.TrimSpace(cells[i]), "`")
		}
		rows = append(rows, cells)
	}
	return rows
}

// The table of settings in the docs is the struct's: each field once, in its
// order, of its kind, with the value that balanced has.
func TestSettingsTable(t *testing.T) {
	want := settingsOf(reflect.ValueOf(builtin("balanced")), "")
	var got []setting
	for _, row := range docTable(t) {
		if len(row) != 5 || row[4] == "" {
			t.Errorf("%v: %d cells", row[0], len(row))
			continue
		}
		kind := row[1]
		switch {
		case strings.HasPrefix(kind, "list of"):
			kind = "list"
		case kind == "times":
			kind = "share"
		case kind == "tokens" || kind == "turns" || kind == "messages" || kind == "characters" || kind == "seconds" || kind == "minutes" || kind == "days" || kind == "memories" || kind == "tries":
			kind = "number"
		}
		got = append(got, setting{row[0], kind, row[2]})
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(setting{})); diff != "" {
		t.Errorf("docs/policies/README.md (-struct +docs):\n%s", diff)
	}
}

// Validate accepts the range that the table gives for a number, and nothing outside.
func TestSettingsRanges(t *testing.T) {
	base := builtin("balanced")
	n := 0
	for _, row := range docTable(t) {
		bounds, ok := strings.CutPrefix(row[3], "[")
		lo, hi, ok2 := strings.Cut(strings.TrimSuffix(bounds, "]"), ", ")
		if !ok || !ok2 {
			continue
		}
		n++
		with := func(v string) error {
			set := `{"` + row[0] + `":` + v + `}`
			if of, name, inner := strings.Cut(row[0], "."); inner {
				set = `{"` + of + `":{"` + name + `":` + v + `}}`
			}
			_, err := base.With(turns.Raw(set))
			return err
		}
		hi = strings.ReplaceAll(hi, "2^40", fmt.Sprint(uint64(1)<<40))
		top, err := strconv.ParseFloat(hi, 64)
		must(t, err)
		over := fmt.Sprint(top + 0.01)
		if row[1] != "share" {
			over = fmt.Sprint(uint64(top) + 1)
		}
		for _, v := range []string{lo, hi} {
			if err := with(v); err != nil && (strings.Contains(err.Error(), "is outside") || strings.Contains(err.Error(), "is over")) {
				t.Errorf("%s: %s is in the range, and refused: %v", row[0], v, err)
			}
		}
		if err := with(over); err == nil {
			t.Errorf("%s: %s is over the range, and accepted", row[0], over)
		}
		if bottom, _ := strconv.ParseFloat(lo, 64); bottom > 0 {
			tooSmall := fmt.Sprint(bottom / 2)
			if row[1] != "share" {
				tooSmall = fmt.Sprint(uint64(bottom) - 1)
			}
			if err := with(tooSmall); err == nil {
				t.Errorf("%s: %s is below the range, and accepted", row[0], tooSmall)
			}
		}
	}
	if n < 30 {
		t.Errorf("%d ranges are read", n)
	}
}

// The page of balanced shows the numbers that the policy has in some windows.
func TestBalancedPage(t *testing.T) {
	b, err := os.ReadFile(policiesDocs + "balanced.md")
	must(t, err)
	pol := builtin("balanced")
	n := 0
	for line := range strings.Lines(string(b)) {
		var v []uint64
		for _, cell := range strings.Split(strings.Trim(line, "| \n"), " | ") {
			x, err := strconv.ParseUint(strings.ReplaceAll(cell, ",", ""), 10, 64)
			if err == nil {
				v = append(v, x)
			}
		}
		if len(v) != 5 {
			continue
		}
		n++
		s := plan.SizesOf(view.Path{Limits: turns.Limits{ContextWindow: v[0]}}, pol, turns.Trigger{}, 0)
		if got := []uint64{s.Window, s.Budget, s.Trigger, s.Target, s.Summary}; !slices.Equal(got, v) || s.Keep != min(2_000, s.Target-s.Summary-s.Quotes) {
			t.Errorf("the page has %v, the policy %v and keeps %d", v, got, s.Keep)
		}
	}
	if n < 4 {
		t.Errorf("%d rows of numbers", n)
	}
	// Where the trigger's two bounds meet.
	for _, window := range []uint64{108_000, 338_000} {
		at := plan.Threshold(view.Path{Limits: turns.Limits{ContextWindow: window}}, pol)
		if ratio := tokens.Share(pol.Budget(turns.Limits{ContextWindow: window}), pol.TriggerRatio); at != ratio || at != window-min(pol.ReserveTokens, window/4) {
			t.Errorf("in %d: due at %d, the ratio says %d, the reserve %d", window, at, ratio, window-min(pol.ReserveTokens, window/4))
		}
	}
}

// Every {"policy": …} that a page shows as an example is one that a session can
// have, and overrides only what it names.
func TestPolicyExamples(t *testing.T) {
	pages, err := filepath.Glob(policiesDocs + "*.md")
	must(t, err)
	n := 0
	for _, page := range pages {
		b, err := os.ReadFile(page)
		must(t, err)
		for i, block := range strings.Split(string(b), "```json\n")[1:] {
			block, _, _ = strings.Cut(block, "```")
			if !strings.HasPrefix(block, `{"policy":`) {
				continue
			}
			n++
			var v struct {
				Policy struct {
					Name string    `json:"name"`
					Set  turns.Raw `json:"set"`
				} `json:"policy"`
			}
			if err := turns.DecodeJSON([]byte(block), &v); err != nil {
				t.Errorf("%s, block %d: %v", page, i+1, err)
				continue
			}
			if _, err := policy.Resolve(turns.PolicyRef{Name: v.Policy.Name, Set: v.Policy.Set}); err != nil {
				t.Errorf("%s, block %d: %v", page, i+1, err)
			}
		}
	}
	if n == 0 {
		t.Error("no page has an example")
	}
	p, err := builtin("wolffish").With(turns.Raw(`{"elide":{"protect_recent":5}}`))
	must(t, err)
	want := builtin("wolffish")
	want.Elide.ProtectRecent = 5
	if diff := cmp.Diff(want, p); diff != "" {
		t.Errorf("one setting inside elide (-want +got):\n%s", diff)
	}
}
