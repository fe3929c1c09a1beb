// Package metrics holds the engine's metrics for Prometheus. Each room counts its
// work through a method of [Set]; a nil Set counts nothing. Labels are verbs, kinds
// and error codes, never a user's names or content.
package metrics
