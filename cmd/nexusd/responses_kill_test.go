package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"nexus/cmd/internal/provider/providertest"
	"nexus/cmd/nexusd/internal/faulttest"
	"nexus/ledger/api/client"

	"nexus/turns"
)

var responsesKills = flag.Int("responses-kills", 4, "how many times TestKill9OfStreamedResponses kills the daemon; docs/TESTING.md runs 500")

// startResponses starts nexusd with a configuration file.
func startResponses(t *testing.T, bin, config, data string) *faulttest.Nexusd {
	t.Helper()
	d, err := faulttest.StartNexusd(t.Context(), os.Stderr, bin, "--config", config, "--data", data, "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--log-level", "error", "--max-store", "2000000000", "--search", "off")
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// fallible is a scripted provider of each kind, whose first call of a prompt may fail. It
// answers a prompt with the number of the call, so that no two answers are the same.
type fallible struct {
	*providertest.Server

	mu      sync.Mutex
	faults  map[string]providertest.Answer // of a prompt's first call
	arrived func()                         // called once, before the next call is answered; nil: nothing
	answers map[string]int                 // begun answers of a prompt
}

const killPieces = 20

func startFallible(t *testing.T) *fallible {
	f := &fallible{faults: make(map[string]providertest.Answer), answers: make(map[string]int)}
	f.Server = providertest.Start(t, f.script)
	return f
}

func (f *fallible) script(c providertest.Call) providertest.Answer {
	f.mu.Lock()
	arrived := f.arrived
	f.arrived = nil
	a := f.faults[c.Prompt]
	delete(f.faults, c.Prompt)
	if a.Failure == nil {
		f.answers[c.Prompt]++
	}
	n := f.answers[c.Prompt]
	f.mu.Unlock()
	if arrived != nil {
		arrived()
	}
	if n%2 == 0 {
		a.Reasoning = []string{"I was asked ", fmt.Sprint(n, " times.")}
	}
	for i := range killPieces {
		a.Text = append(a.Text, fmt.Sprintf("%s call %d piece %d\n", c.Prompt, n, i))
	}
	return a
}

// fail makes the first call of a prompt fail now and then: refused before an answer, cut, or
// no stream of events any more.
func (f *fallible) fail(rng *rand.Rand, prompt string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch rng.IntN(12) {
	case 0:
		f.faults[prompt] = providertest.Fail(http.StatusServiceUnavailable, "overloaded", "try again")
	case 1:
		f.faults[prompt] = providertest.Answer{Cut: 1 + rng.IntN(killPieces)}
	case 2:
		f.faults[prompt] = providertest.Answer{Garble: 1 + rng.IntN(killPieces)}
	}
}

// asked returns how many answers to a prompt the provider began.
func (f *fallible) asked(prompt string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.answers[prompt]
}

// killDuring calls kill at a random instant of one try of a prompt: at some time, when the
// provider has the request and has not answered, or before a piece of the answer. The try
// may end before that. stop says that it ended, and returns whether kill was called.
func (f *fallible) killDuring(rng *rand.Rand, prompt string, kill func()) (stop func() bool) {
	var at <-chan time.Time
	gate, reached, ended := (*providertest.Gate)(nil), make(chan struct{}), make(chan struct{})
	switch rng.IntN(4) {
	case 0:
		f.mu.Lock()
		gone := make(chan struct{})
		f.arrived = func() {
			close(reached)
			select {
			case <-gone:
			case <-ended:
			}
		}
		f.mu.Unlock()
		before := kill
		kill = func() { before(); close(gone) }
	case 1:
		pieces := 1 + rng.IntN(killPieces)
		gate = f.Hold(prompt)
		go func() { gate.Step(pieces); close(reached) }()
	default:
		at = time.After(time.Duration(rng.IntN(60_000)) * time.Microsecond)
	}
	done := make(chan bool)
	go func() {
		select {
		case <-at:
		case <-reached:
		case <-ended:
			done <- false
			return
		}
		kill()
		if gate != nil {
			gate.Open()
		}
		done <- true
	}()
	return func() bool {
		close(ended)
		killed := <-done
		f.mu.Lock()
		f.arrived = nil
		f.mu.Unlock()
		if gate != nil {
			gate.Open()
		}
		return killed
	}
}

// seenEvent is an event as a client read it.
type seenEvent struct {
	Type     string    `json:"type"`
	Seq      int       `json:"sequence_number"`
	Response turns.Raw `json:"response"`
	data     string
}

// readSSE reads events until the stream ends; whole says that it ended in [DONE].
func readSSE(body io.Reader, each func(seenEvent)) (whole bool, err error) {
	r := bufio.NewReader(body)
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return false, nil // cut: what is not a whole line was not seen
		}
		data, ok := strings.CutPrefix(strings.TrimSpace(line), "data: ")
		if !ok {
			continue
		}
		if data == "[DONE]" {
			return true, nil
		}
		e := seenEvent{data: data}
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			return false, err
		}
		each(e)
	}
}

