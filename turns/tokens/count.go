package tokens

// Sub returns a − b, and 0 where b is larger: a recorded count may be too low,
// and a subtraction of counts must not wrap around.
func Sub(a, b uint64) uint64 { return a - min(a, b) }

// Share returns ratio of n, rounded down. It is one multiplication, so that
// every machine rounds alike.
func Share(n uint64, ratio float64) uint64 { return uint64(float64(n) * ratio) }
