package main

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"nexus/ledger/api"
)

// The schema of the published design that Nexus is named after, with the payload in
// the row of the turn, and with a head and its hash in the row of the session.
const sqliteSchema = `
CREATE TABLE agent_sessions (
  id TEXT PRIMARY KEY,
  head TEXT NOT NULL DEFAULT '',
  depth INTEGER NOT NULL DEFAULT 0,
  hash BLOB NOT NULL DEFAULT x''
) WITHOUT ROWID;
CREATE TABLE agent_turns (
  id TEXT PRIMARY KEY,
  session_id TEXT NOT NULL,
  parent_turn_id TEXT,
  depth INTEGER NOT NULL,
  timestamp INTEGER NOT NULL,
  turn_type TEXT NOT NULL DEFAULT 'normal',
  summary TEXT,
  summarized_through_turn_id TEXT,
  first_kept_turn_id TEXT,
  hash BLOB NOT NULL,
  payload BLOB NOT NULL
);
CREATE INDEX agent_turns_of_session ON agent_turns (session_id, depth);
CREATE INDEX agent_turns_compactions ON agent_turns (turn_type) WHERE turn_type = 'compaction';`

// sqliteStore is SQLite in this process: WAL, synchronous=FULL, one connection that writes.
type sqliteStore struct {
	inProcess
	db    *sql.DB
	heads []string
	turn  sqliteStatements

	queue   chan *pending // of the batching variant; nil: each append is a transaction
	stopped sync.WaitGroup
}

type sqliteStatements struct{ head, insert, move *sql.Stmt }

// pending is an append that waits for a transaction.
type pending struct {
	client    int
	turn, old string
	payload   []byte
	done      chan error
}

func openSQLite(ctx context.Context, _ *run, l load, dir string) (system, error) {
	return openSQLiteStore(ctx, l, dir)
}

// openSQLiteBatches is the same with one goroutine that takes all that waits into one transaction.
func openSQLiteBatches(ctx context.Context, _ *run, l load, dir string) (system, error) {
	s, err := openSQLiteStore(ctx, l, dir)
	if err != nil {
		return nil, err
	}
	s.queue = make(chan *pending, l.clients)
	s.stopped.Go(s.writeGroups)
	return s, nil
}

func openSQLiteStore(ctx context.Context, l load, dir string) (_ *sqliteStore, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	db, err := sql.Open(sqliteDriver, sqliteDSN(filepath.Join(dir, "ledger.db")))
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1) // one writer: clients wait in Go's queue, not in SQLite's polling
	s := &sqliteStore{inProcess: inProcess{dir}, db: db, heads: make([]string, l.clients)}
	if err := s.prepare(ctx, l); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return s, nil
}

