package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"nexus/cmd/internal/engine"
	"nexus/cmd/internal/engine/enginetest"
	"nexus/cmd/internal/engine/reader"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/turns"
)

// mail is a request for an event on the channel mail.
func mail(body string) api.AppendEvent {
	return api.AppendEvent{Channel: "mail", Kind: "mail.received", Body: turns.Raw(body)}
}

// receive appends an event of an agent.
func receive(t testing.TB, e *engine.Engine, c reader.Caller, r api.AppendEvent) *api.AppendedEvent {
	t.Helper()
	return enginetest.Must(e.Events.AppendEvent(t.Context(), c, r, withoutID(r)))(t)
}

// withoutID is the canonical form of a request.
func withoutID(r api.AppendEvent) []byte {
	r.ID = turns.ID{}
	return enginetest.JSON(r)
}

// indexes lists a channel of Alice's and returns the ordinals of its events.
func indexes(t testing.TB, e *engine.Engine, r api.ListEvents) (out []uint64) {
	t.Helper()
	for {
		page := enginetest.Must(e.Events.ListEvents(t.Context(), enginetest.Alice, r))(t)
		for _, ev := range page.Events {
			out = append(out, ev.Index)
		}
		if page.Next == "" {
			return out
		}
		r.After = page.Next
	}
}

// An event comes back as it was stored, from any daemon, and has its place on the channel.
func TestEventIsReadBackAsItWasStored(t *testing.T) {
	w := enginetest.NewWorld()
	e, other := w.Engine(t), w.Engine(t)
	at := api.UnixTime(1_700_000_000_000_000_000)
	r := mail(`{"subject":"hi","n":[1,2.50,1e400]}`)
	r.Time, r.Meta = &at, turns.Raw(`{"source":"imap"}`)
	first, second := receive(t, e, enginetest.Alice, r), receive(t, other, enginetest.Alice, mail(`null`))
	if first.Index != 0 || second.Index != 1 || first.ChannelID != second.ChannelID || first.Channel != "mail" {
		t.Errorf("stored as %+v and %+v", first, second)
	}
	for _, d := range []*engine.Engine{e, other, w.Engine(t)} {
		got := enginetest.Must(d.Events.GetEvent(t.Context(), enginetest.Alice, api.GetEvent{Channel: "mail", ID: first.ID, Raw: true}))(t)
		if string(got.Body) != string(r.Body) || string(got.Meta) != string(r.Meta) || *got.Time != at || got.Kind != r.Kind || got.Hash != first.Hash || got.Position != first.Position {
			t.Errorf("read back: %+v", got)
		}
		if turns.HashEvent(got.Payload) != got.Hash {
			t.Error("the raw bytes do not have the event's hash")
		}
		next := enginetest.Must(d.Events.GetEvent(t.Context(), enginetest.Alice, api.GetEvent{Channel: "mail", ID: second.ID}))(t)
		if next.PrevHash != first.Hash || string(next.Body) != "null" || next.Payload != nil {
			t.Errorf("the second: %+v", next)
		}
	}
	if v := enginetest.Verified(t, e); v.Channels != 1 || v.External != 2 || v.Events != 2 {
		t.Errorf("verified: %+v", v)
	}
}

// The same id stores one event, whatever daemon is asked and however late. Another request
// under the id is refused.
func TestEventIDIsStoredOnce(t *testing.T) {
	w := enginetest.NewWorld()
	e := w.Engine(t)
	r := mail(`{"n":1}`)
	r.ID = enginetest.ID(t)
	want := receive(t, e, enginetest.Alice, r)
	for range 5 {
		receive(t, e, enginetest.Alice, mail(`{}`))
	}
	for _, d := range []*engine.Engine{e, w.Engine(t)} {
		got := receive(t, d, enginetest.Alice, r)
		if !got.Duplicate || got.Index != want.Index || got.Hash != want.Hash || got.Position != want.Position {
			t.Errorf("a retry: %+v, the first %+v", got, want)
		}
		other := r
		other.Body = turns.Raw(`{"n":2}`)
		if _, err := d.Events.AppendEvent(t.Context(), enginetest.Alice, other, withoutID(other)); enginetest.Code(err) != api.IDReused {
			t.Errorf("another request under the id: %v", err)
		}
	}
	elsewhere := r
	elsewhere.Channel = "alarms"
	if got := receive(t, e, enginetest.Alice, elsewhere); got.Duplicate || got.Index != 0 {
		t.Errorf("the id on another channel: %+v", got)
	}
	if got := indexes(t, e, api.ListEvents{Channel: "mail"}); !slices.Equal(got, []uint64{0, 1, 2, 3, 4, 5}) {
		t.Errorf("the channel has %v", got)
	}
	enginetest.Verified(t, e)
}

