package main

import (
	"runtime/debug"
	"testing"
)

func TestCommitOfABinary(t *testing.T) {
	const revision = "0123456789abcdef0123456789abcdef01234567"
	for name, c := range map[string]struct {
		settings []debug.BuildSetting
		want     string
	}{
		"a build outside of a clone has none": {[]debug.BuildSetting{{Key: "GOOS", Value: "linux"}}, ""},
		"it is shortened":                     {[]debug.BuildSetting{{Key: "vcs.revision", Value: revision}, {Key: "vcs.modified", Value: "false"}}, "0123456789ab"},
		"changes are not hidden":              {[]debug.BuildSetting{{Key: "vcs.modified", Value: "true"}, {Key: "vcs.revision", Value: revision}}, "0123456789ab with changes"},
		"a short one stays":                   {[]debug.BuildSetting{{Key: "vcs.revision", Value: "12"}}, "12"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := commit(c.settings); got != c.want {
				t.Errorf("commit() = %q, want %q", got, c.want)
			}
		})
	}
}
