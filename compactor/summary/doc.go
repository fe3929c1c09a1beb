// Package summary defines what a summarizer reads and writes: half turns in, a text
// and memories out.
//
// Packages extractive and llm implement [Summarizer], and package compactor runs them. It may import
// turns and its counters, and no other package of compactor. It decides nothing about a path and
// knows no policy; what a text is worth says package facts.
//
// Begin with summary.go for [Summarizer], [Input] and [Output]. Files call downwards: prompt.go writes
// what a model is asked, length.go its bound, parse.go reads its answer by templates.go, images.go and
// half.go read messages as text, base64.go cuts images out of it, request.go finds what of it a person
// wrote, sentence.go cuts sentences, tags.go escapes our own tags.
package summary
