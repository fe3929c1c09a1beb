package cost

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"nexus/turns"
	"nexus/turns/tokens"
)

// table has one model: dollars 1, 10, 0.1, 2 and 4 for a million tokens of input, output,
// read, written and written for an hour.
func table() tokens.Models {
	return tokens.Models{}.With(tokens.Model{Name: "m-1", PriceSource: tokens.Source{Name: "test", Date: "2026-01-02"},
		Price: tokens.Price{Input: 1_000_000, Output: 10_000_000, CacheRead: 100_000, CacheWrite: 2_000_000, CacheHour: 4_000_000}})
}

func call(message string, u *turns.Usage) Call {
	return Call{Session: turns.DeriveID(time.Time{}, "session"), Turn: turns.DeriveID(time.Time{}, "turn", message), Source: "claude-code", Model: "m-1", Message: message, Usage: u,
		Time: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
}

func total(calls ...Call) Amount {
	s := NewSum(Options{Models: table()})
	for _, c := range calls {
		s.Add(c)
	}
	return s.Total()
}

// The dearest calls are few, in their order; a copy of one is none, and one without a known cost is not dear.
func TestTheDearestCallsAreKept(t *testing.T) {
	s := NewSum(Options{Models: table(), Dearest: 3})
	for _, c := range []Call{call("a", &turns.Usage{InputTokens: 10, OutputTokens: 20}), call("b", &turns.Usage{InputTokens: 10, OutputTokens: 50}), call("b", &turns.Usage{InputTokens: 10, OutputTokens: 50}), call("c", nil),
		call("d", &turns.Usage{InputTokens: 10, OutputTokens: 10}), call("e", &turns.Usage{InputTokens: 10, OutputTokens: 40}), call("f", &turns.Usage{InputTokens: 10, OutputTokens: 30}), call("g", &turns.Usage{InputTokens: 10, OutputTokens: 50})} {
		s.Add(c)
	}
	var got []string
	for _, d := range s.Dearest() {
		got = append(got, d.Message)
	}
	if !slices.Equal(got, []string{"b", "g", "e"}) {
		t.Errorf("%v", got)
	}
}

// The parts of a dear call are what it costs; where its source recorded the cost, they are not known.
func TestADearCallIsSplit(t *testing.T) {
	s := NewSum(Options{Models: table(), Dearest: 2})
	hour := call("a", &turns.Usage{InputTokens: 1000, CacheRead: 600, CacheCreation: 300, OutputTokens: 50})
	hour.Details.CacheHour = 200
	recorded := call("b", &turns.Usage{InputTokens: 10, OutputTokens: 20})
	recorded.Recorded, recorded.HasRecorded = 7, true
	s.Add(hour)
	s.Add(recorded)
	d := s.Dearest()
	x := d[0].Split
	if x.Input == 0 || x.CacheRead == 0 || x.CacheWrite == 0 || x.Output == 0 || x.Input+x.CacheRead+x.CacheWrite+x.Output != d[0].Picos() {
		t.Errorf("%+v is not all of %d", x, d[0].Picos())
	}
	if d[1].Split != (Split{}) {
		t.Errorf("a recorded cost is split: %+v", d[1].Split)
	}
}

func TestEachResponseOfAProviderCountsOnce(t *testing.T) {
	u := &turns.Usage{InputTokens: 1000, CacheRead: 600, CacheCreation: 300, OutputTokens: 50}
	once := total(call("a", u))
	if all, recorded, priced := once.Micros(); all != 100+60+600+500 || recorded != 0 || priced != all {
		t.Fatalf("a call costs %d micro-dollars, %d recorded, %d by prices", all, recorded, priced)
	}
	for _, tc := range []struct {
		name  string
		calls []Call
		same  bool // tokens and cost are those of one call
		calln uint64
	}{
		{"the same in another session", []Call{call("a", u), call("a", u)}, true, 1},
		{"a later block of it, without usage", []Call{call("a", u), call("a", nil)}, true, 1},
		{"its beginning, then all of it", []Call{call("a", &turns.Usage{InputTokens: 1000, CacheRead: 600, CacheCreation: 300, OutputTokens: 3}), call("a", u)}, true, 1},
		{"its beginning, then what came since", []Call{call("a", &turns.Usage{InputTokens: 1000, CacheRead: 600, CacheCreation: 300, OutputTokens: 3}), call("a", &turns.Usage{OutputTokens: 47})}, true, 1},
		{"all of it, then its beginning", []Call{call("a", u), call("a", &turns.Usage{InputTokens: 1000, CacheRead: 600, CacheCreation: 300, OutputTokens: 3})}, true, 1},
		{"another response", []Call{call("a", u), call("b", u)}, false, 2},
		{"another call under the same id", []Call{call("a", u), call("a", &turns.Usage{InputTokens: 7})}, false, 2},
		{"copies of calls under the same id", []Call{call("a", u), call("a", &turns.Usage{InputTokens: 7}), call("a", u), call("a", &turns.Usage{InputTokens: 7})}, false, 2},
		{"two without an id", []Call{call("", u), call("", u)}, false, 2},
	} {
		got := total(tc.calls...)
		if (got.Tokens == once.Tokens && got.Picos() == once.Picos()) != tc.same || got.Calls != tc.calln {
			t.Errorf("%s: %+v", tc.name, got)
		}
		if got.Repeated != uint64(len(tc.calls))-tc.calln {
			t.Errorf("%s: %d repeated", tc.name, got.Repeated)
		}
	}
}

// A response that came through /v1, and that the transcript of the program that asked has
// too, counts once, in any order, by the provider's id or by that of /v1.
func TestAResponseOfV1AndOfAFileCountsOnce(t *testing.T) {
	u := &turns.Usage{InputTokens: 1000, OutputTokens: 50}
	direct := func(message, id string) Call {
		c := call(message, u)
		c.Source, c.Direct = "responses", id
		return c
	}
	file := func(message string) Call {
		c := call(message, u)
		c.Source = "pi"
		return c
	}
	for _, tc := range []struct {
		name  string
		calls []Call
		want  uint64
	}{
		{"by the provider's id", []Call{direct("chatcmpl-9", "resp_1"), file("chatcmpl-9")}, 1},
		{"the file first", []Call{file("chatcmpl-9"), direct("chatcmpl-9", "resp_1")}, 1},
		{"by the id of /v1", []Call{direct("chatcmpl-9", "resp_1"), file("resp_1")}, 1},
		{"by the id of /v1, the file first", []Call{file("resp_1"), direct("", "resp_1")}, 1},
		{"a file and its copy", []Call{direct("chatcmpl-9", "resp_1"), file("chatcmpl-9"), file("chatcmpl-9")}, 1},
		{"a file and its copy, first", []Call{file("chatcmpl-9"), file("chatcmpl-9"), direct("chatcmpl-9", "resp_1")}, 1},
		{"two of /v1 from a server that gives one id to all", []Call{direct("chatcmpl-1", "resp_1"), direct("chatcmpl-1", "resp_2")}, 2},
		{"others", []Call{direct("chatcmpl-9", "resp_1"), file("chatcmpl-8"), direct("", "resp_2"), file("")}, 4},
	} {
		if got := total(tc.calls...); got.Calls != tc.want || got.Repeated != uint64(len(tc.calls))-tc.want || got.Tokens.All() != tc.want*1050 {
			t.Errorf("%s: %+v", tc.name, got)
		}
	}
}

// The price is that of the model that answered. Where it has none, and a configuration prices
// the name that was asked for, it is that one's.
func TestThePriceIsThatOfTheModelThatAnswered(t *testing.T) {
	for _, tc := range []struct {
		model, asked string
		priced       bool
	}{{"m-1", "small", true}, {"qwen3-8b", "m-1", true}, {"qwen3-8b", "small", false}, {"m-1-2026-02-03", "m-2", true}} {
		c := call("a", &turns.Usage{InputTokens: 1000})
		c.Model, c.Asked, c.Direct = tc.model, tc.asked, "resp_1"
		if got := total(c); (got.Unpriced == 0) != tc.priced || tc.priced != (got.Picos() > 0) {
			t.Errorf("%+v: %+v", tc, got)
		}
	}
}

func TestWhatIsNotKnownIsCountedAndNotGuessed(t *testing.T) {
	with := func(f func(*Call)) Call {
		c := call("a", &turns.Usage{InputTokens: 1000, OutputTokens: 100})
		f(&c)
		return c
	}
	for _, tc := range []struct {
		name         string
		call         Call
		want         Amount
		micros       uint64
		lower, known bool
	}{
		{"all is known", with(func(c *Call) {}), Amount{}, 2000, false, true},
		{"an unknown model", with(func(c *Call) { c.Model = "m-2" }), Amount{Unpriced: 1100}, 0, true, false},
		{"no model", with(func(c *Call) { c.Model = "" }), Amount{Unpriced: 1100}, 0, true, false},
		{"no usage", with(func(c *Call) { c.Usage = nil }), Amount{WithoutUsage: 1}, 0, true, false},
		{"the start of the stream", with(func(c *Call) { c.Details.OutputAtStart = true }), Amount{AtStart: 1}, 2000, true, true},
		{"another tier", with(func(c *Call) { c.Details.Tier = "batch" }), Amount{OtherTier: 1}, 2000, false, true},
		{"web searches", with(func(c *Call) { c.Details.WebSearches = 3 }), Amount{WebSearches: 3}, 2000, true, true},
		{"a tier that costs more", with(func(c *Call) { c.Details.Tier = "fast" }), Amount{OtherTier: 1}, 2000, true, true},
		{"a recorded cost, which has all of it", with(func(c *Call) {
			c.Recorded, c.HasRecorded, c.Details.WebSearches, c.Details.Tier = 7_000_000, true, 3, "priority"
		}), Amount{}, 7, false, true},
		{"a recorded cost", with(func(c *Call) { c.Recorded, c.HasRecorded = 7_000_000, true }), Amount{}, 7, false, true},
		{"a recorded cost of an unknown model", with(func(c *Call) { c.Model, c.Recorded, c.HasRecorded = "m-2", 7_000_000, true }), Amount{}, 7, false, true},
		{"a recorded cost without usage", with(func(c *Call) { c.Usage, c.Recorded, c.HasRecorded = nil, 7_000_000, true }), Amount{}, 7, false, true},
	} {
		got := total(tc.call)
		if all, _, _ := got.Micros(); all != tc.micros || got.IsLowerBound() != tc.lower || got.IsKnown() != tc.known || got.Calls != 1 {
			t.Errorf("%s: %d micro-dollars, lower bound %v, known %v, %d calls", tc.name, all, got.IsLowerBound(), got.IsKnown(), got.Calls)
		}
		got.Calls, got.Tokens, got.recorded, got.priced = 0, Tokens{}, 0, 0
		if d := cmp.Diff(tc.want, got, cmpopts.IgnoreUnexported(Amount{})); d != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, d)
		}
	}
}

