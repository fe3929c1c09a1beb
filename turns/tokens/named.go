package tokens

// Named is the counter of that name; "" is [Approx]. Ok is false where this
// version knows none of the name, as one reads in counts of a later one.
func Named(name string) (c Counter, ok bool) {
	switch name {
	case "", Approx{}.Name():
		return Approx{}, true
	case GSV{}.Name():
		return GSV{}, true
	case Spec008{}.Name():
		return Spec008{}, true
	case Wolffish{}.Name():
		return Wolffish{}, true
	case O200k{}.Name():
		return O200k{}, true
	}
	return nil, false
}

// Scale is the nominal tokens that the named counter gives for one token of
// "approx-1", over ASCII text without framing. It turns stored sums of
// approx-1 into an estimate by another counter where the text itself isn't at
// hand. It is 1 for "o200k-1", which counts 0.96 to 1.0 of it in prose and code
// (up to 1.4 in raw JSON full of ids), and for a name that [Named] doesn't know.
func Scale(name string) float64 {
	const approx = 3.7 // characters a token
	switch name {
	case GSV{}.Name():
		return approx * 3 / 10
	case Spec008{}.Name():
		return approx / 4
	case Wolffish{}.Name():
		return approx / 1.5
	}
	return 1
}
