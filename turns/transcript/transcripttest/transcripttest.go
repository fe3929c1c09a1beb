package transcripttest

import (
	"bytes"
	"errors"
	"fmt"
	"nexus/turns"
	"nexus/turns/internal/values"
	"nexus/turns/transcript"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// Data returns the folder of real transcripts next to the project. It may not exist.
func Data(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return filepath.Join(dir, "..", "shared", "data")
		}
		if dir == filepath.Dir(dir) {
			t.Fatal("no go.mod above the test")
		}
		dir = filepath.Dir(dir)
	}
}

// ReadAll reads a transcript to its end.
func ReadAll(t rapid.TB, r *transcript.Reader) (steps []transcript.Step, losses []transcript.Loss) {
	t.Helper()
	for s, err := range r.Steps() {
		if err != nil {
			t.Fatal(err)
		}
		steps = append(steps, s)
	}
	return steps, r.Losses()
}

// Outline is what matters of steps, one line each: sessions and turns are
// numbered as they come.
func Outline(steps []transcript.Step) (out []string) {
	for _, s := range steps {
		switch {
		case s.Open != nil:
			var sys []string
			for _, x := range s.Open.System {
				sys = append(sys, x.Content)
			}
			out = append(out, "open "+s.Open.Model+" ["+strings.Join(sys, "|")+"]")
		case s.Append != nil:
			var ms []string
			for _, m := range s.Append.Messages {
				ms = append(ms, Brief(m))
			}
			r := "pending"
			if s.Append.Response != nil {
				r = Brief(*s.Append.Response)
			}
			out = append(out, "turn "+strings.Join(ms, ", ")+" => "+r)
		}
	}
	return out
}

// Brief is a message in few words.
func Brief(m turns.Message) string {
	out := string(m.Role) + "("
	for i, p := range m.Parts {
		if i > 0 {
			out += " "
		}
		switch p.Type {
		case turns.ToolCall:
			out += "call " + p.ID + " " + p.Name + string(p.Arguments)
		case turns.ToolCallResponse:
			out += "result " + p.ID + " " + string(p.Response)
		default:
			out += p.Content
		}
	}
	return out + ")"
}

var errCut = errors.New("the file goes on")

// StepsBeforeEnd returns the steps that are emitted before the end of the file is read.
func StepsBeforeEnd(t rapid.TB, f transcript.Format, b []byte) (steps []transcript.Step) {
	t.Helper()
	for s, err := range f.Open(&cutReader{bytes.NewReader(b)}, transcript.Options{}).Steps() {
		if errors.Is(err, errCut) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		steps = append(steps, s)
	}
	return steps
}

// cutReader gives errCut where its bytes end.
type cutReader struct{ r *bytes.Reader }

func (c *cutReader) Read(p []byte) (int, error) {
	if c.r.Len() == 0 {
		return iotest.ErrReader(errCut).Read(p)
	}
	return c.r.Read(p)
}

// stepIndex holds the steps of a transcript by id, to compare those of shorter copies
// with them.
type stepIndex map[turns.ID]indexedStep

type indexedStep struct {
	transcript.Step
	text []byte
}

// NewStepIndex returns the index of steps.
func NewStepIndex(steps []transcript.Step) stepIndex {
	x := make(stepIndex, len(steps))
	for _, s := range steps {
		x[s.ID()] = indexedStep{s, stepText(s)}
	}
	return x
}

// Contains returns an error that names the first of steps which the index lacks, or
// has with other content.
func (x stepIndex) Contains(steps []transcript.Step) error {
	for i, s := range steps {
		w, ok := x[s.ID()]
		if !ok {
			return fmt.Errorf("step %d, %s, is no step of the whole", i, s.ID())
		}
		if !bytes.Equal(stepText(s), w.text) {
			return fmt.Errorf("step %d, %s (-whole +copy):\n%s", i, s.ID(), values.Clipped(cmp.Diff(w.Step, s), 2000))
		}
	}
	return nil
}