// Two daemons append to one channel at the same time, some requests on both. Every request
// has one event, and the ordinals have no gap.
func TestTwoDaemonsAppendToOneChannel(t *testing.T) {
	w := enginetest.NewWorld()
	daemons := []*engine.Engine{w.Engine(t), w.Engine(t)}
	const each = 60
	var wg sync.WaitGroup
	shared := make([]turns.ID, each)
	for i := range shared {
		shared[i] = enginetest.ID(t)
	}
	got := make([]map[turns.ID]uint64, len(daemons))
	for d, e := range daemons {
		got[d] = map[turns.ID]uint64{}
		wg.Go(func() {
			for i := range each {
				r := mail(fmt.Sprintf(`{"shared":%d}`, i))
				r.ID = shared[i]
				a, err := e.Events.AppendEvent(t.Context(), enginetest.Alice, r, withoutID(r))
				b, berr := e.Events.AppendEvent(t.Context(), enginetest.Alice, mail(`{}`), withoutID(mail(`{}`)))
				if err := errors.Join(err, berr); err != nil {
					t.Error(err)
					return
				}
				got[d][a.ID], got[d][b.ID] = a.Index, b.Index
			}
		})
	}
	wg.Wait()
	at := map[uint64]turns.ID{}
	for _, stored := range got {
		for id, index := range stored {
			if other, ok := at[index]; ok && other != id {
				t.Errorf("events %s and %s both have index %d", id, other, index)
			}
			at[index] = id
		}
	}
	if len(at) != 3*each || len(indexes(t, daemons[0], api.ListEvents{Channel: "mail"})) != 3*each {
		t.Errorf("%d events were acknowledged, want %d", len(at), 3*each)
	}
	if v := enginetest.Verified(t, daemons[1]); v.External != 3*each {
		t.Errorf("verified: %+v", v)
	}
}

// firstRecordLog is a log that a rival appends to just after it said, for the first time, that a
// chain of an entity has no record.
type firstRecordLog struct {
	ledger.Log
	entity turns.Entity
	once   sync.Once
	rival  func()
}

func (l *firstRecordLog) Last(ctx context.Context, subject string) (ledger.Record, error) {
	r, err := l.Log.Last(ctx, subject)
	if _, chain, perr := ledger.ParseSubject(subject); perr == nil && chain.Entity == l.entity && errors.Is(err, ledger.ErrNotFound) {
		l.once.Do(l.rival)
	}
	return r, err
}

// The first event of a channel may be stored and applied between the question to the log and
// that to the projections. This is no failure of the log.
func TestFirstEventOfAChannelByARivalIsNoFailure(t *testing.T) {
	w := enginetest.NewWorld()
	e, rival := w.Engine(t), w.Engine(t)
	e.Reader.Log = &firstRecordLog{Log: w.Log, entity: turns.ChannelEntity, rival: func() {
		receive(t, rival, enginetest.Alice, mail(`"rival"`))
		if err := e.Reader.Projections.WaitFor(t.Context(), enginetest.Must(w.Log.State(t.Context()))(t).Last); err != nil {
			t.Error(err)
		}
	}}
	if got, err := e.Events.AppendEvent(t.Context(), enginetest.Alice, mail(`"ours"`), withoutID(mail(`"ours"`))); err != nil || got.Index != 1 {
		t.Errorf("%+v, %v; want the event behind the rival's", got, err)
	}
}

