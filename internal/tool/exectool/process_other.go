//go:build !unix

package exectool

import "os/exec"

const supported = false

func apart(*exec.Cmd) {}

func killGroup(*exec.Cmd) {}
