// Package costview shows sums of costs: as a table with notes, and as JSON.
//
// ledgerctl cost calls it. It asks no ledger: package cost reads the calls and adds them up.
//
// Begin at [Report].
package costview
