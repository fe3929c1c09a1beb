package names

import "nexus/cmd/internal/agents"

// SourceNote says what a person who asked for sessions of a source may have meant; "" if there is
// nothing to say. Files of chat messages are read by the form of a provider, and their sessions have
// one source.
func SourceNote(source string) string {
	switch source {
	case "openai", "anthropic", "jsonl":
		return "; sessions of files of chat messages have --source chat, whatever form they had"
	}
	if a, ok := agents.Find(source); ok && a.Format != source {
		return "; that of " + a.Title + " is --source " + a.Format
	}
	return ""
}
