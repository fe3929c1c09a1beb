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
// most 24 names whose head says where they were named; a line names its turn; what
// it says was in the turns; and nothing of it stands twice or is quoted next to it.
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
		body := turnAtEnd.ReplaceAllString(item, "")
		if n := 0; m != nil {
			if fmt.Sscan(m[1], &n); n < 1 || n > turns {
				t.Errorf("turn %d of %d: %q", n, turns, item)
			}
		}
		if !ok {
			t.Errorf("no item: %q in\n%s", item, got)
		}
		head, list, isList := cutLast(body, ": ")
		if isList = isList && (strings.HasPrefix(head, "under ") || strings.HasPrefix(head, "named in ") || strings.HasPrefix(head, "named by ")); !isList {
			if m == nil || !strings.Contains(source, body) || strings.Contains(others, body) {
				t.Errorf("a line without a turn, that nobody said, or one that stands above: %q in\n%s", body, got)
			}
			if strings.Count(body, " ") == 0 {
				t.Errorf("a bare name: %q", body)
			}
			continue
		}
		names := strings.Split(list, ", ")
		if len(names) > 24 {
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

// TestFactsAreLinesWithTheirTurnsOrShortLists holds checkFacts for random sessions,
// and that each section holds what its heading says: TASK what users said, DECISIONS
// what the agent said, PROGRESS calls and REMAINING what is open.
func TestFactsAreLinesWithTheirTurnsOrShortLists(t *testing.T) {
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
				body = strings.TrimPrefix(body, newest)
				ok = holds(users.String())
			case decisions:
				ok = holds(agents.String())
			case progress:
				ok = strings.HasPrefix(body, "$ make target_")
			case remaining:
				ok = strings.HasPrefix(body, "no response yet: $ make target_") || strings.HasPrefix(body, "not answered yet: ") || strings.HasPrefix(body, inWork)
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
	hs := []summary.HalfTurn{asked(1, "Begin."), answered(1, "I look.", call("1", "Bash", `{"command":"ls"}`)), result(2, "1", "alpha_one\nbeta_two\ngamma_three\n\n\n\nthe end", false)}
	whole := summarize(t, summary.Input{Halves: hs, MaxTokens: 300})
	wants(t, whole, "alpha_one, beta_two, gamma_three")
	got := summarize(t, summary.Input{Halves: hs, MaxTokens: 300, Quoted: "func beta_two() {}"})
	wants(t, got, "alpha_one, gamma_three")
	if strings.Contains(got, "beta_two") {
		t.Error(got)
	}
}

// A request that a person made stays if its words only occur in quoted code or in another
// sentence; one that is quoted as a sentence goes.
func TestRequestStaysUnlessItIsQuotedAsASentence(t *testing.T) {
	const long = "Please port the importer to the new format, and keep the old one until it is proven."
	hs := []summary.HalfTurn{asked(1, long), answered(1, "I begin."), asked(2, "fix it"), answered(2, "Done."), asked(3, "run tests"), answered(3, "Done."), asked(4, "Never push to main."), answered(4, "I will not.")}
	code := "func TODO() {} // fix it later, then run tests"
	said := long + "\nNever push to main.\nPlease do not run tests twice."
	got := summarize(t, summary.Input{Halves: hs, MaxTokens: 400, Quoted: said + "\n" + code, QuotedMessages: said})
	wants(t, got, "fix it", "run tests")
	for _, gone := range []string{"port the importer", "Never push"} {
		if strings.Contains(got, gone) {
			t.Errorf("%q stands beside the summary and in it:\n%s", gone, got)
		}
	}
}

// A fact is quoted by the newest line that somebody said of it.
func TestTheNewestLineStandsForAFact(t *testing.T) {
	hs := []summary.HalfTurn{asked(1, "Begin."), answered(1, "I set retry_limit to some value first."), answered(2, "Later I saw retry_limit fail with 70331."), answered(3, "Now it works with another.")}
	v := newInventory()
	for i, h := range hs {
		v.next(i + 1)
		v.spot = &spot{label: string(h.Messages[0].Role), depth: h.Depth}
		v.scan(summary.TextOf(&h.Messages[0]), fromAgent)
	}
	if got := v.data("", "", 100, tokens.Approx{}.Text); len(got) != 1 || got[0] != "Later I saw retry_limit fail with 70331. [t2]" {
		t.Errorf("%q", got)
	}
}

// An item of an earlier build has no turn, so it is read for its names only.
func TestAnItemWithoutATurnIsNotQuoted(t *testing.T) {
	hs := []summary.HalfTurn{answered(5, "", call("1", "Write", `{"file_path":"x.go","content":"foo_bar"}`))}
	got := summarize(t, summary.Input{Previous: "DATA\n- names: foo_bar 48213 abc_def", Halves: hs, MaxTokens: 300})
	if strings.Contains(got, "names: foo_bar 48213") {
		t.Error(got)
	}
	wants(t, got, "48213", "abc_def")
}

// What FACTS says in full does not fill DECISIONS as well.
func TestNoLineStandsInTwoSections(t *testing.T) {
	var hs []summary.HalfTurn
	for d := uint64(1); d <= 40; d++ {
		hs = append(hs, asked(d, "Go on."), answered(d, fmt.Sprintf("I found that handler_%d fails because of limit %d.", d, 1000+d)))
	}
	for budget := uint64(100); budget < 1500; budget += 100 {
		seen := make(map[string]bool)
		for line := range strings.SplitSeq(summarize(t, summary.Input{Halves: hs, MaxTokens: budget}), "\n") {
			for _, s := range strings.SplitAfter(line, ". ") {
				if s = strings.TrimPrefix(s, "- "); strings.HasPrefix(s, "I found") && seen[s] {
					t.Errorf("%q stands twice in %d tokens", s, budget)
				}
				seen[s] = true
			}
		}
	}
}
