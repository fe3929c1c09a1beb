package responses_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"nexus/cmd/internal/provider"
	"nexus/turns"
)

// endless is a model that never stops where the last message says so.
type endless struct{ *scripted }

func (m endless) Generate(ctx context.Context, r *provider.Request, emit func(provider.Event) error) (*provider.Answer, error) {
	if said := r.Messages[len(r.Messages)-1].Parts[0].Content; said != "never stop" {
		return m.scripted.Generate(ctx, r, emit)
	}
	err := emit(provider.Event{Kind: provider.Begin, Type: turns.Text})
	for text := strings.Repeat("endless ", 128); err == nil; {
		err = emit(provider.Event{Kind: provider.Delta, Type: turns.Text, Text: text})
	}
	return nil, err
}

// 48 requests to a model that never stops leave a bounded and sealed folder, sessions that can
// go on, and neighbours that were answered meanwhile.
func TestEndlessAnswersLeaveABoundedSealedFolder(t *testing.T) {
	const most, many = 32 << 20, 48
	r := newRig(t)
	find := r.config.Provider
	r.config.Provider = func(model string) (provider.Client, string, error) {
		_, name, err := find(model)
		return endless{r.model}, name, err
	}
	r.config.Streams, r.config.SpoolBytes = most/4, most
	r.crash() // the next server has it
	var wg sync.WaitGroup
	ids := make([]string, many)
	for i := range many {
		wg.Go(func() {
			events := r.eventsOf(`{"model":"m","input":"never stop","stream":true}`)
			if len(events) == 0 {
				t.Error("it was refused")
				return
			}
			response, code := last(events)
			if e, _ := response["error"].(map[string]any); code == "" && e != nil {
				code, _ = e["code"].(string)
			}
			if response["status"] != "failed" || code != "memory_limit_exceeded" {
				t.Errorf("%v %s", response["status"], code)
			}
			ids[i], _ = response["id"].(string)
		})
	}
	ended := make(chan struct{})
	go func() { wg.Wait(); close(ended) }()
	for ongoing := true; ongoing; {
		select {
		case <-ended:
			ongoing = false
		default:
			r.ok("POST", "/v1/responses", `{"model":"m","store":false,"input":"exactly: alive"}`)
			r.ok("POST", "/v1/responses", `{"model":"m","input":"exactly: alive"}`, "X-Agent", "other")
		}
	}
	size := int64(0)
	for _, name := range must(filepath.Glob(filepath.Join(r.config.Spool, "*")))(t) {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if size += int64(len(b)); strings.Contains(string(b), "endless") {
			t.Errorf("%s is in the clear", filepath.Base(name))
		}
	}
	if size > 1<<20 { // of what came nothing is kept
		t.Errorf("the folder has %d bytes", size)
	}
	for _, id := range ids {
		if id == "" {
			continue
		}
		got := r.ok("GET", "/v1/responses/"+id, "")
		if got["status"] != "failed" {
			t.Errorf("%v", got["status"])
		}
		session := sessionIn(t, got)
		if s := must(r.ledger.Session(t.Context(), session))(t); s.Head != nil {
			t.Errorf("the head of %s stays at a turn without an answer", session)
		}
	}
	r.ok("POST", "/v1/responses", `{"model":"m","input":"exactly: on"}`, "X-Nexus-Session", sessionIn(t, r.ok("GET", "/v1/responses/"+ids[0], "")).String())
}