// StepsOf reads a transcript of a format.
func StepsOf(t testing.TB, f transcript.Format, text string, opt transcript.Options) (steps []transcript.Step) {
	t.Helper()
	steps, _ = ReadAll(t, f.Open(strings.NewReader(text), opt))
	return steps
}

// GeminiCLILogText is a chat as newer versions write it: messages that are written again when
// more of them is known, a rewind to a prompt and one to the first, a compression.
const GeminiCLILogText = `{"sessionId":"s1","projectHash":"p","startTime":"2026-04-11T14:53:00Z","lastUpdated":"2026-04-11T14:53:00Z","kind":"main"}
{"id":"u1","timestamp":"2026-04-11T14:53:01Z","type":"user","content":[{"text":"one"}]}
{"$set":{"lastUpdated":"2026-04-11T14:53:01Z"}}
{"id":"g1","timestamp":"2026-04-11T14:53:02Z","type":"gemini","content":"I look.","thoughts":[],"tokens":null,"model":"m"}
{"id":"g1","timestamp":"2026-04-11T14:53:02Z","type":"gemini","content":"I look.","thoughts":[],"tokens":{"input":9,"output":2,"cached":0,"thoughts":0,"tool":0,"total":11},"model":"m"}
{"id":"g1","timestamp":"2026-04-11T14:53:02Z","type":"gemini","content":"I look.","thoughts":[],"tokens":{"input":9,"output":2,"cached":0,"thoughts":0,"tool":0,"total":11},"model":"m","toolCalls":[{"id":"t","name":"ls","args":{"n":1},"result":[{"functionResponse":{"id":"t","name":"ls","response":{"output":"x"}}}],"status":"success"}]}
{"id":"g2","timestamp":"2026-04-11T14:53:04Z","type":"gemini","content":"done","model":"m"}
{"id":"u2","timestamp":"2026-04-11T14:53:05Z","type":"user","content":"wrong way"}
{"id":"g3","timestamp":"2026-04-11T14:53:06Z","type":"gemini","content":"as you say","model":"m"}
{"$rewindTo":"u2"}
{"id":"u3","timestamp":"2026-04-11T14:53:07Z","type":"user","content":"right way"}
{"id":"g4","timestamp":"2026-04-11T14:53:08Z","type":"gemini","content":"better","model":"m"}
{"id":"u4","timestamp":"2026-04-11T14:53:09Z","type":"user","content":"last"}
{"$set":{"messages":[{"id":"c1","timestamp":"2026-04-11T14:53:10Z","type":"user","content":[{"text":"summary of all"}]},{"id":"c2","timestamp":"2026-04-11T14:53:10Z","type":"gemini","content":"Got it."},{"id":"g4","timestamp":"2026-04-11T14:53:08Z","type":"gemini","content":"better","model":"m"},{"id":"u4","timestamp":"2026-04-11T14:53:09Z","type":"user","content":"last"}],"lastUpdated":"2026-04-11T14:53:10Z"}}
{"id":"g5","timestamp":"2026-04-11T14:53:11Z","type":"gemini","content":"ok","model":"m"}
{"id":"u5","timestamp":"2026-04-11T14:53:12Z","type":"user","content":"again"}
{"$rewindTo":"u1"}
{"id":"u6","timestamp":"2026-04-11T14:53:13Z","type":"user","content":"from the start"}
{"id":"g6","timestamp":"2026-04-11T14:53:14Z","type":"gemini","content":"new","model":"m"}
{"$set":{"summary":"a title"}}
{"id":"u7","timestamp":"2026-04-11T14:53:15Z","type":"user","content":"bye"}
`

