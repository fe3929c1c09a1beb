package hooks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"

	"nexus/cmd/internal/agents"
	"nexus/cmd/internal/repository"
	"nexus/cmd/internal/watch"
	"nexus/cmd/ledgerctl/internal/cli"
	"nexus/cmd/ledgerctl/internal/codetree"
	"nexus/cmd/ledgerctl/internal/connect"
	"nexus/cmd/ledgerctl/internal/fault"
	"nexus/cmd/ledgerctl/internal/follow"
	"nexus/cmd/ledgerctl/internal/pi"
	"nexus/ledger/api/client"
	"nexus/ledger/api/mcp"
)

// input is what an agent tells a hook.
type input struct {
	Event           string `json:"hook_event_name"`
	Transcript      string `json:"transcript_path"`
	AgentTranscript string `json:"agent_transcript_path"`
	Cwd             string `json:"cwd"`

	Compact *pi.Request `json:"compact"` // of pi: it asks for the compaction
}

// times are how long a hook works at most, by event: less than its agent waits.
var times = map[string]time.Duration{"SessionEnd": 1200 * time.Millisecond}

// compactTime is how long pi waits for a compaction, which a model may write.
const usualTime, compactTime = 6 * time.Second, 55 * time.Second

// maxInput bounds what a hook reads, and maxBrief what it prints, in bytes.
const maxInput, maxBrief = 4 << 20, 9000

// Answer answers a coding agent that calls with an event, and notes how that went. It never fails the agent.
func Answer(ctx context.Context, e *cli.Env, from, event string, code bool) {
	began, limit := time.Now(), cmp.Or(times[event], usualTime)
	if from == agents.Pi && event == "PreCompact" {
		limit = compactTime
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := do(ctx, e, event, code)
	note := Fired{Agent: from, Event: event, Time: began, TookMS: time.Since(began).Milliseconds()}
	if err != nil {
		note.Failed = fault.Plainly(nil, err)
	}
	if dir, err := follow.StateFolder("hooks"); err == nil && event != "" {
		_ = note.Note(dir) // nobody could be told
	}
}

// do does what an event asks for.
func do(ctx context.Context, e *cli.Env, event string, code bool) error {
	if event == "" {
		return errors.New("the event is not named")
	}
	b, err := io.ReadAll(io.LimitReader(e.In, maxInput))
	if err != nil {
		return err
	}
	var in input
	if err := json.Unmarshal(b, &in); err != nil {
		return errors.New("what the agent wrote is no JSON object")
	}
	e.Options = append(e.Options, nats.Timeout(500*time.Millisecond), nats.NoReconnect())
	e.Command = ctx // an agent waits for no process that starts
	nc, err := e.Dial()
	if err != nil {
		return err
	}
	e.NC = nc
	agent := cmp.Or(e.Agent, "main")
	client := client.New(nc, e.Tenant, agent)
	if event == "SessionStart" { // what is printed first, the agent has even if the rest takes too long
		project, _ := repository.Of(ctx, in.Cwd)
		text, err := mcp.BriefText(ctx, client, mcp.Caller{Tenant: e.Tenant, Agent: agent}, in.Cwd, cmp.Or(project.Remote, project.Root))
		if err == nil {
			err = e.Print(map[string]any{"hookSpecificOutput": map[string]any{"hookEventName": event, "additionalContext": clippedText(text, maxBrief)}})
		}
		if err != nil {
			return err
		}
	}
	var cfg watch.Config
	if cfg.Sources, err = follow.Sources(nil); err != nil {
		return err
	}
	if cfg.State, err = follow.StateFolder("watch"); err != nil {
		return err
	}
	cfg.Ledger = fmt.Sprintf("%s %s/%s", connect.PlainURL(e.Server), e.Tenant, agent)
	cfg.Connect = watch.Dialed(client)
	if code {
		follow.RecordCode(&cfg, codetree.Limits{})
	}
	for _, path := range []string{in.Transcript, in.AgentTranscript} {
		if path == "" {
			continue
		}
		if _, err := watch.Deliver(ctx, cfg, path); err != nil && !(event == "SessionStart" && errors.Is(err, os.ErrNotExist)) { // a new session has none yet
			return err
		}
	}
	if in.Compact == nil {
		return nil
	}
	session, err := os.Open(in.Transcript)
	if err != nil {
		return err
	}
	defer session.Close()
	k, err := pi.Compact(ctx, client, session, *in.Compact)
	if err != nil {
		return err
	}
	return e.Print(map[string]any{"compaction": k})
}

// clippedText returns the first bytes of a text, as whole lines.
func clippedText(s string, n int) string {
	if len(s) <= n {
		return s
	}
	s = s[:n]
	return strings.ToValidUTF8(s[:max(strings.LastIndexByte(s, '\n'), 0)], "")
}
