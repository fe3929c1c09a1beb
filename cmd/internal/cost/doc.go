// Package cost adds up what the model calls of a ledger used and cost.
//
// The command ledgerctl cost calls it. It imports the client of the ledger and the table
// of models. It prints nothing.
//
// A cost is what the source of a call recorded; else the price of the call's model times
// its tokens. What can't be known is counted beside the sums, never guessed: calls without
// usage, models without a price, counts that the source has too low.
//
// Begin at [Read] in read.go, which gives each call once; sum.go adds them up by what the
// caller names. [Running] goes on with the sum of one session while that grows.
package cost