const GeminiCLIChat = `{"sessionId":"s-1","projectHash":"h","startTime":"2026-01-15T20:51:48.582Z","lastUpdated":"2026-01-15T20:52:29.285Z","messages":[
{"id":"u1","timestamp":"2026-01-15T20:51:48.582Z","type":"user","content":"make a file"},
{"id":"g1","timestamp":"2026-01-15T20:51:52.837Z","type":"gemini","content":"I will.","thoughts":[{"subject":"Plan","description":"Write it.","timestamp":"x"}],
 "toolCalls":[{"id":"w1","name":"write_file","args":{"p":1.50},"result":[{"functionResponse":{"id":"w1","name":"write_file","response":{"output":"done"}}}],"status":"success","displayName":"W"},
  {"id":"w2","name":"run","args":{},"result":[{"functionResponse":{"id":"w2","name":"run","response":{"error":"no"}}}],"status":"error"},
  {"id":"w3","name":"run","args":{},"status":"cancelled"}],
 "tokens":{"input":100,"output":5,"cached":80,"thoughts":7,"tool":1,"total":113},"model":"gemini-2.5-flash"},
{"id":"i1","timestamp":"2026-01-15T20:52:00Z","type":"info","content":"update available"},
{"id":"g2","timestamp":"2026-01-15T20:52:05Z","type":"gemini","content":"Made.","model":"gemini-2.5-flash","later":1},
{"id":"u2","timestamp":"2026-01-15T20:53:00Z","type":"user","content":[{"text":"and this?"},{"inlineData":{"mimeType":"image/png","data":"aGk="}}]}]}`

const CodexParent = `{"timestamp":"2026-04-11T14:53:07.700Z","type":"session_meta","payload":{"id":"019d7d08-46c9-7f73-affe-4e6ca9852d56","timestamp":"2026-04-11T14:53:07.660Z","cwd":"/w","cli_version":"0.1","source":"cli","base_instructions":{"text":"You are an agent."}}}
{"timestamp":"2026-04-11T14:53:08Z","type":"response_item","payload":{"type":"message","role":"developer","content":[{"type":"input_text","text":"rules"}]}}
{"timestamp":"2026-04-11T14:53:08Z","type":"turn_context","payload":{"model":"m-1"}}
{"timestamp":"2026-04-11T14:53:08Z","type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"look"},{"type":"input_image","image_url":"data:image/png;base64,aGk="}]}}
{"timestamp":"2026-04-11T14:53:08Z","type":"event_msg","payload":{"type":"user_message","message":"look"}}
{"timestamp":"2026-04-11T14:53:09Z","type":"response_item","payload":{"type":"reasoning","summary":[{"type":"summary_text","text":"hm"}],"content":null,"encrypted_content":"gAAA="}}
{"timestamp":"2026-04-11T14:53:09Z","type":"response_item","payload":{"type":"reasoning","summary":[],"content":null}}
{"timestamp":"2026-04-11T14:53:10Z","type":"response_item","payload":{"type":"message","role":"assistant","content":[{"type":"output_text","text":"I look."}],"phase":"commentary"}}
{"timestamp":"2026-04-11T14:53:11Z","type":"response_item","payload":{"type":"function_call","name":"exec","arguments":"{\"n\":1.50}","call_id":"c1"}}
{"timestamp":"2026-04-11T14:53:11Z","type":"response_item","payload":{"type":"custom_tool_call","name":"apply_patch","input":"*** Begin","call_id":"c2","status":"completed"}}
{"timestamp":"2026-04-11T14:53:12Z","type":"event_msg","payload":{"type":"token_count","info":{"total_token_usage":{"total_tokens":120},"last_token_usage":{"input_tokens":100,"cached_input_tokens":80,"output_tokens":20,"reasoning_output_tokens":12}}}}
{"timestamp":"2026-04-11T14:53:13Z","type":"response_item","payload":{"type":"function_call_output","call_id":"c1","output":"data"}}
{"timestamp":"2026-04-11T14:53:13Z","type":"response_item","payload":{"type":"custom_tool_call_output","call_id":"c2","output":"{\"ok\":true}"}}
{"timestamp":"2026-04-11T14:53:13Z","type":"event_msg","payload":{"type":"token_count","info":{"total_token_usage":{"total_tokens":120},"last_token_usage":{"input_tokens":100,"cached_input_tokens":80,"output_tokens":20}}}}
{"timestamp":"2026-04-11T14:53:14Z","type":"response_item","payload":{"type":"function_call","name":"spawn_agent","arguments":"","call_id":"c3"}}
`

