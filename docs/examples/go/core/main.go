// Command core goes through the core of Nexus with nothing but a NATS client: append, a retry
// with the same id, context, fork, rewind, compact, and an error. docs/GUIDE.md explains it.
//
//	go run ./docs/examples/go/core
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/oklog/ulid/v2"
)

type object = map[string]any

// refused is an answer that is an error.
type refused struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Details object `json:"details"`
}

func (r *refused) Error() string { return r.Code + ": " + r.Message }

var nc *nats.Conn

// call is one request.
func call(verb string, request object) (reply object, err error) {
	body, err := json.Marshal(request)
	if err != nil {
		return nil, err
	}
	m, err := nc.Request("nexus.v1.default.main."+verb, body, 35*time.Second)
	if err != nil {
		return nil, err
	}
	if m.Header.Get("Nats-Service-Error-Code") != "" {
		var answer struct {
			Error refused `json:"error"`
		}
		if err := json.Unmarshal(m.Data, &answer); err != nil {
			return nil, err
		}
		return nil, &answer.Error
	}
	return reply, json.Unmarshal(m.Data, &reply)
}

func must(reply object, err error) object {
	if err != nil {
		log.Fatal(err)
	}
	return reply
}

func text(role, content string) object {
	return object{"role": role, "parts": []object{{"type": "text", "content": content}}}
}

func id(o object) string { return o["id"].(string) }

func main() {
	url := nats.DefaultURL
	if u := os.Getenv("NEXUS_URL"); u != "" {
		url = u
	}
	var options []nats.Option
	if file := os.Getenv("NEXUS_CREDS"); file != "" {
		key, err := nats.NkeyOptionFromSeed(file)
		if err != nil {
			log.Fatal(err)
		}
		options = append(options, key)
	}
	var err error
	if nc, err = nats.Connect(url, options...); err != nil {
		log.Fatal(err)
	}
	defer nc.Close()

	session := id(must(call("session.create", object{"system": "You are terse."})))

	question := object{"id": ulid.Make().String(), "messages": []object{text("user", "What is a ledger?")}}
	first := must(call("turn.append."+session, question))

	again := must(call("turn.append."+session, question))
	fmt.Println("one turn:", again["hash"] == first["hash"])

	context := must(call("context.get."+session, object{"format": "openai"}))
	fmt.Println("messages for the model:", len(context["messages"].([]any)))
	answer := must(call("turn.append."+session, object{"messages": []object{}, "response": text("assistant", "A record that only grows.")}))

	for range 3 {
		must(call("turn.append."+session, object{"messages": []object{text("user", "Go on.")}, "response": text("assistant", strings.Repeat("A page of a long answer. ", 40))}))
	}
	run := must(call("compaction.run."+session, object{"policy": object{"name": "balanced", "set": object{"keep_tokens": 50}}}))
	fmt.Println("compaction:", run["state"])

	fork := id(must(call("fork.create."+session, object{"turn": id(answer)})))
	must(call("turn.append."+fork, object{"messages": []object{text("user", "And a journal?")}}))
	context = must(call("context.get."+fork, object{"format": "openai"}))
	fmt.Println("messages on the fork:", len(context["messages"].([]any)))

	moved := must(call("session.move."+session, object{"to": id(first)}))
	fmt.Println("head at depth:", moved["depth"])

	_, err = call("turn.append."+session, object{"parent": id(answer), "messages": []object{text("user", "Too late.")}})
	if r := (*refused)(nil); errors.As(err, &r) {
		fmt.Println("refused:", r.Code, r.Details["head"] == id(first))
	}
}
