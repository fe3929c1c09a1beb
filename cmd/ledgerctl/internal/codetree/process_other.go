//go:build !unix

package codetree

import "os/exec"

func detach(*exec.Cmd) {}
