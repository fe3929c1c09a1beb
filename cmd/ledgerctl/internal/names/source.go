package names

// SourceNote says what a person who asked for sessions of a source may have meant; "" if there is
// nothing to say. Files of chat messages are read by the form of a provider, and their sessions have
// one source.
func SourceNote(source string) string {
	switch source {
	case "openai", "anthropic", "jsonl":
		return "; sessions of files of chat messages have --source chat, whatever form they had"
	case "claude":
		return "; that of Claude Code is --source claude-code"
	case "gemini":
		return "; that of Gemini CLI is --source gemini-cli"
	}
	return ""
}
