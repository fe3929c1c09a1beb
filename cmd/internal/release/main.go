package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "release: error:", err)
		os.Exit(1)
	}
}

// release is what all steps have in common.
type release struct {
	version string    // without a v
	root    string    // of the checkout
	out     string    // absolute; made anew
	commit  string    // in hexadecimal
	date    time.Time // of every file
	log     io.Writer
	manual  []file // man pages and completions: the same for all platforms
}

// file is a file of an archive or a package. Its time is that of the release.
type file struct {
	path  string // slashes, none at the beginning; one at the end: a folder
	mode  os.FileMode
	owner int // number of user and group; 0: root
	data  []byte
}

// page returns a file that everybody may read.
func page(path string, data []byte) file { return file{path: path, mode: 0o644, data: data} }

// platform is what a program runs on, as GOOS and GOARCH name it.
type platform struct{ os, arch string }

func (p platform) String() string { return p.os + "_" + p.arch }

const allPlatforms = "linux/amd64,linux/arm64,darwin/amd64,darwin/arm64"

// versions are those of https://semver.org that a package of Debian can have, too.
var versions = regexp.MustCompile(`^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[a-z0-9]+(\.[a-z0-9]+)*)?$`)

func run(ctx context.Context, args []string, log io.Writer) error {
	fs := flag.NewFlagSet("release", flag.ContinueOnError)
	list := fs.String("platforms", allPlatforms, "GOOS/GOARCH, with commas")
	dirty := fs.Bool("dirty", false, "take a checkout with changes that are not committed")
	if err := fs.Parse(args); err != nil {
		return err
	}
	if fs.NArg() != 2 {
		return errors.New("usage: .ci/release [-platforms LIST] [-dirty] VERSION FOLDER")
	}
	r, err := begin(ctx, fs.Arg(0), fs.Arg(1), *dirty, log)
	if err != nil {
		return err
	}
	var platforms []platform
	for p := range strings.SplitSeq(*list, ",") {
		if !strings.Contains(","+allPlatforms+",", ","+p+",") {
			return fmt.Errorf("no release is made for %q: only %s", p, allPlatforms)
		}
		goos, arch, _ := strings.Cut(p, "/")
		platforms = append(platforms, platform{goos, arch})
	}
	tmp, err := os.MkdirTemp("", "nexus-release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	// The programs of this machine write the completions.
	host := platform{runtime.GOOS, runtime.GOARCH}
	native, err := r.build(ctx, host, filepath.Join(tmp, "host"))
	if err != nil {
		return err
	}
	if r.manual, err = r.manuals(ctx, native); err != nil {
		return err
	}
	for _, p := range platforms {
		programs := native
		if p != host {
			if programs, err = r.build(ctx, p, filepath.Join(tmp, p.String())); err != nil {
				return err
			}
		}
		if err := r.platform(ctx, p, programs); err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
	}
	return r.checksums()
}

// platform writes the files of one platform.
func (r *release) platform(ctx context.Context, p platform, programs []string) error {
	modules, err := modulesOf(programs)
	if err != nil {
		return err
	}
	bom, err := r.sbom(p, modules)
	if err != nil {
		return err
	}
	if err := r.write(fmt.Sprintf("nexus_%s_%s.cdx.json", r.version, p), bom); err != nil {
		return err
	}
	notices, err := r.notices(ctx, modules)
	if err != nil {
		return err
	}
	docs, err := r.docs(ctx)
	if err != nil {
		return err
	}
	docs = append(docs, page("THIRD-PARTY-LICENSES.txt", notices))
	if err := r.archive(p, programs, docs); err != nil {
		return err
	}
	if p.os != "linux" {
		return nil
	}
	if err := r.deb(p, programs, docs); err != nil {
		return err
	}
	return r.image(p, programs, docs)
}

// begin checks the version and the checkout, and makes the folder.
func begin(ctx context.Context, version, out string, dirty bool, log io.Writer) (*release, error) {
	if !versions.MatchString(version) {
		return nil, fmt.Errorf("version %q is not like 0.1.0 or 0.1.0-rc.1", version)
	}
	r := &release{version: version, log: log}
	top, err := r.git(ctx, "rev-parse", "--show-toplevel")
	if err != nil {
		return nil, err
	}
	r.root = strings.TrimSpace(string(top))
	changes, err := r.git(ctx, "status", "--porcelain")
	if err != nil {
		return nil, err
	}
	if len(changes) > 0 && !dirty {
		return nil, fmt.Errorf("the checkout has changes that are not committed; -dirty takes them:\n%s", changes)
	}
	head, err := r.git(ctx, "log", "-1", "--format=%H %ct")
	if err != nil {
		return nil, err
	}
	commit, seconds, _ := strings.Cut(strings.TrimSpace(string(head)), " ")
	if s := os.Getenv("SOURCE_DATE_EPOCH"); s != "" {
		seconds = s
	}
	at, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("the date of the release: %w", err)
	}
	r.commit, r.date = commit, time.Unix(at, 0).UTC()
	if r.out, err = filepath.Abs(out); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(r.out, 0o755); err != nil {
		return nil, err
	}
	if old, err := os.ReadDir(r.out); err != nil || len(old) > 0 {
		return nil, errors.Join(err, fmt.Errorf("%s is not empty", r.out))
	}
	return r, nil
}

// git runs git in the checkout.
func (r *release) git(ctx context.Context, args ...string) ([]byte, error) {
	return r.command(ctx, nil, "git", args...)
}

// command runs a program in the checkout and returns what it prints. Its errors go to the log.
func (r *release) command(ctx context.Context, env []string, name string, args ...string) ([]byte, error) {
	c := exec.CommandContext(ctx, name, args...)
	c.Dir, c.Stderr, c.Env = r.root, r.log, append(os.Environ(), env...)
	out, err := c.Output()
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", filepath.Base(name), strings.Join(args, " "), err)
	}
	return out, nil
}

// write writes a file of the release.
func (r *release) write(name string, data []byte) error {
	path := filepath.Join(r.out, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	fmt.Fprintf(r.log, "%10d %s\n", len(data), name)
	return os.WriteFile(path, data, 0o644)
}
