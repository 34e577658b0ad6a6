package exectool

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/toolgate/toolgate/internal/config"
	"github.com/toolgate/toolgate/internal/placeholder"
	"github.com/toolgate/toolgate/internal/tool"
)

// checkProgram is the absolute path of the program. A name is looked up once, here, so that nothing which changes PATH
// or the working folder later makes it another program; a path with a slash starts from the file's folder.
func checkProgram(n *config.Node, text, folder string) string {
	t, err := placeholder.Parse(text)
	if err != nil || !t.Static() {
		n.Fail("a placeholder can't stand in the program")
		return ""
	}
	text, _ = t.Expand(tool.Call{}, nil)
	switch {
	case text == "":
		n.Fail("want the program to run")
		return ""
	case filepath.Base(text) != text && !filepath.IsAbs(text):
		text = filepath.Join(folder, text)
	}
	path, err := exec.LookPath(text)
	if err != nil {
		n.Fail("%s", faultOfProgram(err))
		return ""
	}
	return path
}

func faultOfProgram(err error) string {
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return "there is no such program in the gateway's PATH"
	case errors.Is(err, exec.ErrDot):
		return "the program is found only by way of a relative folder in PATH: write its path"
	case errors.Is(err, fs.ErrNotExist):
		return "there is no such program"
	case errors.Is(err, fs.ErrPermission):
		return "the program may not be executed: see its permissions"
	}
	return "this can't be executed"
}

// checkDir is the absolute working folder.
func checkDir(n *config.Node, folder, dir string) string {
	if dir == "" {
		return folder
	}
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(folder, dir)
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		n.Get("dir").Fail("there is no such folder")
	}
	return dir
}

// faultOfVariable is what is wrong with a variable of the environment, "" if nothing is.
func faultOfVariable(name, value string) string {
	switch {
	case name == "" || strings.ContainsAny(name, "=\x00"):
		return "this is no name of a variable"
	case name == idempotencyKey:
		return "the gateway sets this variable itself"
	case strings.Contains(value, "\x00"):
		return "a variable can't hold a NUL character"
	}
	return ""
}
