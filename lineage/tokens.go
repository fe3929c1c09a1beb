package lineage

// TokensFrom returns the tokens of the normal halves on the root path of n that
// are at or after cut: with the cut of the compaction in force, those of the kept
// part. Replacements and elisions do not count. It costs what [At] costs.
//
// Errors: the reader's; [ErrCorrupt] if sums contradict each other.
func TokensFrom(r Reader, n Node, cut Cut) (uint64, error) {
	d := cut.Depth()
	switch {
	case d == 0:
		return n.Sum, nil
	case d > n.Depth:
		return 0, nil
	}
	at, err := At(r, n, d)
	if err != nil {
		return 0, err
	}
	// Sum includes the turn at the cut: take back what of it is kept.
	kept := at.Response
	if !cut.Split() {
		kept += at.Messages
	}
	if kept > at.Sum || at.Sum > n.Sum {
		return 0, corrupt("the tokens up to %s are %d, of its own %d, but up to %s %d", at.Ref, at.Sum, kept, n.Ref, n.Sum)
	}
	return n.Sum - at.Sum + kept, nil
}