const CodexRest = `{"timestamp":"2026-04-11T14:53:15Z","type":"response_item","payload":{"type":"function_call_output","call_id":"c3","output":"{\"agent\":1}"}}
{"timestamp":"2026-04-11T14:53:16Z","type":"compacted","payload":{"message":"","replacement_history":[{"type":"message","role":"user","content":[{"type":"input_text","text":"look"}]},{"type":"message","role":"assistant","content":[{"type":"output_text","text":"looked"}]}]}}
{"timestamp":"2026-04-11T14:53:16Z","type":"event_msg","payload":{"type":"context_compacted"}}
{"timestamp":"2026-04-11T14:53:17Z","type":"response_item","payload":{"type":"web_search_call","status":"completed"}}
{"timestamp":"2026-04-11T14:53:18Z","type":"response_item","payload":{"type":"message","role":"assistant","content":"done"}}
{"timestamp":"2026-04-11T14:53:19Z","type":"response_item","payload":{"type":"function_call_output","call_id":"lost","output":"x"}}
`

// CodexChild is what the agent that the parent spawned writes: its header, the
// parent's, the parent's history stamped anew, and its own.
func CodexChild() string {
	copied := strings.ReplaceAll(CodexParent, "2026-04-11T14:53:0", "2026-04-11T20:15:0")
	return `{"timestamp":"2026-04-11T20:15:02.756Z","type":"session_meta","payload":{"id":"019d7e2f-0041-7310-951c-94020254dfc9","forked_from_id":"019d7d08-46c9-7f73-affe-4e6ca9852d56","timestamp":"2026-04-11T20:15:02.723Z","source":{"subagent":{"thread_spawn":{"parent_thread_id":"019d7d08-46c9-7f73-affe-4e6ca9852d56"}}}}}
` + copied + `{"timestamp":"2026-04-11T20:15:02.761Z","type":"response_item","payload":{"type":"function_call_output","call_id":"c3","output":"You are the new agent."}}
{"timestamp":"2026-04-11T20:15:02.764Z","type":"event_msg","payload":{"type":"task_started","turn_id":"019d7e2f-006a-78e0-8d88-fc868c230ea4"}}
{"timestamp":"2026-04-11T20:15:04.113Z","type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"review"}]}}
{"timestamp":"2026-04-11T20:15:05Z","type":"response_item","payload":{"type":"message","role":"assistant","content":[{"type":"output_text","text":"reviewed"}]}}
`
}