func TestKindsOfTokensDoNotOverlap(t *testing.T) {
	c := call("a", &turns.Usage{InputTokens: 1000, CacheRead: 600, CacheCreation: 300, OutputTokens: 50})
	c.Details = turns.UsageDetails{Reasoning: 999, CacheHour: 100}
	got := total(c)
	if want := (Tokens{Input: 100, CacheRead: 600, CacheWrite: 300, CacheHour: 100, Output: 50, Reasoning: 50}); got.Tokens != want || got.Tokens.All() != 1050 {
		t.Errorf("%+v, want %+v", got.Tokens, want)
	}
	if all, _, _ := got.Micros(); all != 100+60+200*2+100*4+500 {
		t.Errorf("%d micro-dollars", all)
	}
}

func TestDaysBeginInTheZoneAndBoundsHold(t *testing.T) {
	paris, err := time.LoadLocation("Europe/Paris")
	if err != nil {
		t.Skip("no zones on this machine: ", err)
	}
	s := NewSum(Options{By: []Key{ByDay, ByModel}, Models: table(), Zone: paris, Since: time.Date(2026, 3, 1, 0, 0, 0, 0, paris), Until: time.Date(2026, 3, 3, 0, 0, 0, 0, paris)})
	for _, at := range []string{"2026-02-28T22:59:59Z", "2026-02-28T23:00:00Z", "2026-03-01T22:59:59Z", "2026-03-01T23:00:00Z", "2026-03-02T23:00:00Z"} {
		c := call(at, &turns.Usage{InputTokens: 1_000_000})
		if c.Time, err = time.Parse(time.RFC3339, at); err != nil {
			t.Fatal(err)
		}
		s.Add(c)
	}
	var got []string
	for _, r := range s.Rows() {
		got = append(got, r.Day+" "+r.Model+" "+time.Duration(r.Calls).String())
	}
	if d := cmp.Diff([]string{"2026-03-01 m-1 2ns", "2026-03-02 m-1 1ns"}, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// A response whose first copy is out of the bounds does not count by a later copy.
func TestACopyWithinTheBoundsOfWhatIsOutsideCountsNothing(t *testing.T) {
	s := NewSum(Options{Models: table(), Since: time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)})
	u := &turns.Usage{InputTokens: 1000}
	s.Add(call("a", u))
	later := call("a", u)
	later.Time = later.Time.AddDate(0, 0, 5)
	s.Add(later)
	if got := s.Total(); got.Calls != 0 || got.Picos() != 0 || got.Repeated != 1 {
		t.Errorf("%+v", got)
	}
}

func TestRowsAreTheCostliestFirstOrByTime(t *testing.T) {
	s := NewSum(Options{By: []Key{ByProject}, Models: table()})
	for project, n := range map[string]uint64{"/a": 1, "/b": 3, "/c": 2} {
		c := call(project, &turns.Usage{InputTokens: n * 1_000_000})
		c.Project = project
		s.Add(c)
	}
	rows := s.Rows()
	if rows[0].Project != "/b" || rows[1].Project != "/c" || rows[2].Project != "/a" {
		t.Errorf("%+v", rows)
	}
	rest := Rest(rows[1:])
	if all, _, _ := rest.Micros(); all != 3_000_000 || rest.Calls != 2 {
		t.Errorf("the rest is %+v", rest)
	}
	if d := cmp.Diff([]tokens.Source{{Name: "test", Date: "2026-01-02"}}, s.Sources()); d != "" {
		t.Errorf("sources (-want +got):\n%s", d)
	}
	if _, err := ParseKeys("day,colour"); err == nil {
		t.Error("a key that is none is taken")
	}
}

// A call above the threshold of its model has the long price, one at it has not.
func TestLongCallsCostMore(t *testing.T) {
	s := NewSum(Options{Models: tokens.KnownModels()})
	for i, n := range []uint64{200_000, 200_001} {
		s.Add(Call{Turn: turns.ID{15: byte(i)}, Model: "claude-sonnet-4-5", Usage: &turns.Usage{InputTokens: n, CacheRead: 100_000, OutputTokens: 1000}})
	}
	const want = 100_000*3 + 100_000*0.3 + 1000*15 + 100_001*6 + 100_000*0.6 + 1000*22.5 // micro-dollars
	if total := s.Total(); total.Picos() != want*1_000_000 {
		t.Errorf("%d picodollars, not %v", total.Picos(), want*1e6)
	}
}

func TestAnAdvisorsTokensAreACallOfItsModel(t *testing.T) {
	c := call("a", &turns.Usage{InputTokens: 100, OutputTokens: 10})
	meta := turns.Raw(`{"calls":[{"kind":"message","usage":{"input_tokens":50,"output_tokens":5}},{"kind":"advisor_message","model":"m-2","usage":{"input_tokens":900,"output_tokens":80}},
		{"kind":"compaction","usage":{"input_tokens":500,"output_tokens":60}}]}`)
	all := append([]Call{c}, furtherCalls(&c, meta)...)
	s := NewSum(Options{Models: table(), By: []Key{ByModel}})
	for range 2 { // a copy of the turn counts once
		for _, c := range all {
			s.Add(c)
		}
	}
	rows := make(map[string]Amount)
	for _, r := range s.Rows() {
		rows[r.Model] = r.Amount
	}
	own, advisor := rows["m-1"], rows["m-2"]
	if own.Calls != 2 || own.Tokens != (Tokens{Input: 650, Output: 75}) || own.Repeated != 2 {
		t.Errorf("of the turn's model: %+v", own)
	}
	if advisor.Calls != 1 || advisor.Tokens != (Tokens{Input: 900, Output: 80}) || !advisor.IsLowerBound() {
		t.Errorf("of the advisor's: %+v", advisor)
	}
	c.Recorded, c.HasRecorded = 7, true
	if got := total(append([]Call{c}, furtherCalls(&c, meta)...)...); got.Picos() != 7 || got.IsLowerBound() {
		t.Errorf("where the source has the cost: %+v", got)
	}
}

func TestAChosenPlaceMayCostMore(t *testing.T) {
	c := call("a", &turns.Usage{InputTokens: 1000, OutputTokens: 100})
	c.Details.Geo = "us"
	if got := total(c); !got.IsLowerBound() || got.OtherPlace != 1 {
		t.Errorf("%+v", got)
	}
}
