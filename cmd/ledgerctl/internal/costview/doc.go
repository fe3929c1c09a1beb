// Package costview is the work of ledgerctl cost: it adds up what calls used and cost, compares the
// sum with a budget, and shows it as a table with notes, and as JSON.
//
// ledgerctl cost calls it; compare takes its prices. The sums are those of cmd/internal/cost.
//
// Begin at [Run]; report.go prints.
package costview