// A server whose disk fails says that a chain has no record, too. What the projections had
// before tells: the answer is that it can't be known now, not that nothing is there.
func TestLogThatGivesNoRecordOfAChainItHadIsUnavailable(t *testing.T) {
	w := enginetest.NewWorld()
	e := w.Engine(t)
	text := "the cat is called Tom"
	r := api.MemoryDocument{Text: &text, If: "0"}
	enginetest.Must(e.Memories.Document(t.Context(), enginetest.Alice, r, enginetest.JSON(r)))(t)
	receive(t, e, enginetest.Alice, mail(`1`))
	if err := e.Reader.Projections.WaitFor(t.Context(), enginetest.Must(w.Log.State(t.Context()))(t).Last); err != nil {
		t.Fatal(err)
	}
	e.Reader.Log = lostLog{w.Log}
	if _, err := e.Memories.Document(t.Context(), enginetest.Alice, api.MemoryDocument{}, nil); enginetest.Code(err) != api.Unavailable {
		t.Errorf("the document: %v", err)
	}
	if _, err := e.Events.ListEvents(t.Context(), enginetest.Alice, api.ListEvents{Channel: "mail"}); enginetest.Code(err) != api.Unavailable {
		t.Errorf("the channel: %v", err)
	}
}

// lostLog is a log that has no last record of any chain.
type lostLog struct{ ledger.Log }

func (l lostLog) Last(_ context.Context, subject string) (ledger.Record, error) {
	return ledger.Record{}, fmt.Errorf("%w: the last record of %s", ledger.ErrNotFound, subject)
}

// A channel belongs to an agent: the same name is another channel for another agent, which
// sees nothing of the first.
func TestChannelBelongsToItsAgent(t *testing.T) {
	e := enginetest.NewWorld().Engine(t)
	bob := reader.Caller{Tenant: "default", Agent: "bob"}
	a := receive(t, e, enginetest.Alice, mail(`"alice"`))
	if _, err := e.Events.ListEvents(t.Context(), bob, api.ListEvents{Channel: "mail"}); enginetest.Code(err) != api.NotFound {
		t.Errorf("bob lists alice's channel: %v", err)
	}
	b := receive(t, e, bob, mail(`"bob"`))
	if b.Index != 0 || a.ChannelID == b.ChannelID {
		t.Errorf("bob's event is on alice's channel: %+v", b)
	}
	if _, err := e.Events.GetEvent(t.Context(), bob, api.GetEvent{Channel: "mail", ID: a.ID}); enginetest.Code(err) != api.NotFound {
		t.Errorf("bob reads alice's event: %v", err)
	}
	if _, err := e.Events.ListChannels(t.Context(), bob, api.ListChannels{Page: api.Page{After: a.ChannelID}}); enginetest.Code(err) != api.Malformed {
		t.Errorf("bob pages from alice's channel: %v", err)
	}
	names := func(c reader.Caller) (out []string) {
		r := api.ListChannels{Page: api.Page{Limit: 1}}
		for {
			l := enginetest.Must(e.Events.ListChannels(t.Context(), c, r))(t)
			for _, ch := range l.Channels {
				out = append(out, fmt.Sprint(ch.Agent, " ", ch.Channel, " ", ch.Count))
			}
			if r.After = l.Next; r.After == "" {
				return out
			}
		}
	}
	if got := names(bob); !slices.Equal(got, []string{"bob mail 1"}) {
		t.Errorf("bob's channels: %q", got)
	}
	if got := names(enginetest.Operator); !slices.Equal(got, []string{"alice mail 1", "bob mail 1"}) {
		t.Errorf("all channels: %q", got)
	}
	if _, err := e.Events.AppendEvent(t.Context(), enginetest.Operator, mail(`1`), nil); enginetest.Code(err) != api.Denied {
		t.Errorf("the operator appends: %v", err)
	}
	if _, err := e.Events.ListEvents(t.Context(), enginetest.Operator, api.ListEvents{Channel: "mail"}); enginetest.Code(err) != api.Unprocessable {
		t.Errorf("the operator lists without an agent: %v", err)
	}
}

