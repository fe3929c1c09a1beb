// Command agent is a complete agent loop on Nexus with nothing but a NATS
// client: it opens a session, asks a model over HTTP, runs the tools that the
// model calls, survives a refused context, regenerates an answer, forks, and
// reads everything back. Started again under the same label it finishes what it
// had begun, and goes on in the same session.
//
//	MODEL_URL=http://127.0.0.1:11434/v1 MODEL=qwen3 go run ./docs/examples/go
package main

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/oklog/ulid/v2"
)

// object is a JSON object.
type object = map[string]any

// nexus speaks for one agent: every call is one NATS request.
type nexus struct {
	nc    *nats.Conn
	agent string
}

// refused is an answer that is an error; Code says which.
type refused struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Details object `json:"details"`
}

func (r *refused) Error() string { return r.Code + ": " + r.Message }

// call makes one request. The id in it makes a retry safe: whatever became of
// the first try, the second one is answered as if it had been the only one.
func (n *nexus) call(verb string, request object, reply any) error {
	body, err := json.Marshal(request)
	if err != nil {
		return err
	}
	for try := 0; ; try++ {
		m, err := n.nc.Request("nexus.v1.default."+n.agent+"."+verb, body, 35*time.Second)
		if err == nil && m.Header.Get("Nats-Service-Error-Code") == "" {
			return json.Unmarshal(m.Data, reply)
		}
		if err == nil {
			var e struct {
				Error *refused `json:"error"`
			}
			if err := json.Unmarshal(m.Data, &e); err != nil {
				return err
			}
			err = e.Error
			if c := e.Error.Code; c != "busy" && c != "unavailable" && c != "indeterminate" {
				return err
			}
		}
		if try == 5 {
			return err
		}
		time.Sleep(200 * time.Millisecond << try)
	}
}

func id() string { return ulid.MustNew(ulid.Now(), rand.Reader).String() }

// text is a message of one text.
func text(role, s string) object {
	return object{"role": role, "parts": []object{{"type": "text", "content": s}}}
}

// turn is what the loop needs of an append's reply.
type turn struct {
	ID         string `json:"id"`
	Compaction struct {
		State string `json:"state"`
	} `json:"compaction"`
}

// code is the code of an answer that is an error.
func code(err error) string {
	var r *refused
	if errors.As(err, &r) {
		return r.Code
	}
	return ""
}

// agent is one conversation.
type agent struct {
	*nexus
	url, model string // of the model's server
	session    string
	said       []string     // what was said, to compare at the end
	had        modelContext // the last context: Nexus sends what changed since
}

// appends adds a turn after the head.
func (a *agent) appends(messages []object, response object) turn {
	r := object{"id": id(), "messages": messages}
	if response != nil {
		r["response"] = response
	}
	var t turn
	must(a.call("turn.append."+a.session, r, &t))
	return t
}

// modelContext is a context in the form that the model's server takes.
type modelContext struct {
	Messages   []json.RawMessage `json:"messages"`
	Tools      []json.RawMessage `json:"tools"`
	Partial    string            `json:"partial"`
	PartialEnd bool              `json:"partial_end"`
	Next       string            `json:"next"`

	Fingerprint  string `json:"fingerprint"`
	Preamble     string `json:"preamble_digest"`
	Keep         int    `json:"keep"` // how many messages of the last context stand before these
	KeepPreamble bool   `json:"keep_preamble"`
}

// context asks for the next call's messages. A long context comes in pages, a
// message that is longer than a page in pieces. What the last one had is kept.
func (a *agent) context(verb string, r object) (all modelContext) {
	if a.had.Fingerprint != "" && verb == "context.get" {
		r["have"] = object{"fingerprint": a.had.Fingerprint, "preamble_digest": a.had.Preamble}
	}
	for {
		var page modelContext
		must(a.call(verb+"."+a.session, r, &page))
		all.Messages = append(all.Messages, a.had.Messages[:page.Keep]...)
		if page.KeepPreamble {
			all.Tools = a.had.Tools
		}
		all.Messages = append(all.Messages, page.Messages...)
		if all.Partial += page.Partial; page.PartialEnd {
			all.Messages, all.Partial = append(all.Messages, json.RawMessage(all.Partial)), ""
		}
		if page.Tools != nil {
			all.Tools = page.Tools
		}
		if page.Next == "" {
			all.Fingerprint, all.Preamble = page.Fingerprint, page.Preamble
			a.had = all
			return all
		}
		r["after"] = page.Next
	}
}

// answer lets the model answer the conversation so far, and stores the answer.
func (a *agent) answer() (calls []call) {
	c := a.context("context.get", object{"format": "openai"})
	for try := 0; ; try++ {
		status, wait, body := post(a.url+"/chat/completions", object{"model": a.model, "messages": c.Messages, "tools": c.Tools})
		switch {
		case status == http.StatusOK:
			return a.store(body)
		case try == 5:
			log.Fatalf("the model's server: %d: %s", status, body)
		case status == http.StatusTooManyRequests || status >= 500:
			time.Sleep(wait)
		default:
			// Too long? Nexus reads the provider's words, compacts, and gives the
			// context that is left. Anything else it refuses, and so do we.
			log.Printf("the model refused: %d: %s", status, body)
			c = a.context("context.overflow", object{"id": id(), "error": string(body), "status": status, "format": "openai"})
		}
	}
}