// wireResponse is what the test looks at of a response.
type wireResponse struct {
	ID     string `json:"id"`
	Status string `json:"status"`
	Nexus  struct {
		Session turns.ID `json:"session"`
		Lost    int      `json:"lost_answers"`
	} `json:"nexus"`
}

// TestKill9OfStreamedResponses kills nexusd before scripted providers of all kinds: at random
// instants of streamed responses, when the provider has the request, and between two pieces
// of its answer. Some providers fail by themselves.
// No response that a client saw completed is missing or other than it was; none is stored
// twice; a resumed stream has every event once, in order; and a model is asked once for a
// key, unless the response says how many answers were lost.
func TestKill9OfStreamedResponses(t *testing.T) {
	bin, config, data := faulttest.Build(t, "."), filepath.Join(t.TempDir(), "nexus.toml"), t.TempDir()
	upstream, rows := startFallible(t), ""
	for _, kind := range providertest.Kinds() {
		rows += upstream.Row(kind, kind, kind)
	}
	if err := os.WriteFile(config, []byte(rows), 0o600); err != nil {
		t.Fatal(err)
	}
	seed := rand.Uint64()
	t.Logf("seed %d, %d kills", seed, *responsesKills)
	rng := rand.New(rand.NewPCG(seed, 0))
	k := startResponses(t, bin, config, data)
	defer func() { k.Kill() }()
	whole := make(map[string]string) // the responses that a client saw completed, as it saw them
	previous, requests, lost, cut, failed, asked := "", 0, 0, 0, 0, 0
	for kills := 0; kills < *responsesKills; {
		name, more := fmt.Sprintf("request %d.", requests), ""
		requests++
		if previous != "" && rng.IntN(4) > 0 {
			more = fmt.Sprintf(`,"previous_response_id":%q`, previous)
		}
		upstream.fail(rng, name)
		body := fmt.Sprintf(`{"model":%q,"input":%q,"stream":true%s}`, providertest.Kinds()[rng.IntN(3)], name, more)
		for { // until the request has its answer
			stop := func() bool { return false }
			if kills < *responsesKills && rng.IntN(4) > 0 {
				stop = upstream.killDuring(rng, name, k.Kill)
			}
			seen, ended := tryResponse(t, k, body, name)
			if stop() {
				kills++
				k = startResponses(t, bin, config, data)
			}
			if id := checkSeen(t, k, seen, whole); id != "" && !ended {
				cut++
			}
			if t.Failed() {
				t.Fatalf("request %d, kill %d", requests, kills)
			}
			if !ended {
				continue
			}
			var r wireResponse
			if err := json.Unmarshal(seen[len(seen)-1].Response, &r); err != nil {
				t.Fatalf("%v: %.300s", err, seen[len(seen)-1].data)
			}
			if r.Status == "failed" { // by the provider: the retry asks again
				failed++
				continue
			}
			if r.Status != "completed" {
				t.Fatalf("%.300s", seen[len(seen)-1].data)
			}
			previous = r.ID
			if n := upstream.asked(name); n > 1+r.Nexus.Lost {
				t.Errorf("%s: the model was asked %d times, %d answers were lost", name, n, r.Nexus.Lost)
			}
			lost += r.Nexus.Lost
			asked += upstream.asked(name)
			break
		}
	}
	if refused := upstream.Refused(); len(refused) > 0 {
		t.Errorf("a provider refused %d requests: %v", len(refused), refused[0])
	}
	t.Logf("%d kills, %d requests, %d streams cut, %d ended by the provider, %d answers begun, %d lost", *responsesKills, requests, cut, failed, asked, lost)
	for id, want := range whole {
		if got := getText(t, k.HTTP+"/v1/responses/"+id); got != want {
			t.Errorf("%s is\n%s\nwant\n%s", id, got, want)
		}
	}
	if len(whole) != requests {
		t.Errorf("%d responses of %d requests", len(whole), requests)
	}
	nc, err := client.Dial(k.URL, k.Agent)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	stored := uint64(0)
	for s, err := range client.New(nc, "default", "main").Sessions(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		stored += s.Turns
	}
	if stored != uint64(2*requests) {
		t.Errorf("%d turns are stored, want two for each of %d requests", stored, requests)
	}
}

