package mcptool

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
)

// longest is how many characters the name of a tool may have for every provider.
const longest = 64

var notInNames = regexp.MustCompile(`[^a-zA-Z0-9_-]`)

// plainName is prefix and id in the characters that a name may have. A name that would be too long is cut and ends in a
// part of its hash, so that it is the same each time and another one for each tool.
func plainName(prefix, id string) string {
	name := notInNames.ReplaceAllString(prefix+id, "_")
	if len(name) > longest {
		return hashed(prefix, id)
	}
	return name
}

// hashed is the name with a part of its hash at its end, cut where need be.
func hashed(prefix, id string) string {
	sum := sha256.Sum256([]byte(prefix + id))
	end := "_" + hex.EncodeToString(sum[:4])
	name := notInNames.ReplaceAllString(prefix+id, "_")
	return name[:min(len(name), longest-len(end))] + end
}

// names gives each id its name. Where several would have the same, such as a.b and a_b, the one that is its own name
// keeps it and the others get a part of their hash.
func names(prefix string, ids []string) []string {
	taken := map[string]int{}
	for _, id := range ids {
		taken[plainName(prefix, id)]++
	}
	list := make([]string, len(ids))
	for i, id := range ids {
		list[i] = plainName(prefix, id)
		if taken[list[i]] > 1 && list[i] != prefix+id {
			list[i] = hashed(prefix, id)
		}
	}
	return list
}
