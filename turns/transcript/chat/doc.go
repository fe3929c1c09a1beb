// Package chat reads conversations as applications log them: messages as they stand in
// requests to OpenAI or Anthropic, in OpenTelemetry's GenAI attributes, and spans of OTLP,
// each of which is a call with its whole history. Begin at [Read].
//
// conversation.go reads one conversation, chat.go makes turns of it, log.go finds the
// conversation that a longer one continues, spans.go does it for spans.
package chat
