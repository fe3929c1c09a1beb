package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/jackc/pgx/v5/pgconn"
)

// A table as an application makes it that keeps its conversations in PostgreSQL: a turn is a row. The
// key refuses a second turn of the same number, so an append has one predecessor.
const jsonbSchema = `CREATE TABLE conversation_turns (
  session_id text NOT NULL,
  n bigint NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now(),
  turn jsonb NOT NULL,
  PRIMARY KEY (session_id, n)
)`

// jsonbStore is that table in a PostgreSQL server of its own.
type jsonbStore struct{ *postgresStore }

func openJSONB(ctx context.Context, _ *run, l load, dir string) (system, error) {
	s, err := startPostgres(ctx, dir)
	if err != nil {
		return nil, err
	}
	if err := s.connect(ctx, l, jsonbSchema); err != nil {
		return nil, errors.Join(fmt.Errorf("%w: %s", err, &s.server.log), s.close())
	}
	return jsonbStore{s}, nil
}

func (s jsonbStore) append(ctx context.Context, c, i int, t turn) error {
	_, err := s.pool.Exec(ctx, "INSERT INTO conversation_turns (session_id, n, turn) VALUES ($1, $2, $3)", sessionName(c), i, t.json())
	var refused *pgconn.PgError
	if errors.As(err, &refused) && refused.Code == "23505" { // unique_violation
		return errHeadMoved
	}
	return err
}

func (s jsonbStore) recall(ctx context.Context, c, last int) (int, error) {
	return s.recallBy(ctx, "SELECT turn FROM conversation_turns WHERE session_id = $1 ORDER BY n DESC LIMIT $2", c, last)
}

// check compares decoded turns: JSONB keeps neither spaces nor the order of members.
func (s jsonbStore) check(ctx context.Context, l load, stored []int) error {
	got, err := s.pool.Query(ctx, "SELECT session_id, n, turn FROM conversation_turns ORDER BY session_id, n")
	if err != nil {
		return err
	}
	defer got.Close()
	seen := make([]int, len(stored))
	for got.Next() {
		var session string
		var n int
		var b []byte
		if err := got.Scan(&session, &n, &b); err != nil {
			return err
		}
		var c int
		if _, err := fmt.Sscanf(session, "session-%d", &c); err != nil {
			return err
		}
		seen[c]++
		var is, want turnJSON
		if err := errors.Join(json.Unmarshal(b, &is), json.Unmarshal(l.turn(c, n).json(), &want)); err != nil {
			return err
		}
		if n != seen[c] || !reflect.DeepEqual(is, want) {
			return fmt.Errorf("turn %d of client %d has other content", seen[c], c)
		}
	}
	return errors.Join(got.Err(), sameCounts(seen, stored))
}
