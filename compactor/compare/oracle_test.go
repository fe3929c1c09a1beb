package compare

import (
	"testing"

	"nexus/compactor/policy"
	"nexus/turns"
	"nexus/turns/tokens"
)

func tokensOf(m *turns.Message) uint64 { return tokens.Approx{}.Message(m) }

func line(text string) uint64 { return tokens.Approx{}.Text(text + "\n") }

// The story's third call writes src/a.go, src/b.go, maxRetries, 4096 and the error
// again, the fourth keepAlive, src/a.go and maxRetries, of which src/b.go was newly
// sent with it. All of them fit contexts as large as the whole path.
func TestOracleHoldsWhatFits(t *testing.T) {
	tr := story()
	r := mustReplay(t, tr, Masking(), window(100_000, ""))
	o := tr.Oracle(r)
	if got, want := o.AllEarlier(), r.Survival.AllEarlier(); got.All != want.All || got.Shown != got.All {
		t.Errorf("the oracle holds %+v, the whole path %+v", got, want)
	}
	// The calls see 0, 208, 416 and 624 tokens before what is newly sent.
	if o.Calls != 4 || o.Room != 208+416+624 {
		t.Errorf("%d calls, room for %d tokens", o.Calls, o.Room)
	}
}

// A context with room for 15 tokens holds the shortest of the facts that its response
// writes again: by hand, src/x.go and 4096, and not the long identifier.
func TestOracleTakesTheShortestFacts(t *testing.T) {
	const long = "aVeryLongIdentifierThatNobodyWantsToWriteASecondTimeButTheAgentDoes"
	tr := New([]Turn{
		{Messages: user("src/x.go has 4096 and " + long), Response: says("ok")},
		{Messages: user("write"), Response: says("src/x.go 4096 " + long)},
	}, 7)
	fresh := tokensOf(&tr.turns[1].Messages[0])
	room := line("src/x.go") + line("4096") + line(long) - 1
	r := &Replay{Calls: []Call{{Turn: 0, Tokens: 7 + tokensOf(&tr.turns[0].Messages[0])}, {Turn: 1, Tokens: 7 + fresh + room}}}
	o := tr.Oracle(r)
	var want Oracle
	want.Calls, want.Room, want.Needed = 2, room, room+1
	want.Earlier[Paths] = Share{All: 1, Shown: 1}
	want.Earlier[Numbers] = Share{All: 1, Shown: 1}
	want.Earlier[Identifiers] = Share{All: 1}
	want.Later = room + 1 // before the second call; before the first nothing was said
	if o != want {
		t.Errorf("%+v, want %+v", o, want)
	}
	r.Calls[1].Tokens++
	if got := tr.Oracle(r).Earlier[Identifiers]; got.Shown != 1 {
		t.Errorf("with room for all: %+v", got)
	}
}

// What a later response writes again counts at every call from where it was said on.
func TestOracleCountsWhatLaterCallsNeed(t *testing.T) {
	tr := New([]Turn{
		{Messages: user("src/x.go"), Response: says("ok")},
		{Messages: user("a"), Response: says("so")},
		{Messages: user("b"), Response: says("src/x.go")},
		{Messages: user("c"), Response: says("done")},
	}, 0)
	o := tr.Oracle(mustReplay(t, tr, Masking(), window(100_000, "")))
	if o.Later != 2*line("src/x.go") || o.Needed != line("src/x.go") {
		t.Errorf("%d tokens for later calls, %d for their own; a line has %d", o.Later, o.Needed, line("src/x.go"))
	}
}

// No replay holds more than an oracle of its own sizes, unless room binds.
func TestNoPolicyExceedsTheOracle(t *testing.T) {
	tr := story()
	for _, mode := range []policy.Mode{policy.BeforeCall, policy.Background} {
		r := mustReplay(t, tr, half(mode), window(1000, fixedSummary))
		o := tr.Oracle(r)
		if got, best := r.Survival.AllEarlier(), o.AllEarlier(); got.All != best.All || got.InContext() > best.Shown {
			t.Errorf("%s: %+v, the oracle %+v", mode, got, best)
		}
	}
}
