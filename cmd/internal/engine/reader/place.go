package reader

import "context"

type placeKey struct{}

// WithPlace returns a context for a request that holds a place among those that work.
// leave gives the place to another request. It can be called again.
func WithPlace(ctx context.Context, leave func()) context.Context {
	return context.WithValue(ctx, placeKey{}, leave)
}

// LeavePlace gives the place of a request to another one: from here on it mostly waits for
// the disk.
func LeavePlace(ctx context.Context) {
	if leave, ok := ctx.Value(placeKey{}).(func()); ok {
		leave()
	}
}
