// Command mutate measures what a package's own tests notice. It changes one
// operator of the production code at a time, at random places, runs the tests of
// that package on the change, and reports the changes that no test noticed.
//
//	go run ./.ci/mutate -n 12 -seed 1 ./fork ./turns/tokens
//
// The sources are not touched: the change is an overlay of the go command. A
// change that doesn't compile is drawn again; one that doesn't end counts as
// noticed. The figure can't see what no operator expresses (a missing call, a
// wrong constant), and a change that changes nothing (a < b for a <= b where they
// are never equal) counts against the tests: read the list.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// swaps says what stands for an operator.
var swaps = map[token.Token][]token.Token{
	token.EQL: {token.NEQ}, token.NEQ: {token.EQL},
	token.LSS: {token.LEQ, token.GEQ}, token.LEQ: {token.LSS, token.GTR},
	token.GTR: {token.GEQ, token.LEQ}, token.GEQ: {token.GTR, token.LSS},
	token.ADD: {token.SUB}, token.SUB: {token.ADD},
	token.MUL: {token.QUO}, token.QUO: {token.MUL},
	token.LAND: {token.LOR}, token.LOR: {token.LAND},
}

// mutant is one change of one operator.
type mutant struct {
	file string
	at   token.Position
	old  token.Token
	new  token.Token
}

func main() {
	n := flag.Int("n", 12, "changes in each package")
	seed := flag.Uint64("seed", 1, "of the choice of changes")
	limit := flag.Duration("timeout", 2*time.Minute, "of one run of the tests")
	flag.Parse()
	failed := false
	for _, pkg := range flag.Args() {
		noticed, err := measure(pkg, *n, *seed, *limit)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
		fmt.Printf("%s: %d of %d noticed\n", pkg, noticed, *n)
		failed = failed || noticed < *n*10/12
	}
	if failed {
		os.Exit(1)
	}
}

// measure is how many of n changes in a package its tests notice.
func measure(pkg string, n int, seed uint64, limit time.Duration) (noticed int, err error) {
	all, err := mutants(pkg)
	if err != nil {
		return 0, err
	}
	r := rand.New(rand.NewPCG(seed, 0))
	r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	tried := 0
	for _, m := range all {
		if tried == n {
			break
		}
		result, err := run(pkg, m, limit)
		if err != nil {
			return noticed, err
		}
		if result == broken {
			continue
		}
		tried++
		if result == killed {
			noticed++
		} else {
			fmt.Printf("  not noticed: %s: %s became %s\n", m.at, m.old, m.new)
		}
	}
	if tried < n {
		return noticed, fmt.Errorf("%s: %d places to change, %d are asked for", pkg, tried, n)
	}
	return noticed, nil
}

// mutants is every change of the production files of a package.
func mutants(pkg string) (out []mutant, err error) {
	files, err := filepath.Glob(filepath.Join(pkg, "*.go"))
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, file, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		ast.Inspect(f, func(node ast.Node) bool {
			if b, ok := node.(*ast.BinaryExpr); ok {
				for _, to := range swaps[b.Op] {
					out = append(out, mutant{file, set.Position(b.OpPos), b.Op, to})
				}
			}
			return true
		})
	}
	return out, nil
}

type result int

const (
	survived result = iota
	killed
	broken // it does not compile
)

// run runs the tests of a package with one change.
func run(pkg string, m mutant, limit time.Duration) (result, error) {
	dir, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	src, err := os.ReadFile(m.file)
	if err != nil {
		return 0, err
	}
	src = slices.Concat(src[:m.at.Offset], []byte(m.new.String()), src[m.at.Offset+len(m.old.String()):])
	changed, overlay := filepath.Join(dir, "changed.go"), filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(changed, src, 0o600); err != nil {
		return 0, err
	}
	path, err := filepath.Abs(m.file)
	if err != nil {
		return 0, err
	}
	b, err := json.Marshal(map[string]any{"Replace": map[string]string{path: changed}})
	if err != nil {
		return 0, err
	}
	if err := os.WriteFile(overlay, b, 0o600); err != nil {
		return 0, err
	}
	if err := exec.Command("go", "build", "-overlay", overlay, pkg).Run(); err != nil {
		return broken, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit+time.Minute)
	defer cancel()
	err = exec.CommandContext(ctx, "go", "test", "-overlay", overlay, "-failfast", "-timeout", limit.String(), pkg).Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		return 0, err
	}
	if err != nil {
		return killed, nil
	}
	return survived, nil
}
