package claude

import (
	"bufio"
	"bytes"
	"io"

	"github.com/go-json-experiment/json"

	"nexus/turns"
	"nexus/turns/internal/values"
	"nexus/turns/transcript"
)

// Spawner returns the turn of a transcript of Claude Code whose call started a
// sub-agent; zero if it has no such call. call is the id of the call; empty: a result in the
// transcript says which call it was, by the sub-agent's agentId.
func Spawner(r *bufio.Reader, call, agent string) turns.Ref {
	calls := map[string]bool{call: true}
	if call == "" {
		clear(calls)
		r = bufio.NewReader(io.TeeReader(r, &startedCalls{agent: agent, calls: calls}))
	}
	made := make(map[string]turns.Ref)
	for s, err := range Read(r, transcript.Options{Final: true, Copied: true}).Steps() {
		if err != nil {
			break
		}
		if s.Append == nil || s.Append.Response == nil {
			continue
		}
		for i := range s.Append.Response.Parts {
			if p := &s.Append.Response.Parts[i]; p.Type == turns.ToolCall {
				made[p.ID] = turns.Ref{Session: s.Append.Session, Turn: s.Append.ID}
			}
		}
	}
	for id := range calls {
		if by, ok := made[id]; ok {
			return by
		}
	}
	return turns.Ref{}
}

// startedCalls notes, of the lines that are written to it, the calls whose results a sub-agent
// gave.
type startedCalls struct {
	agent string
	calls map[string]bool
	line  []byte // that is not whole yet
}

func (s *startedCalls) Write(b []byte) (int, error) {
	n := len(b)
	for {
		line, rest, ok := bytes.Cut(b, []byte("\n"))
		s.line = append(s.line, line...)
		if !ok {
			return n, nil
		}
		s.read()
		s.line, b = s.line[:0], rest
	}
}

func (s *startedCalls) read() {
	if !bytes.Contains(s.line, []byte(s.agent)) {
		return
	}
	var l struct {
		Result  turns.Raw `json:"toolUseResult"`
		Message struct {
			Content turns.Raw `json:"content"`
		} `json:"message"`
	}
	if json.Unmarshal(s.line, &l) != nil || values.Members(l.Result).Text("agentId") != s.agent {
		return
	}
	var blocks []turns.Raw
	if json.Unmarshal(l.Message.Content, &blocks) != nil {
		return
	}
	for _, b := range blocks {
		if id := values.Members(b).Text("tool_use_id"); id != "" {
			s.calls[id] = true
		}
	}
}
