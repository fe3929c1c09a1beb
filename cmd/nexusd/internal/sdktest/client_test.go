package sdktest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"

	"nexus/cmd/internal/provider/providertest"
	"nexus/cmd/nexusd/internal/faulttest"
)

// The Go library goes through a conversation with a tool, a stream, a fork and a retry,
// before a provider of each kind.
func TestGoClientHasAConversation(t *testing.T) {
	servers := make(map[string]*providertest.Server)
	var rows strings.Builder
	for _, kind := range providertest.Kinds() {
		servers[kind] = providertest.Start(t, nil)
		rows.WriteString(servers[kind].Row(kind, kind, "model-of-"+kind))
	}
	config := filepath.Join(t.TempDir(), "nexus.toml")
	if err := os.WriteFile(config, []byte(rows.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(t.TempDir(), "nexusd")
	build := exec.Command("go", "build", "-o", bin, "./cmd/nexusd")
	build.Dir = filepath.Join("..", "..", "..", "..") // the module that has it
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	d, err := faulttest.StartNexusd(t.Context(), os.Stderr, bin, "--data", t.TempDir(), "--config", config, "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0",
		"--log-level", "error", "--max-store", "2000000000")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Kill)
	for _, kind := range providertest.Kinds() {
		t.Run(kind, func(t *testing.T) {
			c := openai.NewClient(option.WithBaseURL(d.HTTP+"/v1"), option.WithAPIKey("none"))
			model := "model-of-" + kind
			text := func(s string) responses.ResponseNewParamsInputUnion {
				return responses.ResponseNewParamsInputUnion{OfString: openai.String(s)}
			}
			weather := responses.ToolParamOfFunction("get_weather", map[string]any{"type": "object", "properties": map[string]any{"place": map[string]any{"type": "string"}}, "required": []string{"place"}}, false)
			asked, err := c.Responses.New(t.Context(), responses.ResponseNewParams{Model: model, Input: text("the weather please"), Tools: []responses.ToolUnionParam{weather}})
			if err != nil {
				t.Fatal(err)
			}
			call := asked.Output[len(asked.Output)-1]
			if call.Type != "function_call" || call.Name != "get_weather" {
				t.Fatalf("%s", asked.RawJSON())
			}
			output := responses.ResponseInputItemParamOfFunctionCallOutput("rain")
			output.OfFunctionCallOutput.CallID = openai.String(call.CallID)
			told, err := c.Responses.New(t.Context(), responses.ResponseNewParams{Model: model, PreviousResponseID: openai.String(asked.ID), Tools: []responses.ToolUnionParam{weather},
				Input: responses.ResponseNewParamsInputUnion{OfInputItemList: responses.ResponseInputParam{output}}})
			if err != nil {
				t.Fatal(err)
			}
			if told.OutputText() != "The tools say: rain" {
				t.Errorf("%q", told.OutputText())
			}
			s := c.Responses.NewStreaming(t.Context(), responses.ResponseNewParams{Model: model, PreviousResponseID: openai.String(told.ID), Input: text("exactly: one two three")})
			var said strings.Builder
			last := ""
			for s.Next() {
				e := s.Current()
				if last = e.Type; e.Type == "response.output_text.delta" {
					said.WriteString(e.Delta)
				}
			}
			if s.Err() != nil || said.String() != "one two three" || last != "response.completed" {
				t.Errorf("%v: %q, at last %s", s.Err(), said.String(), last)
			}
			fork := responses.ResponseNewParams{Model: model, PreviousResponseID: openai.String(told.ID), Input: text("exactly: another way")}
			key := option.WithHeader("Idempotency-Key", "retry "+kind)
			once, err := c.Responses.New(t.Context(), fork, key)
			if err != nil {
				t.Fatal(err)
			}
			twice, err := c.Responses.New(t.Context(), fork, key)
			if err != nil || twice.ID != once.ID || !strings.Contains(once.RawJSON(), `"forked_from"`) || servers[kind].Count("another way") != 1 {
				t.Errorf("%v: %s, then %s after %d calls", err, once.RawJSON(), twice.RawJSON(), servers[kind].Count("another way"))
			}
			if errs := servers[kind].Refused(); len(errs) > 0 {
				t.Error(errs)
			}
		})
	}
}
