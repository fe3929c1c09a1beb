package enginetest

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"nexus/cmd/internal/engine"
	"nexus/ledger/api"
	"nexus/turns"
)

// Must returns a function that returns v, or ends the test if err is not nil.
func Must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// JSON returns the JSON of v.
func JSON(v any) []byte {
	b, err := turns.EncodeJSON(v)
	if err != nil {
		panic(err)
	}
	return b
}

// Code returns the code of an error, "" if it is nil.
func Code(err error) api.Code {
	if err == nil {
		return ""
	}
	return api.FromError(err).Code
}

// Create opens a session of [Alice] with a context window and a policy.
func Create(t testing.TB, e *engine.Engine, window uint64, policy string) *api.Session {
	t.Helper()
	r := api.CreateSession{}
	r.Limits = &turns.Limits{ContextWindow: window}
	r.Policy = &api.Policy{Name: policy}
	return Must(e.Sessions.Create(t.Context(), Alice, r, []byte("{}")))(t)
}

// Add appends a turn to a session of [Alice].
func Add(t testing.TB, e *engine.Engine, s turns.ID, r api.AppendTurn) *api.Appended {
	t.Helper()
	return Must(e.Sessions.Append(t.Context(), Alice, s, r, JSON(r)))(t)
}

// Verified verifies the whole ledger. Every problem is an error of the test.
func Verified(t testing.TB, e *engine.Engine) *api.Verified {
	t.Helper()
	v := Must(e.Audit.Verify(t.Context(), Operator, api.Verify{}))(t)
	for _, p := range v.Problems {
		t.Errorf("verify: %+v", p)
	}
	return v
}

// Say returns a turn of one message and a response; without a response if that is "".
func Say(user, assistant string) api.AppendTurn {
	r := api.AppendTurn{Messages: []turns.Message{turns.TextMessage(turns.User, user)}}
	if assistant != "" {
		m := turns.TextMessage(turns.Assistant, assistant)
		r.Response = &m
	}
	return r
}

// CallTool returns a turn whose response makes tool calls with these ids.
func CallTool(ids ...string) api.AppendTurn {
	r := Say("go", "")
	r.Response = &turns.Message{Role: turns.Assistant}
	for _, id := range ids {
		r.Response.Parts = append(r.Response.Parts, turns.Part{Type: turns.ToolCall, ID: id, Name: "run", Arguments: turns.Raw(`{}`)})
	}
	return r
}

// AnswerCalls returns a pending turn with the results of the tool calls with these ids.
func AnswerCalls(ids ...string) api.AppendTurn {
	var r api.AppendTurn
	for _, id := range ids {
		r.Messages = append(r.Messages, turns.Message{Role: turns.Tool, Parts: []turns.Part{{Type: turns.ToolCallResponse, ID: id, Response: turns.Raw(`"ok"`)}}})
	}
	return r
}

// NameBlob returns a turn with a text that is in a blob.
func NameBlob(user string, info *api.BlobInfo) api.AppendTurn {
	r := Say(user, "done")
	r.Messages[0].Parts = append(r.Messages[0].Parts, turns.Part{Type: turns.Text, Ref: &turns.BlobRef{Digest: info.Digest, Size: info.Size}})
	return r
}

// Preamble returns a system part of n bytes, whose words differ, and 20 tools of 800 bytes.
func Preamble(n int) (api.System, []turns.Raw) {
	tools := make([]turns.Raw, 20)
	for i := range tools {
		tools[i] = turns.Raw(fmt.Sprintf(`{"name":"tool_%d","description":%q,"parameters":{"type":"object","properties":{"path":{"type":"string"}}}}`, i, strings.Repeat(fmt.Sprintf("When %d is used. ", i*i*7919), 40)))
	}
	var text strings.Builder
	for i := 0; text.Len() < n; i++ {
		fmt.Fprintf(&text, "Rule %d: be brief about %d, and say what you did. ", i, i*i*104729%1000003)
	}
	return api.System{{Name: "instructions", Content: text.String()[:n]}}, tools
}

// Noise returns n characters that do not compress much.
func Noise(n int) string {
	rng := rand.New(rand.NewPCG(uint64(n), 7))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte('!' + rng.IntN(90))
	}
	return string(b)
}

// Allocated returns how many MiB f allocates.
func Allocated(f func()) int {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return int((after.TotalAlloc - before.TotalAlloc) >> 20)
}
