package engine_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"nexus/compactor"
	"nexus/compactor/extractive"
	"nexus/ledger/api"
	"nexus/turns"
)

var (
	locomo     = flag.Bool("locomo", false, "search the conversations of ../shared/data/locomo")
	locomoHalf = flag.String("locomo-half", "", "only this half: development or held out")
)

// talk is a conversation of LoCoMo (Maharana and others, 2024): what two people said on many
// days, and questions with the utterances that answer them.
type talk struct {
	name, half string
	said       []utterance
	questions  []locomoQuestion
}

type utterance struct {
	id, speaker, text string
	at                time.Time
}

type locomoQuestion struct {
	text, answer string
	evidence     []int // of said
}

var utteranceID = regexp.MustCompile(`D\d+:\d+`)

func readTalks(t *testing.T) (out []talk) {
	t.Helper()
	names, err := filepath.Glob("../../../../shared/data/locomo/conv-*.json")
	if err != nil {
		t.Fatal(err)
	}
	for i, name := range names {
		var file struct {
			Conversation map[string]json.RawMessage
			QA           []struct {
				Question string
				Answer   any
				Evidence []string
			}
		}
		if err := json.Unmarshal(must(os.ReadFile(name))(t), &file); err != nil {
			t.Fatal(err)
		}
		x := talk{name: filepath.Base(name), half: "development"}
		if i%2 == 1 {
			x.half = "held out"
		}
		places := make(map[string]int)
		for n := 1; file.Conversation["session_"+strconv.Itoa(n)] != nil; n++ {
			var day []struct {
				Speaker, Text string
				ID            string `json:"dia_id"`
			}
			if err := json.Unmarshal(file.Conversation["session_"+strconv.Itoa(n)], &day); err != nil {
				t.Fatal(err)
			}
			var when string
			if err := json.Unmarshal(file.Conversation["session_"+strconv.Itoa(n)+"_date_time"], &when); err != nil {
				t.Fatal(err)
			}
			at := must(time.Parse("3:04 pm on 2 January, 2006", when))(t)
			for _, u := range day {
				places[u.ID] = len(x.said)
				x.said = append(x.said, utterance{u.ID, u.Speaker, u.Text, at})
			}
		}
		for _, q := range file.QA {
			one := locomoQuestion{text: q.Question}
			if q.Answer != nil {
				one.answer = fmt.Sprint(q.Answer)
			}
			for _, e := range q.Evidence {
				for _, id := range utteranceID.FindAllString(e, -1) {
					if at, ok := places[id]; ok {
						one.evidence = append(one.evidence, at)
					}
				}
			}
			if len(one.evidence) > 0 {
				x.questions = append(x.questions, one)
			}
		}
		out = append(out, x)
	}
	return out
}

// TestLoCoMo asks search.query the questions of LoCoMo over conversations that were compacted
// six times, each a session, each utterance a turn. Ranking was chosen on the development
// half alone. It runs with -locomo.
func TestLoCoMo(t *testing.T) {
	if !*locomo {
		t.Skip("-locomo")
	}
	talks := readTalks(t)
	if len(talks) == 0 {
		t.Skip("no ../shared/data/locomo")
	}
	type score struct{ asked, any, near, held, answers int }
	halves := make(map[string]*score)
	for _, x := range talks {
		if *locomoHalf != "" && x.half != *locomoHalf {
			continue
		}
		w := newWorld()
		e, stop := w.SearchEngine(t, t.TempDir())
		e.Loader.Tiers = []compactor.Tier{{Name: "extractive", Summarizer: extractive.New(extractive.Config{}), Local: true}}
		s := create(t, e, 8000, "nexus")
		at := make(map[turns.ID]int)
		var last turns.ID
		compactions := 0
		for i, u := range x.said {
			m := turns.TextMessage(turns.User, u.text)
			m.Name = u.speaker
			said := api.Time(u.at)
			at[add(t, e, s.ID, api.AppendTurn{Messages: []turns.Message{m}, Time: &said}).ID] = i
			if (i+1)%(len(x.said)/6) == 0 {
				c := must(e.Compactions.Compact(t.Context(), alice, s.ID, api.RunCompaction{}, []byte("{}")))(t)
				if c.Compaction != nil {
					last = c.Compaction.ID
					compactions++
				}
			}
		}
		if compactions < 5 {
			t.Fatalf("%s: %d compactions", x.name, compactions)
		}
		sum := halves[x.half]
		if sum == nil {
			sum = new(score)
			halves[x.half] = sum
		}
		covered := make(map[int]bool)
		for after := ""; ; {
			list := must(e.Covered.Expand(t.Context(), alice, s.ID, api.ExpandCompaction{ID: last, Levels: turns.Raw(`"all"`), Page: api.Page{After: after}}))(t)
			for _, turn := range list.Turns {
				if i, ok := at[turn.ID]; ok {
					covered[i] = true
				}
			}
			if after = list.Next; after == "" {
				break
			}
		}
		for i := range len(covered) { // no hole: what is not covered follows the cut, and is in the context
			if !covered[i] {
				t.Errorf("%s: compaction.expand leaves out utterance %s", x.name, x.said[i].id)
			}
		}
		context := must(e.Contexts.Context(t.Context(), alice, s.ID, api.GetContext{Page: api.Page{Limit: 1000}}))(t)
		inContext := ""
		for _, m := range context.Messages {
			inContext += string(m) + "\n"
		}
		quoted := func(text string) string { return strings.Trim(string(must(turns.EncodeJSON(text))(t)), "\"") }
		one := score{}
		for _, q := range x.questions {
			one.asked++
			if q.answer != "" {
				one.answers++
				if strings.Contains(strings.ToLower(inContext), strings.ToLower(quoted(q.answer))) {
					one.held++
				}
			}
			hits := find(t, w, e, alice, api.Search{Text: q.text, Session: s.ID, Page: api.Page{Limit: 10}}).Hits
			any, near := false, false
			for _, h := range hits {
				i, ok := at[h.Turn]
				if !ok {
					continue
				}
				any = any || slices.Contains(q.evidence, i)
				near = near || slices.Contains(q.evidence, i) || slices.Contains(q.evidence, i-1) || slices.Contains(q.evidence, i+1)
			}
			if any {
				one.any++
			}
			if near {
				one.near++
			}
		}
		t.Logf("%s (%s): %d utterances, %d compactions, %d questions: any@10 %.1f %%, with a neighbour %.1f %%", x.name, x.half, len(x.said), compactions, one.asked,
			100*float64(one.any)/float64(one.asked), 100*float64(one.near)/float64(one.asked))
		sum.asked, sum.any, sum.near, sum.held, sum.answers = sum.asked+one.asked, sum.any+one.any, sum.near+one.near, sum.held+one.held, sum.answers+one.answers
		stop()
	}
	for half, s := range halves {
		t.Logf("%s: %d questions: any@10 %.1f %%, with a neighbour %.1f %%; the last context has the answer to %d of %d word by word", half, s.asked,
			100*float64(s.any)/float64(s.asked), 100*float64(s.near)/float64(s.asked), s.held, s.answers)
	}
}
