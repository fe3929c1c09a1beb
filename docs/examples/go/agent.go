// Command agent is a complete agent loop on Nexus with nothing but a NATS
// client: it opens a session, asks a model over HTTP, runs the tools that the
// model calls, survives a refused context, regenerates an answer, forks, and
// reads everything back.
//
//	NEXUS_URL=nats://127.0.0.1:4222 MODEL_URL=http://127.0.0.1:11434/v1 go run ./docs/examples/go
package main

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
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

// agent is one conversation.
type agent struct {
	*nexus
	model, session string
	said           []string // what was said, to compare at the end
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
	Messages []json.RawMessage `json:"messages"`
	Tools    []json.RawMessage `json:"tools"`
	Next     string            `json:"next"`
}

// context asks for the next call's messages. A long context comes in pages.
func (a *agent) context(verb string, r object) (all modelContext) {
	for {
		var page modelContext
		must(a.call(verb+"."+a.session, r, &page))
		all.Messages = append(all.Messages, page.Messages...)
		if page.Tools != nil {
			all.Tools = page.Tools
		}
		if page.Next == "" {
			return all
		}
		r["after"] = page.Next
	}
}

// answer lets the model answer the conversation so far, and stores the answer.
func (a *agent) answer() (calls []call) {
	c := a.context("context.get", object{"format": "openai"})
	for {
		status, wait, body := post(a.model+"/chat/completions", object{"model": "any", "messages": c.Messages, "tools": c.Tools})
		switch {
		case status == http.StatusOK:
			return a.store(body)
		case status == http.StatusTooManyRequests:
			time.Sleep(wait)
		default:
			// Too long? Nexus reads the provider's words, compacts, and gives the
			// context that is left. Anything else it refuses, and so do we.
			log.Printf("the model refused: %d; asking for a shorter context", status)
			c = a.context("context.overflow", object{"id": id(), "error": string(body), "status": status, "format": "openai"})
		}
	}
}

// call is a tool call of the model's.
type call struct {
	ID       string `json:"id"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

// store appends the model's message as the response of the turn before it.
func (a *agent) store(body []byte) []call {
	var r struct {
		Choices []struct {
			Reason  string `json:"finish_reason"`
			Message struct {
				Content string `json:"content"`
				Calls   []call `json:"tool_calls"`
			} `json:"message"`
		} `json:"choices"`
		Usage struct {
			Prompt     int `json:"prompt_tokens"`
			Completion int `json:"completion_tokens"`
		} `json:"usage"`
	}
	must(json.Unmarshal(body, &r))
	m := r.Choices[0].Message
	parts := []object{}
	if m.Content != "" {
		parts = append(parts, object{"type": "text", "content": m.Content})
		a.said = append(a.said, m.Content)
	}
	for _, c := range m.Calls {
		parts = append(parts, object{"type": "tool_call", "id": c.ID, "name": c.Function.Name, "arguments": json.RawMessage(c.Function.Arguments)})
	}
	response := object{"role": "assistant", "parts": parts, "finish_reason": r.Choices[0].Reason}
	var t turn
	must(a.call("turn.append."+a.session, object{"id": id(), "messages": []object{}, "response": response,
		"usage": object{"input_tokens": r.Usage.Prompt, "output_tokens": r.Usage.Completion}}, &t))
	log.Printf("%d calls, %q; compaction is %s", len(m.Calls), m.Content, t.Compaction.State)
	return m.Calls
}

// converse answers until the model calls no more tools. Results are appended
// one by one, as they come in.
func (a *agent) converse() {
	for calls := a.answer(); len(calls) > 0; calls = a.answer() {
		for _, c := range calls {
			result := "sunny in " + c.Function.Arguments
			a.appends([]object{{"role": "tool", "parts": []object{{"type": "tool_call_response", "id": c.ID, "response": result}}}}, nil)
		}
	}
}

// ask stores what the user said before anybody answers it, so that it is not
// lost if this process is.
func (a *agent) ask(s string) turn {
	a.said = append(a.said, s)
	return a.appends([]object{text("user", s)}, nil)
}

func main() {
	nc, err := nats.Connect(os.Getenv("NEXUS_URL"))
	must(err)
	defer nc.Close()
	n := &nexus{nc, "main"}
	tool := object{"type": "function", "function": object{"name": "weather", "parameters": object{"type": "object", "properties": object{"city": object{"type": "string"}}}}}
	var s struct {
		ID string `json:"id"`
	}
	must(n.call("session.create", object{"id": id(), "label": os.Getenv("LABEL"), "system": "You are terse.", "tools": []object{tool},
		"limits": object{"context_window": 128_000}}, &s))
	a := &agent{nexus: n, model: os.Getenv("MODEL_URL"), session: s.ID}

	// A question with two tool calls at once.
	question := a.ask("What is the weather in Oslo and in Rome?")
	a.converse()
	if err := a.check(); err != nil {
		log.Fatal(err)
	}

	// Regenerate: the head goes back to the question; the first answer stays.
	must(a.call("session.move."+a.session, object{"id": id(), "to": question.ID}, &s))
	a.said = a.said[:1]
	a.converse()

	// A long talk that the model's window can't hold.
	a.ask("Here is everything." + string(bytes.Repeat([]byte(" Everything."), 4000)))
	a.converse()
	a.ask("And now?")
	a.converse()
	if err := a.check(); err != nil {
		log.Fatal(err)
	}

	// A fork from the question: another line of work with the same beginning.
	fork := *a
	must(a.call("fork.create."+a.session, object{"id": id(), "turn": question.ID, "label": os.Getenv("LABEL") + "-fork"}, &s))
	fork.session, fork.said = s.ID, a.said[:1:1]
	fork.ask("Never mind. Only Rome.")
	fork.converse()
	if err := fork.check(); err != nil {
		log.Fatal(err)
	}
	fmt.Println(a.session, fork.session)
}

// check reads the conversation back: every text that was said is there, in
// order, whatever the model was shown.
func (a *agent) check() error {
	var got []string
	for r := (object{"full": true}); ; {
		var page struct {
			Turns []struct {
				Type     string    `json:"type"`
				Messages []message `json:"messages"`
				Response *message  `json:"response"`
			} `json:"turns"`
			Next string `json:"next"`
		}
		if err := a.call("turn.list."+a.session, r, &page); err != nil {
			return err
		}
		for _, t := range page.Turns {
			if t.Response != nil {
				t.Messages = append(t.Messages, *t.Response)
			}
			for _, m := range t.Messages {
				for _, p := range m.Parts {
					if p.Type == "text" && t.Type == "normal" {
						got = append(got, p.Content)
					}
				}
			}
		}
		if page.Next == "" {
			break
		}
		r["after"] = page.Next
	}
	if fmt.Sprint(got) != fmt.Sprint(a.said) {
		return fmt.Errorf("read back %q, said %q", got, a.said)
	}
	return nil
}

type message struct {
	Parts []struct {
		Type    string `json:"type"`
		Content string `json:"content"`
	} `json:"parts"`
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
