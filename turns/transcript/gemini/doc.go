// Package gemini reads and writes chats of Gemini CLI: one document, or in newer versions a log of
// one record a line (log.go). Begin at [Read]. write.go is the other direction.
package gemini
