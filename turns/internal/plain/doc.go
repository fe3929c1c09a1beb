// Package plain shows a part of a message in the plainer forms that providers and
// transcripts have: a text, a picture, a JSON object, a tool's name in safe characters.
package plain