// tryResponse sends a request with the key and returns the events that came, and whether
// the stream came whole.
func tryResponse(t *testing.T, k *faulttest.Nexusd, body, key string) (seen []seenEvent, whole bool) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, k.HTTP+"/v1/responses", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Idempotency-Key", key)
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, false
	}
	defer a.Body.Close()
	if a.StatusCode != http.StatusOK {
		b, _ := io.ReadAll(a.Body)
		if a.StatusCode < 500 {
			t.Errorf("%s: %s", a.Status, b)
		}
		return nil, false
	}
	whole, err = readSSE(a.Body, func(e seenEvent) { seen = append(seen, e) })
	if err != nil {
		t.Error(err)
	}
	return seen, whole
}

// checkSeen compares what a client saw with what the daemon says now.
func checkSeen(t *testing.T, k *faulttest.Nexusd, seen []seenEvent, whole map[string]string) string {
	t.Helper()
	for i, e := range seen {
		if e.Seq != i {
			t.Errorf("event %d has the number %d", i, e.Seq)
		}
	}
	if len(seen) == 0 {
		return ""
	}
	var r wireResponse
	if err := json.Unmarshal(seen[0].Response, &r); err != nil || r.ID == "" {
		t.Errorf("%v: %.300s", err, seen[0].data)
		return ""
	}
	last := seen[len(seen)-1]
	if last.Type == "response.completed" {
		whole[r.ID] = string(last.Response)
	}
	a, err := http.Get(fmt.Sprintf("%s/v1/responses/%s?stream=true&starting_after=%d", k.HTTP, r.ID, last.Seq))
	if err != nil {
		t.Error(err)
		return r.ID
	}
	defer a.Body.Close()
	next := last
	done, err := readSSE(a.Body, func(e seenEvent) {
		if e.Seq != next.Seq+1 {
			t.Errorf("event %d follows event %d", e.Seq, next.Seq)
		}
		next = e
	})
	if !done || err != nil || a.StatusCode != http.StatusOK {
		t.Errorf("%s: resumed after %d, it ended after %d: %v", a.Status, last.Seq, next.Seq, err)
	}
	if next.Type != "response.completed" && next.Type != "response.failed" {
		t.Errorf("the last event is %s", next.Type)
	}
	again, err := http.Get(fmt.Sprintf("%s/v1/responses/%s?stream=true", k.HTTP, r.ID))
	if err != nil {
		t.Error(err)
		return r.ID
	}
	defer again.Body.Close()
	i := 0
	_, err = readSSE(again.Body, func(e seenEvent) {
		if i < len(seen) && e.data != seen[i].data {
			t.Errorf("event %d is\n%s\nand was\n%s", i, e.data, seen[i].data)
		}
		i++
	})
	if err = errors.Join(err, nil); err != nil || i < len(seen) {
		t.Errorf("%d events, %d were seen: %v", i, len(seen), err)
	}
	return r.ID
}

func getText(t *testing.T, address string) string {
	t.Helper()
	a, err := http.Get(address)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	b, err := io.ReadAll(a.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
