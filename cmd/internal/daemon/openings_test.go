package daemon

import (
	"fmt"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"

	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
)

// Of requests that open a session under one id at once, from several connections, one is stored: who sent the same gets its answer,
// the others id_reused, also after a restart. A request that names another label than the one that is stored claims none.
func TestOfOpeningsAtOnceOneIsStored(t *testing.T) {
	dir := t.TempDir()
	d, c := start(t, dir)
	ctx := t.Context()
	var clients []*client.Client
	for range 6 {
		nc := must[*nats.Conn](t)(d.Connect())
		t.Cleanup(nc.Close)
		clients = append(clients, client.New(nc, "default", "main"))
	}
	r := api.CreateSession{}
	r.System = &api.System{{Content: words(1, 40<<10)}}
	source := must[*api.Session](t)(c.Create(ctx, r)).ID
	at := extend(t, c, source, 1).ID
	other := must[*api.Session](t)(c.Create(ctx, api.CreateSession{})).ID
	elsewhere := extend(t, c, other, 1).ID
	type outcome struct {
		kind int
		hash turns.Hash
		code api.Code
	}
	const kinds = 5
	open := func(c *client.Client, id turns.ID, kind int) outcome {
		label := fmt.Sprint("label-", kind, "-", id)
		var s *api.Session
		var err error
		switch kind {
		case 0:
			s, err = c.Create(ctx, api.CreateSession{ID: id})
		case 1:
			s, err = c.Create(ctx, api.CreateSession{ID: id, SessionSettings: api.SessionSettings{Label: &label}})
		case 2:
			s, err = c.Fork(ctx, source, api.CreateFork{ID: id, Turn: at})
		case 3:
			s, err = c.Fork(ctx, source, api.CreateFork{ID: id, Turn: at, Label: &label})
		case 4:
			s, err = c.Fork(ctx, other, api.CreateFork{ID: id, Turn: elsewhere})
		}
		if err != nil {
			return outcome{kind, turns.Hash{}, codeOf(err)}
		}
		return outcome{kind, s.Hash, ""}
	}
	type opened struct {
		id   turns.ID
		kind int
		hash turns.Hash
	}
	var all []opened
	for round := range 12 {
		id := api.NewID()
		results := make([]outcome, 2*len(clients))
		var g sync.WaitGroup
		for i := range results {
			g.Go(func() { results[i] = open(clients[i%len(clients)], id, (i+round)%kinds) })
		}
		g.Wait()
		won := opened{id: id, kind: -1}
		for _, x := range results {
			switch {
			case x.code == "" && (won.kind == -1 || won.kind == x.kind && won.hash == x.hash):
				won.kind, won.hash = x.kind, x.hash
			case x.code == "":
				t.Errorf("round %d: requests %d and %d were both stored", round, won.kind, x.kind)
			case x.code != api.IDReused:
				t.Errorf("round %d: request %d: %s", round, x.kind, x.code)
			}
		}
		for _, x := range results {
			if x.kind == won.kind && x.code != "" {
				t.Errorf("round %d: request %d is stored, and was answered %s", round, x.kind, x.code)
			}
		}
		if won.kind < 0 {
			t.Fatalf("round %d: none is stored: %+v", round, results)
		}
		all = append(all, won)
	}
	check := func(c *client.Client) {
		t.Helper()
		for round, won := range all {
			for kind := range kinds {
				x := open(c, won.id, kind)
				if kind == won.kind && (x.code != "" || x.hash != won.hash) || kind != won.kind && x.code != api.IDReused {
					t.Errorf("round %d, request %d: %+v; stored is %d", round, kind, x, won.kind)
				}
				label := fmt.Sprint("label-", kind, "-", won.id)
				s, err := c.Resolve(ctx, label)
				if claims := kind == won.kind && (kind == 1 || kind == 3); claims != (err == nil) || claims && s.ID != won.id {
					t.Errorf("round %d: label of request %d leads to %+v, %v; stored is %d", round, kind, s, err, won.kind)
				}
			}
		}
		if v := must[*api.Verified](t)(c.As(api.Operator).Verify(ctx)); !v.OK || v.Duplicates > 0 {
			t.Errorf("%+v", v)
		}
	}
	check(c)
	stop(t, d, c)
	_, c = start(t, dir)
	check(c)
}

// Of openings with one label at once one is stored, and the others are a conflict that names it, also after a restart.
func TestOfOpeningsWithOneLabelOneIsStored(t *testing.T) {
	dir := t.TempDir()
	d, c := start(t, dir)
	ctx := t.Context()
	source := must[*api.Session](t)(c.Create(ctx, api.CreateSession{})).ID
	at := extend(t, c, source, 1).ID
	owner := make(map[string]turns.ID)
	open := func(label string, fork bool) (turns.ID, error) {
		var s *api.Session
		var err error
		if fork {
			s, err = c.Fork(ctx, source, api.CreateFork{ID: api.NewID(), Turn: at, Label: &label})
		} else {
			s, err = c.Create(ctx, api.CreateSession{ID: api.NewID(), SessionSettings: api.SessionSettings{Label: &label}})
		}
		if err != nil {
			return turns.ID{}, err
		}
		return s.ID, nil
	}
	for round := range 6 {
		label := fmt.Sprint("label-", round)
		ids, errs := make([]turns.ID, 8), make([]error, 8)
		var g sync.WaitGroup
		for i := range ids {
			g.Go(func() { ids[i], errs[i] = open(label, i%2 == 0) })
		}
		g.Wait()
		for i, id := range ids {
			if errs[i] == nil && owner[label] != (turns.ID{}) {
				t.Errorf("label %s is of %s and %s", label, owner[label], id)
			}
			if errs[i] == nil {
				owner[label] = id
			}
		}
		for _, err := range errs {
			if err != nil && (codeOf(err) != api.Conflict || api.FromError(err).Details["session"] != owner[label].String()) {
				t.Errorf("label %s of %s: %v, %v", label, owner[label], err, api.FromError(err).Details)
			}
		}
	}
	stop(t, d, c)
	_, c = start(t, dir)
	for label, id := range owner {
		if s, err := c.Resolve(ctx, label); err != nil || s.ID != id {
			t.Errorf("label %s: %+v, %v", label, s, err)
		}
		if _, err := open(label, true); codeOf(err) != api.Conflict || api.FromError(err).Details["session"] != id.String() {
			t.Errorf("label %s after a restart: %v", label, err)
		}
	}
	if v := must[*api.Verified](t)(c.As(api.Operator).Verify(ctx)); !v.OK || int(v.Sessions) != 1+len(owner) {
		t.Errorf("%+v", v)
	}
}
