package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"nexus/cmd/nexusd/daemon"
	asked "nexus/cmd/nexusd/daemon/provider"
	"nexus/ledger/api"
	"nexus/turns"
)

var responsesKills = flag.Int("responses-kills", 4, "how many times TestKill9OfStreamedResponses kills the daemon; docs/TESTING.md runs 500")

// responsesChild is set in the process that the test kills: the URL of the model.
const responsesChild = "NEXUS_TEST_RESPONSES_UPSTREAM"

// upstreamModel passes on what the test's server answers, line by line.
type upstreamModel struct{ url string }

func (m upstreamModel) Generate(ctx context.Context, r *asked.Request, emit func(asked.Event) error) (*asked.Answer, error) {
	last := r.Messages[len(r.Messages)-1].Parts[0].Content
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, m.url+"?q="+url.QueryEscape(last), nil)
	if err != nil {
		return nil, err
	}
	a, err := http.DefaultClient.Do(q)
	if err != nil {
		return nil, &asked.Error{Code: "lost", Message: "no answer", Lost: true}
	}
	defer a.Body.Close()
	if err := emit(asked.Event{Kind: asked.Begin, Type: turns.Text}); err != nil {
		return nil, err
	}
	var text strings.Builder
	for lines := bufio.NewScanner(a.Body); lines.Scan(); {
		piece := lines.Text() + "\n"
		text.WriteString(piece)
		if err := emit(asked.Event{Kind: asked.Delta, Text: piece}); err != nil {
			return nil, err
		}
	}
	if !strings.HasSuffix(text.String(), "end\n") {
		return nil, &asked.Error{Code: "lost", Message: "the answer was cut", Lost: true}
	}
	p := turns.TextPart(text.String())
	err = emit(asked.Event{Kind: asked.End, Part: &p})
	return &asked.Answer{Message: turns.Message{Role: turns.Assistant, Parts: []turns.Part{p}, FinishReason: "stop"}, Usage: &turns.Usage{InputTokens: 3, OutputTokens: 9}}, err
}

// TestResponsesChild is the daemon that TestKill9OfStreamedResponses kills.
func TestResponsesChild(t *testing.T) {
	upstream := os.Getenv(responsesChild)
	if upstream == "" {
		t.Skip("it runs in a process of its own")
	}
	d, err := daemon.Open(t.Context(), daemon.Config{Data: os.Getenv(responsesChild + "_DATA"), Listen: "127.0.0.1:0", HTTP: "127.0.0.1:0", Auth: "off", MaxStore: 2_000_000_000, Search: "off",
		Provider: func(string) (asked.Client, string, error) { return upstreamModel{upstream}, "m", nil }})
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("READY %s %s\n", d.HTTPURL(), d.ClientURL())
	<-d.Failed()
}

// killed is a daemon in a process of its own.
type killed struct {
	cmd       *exec.Cmd
	http, url string
}

func startResponses(t *testing.T, upstream, data string) *killed {
	t.Helper()
	k := &killed{cmd: exec.Command(os.Args[0], "-test.run=^TestResponsesChild$", "-test.timeout=0")}
	k.cmd.Env = append(os.Environ(), responsesChild+"="+upstream, responsesChild+"_DATA="+data)
	var log bytes.Buffer
	k.cmd.Stderr = &log
	out, err := k.cmd.StdoutPipe()
	if err == nil {
		err = k.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(out)
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			t.Fatalf("the daemon did not start: %v\n%s", err, log.String())
		}
		if _, err := fmt.Sscanf(line, "READY %s %s", &k.http, &k.url); err == nil {
			break
		}
	}
	go func() { _, _ = io.Copy(io.Discard, r) }()
	return k
}

