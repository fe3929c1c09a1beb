// Command adk is the peer of this name in the benchmarks: the database session service of
// google/adk-go, over SQLite. It is a module of its own, since it brings many others.
//
// It reads requests as JSON lines, and answers each with a line that repeats the request's id, in
// any order. A turn is two events, as ADK's own runner stores them: what the user or a tool
// sent, and the model's answer. The end of its input ends it.
//
//	adk FILE CLIENTS [index]
package main

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"

	_ "github.com/mattn/go-sqlite3" // SQLite itself, compiled from C, as in the row sqlite
	"google.golang.org/adk/v2/session"
	"google.golang.org/adk/v2/session/database"
	"google.golang.org/genai"
	"gorm.io/driver/sqlite"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"
)

// request is a line of the input.
type request struct {
	ID       int    `json:"id"`
	Command  string `json:"command"` // append, recall or turns
	Client   int    `json:"client"`
	Last     int    `json:"last"` // turns that recall reads
	Question string `json:"question"`
	Answer   string `json:"answer"`
}

// reply answers a request.
type reply struct {
	ID    int         `json:"id"`
	Read  int         `json:"read,omitempty"`  // bytes of text
	Turns [][2]string `json:"turns,omitempty"` // question and answer, in their order
	Error string      `json:"error,omitempty"`
}

// store is the sessions of clients.
type store struct {
	db       *sql.DB
	service  session.Service
	sessions []session.Session // as they were read or appended to last; one request at a time for each client
}

const app, user = "benchmarks", "agent"

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "adk:", err)
		os.Exit(1)
	}
}

func run() error {
	if len(os.Args) != 3 && (len(os.Args) != 4 || os.Args[3] != "index") {
		return errors.New("usage: adk FILE CLIENTS [index]")
	}
	clients, err := strconv.Atoi(os.Args[2])
	if err != nil {
		return err
	}
	ctx := context.Background()
	s, err := open(ctx, os.Args[1], clients)
	if err != nil {
		return err
	}
	if len(os.Args) == 4 { // the service makes none, so that a Get reads the rows of all sessions
		if _, err := s.db.Exec("CREATE INDEX events_of_session ON events (app_name, user_id, session_id, timestamp)"); err != nil {
			return errors.Join(err, s.db.Close())
		}
	}
	return errors.Join(s.serve(ctx), s.db.Close())
}

// connections are those to SQLite. With one, gorm's prepared statements wait for a connection that a
// transaction has, for ever; without prepared statements one is slower than four.
const connections = 4

// open opens SQLite as the row sqlite does: WAL, synchronous=FULL.
func open(ctx context.Context, file string, clients int) (*store, error) {
	db, err := sql.Open("sqlite3", "file:"+file+"?_journal_mode=WAL&_synchronous=FULL&_busy_timeout=60000&_txlock=immediate")
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(connections)
	service, err := database.NewSessionService(sqlite.New(sqlite.Config{Conn: db}), &gorm.Config{PrepareStmt: true, Logger: logger.Discard})
	if err != nil {
		return nil, err
	}
	if err := database.AutoMigrate(service); err != nil {
		return nil, err
	}
	s := &store{db, service, make([]session.Session, clients)}
	for c := range clients {
		made, err := service.Create(ctx, &session.CreateRequest{AppName: app, UserID: user, SessionID: name(c)})
		if err != nil {
			return nil, err
		}
		s.sessions[c] = made.Session
	}
	return s, nil
}

func name(c int) string { return fmt.Sprintf("session-%06d", c) }

// serve answers requests, those of different clients at once, until the input ends.
func (s *store) serve(ctx context.Context) error {
	var ready struct {
		Mode  string `json:"mode"`
		Level int    `json:"level"`
	}
	if err := errors.Join(s.db.QueryRow("PRAGMA journal_mode").Scan(&ready.Mode), s.db.QueryRow("PRAGMA synchronous").Scan(&ready.Level)); err != nil {
		return err
	}
	out := json.NewEncoder(os.Stdout)
	if err := out.Encode(ready); err != nil {
		return err
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	defer wg.Wait()
	in := json.NewDecoder(bufio.NewReaderSize(os.Stdin, 1<<20))
	for in.More() {
		var q request
		if err := in.Decode(&q); err != nil {
			return err
		}
		wg.Go(func() {
			r, err := s.answer(ctx, q)
			if err != nil {
				r.Error = err.Error()
			}
			r.ID = q.ID
			mu.Lock()
			defer mu.Unlock()
			_ = out.Encode(r) // nobody reads: the input has ended, too
		})
	}
	return nil
}

func (s *store) answer(ctx context.Context, q request) (r reply, err error) {
	switch q.Command {
	case "append":
		if err := s.append(ctx, q.Client, "user", genai.RoleUser, q.Question); err != nil {
			return r, err
		}
		return r, s.append(ctx, q.Client, "agent", genai.RoleModel, q.Answer)
	case "recall":
		texts, err := s.texts(ctx, q.Client, 2*q.Last)
		for _, t := range texts {
			r.Read += len(t)
		}
		return r, err
	case "turns":
		texts, err := s.texts(ctx, q.Client, 0)
		for i := 0; i+1 < len(texts); i += 2 {
			r.Turns = append(r.Turns, [2]string{texts[i], texts[i+1]})
		}
		if err == nil && len(texts)%2 != 0 {
			err = fmt.Errorf("client %d has half a turn", q.Client)
		}
		return r, err
	}
	return r, fmt.Errorf("no command is called %q", q.Command)
}

func (s *store) append(ctx context.Context, c int, author string, role genai.Role, text string) error {
	e := session.NewEvent(ctx, "")
	e.Author = author
	e.Content = genai.NewContentFromText(text, role)
	return s.service.AppendEvent(ctx, s.sessions[c], e)
}

// texts reads a client's session with its newest events, last of them; 0: all.
func (s *store) texts(ctx context.Context, c, last int) (out []string, err error) {
	got, err := s.service.Get(ctx, &session.GetRequest{AppName: app, UserID: user, SessionID: name(c), NumRecentEvents: last})
	if err != nil {
		return nil, err
	}
	s.sessions[c] = got.Session
	for e := range got.Session.Events().All() {
		if e.Content == nil || len(e.Content.Parts) != 1 {
			return nil, fmt.Errorf("an event of client %d has other content", c)
		}
		out = append(out, e.Content.Parts[0].Text)
	}
	return out, nil
}
