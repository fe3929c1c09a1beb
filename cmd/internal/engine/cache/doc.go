// Package cache keeps values that can be made again. One budget bounds the memory of
// all caches. The daemon's configuration sets it, and a metric shows what each cache
// keeps. What would drive out the others, and is used but once or twice, has a small budget of
// its own, which its room names.
//
// A cache is never a place for state: a room must work when every Get misses.
// It imports no other room. Begin at [Budget].
package cache
