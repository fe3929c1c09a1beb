// Package provider asks models over HTTP: one request, answered as a stream, in the words
// of the ledger. It speaks three dialects (OpenAI's chat completions, OpenAI's responses,
// Anthropic's messages), knows nothing of sessions, and keeps nothing.
package provider
