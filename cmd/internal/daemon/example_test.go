package daemon_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"nexus/cmd/internal/daemon"
	"nexus/cmd/internal/daemon/config"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
)

// A Go program that wants the ledger in its own process opens a daemon and talks
// to it as every client does. Nothing listens beyond the loopback address.
func ExampleOpen() {
	ctx := context.Background()
	data, err := os.MkdirTemp("", "ledger")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(data)
	d, err := daemon.Open(ctx, config.Config{Data: data, Listen: "127.0.0.1:0", HTTP: "off"})
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close(ctx)
	nc, err := d.Connect()
	if err != nil {
		log.Fatal(err)
	}
	defer nc.Close()

	agent := client.New(nc, "default", "main")
	s, err := agent.Create(ctx, api.CreateSession{})
	if err != nil {
		log.Fatal(err)
	}
	answer := turns.TextMessage(turns.Assistant, "A ledger keeps what was said.")
	ack, err := agent.Append(ctx, s.ID, api.AppendTurn{
		Messages: []turns.Message{turns.TextMessage(turns.User, "What is a ledger?")},
		Response: &answer,
	})
	if err != nil {
		log.Fatal(err)
	}
	next, err := agent.Context(ctx, s.ID, api.GetContext{Format: "openai"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("depth", ack.Depth)
	for _, m := range next.Messages {
		fmt.Println(string(m))
	}
	// Output:
	// depth 1
	// {"role":"user","content":"What is a ledger?"}
	// {"role":"assistant","content":"A ledger keeps what was said."}
}
