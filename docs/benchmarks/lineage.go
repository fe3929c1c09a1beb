package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"nexus/ledger"
	"nexus/ledger/memlog"
	"nexus/lineage"
	"nexus/projections"
	"nexus/turns"
)

// forest is turns of forked sessions. A parent comes before its children.
type forest struct {
	parent  []int // of each turn; -1: the root
	session []int // of each turn
	depth   []int // of each turn, from 1
}

// plant makes a tree of n turns with forks at random turns. A deep one has half of its turns in its
// first session; in a wide one all sessions are of one length.
func plant(n, forks int, deep bool, rng *rand.Rand) (f forest) {
	grow := func(session, parent, count int) {
		for range count {
			depth := 1
			if parent >= 0 {
				depth = f.depth[parent] + 1
			}
			f.parent, f.session, f.depth = append(f.parent, parent), append(f.session, session), append(f.depth, depth)
			parent = len(f.parent) - 1
		}
	}
	trunk := n / (forks + 1)
	if deep {
		trunk = n / 2
	}
	grow(0, -1, trunk)
	for s := range forks {
		// What is left is shared out evenly, so that there are n in the end.
		grow(s+1, rng.IntN(len(f.parent)), (n-len(f.parent))/(forks-s))
	}
	return f
}

// forestStore answers what is asked about a forest.
type forestStore interface {
	mergeBase(a, b int) (string, error)
	isAncestor(a, b int) (bool, error)
}

// projected is a forest in Nexus's projections: Pebble on the disk, from a log in memory.
type projected struct {
	store *projections.Store
	refs  []turns.Ref
	end   func() error
}

// project writes the events of a forest, and waits until the projections have them.
func project(ctx context.Context, f forest, dir string) (_ *projected, err error) {
	log := memlog.New(memlog.Config{})
	p := &projected{refs: make([]turns.Ref, len(f.parent))}
	hashes := make([]turns.Hash, len(f.parent))
	var sessions []ledger.Session
	id := func(kind string, n int) turns.ID {
		return turns.DeriveID(time.UnixMilli(int64(n+1)), fmt.Sprint(kind, n))
	}
	store := func(s *ledger.Session, e *turns.Event) (turns.Hash, error) {
		e.Version, e.Recorded, e.Chain = turns.Version, 1, turns.SessionChain(id("s", len(sessions)-1))
		if e.Kind != turns.KindOpened {
			e.Chain, e.Index, e.Prev = turns.SessionChain(s.ID), s.Tail.Index+1, s.Tail.Hash
		}
		payload, err := e.Encode()
		if err != nil {
			return turns.Hash{}, err
		}
		hash := turns.HashEvent(payload)
		old := s.Tail.Seq
		if err := s.Apply("default", old+1, hash, e); err != nil {
			return hash, err
		}
		s.Tail.Seq, err = log.Append(ctx, s.Subject(), old, payload)
		return hash, err
	}
	for i, parent := range f.parent {
		if f.session[i] == len(sessions) {
			s := id("s", len(sessions))
			sessions = append(sessions, ledger.Session{})
			e := &turns.Event{Kind: turns.KindOpened, ID: s, Root: id("s", 0), Agent: "main", Origin: &turns.Origin{Ledger: [16]byte{1}, Tenant: "default", Session: s}}
			if parent >= 0 {
				e.ForkOf = &turns.ForkOf{At: p.refs[parent], Hash: hashes[parent], Mode: turns.AsSeen}
			}
			if _, err := store(&sessions[f.session[i]], e); err != nil {
				return nil, fmt.Errorf("open session %d: %w", f.session[i], err)
			}
		}
		s := &sessions[f.session[i]]
		e := &turns.Event{Kind: turns.KindTurn, ID: id("t", i), Parent: s.Head, Depth: uint64(f.depth[i]), Halves: 3, Tokens: turns.Tokens{Counter: "approx-1", Messages: 3, Response: 5}}
		e.Segment = s.SegmentFor(e.ID, s.Head)
		if hashes[i], err = store(s, e); err != nil {
			return nil, fmt.Errorf("turn %d: %w", i, err)
		}
		p.refs[i] = turns.Ref{Session: s.ID, Turn: e.ID}
	}
	if p.store, err = projections.Open(projections.Config{Dir: dir}); err != nil {
		return nil, err
	}
	run, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- p.store.Run(run, log) }()
	p.end = func() error {
		stop()
		return errors.Join(<-done, p.store.Close())
	}
	st, err := log.State(ctx)
	if err == nil {
		err = p.store.WaitFor(ctx, st.Last)
	}
	if err == nil && p.store.SetAside() > 0 {
		err = errors.New("the projections set chains aside")
	}
	if err != nil {
		return nil, errors.Join(err, p.end())
	}
	return p, nil
}

