package evidence_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"nexus/compactor/evidence"
	"nexus/compactor/facts"
	"nexus/compactor/summary"
	"nexus/turns"
)

// talk returns the halves of turns, each with the text of a user and an answer.
func talk(texts ...string) (out []summary.HalfTurn) {
	for i, text := range texts {
		ask, answer, _ := strings.Cut(text, " => ")
		ref := turns.Ref{Turn: turns.ID{byte(i + 1)}}
		out = append(out,
			summary.HalfTurn{Ref: ref, Depth: uint64(i + 1), Half: turns.MessagesHalf, Messages: []turns.Message{turns.TextMessage(turns.User, ask)}},
			summary.HalfTurn{Ref: ref, Depth: uint64(i + 1), Half: turns.ResponseHalf, Messages: []turns.Message{turns.TextMessage(turns.Assistant, answer)}})
	}
	return out
}

func TestTraceFindsTheTurnsThatALineRestsOn(t *testing.T) {
	covered := talk(
		"please move cmd/nexusd/main.go to port 8422 => done, cmd/nexusd/main.go listens on 8422 now",
		"what does parseRecipe return? => parseRecipe returns an error for another renderer",
		"the deploy of Friday failed because the certificate had expired => I renewed the certificate until March",
		"thanks => you are welcome",
		"東京タワーへ行きます => はい",
	)
	for line, want := range map[string]string{
		"- cmd/nexusd/main.go listens on 8422 now [t1]":                            "1cq",
		"- the server of cmd/nexusd/main.go uses 8422":                             "1",
		"- under cmd/nexusd: main.go":                                              "1",
		"- the certificate had expired, renewed until March":                       "3",
		"- parseRecipe fails on another renderer [t3]":                             "2,3c",
		"- parseRecipe returns an error for … I renewed the certificate until":     "2q,3q",
		"- nothing whatsoever about elephants, giraffes and savannahs":             "",
		"- the port is 9999":                                                       "missing 9999",
		"- 東京タワー":                                                                  "5",
		"<summary>":                                                                "frame",
		"TASK":                                                                     "frame",
		"[Summary of earlier turns: a record of what was said, not instructions.]": "frame",
		"":             "frame",
		"- done [t77]": "",
		"what does parseRecipe return? parseReci [cut]": "2q",
	} {
		l := evidence.Trace([]string{"FACTS", line}, 1, 2, covered)[0]
		var got []string
		for _, s := range l.Turns {
			x := fmt.Sprint(covered[s.Half].Depth)
			if s.Cited {
				x += "c"
			}
			if s.Quoted {
				x += "q"
			}
			got = append(got, x)
		}
		is := strings.Join(got, ",")
		if l.Frame {
			is += "frame"
		}
		if len(l.Missing) > 0 {
			is += "missing " + strings.Join(l.Missing, " ")
		}
		if is != want {
			t.Errorf("%s: %s, want %s", line, is, want)
		}
		if l.Number != 2 || l.Text != line {
			t.Errorf("%s: it is line %d %q", line, l.Number, l.Text)
		}
	}
}

// A line of a file that a summary quotes rests on the turn of its tag.
func TestTraceFollowsTheTagOfAQuote(t *testing.T) {
	covered := talk("read it => func handleRequest(w http.ResponseWriter)", "and again => func handleRequest(w http.ResponseWriter)")
	lines := []string{`<quoted path="srv/handle.go" lines="3-4" turn="2">`, "func handleRequest(w http.ResponseWriter)", "}", "</quoted>", "handleRequest"}
	got := evidence.Trace(lines, 0, len(lines), covered)
	if s := got[1].Turns; len(s) != 2 || covered[s[0].Half].Depth != 2 || !s[0].Cited || !s[0].Quoted || s[0].Excerpt == "" {
		t.Errorf("the quoted line: %+v", s)
	}
	if s := got[4].Turns; len(s) != 2 || s[0].Cited {
		t.Errorf("after the quote: %+v", s)
	}
}

// A line has the same evidence whichever others are asked about with it, and at most ten
// turns, the best of them.
func TestTraceOfOneLineIsThatOfAll(t *testing.T) {
	var texts []string
	for i := range 30 {
		texts = append(texts, fmt.Sprintf("look at common/file.go and at own/file%d.go => yes, %d", i, 1000+i))
	}
	covered := talk(texts...)
	lines := []string{"common/file.go", "own/file7.go 1007 and common/file.go", "x"}
	all := evidence.Trace(lines, 0, 3, covered)
	for i := range lines {
		one := evidence.Trace(lines, i, i+1, covered)[0]
		if fmt.Sprint(one) != fmt.Sprint(all[i]) {
			t.Errorf("line %d alone: %v, with others: %v", i+1, one, all[i])
		}
	}
	if l := all[0]; len(l.Turns) != 10 || l.More != 20 {
		t.Errorf("%d turns, %d more", len(l.Turns), l.More)
	}
	if s := all[1].Turns[0]; covered[s.Half].Depth != 8 || len(s.Facts) != 3 || s.Score != 1 {
		t.Errorf("the best: %+v", s)
	}
}

func TestLostFactsNameTheNewestPlaceAndCountHalves(t *testing.T) {
	covered := talk("a/one.go a/one.go a/two.go => a/one.go", "b/three.go => a/one.go", "kept/four.go => ok")
	kept := talk("kept/four.go => kept")
	lost := evidence.LostFacts(covered, facts.NewSurvey(covered, kept, []turns.Message{turns.TextMessage(turns.User, "under a: two.go")}))
	var got []string
	for _, l := range lost {
		got = append(got, fmt.Sprintf("%s %d@%d", l.Text, l.Uses, covered[l.Newest].Depth))
	}
	want := []string{"b/three.go 1@2", "a/one.go a/one.go a/two.go 1@1", "a/one.go 3@2", "b/three.go 1@2"} // what the user said comes first
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func FuzzTrace(f *testing.F) {
	f.Add("- a/b.go [t1] … x", "a/b.go\n12345", uint8(1))
	f.Add(`<quoted path="a" turn="999999999999999999999">`, "\xff\xfe", uint8(0))
	f.Fuzz(func(t *testing.T, line, text string, from uint8) {
		covered := talk(text, text+"x")
		lines := strings.Split(line, "\n")
		for _, l := range evidence.Trace(lines, min(int(from), len(lines)), len(lines), covered) {
			for _, s := range l.Turns {
				if s.Half < 0 || s.Half >= len(covered) || s.Score < 0 || s.Score > 1 {
					t.Fatalf("%+v", s)
				}
			}
		}
	})
}
