// Command release packs what a release gives away into dist: an archive for each platform, a list of what the binaries are
// made of, and checksums of both. It is for `make release`, which builds the binaries first.
//
// The same commit gives the same bytes, on any machine: no time, owner or path of the machine gets into a file.
package main

import (
	"debug/buildinfo"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// release is one version, made of one commit.
type release struct {
	root      string // of the repository
	version   string // as v0.1.0
	commit    string
	date      time.Time // the commit's, UTC
	platforms []platform
}

// platform is a system and a processor, as Go names them.
type platform struct{ system, arch string }

func (p platform) String() string { return p.system + "/" + p.arch }

// binary is where `make cross` leaves a platform's binary.
func (r release) binary(p platform) string {
	return filepath.Join(r.root, "bin", p.program("gateway-"+p.system+"-"+p.arch))
}

// program is the name of a program's file.
func (p platform) program(name string) string {
	if p.system == "windows" {
		return name + ".exe"
	}
	return name
}

func run(args []string) error {
	fs := flag.NewFlagSet("release", flag.ContinueOnError)
	root := fs.String("root", ".", "folder of the repository")
	version := fs.String("version", "", "version, as v0.1.0")
	platforms := fs.String("platforms", "", "platforms, as linux/amd64, with spaces between")
	check := fs.Bool("check", false, "only say whether a release can be made of the tree as it is")
	if err := fs.Parse(args); err != nil {
		return err
	}
	r, err := newRelease(*root, *version, *platforms)
	if err != nil || *check {
		return err
	}
	return r.pack(filepath.Join(r.root, "dist"))
}

// semantic is a semantic version (semver.org, version 2) without build metadata, whose "+" no tag of an image may have.
var semantic = regexp.MustCompile(`^v(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-(0|[1-9]\d*|\d*[A-Za-z-][0-9A-Za-z-]*)(\.(0|[1-9]\d*|\d*[A-Za-z-][0-9A-Za-z-]*))*)?$`)

// newRelease is the release of the commit that is checked out. It fails, with all reasons at once, where that would not be
// what was committed, or would have no proper name.
func newRelease(root, version, platforms string) (release, error) {
	r := release{version: version}
	var err error
	if r.root, err = filepath.Abs(root); err != nil {
		return r, err
	}
	var faults []error
	changed, err := r.git("status", "--porcelain")
	if err != nil {
		return r, err
	}
	if changed != "" {
		faults = append(faults, fmt.Errorf("the tree is dirty: commit or remove these first:\n%s", changed))
	}
	if !semantic.MatchString(version) {
		faults = append(faults, fmt.Errorf("VERSION is %q, want a semantic version without build metadata: tag the commit, or make release VERSION=v0.1.0", version))
	}
	for name := range strings.FieldsSeq(platforms) {
		system, arch, ok := strings.Cut(name, "/")
		if !ok {
			faults = append(faults, fmt.Errorf("PLATFORMS has %q, want a system and a processor: linux/amd64", name))
		}
		r.platforms = append(r.platforms, platform{system, arch})
	}
	if len(r.platforms) == 0 {
		faults = append(faults, errors.New("PLATFORMS is empty"))
	}
	if err := errors.Join(faults...); err != nil {
		return r, err
	}
	if r.commit, err = r.git("rev-parse", "HEAD"); err != nil {
		return r, err
	}
	stamp, err := r.git("log", "-1", "--format=%ct")
	if err != nil {
		return r, err
	}
	seconds, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil {
		return r, fmt.Errorf("the commit's date: %w", err)
	}
	r.date = time.Unix(seconds, 0).UTC()
	return r, nil
}

func (r release) git(args ...string) (string, error) {
	cmd := exec.Command("git", append([]string{"-C", r.root}, args...)...) //nolint:gosec,noctx // our own words; it ends by itself
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w", args[0], err)
	}
	return strings.TrimRight(string(out), "\n"), nil
}

// built says whether a platform's binary is the one that this release is to have. What lies in bin may be of another
// commit, or was built with other settings, which would give other bytes elsewhere.
func (r release) built(p platform) error {
	info, err := buildinfo.ReadFile(r.binary(p))
	if err != nil {
		return err
	}
	got := map[string]string{}
	for _, s := range info.Settings {
		got[s.Key] = s.Value
	}
	want := []struct{ key, value string }{
		{"GOOS", p.system},
		{"GOARCH", p.arch},
		{"CGO_ENABLED", "0"},
		{"-trimpath", "true"},
		{"vcs.revision", r.commit},
		{"vcs.modified", "false"},
		{"-tags", ""},
		{"GOEXPERIMENT", ""},
	}
	switch p.arch { // the oldest processors of each kind
	case "amd64":
		want = append(want, struct{ key, value string }{"GOAMD64", "v1"})
	case "arm64":
		want = append(want, struct{ key, value string }{"GOARM64", "v8.0"})
	}
	var faults []error
	for _, w := range want {
		if got[w.key] != w.value {
			faults = append(faults, fmt.Errorf("%s was built with %s=%q, want %q", filepath.Base(r.binary(p)), w.key, got[w.key], w.value))
		}
	}
	return errors.Join(faults...)
}
