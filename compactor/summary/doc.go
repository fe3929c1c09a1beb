// Package summary defines what a summarizer reads and writes: half turns in, a text
// and memories out.
//
// Summarizers (packages extractive and llm) import this package and no other of
// compactor. Package compactor runs them. The package decides nothing about a path
// and knows no policy.
//
// Begin with summary.go for [Summarizer], [Input] and [Output]. prompt.go and
// templates.go write what a model is asked, parse.go reads its answer, thin.go
// refuses an answer that says almost nothing, survival.go reports which facts of the
// covered turns are still in the context. half.go reads the text of messages, request.go
// what of it a person wrote, sentence.go cuts sentences, and tags.go escapes our own tags.
package summary