func (p *projected) mergeBase(a, b int) (string, error) {
	x, y, err := p.nodes(a, b)
	if err != nil {
		return "", err
	}
	base, ok, err := lineage.MergeBase(p.store, x, y)
	if err == nil && !ok {
		err = errors.New("no merge base in one tree")
	}
	return base.Ref.Turn.String(), err
}

func (p *projected) isAncestor(a, b int) (bool, error) {
	x, y, err := p.nodes(a, b)
	if err != nil {
		return false, err
	}
	return lineage.IsAncestor(p.store, x, y)
}

func (p *projected) nodes(a, b int) (x, y lineage.Node, err error) {
	if x, err = p.store.Node(p.refs[a]); err == nil {
		y, err = p.store.Node(p.refs[b])
	}
	return x, y, err
}

// linked is a forest in the design's schema: each turn has a link to its parent, and recursive queries walk them.
// The walks go no farther than they must: the deeper side climbs first, and the depth of a turn is in its row.
type linked struct {
	db             *sql.DB
	ids            []string
	base, ancestor *sql.Stmt
}

const (
	mergeBaseQuery = `WITH RECURSIVE walk(a, da, b, db) AS (
  SELECT x.id, x.depth, y.id, y.depth FROM agent_turns x, agent_turns y WHERE x.id = ?1 AND y.id = ?2
  UNION ALL
  SELECT
    CASE WHEN da >= db THEN (SELECT parent_turn_id FROM agent_turns WHERE id = a) ELSE a END, CASE WHEN da >= db THEN da - 1 ELSE da END,
    CASE WHEN db >= da THEN (SELECT parent_turn_id FROM agent_turns WHERE id = b) ELSE b END, CASE WHEN db >= da THEN db - 1 ELSE db END
  FROM walk WHERE a <> b
) SELECT a FROM walk WHERE a = b`
	isAncestorQuery = `WITH RECURSIVE goal(depth) AS (SELECT depth FROM agent_turns WHERE id = ?1), walk(id, depth) AS (
  SELECT id, depth FROM agent_turns WHERE id = ?2
  UNION ALL
  SELECT (SELECT parent_turn_id FROM agent_turns t WHERE t.id = walk.id), walk.depth - 1 FROM walk WHERE walk.depth > (SELECT depth FROM goal)
) SELECT EXISTS (SELECT 1 FROM walk WHERE id = ?1)`
)

func link(ctx context.Context, f forest, refs []turns.Ref, dir string) (_ *linked, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	db, err := sql.Open(sqliteDriver, sqliteDSN(filepath.Join(dir, "forest.db")))
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	q := &linked{db: db, ids: make([]string, len(refs))}
	if err := q.fill(ctx, f, refs); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return q, nil
}

