package claude

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"nexus/turns/transcript"
	"nexus/turns/transcript/transcripttest"
)

// randomClaude draws a transcript of tangled lines: parents, ids and sessions
// from small pools, so that rewinds, duplicates, orphans, late and early lines,
// compactions and sub-agents meet in every way.
// Without late no line comes before its parent.
func randomClaude(t *rapid.T, late bool) string {
	pick := func(label string, from ...string) string { return rapid.SampledFrom(from).Draw(t, label) }
	var b strings.Builder
	n := rapid.IntRange(1, 40).Draw(t, "lines")
	copied := rapid.SampledFrom([]int{0, 0, 5, 10}).Draw(t, "copies") // of ten lines at the beginning
	for i := range n {
		parent := "null"
		switch rapid.IntRange(0, 9).Draw(t, "parent") {
		case 0:
		case 1, 2, 3:
			last := n
			if !late {
				last = max(i-1, 0)
			}
			parent = fmt.Sprintf(`"l%d"`, rapid.IntRange(0, last).Draw(t, "any"))
		default:
			parent = fmt.Sprintf(`"l%d"`, max(i-1, 0))
		}
		if i == 0 && !late {
			parent = "null"
		}
		uuid := i
		if late && rapid.IntRange(0, 19).Draw(t, "dup") == 0 {
			uuid = rapid.IntRange(0, n).Draw(t, "uuid")
		}
		call := fmt.Sprint("c", rapid.IntRange(0, 6).Draw(t, "call"))
		kind := pick("kind", "text", "text", "use", "use", "result", "result", "prompt", "prompt", "meta", "boundary", "kept", "summary", "micro", "stop", "queued")
		var rest string
		switch kind {
		case "text", "use":
			block := `{"type":"text","text":"x"}`
			if kind == "use" {
				block = fmt.Sprintf(`{"type":"tool_use","id":%q,"name":"B","input":{}}`, call)
			}
			rest = fmt.Sprintf(`"type":"assistant","message":{"id":"m%d","stop_reason":%s,"content":[%s]}`, rapid.IntRange(i/2, i+1).Draw(t, "message"),
				pick("stop", "null", "null", `"tool_use"`, `"end_turn"`), block)
		case "result":
			rest = fmt.Sprintf(`"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":%q,"content":"%d"}]}`, call, i)
		case "prompt":
			rest = `"type":"user","message":{"content":"p"}`
		case "meta":
			rest = `"type":"user","isMeta":true,"message":{"content":"p"}`
		case "boundary":
			rest = `"type":"system","subtype":"compact_boundary","compactMetadata":{"trigger":"auto","preTokens":7}`
		case "kept":
			rest = fmt.Sprintf(`"type":"system","subtype":"compact_boundary","compactMetadata":{"preservedSegment":{"headUuid":"l%d","anchorUuid":"l%d","tailUuid":"l%d"}}`, rapid.IntRange(0, n).Draw(t, "head"), i+1, rapid.IntRange(0, n).Draw(t, "tail"))
		case "summary":
			rest = `"type":"user","isCompactSummary":true,"message":{"content":"s"}`
		case "micro":
			rest = fmt.Sprintf(`"type":"system","subtype":"microcompact_boundary","microcompactMetadata":{"compactedToolIds":["c0",%q]}`, call)
		case "stop":
			rest = `"type":"system","subtype":"turn_duration"`
		case "queued":
			rest = `"type":"attachment","attachment":{"type":"queued_command","prompt":"q"}`
		}
		side := ""
		if rapid.IntRange(0, 9).Draw(t, "side") == 0 {
			side = `"isSidechain":true,` + pick("agent", "", `"agentId":"g",`)
		}
		if rapid.IntRange(0, 9).Draw(t, "copied") < copied && i < 12 {
			side += fmt.Sprintf(`"forkedFrom":{"sessionId":%q,"messageUuid":"l%d"},`, pick("origin", "P", "P", "P", "Q", "S", "R"), uuid)
		}
		at := fmt.Sprintf(`"timestamp":"2026-01-01T00:00:%02dZ",`, i)
		if rapid.IntRange(0, 9).Draw(t, "time") == 0 {
			at = ""
		}
		line := fmt.Sprintf(`{"parentUuid":%s,"uuid":"l%d","sessionId":%q,%s%s%s}`, parent, uuid, pick("session", "S", "S", "S", "S", "S", "S", "R", "P", ""), at, side, rest)
		if rapid.IntRange(0, 19).Draw(t, "torn") == 0 {
			line = line[:rapid.IntRange(1, len(line)-1).Draw(t, "tear")]
		}
		b.WriteString(line + "\n")
	}
	return b.String()
}

// claudeWithCopies reads with the history that was copied from other sessions.
func claudeWithCopies(t rapid.TB, text string) []transcript.Step {
	steps, _ := transcripttest.ReadAll(t, Read(strings.NewReader(text), transcript.Options{Final: true, Copied: true}))
	return steps
}

// Whatever the tangle: steps that can be done one by one; of a shorter copy a
// prefix of them before its end is known, and at its end steps that are among them.
func TestClaudeRandom(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		late := rapid.Bool().Draw(r, "late")
		text := randomClaude(r, late)
		steps, losses := readClaude(r, []byte(text), true)
		whole, index := claudeDigests(r, steps), transcripttest.NewStepIndex(steps)
		for cut, c := range text {
			if c != '\n' {
				continue
			}
			for _, at := range []int{cut, cut + 1, max(cut-9, 0)} {
				if !isPrefix(claudeDigests(r, transcripttest.StepsBeforeEnd(r, Format(), []byte(text[:at]))), whole) {
					r.Fatalf("cut at byte %d: not a prefix", at)
				}
				if err := index.Contains(claudeSteps(r, []byte(text[:at]), false)); err != nil {
					r.Fatalf("cut at byte %d: %v", at, err)
				}
			}
		}
		checkClaudeSteps(r, claudeWithCopies(r, text), true)
		if len(steps) == 0 && len(losses) == 0 {
			r.Fatal("nothing came of it, and nothing says so")
		}
	})
}
