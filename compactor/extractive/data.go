package extractive

import (
	"cmp"
	"strings"
)

// The prefixes of DATA's lines.
const (
	pathsUnder = "under "
	namesLine  = "names: "
)

// data returns the facts that fit, as items of DATA: paths grouped under a common
// folder, then everything else, best first.
//
// A fact that text names already is left out.
func (v *inventory) data(text string, share uint64, cost func(string) uint64) []string {
	ranked := v.ranked(func(w string) float64 { return 2 + float64(cost(w)) })
	ranked = ranked[:min(len(ranked), maxRanked)]
	groups := groupPaths(ranked)
	whole := wholePaths(ranked)
	done := make(map[string]bool) // facts and tails of paths that are included
	members := make(map[string][]string)
	var names []string
	remaining, misses := share, 0
	for _, f := range ranked {
		w := cmp.Or(whole[f.text], f.text)
		if done[w] || contains(text, w) {
			continue
		}
		folder := groups[w]
		rest := w[len(folder):]
		c := cost(rest + " ")
		switch {
		case folder != "" && len(members[folder]) == 0:
			c += cost("\n- " + pathsUnder + folder + ": ")
		case folder == "" && len(names) == 0:
			c += cost("\n- " + namesLine)
		}
		if c > remaining {
			if misses++; misses > 60 {
				break // the rest of the share is too small for any fact
			}
			continue
		}
		remaining -= c
		if folder != "" {
			members[folder] = append(members[folder], rest)
		} else {
			names = append(names, w)
		}
		for tail := w; tail != ""; _, tail, _ = strings.Cut(tail, "/") {
			done[tail] = true
		}
	}
	var items []string
	for _, f := range ranked {
		if folder := groups[f.text]; len(members[folder]) > 0 && folder != "" {
			items = append(items, pathsUnder+folder+": "+strings.Join(members[folder], " "))
			delete(members, folder)
		}
	}
	if len(names) > 0 {
		items = append(items, namesLine+strings.Join(names, " "))
	}
	return items
}

// recallData calls found for the facts of an item of DATA, best first.
func recallData(item string, found func(string)) {
	folder := ""
	if rest, ok := strings.CutPrefix(item, pathsUnder); ok {
		var list string
		if folder, list, ok = strings.Cut(rest, ": "); ok {
			item = list
		} else {
			folder = ""
		}
	} else {
		item = strings.TrimPrefix(item, namesLine)
	}
	for _, w := range strings.Fields(item) {
		found(folder + w)
	}
}

// groupPaths returns the folder under which each path is listed. It repeatedly takes
// the folder that saves most, until none saves the cost of a line.
func groupPaths(ranked []*fact) map[string]string {
	const limit, worth = 600, 40
	var paths []string
	for _, f := range ranked {
		if strings.Contains(f.text, "/") && len(paths) < limit {
			paths = append(paths, f.text)
		}
	}
	groups := make(map[string]string)
	for range 12 {
		members := make(map[string]int)
		for _, p := range paths {
			if groups[p] != "" {
				continue
			}
			for i := 1; i < len(p)-1; i++ {
				if p[i] == '/' {
					members[p[:i+1]]++
				}
			}
		}
		best, saves := "", worth
		for folder, n := range members {
			if s := (n-1)*len(folder) - len(pathsUnder) - 6; s > saves || s == saves && best != "" && folder < best {
				best, saves = folder, s
			}
		}
		if best == "" {
			break
		}
		for _, p := range paths {
			if groups[p] == "" && strings.HasPrefix(p, best) && len(p) > len(best) {
				groups[p] = best
			}
		}
	}
	return groups
}

// wholePaths maps the tail of a path to the longest path that ends in it, so that
// one of them covers both.
func wholePaths(ranked []*fact) map[string]string {
	whole := make(map[string]string)
	for _, f := range ranked {
		if !strings.HasPrefix(f.text, "/") {
			continue
		}
		for i := 1; i < len(f.text); i++ {
			if tail := f.text[i+1:]; f.text[i] == '/' && strings.Contains(tail, "/") && whole[tail] == "" {
				whole[tail] = f.text
			}
		}
	}
	return whole
}

// contains reports whether s holds w as a word.
func contains(s, w string) bool {
	for from := 0; ; {
		i := strings.Index(s[from:], w)
		if i < 0 {
			return false
		}
		i += from
		if bounded(s, i, i+len(w)) {
			return true
		}
		from = i + 1
	}
}
