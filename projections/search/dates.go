package search

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// date is a day, a month or a month of any year that a query names. 0: any.
type date struct {
	year, day int
	month     time.Month
}

// beforeMonth are the words behind which "may" and "march" are months.
var beforeMonth = []string{"in", "of", "on", "during", "since", "until", "before", "after", "by", "last", "this", "early", "late", "mid"}

// dates returns the dates that a query names: months with or without their day and year, in
// English, and days as 2026-11-20.
func (q Query) dates() (out []date) {
	var words []string
	for _, u := range q.units {
		words = append(words, u.parts...)
	}
	number := func(i int) int {
		if i < 0 || i >= len(words) {
			return 0
		}
		n, err := strconv.Atoi(words[i])
		if err != nil {
			return 0
		}
		return n
	}
	isYear := func(n int) bool { return n >= 1970 && n < 2262 }
	isDay := func(n int) bool { return n >= 1 && n <= 31 }
	for i, w := range words {
		if y, m, d := number(i), number(i+1), number(i+2); isYear(y) && m >= 1 && m <= 12 && isDay(d) {
			out = append(out, date{y, d, time.Month(m)})
			continue
		}
		for m := time.January; m <= time.December; m++ {
			if w != strings.ToLower(m.String()) {
				continue
			}
			x := date{month: m}
			if n := number(i - 1); isDay(n) {
				x.day = n
			}
			after := i + 1
			if n := number(after); isDay(n) && x.day == 0 {
				x.day, after = n, after+1
			}
			if n := number(after); isYear(n) {
				x.year = n
			}
			sure := m != time.May && m != time.March || x.day+x.year > 0 || i > 0 && slices.Contains(beforeMonth, words[i-1])
			if sure {
				out = append(out, x)
			}
		}
	}
	return out
}

// Named returns a function that reports whether the query names the day or month of a time
// (Unix ns, in UTC); nil if it names none.
func (q Query) Named() func(ns int64) bool {
	dates := q.dates()
	if len(dates) == 0 {
		return nil
	}
	return func(ns int64) bool {
		y, m, d := time.Unix(0, ns).UTC().Date()
		return slices.ContainsFunc(dates, func(x date) bool {
			return x.month == m && (x.year == 0 || x.year == y) && (x.day == 0 || x.day == d)
		})
	}
}
