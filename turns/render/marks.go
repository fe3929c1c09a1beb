package render

// Texts in place of what a format can't hold. They never change: a changed marker is a
// changed context.
const (
	// markContinued is the user text before a context that begins with the
	// assistant, where the format wants a user first.
	markContinued = "[The conversation continues; what came before is not shown.]"
	// markSystem is put before a system text that stands in the middle of a
	// context, where the format has no such role there.
	markSystem = "[System message]\n"
	// markFailed is the result of a call that failed and returned no text.
	markFailed = "[The tool failed and returned nothing.]"
)
