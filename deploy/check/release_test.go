package check

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/CycloneDX/cyclonedx-go"
)

// testVersion is one that nothing else has.
const testVersion = "v9.8.7-check.1"

// committed is a repository of one commit: the tree as it is here, changes and all, but for what git ignores.
func committed(t *testing.T) string {
	t.Helper()
	root, dir := filepath.Join("..", ".."), filepath.Join(t.TempDir(), "tree")
	for name := range strings.SplitSeq(run(t, "git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard"), "\x00") {
		data, err := os.ReadFile(filepath.Join(root, name))
		if name == "" || errors.Is(err, fs.ErrNotExist) { // removed, and that not yet committed
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, name), string(data))
	}
	run(t, "git", "init", "--quiet", dir)
	run(t, "git", "-C", dir, "add", "--all", "--force")
	run(t, "git", "-C", dir, "-c", "user.name=check", "-c", "user.email=check@example.com", "-c", "commit.gpgsign=false",
		"commit", "--quiet", "--message", "all", "--date", "2024-02-29T12:00:00Z")
	return dir
}

// makeRelease runs make release for this machine's platform.
func makeRelease(t *testing.T, dir string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "make", append([]string{"-C", dir, "release", "PLATFORMS=" + runtime.GOOS + "/" + runtime.GOARCH}, args...)...)
	for _, pair := range os.Environ() { // what make deploy-check was called with is not for this one
		if name, _, _ := strings.Cut(pair, "="); !slices.Contains([]string{"MAKEFLAGS", "MFLAGS", "MAKEOVERRIDES", "MAKELEVEL", "VERSION", "PLATFORMS"}, name) {
			cmd.Env = append(cmd.Env, pair)
		}
	}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// distOf are the files of a release, by name.
func distOf(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(dir, "dist"))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]byte{}
	for _, e := range entries {
		if all[e.Name()], err = os.ReadFile(filepath.Join(dir, "dist", e.Name())); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// A release is what its documents say: an archive whose binary knows its version and commit, an SBOM of what is linked into
// it, checksums that hold; and the same commit gives the same bytes in another folder.
func TestARelease(t *testing.T) {
	dir := committed(t)
	if out, err := makeRelease(t, dir, "VERSION="+testVersion); err != nil {
		t.Fatalf("make release: %v\n%s", err, out)
	}
	name := "toolgate-" + testVersion
	folder := name + "-" + runtime.GOOS + "-" + runtime.GOARCH
	made := distOf(t, dir)
	sums := map[string]string{}
	for line := range strings.Lines(string(made["SHA256SUMS"])) {
		sum, file, _ := strings.Cut(strings.TrimSpace(line), "  ")
		sums[file] = sum
	}
	if len(made) != 3 || len(sums) != 2 {
		t.Errorf("the release has %d files and checksums of %v, want the archive, the SBOM and SHA256SUMS", len(made), sums)
	}
	for file, want := range sums {
		if got := fmt.Sprintf("%x", sha256.Sum256(made[file])); got != want {
			t.Errorf("SHA256SUMS has %s for %s, want %s", want, file, got)
		}
	}

	binary := unpacked(t, made[folder+".tar.gz"], dir, folder)
	commit := strings.TrimSpace(run(t, "git", "-C", dir, "rev-parse", "HEAD"))
	want := fmt.Sprintf("gateway %s (commit %s, %s, %s/%s)\n", testVersion, commit[:12], runtime.Version(), runtime.GOOS, runtime.GOARCH)
	if got := run(t, binary, "version"); got != want {
		t.Errorf("gateway version prints %q, want %q", got, want)
	}
	checkBill(t, made[name+".cdx.json"], dir, binary)

	again := filepath.Join(t.TempDir(), "elsewhere")
	run(t, "git", "clone", "--quiet", dir, again)
	if out, err := makeRelease(t, again, "VERSION="+testVersion); err != nil {
		t.Fatalf("make release: %v\n%s", err, out)
	}
	for file, data := range distOf(t, again) {
		if !bytes.Equal(data, made[file]) {
			t.Errorf("%s has other bytes when it is made again in another folder", file)
		}
	}
}

// unpacked is the binary of an archive that has all it should, and nothing that tells of the machine.
func unpacked(t *testing.T, archive []byte, dir, folder string) string {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		t.Fatal(err)
	}
	stamp := strings.TrimSpace(run(t, "git", "-C", dir, "log", "-1", "--format=%ct"))
	binary := filepath.Join(t.TempDir(), "gateway")
	var names []string
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, h.Name)
		if h.Uid != 0 || h.Gid != 0 || h.Uname != "" || h.Gname != "" || fmt.Sprint(h.ModTime.Unix()) != stamp {
			t.Errorf("%s is of %d:%d %q:%q at %s, want nobody's, at the commit's time", h.Name, h.Uid, h.Gid, h.Uname, h.Gname, h.ModTime)
		}
		if base := filepath.Base(h.Name); base != "gateway" {
			committed, err := os.ReadFile(filepath.Join(dir, base))
			if err != nil || !bytes.Equal(data, committed) || h.Mode != 0o644 {
				t.Errorf("%s is not that of the tree, or has mode %o: %v", h.Name, h.Mode, err)
			}
			continue
		}
		if h.Mode != 0o755 {
			t.Errorf("%s has mode %o", h.Name, h.Mode)
		}
		if err := os.WriteFile(binary, data, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{folder + "/CHANGELOG.md", folder + "/LICENSE", folder + "/README.md", folder + "/gateway"}
	if !slices.Equal(names, want) {
		t.Fatalf("the archive has %q, want %q", names, want)
	}
	return binary
}