func (q *linked) fill(ctx context.Context, f forest, refs []turns.Ref) error {
	if _, err := q.db.ExecContext(ctx, "PRAGMA cache_size = -65536;"+sqliteSchema); err != nil { // 64 MiB, as the projections have
		return err
	}
	tx, err := q.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	insert, err := tx.PrepareContext(ctx, "INSERT INTO agent_turns (id, session_id, parent_turn_id, depth, timestamp, hash, payload) VALUES (?, ?, ?, ?, 1, ?, x'')")
	if err != nil {
		return errors.Join(err, tx.Rollback())
	}
	for i, ref := range refs {
		q.ids[i] = ref.Turn.String()
		var parent any
		if f.parent[i] >= 0 {
			parent = q.ids[f.parent[i]]
		}
		if _, err := insert.ExecContext(ctx, q.ids[i], ref.Session.String(), parent, f.depth[i], make([]byte, 32)); err != nil {
			return errors.Join(err, tx.Rollback())
		}
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	if _, err := q.db.ExecContext(ctx, "ANALYZE; PRAGMA wal_checkpoint(TRUNCATE)"); err != nil {
		return err
	}
	if q.base, err = q.db.PrepareContext(ctx, mergeBaseQuery); err != nil {
		return err
	}
	q.ancestor, err = q.db.PrepareContext(ctx, isAncestorQuery)
	return err
}

func (q *linked) mergeBase(a, b int) (id string, err error) {
	err = q.base.QueryRow(q.ids[a], q.ids[b]).Scan(&id)
	return id, err
}

func (q *linked) isAncestor(a, b int) (is bool, err error) {
	err = q.ancestor.QueryRow(q.ids[a], q.ids[b]).Scan(&is)
	return is, err
}

// lineage measures merge bases and ancestors of random turns in a deep and in a wide forest. Both stores must agree.
func (r *run) lineage(ctx context.Context, res *results) error {
	for _, shape := range []struct {
		name string
		deep bool
	}{{"deep", true}, {"wide", false}} {
		if err := r.lineageOf(ctx, res, shape.name, shape.deep); err != nil {
			return fmt.Errorf("%s forest: %w", shape.name, err)
		}
	}
	return nil
}

type turnPair struct{ a, b int }

// draw returns pairs of turns: any two, and such that a is an ancestor of b in about half of them.
// They are more than either store holds in memory.
func draw(f forest, rng *rand.Rand) (related, unrelated []turnPair) {
	var first []int // turn of each session
	for i, s := range f.session {
		if s == len(first) {
			first = append(first, i)
		}
	}
	for i := range 1 << 17 {
		x, y := rng.IntN(len(f.parent)), rng.IntN(len(f.parent))
		unrelated = append(unrelated, turnPair{x, y})
		if i%2 == 0 {
			up := rng.IntN(f.depth[y])
			for x = y; x-up < first[f.session[x]]; x = f.parent[first[f.session[x]]] {
				up -= x - first[f.session[x]] + 1
			}
			x -= up
		}
		related = append(related, turnPair{x, y})
	}
	return related, unrelated
}

func (r *run) lineageOf(ctx context.Context, res *results, name string, deep bool) (err error) {
	rng := rand.New(rand.NewPCG(3, 4))
	f := plant(r.lineageTurns, r.lineageForks, deep, rng)
	r.say("lineage: a %s forest of %d turns and %d forks", name, len(f.parent), r.lineageForks)
	dir, err := os.MkdirTemp(r.dir, "lineage-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	p, err := project(ctx, f, filepath.Join(dir, "projections"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.end()) }()
	q, err := link(ctx, f, p.refs, filepath.Join(dir, "sqlite"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, q.db.Close()) }()
	depth := 0
	for _, d := range f.depth {
		depth = max(depth, d)
	}
	what := fmt.Sprintf("%s forest: %s turns, %s forks, depth up to %s", name, grouped(int64(len(f.parent))), grouped(int64(r.lineageForks)), grouped(int64(depth)))
	related, unrelated := draw(f, rng) // before a clock runs
	for _, question := range []struct {
		name string
		ask  func(s forestStore, i int) (string, error)
	}{
		{"merge base", func(s forestStore, i int) (string, error) {
			p := unrelated[i%len(unrelated)]
			return s.mergeBase(p.a, p.b)
		}},
		{"is-ancestor", func(s forestStore, i int) (string, error) {
			p := related[i%len(related)]
			is, err := s.isAncestor(p.a, p.b)
			return fmt.Sprint(is), err
		}},
	} {
		const often = 16 // a query in SQLite takes up to a tenth of a second
		answers := [2]map[int]string{{}, {}}
		ask := func(n int, s forestStore) func(int) error {
			return func(i int) error {
				got, err := question.ask(s, i)
				if i%often == 0 {
					answers[n][i] = got
				}
				return err
			}
		}
		v, err := r.alternate(ctx, often, ask(0, p), ask(1, q))
		if err != nil {
			return err
		}
		for i, want := range answers[1] {
			if got := answers[0][i]; got != want {
				return fmt.Errorf("%s %d: Nexus says %s, SQLite %s", question.name, i, got, want)
			}
		}
		v.What, v.Than, v.Cells = question.name+" in Nexus's projections", "recursive query in SQLite", what
		res.Lineage = append(res.Lineage, v)
	}
	return nil
}