const PiV1 = `{"type":"session","id":"s1","timestamp":"2025-12-09T00:53:29.825Z","cwd":"/w","provider":"anthropic","modelId":"m","thinkingLevel":"off","branchedFrom":"/x.jsonl"}
{"type":"message","timestamp":"2025-12-09T00:54:00Z","message":{"role":"user","content":[{"type":"text","text":"look"}]}}
{"type":"message","timestamp":"2025-12-09T00:54:01Z","message":{"role":"assistant","content":[{"type":"thinking","thinking":"hm","thinkingSignature":"sig="},{"type":"toolCall","id":"c1","name":"read","arguments":{"n":1.50}}],"api":"anthropic-messages","provider":"anthropic","model":"m2","usage":{"input":1,"output":2,"cacheRead":3,"cacheWrite":4,"totalTokens":10,"cost":{"total":0.1}},"stopReason":"toolUse"}}
{"type":"message","timestamp":"2025-12-09T00:54:02Z","message":{"role":"toolResult","toolCallId":"c1","toolName":"read","content":[{"type":"text","text":"data"}],"details":{"x":1},"isError":false}}
{"type":"thinking_level_change","timestamp":"2025-12-09T00:54:03Z","thinkingLevel":"high"}
{"type":"message","timestamp":"2025-12-09T00:54:04Z","message":{"role":"assistant","content":[],"api":"anthropic-messages","provider":"anthropic","model":"m2","usage":{"input":0,"output":0,"cacheRead":0,"cacheWrite":0},"stopReason":"aborted","errorMessage":"Request was aborted."}}
{"type":"message","timestamp":"2025-12-09T00:54:05Z","message":{"role":"bashExecution","command":"ls","output":"a","exitCode":0,"cancelled":false,"truncated":false}}
{"type":"message","timestamp":"2025-12-09T00:54:06Z","message":{"role":"user","content":"go on"}}
{"type":"message","timestamp":"2025-12-09T00:54:07Z","message":{"role":"assistant","content":[{"type":"text","text":"done"}],"stopReason":"stop"}}
{"type":"compaction","timestamp":"2025-12-09T00:54:08Z","summary":"it looked","tokensBefore":99,"firstKeptEntryIndex":6}
{"type":"message","timestamp":"2025-12-09T00:54:09Z","message":{"role":"user","content":"and now?"}}
`

const PiV3 = `{"type":"session","version":3,"id":"s3","timestamp":"2025-12-09T00:53:29.825Z","cwd":"/w"}
{"type":"message","id":"a1","parentId":null,"timestamp":"2025-12-09T00:54:00Z","message":{"role":"user","content":"one"}}
{"type":"message","id":"a2","parentId":"a1","timestamp":"2025-12-09T00:54:01Z","message":{"role":"assistant","content":"1"}}
{"type":"message","id":"a3","parentId":"a2","timestamp":"2025-12-09T00:54:02Z","message":{"role":"user","content":"two"}}
{"type":"message","id":"a4","parentId":"a3","timestamp":"2025-12-09T00:54:03Z","message":{"role":"assistant","content":"2"}}
{"type":"branch_summary","id":"b0","parentId":"a2","timestamp":"2025-12-09T00:55:00Z","fromId":"a4","summary":"tried two"}
{"type":"message","id":"b1","parentId":"b0","timestamp":"2025-12-09T00:55:01Z","message":{"role":"user","content":"three"}}
{"type":"message","id":"b2","parentId":"b1","timestamp":"2025-12-09T00:55:02Z","message":{"role":"assistant","content":"3"}}
{"type":"label","id":"l1","parentId":"b2","timestamp":"2025-12-09T00:55:03Z","targetId":"b2"}
{"type":"message","id":"c1","parentId":"a4","timestamp":"2025-12-09T00:56:00Z","message":{"role":"user","content":"four"}}
{"type":"message","id":"c2","parentId":"c1","timestamp":"2025-12-09T00:56:01Z","message":{"role":"assistant","content":"4"}}
{"type":"compaction","id":"k1","parentId":"c2","timestamp":"2025-12-09T00:56:02Z","summary":"all","tokensBefore":5,"firstKeptEntryId":"c1"}
{"type":"message","id":"d1","parentId":null,"timestamp":"2025-12-09T00:57:00Z","message":{"role":"user","content":"anew"}}
{"type":"message","id":"d2","parentId":"d1","timestamp":"2025-12-09T00:57:01Z","message":{"role":"assistant","content":"5"}}
`

