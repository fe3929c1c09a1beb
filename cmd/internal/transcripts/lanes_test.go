package transcripts

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"nexus/ledger/api/client"
	"nexus/turns"
)

// The daemon of this test opens no session before four requests to open one wait: an import that stores one conversation of a
// file after the other would wait for ever.
func TestConversationsOfAFileAreStoredAtTheSameTime(t *testing.T) {
	const together, conversations = 4, 8
	s, err := server.NewServer(&server.Options{DontListen: true, NoSigs: true, NoLog: true})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	defer s.Shutdown()
	connect := func() *nats.Conn {
		nc, err := nats.Connect("", nats.InProcessServer(s))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(nc.Close)
		return nc
	}
	var mu sync.Mutex
	opened, appended := make(map[string]bool), 0
	var waiting []*nats.Msg
	daemon := connect()
	_, err = daemon.Subscribe("nexus.v1.default.main.>", func(m *nats.Msg) {
		mu.Lock()
		defer mu.Unlock()
		verb := strings.TrimPrefix(m.Subject, "nexus.v1.default.main.")
		id, isGet := strings.CutPrefix(verb, "session.get.")
		switch {
		case isGet && !opened[id]:
			r := nats.NewMsg(m.Reply)
			r.Header.Set("Nats-Service-Error-Code", "not_found")
			r.Data = []byte(`{"error":{"code":"not_found","message":"scripted"}}`)
			_ = m.RespondMsg(r)
		case isGet:
			_ = m.Respond(fmt.Appendf(nil, `{"id":%q,"state":"open"}`, id))
		case verb == "session.create":
			if waiting = append(waiting, m); len(waiting) < together {
				return
			}
			for _, m := range waiting {
				_, text, _ := strings.Cut(string(m.Data), `"id":"`)
				id, err := turns.ParseID(text[:min(26, len(text))])
				if err != nil {
					t.Error(err)
				}
				opened[id.String()] = true
				_ = m.Respond(fmt.Appendf(nil, `{"id":%q,"state":"open"}`, id))
			}
			waiting = nil
		default:
			appended++
			_ = m.Respond([]byte(`{"position":"1"}`))
		}
	})
	if err == nil {
		err = daemon.Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for i := range conversations {
		fmt.Fprintf(&b, `{"id":"conversation-%04d","messages":[{"role":"user","content":"question"},{"role":"assistant","content":"answer"}]}`+"\n", i)
	}
	name := filepath.Join(t.TempDir(), "conversations.jsonl")
	if err := os.WriteFile(name, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	im := Importer{Client: client.New(connect(), "default", "main"), Format: "auto", Final: true}
	r, err := im.File(ctx, name)
	if err != nil || r.Opened != conversations || r.Stored != 2*conversations {
		t.Errorf("%+v, %v", r, err)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(opened) != conversations || appended != conversations {
		t.Errorf("%d sessions, %d turns; want %d of each", len(opened), appended, conversations)
	}
}