func (s *sqliteStore) prepare(ctx context.Context, l load) error {
	var mode string
	var level int
	if err := errors.Join(s.db.QueryRowContext(ctx, "PRAGMA journal_mode").Scan(&mode), s.db.QueryRowContext(ctx, "PRAGMA synchronous").Scan(&level)); err != nil {
		return err
	}
	if mode != "wal" || level != 2 {
		return fmt.Errorf("SQLite has journal_mode %s, synchronous %d: not what was asked for", mode, level)
	}
	if _, err := s.db.ExecContext(ctx, sqliteSchema); err != nil {
		return err
	}
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	for c := range l.clients {
		if _, err := tx.ExecContext(ctx, "INSERT INTO agent_sessions (id) VALUES (?)", sessionName(c)); err != nil {
			return errors.Join(err, tx.Rollback())
		}
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	for _, p := range []struct {
		stmt **sql.Stmt
		text string
	}{
		{&s.turn.head, "SELECT head, depth, hash FROM agent_sessions WHERE id = ?"},
		{&s.turn.insert, "INSERT INTO agent_turns (id, session_id, parent_turn_id, depth, timestamp, hash, payload) VALUES (?, ?, nullif(?, ''), ?, ?, ?, ?)"},
		{&s.turn.move, "UPDATE agent_sessions SET head = ?, depth = ?, hash = ? WHERE id = ?"},
	} {
		if *p.stmt, err = s.db.PrepareContext(ctx, p.text); err != nil {
			return err
		}
	}
	return nil
}

func sessionName(c int) string { return fmt.Sprintf("session-%06d", c) }

// errHeadMoved refuses an append whose parent is no longer the head.
var errHeadMoved = errors.New("the head moved")

// store does one append inside a transaction: compare the head, hash, insert, set the head.
func (s *sqliteStore) store(tx *sql.Tx, p *pending) error {
	session := sessionName(p.client)
	var head string
	var depth int64
	var prev []byte
	if err := tx.Stmt(s.turn.head).QueryRow(session).Scan(&head, &depth, &prev); err != nil {
		return err
	}
	if head != p.old {
		return errHeadMoved
	}
	hash := chain(prev, p.payload)
	if _, err := tx.Stmt(s.turn.insert).Exec(p.turn, session, head, depth+1, time.Now().UnixMilli(), hash, p.payload); err != nil {
		return err
	}
	_, err := tx.Stmt(s.turn.move).Exec(p.turn, depth+1, hash, session)
	return err
}

// commit does appends in one transaction. An append whose head moved is refused alone;
// any other error refuses all.
func (s *sqliteStore) commit(ctx context.Context, group []*pending) (refused []error, err error) {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return nil, err
	}
	refused = make([]error, len(group))
	for i, p := range group {
		if refused[i] = s.store(tx, p); refused[i] != nil && !errors.Is(refused[i], errHeadMoved) {
			return nil, errors.Join(refused[i], tx.Rollback())
		}
	}
	return refused, tx.Commit()
}

func (s *sqliteStore) writeGroups() {
	for p := range s.queue {
		group := []*pending{p}
		for len(s.queue) > 0 { // this goroutine alone receives
			group = append(group, <-s.queue)
		}
		refused, err := s.commit(context.Background(), group)
		for i, p := range group {
			if err != nil {
				p.done <- err
			} else {
				p.done <- refused[i]
			}
		}
	}
}

func (s *sqliteStore) append(ctx context.Context, c, _ int, t turn) error {
	p := &pending{c, api.NewID().String(), s.heads[c], t.json(), make(chan error, 1)}
	if s.queue != nil {
		s.queue <- p
	} else {
		refused, err := s.commit(ctx, []*pending{p})
		if err == nil {
			err = refused[0]
		}
		p.done <- err
	}
	if err := <-p.done; err != nil {
		return err
	}
	s.heads[c] = p.turn
	return nil
}

func (s *sqliteStore) check(ctx context.Context, l load, stored []int) error {
	got, err := s.db.QueryContext(ctx, "SELECT s.id, t.payload, t.hash, s.hash FROM agent_sessions s LEFT JOIN agent_turns t ON t.session_id = s.id ORDER BY s.id, t.depth")
	if err != nil {
		return err
	}
	return checkRows(got, l, stored)
}

// checkRows checks rows of (session, payload, hash, hash of the session), ordered by session and depth.
func checkRows(got interface {
	Next() bool
	Scan(...any) error
	Err() error
	Close() error
}, l load, stored []int) (err error) {
	defer func() { err = errors.Join(err, got.Close()) }()
	seen, hashes := make([]int, len(stored)), make([][]byte, len(stored))
	for got.Next() {
		var session string
		var payload, hash, last []byte
		if err := got.Scan(&session, &payload, &hash, &last); err != nil {
			return err
		}
		var c int
		if _, err := fmt.Sscanf(session, "session-%d", &c); err != nil {
			return err
		}
		if payload == nil { // a session without a turn
			continue
		}
		seen[c]++
		if !bytes.Equal(payload, l.turn(c, seen[c]).json()) {
			return fmt.Errorf("turn %d of client %d has other content", seen[c], c)
		}
		if hashes[c] = chain(hashes[c], payload); !bytes.Equal(hash, hashes[c]) || seen[c] == stored[c] && !bytes.Equal(last, hash) {
			return fmt.Errorf("turn %d of client %d breaks the chain", seen[c], c)
		}
	}
	return errors.Join(got.Err(), sameCounts(seen, stored))
}

func (s *sqliteStore) close() error {
	if s.queue != nil {
		close(s.queue)
		s.stopped.Wait()
	}
	return s.db.Close()
}