// call is a tool call, in the ledger's form.
type call struct {
	Type      string          `json:"type"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
}

// arguments are what the model wrote, which need not be JSON: then they are
// kept as a text. Numbers stay as they are, however long.
func arguments(s string) json.RawMessage {
	var v any
	d := json.NewDecoder(bytes.NewReader([]byte(cmp.Or(s, "{}"))))
	d.UseNumber()
	if err := d.Decode(&v); err != nil || d.More() {
		v = s
	}
	b, err := json.Marshal(v)
	must(err)
	return b
}

// store appends the model's message as the response of the turn before it.
func (a *agent) store(body []byte) []call {
	var r struct {
		Choices []struct {
			Reason  string `json:"finish_reason"`
			Message struct {
				Content string `json:"content"`
				Calls   []struct {
					ID       string `json:"id"`
					Function struct {
						Name      string `json:"name"`
						Arguments string `json:"arguments"`
					} `json:"function"`
				} `json:"tool_calls"`
			} `json:"message"`
		} `json:"choices"`
		Usage struct {
			Prompt     int `json:"prompt_tokens"`
			Completion int `json:"completion_tokens"`
		} `json:"usage"`
	}
	must(json.Unmarshal(body, &r))
	m := r.Choices[0].Message
	parts, calls := []any{}, []call{}
	if m.Content != "" {
		parts = append(parts, object{"type": "text", "content": m.Content})
		a.said = append(a.said, m.Content)
	}
	for _, c := range m.Calls {
		calls = append(calls, call{"tool_call", c.ID, c.Function.Name, arguments(c.Function.Arguments)})
		parts = append(parts, calls[len(calls)-1])
	}
	response := object{"role": "assistant", "parts": parts, "finish_reason": r.Choices[0].Reason}
	var t turn
	must(a.call("turn.append."+a.session, object{"id": id(), "messages": []object{}, "response": response,
		"usage": object{"input_tokens": r.Usage.Prompt, "output_tokens": r.Usage.Completion}}, &t))
	log.Printf("%d calls, %q; compaction is %s", len(m.Calls), m.Content, t.Compaction.State)
	return calls
}

// weather is the tool. A model that called it wrongly is told so.
func weather(c call) (result string, failed bool) {
	var in struct{ City string }
	if err := json.Unmarshal(c.Arguments, &in); c.Name != "weather" || err != nil || in.City == "" {
		return `there is only weather {"city": …}`, true
	}
	return "sunny in " + string(c.Arguments), false
}

// run runs tools side by side. Results are appended as they come in.
func (a *agent) run(calls []call) {
	var all sync.WaitGroup
	for _, c := range calls {
		all.Go(func() {
			result, failed := weather(c)
			part := object{"type": "tool_call_response", "id": c.ID, "response": result, "is_error": failed}
			a.appends([]object{{"role": "tool", "parts": []object{part}}}, nil)
		})
	}
	all.Wait()
}

// converse answers until the model calls no more tools.
func (a *agent) converse() {
	for calls := a.answer(); len(calls) > 0; calls = a.answer() {
		a.run(calls)
	}
}

// resume finishes what a run before this one left: calls without a result, and
// a turn without an answer.
func (a *agent) resume() {
	var asked bool
	var open []call
	done := map[string]bool{}
	must(a.turns("desc", func(t storedTurn) (more bool) {
		for _, m := range t.Messages {
			for _, p := range m.Parts {
				done[p.ID] = done[p.ID] || p.Type == "tool_call_response"
			}
		}
		if t.Response == nil {
			asked = asked || t.Type == "normal"
			return true
		}
		for _, p := range t.Response.Parts {
			if p.Type == "tool_call" && !done[p.ID] {
				open = append(open, p.call)
			}
		}
		return t.Type != "normal"
	}))
	if asked || len(open) > 0 {
		log.Printf("resuming: %d calls are open", len(open))
		a.run(open)
		a.converse()
	}
}

// ask stores what the user said before anybody answers it, so that it is not
// lost if this process is.
func (a *agent) ask(s string) turn {
	a.said = append(a.said, s)
	return a.appends([]object{text("user", s)}, nil)
}

// open is the conversation of a label: that of a run before this one, else one
// that begin makes.
func (a agent) open(label string, begin func(s any) error) *agent {
	var s struct {
		ID string `json:"id"`
	}
	err := a.call("session.resolve", object{"label": label}, &s)
	found := code(err) != "not_found"
	if !found {
		err = begin(&s)
	}
	must(err)
	a.session = s.ID
	a.said = a.texts()
	if found {
		a.resume()
	}
	return &a
}

// credentials is the file of this agent's key: NEXUS_CREDS, else the one that nexusd
// wrote for its address; "" if there is none.
func credentials(url string) string {
	if file := os.Getenv("NEXUS_CREDS"); file != "" {
		return file
	}
	home, err := os.UserHomeDir()
	must(err)
	name := strings.NewReplacer("nats://", "", "localhost", "127.0.0.1", ":", "_").Replace(url)
	b, err := os.ReadFile(cmp.Or(os.Getenv("XDG_CONFIG_HOME"), home+"/.config") + "/nexus/contexts/" + name + ".json")
	if errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	must(err)
	var context struct{ Agent string }
	must(json.Unmarshal(b, &context))
	return context.Agent
}

func main() {
	url := cmp.Or(os.Getenv("NEXUS_URL"), nats.DefaultURL)
	var opts []nats.Option
	if file := credentials(url); file != "" {
		key, err := nats.NkeyOptionFromSeed(file)
		must(err)
		opts = append(opts, key)
	}
	nc, err := nats.Connect(url, opts...)
	must(err)
	defer nc.Close()
	label := cmp.Or(os.Getenv("LABEL"), "demo")
	n := agent{nexus: &nexus{nc, "main"}, url: cmp.Or(os.Getenv("MODEL_URL"), "http://127.0.0.1:11434/v1"), model: cmp.Or(os.Getenv("MODEL"), "any")}
	tool := object{"type": "function", "function": object{"name": "weather", "parameters": object{"type": "object", "properties": object{"city": object{"type": "string"}}}}}
	a := n.open(label, func(s any) error {
		return n.call("session.create", object{"id": id(), "label": label, "system": "You are terse.", "tools": []object{tool},
			"limits": object{"context_window": 128_000}}, s)
	})

	// A question with two tool calls at once.
	question := a.ask("What is the weather in Oslo and in Rome?")
	asked := len(a.said)
	a.converse()
	a.check()

	// Regenerate: the head goes back to the question; the first answer stays.
	must(a.call("session.move."+a.session, object{"id": id(), "to": question.ID}, &object{}))
	a.said = a.said[:asked]
	a.converse()

	// A long talk that the model's window can't hold.
	a.ask("Here is everything." + string(bytes.Repeat([]byte(" Everything."), 4000)))
	a.converse()
	a.ask("And now?")
	a.converse()
	a.check()

	// A fork from the question: another line of work with the same beginning.
	fork := n.open(label+"-fork", func(s any) error {
		return n.call("fork.create."+a.session, object{"id": id(), "turn": question.ID, "label": label + "-fork"}, s)
	})
	fork.ask("Never mind. Only Rome.")
	fork.converse()
	fork.check()
	fmt.Println(a.session, fork.session)
}

// storedTurn is what this program reads of a turn.
type storedTurn struct {
	Type     string    `json:"type"`
	Messages []message `json:"messages"`
	Response *message  `json:"response"`
}

type message struct {
	Parts []struct {
		call
		Content string `json:"content"`
	} `json:"parts"`
}

// turns reads the conversation, from its beginning or ("desc") from its head.
func (a *agent) turns(order string, take func(storedTurn) (more bool)) error {
	for r := (object{"full": true, "order": order}); ; {
		var page struct {
			Turns []storedTurn `json:"turns"`
			Next  string       `json:"next"`
		}
		if err := a.call("turn.list."+a.session, r, &page); err != nil {
			return err
		}
		for _, t := range page.Turns {
			if !take(t) {
				return nil
			}
		}
		if page.Next == "" {
			return nil
		}
		r["after"] = page.Next
	}
}

// texts are what was said, in order. The content of a large one is apart
// (blob.get) and not read here.
func (a *agent) texts() (said []string) {
	must(a.turns("asc", func(t storedTurn) bool {
		if t.Response != nil {
			t.Messages = append(t.Messages, *t.Response)
		}
		for _, m := range t.Messages {
			for _, p := range m.Parts {
				if p.Type == "text" && t.Type == "normal" {
					said = append(said, p.Content)
				}
			}
		}
		return true
	}))
	return said
}

// check reads the conversation back: every text that was said is there, in
// order, whatever the model was shown.
func (a *agent) check() {
	if got := a.texts(); fmt.Sprint(got) != fmt.Sprint(a.said) {
		log.Fatalf("read back %q, said %q", got, a.said)
	}
}

func post(url string, request object) (status int, wait time.Duration, body []byte) {
	b, err := json.Marshal(request)
	must(err)
	r, err := http.Post(url, "application/json", bytes.NewReader(b))
	must(err)
	defer r.Body.Close()
	body, err = io.ReadAll(r.Body)
	must(err)
	if wait, err = time.ParseDuration(r.Header.Get("Retry-After") + "s"); err != nil {
		wait = time.Second
	}
	return r.StatusCode, wait, body
}

func must(err error) {
	var r *refused
	if errors.As(err, &r) {
		log.Fatalf("nexus: %v %v", r, r.Details)
	}
	if err != nil {
		log.Fatal(err)
	}
}
