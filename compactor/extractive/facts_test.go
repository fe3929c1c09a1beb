package extractive

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"nexus/compactor/summary"
	"nexus/turns/tokens"
)

var turnAtEnd = regexp.MustCompile(` \[t(\d+)\]$`)

// checkFacts holds every item of FACTS: it is a line that was said, or a list of at
// most eight names whose head says where they were named; it names its turn; what it
// says was in the turns; and nothing of it stands twice or is quoted next to it.
func checkFacts(t interface{ Errorf(string, ...any) }, got, source, quoted string, turns int) {
	_, facts, _ := strings.Cut("\n"+got, "\nFACTS\n")
	others, _, _ := strings.Cut(got, "FACTS\n")
	seen := make(map[string]bool)
	for _, item := range strings.Split(strings.TrimSuffix(facts, "\n"), "\n") {
		if item == "" {
			continue
		}
		item, ok := strings.CutPrefix(item, "- ")
		m := turnAtEnd.FindStringSubmatch(item)
		if !ok || m == nil {
			t.Errorf("no item with a turn: %q in\n%s", item, got)
			continue
		}
		if n := 0; true {
			if fmt.Sscan(m[1], &n); n < 1 || n > turns {
				t.Errorf("turn %d of %d: %q", n, turns, item)
			}
		}
		body := strings.TrimSuffix(item, m[0])
		head, list, isList := cutLast(body, ": ")
		if isList = isList && (strings.HasPrefix(head, "under ") || strings.HasPrefix(head, "named in ") || strings.HasPrefix(head, "named by ")); !isList {
			if !strings.Contains(source, body) || strings.Contains(others, body) {
				t.Errorf("a line that nobody said, or one that stands above: %q in\n%s", body, got)
			}
			if strings.Count(body, " ") == 0 {
				t.Errorf("a bare name: %q", body)
			}
			continue
		}
		names := strings.Split(list, ", ")
		if len(names) > 8 {
			t.Errorf("%d names in a row: %q", len(names), body)
		}
		for _, n := range names {
			whole := n
			if folder, ok := strings.CutPrefix(head, "under "); ok {
				whole = folder + n
			}
			if n == "" || strings.Contains(n, " ") || !strings.Contains(source, whole) || seen[whole] || strings.Contains(quoted, " "+whole+" ") {
				t.Errorf("name %q: empty, not in the turns, twice, or quoted already; in %q of\n%s", whole, body, got)
			}
			seen[whole] = true
		}
	}
}

func cutLast(s, sep string) (before, after string, ok bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

// TestFactsAreLinesOrShortListsWithTheirTurns holds checkFacts for random sessions,
// and that each section holds what its heading says: TASK what users said, DECISIONS
// what the agent said, PROGRESS calls and REMAINING what is open.
func TestFactsAreLinesOrShortListsWithTheirTurns(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var hs []summary.HalfTurn
		var users, agents, all strings.Builder
		n := rapid.IntRange(1, 40).Draw(t, "turns")
		quoted := ""
		for d := 1; d <= n; d++ {
			id := fmt.Sprint(d)
			ask := fmt.Sprintf("Please check wish_%d in /srv/app%d/u%d.go now.", d, d%3, d)
			say := fmt.Sprintf("I found that cause_%d breaks lib%d/a_%d.go today.", d, d%4, d)
			out := ""
			for i := range rapid.IntRange(0, 20).Draw(t, "names") {
				out += fmt.Sprintf("the output shows out_%d_%d here\n", d, i)
				if rapid.IntRange(0, 9).Draw(t, "quoted") == 0 {
					quoted += fmt.Sprintf(" out_%d_%d ", d, i)
				}
			}
			out += fmt.Sprintf("bare_%d_a bare_%d_b\nx%d_alone", d, d, d)
			command := fmt.Sprintf("make target_%d", d)
			hs = append(hs, asked(uint64(d), ask), answered(uint64(d), say, call(id, "Bash", fmt.Sprintf(`{"command":%q}`, command))))
			users.WriteString(ask + "\n")
			agents.WriteString(say + "\n")
			all.WriteString(ask + "\n" + say + "\n" + command + "\n" + out + "\n")
			if rapid.IntRange(0, 4).Draw(t, "waits") > 0 {
				hs = append(hs, result(uint64(d), id, out, false))
			}
		}
		budget := rapid.Uint64Range(40, 3000).Draw(t, "budget")
		out, err := New(Config{}).Summarize(t.Context(), summary.Input{Halves: hs, MaxTokens: budget, Quoted: quoted})
		if err != nil {
			t.Fatal(err)
		}
		if got := (tokens.Approx{}).Text(out.Text); got > budget {
			t.Fatalf("%d tokens of %d", got, budget)
		}
		checkFacts(t, out.Text, all.String(), quoted, n)
		section := ""
		for line := range strings.SplitSeq(out.Text, "\n") {
			item, ok := strings.CutPrefix(line, "- ")
			if !ok {
				section = line
				continue
			}
			body := turnAtEnd.ReplaceAllString(item, "")
			holds := func(whole string) bool {
				return strings.Contains(whole, strings.TrimSuffix(body, "…")) && body != ""
			}
			switch section {
			case task:
				ok = holds(users.String())
			case decisions:
				ok = holds(agents.String())
			case progress:
				ok = strings.HasPrefix(body, "$ make target_")
			case remaining:
				ok = strings.HasPrefix(body, "no response yet: $ make target_") || strings.HasPrefix(body, "not answered yet: ")
			case data:
			default:
				ok = false
			}
			if !ok {
				t.Fatalf("%q under %s:\n%s", item, section, out.Text)
			}
		}
	})
}

// What is quoted next to the summary stands in no list.
func TestFactsLeaveOutWhatIsQuoted(t *testing.T) {
	hs := []summary.HalfTurn{asked(1, "Begin."), answered(1, "I look.", call("1", "Bash", `{"command":"ls"}`)), result(2, "1", "alpha_one\nbeta_two\ngamma_three", false)}
	whole := summarize(t, summary.Input{Halves: hs, MaxTokens: 300})
	wants(t, whole, "alpha_one, beta_two, gamma_three [t2]")
	got := summarize(t, summary.Input{Halves: hs, MaxTokens: 300, Quoted: "func beta_two() {}"})
	wants(t, got, "alpha_one, gamma_three [t2]")
	if strings.Contains(got, "beta_two") {
		t.Error(got)
	}
}
