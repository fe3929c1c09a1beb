package formats

import (
	"nexus/turns/transcript"
	"nexus/turns/transcript/chat"
	"nexus/turns/transcript/claude"
	"nexus/turns/transcript/codex"
	"nexus/turns/transcript/gemini"
	"nexus/turns/transcript/pi"
)

// All returns all formats. A file of unknown format is of the first whose Sniff
// takes it.
func All() []transcript.Format {
	return append([]transcript.Format{claude.Format(), codex.Format(), pi.Format(), gemini.Format()}, chat.Formats()...)
}

// Find returns the format of a name.
func Find(name string) (transcript.Format, bool) {
	for _, f := range All() {
		if f.Name == name {
			return f, true
		}
	}
	return transcript.Format{}, false
}

// Written returns the names of the formats that transcripts are written in too.
func Written() (names []string) {
	for _, f := range All() {
		if f.Write != nil {
			names = append(names, f.Name)
		}
	}
	return names
}

// NewWriter returns a writer of a format. ok is false for another one than those
// of [Written].
//
// The path is written as [transcript.Paired] returns it: of the calls, those at its end alone may lack
// a result.
func NewWriter(format string, s transcript.WrittenSession) (w transcript.Writer, ok bool) {
	f, ok := Find(format)
	if !ok || f.Write == nil {
		return nil, false
	}
	return transcript.PairedWriter(f.Write(s)), true
}
