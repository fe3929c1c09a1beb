// Package interchange reads transcripts of other agents and renders messages for
// providers. It is pure: bytes in, steps and messages out.
//
// ledgerctl reads transcripts with it ([ClaudeCode], [Codex], [Pi], [GeminiCLI],
// and [Chat], which takes OpenTelemetry spans too). The engine renders contexts
// with it ([Anthropic], [OpenAI], [Gemini], [OTel]). It imports packages turns and
// tokens only. It asks no provider and knows no session. A reader reports what it leaves out or
// changes as a loss.
//
// [NewTranscriptWriter] writes a path as the transcript of an agent.
//
// Begin at [Step] in step.go. Each format has the files that its name begins.
package interchange