// OutlineSteps is steps in short, with sessions and turns by number.
func OutlineSteps(steps []transcript.Step) (out []string) {
	names := make(map[turns.ID]string)
	name := func(id turns.ID, kind string) string {
		if id.IsZero() {
			return "-"
		}
		if names[id] == "" {
			n := 1
			for _, v := range names {
				if strings.HasPrefix(v, kind) {
					n++
				}
			}
			names[id] = kind + string('0'+rune(n))
		}
		return names[id]
	}
	for i, s := range steps {
		switch {
		case s.Open != nil:
			out = append(out, "open "+name(s.Open.ID, "S"))
		case s.Fork != nil:
			out = append(out, "fork "+name(s.Fork.ID, "S")+" at "+name(s.Fork.At.Turn, "T")+" of "+name(s.Fork.At.Session, "S"))
		case s.Append != nil:
			a := s.Append
			out = append(out, name(a.Session, "S")+" "+name(a.ID, "T")+" after "+name(a.Parent, "T")+strings.TrimPrefix(Outline(steps[i : i+1])[0], "turn"))
		case s.Compaction != nil:
			k := s.Compaction
			out = append(out, name(k.Session, "S")+" compaction after "+name(k.Parent, "T")+" keeps "+name(k.FirstKept, "T")+": "+k.Summary)
		}
	}
	return out
}

// OtlpLine is an export request with one span, attributes as OTLP writes them.
func OtlpLine(id, trace string, more ...string) string {
	attrs := append([]string{`{"key":"gen_ai.operation.name","value":{"stringValue":"chat"}}`}, more...)
	return `{"resourceSpans":[{"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"shop"}}]},"scopeSpans":[{"scope":{"name":"x"},"spans":[{"traceId":"` + trace + `","spanId":"` + id +
		`","name":"chat m","kind":3,"startTimeUnixNano":"1775919187000000000","endTimeUnixNano":"1775919188500000000","attributes":[` + strings.Join(attrs, ",") + `],"status":{}}]}]}]}` + "\n"
}

// OtlpCall is the attributes of a call: roles and texts in turn, the last one
// the answer; "" is no answer. As says whether messages are JSON in a string.
func OtlpCall(as string, texts ...string) []string {
	var in, out []string
	for i, s := range texts {
		role := []string{"user", "assistant"}[i%2]
		if as == "string" {
			m := fmt.Sprintf(`{"role":%q,"parts":[{"type":"text","content":%q}]`, role, s)
			if i == len(texts)-1 {
				out = append(out, m+`,"finish_reason":"stop"}`)
			} else {
				in = append(in, m+"}")
			}
			continue
		}
		m := `{"kvlistValue":{"values":[` + OtlpText("role", role) + `,{"key":"parts","value":{"arrayValue":{"values":[{"kvlistValue":{"values":[` + OtlpText("type", "text") + `,` + OtlpText("content", s) + `]}}]}}}]}}`
		if i == len(texts)-1 {
			out = append(out, m)
		} else {
			in = append(in, m)
		}
	}
	if as == "string" {
		return []string{OtlpText("gen_ai.input.messages", "["+strings.Join(in, ",")+"]"), OtlpText("gen_ai.output.messages", "["+strings.Join(out, ",")+"]")}
	}
	list := func(key string, ms []string) string {
		return `{"key":"` + key + `","value":{"arrayValue":{"values":[` + strings.Join(ms, ",") + `]}}}`
	}
	return []string{list("gen_ai.input.messages", in), list("gen_ai.output.messages", out)}
}

// Joined returns messages as a JSON list.
func Joined[T ~[]byte](messages []T) []byte {
	parts := make([][]byte, len(messages))
	for i, m := range messages {
		parts[i] = m
	}
	return slices.Concat([]byte("["), bytes.Join(parts, []byte(",")), []byte("]"))
}

// stepText returns a step as JSON, nil if it can not be encoded.
func stepText(s transcript.Step) []byte {
	b, err := turns.EncodeJSON(s)
	if err != nil {
		return nil
	}
	return b
}

func OtlpText(key, s string) string {
	return `{"key":"` + key + `","value":{"stringValue":` + string(turns.RawText(s)) + `}}`
}
