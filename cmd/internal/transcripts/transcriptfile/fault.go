package transcriptfile

// UsageError is a file or a format that can't be what the caller meant.
type UsageError struct{ error }

// Unwrap returns the cause.
func (u UsageError) Unwrap() error { return u.error }
