package facts

// Fact is a piece of text that someone may need again.
type Fact struct{ Kind, Text string }

// The kinds of facts. The first three are whole lines or sentences, clipped.
const (
	userKind       = "user"        // a sentence that a person wrote to the agent
	errorKind      = "errors"      // a line of what a tool returned as a failure
	commandKind    = "commands"    // the first line of a command, or the file of a patch
	pathKind       = "paths"       // a file, a folder or an address, with a slash
	identifierKind = "identifiers" // a word with a joint, a digit, or a capital inside
	numberKind     = "numbers"     // a word of three digits or more
)

// Kinds returns the kinds of facts, those that a person misses first in front.
func Kinds() []string {
	return []string{userKind, errorKind, commandKind, pathKind, identifierKind, numberKind}
}

const (
	maxFactBytes = 200 // of a line or a word
	minFactBytes = 3
	maxUserFacts = 200 // of one message: a longer one is a document
)

// maxFacts bounds how many facts a survival report considers: those of the newest halves.
const maxFacts = 20_000
