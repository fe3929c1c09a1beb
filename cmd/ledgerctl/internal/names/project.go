package names

import (
	"context"
	"path/filepath"
	"strings"

	"nexus/cmd/internal/repository"
)

// Project reads the name of a project. One that begins with a dot or a slash is a folder of this
// machine: that of its repository, where it is in one.
func Project(value string) string {
	if !strings.HasPrefix(value, ".") && !strings.HasPrefix(value, "/") {
		return value
	}
	dir, err := filepath.Abs(value)
	if err != nil {
		return value
	}
	if p, ok := repository.Of(context.Background(), dir); ok {
		return p.Name()
	}
	return dir
}