// A name or a body that can't be stored is refused in type, and stores nothing.
func TestHostileEventsAreRefused(t *testing.T) {
	e := enginetest.NewWorld().Engine(t)
	e.Limits.MaxPayload = 1 << 20
	with := func(f func(*api.AppendEvent)) api.AppendEvent { r := mail(`{}`); f(&r); return r }
	early := api.Time(time.Date(1200, 1, 1, 0, 0, 0, 0, time.UTC))
	for name, tc := range map[string]struct {
		r    api.AppendEvent
		want api.Code
	}{
		"no channel":            {with(func(r *api.AppendEvent) { r.Channel = "" }), api.Malformed},
		"a channel like an id":  {with(func(r *api.AppendEvent) { r.Channel = "01ARZ3NDEKTSV4RRFFQ69G5FAV" }), api.Malformed},
		"a hidden character":    {with(func(r *api.AppendEvent) { r.Channel = "mail\u202e" }), api.Malformed},
		"a newline":             {with(func(r *api.AppendEvent) { r.Channel = "mail\nx" }), api.Malformed},
		"a long channel":        {with(func(r *api.AppendEvent) { r.Channel = strings.Repeat("x", 1<<16) }), api.TooLarge},
		"no kind":               {with(func(r *api.AppendEvent) { r.Kind = "" }), api.Malformed},
		"a kind with a NUL":     {with(func(r *api.AppendEvent) { r.Kind = "a\x00" }), api.Malformed},
		"no body":               {with(func(r *api.AppendEvent) { r.Body = nil }), api.Malformed},
		"a meta that is a list": {with(func(r *api.AppendEvent) { r.Meta = turns.Raw(`[]`) }), api.Malformed},
		"a large meta":          {with(func(r *api.AppendEvent) { r.Meta = turns.Raw(`{"x":"` + strings.Repeat("y", 70<<10) + `"}`) }), api.TooLarge},
		"a body over a message": {with(func(r *api.AppendEvent) { r.Body = turns.Raw(`"` + strings.Repeat("y", 900<<10) + `"`) }), api.TooLarge},
		"a time out of range":   {with(func(r *api.AppendEvent) { r.Time = &early }), api.Malformed},
		"the ledger's own id":   {with(func(r *api.AppendEvent) { r.ID = turns.ID(e.Store.Ledger) }), api.Malformed},
	} {
		if _, err := e.Events.AppendEvent(t.Context(), enginetest.Alice, tc.r, nil); enginetest.Code(err) != tc.want {
			t.Errorf("%s: %v, want %s", name, err, tc.want)
		}
	}
	if st := enginetest.Must(e.Reader.Log.State(t.Context()))(t); st.Last != 0 {
		t.Errorf("%d records are stored", st.Last)
	}
	for _, channel := range []string{"a.b.>", "../../x", "日本", "*", strings.Repeat("é", 64), `"`} { // poisonous in a subject or a path
		r := mail(`"x"`)
		r.Channel = channel
		receive(t, e, enginetest.Alice, r)
		if got := indexes(t, e, api.ListEvents{Channel: channel}); len(got) != 1 {
			t.Errorf("channel %q has %v", channel, got)
		}
	}
	for after, want := range map[string]api.Code{"x": api.Malformed, "7": api.Malformed, "-1": api.Malformed, "01ARZ3NDEKTSV4RRFFQ69G5FAV": api.Malformed} {
		if _, err := e.Events.ListEvents(t.Context(), enginetest.Alice, api.ListEvents{Channel: "*", Page: api.Page{After: after}}); enginetest.Code(err) != want {
			t.Errorf("after %q: %v", after, err)
		}
	}
	enginetest.Verified(t, e)
}

// A large body is a blob of the channel: a list names it, event.get shows it whole, and a
// retry stores nothing. The verification reads it.
func TestLargeEventBodyIsABlob(t *testing.T) {
	w := enginetest.NewWorld()
	e := w.Engine(t)
	r := mail(`"` + enginetest.Text(700<<10) + `"`)
	r.ID = enginetest.ID(t)
	a := receive(t, e, enginetest.Alice, r)
	list := enginetest.Must(e.Events.ListEvents(t.Context(), enginetest.Alice, api.ListEvents{Channel: "mail"}))(t)
	if ev := list.Events[0]; ev.Body != nil || ev.Ref == nil || ev.Ref.Size != uint64(len(r.Body)) {
		t.Errorf("the list shows a body of %d bytes and ref %+v", len(ev.Body), ev.Ref)
	}
	other := w.Engine(t)
	got := enginetest.Must(other.Events.GetEvent(t.Context(), enginetest.Alice, api.GetEvent{Channel: "mail", ID: a.ID}))(t)
	if string(got.Body) != string(r.Body) {
		t.Errorf("event.get shows %d bytes of %d", len(got.Body), len(r.Body))
	}
	if again := receive(t, other, enginetest.Alice, r); !again.Duplicate {
		t.Errorf("a retry: %+v", again)
	}
	if v := enginetest.Verified(t, e); v.Blobs != 1 {
		t.Errorf("verified %d blobs", v.Blobs)
	}
	fresh := enginetest.NewWorld()
	fresh.ID, fresh.Log, fresh.Keys = w.ID, w.Log, w.Keys
	v := enginetest.Must(fresh.Engine(t).Audit.Verify(t.Context(), enginetest.Operator, api.Verify{}))(t)
	if v.OK || v.Count != 1 || v.Problems[0].Event != a.ID {
		t.Errorf("with its blob gone the verification says %+v", v.Problems)
	}
}