func (k *killed) kill() {
	_ = k.cmd.Process.Kill()
	_ = k.cmd.Wait()
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

// TestKill9OfStreamedResponses kills the daemon at random instants of streamed responses.
// No response that a client saw completed is missing or other than it was; none is stored
// twice; a resumed stream has every event once, in order; and a model is asked once for a
// key, unless the response says how many answers were lost.
func TestKill9OfStreamedResponses(t *testing.T) {
	var mu sync.Mutex
	calls := make(map[string]int)
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query().Get("q")
		mu.Lock()
		calls[q]++
		n := calls[q]
		mu.Unlock()
		for i := range 40 {
			fmt.Fprintf(w, "%s call %d piece %d\n", q, n, i)
			_ = http.NewResponseController(w).Flush()
		}
		fmt.Fprintln(w, "end")
	}))
	defer upstream.Close()
	data, seed := t.TempDir(), rand.Uint64()
	t.Logf("seed %d, %d kills", seed, *responsesKills)
	rng := rand.New(rand.NewPCG(seed, 0))
	k := startResponses(t, upstream.URL, data)
	defer func() { k.kill() }()
	whole := make(map[string]string) // the responses that a client saw completed, as it saw them
	previous, requests, lost, cut := "", 0, 0, 0
	for kills := 0; kills < *responsesKills; {
		name, more := fmt.Sprintf("request %d", requests), ""
		requests++
		if previous != "" && rng.IntN(4) > 0 {
			more = fmt.Sprintf(`,"previous_response_id":%q`, previous)
		}
		body := fmt.Sprintf(`{"model":"m","input":%q,"stream":true%s}`, name, more)
		for { // until the request has its answer
			var kill <-chan time.Time
			if kills < *responsesKills && rng.IntN(4) > 0 {
				kill = time.After(time.Duration(rng.IntN(60_000)) * time.Microsecond)
			}
			before := k
			stop, done := make(chan struct{}), make(chan bool)
			go func() {
				select {
				case <-kill:
					before.kill()
					done <- true
				case <-stop:
					done <- false
				}
			}()
			seen, ended := tryResponse(t, k, body, name)
			close(stop)
			dead := <-done
			if dead {
				kills++
				k = startResponses(t, upstream.URL, data)
			}
			if id := checkSeen(t, k, seen, whole); id != "" && len(seen) > 0 && seen[len(seen)-1].Type != "response.completed" {
				cut++
			}
			if t.Failed() {
				t.Fatalf("request %d, kill %d", requests, kills)
			}
			if ended {
				var r wireResponse
				if err := json.Unmarshal(seen[len(seen)-1].Response, &r); err != nil || r.Status != "completed" {
					t.Fatalf("%v: %.300s", err, seen[len(seen)-1].data)
				}
				previous = r.ID
				mu.Lock()
				if calls[name] > 1+r.Nexus.Lost {
					t.Errorf("%s: the model was asked %d times, %d answers were lost", name, calls[name], r.Nexus.Lost)
				}
				mu.Unlock()
				lost += r.Nexus.Lost
				break
			}
		}
	}
	t.Logf("%d requests, %d streams cut, %d answers lost", requests, cut, lost)
	for id, want := range whole {
		if got := getText(t, k.http+"/v1/responses/"+id); got != want {
			t.Errorf("%s is\n%s\nwant\n%s", id, got, want)
		}
	}
	if len(whole) != requests {
		t.Errorf("%d responses of %d requests", len(whole), requests)
	}
	nc, err := api.Dial(k.url, "")
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	stored := uint64(0)
	for s, err := range api.NewClient(nc, "default", "main").Sessions(t.Context()) {
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
func tryResponse(t *testing.T, k *killed, body, key string) (seen []seenEvent, whole bool) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, k.http+"/v1/responses", strings.NewReader(body))
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
func checkSeen(t *testing.T, k *killed, seen []seenEvent, whole map[string]string) string {
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
	a, err := http.Get(fmt.Sprintf("%s/v1/responses/%s?stream=true&starting_after=%d", k.http, r.ID, last.Seq))
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
	again, err := http.Get(fmt.Sprintf("%s/v1/responses/%s?stream=true", k.http, r.ID))
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
