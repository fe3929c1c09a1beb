package daemon

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"nexus/cmd/internal/daemon/config"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
	"nexus/turns/seal"
	"nexus/turns/seal/keyring"
)

// TestAnImportByAnAttacker: an agent may bring in events that it made by hand. None breaks the lists of its tenant or the
// next start, or has this ledger act for another user.
func TestAnImportByAnAttacker(t *testing.T) {
	dir := t.TempDir()
	d, c := start(t, dir)
	ring := new(keyring.Memory)
	record := func(ev *turns.Event) api.ExportRecord {
		p, err := ev.Encode()
		if err != nil {
			t.Fatal(err)
		}
		return api.ExportRecord{Event: &api.ExportEvent{Payload: p, Hash: turns.HashEvent(p)}}
	}
	newID := func() turns.ID {
		id, err := turns.NewID(time.Now(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	hasCode := func(err error, code api.Code) bool {
		e, ok := errors.AsType[*api.Error](err)
		return ok && e.Code == code
	}
	newKey := func() (turns.ID, api.ExportRecord) {
		id := newID()
		k, err := ring.Create(id, rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		return id, api.ExportRecord{Key: &api.ExportKey{ID: id, Key: k[:]}}
	}
	origin := [16]byte{9} // another ledger
	// opened is the first event of a session of origin. EncodeBody makes no body with such a meta.
	opened := func(meta string) (turns.ID, []api.ExportRecord) {
		id, key := newKey()
		ev := &turns.Event{Version: 1, Kind: turns.KindOpened, ID: id, Chain: turns.SessionChain(id), Root: id, Agent: "main", Recorded: 1,
			Origin: &turns.Origin{Ledger: origin, Tenant: "default", Session: id}}
		body := slices.Concat([]byte{0xa1, 2, 0xa4, 1, 0xa1, 1, 0x65}, []byte("nexus"), []byte{3, 0xa0, 4, 0xa0, 5, 0x40 | byte(len(meta))}, []byte(meta))
		if err := seal.Seal(ev, body, ring, []turns.ID{id}, rand.Reader); err != nil {
			t.Fatal(err)
		}
		return id, []api.ExportRecord{key, record(ev)}
	}
	_, unsound := opened("{{{")
	if _, err := c.Import(t.Context(), unsound); !hasCode(err, api.Corrupt) {
		t.Errorf("an event whose meta is no JSON: %v", err)
	}

	origin = uuid.MustParse(d.storage.Log.Ledger())
	_, moved := opened("{}")
	if _, err := client.New(c.Conn(), "elsewhere", api.Operator).Import(t.Context(), moved); !hasCode(err, api.Denied) {
		t.Errorf("a session of this ledger and of another tenant: %v", err)
	}
	origin = [16]byte{9}

	id, first := opened("{}")
	other, otherKey := newKey() // of no session
	turn := &turns.Event{Version: 1, Kind: turns.KindTurn, ID: newID(), Chain: turns.SessionChain(id), Recorded: 2, Index: 1, Prev: first[1].Event.Hash,
		Depth: 1, Halves: 1, UserTexts: 1, Tokens: turns.Tokens{Counter: "mine", Messages: 1}}
	turn.Segment = turn.ID
	body, err := turns.EncodeBody(&turns.TurnBody{Messages: []turns.Message{turns.TextMessage(turns.User, "x")}})
	if err != nil {
		t.Fatal(err)
	}
	if err := seal.Seal(turn, body, ring, []turns.ID{id, other}, rand.Reader); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Import(t.Context(), append([]api.ExportRecord{otherKey}, append(first, record(turn))...)); !hasCode(err, api.Conflict) {
		t.Errorf("a turn under the key of no session: %v", err)
	}

	// A reset to the id that this ledger would give the successor: it would open that in the name of whoever the event says.
	id, first = opened("{}")
	k, err := ring.Key(id)
	if err != nil {
		t.Fatal(err)
	}
	ledger, err := d.storage.LedgerID()
	if err != nil {
		t.Fatal(err)
	}
	mark := seal.SuccessorMark(k, ledger, id)
	successor, err := turns.NewID(time.Now(), bytes.NewReader(mark[:10]))
	if err != nil {
		t.Fatal(err)
	}
	reset := &turns.Event{Version: 1, Kind: turns.KindState, ID: newID(), Chain: turns.SessionChain(id), Recorded: 2, Index: 1, Prev: first[1].Event.Hash,
		State: turns.Reset, Successor: successor}
	if _, err := c.Import(t.Context(), append(first, record(reset))); !hasCode(err, api.Denied) {
		t.Errorf("a reset to a successor of this ledger: %v", err)
	}
	if _, err := c.Session(t.Context(), successor); !hasCode(err, api.NotFound) {
		t.Errorf("the successor was opened: %v", err)
	}

	for _, agent := range []string{"main", api.Operator} {
		for _, err := range c.As(agent).Sessions(t.Context()) {
			if err != nil {
				t.Errorf("the sessions of %s: %v", agent, err)
			}
		}
	}
	c.Conn().Close()
	if err := d.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	d, err = Open(t.Context(), config.Config{Data: dir, Listen: "127.0.0.1:0", HTTP: "off", MaxStore: 1 << 30})
	if err != nil {
		t.Fatalf("the next start: %v", err)
	}
	if err := d.Close(context.Background()); err != nil {
		t.Error(err)
	}
}
