// Package llm writes summaries with a model over HTTP. It speaks OpenAI's chat
// completions, which most providers and local servers offer, and Anthropic's messages.
//
// cmd/nexusd makes a [Summarizer] for each model of the configuration; package
// compactor calls it when a policy names its tier. The package imports summary, for
// prompts and for what an answer may be, and overflow, for errors that mean that a
// request is too long.
//
// What must not come in: the ledger, the engine, a policy, or any state of a session.
// No other package imports the libraries of the providers. The key and the base URL
// come from the configuration of the daemon, never from a request or from the
// environment. No error and no log line holds the key or the text of a turn.
//
// Begin at [Summarizer.Summarize] in llm.go. parts.go splits what one request can't
// hold, retry.go says which errors are worth another try and when, reported.go learns
// limits from errors, cost.go bounds what is spent, openai.go and anthropic.go send
// the requests over http.go.
package llm
