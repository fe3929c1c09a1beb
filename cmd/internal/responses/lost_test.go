package responses

import (
	"testing"

	"nexus/cmd/internal/responses/stream"
	"nexus/cmd/internal/responses/wire"
	"nexus/turns"
)

// A response that failed says whether the model may have been asked in vain: a refusal costs
// nothing, an answer that broke off or that nobody could read does.
func TestAnAnswerThatCouldNotBeReadIsALostOne(t *testing.T) {
	for code, want := range map[string]int{"rate_limit_exceeded": 1, "provider_denied": 1, "server_error": 1, "lost": 2, "timeout": 2, "invalid_answer": 2} {
		v := &view{head: &stream.SpoolHead{Lost: 1}}
		em := stream.NewEmitter(turns.Ref{}, wire.ToolChoice{}, false, func(e stream.Event) error { v.events = append(v.events, e); return nil })
		if err := em.Announce(&wire.Response{Status: wire.InProgress}, false); err != nil {
			t.Fatal(err)
		}
		r := &wire.Response{Status: wire.Failed, Error: &wire.ResponseError{Code: code, Message: "x"}}
		if err := em.Fail(&wire.Error{Code: code, Message: "x"}, r); err != nil {
			t.Fatal(err)
		}
		if got := v.lost(); got != want {
			t.Errorf("%s: %d, want %d", code, got, want)
		}
	}
}
