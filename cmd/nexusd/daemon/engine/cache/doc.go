// Package cache keeps values that can be made again, within one bound on the
// memory of all of them. The daemon's configuration sets the bound, a metric
// shows what each cache keeps.
//
// A cache is never a place for state: a room must work when every Get misses.
// It imports no other room. Begin at [Budget].
package cache