// checkBill asserts that an SBOM names every module that is linked into a binary, and as what the gateway depends on those
// that go.mod asks for itself.
func checkBill(t *testing.T, bill []byte, dir, binary string) {
	t.Helper()
	var bom cyclonedx.BOM
	if err := cyclonedx.NewBOMDecoder(bytes.NewReader(bill), cyclonedx.BOMFileFormatJSON).Decode(&bom); err != nil {
		t.Fatal(err)
	}
	own := bom.Metadata.Component
	if own.Name != "github.com/toolgate/toolgate" || own.Version != testVersion || bom.SpecVersion != cyclonedx.SpecVersion1_6 || !strings.HasPrefix(bom.SerialNumber, "urn:uuid:") {
		t.Errorf("the SBOM is of %s %s, in version %s, with serial number %q", own.Name, own.Version, bom.SpecVersion, bom.SerialNumber)
	}
	if tools := *bom.Metadata.Tools.Components; len(tools) != 1 || tools[0].Version == "" {
		t.Errorf("the SBOM was made by %v", tools)
	}
	refs, licensed := map[string]string{}, 0 // of modules, by path and version
	for _, c := range *bom.Components {
		refs[c.Name+" "+c.Version] = c.BOMRef
		if c.Evidence != nil && c.Evidence.Licenses != nil {
			licensed++
		}
	}
	var direct []string
	for _, d := range *bom.Dependencies {
		if d.Ref == own.BOMRef {
			direct = *d.Dependencies
		}
	}
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		t.Fatal(err)
	}
	var mod struct {
		Require []struct {
			Path, Version string
			Indirect      bool
		}
	}
	if err := json.Unmarshal([]byte(run(t, "go", "-C", dir, "mod", "edit", "-json")), &mod); err != nil {
		t.Fatal(err)
	}
	asked := map[string]bool{}
	for _, r := range mod.Require {
		asked[r.Path] = !r.Indirect
	}
	found := 0
	for _, dep := range info.Deps {
		ref := refs[dep.Path+" "+dep.Version]
		if ref == "" {
			t.Errorf("the SBOM lacks %s %s", dep.Path, dep.Version)
		}
		if asked[dep.Path] {
			found++
			if !slices.Contains(direct, ref) {
				t.Errorf("by the SBOM the gateway does not depend on %s", dep.Path)
			}
		}
	}
	if found < 20 || len(refs) != len(info.Deps)+1 { // and Go's own library
		t.Errorf("the SBOM has %d modules, %d of them direct dependencies; %d are linked", len(refs), found, len(info.Deps))
	}
	if licensed < len(refs)*8/10 {
		t.Errorf("the SBOM has licences of %d among %d modules", licensed, len(refs))
	}
}

// What is not committed, or has no proper name, is not released, and nothing is built for it.
func TestAReleaseIsRefused(t *testing.T) {
	dir := committed(t)
	for _, c := range []struct {
		name, change string
		args         []string
		want         string
	}{
		{"no tag", "", nil, `VERSION is "[0-9a-f]{7,}", want a semantic version`},
		{"no v", "", []string{"VERSION=0.1.0"}, `VERSION is "0\.1\.0", want a semantic version`},
		{"a leading zero", "", []string{"VERSION=v0.01.0"}, "want a semantic version"},
		{"build metadata", "", []string{"VERSION=v0.1.0+linux"}, "without build metadata"},
		{"no platform", "", []string{"VERSION=v0.1.0", "PLATFORMS="}, "PLATFORMS is empty"},
		{"half a platform", "", []string{"VERSION=v0.1.0", "PLATFORMS=linux"}, `PLATFORMS has "linux"`},
		{"a file that is not committed", "new.go", []string{"VERSION=v0.1.0"}, `(?s)the tree is dirty.*new\.go`},
		{"a file that is changed", "README.md", []string{"VERSION=v0.1.0"}, `(?s)the tree is dirty.*README\.md`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.change != "" {
				write(t, filepath.Join(dir, c.change), "package toolgate\n")
			}
			out, err := makeRelease(t, dir, c.args...)
			if err == nil || !regexp.MustCompile(c.want).MatchString(out) {
				t.Errorf("make release %q: %v, want a fault %q\n%s", c.args, err, c.want, out)
			}
			for _, made := range []string{"bin", "dist"} {
				if _, err := os.Stat(filepath.Join(dir, made)); !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("%s was made: %v", made, err)
				}
			}
		})
	}
}
