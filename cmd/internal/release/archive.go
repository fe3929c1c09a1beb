package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"nexus/cmd/internal/service"
)

// docs returns the pages that a release has, and its licence: what git has of them.
func (r *release) docs(ctx context.Context) (out []file, err error) {
	list, err := r.git(ctx, "ls-files", "-z", "README.md", "LICENSE", "CHANGELOG.md", "SECURITY.md", "CONTRIBUTING.md", "docs")
	if err != nil {
		return nil, err
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(list), "\x00"), "\x00") {
		if strings.HasPrefix(name, "docs/benchmarks/") && path.Ext(name) != ".md" && path.Ext(name) != ".svg" {
			continue // programs that measure
		}
		data, err := os.ReadFile(filepath.Join(r.root, filepath.FromSlash(name)))
		if err != nil {
			return nil, err
		}
		out = append(out, page(name, data))
	}
	return out, nil
}

// programFiles reads the programs into a folder of an archive.
func programFiles(programs []string, dir string) (out []file, err error) {
	for _, p := range programs {
		data, err := os.ReadFile(p)
		if err != nil {
			return nil, err
		}
		out = append(out, file{path: path.Join(dir, filepath.Base(p)), mode: 0o755, data: data})
	}
	return out, nil
}

// units returns the units of systemd below a folder.
func units(dir string) (out []file) {
	for name, text := range service.Packaged() {
		out = append(out, page(path.Join(dir, name), []byte(text)))
	}
	sortFiles(out)
	return out
}

// archive writes the archive of a platform: everything in one folder.
func (r *release) archive(p platform, programs []string, docs []file) error {
	files, err := programFiles(programs, "")
	if err != nil {
		return err
	}
	files = slices.Concat(files, docs, below("share", r.manual))
	if p.os == "linux" {
		files = append(files, units("systemd")...)
		files = append(files, page("nexusd.toml", configuration))
	}
	top := fmt.Sprintf("nexus_%s_%s", r.version, p)
	packed, err := pack(below(top, files), r.date)
	if err != nil {
		return err
	}
	return r.write(top+".tar.gz", packed)
}

// below returns files with a folder before their paths.
func below(dir string, files []file) (out []file) {
	for _, f := range files {
		f.path = path.Join(dir, f.path)
		out = append(out, f)
	}
	return out
}

func sortFiles(files []file) {
	slices.SortFunc(files, func(a, b file) int { return strings.Compare(a.path, b.path) })
}

// pack returns files as a tar.gz, sorted, with their folders.
func pack(files []file, date time.Time) ([]byte, error) {
	entries := make(map[string]file)
	for _, f := range files {
		entries[f.path] = f
		for dir := path.Dir(strings.TrimSuffix(f.path, "/")); dir != "."; dir = path.Dir(dir) {
			if _, ok := entries[dir+"/"]; !ok {
				entries[dir+"/"] = file{path: dir + "/", mode: 0o755}
			}
		}
	}
	sorted := make([]file, 0, len(entries))
	for _, f := range entries {
		sorted = append(sorted, f)
	}
	sortFiles(sorted)
	var b bytes.Buffer
	zw := gzip.NewWriter(&b)
	tw := tar.NewWriter(zw)
	for _, f := range sorted {
		h := &tar.Header{Name: f.path, Mode: int64(f.mode), Uid: f.owner, Gid: f.owner, Size: int64(len(f.data)), ModTime: date, Typeflag: tar.TypeReg, Format: tar.FormatPAX}
		if strings.HasSuffix(f.path, "/") {
			h.Typeflag = tar.TypeDir
		}
		if err := tw.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := tw.Write(f.data); err != nil {
			return nil, err
		}
	}
	if err := tw.Close(); err != nil {
		return nil, err
	}
	err := zw.Close()
	return b.Bytes(), err
}

// zipped returns data as gzip, without a time.
func zipped(data []byte) ([]byte, error) {
	var b bytes.Buffer
	zw, err := gzip.NewWriterLevel(&b, gzip.BestCompression) // Debian asks for it
	if err != nil {
		return nil, err
	}
	if _, err := zw.Write(data); err != nil {
		return nil, err
	}
	err = zw.Close()
	return b.Bytes(), err
}

// checksums writes SHA256SUMS, which sha256sum -c reads.
func (r *release) checksums() error {
	var lines strings.Builder
	err := filepath.WalkDir(r.out, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(r.out, name)
		if err == nil {
			fmt.Fprintf(&lines, "%x  %s\n", sha256.Sum256(data), filepath.ToSlash(rel))
		}
		return err
	})
	if err != nil {
		return err
	}
	return r.write("SHA256SUMS", []byte(lines.String()))
}
