package interchange

// Formats returns all formats. A file of unknown format is of the first whose Sniff
// takes it.
func Formats() []Format {
	return append([]Format{ClaudeFormat(), CodexFormat(), PiFormat(), GeminiFormat()}, ChatFormats()...)
}

// WriterFormats returns the names of the formats that transcripts are written in. They are
// those of [Formats].
func WriterFormats() (names []string) {
	for _, f := range Formats() {
		if f.Write != nil {
			names = append(names, f.Name)
		}
	}
	return names
}

// NewTranscriptWriter returns a writer of a format. ok is false for another one than those
// of [WriterFormats].
//
// The path is written as [Paired] returns it: of the calls, those at its end alone may lack
// a result.
func NewTranscriptWriter(format string, s WrittenSession) (w TranscriptWriter, ok bool) {
	for _, f := range Formats() {
		if f.Name == format && f.Write != nil {
			return PairedWriter(f.Write(s)), true
		}
	}
	return nil, false
}
