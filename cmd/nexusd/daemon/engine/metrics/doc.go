// Package metrics holds the engine's figures for Prometheus. Each room counts
// what it does through a method of [Set]; a nil Set counts nothing. Labels are
// verbs, kinds and error codes, never names or content of a user.
package metrics
