// Package tokens counts tokens. A count is an estimate until a provider has
// reported its own; every count names the counter it came from.
//
// The compactor, the engine and ledgerctl call it. It is pure, and imports package
// turns only. It knows no policy: a policy names a counter, [Named] finds it.
//
// Begin at [Counter] in tokens.go. seeds.go holds the counters of published
// designs, o200k.go counts with a vocabulary, calibrate.go follows what providers
// report, models.go and price.go know models and what a call costs.
package tokens
