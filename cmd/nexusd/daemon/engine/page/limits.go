package page

// Limits says how much a reply, a page and an item may hold.
type Limits struct {
	// MaxPayload is the largest message of the connection that replies go out
	// on, in bytes; 0: 8 MiB.
	MaxPayload int
}
