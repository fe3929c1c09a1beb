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
	}
	return nil, false
}

// Scale is the nominal tokens that the named counter gives for one token of
// "approx-1", over ASCII text without framing. It turns stored sums of
// approx-1 into an estimate by another counter where the text itself isn't at
// hand. A name that [Named] doesn't know, and "", give 1.
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