// A list pages in both directions from any event, and filters by kind and time.
func TestEventListsPageAndFilter(t *testing.T) {
	e := enginetest.NewWorld().Engine(t)
	var ids []turns.ID
	for i := range 25 {
		r := mail(fmt.Sprintf(`{"i":%d}`, i))
		if i%5 == 0 {
			r.Kind = "mail.bounced"
		}
		at := api.UnixTime(int64(i+1) * int64(time.Hour))
		r.Time = &at
		ids = append(ids, receive(t, e, enginetest.Alice, r).ID)
	}
	at := func(hour int) *api.Time { v := api.UnixTime(int64(hour) * int64(time.Hour)); return &v }
	seq := func(from, to int) (out []uint64) {
		for i := from; i < to; i++ {
			out = append(out, uint64(i))
		}
		return out
	}
	down := func(v []uint64) []uint64 { slices.Reverse(v); return v }
	for name, tc := range map[string]struct {
		r    api.ListEvents
		want []uint64
	}{
		"all":              {api.ListEvents{}, seq(0, 25)},
		"pages":            {api.ListEvents{Page: api.Page{Limit: 4}}, seq(0, 25)},
		"pages down":       {api.ListEvents{Page: api.Page{Limit: 4}, Order: "desc"}, down(seq(0, 25))},
		"after an event":   {api.ListEvents{Page: api.Page{After: ids[20].String()}}, seq(21, 25)},
		"before an event":  {api.ListEvents{Page: api.Page{After: ids[3].String()}, Order: "desc"}, down(seq(0, 3))},
		"after the last":   {api.ListEvents{Page: api.Page{After: ids[24].String()}}, nil},
		"before the first": {api.ListEvents{Page: api.Page{After: ids[0].String()}, Order: "desc"}, nil},
		"a kind":           {api.ListEvents{Kind: "mail.bounced", Page: api.Page{Limit: 2}}, []uint64{0, 5, 10, 15, 20}},
		"a kind of none":   {api.ListEvents{Kind: "mail.sent"}, nil},
		"a time":           {api.ListEvents{From: at(11), To: at(14)}, seq(10, 13)},
		"from a time":      {api.ListEvents{From: at(24)}, seq(23, 25)},
	} {
		tc.r.Channel = "mail"
		if got := indexes(t, e, tc.r); !slices.Equal(got, tc.want) {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
	if _, err := e.Events.ListEvents(t.Context(), enginetest.Alice, api.ListEvents{Channel: "mail", Order: "up"}); enginetest.Code(err) != api.Malformed {
		t.Errorf("an order that is none: %v", err)
	}
}

// A turn whose meta names an event is found from the event, also through another daemon, and
// a meta of another shape is no link.
func TestTurnNamesAnEvent(t *testing.T) {
	w := enginetest.NewWorld()
	e := w.Engine(t)
	a := receive(t, e, enginetest.Alice, mail(`{"subject":"hi"}`))
	s := enginetest.Create(t, e, 0, "nexus")
	r := enginetest.Say("you have mail", "I read it")
	r.Meta = turns.Raw(fmt.Sprintf(`{"event":{"channel":"mail","id":"%s"},"other":1}`, a.ID))
	want := []api.EventTurn{{Session: s.ID, Turn: enginetest.Add(t, e, s.ID, r).ID}}
	r.Meta = turns.Raw(`{"event":"mail"}`)
	enginetest.Add(t, e, s.ID, r)
	bob := reader.Caller{Tenant: "default", Agent: "bob"}
	theirs := enginetest.Must(e.Sessions.Create(t.Context(), bob, api.CreateSession{}, []byte("{}")))(t)
	r.Meta = turns.Raw(fmt.Sprintf(`{"event":{"channel":"mail","id":"%s"}}`, a.ID))
	enginetest.Must(e.Sessions.Append(t.Context(), bob, theirs.ID, r, nil))(t)
	for _, d := range []*engine.Engine{e, w.Engine(t)} {
		got := enginetest.Must(d.Events.GetEvent(t.Context(), enginetest.Alice, api.GetEvent{Channel: "mail", ID: a.ID}))(t)
		if !slices.Equal(got.Turns, want) {
			t.Errorf("the event names turns %v, want %v", got.Turns, want)
		}
	}
	enginetest.Verified(t, e)
}

// NEX-5: a compaction of the session that answers a channel's events leaves the channel whole.
func TestNEX5ChannelOutlivesCompaction(t *testing.T) {
	e := enginetest.NewWorld().Engine(t)
	s := enginetest.Create(t, e, 4000, "nexus")
	var last turns.ID
	for i := range 12 {
		a := receive(t, e, enginetest.Alice, mail(fmt.Sprintf(`{"n":%d,"text":"%s"}`, i, enginetest.Text(1000))))
		r := enginetest.Say(enginetest.Text(1000), "done")
		r.Meta = turns.Raw(fmt.Sprintf(`{"event":{"channel":"mail","id":"%s"}}`, a.ID))
		last = enginetest.Add(t, e, s.ID, r).ID
	}
	k := api.RecordCompaction{FirstKept: last, Replacement: []turns.Message{turns.TextMessage(turns.User, "mails")}}
	enginetest.Must(e.Compactions.Record(t.Context(), enginetest.Alice, s.ID, k, nil))(t)
	for i, ev := range enginetest.Must(e.Events.ListEvents(t.Context(), enginetest.Alice, api.ListEvents{Channel: "mail"}))(t).Events {
		if !strings.Contains(string(ev.Body), fmt.Sprintf(`{"n":%d,`, i)) {
			t.Errorf("event %d has body %.40s", i, ev.Body)
		}
		got := enginetest.Must(e.Events.GetEvent(t.Context(), enginetest.Alice, api.GetEvent{Channel: "mail", ID: ev.ID}))(t)
		if len(got.Turns) != 1 || got.Turns[0].Session != s.ID {
			t.Errorf("event %d names turns %v", i, got.Turns)
		}
	}
	enginetest.Verified(t, e)
}

// What is on a channel's chain and does not belong there is found.
func TestVerifyChecksChannels(t *testing.T) {
	w := enginetest.NewWorld()
	e := w.Engine(t)
	receive(t, e, enginetest.Alice, mail(`1`))
	ch := enginetest.Must(e.Reader.ChannelOf("default", "alice", "mail"))(t)
	forge := func(id turns.ID, agent, name string) {
		t.Helper()
		row := enginetest.Must(e.Reader.CatchUpChannel(t.Context(), "default", ch))(t)
		ev := &turns.Event{Version: turns.Version, Kind: turns.KindReceived, ID: id, Chain: ch.Chain, Index: row.Count, Prev: row.Tail.Hash, Recorded: 1, Agent: agent}
		payload := enginetest.Must(e.Store.Seal(t.Context(), "default", ch.Key, ev, &turns.ReceivedBody{Channel: name, Kind: "x", Body: turns.Raw(`1`)}, []turns.ID{ch.Key}))(t)
		enginetest.Must(w.Log.Append(t.Context(), ch.Subject, row.Tail.Seq, payload))(t)
	}
	forge(turns.ID{9}, "alice", "other")
	v := enginetest.Must(e.Audit.Verify(t.Context(), enginetest.Operator, api.Verify{}))(t)
	if v.Count != 1 || !strings.Contains(v.Problems[0].Message, "names another channel") {
		t.Errorf("a body of another channel: %+v", v.Problems)
	}
	forge(turns.ID{8}, "bob", "mail") // sets the chain aside
	v = enginetest.Must(e.Audit.Verify(t.Context(), enginetest.Operator, api.Verify{}))(t)
	if v.Count != 2 || !strings.Contains(v.Problems[1].Message, "of agent bob on a channel of agent alice") {
		t.Errorf("an event of another agent: %+v", v.Problems)
	}
	if _, err := e.Events.AppendEvent(t.Context(), enginetest.Alice, mail(`2`), nil); !errors.Is(err, ledger.ErrCorrupt) {
		t.Errorf("append to a channel that is set aside: %v", err)
	}
	r := mail(`2`)
	r.Channel = "alarms"
	receive(t, e, enginetest.Alice, r)
}
