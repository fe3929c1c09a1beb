// Package costs keeps what sessions cost, and what all calls did, for pages that wait for neither: a
// reading that takes longer goes on behind the page, which shows the sums of before.
//
// The explorer makes one [Costs]; the lists of package views and the sides of package compare ask it
// what a session cost, and its own page shows the sums. How a call has a price is
// cmd/internal/cost.
//
// Begin at [Costs.AddUp] (sessions.go) and [Costs.Pages] (page.go, sums.go).
package costs
