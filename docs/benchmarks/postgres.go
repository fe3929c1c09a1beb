package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"nexus/ledger/api"
)

const postgresSchema = `
CREATE TABLE agent_sessions (
  id text PRIMARY KEY,
  head text NOT NULL DEFAULT '',
  depth bigint NOT NULL DEFAULT 0,
  hash bytea NOT NULL DEFAULT ''
) WITH (fillfactor = 50);
CREATE TABLE agent_turns (
  id text PRIMARY KEY,
  session_id text NOT NULL,
  parent_turn_id text,
  depth bigint NOT NULL,
  timestamp timestamptz NOT NULL DEFAULT now(),
  turn_type text NOT NULL DEFAULT 'normal',
  summary text,
  summarized_through_turn_id text,
  first_kept_turn_id text,
  hash bytea NOT NULL,
  payload bytea NOT NULL
);
CREATE INDEX ON agent_turns (session_id, depth);
CREATE INDEX ON agent_turns (turn_type) WHERE turn_type = 'compaction'`

// The whole transaction in one statement, which is one round trip: compare the head, hash, set the
// head, insert. The chain's hash is the server's to compute, as it is nexusd's.
const postgresAppend = `WITH moved AS (
  UPDATE agent_sessions SET head = $3, depth = depth + 1, hash = sha256(hash || $4) WHERE id = $1 AND head = $2 RETURNING depth, hash
) INSERT INTO agent_turns (id, session_id, parent_turn_id, depth, hash, payload) SELECT $3, $1, nullif($2, ''), depth, hash, $4 FROM moved`

// postgresPool is the connections to PostgreSQL. More than these make it slower on a few processors.
const postgresPool = 64

// postgresStore is a PostgreSQL server of its own. It groups the syncs of its sessions.
type postgresStore struct {
	server *child
	socket string // the folder of its socket
	dir    string
	pool   *pgxpool.Pool
	heads  []string
}

// postgresFolder is where the newest PostgreSQL's programs are.
func postgresFolder() (string, error) {
	if p, err := exec.LookPath("postgres"); err == nil {
		return filepath.Dir(p), nil
	}
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/postgres") // Debian's
	if err != nil || len(found) == 0 {
		return "", skipped("PostgreSQL is not installed (Debian: apt-get install postgresql)")
	}
	slices.SortFunc(found, func(a, b string) int {
		return version(a) - version(b)
	})
	return filepath.Dir(found[len(found)-1]), nil
}

func version(path string) int {
	n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(path)))) // 0: no number, the oldest
	return n
}

// asPostgres lets a command run as the user postgres if this one is root, as which PostgreSQL refuses to run.
func asPostgres(cmd *exec.Cmd, dir string) error {
	if os.Getuid() != 0 {
		return nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return skipped("PostgreSQL does not run as root, and there is no user postgres")
	}
	uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
	gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
	cmd.Dir = "/"
	return os.Chown(dir, int(uid), int(gid))
}

func openPostgres(ctx context.Context, _ *run, l load, dir string) (system, error) {
	s, err := startPostgres(ctx, dir)
	if err != nil {
		return nil, err
	}
	if err := s.prepare(ctx, l); err != nil {
		return nil, errors.Join(fmt.Errorf("%w: %s", err, &s.server.log), s.close())
	}
	return s, nil
}

// prepare makes the tables, and a row for each session.
func (s *postgresStore) prepare(ctx context.Context, l load) error {
	if err := s.connect(ctx, l, postgresSchema); err != nil {
		return err
	}
	s.heads = make([]string, l.clients)
	_, err := s.pool.CopyFrom(ctx, pgx.Identifier{"agent_sessions"}, []string{"id"}, pgx.CopyFromSlice(l.clients, func(i int) ([]any, error) { return []any{sessionName(i)}, nil }))
	return err
}

// startPostgres starts a server with its data in dir, whose socket is there too. It may not answer yet.
func startPostgres(ctx context.Context, dir string) (*postgresStore, error) {
	bin, err := postgresFolder()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	data := filepath.Join(dir, "data")
	initdb := exec.CommandContext(ctx, filepath.Join(bin, "initdb"), "-D", data, "-A", "trust", "-U", "postgres", "-E", "UTF8", "--locale=C")
	if err := asPostgres(initdb, dir); err != nil {
		return nil, err
	}
	if out, err := initdb.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("initdb: %w: %s", err, out)
	}
	// fsync and synchronous_commit are on by default; they are named here since the comparison rests on them.
	args := []string{"-D", data, "-k", dir}
	for _, set := range []string{"listen_addresses=", "fsync=on", "synchronous_commit=on", "full_page_writes=on", "shared_buffers=256MB", "max_wal_size=4GB", "wal_compression=on", "max_connections=" + strconv.Itoa(postgresPool+16)} {
		args = append(args, "-c", set)
	}
	cmd := exec.Command(filepath.Join(bin, "postgres"), args...)
	if err := asPostgres(cmd, dir); err != nil {
		return nil, err
	}
	server, err := start(cmd)
	if err != nil {
		return nil, err
	}
	return &postgresStore{server: server, socket: dir, dir: data}, nil
}

// connect waits until the server answers, and makes the tables.
func (s *postgresStore) connect(ctx context.Context, l load, schema string) error {
	config, err := pgxpool.ParseConfig("host=" + s.socket + " user=postgres dbname=postgres")
	if err != nil {
		return err
	}
	config.MaxConns = int32(min(l.clients, postgresPool))
	config.MinConns = config.MaxConns
	if s.pool, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		return err
	}
	for end := time.Now().Add(time.Minute); ; {
		if err = s.pool.Ping(ctx); err == nil || time.Now().After(end) {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	if err != nil {
		return err
	}
	for text := range strings.SplitSeq(schema, ";") {
		if _, err := s.pool.Exec(ctx, text); err != nil {
			return err
		}
	}
	return nil
}

func (s *postgresStore) append(ctx context.Context, c, _ int, t turn) error {
	id := api.NewID().String()
	tag, err := s.pool.Exec(ctx, postgresAppend, sessionName(c), s.heads[c], id, t.json())
	if err != nil {
		return err
	}
	if tag.RowsAffected() != 1 {
		return errHeadMoved
	}
	s.heads[c] = id
	return nil
}

func (s *postgresStore) check(ctx context.Context, l load, stored []int) error {
	got, err := s.pool.Query(ctx, "SELECT s.id, t.payload, t.hash, s.hash FROM agent_sessions s LEFT JOIN agent_turns t ON t.session_id = s.id ORDER BY s.id, t.depth")
	if err != nil {
		return err
	}
	return checkRows(pgxRows{got}, l, stored)
}

// pgxRows closes as the rows of database/sql do.
type pgxRows struct{ pgx.Rows }

func (r pgxRows) Close() error {
	r.Rows.Close()
	return nil
}

// pids are all processes of the server: it has one for each connection.
func (s *postgresStore) pids() []int {
	pids, err := descendants(s.server.pid())
	if err != nil {
		return []int{s.server.pid()}
	}
	return pids
}

func (s *postgresStore) dirs() []string { return []string{s.dir} }

func (s *postgresStore) close() error {
	if s.pool != nil {
		s.pool.Close()
	}
	return s.server.end(syscall.SIGINT) // a fast shutdown
}
