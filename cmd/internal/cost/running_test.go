package cost_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"nexus/cmd/internal/cost"
	"nexus/cmd/internal/daemon/config"
	"nexus/cmd/internal/explorer/explorertest"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
	"nexus/turns/tokens"
)

// life does something to a session that may change what it cost.
type life struct {
	t       *testing.T
	c       *client.Client
	rng     *rand.Rand
	session turns.ID
	turns   []turns.ID
}

func (l *life) step() {
	ctx := l.t.Context()
	switch l.rng.IntN(14) {
	case 0:
		_, err := l.c.Compact(ctx, l.session, api.RunCompaction{AtOnce: true, Budget: 2000})
		if err != nil && !api.HasCode(err, api.Nothing) {
			l.t.Fatal(err)
		}
	case 1:
		if len(l.turns) > 0 {
			to := l.turns[l.rng.IntN(len(l.turns))]
			if _, err := l.c.Move(ctx, l.session, api.MoveSession{To: &to}); err != nil {
				l.t.Fatal(err)
			}
		}
	case 2:
		if len(l.turns) > 0 {
			if _, err := l.c.Note(ctx, l.session, api.NoteTurn{Turn: l.turns[0], Text: fmt.Sprint(l.rng.IntN(9))}); err != nil {
				l.t.Fatal(err)
			}
		}
	case 3:
		model := []string{"claude-opus-4-5", "claude-sonnet-4-5"}[l.rng.IntN(2)]
		set := api.SetSession{SessionSettings: api.SessionSettings{Model: &model, Meta: turns.Raw(fmt.Sprintf(`{"uncounted":{"calls":%d}}`, l.rng.IntN(3)))}}
		if _, err := l.c.Set(ctx, l.session, set); err != nil {
			l.t.Fatal(err)
		}
	default:
		l.add()
	}
}

func (l *life) add() {
	m := explorertest.Say(turns.Assistant, strings.Repeat("It is so. ", 60))
	r := api.AppendTurn{Messages: []turns.Message{explorertest.Say(turns.User, strings.Repeat("Is it? ", 60))}, Response: &m,
		Model: []string{"", "claude-opus-4-5", "claude-sonnet-4-5", "of-nobody"}[l.rng.IntN(4)],
		Meta: turns.Raw([]string{`{}`, fmt.Sprintf(`{"message_id":"m%d"}`, l.rng.IntN(4)), `{"usage":{"cache_creation_1h_input_tokens":500}}`, `{"cost":0.25}`,
			`{"responses":{"lost":2,"status":"completed","id":"resp_1"}}`}[l.rng.IntN(5)])}
	if l.rng.IntN(5) > 0 {
		r.Usage = &turns.Usage{InputTokens: 1000 * (1 + l.rng.Uint64N(300)), CacheRead: l.rng.Uint64N(900), CacheCreation: l.rng.Uint64N(900), OutputTokens: l.rng.Uint64N(2000)}
	}
	if l.rng.IntN(8) == 0 {
		at := api.Time(time.Now().Add(-48 * time.Hour))
		r.Response, r.Usage, r.Model, r.Time, r.Meta = nil, nil, "", &at, turns.Raw(`{"responses":{"digest":"d"}}`)
	}
	a, err := l.c.Append(l.t.Context(), l.session, r)
	if err != nil {
		l.t.Fatal(err)
	}
	l.turns = append(l.turns, a.ID)
}

// What a session cost that grows, is compacted, rewound, noted on and set is, after each read, what all its turns cost.
func TestARunningCostIsThatOfAllTurns(t *testing.T) {
	_, c := explorertest.Start(t, config.Config{})
	models := tokens.KnownModels()
	seed := rand.Uint64()
	for n := range uint64(6) {
		s, err := c.Create(t.Context(), api.CreateSession{})
		if err != nil {
			t.Fatal(err)
		}
		l := &life{t: t, c: c, rng: rand.New(rand.NewPCG(seed, n)), session: s.ID}
		var r cost.Running
		for i := range 40 {
			if l.step(); l.rng.IntN(3) == 0 {
				continue
			}
			now, err := c.GetSession(t.Context(), s.ID, api.GetSession{About: api.About{About: true}})
			if err != nil {
				t.Fatal(err)
			}
			got, err := r.Read(t.Context(), c, now, models)
			if err != nil {
				t.Fatal(err)
			}
			want, err := cost.OfSession(t.Context(), c, now, models)
			if err != nil || got != want {
				t.Fatalf("seed %d %d, step %d: %+v, want %+v, %v", seed, n, i, got, want, err)
			}
		}
	}
}

// A read of a session that grew reads the turns that came, and of one that did not grow none. After anything else that was
// stored all turns are read.
func TestARunningCostReadsWhatCame(t *testing.T) {
	_, c := explorertest.Start(t, config.Config{})
	s, err := c.Create(t.Context(), api.CreateSession{})
	if err != nil {
		t.Fatal(err)
	}
	lists, err := c.Conn().SubscribeSync("nexus.v1.default.*.turn.list.*")
	if err != nil {
		t.Fatal(err)
	}
	var r cost.Running
	read := func(want ...string) { // what the lists begin behind
		t.Helper()
		now, err := c.Session(t.Context(), s.ID)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.Read(t.Context(), c, now, tokens.KnownModels()); err != nil {
			t.Fatal(err)
		}
		if err := c.Conn().Flush(); err != nil {
			t.Fatal(err)
		}
		var got []string
		for {
			m, err := lists.NextMsg(100 * time.Millisecond)
			if err == nats.ErrTimeout {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			var q api.ListTurns
			if err := turns.DecodeJSON(m.Data, &q); err != nil {
				t.Fatal(err)
			}
			got = append(got, q.After)
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("lists behind %q, want %q", got, want)
		}
	}
	add := func() turns.ID { return explorertest.Add(t, c, s.ID, "Is it?", "It is.").ID }
	add()
	second := add()
	read("")
	read()
	add()
	fourth := add()
	read(second.String())
	if _, err := c.Note(t.Context(), s.ID, api.NoteTurn{Turn: second, Text: "so it is"}); err != nil {
		t.Fatal(err)
	}
	fifth := add()
	read(fourth.String(), "")
	add()
	read(fifth.String())
}
