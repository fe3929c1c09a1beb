// Package compare is the page on which two sessions, or two turns, stand side by side: what they have
// in common, then how each goes on, with the words marked that only one has.
//
// The explorer serves it. It reads turns as the pages of package views do, and costs of package costs.
// words.go compares two texts, and is pure.
//
// Begin at [Compare.Pages].
package compare
