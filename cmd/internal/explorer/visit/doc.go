// Package visit is a request of somebody who is logged in: who looks, as whom a page may read and
// change, what its address and its form say, and how it is written.
//
// The rooms above it call it: those that show (views, compare, costs, live) and those that act
// (acts). It has every template, style and script, and decides nothing of what a page shows. It
// imports login, the client and the wire contract, and what shows text (page, prose, kinds,
// highlight).
//
// Begin at [Visit]; [Site.Show] writes a page, look.go has the templates, page.go how much of a turn
// a page has room for.
package visit
